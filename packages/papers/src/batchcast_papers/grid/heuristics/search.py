# SPDX-License-Identifier: Apache-2.0
"""Heuristics that search among plans.

`search` moves and swaps jobs on the fullest resources, starting from the best greedy plan and from a mapping by
resource prices. `deadline_search` moves, swaps and exchanges waiting jobs, so that more jobs end in time, and earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

import numpy as np

from batchcast.broker.model import Batch, Heuristic, Plan, makespan

from ..assignment import Assignment, Problem, kicked, priced, settle
from .deadlines import EminMin

SUFFERAGE_UP_TO = 2500  # maximum number of jobs; with more jobs, the default time limit is exceeded


class Search:
    """Reduces the makespan by local search: moves and swaps from the fullest resource, with random kicks.

    Parameters
    ----------
    seed
        Random seed of the kicks: the same batch and seed give the same plan.
    kicks
        Maximum number of kicks (random moves of a few jobs).
    near
        Number of cheapest resources to which a job may move; by default a quarter of all resources, at least 4.
    slack
        The relative increase of the makespan up to which the result of a kick is accepted.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    This heuristic is not from the papers; its moves follow Braun et al. 2001 and Xhafa 2007. The search starts from two
    mappings: the best plan of min_min, sufferage and mct, and each job on the resource with the least price times time.
    A resource's price is its dual variable in the linear relaxation. The prices also give a lower bound on the makespan
    (`bound`) and show which exchanges are cheap. The search can end at any time: when `stop` (a function,
    called about every ten milliseconds) returns true, the result is the best plan so far. Deadlines are ignored; jobs
    that no resource can run are not placed. O(kicks) descents.

    References
    ----------
    Braun et al., A comparison of eleven static heuristics for mapping a class of independent tasks onto heterogeneous
    distributed computing systems, JPDC 61(6), 2001, doi:10.1006/jpdc.2000.1714.

    Examples
    --------
    >>> times = np.array([[2.0, 3.0], [2.0, 3.0], [4.0, 2.0]])
    >>> makespan(Batch.of_times(times), Search().assign(Batch.of_times(times)))
    4.0
    """

    deadlines = False

    def __init__(self, seed: int = 1, kicks: int = 2000, near: int | None = None, slack: float = 0.0005) -> None:
        if kicks < 0 or (near is not None and near < 1):
            raise ValueError(f"kicks = {kicks}, near = {near} (accepted: kicks of at least 0, near of at least 1)")
        self.seed, self.kicks, self.near, self.slack = seed, kicks, near, slack
        self.stop: Callable[[], bool] = lambda: False

    def assign(self, batch: Batch) -> Plan:
        """Return the plan for the waiting jobs."""
        return self.solve(batch)[0]

    def solve(self, batch: Batch) -> tuple[Plan, float]:
        """Return the plan, and the linear relaxation's lower bound on the makespan (a whole number if all run times are
        whole numbers).

        Afterwards, `problem` has the jobs that a resource can run, with the prices that give the bound.
        """
        rows = np.flatnonzero(np.isfinite(batch.times).any(axis=1))
        times = np.ascontiguousarray(batch.times[rows])
        resource = np.full(len(batch.times), -1)
        if not len(rows):
            return Plan(rows, resource), float("nan")
        bound, price = bounded(times, batch.free, self.stop)
        self.problem = Problem.of(times, batch.free, price, self.near or max(4, times.shape[1] // 4))
        resource[rows] = self._improved(self.problem, self._start(self.problem, batch, rows), bound)
        return Plan(rows, resource), bound

    def _start(self, problem: Problem, batch: Batch, rows: np.ndarray) -> Assignment:
        """Descend from each job's cheapest resource and from the best greedy plan; return the better result.

        A starting mapping is omitted if its makespan is 1.5 times that of the other, because small steps would not make
        up the difference.
        """
        starts = [Assignment.of(problem, where) for where in (problem.candidates[:, 0], *self._greedy(batch, rows))]
        least = min(float(start.load.max()) for start in starts)
        starts = [start for start in starts if start.load.max() <= 1.5 * least]
        values = []
        for start in starts:
            values.append(settle(problem, start, self.stop))
            if self.stop():
                break
        return starts[int(np.argmin(values))]

    def _improved(self, problem: Problem, standing: Assignment, bound: float) -> np.ndarray:
        """Return the best mapping (n,) after `kicks` kicks, or after fewer kicks if `stop` returns true or the bound is
        reached."""
        rng = np.random.default_rng(self.seed)
        best_where, best = standing.where.copy(), float(standing.load.max())
        left, target = self.kicks, bound * (1 + 1e-9)
        while left > 0 and best > target and not self.stop():
            met, value, done = kicked(problem, standing, min(left, 50), self.slack, target, rng)
            left -= done
            if value < best:
                standing = Assignment.of(problem, met)
                best = settle(problem, standing, self.stop)
                best_where = standing.where.copy()
        return best_where

    def _greedy(self, batch: Batch, rows: np.ndarray) -> list[np.ndarray]:
        """Return the best plan of the quick heuristics, (k,), as a list with one plan; empty if no time is left."""
        from .greedy import Mct, MinMin, Sufferage

        makers: Sequence[type[Heuristic]] = (MinMin, Mct, Sufferage) if len(rows) <= SUFFERAGE_UP_TO else (MinMin, Mct)
        plans = [maker().assign(batch) for maker in takewhile(lambda _: not self.stop(), makers)]
        return [min(plans, key=lambda plan: makespan(batch, plan)).resource[rows]] if plans else []


def whole_up(times: np.ndarray, free: np.ndarray, bound: float) -> float:
    """Round the lower bound up if all run times are whole numbers, because every makespan is then a whole number.

    >>> whole_up(np.array([[2.0, np.inf]]), np.zeros(2), 5.2), whole_up(np.array([[2.5]]), np.zeros(1), 5.2)
    (6.0, 5.2)
    """
    finite = times[np.isfinite(times)]
    whole = bool((finite == np.floor(finite)).all() and (free == np.floor(free)).all())
    return float(np.ceil(bound * (1 - 1e-9))) if whole else bound


def bounded(times: np.ndarray, free: np.ndarray, stop: Callable[[], bool] = lambda: False) -> tuple[float, np.ndarray]:
    """Return a lower bound on the makespan, rounded up by `whole_up`, and the prices (m,) that give the bound."""
    steps = int(np.clip(200_000_000 // times.size, 50, 2000))  # 500 steps come within a millionth of the best bound
    bound, price = priced(times, free, steps, stop)
    return whole_up(times, free, bound), price


class DeadlineSearch:
    """Improves `emin_min`'s plan by moves, swaps and exchanges of jobs between queues.

    Parameters
    ----------
    worth
        Value of a placed job, as a multiple of the jobs' mean least time.
    reserve
        Factor by which the price of a resource's time is multiplied; the price is the resource's speed-up over the mean
        resource. The price saves fast resources for urgent jobs that arrive later.
    steps
        Maximum number of queue entries examined per mapping event (a few ns each), independent of the clock: the same
        batch gives the same plan.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    This heuristic is not from the paper. The heuristic minimises the sum, over the placed jobs, of completion minus
    `worth` plus the price of the job's run time; no placed job ends late. A job that need not start before the next
    mapping event waits until this event. Ties go to the plan found first.

    Examples
    --------
    >>> times = np.array([[2.0, 3.0], [4.0, 9.0]])
    >>> DeadlineSearch().assign(Batch.of_times(times, deadline=np.array([9.0, 9.0]))).resource
    array([1, 0])
    """

    deadlines = True

    def __init__(self, worth: float = 10.0, reserve: float = 0.6, steps: int = 1_000_000) -> None:
        if not worth > 0 or not reserve >= 0 or steps < 0:
            raise ValueError("worth is above 0, reserve and steps are at least 0")
        self.worth, self.reserve, self.steps = worth, reserve, steps

    def assign(self, batch: Batch) -> Plan:
        """Return the plan for the waiting jobs; jobs that start later than `batch.until` stay waiting."""
        from ..queues import Queues, as_plan, improve_queues

        times, (n, m) = batch.times, batch.times.shape
        finite = np.isfinite(times)
        if not finite.any():
            return Plan(np.empty(0, dtype=np.int64), np.full(n, -1))
        least = float(times.min(axis=1, where=finite, initial=np.inf)[finite.any(axis=1)].mean())
        worth = np.full(n, batch.now + self.worth * least)
        price = self.reserve * np.maximum(_faster(times, finite) - 1.0, 0.0)
        empty = np.full((m, n + 1), -1, dtype=np.int32), np.zeros(m, dtype=np.int64), np.full(n, -1), np.zeros(m)
        queues = Queues(*empty, times, batch.free, batch.deadline, worth, price)
        improve_queues(queues, *EminMin(0.0).assign(batch), self.steps)
        return Plan(*as_plan(queues, batch.until, batch.now))


def _faster(times: np.ndarray, finite: np.ndarray) -> np.ndarray:
    """Return each resource's mean speed-up (m,) over the mean resource, averaged over the jobs that the resource can
    run."""
    held = np.where(finite, times, 0.0)
    mean = held.sum(axis=1) / np.maximum(finite.sum(axis=1), 1)
    ratio = np.where(finite & (times > 0), mean[:, None] / np.where(times > 0, times, 1.0), 0.0)
    return np.asarray(ratio.sum(axis=0) / np.maximum(finite.sum(axis=0), 1))
