# SPDX-License-Identifier: Apache-2.0
"""`requested`: predicts the user's time limit. The time limit is the baseline that other predictors should beat."""

from __future__ import annotations

import numpy as np

from ...events.event import SUBMIT, Event, Submit
from ...events.recorded import Forecasts, timeline
from ...events.state import SystemState
from ...job import JobRequest
from ...table import Trace
from ..fallback import LargestLimit, limits_in_order
from ..protocol import SHORTEST, Grounds, Prediction

BASIS = "the user's limit"


class Requested:
    """Predicts the user's time limit; this is the baseline that every other method should beat.

    Notes
    -----
    A job without a limit gets the largest earlier limit, or one day if there is none. O(1) a job.

    Examples
    --------
    >>> Requested().predict(JobRequest(0, 1, 0.0, 1.0, 3600.0, float("nan")), SystemState()).point
    3600.0
    """

    def __init__(self) -> None:
        self.limits = LargestLimit()

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the job's time limit as prediction."""
        return self.limits.forecast(job, BASIS)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the largest time limit, which is used for jobs without a limit."""
        if isinstance(event, Submit):
            self.limits.note(event.job.req_time)

    def predict_trace(self, trace: Trace, protocol: str = "honest", procs: str = "req") -> Forecasts:
        """Predict a whole log with a fresh predictor; equals the event-by-event predictions. O(n log n)."""
        plan, n = timeline(trace, protocol), len(trace)
        points = np.maximum(limits_in_order(trace.req_time, plan.index[plan.kind == SUBMIT]), SHORTEST)
        return Forecasts(points, (), np.empty((n, 0)), [BASIS] * n, [Grounds.LIMIT] * n)
