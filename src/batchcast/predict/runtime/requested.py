"""`requested`: the user's limit is the forecast. The yardstick every other method has to beat."""

from __future__ import annotations

from ...events.event import SUBMIT, Event
from ...events.state import SystemState
from ...job import JobRequest
from ..protocol import Prediction, at_least_a_second


class Requested:
    """Predicts `req_time`; where it is unknown, the largest limit seen so far, else a day. O(1) a job.

    >>> Requested().predict(JobRequest(0, 1, 0.0, 1.0, 3600.0, float("nan")), SystemState()).point
    3600.0
    """

    def __init__(self) -> None:
        self.largest = 0.0

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The limit."""
        return Prediction(at_least_a_second(limit_or(job.req_time, self.largest)), basis="the user's limit")

    def observe(self, event: Event, at: SystemState) -> None:
        """Notes the largest limit, for jobs without one."""
        if event.kind == SUBMIT:
            self.largest = largest_limit(self.largest, event.job.req_time)  # type: ignore[union-attr]


UNLIMITED_GUESS = 86400.0


def limit_or(req_time: float, largest: float) -> float:
    """A job's limit; where it has none (NaN, infinite), the largest seen before it; where none was seen, a day."""
    if req_time == req_time and req_time != float("inf"):
        return req_time
    return largest if largest > 0 else UNLIMITED_GUESS


def largest_limit(largest: float, req_time: float) -> float:
    """The largest finite limit so far."""
    return req_time if largest < req_time < float("inf") else largest
