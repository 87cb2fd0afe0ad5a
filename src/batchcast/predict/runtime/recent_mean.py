"""`recent_mean`: the mean of the last k finished jobs that look the same."""

from __future__ import annotations

from collections import deque
from operator import attrgetter

from ...events.event import END, SUBMIT, Event
from ...events.state import SystemState
from ...job import JobRequest, Name
from ..fields import class_key
from ..protocol import Prediction, at_least_a_second
from .requested import largest_limit, limit_or

FIELDS = ("user_id", "req_time", "procs")


class RecentMean:
    """Mean run time of the last `k` finished jobs equal on `fields`, else the last k of the user, else the limit.

    One finished job suffices at each step; the result is capped by the limit. `fields` are columns known at
    submission (a `JobRequest` attribute or an extra column), parted by `+`. Unknown fields never match (NaN equals
    nothing), so such a job goes to its user's history. Source: the rule measured in papers/online-knn-ga.md ("mean of
    the last 5 finished jobs of the same user, requested time and processors"). O(k) a job, k numbers a class.

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
        self.largest = 0.0
        self.same: dict[tuple[object, ...], deque[float]] = {}
        self.users: dict[Name, deque[float]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The mean, kept between one second and the limit."""
        recent = self.same.get(self._key(job))
        basis = "same " + ", ".join(self.fields)
        if not recent and job.user_id is not None:
            recent, basis = self.users.get(job.user_id), "same user"
        if not recent:
            return Prediction(at_least_a_second(limit_or(job.req_time, self.largest)), basis="limit: no history")
        point = at_least_a_second(sum(recent) / len(recent), job.req_time)
        return Prediction(point, basis=f"mean of the last {len(recent)} finished, {basis}")

    def observe(self, event: Event, at: SystemState) -> None:
        """Keeps the last k run times of each class and of each user."""
        if event.kind == END:
            job: JobRequest = event.job  # type: ignore[union-attr]
            run_time: float = event.run_time  # type: ignore[union-attr]
            self.users.setdefault(job.user_id, deque(maxlen=self.k)).append(run_time)
            key = self._key(job)
            if None not in key:
                self.same.setdefault(key, deque(maxlen=self.k)).append(run_time)
        elif event.kind == SUBMIT:
            self.largest = largest_limit(self.largest, event.job.req_time)  # type: ignore[union-attr]

    def _key(self, job: JobRequest) -> tuple[object, ...]:
        if self._plain is None:
            return class_key(job, self.fields)
        values = self._plain(job)
        for value in values:
            if value != value:
                return tuple(None if v != v else v for v in values)
        return values
