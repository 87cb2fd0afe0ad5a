# SPDX-License-Identifier: Apache-2.0
"""`largest_recent`: the usual rule of thumb, some share above the largest of the last few."""

from __future__ import annotations

from collections import deque

from ...events.event import End, Event, Submit
from ...events.state import SystemState
from ...job import JobRequest, Name
from ..fallback import LargestLimit
from ..protocol import Grounds, Prediction, at_least_a_second


class LargestRecent:
    """Returns `factor` times the longest of the last `k` finished jobs of the same user and size, else of the user.

    Parameters
    ----------
    k
        How many of the last finished jobs count, at least 1.
    factor
        What the largest is multiplied by, above 0.

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    What people advise for a limit or a memory request, as a method to compare with: it is meant to be rarely exceeded
    and so is a poor forecast; `predict.recommend.rule_of_thumb` is the same for one list. Never above the limit, which
    is the answer without a finished job of the user. O(k) a job.

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
        """The largest with its margin, kept between one second and the limit."""
        recent = next((self.recent[key] for key in _keys(job) if key in self.recent), None)
        if recent is None or job.user_id is None:
            return self.limits.forecast(job)
        point = at_least_a_second(self.factor * max(recent), job.req_time)
        return Prediction(point, basis=f"{self.factor:g} x largest of the last {len(recent)}", grounds=Grounds.CLASS)

    def observe(self, event: Event, at: SystemState) -> None:
        """Keeps the last k values of each user and of each user and size."""
        if isinstance(event, End):
            for key in _keys(event.job):
                self.recent.setdefault(key, deque(maxlen=self.k)).append(event.run_time)
        elif isinstance(event, Submit):
            self.limits.note(event.job.req_time)


def _keys(job: JobRequest) -> tuple[tuple[Name, float | None], ...]:
    return ((job.user_id, job.procs), (job.user_id, None))
