"""Which waits may be learned from, and whose are still running: the queue as the plain wait predictors see it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable
from typing import Literal

from ...events.event import CAPACITY, CHANGE, END, OVERDUE, REQUEUE, START, SUBMIT, WITHDRAW, Event
from ...events.state import SystemState
from ...job import JobRequest
from .ledger import OUTAGE_S

Cancelled = Literal["count", "skip"]


class Census:
    """Keeps, for every group of jobs, the submit times of those still queued, and says what a departure teaches.

    A wait teaches nothing when it is unknown or negative, when the job is larger than the machine, when an outage lies
    in it (a day without any event although a queued job had room), or, with `cancelled="skip"`, when the job left
    without running. O(log queue) an event, a memory move of the group's queue included.

    >>> from batchcast.events.event import Start, Submit
    >>> job, state, census = JobRequest(0, 1, 5.0, 4.0, 60.0, float("nan")), SystemState(8.0), Census()
    >>> census.observe(Submit(5.0, job), state, "small"), census.longer("small", 9.0, now=15.0)
    (None, 1)
    >>> census.observe(Start(15.0, job, 10.0), state, "small")
    10.0
    """

    def __init__(self, cancelled: Cancelled = "count") -> None:
        self.cancelled = cancelled
        self.queued: dict[int, tuple[Hashable, JobRequest]] = {}
        self.submits: dict[Hashable, list[float]] = {}
        self.spoiled: set[int] = set()
        self.now = float("-inf")
        self.free = float("nan")
        self.runs = 0

    def observe(self, event: Event, at: SystemState, group: Hashable = None) -> float | None:
        """Take an event in; a wait in seconds when it taught one. `group` is asked for at Submit only."""
        if event.time - self.now >= OUTAGE_S and self._room():
            self.spoiled.update(self.queued)
        self.now, self.free, self.runs = event.time, at.free, len(at.running)
        kind = event.kind
        if kind in (CAPACITY, OVERDUE, CHANGE):
            return None
        job: JobRequest = event.job  # type: ignore[union-attr]
        if kind in (SUBMIT, REQUEUE):
            if kind == REQUEUE:
                self.spoiled.add(job.row)
            self.queued[job.row] = (group, job)
            insort(self.submits.setdefault(group, []), job.submit_time)
            return None
        entry = self.queued.pop(job.row, None)
        if entry is None:
            return None
        waiting = self.submits[entry[0]]
        del waiting[bisect_left(waiting, job.submit_time)]
        spoiled = job.row in self.spoiled
        self.spoiled.discard(job.row)
        wait = event.wait_time if kind in (START, WITHDRAW) else float("nan")  # type: ignore[union-attr]
        if spoiled or kind == END or not wait >= 0 or job.procs > at.total:
            return None
        return wait if kind == START or self.cancelled == "count" else None

    def longer(self, group: Hashable, wait: float, now: float) -> int:
        """How many queued jobs of a group have already waited longer than `wait`."""
        waiting = self.submits.get(group)
        return bisect_left(waiting, now - wait) if waiting else 0

    def elapsed(self, group: Hashable, now: float) -> float:
        """The longest wait so far among a group's queued jobs, 0 when none is queued."""
        waiting = self.submits.get(group)
        return now - waiting[0] if waiting else 0.0

    def regroup(self, group_of: Callable[[JobRequest], Hashable]) -> None:
        """Sort the queued jobs into new groups."""
        self.submits = {}
        for row, (_, job) in self.queued.items():
            self.queued[row] = (group_of(job), job)
            insort(self.submits.setdefault(self.queued[row][0], []), job.submit_time)

    def _room(self) -> bool:
        """Whether some queued job would have fitted the free processors, or nothing ran at all."""
        return bool(self.queued) and (self.runs == 0 or any(job.procs <= self.free for _, job in self.queued.values()))


def order_statistic(ordered: list[float], level: float, longer: int) -> float:
    """The level's empirical quantile of sorted waits when `longer` more are known to exceed it (nearest rank).

    >>> order_statistic([1.0, 2.0, 3.0, 4.0], 0.5, 0), order_statistic([1.0, 2.0, 3.0, 4.0], 0.5, 3)
    (2.0, 4.0)
    """
    rank = max(1, -int(-level * (len(ordered) + longer) // 1))
    return ordered[min(rank, len(ordered)) - 1]


def forget(ordered: list[float], wait: float) -> None:
    """Take one value out of a sorted list."""
    del ordered[bisect_right(ordered, wait) - 1]


def guess(job: JobRequest, at: SystemState, oldest: float) -> tuple[float, str]:
    """With no history at all: a second where the job fits beside the queue, else an hour or the oldest wait so far."""
    if at.free - at.queued_procs >= job.procs:
        return 1.0, "no history: fits beside the queue"
    return max(3600.0, oldest), "no history: an hour, or the longest wait so far"
