"""Tests hours that are closed to long jobs: hours that a simulated Slurm kept free are found, and none if it kept none
free."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.implied import shut

from batchcast.machines.machine import Reservation, homogeneous
from batchcast.simulation.learned import fit as hours
from batchcast.simulation.learned.caps import Queue
from batchcast.simulation.learned.fit import HOUR_S, WEEK_S, closed_hours, kept_until, shut_hours
from batchcast.simulation.on_nodes import simulate_on
from batchcast.table import Trace

NODES, WEEKS = 16, 20


def recorded(seed: int, kept: tuple[Reservation, ...]) -> Queue:
    """A machine at three quarters of its capacity, where a third of the jobs request six hours or more."""
    rng = np.random.default_rng(seed)
    jobs = 9000
    limit = rng.choice([0.5, 1.0, 3.0, 6.0, 10.0], jobs, p=[0.3, 0.3, 0.2, 0.1, 0.1]) * HOUR_S
    run, size = np.round(limit * rng.uniform(0.2, 1.0, jobs)), rng.choice([1, 2, 3, 4], jobs)
    run *= 0.7 * NODES * WEEKS * WEEK_S / (run * size).sum()
    submit = np.sort(np.round(rng.uniform(0.0, WEEKS * WEEK_S, jobs)))
    log = Trace.from_arrays(
        {"submit_time": submit, "run_time": np.minimum(run, limit), "req_procs": size, "req_time": limit}
    )
    machine = replace(homogeneous(NODES, 1, SchedulerType="sched/backfill"), reservations=kept)
    start = submit + simulate_on(machine, log).wait_time
    return Queue(submit, start, start + log.run_time, log.procs(), limit, float(NODES))


def by_day(until: float = np.inf) -> tuple[Reservation, ...]:
    nodes = homogeneous(NODES, 1).node_names()
    span = (8 * HOUR_S - WEEK_S, 18 * HOUR_S - WEEK_S)
    days = (tuple(at + day * 86400.0 for at in span) for day in range(5))
    return tuple(
        Reservation(f"day-{k}", nodes, a, b, ("nobody",), (), ("WEEKLY",), 3 * HOUR_S, until)
        for k, (a, b) in enumerate(days)
    )


@pytest.mark.parametrize("seed", range(3))
def test_closed_hours_are_found_to_a_quarter_of_an_hour_and_none_is_invented(seed: int) -> None:
    found = closed_hours(recorded(seed, by_day()))
    assert [each.limit for each in found] == [4 * HOUR_S] * 5  # the smallest of the round limits that shows it
    for day, each in enumerate(found):
        assert each.end == pytest.approx(day * 86400.0 + 18 * HOUR_S, abs=900.0)
        assert abs(each.begin - day * 86400.0 - 8 * HOUR_S) <= HOUR_S
        assert each.weeks > 9 * each.against
    assert closed_hours(recorded(seed, ())) == []


def test_the_week_in_which_they_were_given_up_is_read_off_the_record() -> None:
    queue = recorded(1, by_day(until=12 * WEEK_S))
    early = queue.submit < 11 * WEEK_S
    first = Queue(*(getattr(queue, name)[early] for name in ("submit", "start", "end", "size", "limit")), NODES)
    found = closed_hours(first)
    assert len(found) == 5
    assert kept_until(first, found) == np.inf
    assert kept_until(queue, found) == pytest.approx(12 * WEEK_S, abs=WEEK_S)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6))
def test_closed_hours_are_those_of_the_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = 30
    submit = np.sort(rng.uniform(0, 3 * WEEK_S, jobs))
    start = submit + rng.choice([0.0, 5.0, 40.0], jobs) * HOUR_S
    queue = Queue(submit, start, start + rng.integers(1, 20, jobs) * HOUR_S, np.ones(jobs), np.ones(jobs), 6.0)
    long = rng.random(jobs) < 0.5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hours, "LEAST_WEEKS", 1)
        patch.setattr(hours, "LEAST_ROOMY", 1)
        assert shut_hours(queue, long)[2].tolist() == (shut(queue, long) if long.any() else [False] * 168)
