"""The running set and the queue as arrays in step with `SystemState`, and the forward plans made from them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...events.event import CAPACITY, CHANGE, OVERDUE, REQUEUE, START, SUBMIT, WITHDRAW, Event
from ...events.state import SystemState
from ...job import JobRequest
from ...schedule.forward import ForwardPlan

LARGEST = float(2**29)
PROCS, PLANNED, LIMIT = range(3)
Lengths = tuple[float, float, float]
PENDING = 32


class Standing:
    """One row a job: whole processors, planned run time, limit; for running jobs their ends by either.

    It takes an event in O(1) when it followed the state until then, else it reads the whole state. `lengths` gives
    a job's row. A forward plan by `column` (PLANNED or LIMIT) is kept as long as what happens is what it says.

    >>> from batchcast.events.event import Start, Submit
    >>> state, standing = SystemState(4.0), Standing(lambda job, at: (job.procs, job.req_time, job.req_time), "easy")
    >>> job = JobRequest(0, 1, 0.0, 4.0, 60.0, float("nan"))
    >>> for event in (Submit(0.0, job), Start(0.0, job, 0.0)):
    ...     state.apply(event); standing.observe(event, state)
    >>> standing.start(state, 4.0, 2.0, 30.0, LIMIT)
    60.0
    """

    def __init__(self, lengths: Callable[[JobRequest, SystemState], Lengths], policy: str) -> None:
        self.lengths, self.policy = lengths, policy
        self.at: SystemState | None = None
        self.version = -1
        self.queue, self.run = np.empty((64, 3)), np.empty((64, 3))
        self.queued = self.ran = 0
        self.place: dict[int, int] = {}
        self.spot: dict[int, int] = {}
        self.rows: list[int] = []
        self.plans: list[ForwardPlan | None] = [None, None, None]

    def __getstate__(self) -> dict[str, object]:
        """Without the state it followed: a copy reads its own anew."""
        return {"lengths": self.lengths, "policy": self.policy}

    def __setstate__(self, state: dict) -> None:
        Standing.__init__(self, **state)

    def follows(self, at: SystemState) -> bool:
        """Whether the arrays are those of this state."""
        return self.at is at and self.version == at.version

    def observe(self, event: Event, at: SystemState) -> None:
        """Take in an event right after the state took it in."""
        kind, job = event.kind, getattr(event, "job", None)
        entry = at.running.get(job.row) if job is not None and kind in (START, OVERDUE) else None
        planned = entry is not None and entry.planned_end == entry.planned_end
        followed = self.at is at and self.version + 1 + planned == at.version
        if not followed or (job is not None and kind == CHANGE) or (kind == OVERDUE and planned):
            self.read(at)
            return
        self.version = at.version
        if job is None or kind == OVERDUE:
            if kind == CAPACITY:
                self.plans = [None, None, None]
            return
        if kind == SUBMIT:
            self._enqueue(job, at)
        elif kind == START:
            self._start(job.row, event.time, entry.planned_end if entry is not None else float("nan"))
        else:
            self.plans = [None, None, None]
            if kind == WITHDRAW:
                self.queue[self.place.pop(job.row), PROCS] = 0.0
            else:
                self._leave(job.row)
                if kind == REQUEUE:
                    self._enqueue(job, at)

    def read(self, at: SystemState) -> None:
        """Read the whole state. O(running + queued)."""
        self.at, self.version = at, at.version
        self.plans = [None, None, None]
        self.place, self.spot, self.rows, self.queued, self.ran = {}, {}, [], 0, 0
        for job in at.queued.values():
            self._enqueue(job, at)
        for row, entry in at.running.items():
            self._run(row, *self._ends(self.lengths(entry.job, at), entry.start_time, entry.planned_end))

    def start(self, at: SystemState, total: float, procs: float, planned: float, column: int) -> float:
        """The instant at which a job that came last now would start on a machine of `total` processors."""
        busy = self.run[: self.ran, PROCS].sum() if self.ran else 0.0
        size = int(total) if not max(total, busy) <= LARGEST else int(max(total, busy))
        plan = self.plans[column]
        if plan is None or plan.size != size or not plan.moved_to(at.now) or self.queued - len(plan) > PENDING:
            plan = self.plans[column] = self._plan(at.now, size, busy, column)
        self._catch_up(plan, column, self.queued)
        return plan.start_of(int(procs), planned)

    def _plan(self, now: float, size: int, busy: float, column: int) -> ForwardPlan:
        self._close_gaps()
        run, queue = self.run[: self.ran if busy <= size else 0], self.queue[: self.queued]
        ends = np.maximum(run[:, column], now + 1.0)
        procs = np.minimum(queue[:, PROCS], 2.0 * LARGEST).astype(np.int64)
        return ForwardPlan(now, size, ends, run[:, PROCS].astype(np.int64), procs, queue[:, column], self.policy)

    def _catch_up(self, plan: ForwardPlan, column: int, until: int) -> None:
        """Tell a plan of the jobs that came since."""
        for place in range(len(plan), until):
            row = self.queue[place]
            plan.append(int(min(row[PROCS], 2.0 * LARGEST)), float(row[column]))

    def _enqueue(self, job: JobRequest, at: SystemState) -> None:
        if self.queued == len(self.queue):
            self.queue = np.concatenate([self.queue, np.empty_like(self.queue)])
        self.queue[self.queued] = self.lengths(job, at)
        self.place[job.row] = self.queued
        self.queued += 1

    def _start(self, row: int, now: float, planned_end: float) -> None:
        place = self.place.pop(row)
        lengths: Lengths = tuple(self.queue[place].tolist())
        ends = self._ends(lengths, now, planned_end)
        for column, plan in enumerate(self.plans):
            if plan is None:
                continue
            as_planned = (
                plan.now == now and self.queued - len(plan) <= PENDING and ends[column] == now + lengths[column]
            )
            if as_planned:
                self._catch_up(plan, column, place + 1)
            if not (as_planned and plan.started(place, now)):
                self.plans[column] = None
        self.queue[place, PROCS] = 0.0
        self._run(row, *ends)

    def _ends(self, lengths: Lengths, start: float, planned_end: float) -> Lengths:
        """Processors and both ends; the clock's own plan where it has one."""
        if planned_end == planned_end:
            return lengths[PROCS], planned_end, planned_end
        return lengths[PROCS], start + lengths[PLANNED], start + lengths[LIMIT]

    def _run(self, row: int, procs: float, planned: float, limit: float) -> None:
        if self.ran == len(self.run):
            self.run = np.concatenate([self.run, np.empty_like(self.run)])
        self.run[self.ran] = procs, planned, limit
        self.spot[row] = self.ran
        self.rows.append(row)
        self.ran += 1

    def _leave(self, row: int) -> None:
        """A running job is gone: the last one takes its spot."""
        spot, last = self.spot.pop(row), self.rows.pop()
        self.ran -= 1
        if last != row:
            self.run[spot] = self.run[self.ran]
            self.rows[spot], self.spot[last] = last, spot

    def _close_gaps(self) -> None:
        """Drop the queue's gaps, order kept, so that places are those of a new plan."""
        if len(self.place) == self.queued:
            return
        kept = np.flatnonzero(self.queue[: self.queued, PROCS] > 0)
        self.queue[: len(kept)] = self.queue[kept]
        self.place = {row: new for new, row in enumerate(self.place)}
        self.queued = len(kept)
        self.plans = [None, None, None]
