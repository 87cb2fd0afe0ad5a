"""Compiled local search on queues with deadlines: whom to run where, in which order, and whom to give up."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import allocating, kernel


@kernel
def _chain(
    row: Any,
    length: Any,
    times: Any,
    deadline: Any,
    free: Any,
    r: Any,
    skip: Any,
    job: Any,
    at: Any,
    worth: Any,
    price: Any,
) -> Any:  # pragma: no cover - compiled
    """Cost of resource r's queue with entry `skip` out (-1: none) and `job` put in before entry `at` (-1: none).

    The sum of completions, less what each job is worth, plus the price of the time it takes; infinite when
    someone would end late.
    """
    end, cost = free, 0.0
    for k in range(length + 1):
        if job >= 0 and k == at:
            end += times[job, r]
            if end > deadline[job]:
                return np.inf
            cost += end - worth[job] + price * times[job, r]
        if k < length and k != skip:
            i = row[k]
            end += times[i, r]
            if end > deadline[i]:
                return np.inf
            cost += end - worth[i] + price * times[i, r]
    return cost


@kernel
def _best_place(
    queue: Any, length: Any, times: Any, deadline: Any, free: Any, cost: Any, job: Any, worth: Any, price: Any
) -> Any:  # pragma: no cover - compiled
    """The cheapest insertion of a job: (change of cost, resource, entry, tries)."""
    best, column, at, tries = np.inf, -1, -1, 0
    for r in range(len(free)):
        if not free[r] + times[job, r] <= deadline[job]:
            continue
        for k in range(max(0, length[r] - 8), length[r] + 1):
            change = _chain(queue[r], length[r], times, deadline, free[r], r, -1, job, k, worth, price[r]) - cost[r]
            tries += length[r] + 1
            if change < best:
                best, column, at = change, r, k
    return best, column, at, tries


@kernel
def _put(queue: Any, length: Any, where: Any, r: Any, at: Any, job: Any) -> Any:  # pragma: no cover - compiled
    for k in range(length[r], at, -1):
        queue[r, k] = queue[r, k - 1]
    queue[r, at] = job
    length[r] += 1
    where[job] = r


@kernel
def _take(queue: Any, length: Any, where: Any, job: Any) -> Any:  # pragma: no cover - compiled
    r = where[job]
    k = 0
    while queue[r, k] != job:
        k += 1
    for q in range(k, length[r] - 1):
        queue[r, q] = queue[r, q + 1]
    length[r] -= 1
    where[job] = -1
    return k


@allocating
def improve_queues(
    order: Any, column: Any, times: Any, free: Any, deadline: Any, worth: Any, price: Any, budget: Any
) -> Any:  # pragma: no cover - compiled
    """From a plan by descent: insert unplaced jobs, move, swap, and give up a job for a better one.

    Lowers the sum of completions less worth over placed jobs and never ends a job late. Stops at a local
    optimum or after `budget` looked-at queue entries. Returns queues, their lengths and each job's resource.
    """
    n, m = times.shape
    queue = np.full((m, n + 1), -1, dtype=np.int32)
    length = np.zeros(m, dtype=np.int64)
    where = np.full(n, -1, dtype=np.int64)
    for k in range(len(order)):
        _put(queue, length, where, column[order[k]], length[column[order[k]]], np.int32(order[k]))
    cost = np.zeros(m)
    for r in range(m):
        cost[r] = _chain(queue[r], length[r], times, deadline, free[r], r, -1, -1, -1, worth, price[r])
    spent, improved = 0, True
    while improved and spent < budget:
        improved = False
        for job in range(n):
            if spent >= budget:
                break
            home = where[job]
            gain, at_home = 0.0, -1
            if home >= 0:
                at_home = _take(queue, length, where, job)
                without = _chain(
                    queue[home], length[home], times, deadline, free[home], home, -1, -1, -1, worth, price[home]
                )
                gain = cost[home] - without
                cost[home] = without
            change, r, at, tries = _best_place(queue, length, times, deadline, free, cost, job, worth, price)
            spent += tries
            if r >= 0 and change < min(gain, 0.0) - 1e-12:
                _put(queue, length, where, r, at, np.int32(job))
                cost[r] += change
                improved = True
                continue
            if home >= 0:
                _put(queue, length, where, home, at_home, np.int32(job))
                cost[home] += gain
            swapped, tries = _swap(queue, length, where, times, free, deadline, worth, price, cost, job, budget - spent)
            improved = improved or swapped
            spent += tries
    return queue, length, where


@kernel
def _swap(
    queue: Any,
    length: Any,
    where: Any,
    times: Any,
    free: Any,
    deadline: Any,
    worth: Any,
    price: Any,
    cost: Any,
    job: Any,
    allowed: Any,
) -> Any:  # pragma: no cover - compiled
    """Put `job` in another's entry; the other takes job's entry, or its cheapest place, or is given up.

    First gain: (whether, tries).
    """
    m = len(free)
    tries = 0
    home, at_home = where[job], -1
    if home >= 0:
        at_home = 0
        while queue[home, at_home] != job:
            at_home += 1
    for r in range(m):
        if r == home or not free[r] + times[job, r] <= deadline[job]:
            continue
        for k in range(max(0, length[r] - 8), length[r]):
            if tries > allowed:
                return False, tries
            other = queue[r, k]
            tries += length[r]
            new_r = _chain(queue[r], length[r], times, deadline, free[r], r, k, job, k, worth, price[r])
            if new_r == np.inf:
                continue
            if home >= 0:
                tries += length[home]
                new_home = _chain(
                    queue[home],
                    length[home],
                    times,
                    deadline,
                    free[home],
                    home,
                    at_home,
                    other,
                    at_home,
                    worth,
                    price[home],
                )
                if new_r + new_home < cost[r] + cost[home] - 1e-12:
                    queue[r, k], queue[home, at_home] = job, other
                    where[job], where[other] = r, home
                    cost[r], cost[home] = new_r, new_home
                    return True, tries
                continue
            before = cost[r]
            queue[r, k] = job
            where[job], where[other] = r, -1
            cost[r] = new_r
            change, column, at, looked = _best_place(queue, length, times, deadline, free, cost, other, worth, price)
            tries += looked
            if column >= 0 and change < 0 and new_r + change < before - 1e-12:
                _put(queue, length, where, column, at, other)
                cost[column] += change
                return True, tries
            if new_r < before - 1e-12:
                return True, tries
            queue[r, k] = other
            where[job], where[other] = -1, r
            cost[r] = before
    return False, tries


@allocating
def as_plan(queue: Any, length: Any, times: Any, free: Any, until: Any, now: Any) -> Any:  # pragma: no cover - compiled
    """The jobs of each queue that start before `until` (or right now), in queue order; later ones stay waiting."""
    n = times.shape[0]
    order = np.empty(n, dtype=np.int64)
    resource = np.full(n, -1, dtype=np.int64)
    done = 0
    for r in range(len(free)):
        end = free[r]
        for k in range(length[r]):
            if end >= until and end > now:
                break
            i = queue[r, k]
            order[done] = i
            resource[i] = r
            done += 1
            end += times[i, r]
    return order[:done], resource
