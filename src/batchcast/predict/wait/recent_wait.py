"""`recent_wait`: the waits of the last k jobs that started."""

from __future__ import annotations

from collections import deque

from ...events.event import START, Event
from ...events.state import SystemState
from ...job import JobRequest
from ..protocol import Prediction, at_least_a_second

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)


class RecentWait:
    """Empirical quantiles of the waits of the last `k` started jobs of the same partition and size class, else of all.

    >>> from batchcast.events.event import Start
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan")), SystemState()
    >>> method = RecentWait(k=3)
    >>> for wait in (10.0, 20.0, 60.0):
    ...     method.observe(Start(wait, job, wait), state)
    >>> method.predict(job, state).point
    20.0
    """

    def __init__(self, k: int = 200, least: int = 10) -> None:
        self.k, self.least = k, least
        self.all: deque[float] = deque(maxlen=k)
        self.same: dict[tuple[object, int], deque[float]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Quantiles at the house's levels; the median is the point."""
        recent, basis = self.same.get(self._key(job), ()), "same partition and size"
        if len(recent) < self.least:
            recent, basis = self.all, "any job"
        if not recent:
            return Prediction(1.0, basis="no job has started yet")
        waits = sorted(recent)
        quantiles = tuple(at_least_a_second(waits[min(int(level * len(waits)), len(waits) - 1)]) for level in LEVELS)
        return Prediction(quantiles[2], LEVELS, quantiles, f"waits of the last {len(waits)} started, {basis}")

    def observe(self, event: Event, at: SystemState) -> None:
        """Keeps the last k waits of all and of each class."""
        if event.kind == START:
            wait: float = event.wait_time  # type: ignore[union-attr]
            self.all.append(wait)
            self.same.setdefault(self._key(event.job), deque(maxlen=self.k)).append(wait)  # type: ignore[union-attr]

    def _key(self, job: JobRequest) -> tuple[object, int]:
        return job.partition_id, (int(job.procs).bit_length() if job.procs == job.procs else 0)
