# SPDX-License-Identifier: Apache-2.0
"""Compiled local search on queues with deadlines: chooses each job's resource and order, and which jobs are given
up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchcast.compiled import allocating, inner

from .assignment import Index


class Queues(NamedTuple):
    """The queues of m resources: each resource's queued jobs (m, n + 1) and their number, each job's resource, and each
    queue's cost.

    The cost depends on the run times (n, m), on the times at which resources become free, on the deadlines, on the
    value of a job, and on the price of a resource's time.
    """

    queue: np.ndarray
    length: np.ndarray
    where: np.ndarray
    cost: np.ndarray
    times: np.ndarray
    free: np.ndarray
    deadline: np.ndarray
    worth: np.ndarray
    price: np.ndarray


@inner
def _chain(q: Queues, r: Index, skip: int, job: Index, at: int) -> float:
    """Return the cost of resource r's queue without the entry `skip`, and with `job` inserted before the entry `at`
    (-1: no such entry).

    The cost is the sum over the jobs of completion minus value plus the price of the job's time. The cost is infinite
    if a job would end late.
    """
    times, deadline, worth, price = q.times, q.deadline, q.worth, q.price[r]
    end, cost = q.free[r], 0.0
    for k in range(q.length[r] + 1):
        if job >= 0 and k == at:
            end += times[job, r]
            if end > deadline[job]:
                return np.inf
            cost += end - worth[job] + price * times[job, r]
        if k < q.length[r] and k != skip:
            i = q.queue[r, k]
            end += times[i, r]
            if end > deadline[i]:
                return np.inf
            cost += end - worth[i] + price * times[i, r]
    return cost


@inner
def _best_place(q: Queues, job: Index) -> tuple[float, int, int, int]:
    """Return the cheapest insertion of a job into a queue: (change of cost, resource, entry, examined entries)."""
    best, column, at, tries = np.inf, -1, -1, 0
    for r in range(len(q.free)):
        if not q.free[r] + q.times[job, r] <= q.deadline[job]:
            continue
        for k in range(max(0, q.length[r] - 8), q.length[r] + 1):
            change = _chain(q, r, -1, job, k) - q.cost[r]
            tries += q.length[r] + 1
            if change < best:
                best, column, at = change, r, k
    return best, column, at, tries


@inner
def _insert(q: Queues, r: Index, at: Index, job: Index) -> None:
    """Insert a job into resource r's queue before the entry `at`."""
    for k in range(q.length[r], at, -1):
        q.queue[r, k] = q.queue[r, k - 1]
    q.queue[r, at] = job
    q.length[r] += 1
    q.where[job] = r


@inner
def _entry_of(q: Queues, job: Index) -> int:
    """Return the entry of a job in its queue."""
    k = 0
    while q.queue[q.where[job], k] != job:
        k += 1
    return k


@inner
def _take(q: Queues, job: Index) -> int:
    """Remove a job from its queue; return the entry at which the job was."""
    r, k = q.where[job], _entry_of(q, job)
    for at in range(k, q.length[r] - 1):
        q.queue[r, at] = q.queue[r, at + 1]
    q.length[r] -= 1
    q.where[job] = -1
    return k


@allocating
def improve_queues(q: Queues, order: np.ndarray, column: np.ndarray, budget: int) -> None:
    """Improve a plan by descent: insert unplaced jobs, move and swap jobs, give up a job for a better one.

    Each step lowers the total cost of the queues; no job ends late. The descent stops at a local optimum or after
    `budget` examined queue entries.
    """
    for k in range(len(order)):
        _insert(q, column[order[k]], q.length[column[order[k]]], np.int32(order[k]))
    for r in range(len(q.free)):
        q.cost[r] = _chain(q, r, -1, -1, -1)
    spent, improved = 0, True
    while improved and spent < budget:
        improved = False
        for job in range(len(q.times)):
            if spent >= budget:
                break
            home = q.where[job]
            gain, at_home = 0.0, -1
            if home >= 0:
                at_home = _take(q, job)
                without = _chain(q, home, -1, -1, -1)
                gain = q.cost[home] - without
                q.cost[home] = without
            change, r, at, tries = _best_place(q, job)
            spent += tries
            if r >= 0 and change < min(gain, 0.0) - 1e-12:
                _insert(q, r, at, np.int32(job))
                q.cost[r] += change
                improved = True
                continue
            if home >= 0:
                _insert(q, home, at_home, np.int32(job))
                q.cost[home] += gain
            swapped, tries = _swap(q, job, budget - spent)
            improved = improved or swapped
            spent += tries


@inner
def _swap(q: Queues, job: Index, allowed: int) -> tuple[bool, int]:
    """Put `job` in the place of another job; the other job gets the old place of `job` or a cheap place, or is given
    up.

    The function applies the first swap that lowers the cost; returns (whether a swap was applied, examined entries).
    """
    queue, length, where, cost, times, free, deadline, _, _ = q
    tries = 0
    home = where[job]
    at_home = _entry_of(q, job) if home >= 0 else -1
    for r in range(len(free)):
        if r == home or not free[r] + times[job, r] <= deadline[job]:
            continue
        for k in range(max(0, length[r] - 8), length[r]):
            if tries > allowed:
                return False, tries
            other = queue[r, k]
            tries += length[r]
            new_r = _chain(q, r, k, job, k)
            if new_r == np.inf:
                continue
            if home >= 0:
                tries += length[home]
                new_home = _chain(q, home, at_home, other, at_home)
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
            change, column, at, looked = _best_place(q, other)
            tries += looked
            if column >= 0 and change < 0 and new_r + change < before - 1e-12:
                _insert(q, column, at, other)
                cost[column] += change
                return True, tries
            if new_r < before - 1e-12:
                return True, tries
            queue[r, k] = other
            where[job], where[other] = -1, r
            cost[r] = before
    return False, tries


@allocating
def as_plan(q: Queues, until: float, now: float) -> tuple[np.ndarray, np.ndarray]:
    """Return as a plan the jobs of each queue that start before `until` (or at present), in queue order; later jobs
    wait."""
    n = len(q.times)
    order = np.empty(n, dtype=np.int64)
    resource = np.full(n, -1, dtype=np.int64)
    done = 0
    for r in range(len(q.free)):
        end = q.free[r]
        for k in range(q.length[r]):
            if end >= until and end > now:
                break
            i = q.queue[r, k]
            order[done] = i
            resource[i] = r
            done += 1
            end += q.times[i, r]
    return order[:done], resource
