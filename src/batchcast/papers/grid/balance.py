# SPDX-License-Identifier: Apache-2.0
"""Shortens the makespan of a static mapping by moves, swaps and exchanges of jobs; resource prices give a lower bound
on the makespan."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...compiled import allocating
from .assignment import JOBS_A_KICK, Assignment, Index, Problem, loads, restore, shift

WIDEST = 8  # number of cheapest jobs per resource that are paired: 36 sets of jobs per resource
MOST_RESOURCES = 200  # with more resources, a pass over all pairs is too long between two clock checks


@allocating
def relieved(problem: Problem, standing: Assignment, full: Index, cap: float) -> tuple[bool, int]:
    """Apply the cheapest exchange of jobs after which the resource `full` and the other resource have loads below
    `cap`: (done, examined pairs).

    The cost of an exchange is the change of the priced load (sum of price times load); ties go to the first exchange.
    Jobs move only to candidate resources. O(m WIDEST^4).
    """
    jobs = np.empty(4, dtype=np.int64)
    best, column, spent = np.inf, -1, 0
    for r in range(len(standing.load)):
        if r == full:
            continue
        dear, looked = _cheapest(problem, standing, full, r, cap, best, jobs)
        spent += looked
        if dear < best:
            best, column = dear, r
    if column >= 0:
        _exchange(problem, standing, full, column, jobs)
    return column >= 0, spent


@allocating
def cheapened(problem: Problem, standing: Assignment, cap: float, least: float) -> tuple[bool, int]:
    """Apply exchanges that make a mapping cheaper by at least `least`, without a resource above `cap`.

    A mapping's makespan exceeds the bound for two reasons: jobs run on expensive resources, and resources have slack,
    because they are free before the makespan. Exchanges that take jobs off the fullest resource use up slack and make
    the mapping more expensive; the exchanges of this function make the mapping cheaper and restore slack. One pass
    covers the pairs of resources of which one changed since the last pass. Returns whether an exchange was applied, and
    the number of examined pairs of job sets.
    """
    m = len(standing.load)
    jobs = np.empty(4, dtype=np.int64)
    due = standing.touched.copy()
    standing.touched[:] = False
    done, spent = False, m
    if m > MOST_RESOURCES:
        return done, spent
    for a in range(m):
        for b in range(m):
            if a == b or not (due[a] or due[b]):
                continue
            dear, looked = _cheapest(problem, standing, a, b, cap, -least, jobs)
            spent += looked
            if dear < -least:
                _exchange(problem, standing, a, b, jobs)
                done = True
    return done, spent


@allocating
def _cheapest(
    problem: Problem, standing: Assignment, a: Index, b: Index, cap: float, dearest: float, jobs: np.ndarray
) -> tuple[float, int]:
    """Find the cheapest exchange below `dearest` after which resources a and b are below `cap`: (cost, examined sets).

    Writes the exchange, if there is one below `dearest`, to `jobs` (4,): first the one or two jobs that move from
    resource a to b, then up to two jobs that move from b to a; -1 fills unused entries.
    """
    times, _, price, _, _ = problem
    leaving, left = _sets(problem, standing, a, b)
    coming, came = _sets(problem, standing, b, a)
    best = dearest
    for one in range(left):
        i, j = leaving[one]
        relief = times[i, a] + (times[j, a] if j >= 0 else 0.0)
        burden = times[i, b] + (times[j, b] if j >= 0 else 0.0)
        moved = price[b] * burden - price[a] * relief
        above = cap - standing.load[a] + relief  # maximum load that may come back to a
        below = standing.load[b] + burden - cap  # minimum load that must leave b
        if below < 0.0 and above > 0.0 and moved < best:
            best = moved
            jobs[0], jobs[1], jobs[2], jobs[3] = i, j, -1, -1
        for other in range(came):
            k, h = coming[other]
            heavy = times[k, a] + (times[h, a] if h >= 0 else 0.0)
            if heavy >= above:
                continue
            light = times[k, b] + (times[h, b] if h >= 0 else 0.0)
            dear = moved + price[a] * heavy - price[b] * light
            if light > below and dear < best:
                best = dear
                jobs[0], jobs[1], jobs[2], jobs[3] = i, j, k, h
    return best, left * (came + 1)


@allocating
def _exchange(problem: Problem, standing: Assignment, a: Index, b: Index, jobs: np.ndarray) -> None:
    """Move the first two of `jobs` from resource a to b, and the other two from b to a; -1 is an unused entry."""
    for at in range(4):
        if jobs[at] >= 0:
            shift(problem, standing, jobs[at], b if at < 2 else a)


@allocating
def _sets(problem: Problem, standing: Assignment, old: Index, new: Index) -> tuple[np.ndarray, int]:
    """Return sets of one job (the second is -1) or two jobs, from the WIDEST jobs that are cheapest to move from
    resource `old` to `new`."""
    times, _, price, _, is_candidate = problem
    jobs, dear = np.empty(WIDEST, dtype=np.int64), np.empty(WIDEST)
    count = 0
    for at in range(standing.job_count[old]):
        i = standing.member[old, at]
        if not is_candidate[i, new]:
            continue
        cost = price[new] * times[i, new] - price[old] * times[i, old]
        if count == WIDEST and cost >= dear[count - 1]:
            continue
        count = min(count + 1, WIDEST)
        k = count - 1
        while k > 0 and dear[k - 1] > cost:
            jobs[k], dear[k] = jobs[k - 1], dear[k - 1]
            k -= 1
        jobs[k], dear[k] = i, cost
    sets = np.empty((count * (count + 1) // 2, 2), dtype=np.int64)
    k = 0
    for one in range(count):
        for other in range(one, count):
            sets[k, 0], sets[k, 1] = jobs[one], jobs[other] if other > one else -1
            k += 1
    return sets, k


BEYOND_ROUNDING = 1e-9  # a step must lower the fullest resource by this share, so that rounding is no progress
PAIRS_A_CHECK = 10_000_000  # pairs of jobs between two checks of the clock: about ten milliseconds


@allocating
def dearer(
    times: np.ndarray, free: np.ndarray, price: np.ndarray, best: np.ndarray, bound: float, rates: np.ndarray
) -> float:
    """Perform a price step for each of `rates`, which say how much prices change; return the lower bound on the
    makespan. The function updates `price` (m,), and `best` (m,), the prices that give the bound."""
    n, m = times.shape
    load = np.empty(m)
    for rate in rates:
        load[:] = free
        value = (price * free).sum()
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
        for r in range(m):
            price[r] *= np.exp(rate * min(load[r] / value - 1.0, 20.0))
        price /= price.sum()
    return bound


def priced(
    times: np.ndarray, free: np.ndarray, steps: int, stop: Callable[[], bool] = lambda: False
) -> tuple[float, np.ndarray]:
    """Return a lower bound on the makespan and the resource prices that give it: (bound, prices (m,) with sum 1).

    For any prices w >= 0 with sum 1, the priced load sum_r w_r load_r is at most the makespan. The priced load is least
    if each job i is on the resource r with the least w_r times[i, r]. The bound is the Lagrangian dual of the linear
    relaxation; its best value is the relaxation's optimum. The method is multiplicative weights, in which the price of
    an overloaded resource rises. The function calls `stop` between price steps; bound and prices are valid whenever the
    function ends. O(steps n m).
    """
    price = np.full(times.shape[1], 1.0 / times.shape[1])
    best, bound, at = price.copy(), 0.0, 0
    rates = np.array([0.1 * 0.01 ** (step / steps) for step in range(steps)])
    stride = max(1, PAIRS_A_CHECK // times.size)
    while at < steps and not (at and stop()):
        bound = dearer(times, free, price, best, bound, rates[at : at + stride])
        at += stride
    return bound, best


def settle(problem: Problem, standing: Assignment, stop: Callable[[], bool] = lambda: False) -> float:
    """Improve the mapping by `descend` until no step shortens the makespan or `stop` returns true; return the
    makespan."""
    left = 0
    while left == 0:
        value, left = descend(problem, standing, PAIRS_A_CHECK, True)
        if stop():
            break
    return float(value)


@allocating
def descend(problem: Problem, standing: Assignment, work: int, deep: bool) -> tuple[float, int]:
    """Apply moves and swaps that lower the load of the fullest resource, and return two values: the makespan, and the
    remaining work, which is 0 if the descent is not finished.

    If no move or swap lowers the load of the fullest resource, up to two jobs leave the fullest resource and up to two
    jobs come back (`relieved`). If no exchange (`relieved`) helps either, a `deep` descent makes the mapping cheaper
    (`cheapened`) but leaves no resource with more load than the fullest resource, and continues. All other steps lower
    the load of the fullest resource by more than a rounding error and leave the other resource below this load, so the
    makespan never rises and no step repeats. Among these steps the function applies the step that raises the priced
    load least, because this choice leaves jobs on the resources that the bound assigns to them. Jobs move only to near
    resources. `work` limits the number of examined pairs of jobs; another call continues the descent.
    """
    times, _, price, candidates, is_candidate = problem
    _, load, member, count, _, _ = standing
    m = times.shape[1]
    while work > 0:
        full = load.argmax()
        top = load[full]
        least = BEYOND_ROUNDING * top
        best, job, column, other = np.inf, -1, -1, -1
        for at in range(count[full]):
            i = member[full, at]
            relief = times[i, full]
            if relief <= least:
                continue
            for r in candidates[i]:
                if r == full or not is_candidate[i, r]:
                    continue
                moved = price[r] * times[i, r] - price[full] * relief
                room = top - least - load[r] - times[i, r]
                if room > 0.0 and moved < best:
                    best, job, column, other = moved, i, r, -1
                work -= count[r]
                for back in range(count[r]):
                    k = member[r, back]
                    if is_candidate[k, full] and times[k, full] < relief - least and -times[k, r] < room:
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
    problem: Problem, standing: Assignment, kicks: int, slack: float, target: float, rng: np.random.Generator
) -> tuple[np.ndarray, float, int]:
    """Improve a mapping by kicks: move a few random jobs to one of their cheap resources, descend, and accept the
    result if it is not worse.

    At the end, `standing` contains the last accepted mapping. `slack` is the accepted relative loss of a kick. Returns
    the best mapping (n,), its makespan, and the number of kicks; stops after `kicks` kicks, at a makespan of at most
    `target`, or after `PAIRS_A_CHECK` examined pairs.
    """
    times, _, _, candidates, is_candidate = problem
    n = len(times)
    where = standing.where
    standing.load[:] = loads(times, problem.free, where)  # recomputed, because rounding errors of many steps accumulate
    best = current = standing.load.max()
    best_where, kept = where.copy(), where.copy()
    done, work = 0, PAIRS_A_CHECK
    while done < kicks and best > target and work > 0:
        for nth in range(JOBS_A_KICK):
            i = int(rng.integers(0, n))
            full = standing.load.argmax()
            if nth == 0 and standing.job_count[full] > 0:  # one of the jobs that determine the makespan
                i = standing.member[full, rng.integers(0, standing.job_count[full])]
            r = candidates[i, rng.integers(0, candidates.shape[1])]
            if is_candidate[i, r] and r != where[i]:
                shift(problem, standing, i, r)
        improved, work = descend(problem, standing, work, False)
        if improved <= current * (1.0 + slack):
            if improved < best:
                best = improved
                best_where[:] = where
            current = improved
            kept[:] = where
        else:
            restore(problem, standing, kept)
        done += 1
    return best_where, loads(times, problem.free, best_where).max(), done
