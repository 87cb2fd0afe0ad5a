# SPDX-License-Identifier: Apache-2.0
"""Hours of the week in which long jobs do not run: nights and weekends are theirs, or no time is closed to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .pools import Queue, steps

HOUR_S, WEEK_S = 3600.0, 7 * 86400.0
LIMITS_S = tuple(hours * HOUR_S for hours in (1, 2, 4, 6, 8, 12, 24, 48))
LEAST_HOURS, LEAST_WEEKS, LEAST_ROOMY = 4, 10, 4
CLOSED = 0.9  # share of the weeks in which none of them runs at that hour though some wait
ROOM = 0.8  # of the capacity: if less runs, there is room
EDGE = 0.05  # of the jobs beside an edge may lie beyond it
BROKEN_WEEKS = 3


@dataclass(frozen=True, slots=True)
class Closed:
    """Seconds of the log's first week, of which `begin` may be negative, that no job with a longer limit runs in.

    `weeks` is in how many hours of weeks such jobs waited and none ran, `against` in how many one did.
    """

    limit: float
    begin: float
    end: float
    weeks: int
    against: int


def closed_hours(queue: Queue) -> list[Closed]:
    """The stretches of a week that are closed to jobs over the smallest limit for which there are any.

    An hour is closed where in nine of ten weeks in which such jobs wait none runs, there being room in several of them.
    Stretches of four such hours count. They begin where 95 % of the jobs that ran before were to have ended by their
    limits, and end where 95 % of the starts after them have not come yet. `tests/naive/hours.py` is the same, slowly.
    O(n log n) for each limit.

    >>> day, two = np.arange(100) * 86400.0, np.full(100, 1.0)  # by night alone: submitted at eight, begun at eighteen
    >>> night = Queue(day + 8 * 3600, day + 18 * 3600, day + 30 * 3600, two, two * 12 * 3600, 9.0)
    >>> [(each.limit / 3600, each.begin / 3600, each.end / 3600) for each in closed_hours(night)][0]
    (1.0, 8.0, 18.0)
    """
    for limit in LIMITS_S:
        long = queue.limit > limit
        if not long.any():
            break
        count, closed, shut = shut_hours(queue, long)
        found = [
            Closed(limit, *_edges(queue, long, first, last), int(closed[k].sum()), int((count - closed)[k].sum()))
            for first, last in _stretches(shut)
            for k in [np.arange(first, last) % 168]
        ]
        if found:
            return found
    return []


def shut_hours(queue: Queue, long: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each hour of the week: the weeks in which long jobs wait, those in which none runs then, if it is closed."""
    hours, waits, runs, roomy = _weeks(queue, long)
    count, closed = np.bincount(hours, waits, 168), np.bincount(hours, waits & ~runs, 168)
    room = np.bincount(hours, waits & ~runs & roomy, 168)
    return count, closed, (count >= LEAST_WEEKS) & (room >= LEAST_ROOMY) & (closed >= CLOSED * count)


def kept_until(queue: Queue, closed: Sequence[Closed]) -> float:
    """When closed hours were given up: the first of three weeks in which such jobs ran in half of them; inf: never."""
    if not closed:
        return math.inf
    hours, waits, runs, _ = _weeks(queue, queue.limit > closed[0].limit)
    inside = np.zeros(168, bool)
    for each in closed:
        inside[np.arange(math.ceil(each.begin / HOUR_S), math.floor(each.end / HOUR_S)) % 168] = True
    week = np.arange(len(hours)) // 168
    looked = (waits | runs) & inside[hours]
    ran = np.bincount(week, looked & runs, week[-1] + 1) > 0.5 * np.bincount(week, looked, week[-1] + 1)
    for k in range(len(ran) - BROKEN_WEEKS + 1):
        if ran[k : k + BROKEN_WEEKS].all():
            return float(math.floor(queue.submit.min() / WEEK_S) + k) * WEEK_S
    return math.inf


def _weeks(queue: Queue, long: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each half past an hour: the hour of the week, if long jobs wait, if they run, if there is room."""
    first = math.floor(queue.submit.min() / WEEK_S) * WEEK_S
    when = np.arange(first, queue.start.max(), HOUR_S) + HOUR_S / 2
    one = np.ones(int(long.sum()))

    def held(begin: np.ndarray, end: np.ndarray, size: np.ndarray) -> np.ndarray:
        time, much = steps(begin, end, size)
        place = np.searchsorted(time, when, side="right") - 1
        return np.where(place >= 0, much[np.maximum(place, 0)], 0.0)

    waits, runs = held(queue.submit[long], queue.start[long], one), held(queue.start[long], queue.end[long], one)
    roomy = held(queue.start, queue.end, queue.size) < ROOM * queue.capacity
    return (np.arange(len(when)) % 168, waits > 0, runs > 0, roomy)


def _stretches(shut: np.ndarray) -> list[tuple[int, int]]:
    """First and one past the last hour of each stretch, round the week's end; the first may be below 0."""
    if shut.all() or not shut.any():
        return []
    turn = int(np.flatnonzero(~shut)[-1]) + 1 - 168  # begin after an open hour
    around = shut[np.arange(turn, turn + 168) % 168]
    change = np.flatnonzero(np.diff(np.concatenate([[False], around, [False]])))
    pairs = ((turn + int(a), turn + int(b)) for a, b in change.reshape(-1, 2))
    return [(a, b) for a, b in pairs if b - a >= LEAST_HOURS]


def _edges(queue: Queue, long: np.ndarray, first: int, last: int) -> tuple[float, float]:
    """Begin and end to the second, by when long jobs were to have ended and when they started."""
    begin, end = first * HOUR_S + HOUR_S / 2, last * HOUR_S - HOUR_S / 2
    ends = (queue.start[long] + queue.limit[long] - begin + WEEK_S / 2) % WEEK_S - WEEK_S / 2
    starts = (queue.start[long] - end + WEEK_S / 2) % WEEK_S - WEEK_S / 2
    ends, starts = ends[np.abs(ends) <= HOUR_S], starts[(starts > 0) & (starts <= HOUR_S)]
    early = float(np.quantile(ends, 1 - EDGE, method="lower")) if len(ends) else -HOUR_S / 2
    late = float(np.quantile(starts, EDGE, method="higher")) if len(starts) else HOUR_S / 2
    return begin + early, end + late
