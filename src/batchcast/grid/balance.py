"""Makespan of a static mapping: its lower bound by resource prices, and compiled moves and swaps toward it."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def prices(times, free, steps):  # pragma: no cover - compiled
    """Lower bound on the makespan and the resource prices that give it: (bound, prices (m,) summing to 1).

    For any prices w >= 0 of sum 1, sum_r w_r load_r is at most the makespan, and it is least when each job sits where
    w_r times[i, r] is least (the Lagrangian dual of the linear relaxation; its best value is the relaxation's
    optimum). Multiplicative weights: a resource that would be overloaded becomes dearer. O(steps n m).
    """
    n, m = times.shape
    price = np.full(m, 1.0 / m)
    load = np.empty(m)
    bound, best = 0.0, price.copy()
    for step in range(steps):
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
            bound, best = value, price.copy()
        if value <= 0.0:
            break
        rate = 0.1 * 0.01 ** (step / steps)
        for r in range(m):
            price[r] *= np.exp(rate * min(load[r] / value - 1.0, 20.0))
        price /= price.sum()
    return bound, best


@njit(cache=True)
def _shift(member, count, place, where, load, times, i, r):  # pragma: no cover - compiled
    """Job i to resource r: its load, its list, its place."""
    old = where[i]
    last = member[old, count[old] - 1]
    member[old, place[i]], place[last] = last, place[i]
    count[old] -= 1
    load[old] -= times[i, old]
    member[r, count[r]], place[i] = i, count[r]
    count[r] += 1
    load[r] += times[i, r]
    where[i] = r


@njit(cache=True)
def descend(times, near, is_near, price, where, load, member, count, place):  # pragma: no cover - compiled
    """Moves and swaps off the fullest resource until none lowers it; of those that do, the least dear one.

    Dear is the change of sum price load: it keeps jobs where the bound wants them. Jobs go to resources near them
    only. Everything from `where` on changes in place. O(jobs on the fullest, times near, times jobs on each) a step.
    """
    m = times.shape[1]
    while True:
        full = 0
        for r in range(1, m):
            if load[r] > load[full]:
                full = r
        top = load[full]
        best, job, column, other = np.inf, -1, -1, -1
        for at in range(count[full]):
            i = member[full, at]
            relief = times[i, full]
            for r in near[i]:
                if r == full:
                    continue
                moved = price[r] * times[i, r] - price[full] * relief
                if load[r] + times[i, r] < top and moved < best:
                    best, job, column, other = moved, i, r, -1
                room = top - load[r] - times[i, r]
                for back in range(count[r]):
                    k = member[r, back]
                    if is_near[k, full] and times[k, full] < relief and -times[k, r] < room:
                        dear = moved - price[r] * times[k, r] + price[full] * times[k, full]
                        if dear < best:
                            best, job, column, other = dear, i, r, k
        if job < 0:
            return top
        _shift(member, count, place, where, load, times, job, column)
        if other >= 0:
            _shift(member, count, place, where, load, times, other, full)


@njit(cache=True)
def kicked(times, free, where, price, near, kicks, jobs_a_kick, slack, target, rng):  # pragma: no cover - compiled
    """Iterated descent: move a few random jobs to one of their nearest resources, descend, keep what is not worse.

    `near` (n, c) lists each job's resources by price times time, cheapest first. `slack` is the relative loss that is
    still accepted. Returns (makespan, where); stops after `kicks`, or at a makespan of at most `target`.
    """
    n, m = times.shape
    is_near = np.zeros((n, m), dtype=np.bool_)
    member = np.empty((m, n), dtype=np.int64)
    count = np.zeros(m, dtype=np.int64)
    place = np.empty(n, dtype=np.int64)
    where = where.copy()
    for i in range(n):
        r = where[i]
        member[r, count[r]], place[i] = i, count[r]
        count[r] += 1
        for r in near[i]:
            is_near[i, r] = times[i, r] < np.inf
    load = loads(times, free, where)
    current = descend(times, near, is_near, price, where, load, member, count, place)
    best, best_where, kept = current, where.copy(), where.copy()
    for _ in range(kicks):
        if best <= target:
            break
        for _ in range(jobs_a_kick):
            i = rng.integers(0, n)
            r = near[i, rng.integers(0, near.shape[1])]
            if is_near[i, r] and r != where[i]:
                _shift(member, count, place, where, load, times, i, r)
        made = descend(times, near, is_near, price, where, load, member, count, place)
        if made <= current * (1.0 + slack):
            if made < best:
                best, best_where = made, where.copy()
            current = made
            kept[:] = where
        else:
            for i in range(n):
                if where[i] != kept[i]:
                    _shift(member, count, place, where, load, times, i, kept[i])
    return best, best_where


@njit(cache=True)
def loads(times, free, where):  # pragma: no cover - compiled
    """When each resource ends its jobs, (m,). O(n)."""
    load = free.copy()
    for i in range(len(where)):
        load[where[i]] += times[i, where[i]]
    return load
