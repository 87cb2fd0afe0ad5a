# SPDX-License-Identifier: Apache-2.0
"""`exact`: the mixed-integer program of the makespan, with a proved bound.

A solver (SciPy's HiGHS) finds a mapping below a given makespan, or proves that no such mapping exists, which raises the
lower bound on the makespan. The linear relaxation is a weak bound if jobs differ much: each job is cheap on few
resources, so there are few ways to fill a resource exactly. Cutting planes in a program with a fixed cap on every load
prove stronger bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from batchcast.broker.model import Batch, Plan
from batchcast.errors import UsageError

from ..assignment import PAIRS_A_CHECK, Assignment, Problem, Trail, chained, settle
from .search import Search, whole_up

STEP, GROWTH = 0.0005, 0.15  # minimum step of the cap: shares of the bound, and of the cap's distance from the bound
TOLERANCE = 1e-6  # relative tolerance of the solver's constraints and of its bounds


def lagrangian(problem: Problem) -> tuple[float, np.ndarray]:
    """Return the lower bound that the prices give, and the extra cost (n, m) of each column (job on a resource) over
    the job's least cost."""
    whole = problem.price.sum()
    dear = np.where(np.isfinite(problem.times), problem.price * problem.times, np.inf) / whole
    least = dear.min(axis=1, keepdims=True)
    return float(problem.price @ problem.free / whole + least.sum()), dear - least


def raised(problem: Problem, bound: float, top: float, left: Callable[[], float]) -> Iterator[tuple[float, np.ndarray]]:
    """Yield rising lower bounds as the solver proves caps on the makespan infeasible; then a mapping below `top`, if
    the solver finds one.
    """
    # For prices w of sum 1 a mapping of makespan T has sum_r w_r load_r <= T. So the extra costs of such a mapping (w_r
    # t_ir minus job i's least such cost) add up to at most T - L(w), with L the value of the Lagrangian. Hence a
    # mapping whose makespan is at most a cap uses only columns whose extra cost is at most cap - L. The remaining
    # program is small, and cutting planes often prove it infeasible at the root of the search tree. An infeasible cap,
    # less the solver's tolerance, is a lower bound of the whole problem. The caps rise from L to `top`, first in steps
    # of 0.05 % of L, later in steps of 15 % of the cap's distance to L, until no time is left or the solver finds a
    # mapping.
    value, extra = lagrangian(problem)
    yield bound, np.empty(0, dtype=np.int64)
    share = 0.0 if value > 0.0 else np.inf
    while (cap := value * (1.0 + (share := share + max(STEP, GROWTH * share)))) < top:
        if cap <= bound:
            continue
        refuted, where = below(problem, extra, extra <= cap - value, cap, left)
        if refuted:
            bound = max(bound, cap * (1.0 - TOLERANCE))
        if refuted or len(where):
            yield bound, where
        if not refuted:
            return


def below(
    problem: Problem, extra: np.ndarray, keep: np.ndarray, cap: float, left: Callable[[], float]
) -> tuple[bool, np.ndarray]:
    """Return whether no mapping over the columns `keep` (n, m) has all loads at most `cap`, else such a mapping (n,).

    The solver searches the mapping with the least sum of `extra` (n, m). If the solver runs out of time, the results
    are False and an empty mapping.
    """
    cost = extra[keep]
    answer, where = _solved(problem, keep, cap, cost / max(float(cost.max(initial=0.0)), 1e-300), left)
    met = len(where) > 0 and problem.makespan(where) <= cap * (1.0 + TOLERANCE)
    return answer is not None and answer.status == 2, where if met else where[:0]


def branch_and_bound(
    problem: Problem, keep: np.ndarray, incumbent: float, left: Callable[[], float]
) -> tuple[np.ndarray, float]:
    """Return each job's resource (empty if no better mapping was found) and the bound proved for the columns `keep`.

    If no mapping onto the resources of `keep` has a makespan below `incumbent`, the bound is `incumbent`.
    """
    cost = np.append(np.zeros(int(keep.sum())), 1.0)  # one more column: the makespan
    answer, where = _solved(problem, keep, incumbent, cost, left, mip_rel_gap=1e-5)
    if answer is None or answer.x is None:  # infeasible proves that the incumbent is best; a time-out proves nothing
        return where, incumbent if answer is not None and answer.status == 2 else -np.inf
    bound = answer.mip_dual_bound
    return where, -np.inf if bound is None else float(bound) * incumbent


