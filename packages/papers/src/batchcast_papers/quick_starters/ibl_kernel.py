# SPDX-License-Identifier: Apache-2.0
"""Compiled functions of `ibl`: the attributes of a submission, its nearest instances, and their median or mean wait."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchcast.compiled import by_address, inlined, inner, kernel
from batchcast.compiled.arrays import insert, insert_sorted
from batchcast.events.event import START, SUBMIT
from batchcast.events.kernel import apply_event, free_procs, jobs_of, queue_of, users_of
from batchcast.events.record import NO_LIMIT

NUMBERS, NAMES = 14, 4
"""How many attributes a submission has: the numbers that `describe_now` writes; user, group, executable and queue."""
DAY_S = 86400.0


@by_address
class Attributes(NamedTuple):
    """One column per job: numbers (attributes, jobs) float32 on log scales, names (attributes, jobs) int32."""

    numbers: np.ndarray
    names: np.ndarray


def blank_attributes(capacity: int) -> Attributes:
    """Allocate attributes for `capacity` jobs."""
    return Attributes(np.zeros((NUMBERS, capacity), np.float32), np.zeros((NAMES, capacity), np.int32))


@kernel
def scale(value: float) -> float:
    """Return log2(1 + value) of a value that is not negative."""
    logarithm: float = np.log2(1.0 + max(value, 0.0))
    return logarithm


@kernel
def describe_now(
    state: np.ndarray,
    user: int,
    last_wait: float,
    now: float,
    procs: float,
    limit: float,
    in_queue: bool,
    into: np.ndarray,
    column: int,
) -> None:
    """Write the numeric attributes of a job that is submitted now to a column of `into`.

    `in_queue` is true if the state's queue already contains the job. `user` is the user's code, -1 for a new user.
    The attributes are, in this order: requested processors and time limit; free processors; length, processors and work
    of the queue; number and remaining work of the running jobs; mean wait so far of the queued jobs; the user's queued
    jobs, running jobs and last wait; processors of the queued jobs that are smaller or shorter than this job; the date.
    """
    s = state[0]
    jobs, queue = jobs_of(s), queue_of(s)
    end = s.queue_end - 1 if in_queue else s.queue_end
    waiting = end - s.queue_first
    queued_procs = s.before_procs if in_queue else s.queued_procs
    queued_work = s.before_work if in_queue else s.queued_work
    submits = s.before_submits if in_queue else s.queued_submits
    ahead = 0.0
    for k in range(s.queue_first, end):
        job = jobs[queue[k]]
        if job.procs < procs or job.limit < limit:
            ahead += job.procs
    free = free_procs(s)
    into[0, column] = scale(procs)
    into[1, column] = scale(limit) if limit < NO_LIMIT else 0.0
    into[2, column] = scale(free) if free == free else 0.0
    into[3, column] = scale(waiting)
    into[4, column] = scale(queued_procs)
    into[5, column] = scale(queued_work)
    into[6, column] = scale(s.running_end - s.running_first)
    into[7, column] = scale(s.running_ends - now * s.running_procs)
    into[8, column] = scale(now - submits / waiting) if waiting > 0 else 0.0
    into[9, column] = scale(users_of(s)[user].queued - in_queue) if user >= 0 else 0.0
    into[10, column] = scale(users_of(s)[user].running) if user >= 0 else 0.0
    into[11, column] = last_wait
    into[12, column] = scale(ahead)
    into[13, column] = now / DAY_S


@kernel
def note(
    state: np.ndarray, jobs: np.ndarray, i: int, last_wait: np.ndarray, in_queue: bool, attributes: Attributes
) -> None:
    """Write the attributes of submission i of `jobs` to column i.

    `in_queue` is true if the state's queue already contains the job, and the submission is the state's last event.
    """
    job = jobs[i]
    names = attributes.names
    names[0, i], names[1, i], names[2, i], names[3, i] = job.user, job.group, job.app, job.queue
    now = job.submit
    describe_now(state, job.user, last_wait[job.user], now, job.procs, job.limit, in_queue, attributes.numbers, i)


BLOCK, NEAR_BLOCK = 2048, 64
MOST = 64  # maximum number of neighbours


class How(NamedTuple):
    """How waits are predicted: weights of numbers and of names; k nearest instances for the point prediction, `wide`
    nearest for the bound of level `level`; `literal`: distances and point prediction as in the paper."""

    numbers: np.ndarray
    names: np.ndarray
    k: int
    literal: bool
    wide: int
    level: float


@by_address
class Instances(NamedTuple):
    """A ring buffer of jobs with known waits: attributes by column, waits, and [number of entries, next position]."""

    numbers: np.ndarray
    names: np.ndarray
    wait: np.ndarray
    size_and_next: np.ndarray


@by_address
class Room(NamedTuple):
    """Work arrays: distances to all instances; and of the nearest instances: position, distance, wait, weight,
    order."""

    apart: np.ndarray
    positions: np.ndarray
    near_apart: np.ndarray
    waits: np.ndarray
    weights: np.ndarray
    order: np.ndarray


def blank_instances(window: int) -> Instances:
    """Allocate a ring buffer for the latest `window` jobs with known waits."""
    numbers, names = blank_attributes(window)
    return Instances(numbers, names, np.zeros(window), np.zeros(2, np.int64))


def blank_room(window: int, wide: int) -> Room:
    """Allocate work arrays for `window` instances and the `wide` nearest of them."""
    most = max(wide, MOST)
    positions, order = np.empty(most, np.int64), np.empty(most, np.int64)
    return Room(
        np.empty(window, np.float32), positions, np.empty(most, np.float32), np.empty(most), np.empty(most), order
    )


@kernel
def push(instances: Instances, attributes: Attributes, column: int, wait: float) -> None:
    """Add a job to the instances, in place of the oldest instance if the ring buffer is full."""
    window = len(instances.wait)
    place = instances.size_and_next[1]
    for f in range(attributes.numbers.shape[0]):
        instances.numbers[f, place] = attributes.numbers[f, column]
    for f in range(attributes.names.shape[0]):
        instances.names[f, place] = attributes.names[f, column]
    instances.wait[place] = wait
    instances.size_and_next[0] = min(instances.size_and_next[0] + 1, window)
    instances.size_and_next[1] = (place + 1) % window


@kernel
def learn(instances: Instances, attributes: Attributes, last_wait: np.ndarray, i: int, wait: float) -> None:
    """Store the wait of job i as the last wait of the job's user, and add the job to the instances."""
    last_wait[attributes.names[0, i]] = scale(wait)
    push(instances, attributes, i, wait)


