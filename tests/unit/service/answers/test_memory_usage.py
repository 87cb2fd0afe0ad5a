"""Tests suggested memory by account: the requests per day, and the memory that they would have saved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.evaluation.limits import MemoryLimits, limit_rows
from batchcast.service.answers.advice import Rules
from batchcast.service.answers.usage import _cost, _measured, memory_advice
from batchcast.store.packed import Packed
from batchcast.table import Trace
from batchcast.table.memory import MemoryUse

GIB, DAY_S = 1024.0**2, 86400.0
NODE = {"site": {"partitions": {"main": {"node_mem_kib": 64 * GIB}}}}


def job(day: float, held: float, asked: float = 10.0, **more: Any) -> dict[str, Any]:
    """A job of one hour on one node; memory in GiB."""
    at = day * DAY_S
    return {
        "user_id": "ada", "account": "physics", "partition_id": "main", "job_name": "relax", "submit_time": at,
        "start_time": at + 60, "end_time": at + 3660, "status": "completed", "req_time": 7200.0, "req_procs": 4.0,
        "alloc_procs": 4.0, "alloc_nodes": 1.0, "used_mem_kib": held * GIB, "req_mem_kib": asked * GIB,
        "req_nodes": 1.0, **more,
    }  # fmt: skip


def advised(rows: list[dict[str, Any]], least: int = 1) -> list[dict[str, Any]]:
    return [one for one in memory_advice(Packed(rows), NODE, Rules(), least) if one["tells"]]


def test_what_is_spared_counts_from_the_day_on_which_it_was_known() -> None:
    rows = [job(1.0 + k / 100, 1.0 + k / 100) for k in range(40)] + [job(2.1, 1.2)] * 5
    (found,) = advised(rows)
    # the 39th of 40 jobs, 1.38 GiB, plus a tenth: 1,554 MiB, rounded up to 1,600; on the first day jobs keep their 10
    # GiB
    assert found["flag"] == "--mem=1600M"
    assert found["by_request_gib_h"] == pytest.approx(450.0)
    assert found["gib_h"] == pytest.approx(5 * (10.0 - 1600 / 1024))
    assert (found["account"], found["name"], found["jobs"], found["ran_out_rate"]) == ("physics", "relax", 45, 0.0)
    assert found["asked_kib"] == 10 * GIB


def test_a_job_that_runs_out_under_the_advice_pays_for_both_attempts() -> None:
    rows = [job(1.0, 1.0)] * 30 + [job(2.1, 3.0, run := 10.0)] + [job(2.1, 1.0)] * 3
    (found,) = advised(rows)
    ask = 1200 / 1024
    assert found["gib_h"] == pytest.approx(4 * run - (ask + run) - 3 * ask)


def test_who_runs_out_often_is_shown_although_it_spares_nothing() -> None:
    short = job(1.0, 2.0, 2.0, status="out_of_memory")
    (found,) = advised([short] * 3 + [job(1.0, 1.5, 2.0)] * 5)
    assert found["ran_out_rate"] == pytest.approx(3 / 8)
    assert found["ask_kib"] > 2 * GIB
    assert advised([job(1.0, 1.5, 2.0)] * 8) == [], "little to spare is no advice"


def test_what_costs_more_counts_too() -> None:
    rows = [job(1.0, 1.0, 2.0)] * 30 + [job(2.1, 2.0, 2.0)] * 20
    (found,) = memory_advice(Packed(rows), NODE, Rules(), 1)
    assert not found["tells"]
    assert found["gib_h"] == pytest.approx(-20 * 1200 / 1024)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [job(1.0 + k, 10.0) for k in range(30)],  # a copy of the request is no measurement
        [job(1.0 + k, 1.0) for k in range(4)],
        [job(1.0 + k, 1.0, req_mem_kib=None) for k in range(30)],
    ],
)  # fmt: skip
def test_no_advice_from_nothing(rows: list[dict[str, Any]]) -> None:
    assert advised(rows) == []


def test_where_jobs_are_private_it_is_of_five_users_and_has_two_digits() -> None:
    users = [[job(1.0 + k, 1.234, user_id=f"u{j}") for k in range(30)] for j in range(5)]
    assert advised([row for one in users[:4] for row in one], least=5) == []
    (found,) = advised([row for one in users for row in one], least=5)
    assert (found["users"], found["held_kib"]) == (5, 1_300_000.0)
    for name, value in found.items():
        if isinstance(value, float) and name != "ask_kib":
            assert float(f"{value:.1e}") == value
    assert found["ask_kib"] >= 1.234 * 1.1 * GIB, "a request is never rounded below what is needed"


AMOUNTS = st.integers(1, 60).map(float)  # exact in any unit


@given(
    st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS, st.booleans(), st.sampled_from([1.0, 3.0])), min_size=1, max_size=20)
)
def test_a_request_costs_what_it_costs_in_limits_memory(jobs: list[tuple[float, float, float, bool, float]]) -> None:
    """The measure equals the measure of `batchcast limits LOG --memory`."""
    rows = []
    for asked, held, _, out, nodes in jobs:
        kib = {"used_mem_kib": held * GIB * nodes, "req_mem_kib": asked * GIB * nodes}
        status = "out_of_memory" if out else "completed"
        rows.append(job(1.0, held, asked, **kib, alloc_nodes=nodes, req_nodes=nodes, status=status))
    measured = _measured(rows)  # all jobs end at the same instant, so they are learned in the given order
    ours = sum(_cost(row, one[2] * GIB) for row, one in zip(measured, jobs))
    asked, held, request, ended, nodes = (np.array(column) for column in zip(*jobs))
    run = np.full(len(jobs), 3600.0)
    trace = Trace.from_arrays({"submit_time": np.arange(len(jobs)) * 1.0, "run_time": run, "wait_time": run * 0})
    use = MemoryUse("node", asked * GIB, held * GIB, ended.astype(bool), math.nan, 0)
    limits = {"advice": request * 1024.0, "own": asked * 1024.0}
    known = MemoryLimits(trace, use, nodes, limits, np.full(len(jobs), True), math.inf)
    theirs = {row["limits"]: row["spent_gib_h"] for row in limit_rows(known)}
    assert ours == pytest.approx(theirs["advice"])
    assert sum(_cost(row, row.request_kib) for row in measured) == pytest.approx(theirs["own"])
