"""Tests jobs placed with a memory amount other than requested: which jobs fit together, and which fail and run
again."""

from __future__ import annotations

import numpy as np
import pytest

from batchcast.machines.machine import homogeneous
from batchcast.simulation.on_nodes import MemoryPlan, QueuePlan, plan_of, simulate_on
from batchcast.table import Trace

MIB = 1024.0
MACHINE = homogeneous(1, 4, 4000.0, SelectTypeParameters="CR_Core_Memory", SelectType="select/cons_tres")
"""One node: four jobs fit by its processors, one job by its requested memory."""


def log() -> Trace:
    return Trace.from_arrays(
        {
            "submit_time": np.arange(4.0),
            "run_time": [600.0] * 4,
            "req_time": [900.0] * 4,
            "req_procs": [1] * 4,
            "req_mem_kib": [3000 * MIB] * 4,
            "used_mem_kib": [500 * MIB] * 4,
            "user_id": ["ada"] * 4,
        }
    )


def plan(first: float, second: list[float]) -> MemoryPlan:
    return MemoryPlan(np.full(4, first), np.array(second))


NONE = [np.nan] * 4


def test_jobs_wait_for_memory_they_do_not_need_and_do_not_where_they_ask_less() -> None:
    now, then = simulate_on(MACHINE, log()), simulate_on(MACHINE, log(), queue=QueuePlan(plan(1000.0, NONE)))
    assert now.start_time[3] >= 1800.0
    assert then.start_time.max() < 60.0
    assert then.rows.tolist() == [0, 1, 2, 3]


def test_one_that_runs_out_is_run_again_after_its_end_with_what_the_plan_gives() -> None:
    then = simulate_on(MACHINE, log(), queue=QueuePlan(plan(1000.0, [np.nan, 3000.0, np.nan, np.nan])))
    assert then.rows.tolist() == [0, 1, 2, 3]
    others = then.start_time[[0, 2, 3]]
    assert others.max() < 60.0
    assert then.start_time[1] >= 600.0
    assert then.run_time[1] == 600.0
    assert sum(then.left_out.values()) == 0


def test_a_job_that_could_not_run_as_asked_is_left_out_so_that_the_same_jobs_run() -> None:
    fat = log().with_columns({"req_mem_kib": np.array([9000.0, 3000.0, 3000.0, 3000.0]) * MIB})
    now, then = simulate_on(MACHINE, fat), simulate_on(MACHINE, fat, queue=QueuePlan(plan(1000.0, NONE)))
    assert now.rows.tolist() == then.rows.tolist() == [1, 2, 3]
    assert then.left_out["with their requested memory they do not fit the machine"] == 1


def test_a_second_attempt_that_fits_nowhere_leaves_its_job_out_and_is_counted() -> None:
    then = simulate_on(MACHINE, log(), queue=QueuePlan(plan(1000.0, [np.nan, 9000.0, np.nan, np.nan])))
    assert then.rows.tolist() == [0, 2, 3]
    assert then.left_out["never started: no node, limit or reservation lets it"] == 1


@pytest.mark.parametrize(
    ("advised", "peak", "asked", "undecided", "first", "second"),
    [
        (4.0, 3.0, 16.0, False, 4.0, np.nan),
        (4.0, 5.0, 16.0, False, 4.0, 16.0),
        (4.0, 20.0, 16.0, False, 4.0, 32.0),
        (4.0, 5.0, np.nan, False, 4.0, 8.0),
        (4.0, np.nan, 16.0, False, np.nan, np.nan),
        (4.0, 16.0, 16.0, True, 4.0, np.nan),
    ],
)
def test_who_runs_out_and_what_is_asked_then(advised, peak, asked, undecided, first, second) -> None:
    made = plan_of(*(np.array([value]) for value in (advised, peak, asked, undecided)), np.array([0.5]))
    assert np.array_equal(made.first, [first * 0.5], equal_nan=True)
    assert np.array_equal(made.second, [second * 0.5], equal_nan=True)
    row = np.array([0])
    assert made.out_of_memory(row) == int(second == second)
    assert made.unmeasured(row) == int(peak != peak)
