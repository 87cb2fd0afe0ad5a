"""Tests the machine that is derived for a log without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batchcast.errors import InputError
from batchcast.events.machine_size import machine_of_log
from batchcast.table import LogInfo, Trace


def log(**columns: list[object]) -> Trace:
    count = len(next(iter(columns.values())))
    return Trace.from_arrays({"submit_time": [0.0] * count, "run_time": [10.0] * count, **columns})


def test_each_partition_has_the_nodes_that_its_jobs_held_at_once() -> None:
    jobs = log(req_procs=[64, 32, 12], req_nodes=[2, 1, 3], partition_id=["cpu", "cpu", "gpu"])
    machine = machine_of_log(jobs)
    assert {p.name: len(p.nodes) for p in machine.partitions} == {"cpu": 3, "gpu": 3}
    assert [group.cpus for group in machine.nodes] == [32, 4]
    assert [p.name for p in machine.partitions if p.default] == ["cpu"]
    assert not set(machine.partitions[0].nodes) & set(machine.partitions[1].nodes)


def test_a_header_with_processors_and_nodes_tells_the_machine() -> None:
    info = LogInfo(max_procs=1152.0, header={"MaxProcs": "1152", "MaxNodes": "144"})
    machine = machine_of_log(Trace.from_arrays({"submit_time": [0.0], "run_time": [9.0], "req_procs": [3]}, info))
    assert (len(machine.node_names()), machine.nodes[0].cpus) == (144, 8)


def test_without_nodes_most_work_asks_for_whole_ones() -> None:
    assert machine_of_log(log(req_procs=[48] * 20 + [1])).nodes[0].cpus == 48
    assert machine_of_log(log(req_procs=[48, 32, 16, 16])).nodes[0].cpus == 16
    assert machine_of_log(log(req_procs=[7, 5, 3])).nodes[0].cpus == 1


def test_a_stray_job_of_a_fat_node_does_not_make_all_nodes_fat() -> None:
    jobs = log(req_procs=[64] * 200 + [128], req_nodes=[2] * 200 + [1])
    assert machine_of_log(jobs).nodes[0].cpus == 32


def test_a_log_without_processors_teaches() -> None:
    with pytest.raises(InputError, match="no job has a number of processors"):
        machine_of_log(log(user_id=[1, 2]))


def test_partitions_that_overlap_share_a_machine_of_the_size_that_is_stated() -> None:
    """Two partitions each used 64 processors at different times: with --procs-total 64 they share the same nodes."""
    log = Trace.from_arrays(
        {
            **{"submit_time": [0.0, 100.0], "wait_time": [0.0, 0.0], "run_time": [50.0, 50.0]},
            **{"req_procs": [64, 64], "req_nodes": [2, 2], "partition_id": ["cpu", "long"]},
        }
    )
    assert machine_of_log(log).cpus == 128
    stated = machine_of_log(log.with_info(replace(log.info, max_procs=64.0, max_procs_source="--procs-total")))
    assert stated.cpus == 64
    assert [part.nodes for part in stated.partitions] == [("node-1", "node-2")] * 2