@inner
def distances(instances: Instances, attributes: Attributes, column: int, how: How, into: np.ndarray) -> None:
    """Compute squared heterogeneous Euclidean-overlap distances to all instances; an unknown name differs from every
    name."""
    size = instances.size_and_next[0]
    for low in range(0, size, BLOCK):  # a block of distances stays in the innermost cache while attributes are added
        part = into[low : min(low + BLOCK, size)]
        for j in range(len(part)):
            part[j] = np.float32(0.0)
        for f in range(len(how.numbers)):
            weight, value = how.numbers[f], attributes.numbers[f, column]
            if weight > 0:
                numbers = instances.numbers[f][low : low + len(part)]
                for j in range(len(part)):
                    apart = numbers[j] - value
                    part[j] += weight * apart * apart
        for f in range(len(how.names)):
            weight, name = how.names[f], attributes.names[f, column]
            if weight > 0:
                names = instances.names[f][low : low + len(part)]
                for j in range(len(part)):
                    part[j] += weight if names[j] != name or name <= 0 else np.float32(0.0)


@inner
def unscaled(value: float) -> float:
    """Invert `scale`, rounded to a sixteenth, because the last bits of a computed power depend on the compiler."""
    given: float = np.floor(np.exp2(np.float64(value)) * 16.0 + 0.5) / 16.0 - 1.0
    return given


