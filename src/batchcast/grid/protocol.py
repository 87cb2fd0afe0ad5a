# SPDX-License-Identifier: Apache-2.0
"""The one protocol of mapping heuristics: a batch of waiting jobs in, a plan out."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

WAITS = -1


class Batch(NamedTuple):
    """What is known at a mapping event: the waiting jobs (rows, in order of arrival) and the resources (columns).

    `times` (n, m) are expected run times, infinite where a resource cannot hold the job; `free` (m,) is when each
    resource is next free, never before `now`; `deadline` (n,) is absolute, infinite where there is none; `arrival`
    (n,) is at or before `now`. `until` is the next mapping event (infinite: there is none), so a plan may leave a job
    waiting that could not start before it. `speed`, `bandwidth` (m,) are NaN where only a matrix is known.
    """

    now: float
    times: np.ndarray
    free: np.ndarray
    deadline: np.ndarray
    arrival: np.ndarray
    until: float
    speed: np.ndarray
    bandwidth: np.ndarray

    @classmethod
    def of_times(
        cls, times: np.ndarray, *, free: np.ndarray | None = None, deadline: np.ndarray | None = None, now: float = 0.0
    ) -> Batch:
        """A batch from a matrix of expected times alone: idle resources and no deadlines unless given.

        >>> Batch.of_times(np.array([[3.0, 5.0]])).free
        array([0., 0.])
        """
        times = np.ascontiguousarray(times, dtype=np.float64)
        n, m = times.shape
        unknown = np.full(m, np.nan)
        return cls(
            now,
            times,
            np.full(m, now) if free is None else np.maximum(np.asarray(free, dtype=np.float64), now),
            np.full(n, np.inf) if deadline is None else np.asarray(deadline, dtype=np.float64),
            np.full(n, now),
            np.inf,
            unknown,
            unknown,
        )


class Plan(NamedTuple):
    """Jobs in the order they were placed (`order`, rows of the batch) and each job's column, or -1: left waiting."""

    order: np.ndarray
    resource: np.ndarray


@runtime_checkable
class Heuristic(Protocol):
    """Places the jobs of a batch; pure, so the same batch (and the same seed) gives the same plan.

    `deadlines` tells whether it leaves a job that cannot end in time unplaced; the clock, not the heuristic, decides
    what becomes of such a job and reports it. A job is placed at most once, and only where its time is finite.
    """

    deadlines: bool

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""


def timed(batch: Batch, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Start and finish (n,) of a plan's jobs, NaN where left waiting: each resource runs its jobs in plan order.

    c(i,j) = Ext(i,j) + avai_j and avai_j <- c(i,j) (Hao et al. 2014, equations 2 and 4). O(n).

    >>> batch = Batch.of_times(np.array([[3.0], [4.0]]))
    >>> timed(batch, Plan(np.array([1, 0]), np.array([0, 0])))
    (array([4., 0.]), array([7., 4.]))
    """
    start, finish = np.full(len(batch.times), np.nan), np.full(len(batch.times), np.nan)
    free = batch.free.tolist()
    for job in plan.order.tolist():
        column = int(plan.resource[job])
        start[job] = free[column]
        free[column] += float(batch.times[job, column])
        finish[job] = free[column]
    return start, finish


def makespan(batch: Batch, plan: Plan) -> float:
    """The last finish of a plan, in the unit of the times; NaN when it places nothing."""
    finish = timed(batch, plan)[1]
    return float(np.nanmax(finish)) if np.isfinite(finish).any() else float("nan")
