"""The hour of submission as a point on a circle, so that 23:59 and 00:01 are neighbours."""

from __future__ import annotations

import math

from ..job import JobRequest

DAY = 86400.0
ABSURD = 1e9


def size_and_hour(job: JobRequest, offset: float = 0.0) -> tuple[float, float, float]:
    """Processors, and sine and cosine of the hour of submission; `offset` is the zone's, in seconds.

    Processors are NaN where unknown or absurd (a thousand million and more).

    >>> size_and_hour(JobRequest(0, 1, 21600.0, 8.0, float("nan"), float("nan")))[:2]
    (8.0, 1.0)
    """
    angle = 2.0 * math.pi * (((job.submit_time + offset) % DAY) / DAY)
    procs = job.procs if 0 < job.procs < ABSURD else math.nan
    return procs, math.sin(angle), math.cos(angle)
