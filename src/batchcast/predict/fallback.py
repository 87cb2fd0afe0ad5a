# SPDX-License-Identifier: Apache-2.0
"""The forecast where there is little history: the job's limit, else the largest limit seen before it, else a day.

And quantiles from a handful of similar jobs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..job import JobRequest
from .protocol import Grounds, Prediction, at_least_a_second

DAY = 86400.0
NO_HISTORY = "limit: no history"


class LargestLimit:
    """The largest finite limit so far, and what it makes of a job without one. O(1) a job.

    >>> limits = LargestLimit()
    >>> limits.of(float("nan")); limits.note(600.0); limits.of(float("nan")), limits.of(60.0)
    86400.0
    (600.0, 60.0)
    """

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0

    def note(self, req_time: float) -> None:
        """One more job's limit; unknown and infinite ones say nothing."""
        if self.seconds < req_time < math.inf:
            self.seconds = req_time

    def of(self, req_time: float) -> float:
        """A job's limit in seconds; where it has none, what stands in for it."""
        if req_time == req_time and req_time != math.inf:
            return req_time
        return self.seconds if self.seconds > 0 else DAY

    def forecast(self, job: JobRequest, basis: str = NO_HISTORY) -> Prediction:
        """The limit as a forecast."""
        return Prediction(at_least_a_second(self.of(job.req_time)), basis=basis, grounds=Grounds.LIMIT)


def limits_in_order(req_time: np.ndarray, order: np.ndarray, nothing: float = DAY) -> np.ndarray:
    """What `LargestLimit` makes of each job of a log (n,), the jobs submitted in `order`, rows; unknown is NaN.

    `nothing` is that of a job without a limit before any is seen.

    >>> limits_in_order(np.array([np.nan, 600.0, np.nan]), np.arange(3)).tolist()
    [86400.0, 600.0, 600.0]
    """
    asked = req_time[order]
    finite = np.where(np.isfinite(asked), asked, 0.0)
    largest = np.maximum.accumulate(np.concatenate([[0.0], finite]))[:-1]
    known = ~np.isnan(asked) & (asked != np.inf)
    limits = np.full(len(req_time), np.nan)
    limits[order] = np.where(known, asked, np.where(largest > 0, largest, nothing))
    return limits


LEVELS = (0.1, 0.5, 0.9)


def sample_quantiles(
    run_times: Sequence[float], limit: float = float("nan"), levels: Sequence[float] = LEVELS
) -> tuple[float, ...]:
    """Quantiles of the next run time as order statistics of n earlier ones: the ceil(level * (n + 1))-th smallest.

    That rank makes P(next <= value) at least `level` when the n + 1 run times are exchangeable; with too few jobs for
    a level the largest (or smallest) stands in, which promises less: the report's coverage shows what it was worth.
    Kept between one second and the limit, monotone. Seconds; () for no jobs. O(n log n).

    >>> sample_quantiles([30.0, 10.0, 20.0])
    (10.0, 20.0, 30.0)
    """
    ordered = sorted(run_times)
    n = len(ordered)
    if not n:
        return ()
    ranks = (min(max(math.ceil(level * (n + 1) - 1e-9), 1), n) for level in levels)
    return tuple(at_least_a_second(ordered[rank - 1], limit) for rank in ranks)
