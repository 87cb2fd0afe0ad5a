# SPDX-License-Identifier: Apache-2.0
"""Compiled loops that map jobs to resources, one loop per kind of heuristic, and compiled sorting of jobs."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from batchcast.compiled import allocating, inlined, inner

HANDFUL = 64


def resource_orders(keys: np.ndarray, less: np.ndarray | None = None) -> np.ndarray:
    """Return each resource's jobs sorted by ascending `keys[:, r]`, or by `less - keys[:, r]`; the sort is stable, the
    result int32 (m, n).

    The function sorts blocks of resources to save memory. If there are few jobs, compiled code sorts them, because a
    simulation does this thousands of times. The sort takes O(m n log n) time.
    """
    n, m = keys.shape
    if n <= HANDFUL:
        return np.asarray(_small_orders(keys, np.zeros(n) if less is None else less, less is not None))
    orders = np.empty((m, n), dtype=np.int32)
    for first in range(0, m, 32):
        block = keys[:, first : first + 32].T.copy(order="C")
        if less is not None:
            with np.errstate(invalid="ignore"):  # inf - inf (no deadline, no fit) is NaN, which sorts last
                np.subtract(less, block, out=block)
        orders[first : first + 32] = np.argsort(block, axis=1, kind="stable")
    return orders


@allocating
def _small_orders(keys: np.ndarray, less: np.ndarray, negate: bool) -> np.ndarray:
    """Return the result of `resource_orders` by insertion sort; NaN comes last, as in NumPy."""
    n, m = keys.shape
    orders = np.empty((m, n), dtype=np.int32)
    key = np.empty(n)
    for r in range(m):
        for i in range(n):
            value = less[i] - keys[i, r] if negate else keys[i, r]
            k = i
            while k > 0 and (value < key[k - 1] or (np.isnan(key[k - 1]) and not np.isnan(value))):
                key[k], orders[r, k] = key[k - 1], orders[r, k - 1]
                k -= 1
            key[k], orders[r, k] = value, i
    return orders


@allocating
def _nothing_placed(times: np.ndarray, free: np.ndarray) -> tuple[int, int, np.ndarray, np.ndarray, np.ndarray]:
    """Return the state in which each loop begins: the numbers of jobs and resources, a copy of `free`, each job's
    resource (-1), and an array for the placed jobs in order."""
    n, m = times.shape
    return n, m, free.copy(), np.full(n, -1, dtype=np.int64), np.empty(n, dtype=np.int64)


@allocating
def _feasible_counts(times: np.ndarray, free: np.ndarray, deadline: np.ndarray) -> np.ndarray:
    """Return the number of resources (n,) that can end each job by its deadline."""
    counts = np.zeros(len(times), dtype=np.int64)
    for i in range(len(times)):
        for r in range(len(free)):
            if free[r] + times[i, r] <= deadline[i] and times[i, r] < np.inf:
                counts[i] += 1
    return counts


@inlined
def _place(
    times: np.ndarray, job: int, r: int, free: np.ndarray, resource: np.ndarray, placed: np.ndarray, count: int
) -> int:
    """Place a job on resource r after `count` other jobs; return the number of placed jobs."""
    resource[job] = r
    free[r] += times[job, r]
    placed[count] = job
    return count + 1


MCT, MET, OLB, FAST_FIT, BEST_FIT = range(5)
LARGEST_FIRST, SUFFERAGE, LONE_LAST, LEAST_SLACK = range(4)


@allocating
def pairs(
    times: np.ndarray,
    free: np.ndarray,
    deadline: np.ndarray,
    orders: np.ndarray,
    by_slack: np.ndarray,
    latest: bool,
    urgent: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Repeatedly place the feasible (job, resource) pair with the earliest completion or, if `latest` is true, with the
    least slack.

    `orders` (m, n) lists the jobs by this key for each resource; the time at which the resource becomes free is left
    out, because it shifts the keys of all jobs equally. So the best pair of a resource is the first unplaced job of its
    list. `by_slack` (m, n) lists the jobs by deadline minus time for the urgent rule. A job is urgent if fewer than
    `urgent` resources can finish it in time; if `urgent` is 0, `by_slack` is not used. O(nm) after sorting.
    """
    n, m, free, resource, placed = _nothing_placed(times, free)
    placed_count = 0
    head = np.zeros(m, dtype=np.int64)
    tail = np.zeros(m, dtype=np.int64)
    left = np.zeros(n, dtype=np.int64)
    queue = [(0.0, 0) for _ in range(0)]
    if urgent > 0:
        left = _feasible_counts(times, free, deadline)
        for i in range(n):
            if 0 < left[i] < urgent:
                queue.append((deadline[i], i))
        heapify(queue)
        for r in range(m):
            while tail[r] < n and free[r] + times[by_slack[r, tail[r]], r] > deadline[by_slack[r, tail[r]]]:
                tail[r] += 1
    while placed_count < n:
        job, column, best = -1, -1, np.inf
        while len(queue) > 0 and job < 0:
            i = heappop(queue)[1]
            if resource[i] >= 0 or left[i] == 0:
                continue
            column, best, _, _ = _best_two(times[i], free, deadline[i])
            job = i if column >= 0 else -1
        if job < 0:
            for r in range(m):
                while head[r] < n:
                    i = 0 + orders[r, head[r]]
                    if resource[i] < 0 and free[r] + times[i, r] <= deadline[i] and times[i, r] < np.inf:
                        break
                    head[r] += 1
                if head[r] == n:
                    continue
                i = 0 + orders[r, head[r]]
                key = deadline[i] - free[r] - times[i, r] if latest else free[r] + times[i, r]
                if job < 0 or key < best or (key == best and i < job):
                    job, column, best = i, r, key
        if job < 0:
            break
        placed_count = _place(times, job, column, free, resource, placed, placed_count)
        if urgent > 0:
            r = column
            while tail[r] < n:
                i = 0 + by_slack[r, tail[r]]
                if free[r] + times[i, r] <= deadline[i]:
                    break
                tail[r] += 1
                if times[i, r] == np.inf:
                    continue
                left[i] -= 1
                if resource[i] < 0 and 0 < left[i] < urgent:
                    heappush(queue, (deadline[i], i))
    return placed[:placed_count], resource


