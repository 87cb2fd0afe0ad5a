"""Peak memory on a live clock: the queue tells a job's end at once, accounting what it held some minutes later."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ..events.event import End, Event, Submit, Withdraw
from ..events.state import SystemState
from ..job import JobRequest
from .peak_memory import MIB, PeakMemory
from .protocol import Prediction
from .registry import make

LATE_S = 3600.0
"""How long after a job's end its memory is waited for."""


class LateMemory:
    """Forecasts of the peak memory a node, KiB, by `PeakMemory` around a run-time method.

    A job's peak may come with its end or later (`measured`); one whose memory nobody measures within an hour teaches
    nothing. O(1) beside the method's own cost.

    Parameters
    ----------
    of
        The method, as `runtime` takes it: `NAME:key=value,...`.

    Examples
    --------
    >>> job = JobRequest(0, 1, 0.0, 1.0, 600.0, 4096.0, user_id="ada")
    >>> state, method = SystemState(), LateMemory("recent_mean")
    >>> for row in range(3):
    ...     method.observe(End(10.0, job._replace(row=row), 10.0, 0.0, "completed", 2048.0), state)
    >>> method.predict(job, state).point
    2048.0
    """

    def __init__(self, of: str = "kernel") -> None:
        self.inner: Any = PeakMemory(make("runtime", of), AskedANode(), Held())
        self.uses = tuple(self.inner.uses)
        self.pending: dict[int, End] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The method's answer in KiB a node."""
        answer: Prediction = self.inner.predict(job, at)
        kib = tuple(value * MIB for value in answer.quantiles)
        words = answer.basis.replace("limit", "memory request")
        return replace(answer, point=answer.point * MIB, quantiles=kib, basis=words)

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit, Withdraw: as they are; End: with what was measured, now or when `measured` tells it."""
        if isinstance(event, End):
            if event.peak_mem_kib == event.peak_mem_kib:
                self.inner.observe(event, at)
            else:
                self.pending[event.job.row] = event
            self._give_up(event.time, at)
        elif isinstance(event, Submit | Withdraw):
            self.inner.observe(event, at)

    def measured(self, row: int, peak_mem_kib: float, status: str | None, at: SystemState) -> None:
        """What the ended job `row` held at most, KiB a node, now that accounting tells it."""
        event = self.pending.pop(row, None)
        if event is not None:
            self.inner.observe(event._replace(time=at.now, peak_mem_kib=peak_mem_kib, status=status), at)

    def _give_up(self, now: float, at: SystemState) -> None:
        """Jobs whose memory did not become known in time; the oldest come first."""
        for row in list(self.pending):
            if self.pending[row].time > now - LATE_S:
                break
            event = self.pending.pop(row)
            self.inner.observe(Withdraw(now, event.job, event.wait_time), at)


class AskedANode:
    """KiB that a job asks for a node; NaN unknown. A class, so that a kept clock can be read again.

    >>> AskedANode()(JobRequest(0, 1, 0.0, 8.0, 600.0, 4096.0, req_nodes=2.0))
    2048.0
    """

    def __call__(self, job: JobRequest) -> float:
        """From its request alone."""
        return job.req_mem_kib / (job.req_nodes if job.req_nodes > 1 else 1.0)


class Held:
    """KiB that one node of an ended job held at most."""

    def __call__(self, end: End) -> float:
        """As its end tells."""
        return end.peak_mem_kib
