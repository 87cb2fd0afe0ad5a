# SPDX-License-Identifier: Apache-2.0
"""`recent_mean`: the mean of the last k finished jobs that look the same."""

from __future__ import annotations

from collections import deque
from operator import attrgetter

from ...events.event import End, Event, Submit
from ...events.state import SystemState
from ...job import JobRequest, Name
from ..fallback import LargestLimit
from ..gate import class_key
from ..protocol import Grounds, Prediction, at_least_a_second

FIELDS = ("user_id", "req_time", "procs")


class RecentMean:
    """Mean run time of the last finished jobs equal on some columns, else of the user's, else the limit.

    Parameters
    ----------
    k
        How many of the last finished jobs count, at least 1.
    fields
        Columns known at submission (predict/gate.py), parted by `+` in text.

    Raises
    ------
    ValueError
        For `k` below 1.

    Notes
    -----
    One finished job suffices at each step; the result is capped by the limit. Unknown values never match (NaN
    equals nothing), so such a job goes to its user's history. The rule of papers/online-knn-ga.md ("mean of the
    last 5 finished jobs of the same user, requested time and processors"). The kernel of the simulated clock knows
    this method natively, with the same answers. O(k) a job, k numbers a class.

    References
    ----------
    Xu, Xiong, Xiao, On-line prediction of application run time using schedule historical data, 2018,
    doi:10.3969/j.issn.1001-3695.2018.08.0624.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada"), SystemState()
    >>> method = RecentMean(k=2)
    >>> for run in (10.0, 20.0, 40.0):
    ...     method.observe(End(run, job, run, 0.0), state)
    >>> method.predict(job, state).point
    30.0
    """

    def __init__(self, k: int = 5, fields: tuple[str, ...] = FIELDS) -> None:
        if k < 1:
            raise ValueError("k is at least 1 job")
        self.k = k
        self.fields = self.uses = fields
        # one C call instead of a Python loop; a single field would come back bare, not as a tuple
        several = len(fields) > 1 and all(name in JobRequest._fields for name in fields)
        self._plain = attrgetter(*fields) if several else None
        self.limits = LargestLimit()
        self.same: dict[tuple[object, ...], deque[float]] = {}
        self.users: dict[Name, deque[float]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The mean, kept between one second and the limit."""
        recent = self.same.get(self._key(job))
        basis, grounds = "same " + ", ".join(self.fields), Grounds.CLASS
        if not recent and job.user_id is not None:
            recent, basis, grounds = self.users.get(job.user_id), "same user", Grounds.OWN_HISTORY
        if not recent:
            return self.limits.forecast(job)
        point = at_least_a_second(sum(recent) / len(recent), job.req_time)
        return Prediction(point, basis=f"mean of the last {len(recent)} finished, {basis}", grounds=grounds)

    def observe(self, event: Event, at: SystemState) -> None:
        """Keeps the last k run times of each class and of each user."""
        if isinstance(event, End):
            job: JobRequest = event.job
            run_time: float = event.run_time
            self.users.setdefault(job.user_id, deque(maxlen=self.k)).append(run_time)
            key = self._key(job)
            if None not in key:
                self.same.setdefault(key, deque(maxlen=self.k)).append(run_time)
        elif isinstance(event, Submit):
            self.limits.note(event.job.req_time)

    def _key(self, job: JobRequest) -> tuple[object, ...]:
        if self._plain is None:
            return class_key(job, self.fields)
        values = self._plain(job)
        for value in values:
            if value != value:
                return tuple(None if v != v else v for v in values)
        return values