@inner
def _best_two(row: np.ndarray, free: np.ndarray, deadline: float) -> tuple[int, float, int, float]:
    """Return a job's best and second-best resource, each with the job's completion time (infinite if after the
    deadline)."""
    first, second = -1, -1
    c_first, c_second = np.inf, np.inf
    for r in range(len(free)):
        c = free[r] + row[r]
        if c < c_first:
            second, c_second = first, c_first
            first, c_first = r, c
        elif c < c_second:
            second, c_second = r, c
    if c_first > deadline:
        return -1, np.inf, -1, np.inf
    if c_second > deadline:
        return first, c_first, second, np.inf
    return first, c_first, second, c_second


@allocating
def jobs_by_key(
    times: np.ndarray, by_resource: np.ndarray, free: np.ndarray, deadline: np.ndarray, rule: int, urgent: float
) -> tuple[np.ndarray, np.ndarray]:
    """Repeatedly place the job with the largest key (earliest completion or sufferage) on its best resource.

    `by_resource` is the transposed matrix of run times, which is read when the time at which a resource becomes free
    has changed. A job is examined again only if its best or second-best resource changed and the order of the two may
    have changed. O(n^2 + rescans m).
    """
    n, _, free, resource, placed = _nothing_placed(times, free)
    placed_count = 0
    first = np.empty(n, dtype=np.int64)
    second = np.empty(n, dtype=np.int64)
    c_first = np.empty(n)
    c_second = np.empty(n)
    left = _feasible_counts(times, free, deadline) if urgent > 0 else np.zeros(n, dtype=np.int64)
    open_jobs = np.empty(n, dtype=np.int64)
    count = 0
    for i in range(n):
        first[i], c_first[i], second[i], c_second[i] = _best_two(times[i], free, deadline[i])
        if first[i] >= 0:
            open_jobs[count] = i
            count += 1
    moved, before = -1, 0.0
    while count > 0:
        job, entry, best, pressing = -1, -1, -np.inf, False
        k = 0
        while k < count:
            i = open_jobs[k]
            if moved >= 0:
                time = by_resource[moved, i]
                c = free[moved] + time
                if urgent > 0 and time < np.inf and before + time <= deadline[i] and c > deadline[i]:
                    left[i] -= 1
                if first[i] == moved and c < c_second[i] and c <= deadline[i]:
                    c_first[i] = c
                elif first[i] == moved or second[i] == moved:
                    first[i], c_first[i], second[i], c_second[i] = _best_two(times[i], free, deadline[i])
                    if first[i] < 0:
                        count -= 1
                        open_jobs[k] = open_jobs[count]
                        continue
            if 0 < left[i] < urgent:
                key = -deadline[i]
                if not pressing or key > best or (key == best and i < job):
                    job, entry, best, pressing = i, k, key, True
            elif not pressing:
                if rule == LARGEST_FIRST:
                    key = c_first[i]
                elif rule == LEAST_SLACK:
                    key = c_first[i] - deadline[i]
                elif rule == LONE_LAST and c_second[i] == np.inf:
                    key = 0.0
                else:
                    key = c_second[i] - c_first[i]
                if job < 0 or key > best or (key == best and i < job):
                    job, entry, best = i, k, key
            k += 1
        if job < 0:
            break
        moved = first[job]
        before = free[moved]
        placed_count = _place(times, job, moved, free, resource, placed, placed_count)
        count -= 1
        open_jobs[entry] = open_jobs[count]
    return placed[:placed_count], resource


