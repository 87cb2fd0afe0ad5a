# SPDX-License-Identifier: Apache-2.0
"""`requested`: the user's limit is the forecast. The yardstick every other method has to beat."""

from __future__ import annotations

from ...events.event import Event, Submit
from ...events.state import SystemState
from ...job import JobRequest
from ..fallback import LargestLimit
from ..protocol import Prediction


class Requested:
    """The user's limit as the forecast: the yardstick every other method has to beat.

    Notes
    -----
    A job without a limit gets the largest limit seen before it, else a day. O(1) a job.

    Examples
    --------
    >>> Requested().predict(JobRequest(0, 1, 0.0, 1.0, 3600.0, float("nan")), SystemState()).point
    3600.0
    """

    def __init__(self) -> None:
        self.limits = LargestLimit()

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The limit."""
        return self.limits.forecast(job, "the user's limit")

    def observe(self, event: Event, at: SystemState) -> None:
        """Notes the largest limit, for jobs without one."""
        if isinstance(event, Submit):
            self.limits.note(event.job.req_time)
