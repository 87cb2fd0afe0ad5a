"""The compiled half of `ibl`: attributes of a submission, the nearest instances, the search for weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ...events.event import END, START, SUBMIT, WITHDRAW
from .ledger import (
    IN_QUEUE,
    IN_RUN,
    NO_LIMIT,
    QUEUE_PROCS,
    QUEUE_WORK,
    RUN_ENDS,
    RUN_PROCS,
    end_job,
    free_procs,
    learn_wait,
    leave_queue,
    note_gap,
    start_job,
    submit_job,
)

NUMBERS = (
    "processors",
    "limit",
    "free processors",
    "queue length",
    "queued processors",
    "queued work",
    "running jobs",
    "remaining work",
    "mean wait so far of the queue",
    "user's queued jobs",
    "user's running jobs",
    "user's last wait",
    "queued processors asked for by smaller or shorter jobs",
    "date",
)
NAMES = ("user", "group", "executable", "queue")
DAY_S = 86400.0
BLOCK = 2048


class Attributes(NamedTuple):
    """One column a job: numbers (attributes, jobs) float32 on log scales, names (attributes, jobs) int32."""

    numbers: np.ndarray
    names: np.ndarray


class Users(NamedTuple):
    """One entry a user: queued and running jobs, last learned wait (log scale)."""

    queued: np.ndarray
    running: np.ndarray
    last_wait: np.ndarray


class Instances(NamedTuple):
    """A ring of learned jobs: attributes by column, waits, and [entries, next place]."""

    numbers: np.ndarray
    names: np.ndarray
    wait: np.ndarray
    used: np.ndarray


def blank_attributes(capacity: int) -> Attributes:
    """Room for so many jobs."""
    return Attributes(np.zeros((len(NUMBERS), capacity), np.float32), np.zeros((len(NAMES), capacity), np.int32))


def blank_users(capacity: int) -> Users:
    """Room for so many users."""
    return Users(np.zeros(capacity), np.zeros(capacity), np.zeros(capacity))


def blank_instances(window: int) -> Instances:
    """Room for the latest `window` learned jobs."""
    numbers, names = blank_attributes(window)
    return Instances(numbers, names, np.zeros(window), np.zeros(2, np.int64))


@njit(cache=True)
def scale(value):
    """log2(1 + value) of what is not negative."""
    return np.log2(1.0 + max(value, 0.0))


@njit(cache=True)
def describe(jobs, tally, users, user, now, procs, limit, submits, into):
    """The numeric attributes of a job submitted now; `submits` is the sum of the queue's submit times."""
    count, total = tally.counts, tally.total
    waiting = count[IN_QUEUE]
    ahead = 0.0
    for k in range(waiting):
        j = jobs.queue[k]
        if jobs.procs[j] < procs or jobs.limit[j] < limit:
            ahead += jobs.procs[j]
    free = free_procs(tally)
    into[0] = scale(procs)
    into[1] = scale(limit) if limit < NO_LIMIT else 0.0
    into[2] = scale(free) if free == free else 0.0
    into[3] = scale(waiting)
    into[4] = scale(total[QUEUE_PROCS])
    into[5] = scale(total[QUEUE_WORK])
    into[6] = scale(count[IN_RUN])
    into[7] = scale(total[RUN_ENDS] - now * total[RUN_PROCS])
    into[8] = scale(now - submits / waiting) if waiting > 0 else 0.0
    into[9] = scale(users.queued[user])
    into[10] = scale(users.running[user])
    into[11] = users.last_wait[user]
    into[12] = scale(ahead)
    into[13] = now / DAY_S


@njit(cache=True)
def push(instances, numbers, names, wait):
    """The latest learned job takes the oldest one's place."""
    window = len(instances.wait)
    place = instances.used[1]
    for f in range(numbers.shape[0]):
        instances.numbers[f, place] = numbers[f]
    for f in range(names.shape[0]):
        instances.names[f, place] = names[f]
    instances.wait[place] = wait
    instances.used[0] = min(instances.used[0] + 1, window)
    instances.used[1] = (place + 1) % window


@njit(cache=True)
def distances(instances, numbers, names, number_weights, name_weights, into):
    """Squared heterogeneous Euclidean-overlap distances to every instance; an unknown name equals nothing."""
    size = instances.used[0]
    for low in range(0, size, BLOCK):  # a block of distances stays in the innermost cache over all attributes
        part = into[low : min(low + BLOCK, size)]
        part[:] = np.float32(0.0)
        for f in range(len(numbers)):
            weight, value = number_weights[f], numbers[f]
            if weight > 0:
                column = instances.numbers[f][low : low + len(part)]
                for j in range(len(part)):
                    apart = column[j] - value
                    part[j] += weight * apart * apart
        for f in range(len(names)):
            weight, name = name_weights[f], names[f]
            if weight > 0:
                coded = instances.names[f][low : low + len(part)]
                for j in range(len(part)):
                    part[j] += weight if coded[j] != name or name < 0 else np.float32(0.0)


@njit(cache=True)
def nearest(instances, apart, k, near, near_apart):
    """The k nearest instances, nearest first, the later learned first among equals; returns how many."""
    size, last = instances.used[0], instances.used[1] - 1
    found, limit = 0, np.float32(np.inf)
    for stretch in range(2):  # the ring from its newest entry back to the oldest
        high, low = (last, -1) if stretch == 0 else (size - 1, last)
        for j in range(high, low, -1):
            d = apart[j]
            if d < limit:
                place = found if found < k else k - 1
                while place > 0 and near_apart[place - 1] > d:
                    near_apart[place] = near_apart[place - 1]
                    near[place] = near[place - 1]
                    place -= 1
                near_apart[place] = d
                near[place] = j
                if found < k:
                    found += 1
                if found == k:
                    limit = near_apart[k - 1]
    return found


