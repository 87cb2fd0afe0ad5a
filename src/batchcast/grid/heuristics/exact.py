# SPDX-License-Identifier: Apache-2.0
"""`exact`: the mixed-integer program of the makespan, with a bound that is told as it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...errors import UsageError
from ..balance import PAIRS_A_CHECK, settle
from ..chains import Trail, chained, cheap_near
from ..proof import branch_and_bound, lagrangian, raised
from ..protocol import Batch, Plan
from ..standing import Assignment, Problem, loads
from .search import Search, whole_up

LARGEST = 60_000
SEARCHED = 0.15  # share of the box for the search that gives the incumbent
SOLVED = 0.5  # share of what is left for the solver of the whole program
PROVED = 0.45  # share of what is left then for raising the bound
BESIDE = 0.85  # the same where that runs beside the chains: the solver looks at its clock now and then only
MANY = 1000
SPARED = 0.02
SLACK = 0.0005  # the relative loss with which the outcome of a kick is still gone on from


def at_once(task: Callable[[], None]) -> Callable[[float], None]:
    """Does the task here and now; nothing is left to wait for."""
    task()
    return lambda seconds: None


class Exact:
    """The least makespan by branch and bound (SciPy's HiGHS) within `seconds`, and the bound that was proved.

    Parameters
    ----------
    seconds
        The box of time, where the caller's `left` (seconds left of it) does not say.
    seed
        Of `search`'s kicks.
    columns
        A job's resources at most, its cheapest.
    kicks, search_kicks
        Bound the work of the chains after the solver, and of the search before it.

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    min T, sum_r x_ir = 1, free_r + sum_i t_ir x_ir <= T, x binary. `search` first gives an incumbent U and the
    prices of the relaxation a bound B; a column whose reduced cost exceeds U - B cannot be part of anything better than
    U, so leaving it out costs nothing and the bound stays a bound for the whole problem. Where `columns` bites below
    what U - B allows, the solver's bound no longer covers the whole problem and B is reported instead; more than 1,000
    jobs skip this step then. Caps between B and U are then refuted one after the other, each over all columns that its
    own reduced costs allow, which raises the bound. What is left of the box goes to kicks and descents by chains of
    moves (`grid.ejection_chains`); `beside`, given a task, may start it in a thread and return what waits for it so
    many seconds, and then both have the box. The answer is never worse than that of the search it begins with.
    Takes batches that leave up to 60,000 columns (4096 x 128 leaves 32,768). Without deadlines. Deterministic apart
    from where the time limit cuts.

    Examples
    --------
    >>> times = np.array([[2.0, 3.0], [2.0, 3.0], [4.0, 2.0]])
    >>> plan, bound = Exact(seconds=5).solve(Batch.of_times(times))
    >>> round(bound, 6)
    4.0
    """

    deadlines = False
    slow = True

    def __init__(
        self, seconds: float = 48.0, seed: int = 1, columns: int = 8, kicks: int = 1_000_000, search_kicks: int = 10_000
    ) -> None:
        if not seconds > 0 or columns < 1 or kicks < 0 or search_kicks < 0:
            raise ValueError("seconds is above 0, columns at least 1, kicks and search_kicks at least 0")
        self.seconds, self.seed, self.columns = seconds, seed, columns
        self.kicks, self.search_kicks = kicks, search_kicks
        self.left: Callable[[], float] = lambda: self.seconds
        self.beside: Callable[[Callable[[], None]], Callable[[float], None]] = at_once

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        return self.solve(batch)[0]

    def solve(self, batch: Batch) -> tuple[Plan, float]:
        """The plan and the proved lower bound on any plan's makespan.

        Raises UsageError for more columns than the solver is given.
        """
        rows = np.flatnonzero(np.isfinite(batch.times).any(axis=1))
        if len(rows) * min(self.columns, batch.times.shape[1]) > LARGEST:
            raise UsageError(
                f"exact takes up to {LARGEST:,} columns, not {len(rows):,} jobs x {self.columns} resources each",
                hint="search, or exact:columns=N with a smaller N",
            )
        search = Search(self.seed, self.search_kicks)
        search.stop = lambda: self.left() < (1 - SEARCHED) * self.seconds
        plan, bound = search.solve(batch)
        times = np.ascontiguousarray(batch.times[rows])
        if not len(rows):
            return plan, bound
        where = plan.resource[rows]
        value = float(loads(times, batch.free, where).max())
        if value <= bound * (1 + 1e-9):
            return plan, bound
        problem = Problem.of(times, batch.free, search.price, max(4, times.shape[1] // 4))
        relaxed = lagrangian(problem)[0]
        where, proved = self._solved(problem, where, value, relaxed)
        proofs: list[tuple[float, np.ndarray]] = []
        ended = self.beside(partial(self._raised, problem, where, max(relaxed, proved), proofs))
        found = self._chained(problem, where, max(bound, whole_up(times, batch.free, proved)))
        ended(max(self.left(), 0.0))
        proved, met = proofs[-1] if proofs else (bound, where[:0])
        resource = np.full(len(batch.times), -1)
        resource[rows] = self._better(problem, found, met) if len(met) else found
        return Plan(rows, resource), max(bound, whole_up(times, batch.free, proved))

    def _solved(self, problem: Problem, where: np.ndarray, value: float, bound: float) -> tuple[np.ndarray, float]:
        """The whole program: a mapping no worse than `where`, and what was proved of the whole problem (0: nothing).

        Of many jobs it is tried only where it covers the whole problem: cut short, it never came near chains there.
        """
        dear = problem.price * problem.times
        dear = dear - dear.min(axis=1, keepdims=True)
        keep = dear <= value - bound
        cheap = np.argsort(np.argsort(dear, axis=1, kind="stable"), axis=1) < self.columns
        whole = bool((keep <= cheap).all())
        if len(where) > MANY and not whole:
            return where, 0.0
        seconds = self._share(SOLVED)
        solution, proved = branch_and_bound(problem.times, problem.free, keep & cheap, value, seconds)
        if len(solution):
            where = self._better(problem, where, solution)
            value = float(loads(problem.times, problem.free, where).max())
        return where, min(proved, value) if whole else 0.0

    def _raised(
        self, problem: Problem, where: np.ndarray, bound: float, proofs: list[tuple[float, np.ndarray]]
    ) -> None:
        """To `proofs`, as they come: bounds raised by what is refuted below the makespan of `where`; what is met."""
        value = float(loads(problem.times, problem.free, where).max())
        for step in raised(problem, bound, value, self._share(PROVED if self.beside is at_once else BESIDE)):
            proofs.append(step)

    def _share(self, share: float) -> Callable[[], float]:
        """What is left of a share of the box that is left now."""
        now = min(self.left(), self.seconds)
        return lambda: min(self.left(), self.seconds) - (1.0 - share) * now

    def _better(self, problem: Problem, where: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The better of two mappings, the second one after a descent."""
        standing = Assignment.of(problem, other)
        least = loads(problem.times, problem.free, where).max()
        return standing.where if settle(problem, standing, lambda: self.left() <= 0.0) < least else where

    def _chained(self, problem: Problem, where: np.ndarray, bound: float) -> np.ndarray:
        """The best mapping (n,) met by chains from `where` on, until the box, the kicks or the gap is used up."""
        rng, standing = np.random.default_rng(self.seed), Assignment.of(problem, where)
        best, target, left = where.copy(), bound * (1 + 1e-9), self.kicks
        cheap, trail = cheap_near(problem, bound), Trail.empty(problem.times.shape[1])
        while left > 0 and self.left() > SPARED * self.seconds:
            if loads(problem.times, problem.free, best).max() <= target:
                break
            left -= chained(problem, standing, cheap, trail, best, left, SLACK, target, PAIRS_A_CHECK // 4, rng)
        return best
