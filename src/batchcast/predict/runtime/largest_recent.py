# SPDX-License-Identifier: Apache-2.0
"""`largest_recent`: a common rule of thumb, the longest of the last few run times plus a margin."""

from __future__ import annotations

from collections import deque

from ...events.event import End, Event, Submit
from ...events.state import SystemState
from ...job import JobRequest, Name
from ..fallback import LargestLimit
from ..protocol import Grounds, Prediction, at_least_a_second


class LargestRecent:
    """Predicts `factor` times the longest run time of the last `k` finished jobs of the same user and size.

    Parameters
    ----------
    k
        Number of the latest finished jobs that count, at least 1.
    factor
        Factor applied to the longest run time, above 0.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Notes
    -----
    If no job of this user and size has finished, the user's jobs of all sizes count. Without a finished job of the
    user, the time limit is predicted. A prediction is at most the time limit. The rule of thumb is often recommended
    for time limits and memory requests, and serves as a baseline. The rule is meant as an upper bound that jobs rarely
    exceed, so its result is a poor point prediction. `predict.recommend.rule_of_thumb` computes it for one list of run
    times. O(k) a job.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada"), SystemState()
    >>> method = LargestRecent()
    >>> for run in (40.0, 80.0):
    ...     method.observe(End(run, job, run, 0.0), state)
    >>> method.predict(job, state).point
    100.0
    """

    uses = ("user_id", "procs")

    def __init__(self, k: int = 10, factor: float = 1.25) -> None:
        if k < 1 or not factor > 0:
            raise ValueError("k is at least 1 job, factor above 0")
        self.k, self.factor = k, factor
        self.limits = LargestLimit()
        self.recent: dict[tuple[Name, float | None], deque[float]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the longest run time times the factor, between one second and the time limit."""
        recent = next((self.recent[key] for key in _keys(job) if key in self.recent), None)
        if recent is None or job.user_id is None:
            return self.limits.forecast(job)
        point = at_least_a_second(self.factor * max(recent), job.req_time)
        return Prediction(point, basis=f"{self.factor:g} x largest of the last {len(recent)}", grounds=Grounds.CLASS)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the last k run times of each user, and of each combination of user and size."""
        if isinstance(event, End):
            for key in _keys(event.job):
                self.recent.setdefault(key, deque(maxlen=self.k)).append(event.run_time)
        elif isinstance(event, Submit):
            self.limits.note(event.job.req_time)


def _keys(job: JobRequest) -> tuple[tuple[Name, float | None], ...]:
    return ((job.user_id, job.procs), (job.user_id, None))