@inner
def distances_by_range(instances: Instances, attributes: Attributes, column: int, how: How, into: np.ndarray) -> None:
    """Compute the papers' squared distances: differences of numbers divided by the instances' range, differences of
    names are 0 or 1."""
    size, numbers = instances.size_and_next[0], instances.numbers
    for j in range(size):
        into[j] = np.float32(0.0)
    for f in range(len(how.numbers)):
        if how.numbers[f] > 0:
            least = most = numbers[f, 0]
            for j in range(1, size):
                least, most = min(least, numbers[f, j]), max(most, numbers[f, j])
            low, high = unscaled(least), unscaled(most)
            if high > low:
                value = unscaled(attributes.numbers[f, column])
                for j in range(size):
                    apart = (unscaled(numbers[f, j]) - value) / (high - low)
                    into[j] += np.float32(how.numbers[f] * apart * apart)
    for f in range(len(how.names)):
        name = attributes.names[f, column]
        for j in range(size):
            if instances.names[f, j] != name or name <= 0:
                into[j] += np.float32(how.names[f])


@kernel
def nearest(instances: Instances, apart: np.ndarray, k: int, positions: np.ndarray, near_apart: np.ndarray) -> int:
    """Find the k nearest instances, nearest first, among equal distances the instance that was added later first;
    return their number."""
    size, last = instances.size_and_next[0], instances.size_and_next[1] - 1
    count, limit = 0, np.float32(np.inf)
    for stretch in range(2):  # loop from the newest entry of the ring buffer back to the oldest
        high, low = (last, -1) if stretch == 0 else (size - 1, last)
        while high > low:
            start, closer = max(high - NEAR_BLOCK, low), np.int32(0)
            part = apart[start + 1 : high + 1]
            for j in range(len(part)):  # a vectorized count skips blocks without a nearer instance
                closer += np.int32(part[j] < limit)
            for j in range(high, start if closer > 0 else high, -1):
                d = apart[j]
                if d < limit:
                    count = insert_sorted(near_apart[:k], positions[:k], count, d, j)
                    if count == k:
                        limit = near_apart[k - 1]
            high = start
    return count


@inlined
def waits_of(wait: np.ndarray, room: Room, count: int) -> None:
    """Copy the waits of the first `count` nearest instances, and sort them."""
    for a in range(count):
        room.waits[a] = wait[room.positions[a]]
        room.order[a] = a
    insert(room.waits, room.order, count)


@inner
def weighted_median(wait: np.ndarray, room: Room, k: int) -> float:
    """Return the median wait of the k nearest instances, weighted by 1/(distance + 0.01)."""
    total = 0.0
    for a in range(k):
        room.weights[a] = 1.0 / (np.sqrt(room.near_apart[a]) + 0.01)
        total += room.weights[a]
    waits_of(wait, room, k)
    reached, half = 0.0, room.order[k - 1]
    for a in range(k):
        reached += room.weights[room.order[a]]
        if reached >= 0.5 * total:
            half = room.order[a]
            break
    median: float = room.waits[half]
    return median


@inner
def weighted_mean(instances: Instances, room: Room, k: int) -> float:
    """Return the mean wait of the k nearest instances, weighted by 1/(distance + 0.01)."""
    total, weights = 0.0, 0.0
    for a in range(k):
        weight = 1.0 / (np.sqrt(room.near_apart[a]) + 0.01)
        total += weight * instances.wait[room.positions[a]]
        weights += weight
    return total / weights


@inner
def bound_of(wait: np.ndarray, room: Room, few: int, level: float, point: float) -> float:
    """Return the `level` quantile of the waits of the `few` nearest instances, at least the point prediction; the point
    prediction if `few` is 0."""
    if few == 0:
        return point
    waits_of(wait, room, few)
    rank = max(int(np.ceil(level * few - 1e-9)), 1)
    bound: float = max(point, room.waits[room.order[rank - 1]])
    return bound


@kernel
def answer(instances: Instances, attributes: Attributes, column: int, how: How, room: Room) -> tuple[float, float]:
    """Return the predicted wait (s) from the k nearest instances, and the bound (s): the `level` quantile of the `wide`
    nearest.

    The bound is at least the predicted wait. With `literal`, differences are divided by ranges and the predicted wait
    is a weighted mean, as in the paper. Without it, numbers are on log scales and the predicted wait is a weighted
    median.
    """
    if how.literal:
        distances_by_range(instances, attributes, column, how, room.apart)
    else:
        distances(instances, attributes, column, how, room.apart)
    count = nearest(instances, room.apart, max(how.k, how.wide), room.positions, room.near_apart)
    k = min(how.k, count)
    if how.literal:
        point = weighted_mean(instances, room, k)
    else:
        point = weighted_median(instances.wait, room, k)
    return point, bound_of(instances.wait, room, min(how.wide, count), how.level, point)


