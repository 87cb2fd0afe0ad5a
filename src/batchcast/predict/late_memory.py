"""Any run-time method asked for memory: the peak a node in the run time's place, what was asked for in the limit's."""

from __future__ import annotations

import math
from typing import Any

from msgspec.structs import replace

from ..events.event import End, Event, Submit, Withdraw
from ..events.state import SystemState
from ..job import JobRequest
from .protocol import Prediction
from .registry import make

LATE_S = 3600.0
"""How long after a job's end its memory is waited for: accounting tells it later than the queue tells the end."""


class LateMemory:
    """Forecasts of the peak memory a node, KiB, by a method made for run times.

    A job's measured peak may come with its end or, on a live cluster, up to an hour later (`measured`); a job whose
    memory nobody measures is learned from no more than one that was withdrawn. One that ran out of memory needed more
    than it got: it is learned as what it held at its end, or had asked for, whichever is more. Running jobs say nothing
    of their peak, so the method hears of no start. O(1) beside the method's own cost.

    Parameters
    ----------
    of
        The method, as `runtime` takes it: `NAME:key=value,...`.

    Examples
    --------
    >>> job = JobRequest(0, 1, 0.0, 1.0, 600.0, 4096.0, user_id="ada")
    >>> state, method = SystemState(), LateMemory("recent_mean")
    >>> for row in range(3):
    ...     method.observe(End(10.0, job._replace(row=row), 10.0, 0.0, "completed", 1024.0), state)
    >>> method.predict(job, state).point
    1024.0
    """

    def __init__(self, of: str = "kernel") -> None:
        self.inner: Any = make("runtime", of)
        self.uses = tuple(getattr(self.inner, "uses", ()))
        self.pending: dict[int, End] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The method's answer in KiB a node."""
        answer: Prediction = self.inner.predict(asking_memory(job), at)
        return replace(answer, basis=answer.basis.replace("limit", "memory request"))

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit, Withdraw: as they are; End: what was measured, now or when `measured` tells it."""
        if isinstance(event, End):
            if event.peak_mem_kib == event.peak_mem_kib:
                self._learn(event, event.peak_mem_kib, event.status, at)
            else:
                self.pending[event.job.row] = event
            self._give_up(event.time, at)
        elif isinstance(event, Submit | Withdraw):
            self.inner.observe(event._replace(job=asking_memory(event.job)), at)

    def measured(self, row: int, peak_mem_kib: float, status: str | None, at: SystemState) -> None:
        """What the ended job `row` held at most, KiB a node, now that accounting tells it."""
        event = self.pending.pop(row, None)
        if event is not None:
            self._learn(event._replace(time=at.now), peak_mem_kib, status, at)

    def _learn(self, event: End, peak_mem_kib: float, status: Any, at: SystemState) -> None:
        job = asking_memory(event.job)
        ran_out = status == "out_of_memory" and job.req_time > peak_mem_kib
        value = job.req_time if ran_out else peak_mem_kib
        self.inner.observe(End(event.time, job, max(value, 1.0), event.wait_time, status), at)

    def _give_up(self, now: float, at: SystemState) -> None:
        """Jobs whose memory did not become known in time; the oldest come first."""
        for row in list(self.pending):
            if self.pending[row].time > now - LATE_S:
                break
            event = self.pending.pop(row)
            self.inner.observe(Withdraw(now, asking_memory(event.job), event.wait_time), at)


def asking_memory(job: JobRequest) -> JobRequest:
    """The job with what it asked for a node, KiB, where its limit stands; unknown stays unknown.

    >>> asking_memory(JobRequest(0, 1, 0.0, 8.0, 600.0, 4096.0, req_nodes=2.0)).req_time
    2048.0
    """
    nodes = job.req_nodes if job.req_nodes > 1 else 1.0
    asked = job.req_mem_kib / nodes
    return job._replace(req_time=asked if math.isfinite(asked) else math.nan)
