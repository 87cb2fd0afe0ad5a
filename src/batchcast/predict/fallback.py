# SPDX-License-Identifier: Apache-2.0
"""Predictions for jobs with little history: the job's time limit, else the largest earlier time limit, else one day.

Also computes quantiles from a handful of similar jobs.
"""

from __future__ import annotations

import math

import numpy as np

from ..job import JobRequest
from .protocol import Grounds, Prediction, at_least_a_second

DAY = 86400.0
NO_HISTORY = "limit: no history"


class LargestLimit:
    """Tracks the largest finite time limit so far, which replaces the time limit of jobs that have none. O(1) per job.

    >>> limits = LargestLimit()
    >>> limits.of(float("nan")); limits.note(600.0); limits.of(float("nan")), limits.of(60.0)
    86400.0
    (600.0, 60.0)
    """

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0

    def note(self, req_time: float) -> None:
        """Update the largest limit with a job's time limit; unknown and infinite limits are ignored."""
        if self.seconds < req_time < math.inf:
            self.seconds = req_time

    def of(self, req_time: float) -> float:
        """Return a job's time limit in seconds, or the largest limit so far if the job has none."""
        if req_time == req_time and req_time != math.inf:
            return req_time
        return self.seconds if self.seconds > 0 else DAY

    def forecast(self, job: JobRequest, basis: str = NO_HISTORY) -> Prediction:
        """Return the time limit as a prediction."""
        return Prediction(at_least_a_second(self.of(job.req_time)), basis=basis, grounds=Grounds.LIMIT)


def limits_in_order(req_time: np.ndarray, order: np.ndarray, nothing: float = DAY) -> np.ndarray:
    """Apply `LargestLimit` to every job of a log, in order of submission; `req_time` is in seconds, NaN if unknown.

    `order` lists the rows by submission. `nothing` is the result for jobs without a limit before the first known limit.

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
