"""The limit where there is nothing better: a job's own, else the largest seen before it, else a day."""

from __future__ import annotations

import math

from ..job import JobRequest
from .protocol import Grounds, Prediction, at_least_a_second

DAY = 86400.0


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

    def forecast(self, job: JobRequest, basis: str = "limit: no history") -> Prediction:
        """The limit as a forecast."""
        return Prediction(at_least_a_second(self.of(job.req_time)), basis=basis, grounds=Grounds.LIMIT)
