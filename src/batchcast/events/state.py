"""SystemState: the running set, the queue and the free processors, kept up to date event by event."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ..job import JobRequest
from .event import CAPACITY, CHANGE, END, OVERDUE, REQUEUE, START, SUBMIT, WITHDRAW, Event


class Running(NamedTuple):
    """A job on the machine: since when, and until when the plan holds it (NaN on clocks without a plan)."""

    job: JobRequest
    start_time: float
    planned_end: float = float("nan")


class SystemState:
    """What a scheduler knows at `now`; handed to predictors as it is, read-only by its interface, never copied.

    `running` maps a job's row to `Running` in order of start, `queued` maps it to `JobRequest` in order of arrival.
    `total` is the machine's processors (NaN when unknown); `free` is total minus what runs, never below 0, since real
    logs sometimes run more than their header admits. A clock owns the state and feeds it with `apply`; every event
    costs O(1). `version` counts the changes, so that what was derived from a state can be told from what is stale.

    >>> from batchcast.events.event import Submit, Start
    >>> job = JobRequest(0, 1, 0.0, 4.0, 60.0, float("nan"))
    >>> state = SystemState(total=10.0)
    >>> state.apply(Submit(0.0, job)); state.apply(Start(0.0, job, 0.0)); state.free
    6.0
    """

    __slots__ = ("_queued", "_running", "now", "queued", "queued_procs", "running", "running_procs", "total", "version")

    def __init__(self, total: float = float("nan")) -> None:
        self.now = 0.0
        self.total = total
        self.version = 0
        self.running_procs = 0.0
        self.queued_procs = 0.0
        self._running: dict[int, Running] = {}
        self._queued: dict[int, JobRequest] = {}
        self.running: Mapping[int, Running] = MappingProxyType(self._running)
        self.queued: Mapping[int, JobRequest] = MappingProxyType(self._queued)

    @property
    def free(self) -> float:
        """Free processors; NaN when the machine's size is unknown."""
        left = self.total - self.running_procs
        return left if not left < 0 else 0.0

    def __getstate__(self) -> tuple[object, ...]:
        return (
            *(self.now, self.total, self.version, self.running_procs, self.queued_procs),
            *(self._running, self._queued),
        )

    def __setstate__(self, state: tuple) -> None:
        self.now, self.total, self.version, self.running_procs, self.queued_procs, self._running, self._queued = state
        self.running, self.queued = MappingProxyType(self._running), MappingProxyType(self._queued)

    def apply(self, event: Event) -> None:
        """Move to the event's instant and take it in. For clocks: predictors are handed the state afterwards."""
        self.now = event.time
        self.version += 1
        kind = event.kind
        if kind == CAPACITY:
            self.total = event.procs  # type: ignore[union-attr]
        elif kind != OVERDUE:
            self._apply_to_job(kind, event)

    def plan(self, row: int, planned_end: float) -> None:
        """The clock's scheduler now holds the running job until `planned_end`."""
        self.version += 1
        self._running[row] = self._running[row]._replace(planned_end=planned_end)

    def _apply_to_job(self, kind: int, event: Event) -> None:
        job: JobRequest = event.job  # type: ignore[union-attr]
        row, procs = job.row, job.procs if job.procs == job.procs else 0.0
        if kind == SUBMIT:
            self._queued[row] = job
            self.queued_procs += procs
        elif kind == CHANGE:
            if row in self._queued:
                self._queued[row] = job
            elif row in self._running:
                self._running[row] = self._running[row]._replace(job=job)
        elif kind in (START, WITHDRAW):
            self._queued.pop(row)
            self.queued_procs -= procs
            if kind == START:
                self._running[row] = Running(job, event.time)
                self.running_procs += procs
        elif kind in (END, REQUEUE):
            self._running.pop(row)
            self.running_procs -= procs
            if kind == REQUEUE:
                self._queued[row] = job
                self.queued_procs += procs
