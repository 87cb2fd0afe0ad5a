# SPDX-License-Identifier: Apache-2.0
"""Shared code of the papers' run-time methods: quantiles of past run times, size and hour of a submission, refits."""

from __future__ import annotations

import math
from collections.abc import Sequence

from batchcast.job import JobRequest
from batchcast.predict.fallback import LEVELS
from batchcast.predict.gate import ABSURD, DAY
from batchcast.predict.protocol import at_least_a_second


def sample_quantiles(
    run_times: Sequence[float], limit: float = float("nan"), levels: Sequence[float] = LEVELS
) -> tuple[float, ...]:
    """Quantiles of the next run time from n earlier run times: the ceil(level * (n + 1))-th smallest of them, in
    seconds.

    If the n + 1 run times are exchangeable, the next run time does not exceed the quantile with probability `level` or
    more. If n is too small for a level, the largest (or smallest) run time is used, whose coverage is lower than the
    level; the report shows the reached coverage. The quantiles are at least one second, at most the time limit, and
    ascending. Without earlier run times, the result is an empty tuple. O(n log n).

    >>> sample_quantiles([30.0, 10.0, 20.0])
    (10.0, 20.0, 30.0)
    """
    ordered = sorted(run_times)
    n = len(ordered)
    if not n:
        return ()
    ranks = (min(max(math.ceil(level * (n + 1) - 1e-9), 1), n) for level in levels)
    return tuple(at_least_a_second(ordered[rank - 1], limit) for rank in ranks)


def size_and_hour(job: JobRequest, offset: float = 0.0) -> tuple[float, float, float]:
    """Return a job's processors, and sine and cosine of the hour of submission; `offset` is the time zone's offset in
    seconds.

    Processors are NaN if unknown or implausible (10^9 or more).

    >>> size_and_hour(JobRequest(0, 1, 21600.0, 8.0, float("nan"), float("nan")))[:2]
    (8.0, 1.0)
    """
    angle = 2.0 * math.pi * (((job.submit_time + offset) % DAY) / DAY)
    procs = job.procs if 0 < job.procs < ABSURD else math.nan
    return procs, math.sin(angle), math.cos(angle)


class Warming:
    """Decides when to refit: after 100, 200, 400, ... submissions, with gaps of at most `every` submissions.

    The driver of events calls `due` after every `cadence` submissions; `due` returns whether to refit now.

    >>> pace = Warming(300)
    >>> [n for n in range(100, 1500, pace.cadence) if pace.due(n)]
    [100, 200, 400, 700, 1000, 1300]
    """

    FIRST = 100

    def __init__(self, every: int) -> None:
        if every < 1:
            raise ValueError("every is at least 1 job")
        self.every = every
        self.cadence = self.next = min(self.FIRST, every)

    def due(self, submitted: int) -> bool:
        """Return whether to refit now; if so, advance to the next refit."""
        if submitted < self.next:
            return False
        self.next = submitted + min(submitted, self.every)
        return True