def _solved(
    problem: Problem, keep: np.ndarray, cap: float, cost: np.ndarray, left: Callable[[], float], **options: float
) -> tuple[Any, np.ndarray]:
    """Choose one column (resource) of `keep` per job at the least total cost, with all loads at most `cap`; return the
    solver's answer (None: no time is left) and each job's resource (n,), empty without a solution for all jobs.

    If `cost` has a value more than `keep` has columns, loads are limited by a variable makespan (0 to `cap`) instead;
    its cost is the last value.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, hstack

    times, (n, m) = problem.times, problem.times.shape
    i, r = np.nonzero(keep)
    k, more = len(i), len(cost) - len(i)
    each = csr_array((np.ones(k), (i, np.arange(k))), shape=(n, len(cost)))
    filled = csr_array((times[i, r] / cap, (r, np.arange(k))), shape=(m, k))
    filled = hstack([filled, np.full((m, 1), -1.0)]) if more else filled
    limits = [
        LinearConstraint(each, 1, 1),
        LinearConstraint(filled, -np.inf, (0.0 if more else 1.0) - problem.free / cap),
    ]
    where = np.full(n, -1)
    seconds = left()  # the remaining time is read last, because building the program takes time
    if seconds <= 0.0:
        return None, where[:0]
    options["time_limit"] = seconds
    answer = milp(cost, integrality=np.arange(len(cost)) < k, bounds=Bounds(0, 1), constraints=limits, options=options)
    chosen = np.zeros(k, dtype=bool) if answer.x is None else answer.x[:k] > 0.5
    where[i[chosen]] = r[chosen]
    return answer, where if (where >= 0).all() else where[:0]


LARGEST = 60_000
SEARCHED = 0.15  # share of the time for the search for an incumbent
SOLVED = 0.5  # share of the remaining time for the solver of the whole program
PROVED = 0.45  # share of the time left after the whole program for raising the bound
PROVED_IN_THREAD = 0.85  # PROVED if a thread raises the bound, because the solver rarely checks its clock
MANY = 1000
SPARED = 0.02
SLACK = 0.0005  # accepted relative loss of a kick


def at_once(task: Callable[[], None]) -> Callable[[float], None]:
    """Run the task now; return a function that returns its result without waiting."""
    task()
    return lambda seconds: None


class Exact:
    """Searches for the smallest makespan by branch and bound (SciPy's HiGHS) for `seconds`, with a proved bound.

    Parameters
    ----------
    seconds
        Time limit, unless the caller sets `left`, a function that returns the remaining time in seconds.
    seed
        Random seed of `search`'s kicks.
    columns
        Maximum number of resources that the program considers for a job: the job's cheapest resources.
    kicks, search_kicks
        Maximum number of kicks in the search by chains after the solver, and in the search before the solver.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    The integer program is: min T, sum_r x_ir = 1, free_r + sum_i t_ir x_ir <= T, x binary. `search` first gives an
    incumbent makespan U and, from the prices of the relaxation, a bound B; a column whose reduced cost exceeds U - B
    cannot be part of a better mapping, so this column is omitted, and the bound still holds for the whole problem. If
    `columns` omits more columns than U - B allows, the solver's bound no longer covers the whole problem, and B is
    reported instead; with more than 1,000 jobs, the whole program is not solved in this case. To raise the bound, the
    solver then tries caps on the makespan between B and U one after the other; the program of each cap has all columns
    whose reduced costs the cap allows, and each infeasible cap is a new bound. The remaining time is used for kicks and
    descents by chains of moves (`grid.assignment.chained`); `start_task`, a function that may start a task in a thread
    and returns a function that waits for it, lets the kicks and the solver run at the same time. The result is never
    worse than the first plan, which comes from `search`. A batch may have at most 60,000 columns after the reduction
    (4096 jobs x 128 resources have 32,768). Without deadlines. The result is deterministic except for the instant at
    which the time limit stops the search.

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
        self.start_task: Callable[[Callable[[], None]], Callable[[float], None]] = at_once

    def assign(self, batch: Batch) -> Plan:
        """Return the plan for the waiting jobs."""
        return self.solve(batch)[0]

    def solve(self, batch: Batch) -> tuple[Plan, float]:
        """Return the plan for the waiting jobs, and the proved lower bound on the makespan of every plan.

        Raises UsageError if the batch has more columns than the solver accepts.
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
        if not len(rows):
            return plan, bound
        problem, where = search.problem, plan.resource[rows]
        value = problem.makespan(where)
        if value <= bound * (1 + 1e-9):
            return plan, bound
        relaxed = lagrangian(problem)[0]
        where, proved = self._solved(problem, where, value, relaxed)
        proofs: list[tuple[float, np.ndarray]] = []
        low, top = max(relaxed, proved), problem.makespan(where)

        def raise_bound() -> None:
            share = PROVED if self.start_task is at_once else PROVED_IN_THREAD
            for step in raised(problem, low, top, self._share(share)):
                proofs.append(step)  # stored at once, because the time may end before the last step

        ended = self.start_task(raise_bound)
        found = self._chained(problem, where, max(bound, whole_up(problem.times, batch.free, proved)))
        ended(max(self.left(), 0.0))
        proved, met = proofs[-1] if proofs else (bound, where[:0])
        resource = np.full(len(batch.times), -1)
        resource[rows] = self._better(problem, found, met) if len(met) else found
        return Plan(rows, resource), max(bound, whole_up(problem.times, batch.free, proved))

    def _solved(self, problem: Problem, where: np.ndarray, value: float, bound: float) -> tuple[np.ndarray, float]:
        """Solve the whole integer program; return a mapping that is not worse than the mapping `where`, and the proved
        bound (0: no bound).

        With more than MANY jobs, the solver runs only if its columns cover the whole problem, because chains of moves
        were always better if the columns do not cover it.
        """
        dear = problem.price * problem.times
        dear = dear - dear.min(axis=1, keepdims=True)
        keep = dear <= value - bound
        cheap = np.argsort(np.argsort(dear, axis=1, kind="stable"), axis=1) < self.columns
        whole = bool((keep <= cheap).all())
        if len(where) > MANY and not whole:
            return where, 0.0
        seconds = self._share(SOLVED)
        solution, proved = branch_and_bound(problem, keep & cheap, value, seconds)
        if len(solution):
            where = self._better(problem, where, solution)
            value = problem.makespan(where)
        return where, min(proved, value) if whole else 0.0

    def _share(self, share: float) -> Callable[[], float]:
        """Reserve a share of the remaining time; return a function that returns how many seconds of this share are
        left."""
        now = min(self.left(), self.seconds)
        return lambda: min(self.left(), self.seconds) - (1.0 - share) * now

    def _better(self, problem: Problem, where: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Improve the mapping `other` by a descent; return the better of the mappings `other` and `where`."""
        standing = Assignment.of(problem, other)
        top = settle(problem, standing, lambda: self.left() <= 0.0)
        return standing.where if top < problem.makespan(where) else where

    def _chained(self, problem: Problem, where: np.ndarray, bound: float) -> np.ndarray:
        """Improve the mapping `where` by chains of moves until no time, kicks or gap to the bound is left; return the
        best mapping (n,)."""
        rng, standing = np.random.default_rng(self.seed), Assignment.of(problem, where)
        best, target, left = where.copy(), bound * (1 + 1e-9), self.kicks
        trail = Trail.of(problem, bound)
        while left > 0 and self.left() > SPARED * self.seconds and problem.makespan(best) > target:
            left -= chained(problem, standing, trail, best, left, SLACK, target, PAIRS_A_CHECK // 4, rng)
        return best
