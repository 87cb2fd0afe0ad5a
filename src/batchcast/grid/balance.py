"""Makespan of a static mapping: its lower bound by resource prices, and compiled moves and swaps toward it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..compiled import allocating
from .exchange import cheapened, relieved
from .standing import Problem, Standing, loads, shift

BEYOND_ROUNDING = 1e-9  # a step must lower the fullest resource by this share: rounding never looks like progress
LOOKED_AT = 10_000_000  # pairs of jobs, or of job and resource, between two looks at a clock: some ten milliseconds


@allocating
def prices(times: np.ndarray, free: np.ndarray, steps: int) -> tuple[float, np.ndarray]:
    """Lower bound on the makespan and the resource prices that give it: (bound, prices (m,) summing to 1).

    For any prices w >= 0 of sum 1, sum_r w_r load_r is at most the makespan, and it is least when each job sits where
    w_r times[i, r] is least (the Lagrangian dual of the linear relaxation; its best value is the relaxation's
    optimum). Multiplicative weights: a resource that would be overloaded becomes dearer. O(steps n m).
    """
    m = times.shape[1]
    price = np.full(m, 1.0 / m)
    best = price.copy()
    return dearer(times, free, price, best, 0.0, 0, steps, steps), best


@allocating
def dearer(
    times: np.ndarray,
    free: np.ndarray,
    price: np.ndarray,
    best: np.ndarray,
    bound: float,
    begin: int,
    end: int,
    steps: int,
) -> float:
    """Steps `begin` to `end` of the `steps` of `prices`: the bound; `price` and `best` (m,) change in place."""
    n, m = times.shape
    load = np.empty(m)
    for step in range(begin, end):
        load[:] = free
        value = 0.0
        for r in range(m):
            value += price[r] * free[r]
        for i in range(n):
            least, column = np.inf, 0
            for r in range(m):
                dear = price[r] * times[i, r]
                if dear < least:
                    least, column = dear, r
            load[column] += times[i, column]
            value += least
        if value > bound:
            bound = value
            best[:] = price
        if value <= 0.0:
            break
        rate = 0.1 * 0.01 ** (step / steps)
        for r in range(m):
            price[r] *= np.exp(rate * min(load[r] / value - 1.0, 20.0))
        price /= price.sum()
    return bound


def priced(
    times: np.ndarray, free: np.ndarray, steps: int, stop: Callable[[], bool] = lambda: False
) -> tuple[float, np.ndarray]:
    """The bound and prices of `prices`, with `stop` asked between its steps: they hold whenever it ends."""
    price = np.full(times.shape[1], 1.0 / times.shape[1])
    best, bound, at = price.copy(), 0.0, 0
    stride = max(1, min(steps, LOOKED_AT // times.size))
    while at < steps and not (at and stop()):
        bound = dearer(times, free, price, best, bound, at, min(at + stride, steps), steps)
        at += stride
    return bound, best


def settle(problem: Problem, standing: Standing, stop: Callable[[], bool] = lambda: False) -> float:
    """`descend` to its end, or until `stop` says so: the makespan."""
    left = 0
    while left == 0:
        value, left = descend(problem, standing, LOOKED_AT, True)
        if stop():
            break
    return float(value)


@allocating
def descend(problem: Problem, standing: Standing, work: int, deep: bool) -> tuple[float, int]:
    """Moves and swaps off the fullest resource while one lowers it: (makespan, work left; 0: not at the end yet).

    Where no single move or swap is left, up to two jobs leave and up to two come back (`relieved`); where none of these
    is, a `deep` descent makes the mapping cheaper (`cheapened`), no resource fuller than the fullest, and goes on. All
    other steps lower the fullest resource by more than rounding could, and leave the other one below it by as much,
    so the makespan never rises and no step repeats. Of the steps that do, the least dear one is taken: dear is the
    change of sum price load, which keeps jobs where the bound wants them. Jobs go to resources near them only. `work`
    bounds the looked-at pairs of jobs; a call with more goes on where this one stopped.
    """
    times, _, price, near, is_near = problem
    _, load, member, count, _, _ = standing
    m = times.shape[1]
    while work > 0:
        full = 0
        for r in range(1, m):
            if load[r] > load[full]:
                full = r
        top = load[full]
        least = BEYOND_ROUNDING * top
        best, job, column, other = np.inf, -1, -1, -1
        for at in range(count[full]):
            i = member[full, at]
            relief = times[i, full]
            if relief <= least:
                continue
            for r in near[i]:
                if r == full or not is_near[i, r]:
                    continue
                moved = price[r] * times[i, r] - price[full] * relief
                room = top - least - load[r] - times[i, r]
                if room > 0.0 and moved < best:
                    best, job, column, other = moved, i, r, -1
                work -= count[r]
                for back in range(count[r]):
                    k = member[r, back]
                    if is_near[k, full] and times[k, full] < relief - least and -times[k, r] < room:
                        dear = moved - price[r] * times[k, r] + price[full] * times[k, full]
                        if dear < best:
                            best, job, column, other = dear, i, r, k
        if job < 0:
            better, spent = relieved(problem, standing, full, top - least)
            work -= spent
            if deep and not better:
                better, spent = cheapened(problem, standing, top - least, least * price.sum())
                work -= spent
            if not better:
                return top, max(work, 1)
            continue
        shift(problem, standing, job, column)
        if other >= 0:
            shift(problem, standing, other, full)
        work -= m
    return load.max(), 0


@allocating
def kicked(
    problem: Problem,
    standing: Standing,
    best_where: np.ndarray,
    kicks: int,
    jobs_a_kick: int,
    slack: float,
    target: float,
    work: int,
    rng: np.random.Generator,
) -> tuple[float, int]:
    """Iterated descent: move a few random jobs to one of their nearest resources, descend, keep what is not worse.

    `standing` ends as the last mapping kept, `best_where` (n,) as the best one met. `slack` is the relative loss that
    is still accepted. Returns (least makespan, kicks done); stops after `kicks`, at a makespan of at most `target`, or
    when `work` looked-at pairs are used up.
    """
    times, _, _, near, is_near = problem
    n = len(times)
    where = standing.where
    standing.load[:] = loads(times, problem.free, where)  # sums of many steps drift
    best = current = standing.load.max()
    best_where[:] = where
    kept = where.copy()
    done = 0
    while done < kicks and best > target and work > 0:
        for nth in range(jobs_a_kick):
            i = int(rng.integers(0, n))
            full = standing.load.argmax()
            if nth == 0 and standing.held[full] > 0:  # one of the jobs that hold the makespan up
                i = standing.member[full, rng.integers(0, standing.held[full])]
            r = near[i, rng.integers(0, near.shape[1])]
            if is_near[i, r] and r != where[i]:
                shift(problem, standing, i, r)
        improved, work = descend(problem, standing, work, False)
        if improved <= current * (1.0 + slack):
            if improved < best:
                best = improved
                best_where[:] = where
            current = improved
            kept[:] = where
        else:
            for i in range(n):
                if where[i] != kept[i]:
                    shift(problem, standing, i, kept[i])
        done += 1
    return loads(times, problem.free, best_where).max(), done
