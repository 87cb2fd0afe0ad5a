"""Tests that a request that can never start is reported before submission: a portal shows no time for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from batchcast.errors import UsageError
from batchcast.formats.slurm.sbatch import Request
from batchcast.job import as_submitted
from batchcast.machines.machine import Machine, NodeGroup, Partition, Qos
from batchcast.service.answers.disclosure import Site
from batchcast.service.answers.forecaster import never_starts, too_large

MAIN = {
    "procs": 16.0,
    "node_procs": 4.0,
    "node_mem_kib": 4000.0 * 1024,
    "max_time_s": 86400.0,
    "nodes": 4.0,
    "max_nodes": 2.0,
}
SITE = {"total_procs": 16.0, "site": {"partitions": {"main": MAIN, "bare": {}}}}


def said(partition: str = "main", cpus: str = "1", **asked: Any) -> str:
    values = {"job_id": "1", "submit_time": 0.0, "req_nodes": 1.0, "partition_id": partition, **asked}
    job = as_submitted(-1, values, procs=float(asked.get("req_procs", 1.0)))
    return too_large(cast(Site, SimpleNamespace(memory=SITE)), Request({"cpus-per-task": cpus}), job)


@pytest.mark.parametrize(("asked", "why"), [
    ({"req_procs": 16.0, "req_mem_kib": 4000.0 * 1024, "req_time": 86400.0, "cpus": "4"}, ""),
    ({"req_procs": 17.0}, "larger than main: it has 16 processors"),
    ({"req_procs": 17.0, "partition": "bare"}, "larger than bare: it has 16 processors"),
    ({"req_procs": 8.0, "cpus": "8"}, "no node of main has 8 processors for one task (the most: 4)"),
    ({"req_procs": 8.0, "cpus": "8", "partition": "bare"}, ""),
    ({"req_mem_kib": 8000.0 * 1024}, "no node of main has so much memory (the most: 4000M)"),
    ({"req_mem_kib": 8000.0 * 1024, "req_nodes": 2.0}, ""),
    ({"req_nodes": 2.0}, ""),
    ({"req_nodes": 3.0}, "more nodes than main gives a job (the most: 2)"),
    ({"req_time": 86401.0}, "longer than main allows (1-00:00:00)"),
])  # fmt: skip
def test_what_no_node_or_partition_can_hold_never_starts(asked: dict[str, Any], why: str) -> None:
    assert said(**asked) == why


MACHINE = Machine(
    (NodeGroup(("a1", "a2"), 4, features=("ib", "avx")), NodeGroup(("g1",), 4, features=("gpu",))),
    (Partition("main", ("a1", "a2")),),
    (Qos("normal"), Qos("high")),
)


def test_where_nothing_is_known_of_the_machine_a_thousand_million_processors_never_start() -> None:
    asked = {"job_id": "1", "submit_time": 0.0, "req_nodes": 1.0, "partition_id": "main"}
    unknown = cast(Site, SimpleNamespace(memory={}))
    why = "no machine has 999,999,999 processors"
    assert too_large(unknown, Request({}), as_submitted(-1, asked, procs=999_999_999.0)) == why
    assert too_large(unknown, Request({}), as_submitted(-1, asked, procs=1e7)) == ""


def never(**options: str) -> str:
    job = as_submitted(-1, {"job_id": "1", "submit_time": 0.0, "partition_id": "main"}, procs=1.0)
    return never_starts(cast(Site, SimpleNamespace(memory=SITE)), Request(options), job, MACHINE)


@pytest.mark.parametrize(("constraint", "why"), [
    ("", ""),
    ("ib&avx", ""),
    ("[ib*1&avx*2]", ""),
    ("gpu|ib", ""),
    ("gpu", "no node of main has the feature 'gpu' (there are: avx, ib)"),
    ("ib|tape", "no node has the feature 'tape' (there are: avx, gpu, ib)"),
])  # fmt: skip
def test_a_feature_that_no_node_has_never_lets_a_job_start(constraint: str, why: str) -> None:
    assert never(constraint=constraint) == why


def test_an_unknown_qos_is_refused_with_those_that_exist() -> None:
    assert never(qos="high") == ""
    with pytest.raises(UsageError, match=r"no QOS 'nosuch' \(accepted: high, normal\)"):
        never(qos="nosuch")


@pytest.mark.parametrize(("options", "why"), [
    ({"gpus": "a100:2"}, ""),
    ({"gres": "gpu:A100:1"}, ""),
    ({"gpus-per-node": "2"}, ""),
    ({"gpus": "h100"}, "no node of cards has GPUs of the type 'h100' (there are: a100, v100)"),
    ({"gpus": "6"}, ""),
    ({"gpus": "7"}, "more GPUs than cards has (the most: 6)"),
    ({"gpus": "v100:3"}, "more GPUs than cards has (the most: 2)"),
    ({"gres": "gpu:5"}, "no node of cards has 5 GPUs (the most: 4)"),
    ({"gpus": "1", "partition": "plain"}, "no node of plain has GPUs"),
])  # fmt: skip
def test_a_type_of_gpu_that_no_node_has_never_lets_a_job_start(options: dict[str, str], why: str) -> None:
    nodes = (
        NodeGroup(("g1",), 4, gres={"gpu:a100": 4}),
        NodeGroup(("g2",), 4, gres={"gpu:v100": 2}),
        NodeGroup(("n1",), 4),
    )
    machine = Machine(nodes, (Partition("cards", ("g1", "g2")), Partition("plain", ("n1",))))
    asked = {"partition_id": options.get("partition", "cards"), "req_nodes": 1.0}
    job = as_submitted(-1, {"job_id": "1", "submit_time": 0.0, **asked}, procs=1.0)
    assert never_starts(cast(Site, SimpleNamespace(memory={})), Request(options), job, machine) == why