@njit(cache=True)
def weighted_median(instances, near, near_apart, k):
    """The wait at which half of the weight 1/(distance + 0.01) of the k nearest is reached."""
    waits, weight = np.empty(k), np.empty(k)
    total = 0.0
    for a in range(k):
        waits[a] = instances.wait[near[a]]
        weight[a] = 1.0 / (np.sqrt(near_apart[a]) + 0.01)
        total += weight[a]
    order = np.argsort(waits, kind="mergesort")
    reached = 0.0
    for a in order:
        reached += weight[a]
        if reached >= 0.5 * total:
            return waits[a]
    return waits[order[k - 1]]


@njit(cache=True)
def answer(instances, numbers, names, number_weights, name_weights, k, wide, level, apart, near, near_apart):
    """Point (s) from the k nearest, bound (s): the level's quantile among the `wide` nearest, never below the point."""
    distances(instances, numbers, names, number_weights, name_weights, apart)
    found = nearest(instances, apart, max(k, wide), near, near_apart)
    point = weighted_median(instances, near, near_apart, min(k, found))
    if wide == 0:
        return point, point
    waits = np.empty(min(wide, found))
    for a in range(len(waits)):
        waits[a] = instances.wait[near[a]]
    waits.sort()
    rank = max(int(np.ceil(level * len(waits) - 1e-9)), 1)
    return point, max(point, waits[rank - 1])


@njit(cache=True)
def collect_log(time, kind, index, procs, limit, waits, user, jobs, tally, users, attributes, learned, known):
    """A whole log's attributes; `learned` gets the jobs in order of learning, `known` how many were at a submission."""
    submits, count, before = 0.0, 0, -np.inf
    for e in range(len(time)):
        i, now = index[e], time[e]
        note_gap(jobs, tally, now - before)
        before = now
        if kind[e] == SUBMIT:
            describe(jobs, tally, users, user[i], now, procs[i], limit[i], submits, attributes.numbers[:, i])
            known[i] = count
            submit_job(jobs, tally, i, now, procs[i], limit[i])
            users.queued[user[i]] += 1
            submits += now
            continue
        if kind[e] == END:
            end_job(jobs, tally, i)
            users.running[user[i]] -= 1
            continue
        if kind[e] == START:
            start_job(jobs, tally, i, now)
            users.running[user[i]] += 1
        elif kind[e] == WITHDRAW:
            leave_queue(jobs, tally, i)
        users.queued[user[i]] -= 1
        submits -= jobs.submit[i]
        if learn_wait(jobs, tally, i, waits[i]):
            users.last_wait[user[i]] = scale(waits[i])
            learned[count] = i
            count += 1
    return count


@njit(cache=True)
def answer_log(
    attributes, wait, learned, known, ask, first_tuned, weights, tuned, instances, level, wide, points, bounds
):
    """Answers for the jobs asked for: `weights` before job `first_tuned`, `tuned` from it on.

    Weights are (number weights, name weights, k). Jobs are taken in order, the instances being those learned by then.
    """
    window = len(instances.wait)
    apart = np.empty(window, np.float32)
    near, near_apart = np.empty(max(wide, 64), np.int64), np.empty(max(wide, 64), np.float32)
    pushed = 0
    for i in range(len(known)):
        while pushed < known[i]:
            j = learned[pushed]
            push(instances, attributes.numbers[:, j], attributes.names[:, j], wait[j])
            pushed += 1
        if ask[i] and pushed > 0:
            number_weights, name_weights, k = tuned if i >= first_tuned else weights
            points[i], bounds[i] = answer(
                *(instances, attributes.numbers[:, i], attributes.names[:, i], number_weights, name_weights),
                *(k, wide, level, apart, near, near_apart),
            )


def search_weights(
    attributes: Attributes,
    wait: np.ndarray,
    learned: np.ndarray,
    known: np.ndarray,
    start: tuple[np.ndarray, np.ndarray, int],
    window: int,
    queries: np.ndarray,
    sweeps: int,
) -> tuple[tuple[np.ndarray, np.ndarray, int], float]:
    """Coordinate search: each weight in turn to the best of 0, a quarter, itself, four times, while it helps.

    `queries` (n,) bool are the jobs asked, all with known `wait`; the loss is the mean of |ln((p + 60)/(w + 60))|.
    Deterministic. Returns the weights and their loss.
    """
    truth = np.log(wait[queries] + 60.0)

    def loss(weights: tuple[np.ndarray, np.ndarray, int]) -> float:
        points, bounds = np.zeros(len(known)), np.zeros(len(known))
        answer_log(
            *(attributes, wait, learned, known, queries, 0, weights, weights, blank_instances(window), 0.95, 0),
            *(points, bounds),
        )
        return float(np.mean(np.abs(np.log(points[queries] + 60.0) - truth)))

    best, least = start, loss(start)
    for _ in range(sweeps):
        before = least
        for k in (1, 3, 5, 9, 15, 25):
            trial = (best[0], best[1], k)
            if k != best[2] and (found := loss(trial)) < least:
                best, least = trial, found
        for part in (0, 1):
            for f in range(len((best[0], best[1])[part])):
                here = (best[0], best[1])[part][f]
                for value in (0.0, here / 4, here * 4) if here > 0 else (0.05, 1.0):
                    changed = [best[0].copy(), best[1].copy()]
                    changed[part][f] = value
                    trial = (changed[0], changed[1], best[2])
                    if (found := loss(trial)) < least:
                        best, least = trial, found
        if least > before * 0.998:
            break
    return best, least
