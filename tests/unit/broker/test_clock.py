"""Tests the grid's clock on examples worked out by hand, and that it loses no job."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.broker.quick import QUICK

from batchcast.broker.clock import (
    ASSIGNED,
    DROPPED,
    LATE,
    NO_RESOURCE,
    RAN_LATE,
    STOPPED,
    TOO_TIGHT,
    MappingRule,
    simulate,
)
from batchcast.broker.model import Jobs, Model, Plan, Resources, Setting, Units, draw_jobs
from batchcast.broker.preference import ByPreference
from batchcast.errors import InputError, UsageError
from batchcast.predict.registry import make


@dataclass(frozen=True, slots=True)
class Matrix:
    """Given expected times, one row per job and one column per resource, with the interface of `Model`."""

    times: np.ndarray

    def rows(self, jobs: np.ndarray) -> np.ndarray:
        """Return the rows of the given jobs."""
        return np.asarray(self.times[jobs])


def jobs(arrival, deadline):
    n = len(arrival)
    return Jobs(
        [str(k) for k in range(n)], np.ones(n), np.zeros(n), np.array(arrival, float), np.array(deadline, float)
    )


def grid(m=1):
    return Resources([f"r{k}" for k in range(m)], np.ones(m), np.ones(m), np.zeros(m))


class InOrder:
    """Places every job, by arrival, on the first resource; deadlines do not count."""

    deadlines = False

    def assign(self, batch):
        n = len(batch.times)
        return Plan(np.arange(n), np.zeros(n, dtype=np.int64))


def run(arrival, deadline, times, heuristic, shape):
    times = np.array(times, float)
    return simulate(jobs(arrival, deadline), grid(times.shape[1]), Matrix(times), heuristic, shape)


def test_two_jobs_on_one_resource_at_events():
    #  r0 |0 0 0|1 1|        job 0 of 3 arrives at 0, job 1 of 2 at 1 and waits until 3
    outcome = run([0, 1], [9, 9], [[3], [2]], InOrder(), MappingRule(None))
    assert outcome.start.tolist() == [0, 3]
    assert outcome.finish.tolist() == [3, 5]
    assert outcome.assigned == 2


def test_mapping_every_t_waits_for_the_tick():
    outcome = run([0.1, 0.6], [9, 9], [[1], [1]], InOrder(), MappingRule(0.5))
    assert outcome.start.tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("late", "code", "finish", "instant", "next_start"),
    [("run", RAN_LATE, 6, 6, 6), ("stop", STOPPED, 4, 4, 4), ("drop", DROPPED, np.nan, 3, 3)],
)
def test_a_late_job_runs_on_stops_or_is_dropped(late, code, finish, instant, next_start):
    #  r0 |0 0 0|1 1 1|2 where job 1 is due at 4 and would end at 6
    outcome = run([0, 0, 0], [9, 4, 99], [[3], [3], [1]], InOrder(), MappingRule(None, late=late))
    assert outcome.outcome.tolist() == [ASSIGNED, code, ASSIGNED]
    assert outcome.finish[1] == pytest.approx(finish, nan_ok=True)
    assert outcome.instant[1] == instant
    assert outcome.start[2] == next_start


def test_remapping_lets_a_pressing_newcomer_overtake():
    #  at 0 both jobs are assigned to the only resource; at 1 a job with deadline 5 arrives
    arrival, due, times = [0, 0, 1], [99, 99, 5], [[3], [8], [1]]
    assert run(arrival, due, times, ByPreference(0.0), MappingRule(None)).outcome[2] == NO_RESOURCE
    remapped = run(arrival, due, times, ByPreference(0.0), MappingRule(None, remap=True))
    assert remapped.outcome.tolist() == [ASSIGNED] * 3
    assert remapped.start.tolist() == [0, 4, 3]


def test_a_hopeless_deadline_has_its_own_reason_and_instant():
    outcome = run([2, 2], [3, 9], [[5], [1]], ByPreference(0.0), MappingRule(None))
    assert outcome.outcome.tolist() == [TOO_TIGHT, ASSIGNED]
    assert outcome.instant[0] == 2


@given(
    st.integers(0, 10**6),
    st.sampled_from(sorted(QUICK)),
    st.sampled_from([None, 0.25, 1.0]),
    st.booleans(),
    st.sampled_from(LATE),
)
def test_assigned_and_unfinished_add_up_and_nobody_shares_a_resource(seed, heuristic, every, remap, late):
    made, resources = draw_jobs(Setting(5.0, 0.5, 0.5), np.random.default_rng(seed), jobs=25, resources=3)
    shape = MappingRule(every, remap, late)
    outcome = simulate(made, resources, Model(made, resources), make("heuristic", heuristic), shape)
    assert outcome.assigned + outcome.unfinished == 25
    assert np.isfinite(outcome.instant).all()
    good = outcome.outcome == ASSIGNED
    assert (outcome.finish[good] <= made.deadline[good]).all()
    for r in range(3):
        rows = np.flatnonzero(outcome.resource == r)
        rows = rows[np.argsort(outcome.start[rows])]
        assert (outcome.start[rows][1:] >= outcome.finish[rows][:-1] - 1e-9).all()
        assert (outcome.start[rows] >= made.arrival[rows]).all()


def test_settings_share_their_draws():
    low, grid_low = draw_jobs(Setting(20, 0.3, 0.3), np.random.default_rng(4), jobs=200)
    high, grid_high = draw_jobs(Setting(30, 0.7, 0.7), np.random.default_rng(4), jobs=200)
    assert low.ini.tolist() == high.ini.tolist()
    assert grid_low.speed.tolist() == grid_high.speed.tolist()
    assert ((low.fsize > 0) <= (high.fsize > 0)).all()
    assert np.allclose(low.arrival * 20, high.arrival * 30)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_a_resource_no_job_could_be_timed_on_is_named(value):
    with pytest.raises(InputError, match=r"'slow'.*speed"):
        Resources(["slow"], np.array([value]), np.ones(1), np.zeros(1))


def test_an_empty_grid_and_a_repeated_id_are_refused():
    with pytest.raises(InputError, match="no resource"):
        Resources([], np.empty(0), np.empty(0), np.empty(0))
    with pytest.raises(InputError, match="listed twice"):
        Resources(["a", "a"], np.ones(2), np.ones(2), np.zeros(2))
    with pytest.raises(UsageError, match="above 0"):
        MappingRule(0.0)


def test_expected_times_are_equation_1():
    made = Jobs(["a"], np.array([1000.0]), np.array([300.0]), np.zeros(1), np.ones(1))
    resources = Resources(["r"], np.array([10.0]), np.array([1.5]), np.zeros(1))
    assert Model(made, resources, Units(1.0, 1.0)).rows(np.array([0])).tolist() == [[300.0]]
