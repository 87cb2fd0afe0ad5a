# SPDX-License-Identifier: Apache-2.0
"""Compare the waits of jobs with the waits of similar jobs that were submitted on the same days with a smaller request.

The comparison uses only recorded waits, no simulation and no model. The comparison gives no result if too few days have
both jobs with the full and with the smaller request, or if the days disagree. The result is an observation and not an
experiment: users who request less may differ in other ways as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from statistics import median
from typing import NamedTuple

DAY_S = 86400.0
LEAST_S = 60.0
"""Smallest reported difference of waits, in seconds."""
ALIKE = 2.0
"""Two jobs count as similar if their other requests differ by at most this factor from the group's median request."""


class Axis(IntEnum):
    """The part of the request that is reduced."""

    LIMIT, PROCESSORS, MEMORY = range(3)


class Waited(NamedTuple):
    """A job that has started."""

    submit: float  # Submit time of the job, in epoch seconds
    queue: str  # Partition and QOS of the job
    wait: float  # Time from when the job could start until its start, in seconds
    # Requested time limit in seconds, processors, and memory in KiB per node. NaN means unknown.
    request: tuple[float, float, float]


class WaitDifference(NamedTuple):
    """Difference between the waits of jobs with the full request and of jobs with the smaller request."""

    queue: str  # Partition and QOS of all compared jobs
    # Median over days of the difference of waits, and its 95 % interval, in seconds. Negative values mean that the jobs
    # with the smaller request waited longer.
    less_s: float
    low_s: float
    high_s: float
    jobs: int  # Number of jobs with the smaller request
    days: int  # Number of days that have jobs with the full and with the smaller request


def compare_smaller_requests(
    kind: Sequence[Waited], every: Sequence[Waited], axis: Axis, advised: float
) -> WaitDifference | None:
    """Compare the waits of the jobs `kind` with the waits of similar jobs that requested between half of `advised` and
    `advised`; None if there is no clear difference.

    >>> def job(day, limit, wait): return Waited(day * 86400.0, "main", wait, (limit, 4.0, math.nan))
    >>> these = [job(day, 36000.0, 7200.0 + day) for day in range(8)]
    >>> compare_smaller_requests(these, these + [job(day, 3600.0, 600.0) for day in range(8)], Axis.LIMIT, 3600.0)
    WaitDifference(queue='main', less_s=6603.5, low_s=6600.0, high_s=6607.0, jobs=8, days=8)
    >>> compare_smaller_requests(these, these, Axis.LIMIT, 3600.0) is None
    True
    """
    # There is no clear difference with fewer than six days that have jobs of both requests, if the interval contains
    # zero, or below one minute. Only jobs in the queue that most jobs of `kind` used are compared.
    #
    # Each day (UTC, by submit time) counts once, with the difference of its two median waits. So a burst of jobs on one
    # day is one observation. The interval follows from the sign test, which is exact for any distribution if days are
    # independent.
    names = [job.queue for job in kind]
    queue = max(sorted(set(names)), key=names.count, default="")
    kind_jobs = [job for job in kind if job.queue == queue and job.request[axis] > advised]
    if not kind_jobs or not advised > 0:
        return None
    requests = [[job.request[k] for job in kind_jobs if job.request[k] == job.request[k]] for k in Axis]
    medians = [median(values) if values else math.nan for values in requests]
    others = [
        job
        for job in every
        if job.queue == queue
        and advised / 2 <= job.request[axis] <= advised
        and all(_is_alike(job.request[k], medians[k]) for k in Axis if k != axis)
    ]
    kind_waits, other_waits = _by_day(kind_jobs), _by_day(others)
    days = sorted(kind_waits.keys() & other_waits.keys())
    difference = interval([median(kind_waits[day]) - median(other_waits[day]) for day in days])
    if difference is None or not (difference[0] > 0 or difference[2] < 0) or abs(difference[1]) < LEAST_S:
        return None
    return WaitDifference(
        queue, difference[1], difference[0], difference[2], sum(len(other_waits[day]) for day in days), len(days)
    )


def interval(values: Sequence[float], risk: float = 0.05) -> tuple[float, float, float] | None:
    """Return low end, median and high end of the sign test's interval of the median; None if there are too few values
    for the risk.

    >>> interval([3.0, 1.0, 2.0, 5.0, 4.0, 6.0]), interval([1.0, 2.0])
    ((1.0, 3.5, 6.0), None)
    """
    # The ends of the interval are order statistics of the values. The number of values below the true median has a
    # binomial distribution with probability 1/2.
    n, ordered = len(values), sorted(values)
    rank, tail = 0, 0.0
    while rank < n and 2 * (tail + math.comb(n, rank) / 2**n) <= risk:
        tail += math.comb(n, rank) / 2**n
        rank += 1
    return (ordered[rank - 1], median(ordered), ordered[n - rank]) if rank else None


def _is_alike(value: float, usual: float) -> bool:
    """Whether a request is within a factor of `ALIKE` of the median request, or one of them is unknown."""
    return not (value == value and usual == usual) or usual / ALIKE <= value <= usual * ALIKE


def _by_day(jobs: Sequence[Waited]) -> dict[float, list[float]]:
    """Return the waits of the jobs, grouped by day of submission."""
    days: dict[float, list[float]] = {}
    for job in jobs:
        days.setdefault(job.submit // DAY_S, []).append(job.wait)
    return days
