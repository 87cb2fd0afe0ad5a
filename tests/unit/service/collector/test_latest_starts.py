"""Tests the latest start times that time limits imply: in order of priority, on available nodes, outside
reservations."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from batchcast.machines.machine import POLICIES, Machine, NodeGroup, Partition, Reservation, homogeneous
from batchcast.machines.request import NodeRequest
from batchcast.schedule.slurm.simulate import simulate_slurm
from batchcast.service.answers.start import with_margin
from batchcast.service.collector.machine import latest_starts

NODES = ("n1", "n2", "n3", "n4")
BOTH = (Partition("main", NODES, max_time=7 * 86400.0), Partition("short", NODES[2:], max_time=3600.0))
NOW = 1000.0


def machine(*reservations: Reservation, parts: tuple[Partition, ...] = BOTH) -> Machine:
    """Four nodes of four processors; the partition `short` has two of them."""
    return Machine((NodeGroup(NODES, cpus=4),), parts, reservations=reservations)


def job(
    row: int, procs: float = 4.0, limit: float = 600.0, priority: float | None = 100.0, **more: Any
) -> dict[str, Any]:
    """Return a waiting job, or a running job if `start_time` and `node_list` are given."""
    blank = {"start_time": None, "node_list": None, "alloc_procs": None, "reason": "Priority", "exclusive": None,
             "partition_list": None, "partition_id": "main", "req_nodes": 1.0, "req_time": limit,
             "submit_time": 0.0}  # fmt: skip
    return {**blank, "row": row, "req_procs": procs, "limit_now": limit, "priority": priority, **more}


def runs(row: int, node: str, limit: float, **more: Any) -> dict[str, Any]:
    return job(row, limit=limit, start_time=NOW, node_list=node, **more)


FULL = [runs(10 + k, node, 1000.0 * (k + 1)) for k, node in enumerate(NODES)]
"""n1 is busy until 2000, n2 until 3000, n3 until 4000, n4 until 5000."""


def bounds(*jobs: dict[str, Any], on: Machine | None = None, away: tuple[str, ...] = ()) -> dict[int, float]:
    return latest_starts(jobs, {}, machine() if on is None else on, away, NOW).jobs


def test_only_the_jobs_in_front_count() -> None:
    """Regression: for the first job of the queue, a day was computed, because all work on the machine was counted."""
    week = 7 * 86400.0
    found = bounds(*FULL, job(1, priority=300.0), job(2, limit=week), job(3, limit=week), job(4, priority=50.0))
    assert found == {1: 2000.0, 2: 2000.0 + 600.0, 3: 3000.0, 4: 4000.0}


def test_a_job_waits_for_whole_nodes_and_not_for_as_many_processors() -> None:
    scattered = [runs(10 + k, node, 1000.0 * (k + 1), alloc_procs=1.0) for k, node in enumerate(NODES)]
    assert bounds(*scattered, job(1)) == {1: 2000.0}  # 12 processors are free, but no whole node is
    assert bounds(*scattered, job(1, procs=2.0, exclusive=1.0)) == {1: 2000.0}
    assert bounds(*scattered, job(1, procs=2.0)) == {1: NOW}


def test_partitions_that_share_nodes_and_their_tiers() -> None:
    wide = job(1, procs=16.0, req_nodes=4.0, limit=5000.0)
    assert bounds(*FULL, wide, job(2, partition_id="short", priority=200.0)) == {1: 5000.0, 2: 4000.0}
    assert bounds(*FULL, wide, job(2, partition_id="short", priority=50.0)) == {1: 5000.0, 2: 10_000.0}
    first = (BOTH[0], Partition("short", NODES[2:], max_time=3600.0, priority_tier=2))
    assert bounds(*FULL, wide, job(2, partition_id="short", priority=50.0), on=machine(parts=first))[2] == 4000.0


def test_drained_nodes_run_nothing() -> None:
    found = latest_starts([*FULL[1:], job(1), job(2, procs=16.0, req_nodes=4.0)], {}, machine(), ("n1",), NOW)
    assert found.jobs == {1: 3000.0, 2: math.inf}
    assert found.new["main"] == (5000.0, 12.0)


def test_no_job_runs_into_a_maintenance() -> None:
    power = machine(Reservation("power", NODES, 2500.0, 9000.0))
    assert bounds(*FULL, job(1, limit=400.0), on=power) == {1: 2000.0}
    assert bounds(*FULL, job(1, limit=600.0), on=power) == {1: 9000.0}
    half = machine(Reservation("half", NODES[:2], 2500.0, 9000.0))
    assert bounds(*FULL, job(1, limit=600.0), on=half) == {1: 4000.0}


def test_a_job_that_is_submitted_now_comes_after_all() -> None:
    found = latest_starts([*FULL, job(1, priority=1.0), job(2, limit=7000.0)], {}, machine(), (), NOW)
    assert found.new["main"] == (9000.0, 16.0)
    assert found.stored(NOW)["jobs"] == {"1": 3000, "2": 2000}


def test_held_by_an_administrator_is_not_in_front_and_unknown_priorities_put_all_in_front() -> None:
    assert bounds(*FULL, job(1, priority=200.0, reason="JobHeldAdmin"), job(2)) == {2: 2000.0}
    assert set(bounds(*FULL, job(1, priority=None), job(2)).values()) == {5000.0}


def test_without_a_machine_all_jobs_run_first() -> None:
    site = {"partitions": {"main": {"procs": 16.0}}}
    found = latest_starts([*FULL, job(1), job(2, limit=math.inf, partition_id="other")], site, None, (), NOW)
    assert found.new["main"][0] == math.inf
    found = latest_starts([*FULL, job(1, limit=9000.0)], site, None, (), NOW)
    assert (found.jobs, found.new["main"]) == ({}, (11_000.0, 16.0))


SIZES = st.sampled_from([(1, 1), (1, 2), (1, 4), (2, 6), (2, 8), (3, 12), (4, 16)])
"""Nodes and processors."""
QUEUE = st.lists(st.tuples(SIZES, st.integers(1, 24), st.floats(0.05, 1)), min_size=1, max_size=25)


@given(QUEUE)
def test_slurms_two_loops_start_no_job_later(queue: list[tuple[tuple[int, int], int, float]]) -> None:
    """Jobs of 10 min to 4 h by their limits, in order of arrival, that run for a share of them."""
    wanted = [
        NodeRequest(str(k), 0.0, share * 600.0 * limit, 600.0 * limit, "ada", partitions=("all",), min_nodes=nodes,
                    max_nodes=nodes, tasks=procs)
        for k, ((nodes, procs), limit, share) in enumerate(queue)
    ]  # fmt: skip
    on = homogeneous(4, 4, **POLICIES["backfill"])
    waiting = [
        job(k, procs=float(procs), limit=600.0 * limit, req_nodes=float(nodes), partition_id="all", priority=100.0 - k)
        for k, ((nodes, procs), limit, _) in enumerate(queue)
    ]
    latest = latest_starts(waiting, {}, on, (), 0.0).jobs
    starts = {int(key): start for (key, _), start in simulate_slurm(on, wanted).starts().items()}
    late = {k: (start, latest[k]) for k, start in starts.items() if start > with_margin(latest[k], 0.0)}
    assert not late
    assert set(starts) == set(latest)
