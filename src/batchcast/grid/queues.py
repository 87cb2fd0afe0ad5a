# SPDX-License-Identifier: Apache-2.0
"""Compiled local search on queues with deadlines: whom to run where, in which order, and whom to give up."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import allocating, inner

Index = int | np.integer[Any]  # a place in an array, as a loop or as an array of places gives it


@inner
def _chain(
    row: np.ndarray,
    length: int,
    times: np.ndarray,
    deadline: np.ndarray,
    free: float,
    r: Index,
    skip: int,
    job: Index,
    at: int,
    worth: np.ndarray,
    price: float,
) -> float:
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


@inner
def _best_place(
    queue: np.ndarray,
    length: np.ndarray,
    times: np.ndarray,
    deadline: np.ndarray,
    free: np.ndarray,
    cost: np.ndarray,
    job: Index,
    worth: np.ndarray,
    price: np.ndarray,
) -> tuple[float, int, int, int]:
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


@inner
def _put(queue: np.ndarray, length: np.ndarray, where: np.ndarray, r: Index, at: Index, job: Index) -> None:
    for k in range(length[r], at, -1):
        queue[r, k] = queue[r, k - 1]
    queue[r, at] = job
    length[r] += 1
    where[job] = r


@inner
def _take(queue: np.ndarray, length: np.ndarray, where: np.ndarray, job: Index) -> int:
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
    order: np.ndarray,
    column: np.ndarray,
    times: np.ndarray,
    free: np.ndarray,
    deadline: np.ndarray,
    worth: np.ndarray,
    price: np.ndarray,
    budget: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


@inner
def _swap(
    queue: np.ndarray,
    length: np.ndarray,
    where: np.ndarray,
    times: np.ndarray,
    free: np.ndarray,
    deadline: np.ndarray,
    worth: np.ndarray,
    price: np.ndarray,
    cost: np.ndarray,
    job: Index,
    allowed: int,
) -> tuple[bool, int]:
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
def as_plan(
    queue: np.ndarray, length: np.ndarray, times: np.ndarray, free: np.ndarray, until: float, now: float
) -> tuple[np.ndarray, np.ndarray]:
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
