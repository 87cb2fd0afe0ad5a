"""Tests waiting time by cause: the fast sums equal the slow ones, and add up to the recorded waits."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.implied import seconds

from batchcast.machines.machine import homogeneous
from batchcast.simulation.learned.caps import Queue
from batchcast.simulation.learned.causes import KINDS, SHORTER, by_cause, wait_hours
from batchcast.simulation.on_nodes import simulate_on
from batchcast.table import Trace


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 25))
def test_each_second_has_the_cause_that_the_slow_twin_gives_it(seed: int, jobs: int) -> None:
    rng = np.random.default_rng(seed)
    submit = rng.integers(0, 20, jobs) * 1.0
    start = submit + rng.choice([0.0, 3.0, 9.0, 30.0], jobs)
    queue = Queue(
        submit, start, start + rng.integers(1, 30, jobs), rng.integers(1, 5, jobs) * 1.0,
        rng.choice([5.0, 50.0, np.nan], jobs), 8.0,
    )  # fmt: skip
    place, simulated = rng.integers(0, 2, jobs), submit + rng.choice([0.0, 3.0, 7.0, 40.0, np.nan], jobs)
    judged = rng.random(jobs) < 0.8
    found = by_cause(queue, place, simulated, judged)
    np.testing.assert_allclose(found, seconds(queue, place, simulated, judged), atol=1e-9)
    recorded = np.where(judged, start - submit, 0.0)
    np.testing.assert_allclose(found[:, : len(SHORTER)].sum(axis=1), recorded, atol=1e-9)


def test_a_record_that_the_simulation_made_is_explained_whole() -> None:
    rng = np.random.default_rng(3)
    log = Trace.from_arrays(
        {
            "submit_time": np.sort(rng.integers(0, 20_000, 200)),
            "wait_time": np.zeros(200),
            "run_time": rng.integers(60, 3600, 200),
            "req_time": np.full(200, 3600),
            "req_procs": rng.integers(1, 16, 200),
        }
    )
    machine = homogeneous(2, 16, SchedulerType="sched/backfill")
    schedule = simulate_on(machine, log)
    log = log.with_columns({"wait_time": schedule.wait_time})
    causes = {cause.kind: cause for cause in wait_hours(log, machine, schedule, np.ones(200, bool))}
    assert list(causes) == list(KINDS)
    assert causes["explained"].wait_hours > 0
    assert causes["explained"].share == 1.0
    later = log.with_columns({"wait_time": schedule.wait_time + np.where(np.arange(200) == 150, 50_000.0, 0.0)})
    causes = {cause.kind: cause for cause in wait_hours(later, machine, schedule, np.arange(200) >= 100)}
    assert causes["room"].wait_hours > 5.0
    assert causes["explained"].jobs <= 100
