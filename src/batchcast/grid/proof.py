# SPDX-License-Identifier: Apache-2.0
"""What a mixed-integer solver (SciPy's HiGHS) finds or refutes: mappings below a makespan, and so a higher bound.

The linear relaxation is a weak bound where jobs differ much: the few resources that are cheap for a job leave each
resource few ways to be filled exactly. Cuts in the program with every load under a fixed cap tell so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .standing import Problem, loads

STEP, GROWTH = 0.0005, 0.15  # from one cap to the next, at least, as a share of the bound; of what lies over it
TOLERANCE = 1e-6  # of the solver's rows, and of what they tell


def lagrangian(problem: Problem) -> tuple[float, np.ndarray]:
    """The bound that the prices give, and the extra cost (n, m) of each column over its job's least."""
    whole = problem.price.sum()
    dear = np.where(np.isfinite(problem.times), problem.price * problem.times, np.inf) / whole
    least = dear.min(axis=1, keepdims=True)
    return float(problem.price @ problem.free / whole + least.sum()), dear - least


def raised(problem: Problem, bound: float, top: float, left: Callable[[], float]) -> Iterator[tuple[float, np.ndarray]]:
    """The bound, step by step raised as the solver refutes mappings below a cap; last a mapping below `top`, if met.

    Parameters
    ----------
    problem
        With any prices; the nearer to the dual's optimum, the fewer columns are left.
    bound, top
        What is proved already, and a makespan that is known.
    left
        Seconds that may still be used.

    Yields
    ------
    tuple
        The bound so far and a mapping (n,), empty if none was met; first what is given.

    Notes
    -----
    For prices w of sum 1 a mapping of makespan T has sum_r w_r load_r <= T, so that its extra costs (w_r t_ir less job
    i's least) add up to at most T - L(w), with L the value of the Lagrangian. Hence whatever lies at or below a cap
    uses only columns whose extra cost alone is at most cap - L: a small program, which cuts often refute at the root.
    A refuted cap, less the solver's tolerance, bounds the whole problem. The caps climb from L to `top`, by a twentieth
    of a per cent and later by a seventh of what lies over L, until time is up or a mapping is met.
    """
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
    """Whether no mapping over the columns `keep` (n, m) has every load at most `cap`; one that has (n,), else empty.

    The least sum of `extra` (n, m) is what is looked for. Out of time neither is known.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    times, free = problem.times, problem.free
    i, r = np.nonzero(keep)
    each = csr_array((np.ones(len(i)), (i, np.arange(len(i)))), shape=(len(times), len(i)))
    filled = csr_array((times[i, r] / cap, (r, np.arange(len(i)))), shape=(len(free), len(i)))
    seconds = left()  # after what takes time itself
    if seconds <= 0.0:
        return False, np.empty(0, dtype=np.int64)
    answer = milp(
        extra[i, r] / max(float(extra[i, r].max(initial=0.0)), 1e-300),
        integrality=np.ones(len(i)),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(each, 1, 1), LinearConstraint(filled, -np.inf, 1.0 - free / cap)],
        options={"time_limit": seconds},
    )
    where = _chosen(answer, i, r, len(times))
    met = len(where) > 0 and loads(times, free, where).max() <= cap * (1.0 + TOLERANCE)
    return answer.status == 2, where if met else where[:0]


def branch_and_bound(
    times: np.ndarray, free: np.ndarray, keep: np.ndarray, incumbent: float, left: Callable[[], float]
) -> tuple[np.ndarray, float]:
    """Each job's resource (empty: nothing below the incumbent was met) and the proved bound over the kept columns.

    The answer is told for what it is: where the kept columns admit nothing below `incumbent`, that is the bound.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    n, m = times.shape
    i, r = np.nonzero(keep)
    k = len(i)
    each = csr_array((np.ones(k), (i, np.arange(k))), shape=(n, k + 1))
    filled = csr_array(
        (
            np.concatenate([times[i, r] / incumbent, np.full(m, -1.0)]),
            (np.concatenate([r, np.arange(m)]), np.concatenate([np.arange(k), np.full(m, k)])),
        ),
        shape=(m, k + 1),
    )
    cost = np.zeros(k + 1)
    cost[k] = 1.0
    seconds = left()  # after what takes time itself
    if seconds <= 0.0:
        return np.empty(0, dtype=np.int64), -np.inf
    answer = milp(
        cost,
        integrality=np.concatenate([np.ones(k), [0]]),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(each, 1, 1), LinearConstraint(filled, -np.inf, -free / incumbent)],
        options={"time_limit": seconds, "mip_rel_gap": 1e-5},
    )
    if answer.x is None:  # infeasible below the incumbent means the incumbent is best; out of time proves nothing
        return np.empty(0, dtype=np.int64), incumbent if answer.status == 2 else -np.inf
    bound = answer.mip_dual_bound
    return _chosen(answer, i, r, n), -np.inf if bound is None else float(bound) * incumbent


def _chosen(answer: Any, i: np.ndarray, r: np.ndarray, n: int) -> np.ndarray:
    """Each job's resource (n,) in a solver's answer; empty where there is none, or not for all."""
    if answer.x is None:
        return np.empty(0, dtype=np.int64)
    where = np.full(n, -1)
    chosen = answer.x[: len(i)] > 0.5
    where[i[chosen]] = r[chosen]
    return where if (where >= 0).all() else where[:0]
