# SPDX-License-Identifier: Apache-2.0
"""Jobs of the same days that differ only in a smaller request: how much less or longer they waited.

No simulation and no model. Where too few days have both, or the days disagree, nothing is said. It is what happened to
other jobs beside these, not an experiment: who asks for less may differ in more than that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from statistics import median
from typing import NamedTuple

DAY_S = 86400.0
LEAST_S = 60.0
"""A difference below this is not worth a word."""
ALIKE = 2.0
"""In all that does not change, alike means within this factor of what these jobs ask for at the median."""


class Axis(IntEnum):
    """What of a request changes."""

    LIMIT, PROCESSORS, MEMORY = range(3)


class Waited(NamedTuple):
    """A job that started. Submission (epoch seconds), where it was queued (partition and QOS), wait (seconds) from when
    it could start, and what it asked for: its limit in seconds, its processors, KiB a node; NaN unknown."""

    submit: float
    queue: str
    wait: float
    asked: tuple[float, float, float]


class Beside(NamedTuple):
    """How much less jobs with the smaller request waited: median over days and its 95 % interval, seconds.

    Below 0 they waited longer. `jobs` are those others, `days` those that have both.
    """

    queue: str
    less_s: float
    low_s: float
    high_s: float
    jobs: int
    days: int


def beside(kind: Sequence[Waited], every: Sequence[Waited], axis: Axis, advised: float) -> Beside | None:
    """The waits of `kind` against those of `every` that asked for half of `advised` up to it; None: cannot be told.

    Of the queue that most of the kind went to. A day (UTC, by submission) counts once, by the difference of its
    two medians, so that a burst is one piece of evidence; the interval is that of the sign test, exact for any
    distribution were days independent, and holds no zero. From six days on. O(n log n).

    >>> def job(day, limit, wait): return Waited(day * 86400.0, "main", wait, (limit, 4.0, math.nan))
    >>> these = [job(day, 36000.0, 7200.0 + day) for day in range(8)]
    >>> beside(these, these + [job(day, 3600.0, 600.0) for day in range(8)], Axis.LIMIT, 3600.0)
    Beside(queue='main', less_s=6603.5, low_s=6600.0, high_s=6607.0, jobs=8, days=8)
    >>> beside(these, these, Axis.LIMIT, 3600.0) is None
    True
    """
    names = [job.queue for job in kind]
    queue = max(sorted(set(names)), key=names.count, default="")
    these = [job for job in kind if job.queue == queue and job.asked[axis] > advised]
    if not these or not advised > 0:
        return None
    known = [[job.asked[k] for job in these if job.asked[k] == job.asked[k]] for k in Axis]
    usual = [median(values) if values else math.nan for values in known]
    others = [
        job
        for job in every
        if job.queue == queue
        and advised / 2 <= job.asked[axis] <= advised
        and all(_is_alike(job.asked[k], usual[k]) for k in Axis if k != axis)
    ]
    here, there = _by_day(these), _by_day(others)
    days = sorted(here.keys() & there.keys())
    found = interval([median(here[day]) - median(there[day]) for day in days])
    if found is None or not (found[0] > 0 or found[2] < 0) or abs(found[1]) < LEAST_S:
        return None
    return Beside(queue, found[1], found[0], found[2], sum(len(there[day]) for day in days), len(days))


def interval(values: Sequence[float], risk: float = 0.05) -> tuple[float, float, float] | None:
    """Low end, median and high end: order statistics between which the median lies but for `risk`; None: too few.

    >>> interval([3.0, 1.0, 2.0, 5.0, 4.0, 6.0]), interval([1.0, 2.0])
    ((1.0, 3.5, 6.0), None)
    """
    n, ordered = len(values), sorted(values)
    place, below = 0, 0.0
    while place < n and 2 * (below + math.comb(n, place) / 2**n) <= risk:
        below += math.comb(n, place) / 2**n
        place += 1
    return (ordered[place - 1], median(ordered), ordered[n - place]) if place else None


def _is_alike(value: float, usual: float) -> bool:
    return not (value == value and usual == usual) or usual / ALIKE <= value <= usual * ALIKE


def _by_day(jobs: Sequence[Waited]) -> dict[float, list[float]]:
    days: dict[float, list[float]] = {}
    for job in jobs:
        days.setdefault(job.submit // DAY_S, []).append(job.wait)
    return days
