"""`recent_wait`: the median of the last k waits of the same queue and size class. The baseline to beat."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Hashable

from ...events.event import Event
from ...events.state import SystemState
from ...job import JobRequest
from ..protocol import Prediction, at_least_a_second
from .census import Cancelled, Census, forget, guess, order_statistic

SIZE_CLASSES = (1.0, 4.0, 16.0, 64.0)


def size_class(procs: float) -> int:
    """0 to 4 for 1, 2-4, 5-16, 17-64 and more processors; -1 unknown.

    >>> size_class(1), size_class(5), size_class(1000)
    (0, 2, 4)
    """
    return -1 if procs != procs else sum(procs > bound for bound in SIZE_CLASSES)


class RecentWait:
    """Median of the last `k` learned waits of the job's queue and size class, else of the size class, else of all.

    A class answers from `need` waits on. Queued jobs of the class that have already waited longer than the plain
    median count as longer waits (censored, not ignored). The bound is the `level` quantile, nearest rank, with the
    same care. `cancelled`: whether a job cancelled in the queue teaches its wait. O(k) memory a class, O(log k) a job.

    >>> from batchcast.events.event import Start, Submit
    >>> state, method = SystemState(8.0), RecentWait(need=1)
    >>> for row, wait in enumerate((10.0, 30.0, 50.0)):
    ...     job = JobRequest(row, row, 0.0, 1.0, 60.0, float("nan"))
    ...     method.observe(Submit(0.0, job), state); method.observe(Start(wait, job, wait), state)
    >>> method.predict(job, state).point
    30.0
    """

    answers_by = "point"

    def __init__(self, k: int = 50, need: int = 5, level: float = 0.95, cancelled: Cancelled = "count") -> None:
        if k < 1 or need < 1:
            raise ValueError("k and need are at least 1 wait")
        self.k, self.need, self.level = k, need, level
        self.queues, self.sizes, self.all = Census(cancelled), Census(cancelled), Census(cancelled)
        self.recent: dict[Hashable, deque[float]] = {}
        self.ordered: dict[Hashable, list[float]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The median and the level's quantile of the narrowest class that has enough waits."""
        for group, census, name in self._groups(job):
            ordered = self.ordered.get(group, ())
            if len(ordered) >= self.need or (ordered and group is None):
                point = self._quantile(group, census, 0.5, at.now)
                bound = max(point, self._quantile(group, census, self.level, at.now))
                basis = f"median of the last {len(ordered)} waits, {name}"
                return Prediction(at_least_a_second(point), (self.level,), (at_least_a_second(bound),), basis)
        point, basis = guess(job, at, self.all.elapsed(None, at.now))
        return Prediction(point, (self.level,), (point,), basis)

    def observe(self, event: Event, at: SystemState) -> None:
        """Keeps the last k waits of each class."""
        job = getattr(event, "job", None)
        if job is None:  # the machine changed: only outages are noted
            for census in (self.queues, self.sizes, self.all):
                census.observe(event, at)
            return
        for group, census, _ in self._groups(job):
            wait = census.observe(event, at, group)
            if wait is not None:
                self._learn(group, wait)

    def _groups(self, job: JobRequest) -> tuple[tuple[Hashable, Census, str], ...]:
        size = size_class(job.procs)
        return (
            ((job.queue_id, size), self.queues, "same queue and size class"),
            (size, self.sizes, "same size class"),
            (None, self.all, "all jobs"),
        )

    def _quantile(self, group: Hashable, census: Census, level: float, now: float) -> float:
        ordered = self.ordered[group]
        plain = order_statistic(ordered, level, 0)
        longer = census.longer(group, plain, now)
        return order_statistic(ordered, level, longer) if longer else plain

    def _learn(self, group: Hashable, wait: float) -> None:
        recent, ordered = self.recent.setdefault(group, deque()), self.ordered.setdefault(group, [])
        if len(recent) == self.k:
            forget(ordered, recent.popleft())
        recent.append(wait)
        insort(ordered, wait)
