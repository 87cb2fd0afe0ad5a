# SPDX-License-Identifier: Apache-2.0
"""`actual`: the oracle. It was constructed with the answers and says so in its name."""

from __future__ import annotations

from collections.abc import Sequence

from ...events.event import Event
from ...events.state import SystemState
from ...job import JobRequest
from ..fallback import LargestLimit
from ..protocol import Grounds, Prediction, at_least_a_second


class Actual:
    """Perfect knowledge: returns the recorded run time, or the time limit for a job that never ran.

    Parameters
    ----------
    answers
        Recorded run times in log order, seconds, NaN where a job never ran.

    Notes
    -----
    `is_oracle` excuses it from hiding the future; no other method is made with answers. O(1) a job.

    Examples
    --------
    >>> Actual([7.0]).predict(JobRequest(0, 1, 0.0, 1.0, 60.0, float("nan")), SystemState()).point
    7.0
    """

    is_oracle = True

    def __init__(self, answers: Sequence[float]) -> None:
        self.answers = [float(a) for a in answers]

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The truth."""
        run_time = self.answers[job.row]
        if run_time != run_time:
            return LargestLimit().forecast(job, "oracle: never ran, so its limit")
        return Prediction(at_least_a_second(run_time), basis="oracle: the recorded run time", grounds=Grounds.ORACLE)

    def observe(self, event: Event, at: SystemState) -> None:
        """Nothing is left to learn."""