class TrainingPart(NamedTuple):
    """Training data: attributes and waits of all jobs, the order in which waits became known, how many known waits each
    job's prediction can use."""

    attributes: Attributes
    wait: np.ndarray
    learned: np.ndarray
    known_counts: np.ndarray


@kernel
def answer_queries(
    training: TrainingPart, ask: np.ndarray, how: How, instances: Instances, room: Room, points: np.ndarray
) -> None:
    """Predict the waits of the jobs in the mask `ask` as in `how`, each from the waits that were known at its
    submission."""
    pushed = 0
    for i in range(len(training.known_counts)):
        while pushed < training.known_counts[i]:
            j = training.learned[pushed]
            push(instances, training.attributes, j, training.wait[j])
            pushed += 1
        if ask[i] and pushed > 0:
            points[i], _ = answer(instances, training.attributes, i, how, room)


@by_address
class Answers(NamedTuple):
    """Results of a replay: the jobs in the order in which their waits became known, the number of these jobs; by job
    how many waits were known at its submission, its predicted wait and its bound."""

    learned: np.ndarray
    taught: np.ndarray
    known_counts: np.ndarray
    points: np.ndarray
    bounds: np.ndarray


@kernel
def replay_log(
    state: np.ndarray,
    requests: np.ndarray,
    events: np.ndarray,
    ask: np.ndarray,
    left_teach: bool,
    instances: Instances,
    attributes: Attributes,
    last_wait: np.ndarray,
    how: How,
    room: Room,
    into: Answers,
) -> None:
    """Continue the replay of a log by some events, and predict the waits of the jobs in the mask `ask`.

    Without any instance, the predicted wait is that of `recent_wait.guess`.
    """
    s = state[0]
    for e in range(len(events)):
        i, rank = events[e].entry, events[e].rank
        if rank == SUBMIT:
            into.known_counts[i] = into.taught[0]
            note(state, requests, i, last_wait, False, attributes)
            if ask[i] and into.taught[0] == 0:
                into.points[i] = 1.0 if free_procs(s) - s.queued_procs >= requests[i].procs else 3600.0
                into.bounds[i] = into.points[i]
            elif ask[i]:
                into.points[i], into.bounds[i] = answer(instances, attributes, i, how, room)
        apply_event(s, requests, events[e])
        if s.taught == s.taught and (left_teach or rank == START):
            learn(instances, attributes, last_wait, i, s.taught)
            into.learned[into.taught[0]] = i
            into.taught[0] += 1


def search_weights(
    training: TrainingPart, start: How, window: int, queries: np.ndarray, sweeps: int
) -> tuple[How, float]:
    """Search each weight in turn: set it to the best of 0, 1/4, 1 and 4 times its value; repeat while the loss falls.

    `queries` (n,) is a mask of the predicted jobs, which all have known waits. The loss is the mean of |ln((p + 60)/(w
    + 60))| over predictions p and waits w. Deterministic. Returns the best weights and the loss with these weights.
    """
    truth = np.log(training.wait[queries] + 60.0)
    points = np.zeros(len(queries))

    def loss(how: How) -> float:
        without_bound = how._replace(wide=0)
        answer_queries(training, queries, without_bound, blank_instances(window), blank_room(window, 0), points)
        return float(np.mean(np.abs(np.log(points[queries] + 60.0) - truth)))

    best, least = start, loss(start)
    for _ in range(sweeps):
        before = least
        for k in (1, 3, 5, 9, 15, 25):
            if k != best.k and (error := loss(trial := best._replace(k=k))) < least:
                best, least = trial, error
        for part in ("numbers", "names"):
            for f, here in enumerate(getattr(best, part).tolist()):
                for value in (0.0, here / 4, here * 4) if here > 0 else (0.05, 1.0):
                    changed = getattr(best, part).copy()
                    changed[f] = value
                    if (error := loss(trial := best._replace(**{part: changed}))) < least:
                        best, least = trial, error
        if least > before * 0.998:
            break
    return best, least
