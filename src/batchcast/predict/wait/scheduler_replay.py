"""`scheduler_replay`: the current state simulated forward under a policy. What `squeue --start` does."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...events.event import CHANGE, END, SUBMIT, WITHDRAW, Event
from ...events.state import SystemState
from ...job import JobRequest
from ...schedule.forward import forward_start
from ..protocol import Prediction, at_least_a_second
from ..registry import make
from ..runtime.requested import largest_limit, limit_or
from .census import guess

LARGEST = float(2**29)


class SchedulerReplay:
    """When the job would start if nobody else came, every plan held and the policy were known.

    The running jobs end at their plans (the clock's own where it has one, else start + planned run time; a plan that
    is over ends now), the queue is served in order of arrival by `policy` (fcfs, easy, easy-sjbf). Planned run times
    are the limits, or those of the run-time method `runtime` as it answered at each submission, capped by the limit.
    The point comes from those plans, the bound from the limits; its `level` is nominal: later arrivals that overtake
    are not foreseen. A job without a limit is planned with the largest seen. Nothing is learned of waits, so nothing
    spoils them. O((running + queued) log) a prediction, about a microsecond a job.

    >>> state, job = SystemState(8.0), JobRequest(0, 1, 0.0, 4.0, 600.0, float("nan"))
    >>> SchedulerReplay().predict(job, state).point
    1.0
    """

    answers_by = "point"

    def __init__(
        self, policy: Literal["fcfs", "easy", "easy-sjbf"] = "easy", runtime: str = "requested", level: float = 0.95
    ) -> None:
        if not 0 < level < 1:
            raise ValueError("level lies between 0 and 1")
        self.policy, self.runtime, self.level = policy, runtime, level
        self.method = None if runtime == "requested" else make("runtime", runtime)
        if hasattr(self.method, "refit"):
            self.refit = self.method.refit  # type: ignore[union-attr]
            for name in ("refit_every_jobs", "refit_every_s"):
                if hasattr(self.method, name):
                    setattr(self, name, getattr(self.method, name))
        self.largest = 0.0
        self.peak = 0.0
        self.plans: dict[int, tuple[float, float, float]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The start of a simulation forward from now, with the job last in the queue."""
        own = self._plan(job, at)
        total = min(at.total if at.total == at.total else max(self.peak, own[0]), LARGEST)
        if not own[0] <= total:
            point, _ = guess(job, at, 0.0)
            return Prediction(point, (self.level,), (point,), "larger than the machine: no start in sight")
        running = [
            (plan[0], entry.start_time, entry.planned_end, plan[1], plan[2])
            for row, entry in at.running.items()
            for plan in (self.plans.get(row) or self._plan(entry.job, at),)
        ]
        queued = [self.plans.get(row) or self._plan(other, at) for row, other in at.queued.items()]
        queued.append(own)
        now = np.array(running or np.zeros((0, 5)), float)
        line = np.array(queued, float)
        point = self._start(total, at.now, now, line, 1)
        bound = point if self.method is None else max(point, self._start(total, at.now, now, line, 2))
        basis = f"{self.policy} simulated forward, {len(running)} running, {len(queued) - 1} queued"
        return Prediction(at_least_a_second(point), (self.level,), (at_least_a_second(bound),), basis)

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit: the job's planned run time; End, Withdraw: forget it."""
        job = getattr(event, "job", None)
        if job is not None:
            if event.kind in (SUBMIT, CHANGE):
                self.largest = largest_limit(self.largest, job.req_time)
                self.plans[job.row] = self._plan(job, at)
            elif event.kind in (END, WITHDRAW):
                self.plans.pop(job.row, None)
        self.peak = max(self.peak, at.running_procs)
        if self.method is not None:
            self.method.observe(event, at)

    def _plan(self, job: JobRequest, at: SystemState) -> tuple[float, float, float]:
        """Whole processors, planned run time, limit."""
        limit = min(at_least_a_second(limit_or(job.req_time, self.largest)), 1e9)
        planned = limit if self.method is None else min(self.method.predict(job, at).point, limit)
        procs = float(np.ceil(job.procs)) if 0 < job.procs < LARGEST else 0.0 if not job.procs > 0 else np.inf
        return max(procs, 1.0), planned, limit

    def _start(self, total: float, now: float, running: np.ndarray, queued: np.ndarray, column: int) -> float:
        plan = np.where(np.isnan(running[:, 2]), running[:, 1] + running[:, 2 + column], running[:, 2])
        left = np.maximum(plan - now, 1.0)
        size = max(total, float(running[:, 0].sum()))
        if not size <= LARGEST:
            size, running, left = total, running[:0], left[:0]
        return forward_start(int(size), running[:, 0], left, queued[:, 0], queued[:, column], self.policy)
