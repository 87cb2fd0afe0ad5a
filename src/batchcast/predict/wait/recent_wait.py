# SPDX-License-Identifier: Apache-2.0
"""`recent_wait`: the median of the last k waits of the same queue and size class, the baseline for other wait
predictors.

The module also has what further wait predictors need: an index of queued jobs by group, with their waits so far, and a
guess of a wait without any history.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Hashable

from ...events.event import Capacity, End, Event, Requeue, Start, Submit, Withdraw
from ...events.state import Cancelled, SystemState
from ...job import JobRequest
from ...metrics.accuracy import size_class_of
from ..protocol import Grounds, Prediction, at_least_a_second

FITS = "no history: the job fits beside the waiting jobs"
AN_HOUR = "no history: one hour, or the longest wait so far"


class QueuedByGroup:
    """An index of the state's queue: for each group, the sorted submit times of its queued jobs.

    A queued job may belong to several groups. `SystemState.taught` decides from which ended waits a predictor may
    learn. An event costs O(log queue) for each group of its job, plus the time to insert into a sorted list.

    >>> from batchcast.events.event import Start, Submit
    >>> job, state, queued = JobRequest(0, 1, 5.0, 4.0, 60.0, float("nan")), SystemState(8.0), QueuedByGroup()
    >>> event = Submit(5.0, job); state.apply(event); queued.enter(job, "small")
    >>> queued.longer("small", 9.0, now=15.0)
    1
    >>> event = Start(15.0, job, 10.0); state.apply(event); queued.leave(event, state)
    10.0
    """

    def __init__(self, cancelled: Cancelled = "count") -> None:
        self.cancelled = cancelled
        self.jobs: dict[int, tuple[tuple[Hashable, ...], JobRequest]] = {}
        self.submits: dict[Hashable, list[float]] = {}

    def enter(self, job: JobRequest, *groups: Hashable) -> None:
        """Add a job that joins the queue to its groups."""
        self.jobs[job.row] = (groups, job)
        for group in groups:
            insort(self.submits.setdefault(group, []), job.submit_time)

    def leave(self, event: Event, at: SystemState) -> float | None:
        """Remove the job of an event from its groups if the job leaves the queue; return its wait in seconds if
        predictors can learn from the wait."""
        if not isinstance(event, (Start, Withdraw, End)) or (entry := self.jobs.pop(event.job.row, None)) is None:
            return None
        for group in entry[0]:
            waiting = self.submits[group]
            del waiting[bisect_left(waiting, entry[1].submit_time)]
        return at.taught(event, self.cancelled)

    def longer(self, group: Hashable, wait: float, now: float) -> int:
        """Return how many queued jobs of a group have already waited longer than `wait`."""
        waiting = self.submits.get(group)
        return bisect_left(waiting, now - wait) if waiting else 0

    def elapsed(self, group: Hashable, now: float) -> float:
        """Return the longest wait so far of a group's queued jobs; 0 if none is queued."""
        waiting = self.submits.get(group)
        return now - waiting[0] if waiting else 0.0

    def regroup(self, group_of: Callable[[JobRequest], Hashable]) -> None:
        """Assign each queued job to one new group."""
        self.submits = {}
        for row, (_, job) in self.jobs.items():
            group = group_of(job)
            self.jobs[row] = ((group,), job)
            insort(self.submits.setdefault(group, []), job.submit_time)


def order_statistic(ordered: list[float], level: float, longer: int) -> float:
    """Return a quantile (nearest rank) of sorted waits and `longer` censored waits, where the censored waits count as
    longer than all ended waits.

    >>> order_statistic([1.0, 2.0, 3.0, 4.0], 0.5, 0), order_statistic([1.0, 2.0, 3.0, 4.0], 0.5, 3)
    (2.0, 4.0)
    """
    rank = max(1, -int(-level * (len(ordered) + longer) // 1))
    return ordered[min(rank, len(ordered)) - 1]


def forget(ordered: list[float], wait: float) -> None:
    """Remove one value from a sorted list."""
    del ordered[bisect_right(ordered, wait) - 1]


def guess(job: JobRequest, at: SystemState, oldest: float) -> tuple[float, str]:
    """Predict a wait without history: 1 s if the job fits beside all queued jobs, else the larger of `oldest` and 1
    h."""
    if at.free - at.queued_procs >= job.procs:
        return 1.0, FITS
    return max(3600.0, oldest), AN_HOUR


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
        if isinstance(event, (Submit, Requeue)):
            self.queued.enter(event.job, *_groups(event.job))
        elif not isinstance(event, Capacity) and (wait := self.queued.leave(event, at)) is not None:
            for group in _groups(event.job):
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
