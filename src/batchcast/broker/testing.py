# SPDX-License-Identifier: Apache-2.0
"""`check_heuristic`: the tests that every mapping heuristic of batchcast passes, for use with other heuristics.

Each check takes a function without arguments that returns a new heuristic, and raises AssertionError with a reason.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from .clock import MappingRule, simulate
from .model import Batch, Jobs, Model, Resources, Setting, Units, draw_jobs, timed

Maker = Callable[[], Any]


def check_heuristic(make: Maker) -> list[str]:
    """Run every check on heuristics made by `make()`; return their names. Raises AssertionError at the first failure.

    Examples
    --------
    >>> from batchcast.broker.preference import ByPreference
    >>> check_heuristic(ByPreference)[:2]
    ['places_each_job_once_where_it_fits', 'assign_is_pure']
    """
    for check in CHECKS:
        check(make)
    return [check.__name__ for check in CHECKS]


def batches() -> list[Batch]:
    """Return small batches for tests: ordinary, busy resources, tight deadlines, one job, one resource, jobs that do
    not fit, equal times, zero times, no jobs."""
    rng = np.random.default_rng(7)
    times = rng.integers(1, 9, (12, 4)).astype(float)
    allowed = rng.integers(2, 20, 12).astype(float)
    misfit = np.where(rng.random((12, 4)) < 0.4, np.inf, times)
    misfit[3] = np.inf
    return [
        Batch.of_times(times),
        Batch.of_times(times, free=np.array([0.0, 5.0, 50.0, 2.0]), deadline=10 + allowed, now=10.0),
        Batch.of_times(times, deadline=allowed / 4),
        Batch.of_times(times[:1], deadline=allowed[:1]),
        Batch.of_times(times[:, :1], deadline=allowed),
        Batch.of_times(misfit, deadline=allowed),
        Batch.of_times(np.full((6, 3), 2.0)),
        Batch.of_times(np.zeros((3, 2)), deadline=np.ones(3)),
        Batch.of_times(np.empty((0, 3))),
    ]


def places_each_job_once_where_it_fits(make: Maker) -> None:
    """Check that a plan lists each placed job once (`order`), with a resource (`resource`) that can run the job in
    finite time."""
    for k, batch in enumerate(batches()):
        plan = make().assign(batch)
        n, m = batch.times.shape
        assert len(plan.resource) == n, f"batch {k}: resource has {len(plan.resource)} entries for {n} jobs"
        placed = np.flatnonzero(np.asarray(plan.resource) >= 0)
        assert sorted(np.asarray(plan.order).tolist()) == placed.tolist(), f"batch {k}: order and resource disagree"
        for job in placed.tolist():
            column = int(plan.resource[job])
            assert column < m, f"batch {k}: job {job} on resource {column} of {m}"
            fits = np.isfinite(batch.times[job, column])
            assert fits, f"batch {k}: job {job} on resource {column} that cannot run it"


def assign_is_pure(make: Maker) -> None:
    """Check that two calls, and a pickled copy of the heuristic, give the same plan and do not change the batch."""
    heuristic = make()
    stored = b""
    with suppress(pickle.PicklingError, AttributeError, TypeError):
        stored = pickle.dumps(heuristic)
    copy = pickle.loads(stored) if stored else make()
    for k, batch in enumerate(batches()):
        before = pickle.dumps(batch)
        first, second, third = heuristic.assign(batch), heuristic.assign(batch), copy.assign(batch)
        assert pickle.dumps(batch) == before, f"batch {k}: assign changed its batch"
        same = all(map(np.array_equal, (*first, *first), (*second, *third)))
        assert same, f"batch {k}: the same batch gave two plans"


def deadlines_are_kept(make: Maker) -> None:
    """Check that a heuristic that respects deadlines never plans a job to end after its deadline."""
    if not make().deadlines:
        return
    for k, batch in enumerate(batches()):
        finish = timed(batch, make().assign(batch))[1]
        for job in np.flatnonzero(finish > batch.deadline + 1e-9):
            raise AssertionError(f"batch {k}: job {job} planned to end at {finish[job]}, due {batch.deadline[job]}")


def no_job_is_lost(make: Maker) -> None:
    """Check by simulation, with three mapping rules, that each job ends in time or has a reason and an instant of the
    decision."""
    jobs, resources = draw_jobs(Setting(8.0, 0.5, 0.5), np.random.default_rng(3), jobs=60, resources=6)
    for shape in (MappingRule(0.5), MappingRule(None, late="drop"), MappingRule(0.5, remap=True, late="stop")):
        outcome = simulate(jobs, resources, Model(jobs, resources), make(), shape)
        assert outcome.assigned + outcome.unfinished == len(jobs), f"{shape}: jobs were lost"
        done = outcome.outcome == 0
        assert (outcome.finish[done] <= jobs.deadline[done]).all(), f"{shape}: counted in time, but late"
        assert np.isfinite(outcome.instant).all(), f"{shape}: a job has no instant"
        _one_at_a_time(outcome, str(shape))


def odd_jobs_are_explained(make: Maker) -> None:
    """Check that jobs with past deadlines, too large demands, NaN, infinite values or duplicate ids count as
    unfinished."""
    ini = np.array([1.0, 1.0, np.nan, np.inf, 1.0, 1.0])
    deadline = np.array([9.0, -1.0, 9.0, 9.0, 9.0, 9.0])
    need = {"mem": np.array([1.0, 1.0, 1.0, 1.0, 99.0, 1.0])}
    jobs = Jobs(["a", "b", "c", "d", "e", "a"], ini, np.zeros(6), np.zeros(6), deadline, need)
    grid = Resources(["r"], np.ones(1), np.ones(1), np.zeros(1), {"mem": np.array([4.0])})
    outcome = simulate(jobs, grid, Model(jobs, grid, Units(1.0, 1.0)), make(), MappingRule(None))
    assert outcome.outcome[0] == 0, "the one good job did not finish"
    assert (outcome.outcome[1:] != 0).all(), "a job that cannot be run counts as finished"
    assert set(outcome.why) == {2, 3, 5}, f"rejected rows {sorted(outcome.why)}, not 2, 3 and 5"


def _one_at_a_time(outcome: Any, words: str) -> None:
    """Check that each resource runs one job at a time, and no job before its arrival."""
    for r in set(outcome.resource.tolist()) - {-1}:
        rows = np.flatnonzero(outcome.resource == r)
        rows = rows[np.argsort(outcome.start[rows])]
        gap = outcome.start[rows][1:] - outcome.finish[rows][:-1]
        assert (gap >= -1e-9).all(), f"{words}: two jobs at once on resource {r}"
        early = outcome.start[rows] < outcome.jobs.arrival[rows] - 1e-9
        assert not early.any(), f"{words}: a job started before its arrival"


CHECKS: tuple[Callable[[Maker], None], ...] = (
    places_each_job_once_where_it_fits,
    assign_is_pure,
    deadlines_are_kept,
    no_job_is_lost,
    odd_jobs_are_explained,
)
