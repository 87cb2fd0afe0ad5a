# SPDX-License-Identifier: Apache-2.0
"""`recent_wait`: the median of the last k waits of the same queue and size class. This median is the baseline for other
wait predictors.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Hashable

from ...events.event import Capacity, Change, Event
from ...events.state import Cancelled, SystemState
from ...job import JobRequest
from ...metrics.accuracy import size_class_of
from ..protocol import Grounds, Prediction, at_least_a_second
from .groups import QueuedByGroup, forget, guess, order_statistic

CLASSES = ("same queue and size class", "same size class", "all jobs")


class RecentWait:
    """Predicts the median of the last `k` waits of the job's queue and size class, else of its size class, else of all
    jobs.

    Parameters
    ----------
    k
        Number of latest waits stored for each class.
    need
        Smallest number of waits that a class must have to be used.
    level
        Probability level of the upper bound, in (0, 1); the bound is a nearest-rank quantile.
    cancelled
        `count`: the time that a cancelled job spent in the queue counts as a wait. `skip`: a job cancelled in the queue
        is ignored.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Notes
    -----
    This is the baseline for the other methods. Queued jobs of the class that have already waited longer than the median
    of the ended waits are not ignored: they count as longer waits (censored observations), for the median and for the
    bound. Memory for k waits per class; O(log k) per job.

    Examples
    --------
    >>> from batchcast.events.event import Start, Submit
    >>> state, method = SystemState(8.0), RecentWait(need=1)
    >>> for row, wait in enumerate((10.0, 30.0, 50.0)):
    ...     job = JobRequest(row, row, 0.0, 1.0, 60.0, float("nan"))
    ...     for event in (Submit(0.0, job), Start(wait, job, wait)):
    ...         state.apply(event); method.observe(event, state)
    >>> method.predict(job, state).point
    30.0
    """

    answers_by = "point"

    def __init__(self, k: int = 50, need: int = 5, level: float = 0.95, cancelled: Cancelled = "count") -> None:
        if k < 1 or need < 1:
            raise ValueError("k and need are at least 1 wait")
        self.k, self.need, self.level = k, need, level
        self.queued = QueuedByGroup(cancelled)
        self.recent: dict[Hashable, deque[float]] = {}
        self.ordered: dict[Hashable, list[float]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the median and the bound of the narrowest class that has enough waits."""
        for group, name in zip(_groups(job), CLASSES):
            ordered = self.ordered.get(group, ())
            if len(ordered) >= self.need or (ordered and group is None):
                point = self._quantile(group, 0.5, at.now)
                bound = max(point, self._quantile(group, self.level, at.now))
                basis = f"median of the last {len(ordered)} waits, {name}"
                grounds = Grounds.EVERYONE if group is None else Grounds.CLASS
                return Prediction(at_least_a_second(point), (self.level,), (at_least_a_second(bound),), basis, grounds)
        point, basis = guess(job, at, self.queued.elapsed(None, at.now))
        return Prediction(point, (self.level,), (point,), basis, Grounds.NO_HISTORY)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the last k waits of each class."""
        if isinstance(event, (Capacity, Change)):
            return
        groups = _groups(event.job)
        if self.queued.follow(event, *groups):
            wait = at.taught(event, self.queued.cancelled)
            if wait is not None:
                for group in groups:
                    self._learn(group, wait)

    def _quantile(self, group: Hashable, level: float, now: float) -> float:
        ordered = self.ordered[group]
        plain = order_statistic(ordered, level, 0)
        longer = self.queued.longer(group, plain, now)
        return order_statistic(ordered, level, longer) if longer else plain

    def _learn(self, group: Hashable, wait: float) -> None:
        recent, ordered = self.recent.setdefault(group, deque()), self.ordered.setdefault(group, [])
        if len(recent) == self.k:
            forget(ordered, recent.popleft())
        recent.append(wait)
        insort(ordered, wait)


def _groups(job: JobRequest) -> tuple[Hashable, ...]:
    """Return the classes of a job, from narrow to wide, in the order of `CLASSES`."""
    size = size_class_of(job.procs)
    return (job.queue_id, size), size, None