@allocating
def one_by_one(
    times: np.ndarray, free: np.ndarray, now: float, deadline: np.ndarray, rule: int
) -> tuple[np.ndarray, np.ndarray]:
    """Place each job in index order on the resource that the rule chooses; a job stays unplaced if no resource
    qualifies. O(nm)."""
    n, m, free, resource, placed = _nothing_placed(times, free)
    placed_count = 0
    for i in range(n):
        best, column = np.inf, -1
        idle = False
        for r in range(m):
            time = times[i, r]
            c = free[r] + time
            if not time < np.inf:
                continue
            if rule == MCT:
                key = c
            elif rule == MET:
                key = time
            elif rule == OLB:
                key = free[r]
            elif rule == FAST_FIT:
                is_free = free[r] <= now
                if idle and not is_free:
                    continue
                if is_free and not idle:
                    idle, best = True, np.inf
                key = time if is_free else free[r]
            else:
                if c > deadline[i]:
                    continue
                key = -c
            if key < best:
                best, column = key, r
        if column >= 0:
            placed_count = _place(times, i, column, free, resource, placed, placed_count)
    return placed[:placed_count], resource


@allocating
def sufferage_passes(times: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Place jobs in passes in which a job with larger sufferage takes a resource from another job (Maheswaran et al.
    1999).

    The times at which machines become free change after a pass, so a pass places at most one job per machine. O(passes
    n m).
    """
    n, m, free, resource, placed = _nothing_placed(times, free)
    placed_count = 0
    holder = np.empty(m, dtype=np.int64)
    suffers = np.empty(m)
    while placed_count < n:
        holder[:] = -1
        for i in range(n):
            if resource[i] >= 0:
                continue
            r, c_first, _, c_second = _best_two(times[i], free, np.inf)
            if r < 0 or not c_first < np.inf:
                continue
            loss = c_second - c_first
            if holder[r] < 0 or suffers[r] < loss:
                holder[r], suffers[r] = i, loss
        before = placed_count
        for r in range(m):
            if holder[r] >= 0:
                placed_count = _place(times, holder[r], r, free, resource, placed, placed_count)
        if placed_count == before:
            break
    return placed[:placed_count], resource


@allocating
def by_score(
    times: np.ndarray,
    free: np.ndarray,
    now: float,
    deadline: np.ndarray,
    power: np.ndarray,
    link: np.ndarray,
    load_unit: float,
    urgent: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Place jobs in order on the feasible resource with the largest `power (1 - load) + link`; urgent jobs first.

    The load of a resource is its assigned work divided by `load_unit`. The call takes O(n^2 + nm) time with the urgent
    rule, O(nm) without it.
    """
    n, m, free, resource, placed = _nothing_placed(times, free)
    placed_count, following = 0, 0
    left = _feasible_counts(times, free, deadline)
    is_done = np.zeros(n, dtype=np.bool_)
    while True:
        job = -1
        if urgent > 0:
            for i in range(following, n):
                if not is_done[i] and 0 < left[i] < urgent and (job < 0 or deadline[i] < deadline[job]):
                    job = i
        pressing = job >= 0
        if not pressing:
            while following < n and (is_done[following] or left[following] == 0):
                following += 1
            if following == n:
                break
            job = following
        is_done[job] = True
        best, column = -np.inf, -1
        for r in range(m):
            c = free[r] + times[job, r]
            if not (times[job, r] < np.inf and c <= deadline[job]):
                continue
            score = -c if pressing else power[r] * (1.0 - (free[r] - now) / load_unit) + link[r]
            if score > best:
                best, column = score, r
        if column < 0:
            continue
        before = free[column]
        placed_count = _place(times, job, column, free, resource, placed, placed_count)
        for i in range(following, n):
            time = times[i, column]
            if not is_done[i] and before + time <= deadline[i] and free[column] + time > deadline[i]:
                left[i] -= 1
    return placed[:placed_count], resource
