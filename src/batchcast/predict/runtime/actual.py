# SPDX-License-Identifier: Apache-2.0
"""`actual`: perfect knowledge. `actual`: the true run times, for comparisons only; a site does not know them in
advance.
"""

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
        Recorded run times in log order, in seconds; NaN if a job never ran.

    Notes
    -----
    `is_oracle` exempts this predictor from the check that predictors do not use the future. No other method receives
    the recorded run times. O(1) a job.

    Examples
    --------
    >>> Actual([7.0]).predict(JobRequest(0, 1, 0.0, 1.0, 60.0, float("nan")), SystemState()).point
    7.0
    """

    is_oracle = True

    def __init__(self, answers: Sequence[float]) -> None:
        self.answers = [float(a) for a in answers]

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the recorded run time."""
        run_time = self.answers[job.row]
        if run_time != run_time:
            return LargestLimit().forecast(job, "oracle: the job never ran; its time limit")
        return Prediction(at_least_a_second(run_time), basis="oracle: the recorded run time", grounds=Grounds.ORACLE)

    def observe(self, event: Event, at: SystemState) -> None:
        """Do nothing, because there is nothing to learn."""
