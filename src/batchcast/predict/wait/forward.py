# SPDX-License-Identifier: Apache-2.0
"""Forward simulations of the present queue (plans), reused as long as events happen as planned."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...compiled import kernel
from ...events.event import Change, Event, Overdue, Start, Submit
from ...events.kernel import jobs_of, queue_of, running_of
from ...events.record import Columns
from ...events.state import SystemState
from ...job import JobRequest
from ...records import enlarged
from ...schedule.forward import Forward, ForwardPlan

LARGEST = float(2**29)
PROCS, PLANNED, LIMIT = range(3)
Lengths = tuple[float, float, float]
PENDING = 32
NO_PLANS: list[ForwardPlan | None] = [None, None, None]
NOTED = np.dtype([("row", "i8"), ("procs", "f8"), ("planned", "f8"), ("limit", "f8")])


class ForwardPlans:
    """Plans of the queue and the running jobs of a `SystemState`, one with planned run times and one with time limits.

    For each job, the object stores what `lengths` returned at its submission: whole processors, planned run time and
    time limit. A plan stays valid as long as the only events are submissions and the starts that the plan predicted.
    After any other event, the plan is computed again from the state's columns. Plans refer to jobs by their positions
    in the queue.

    >>> from batchcast.events.event import Start, Submit
    >>> state, plans = SystemState(4.0), ForwardPlans(lambda job, at: (job.procs, job.req_time, job.req_time), "easy")
    >>> job = JobRequest(0, 1, 0.0, 4.0, 60.0, float("nan"))
    >>> for event in (Submit(0.0, job), Start(0.0, job, 0.0)):
    ...     state.apply(event); plans.observe(event, state)
    >>> plans.start(state, 4.0, 2.0, 30.0, LIMIT)
    60.0
    """

    def __init__(self, lengths: Callable[[JobRequest, SystemState], Lengths], policy: str) -> None:
        self.lengths, self.policy = lengths, policy
        self.noted = np.zeros(64, NOTED)
        self.noted["row"] = -1
        self.room: list[Forward | None] = [None, None, None]  # arrays of each column's latest plan, for reuse
        self._forget(None)

    def __getstate__(self) -> dict[str, object]:
        """Return the attributes to pickle, without the system state and everything derived from it."""
        return {"lengths": self.lengths, "policy": self.policy, "noted": self.noted}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.room = [None, None, None]
        self._forget(None)

    def _forget(self, at: SystemState | None) -> None:
        """Discard all plans, and follow the state `at` from now on."""
        self.followed, self.version = at, -1 if at is None else at.version
        self.plans: list[ForwardPlan | None] = NO_PLANS.copy()
        self.entries: list[int] = []
        self.positions: dict[int, int] = {}

    def observe(self, event: Event, at: SystemState) -> None:
        """Process an event right after the state has been updated with it."""
        entry = at.entry(event)
        if isinstance(event, (Submit, Change)) and entry >= 0:
            self._note(entry, event.job, at)
        changes = at.version - self.version  # two changes if the simulated scheduler has changed the state as well
        if self.followed is not at or changes not in (1, 2) or (isinstance(event, Overdue) and changes == 2):
            self._forget(at)
            return
        self.version = at.version
        if isinstance(event, Overdue) or self.plans == NO_PLANS:
            return
        if isinstance(event, Submit):
            self.positions[entry] = len(self.entries)
            self.entries.append(entry)
        elif isinstance(event, Start):
            planned_end = at.columns().jobs["planned_end"][entry].item() if changes == 2 else np.nan
            self._start(entry, event.time, planned_end)
        else:
            self._forget(at)

    def start(self, at: SystemState, total: float, procs: float, planned: float, column: int) -> float:
        """Return the start time of a job that joins the end of the queue now, on a machine of `total` processors."""
        if self.followed is not at or self.version != at.version:
            self._forget(at)
        columns = at.columns()
        busy = busy_procs(columns.record, self.noted)
        noted = self.noted
        if busy < 0.0:  # a job was not recorded at its submission
            noted = self._noted_by(columns, at)
            busy = busy_procs(columns.record, noted)
        size = int(total) if not max(total, busy) <= LARGEST else int(max(total, busy))
        plan = self.plans[column]
        waiting = len(self.entries)
        if plan is None or plan.size != size or not plan.moved_to(at.now) or waiting - len(plan) > PENDING:
            plan = self._plan(columns, at, size, noted, busy <= size, column)
        self._catch_up(plan, column, len(self.entries))
        instant = plan.start_of(int(procs), planned)
        if noted is not self.noted:
            self._forget(at)
        return instant

    def _plan(
        self, columns: Columns, at: SystemState, size: int, noted: np.ndarray, fits: bool, column: int
    ) -> ForwardPlan:
        queue = columns.queued_entries()
        # queue positions have gaps: renumber them
        if len(self.positions) != len(self.entries) or self.plans == NO_PLANS:
            self._forget(at)
            self.entries = queue.tolist()
            self.positions = {entry: place for place, entry in enumerate(self.entries)}
        ends, wide = np.empty(n := len(columns.running_entries())), np.empty(n, np.int64)
        procs, planned = np.empty(len(queue), np.int64), np.empty(len(queue))
        gather(columns.record, noted, column == PLANNED, at.now, ends, wide, procs, planned)
        if not fits:
            ends, wide = ends[:0], wide[:0]
        plan = ForwardPlan(at.now, size, ends, wide, procs, planned, self.policy, self.room[column])
        self.plans[column], self.room[column] = plan, plan.arrays
        return plan

    def _catch_up(self, plan: ForwardPlan, column: int, until: int) -> None:
        """Add the jobs that were submitted after a plan was made to the plan."""
        for place in range(len(plan), until):
            _, *lengths = self.noted[self.entries[place]].item()
            plan.append(int(min(lengths[PROCS], 2.0 * LARGEST)), lengths[column])

    def _start(self, entry: int, now: float, planned_end: float) -> None:
        place = self.positions.pop(entry)
        _, *lengths = self.noted[entry].item()
        for column, plan in enumerate(self.plans):
            if plan is None:
                continue
            end = planned_end if planned_end == planned_end else now + lengths[column]
            as_planned = plan.now == now and len(self.entries) - len(plan) <= PENDING and end == now + lengths[column]
            if as_planned:
                self._catch_up(plan, column, place + 1)
            if not (as_planned and plan.started(place, now)):
                self.plans[column] = None

    def _note(self, entry: int, job: JobRequest, at: SystemState) -> None:
        if entry >= len(self.noted):
            before = len(self.noted)
            self.noted = enlarged(self.noted, 2 * entry)
            self.noted["row"][before:] = -1
        self.noted[entry] = (job.row, *self.lengths(job, at))

    def _noted_by(self, columns: Columns, at: SystemState) -> np.ndarray:
        """Return the `lengths` of all jobs recorded at submission; for a job without a record, `lengths` is called
        now."""
        noted = enlarged(self.noted, max(len(self.noted), int(columns.record["entries"][0])))
        for jobs in (at.queued.values(), (entry.job for entry in at.running.values())):
            for job in jobs:
                entry = at.entry_of_row(job.row)
                if entry >= len(self.noted) or noted["row"][entry] != job.row:
                    noted[entry] = (job.row, *self.lengths(job, at))
        return noted


@kernel
def gather(
    state: np.ndarray,
    noted: np.ndarray,
    planned: bool,
    now: float,
    ends: np.ndarray,
    wide: np.ndarray,
    procs: np.ndarray,
    lengths: np.ndarray,
) -> None:
    """Write planned end times (after `now`) and processors of running jobs, and processors and run times of queued
    jobs.
    """
    s = state[0]
    jobs, queue, running = jobs_of(s), queue_of(s), running_of(s)
    for k in range(len(ends)):
        i = running[s.running_first + k]
        end = jobs[i].planned_end
        if end != end:
            end = jobs[i].start + (noted[i].planned if planned else noted[i].limit)
        ends[k] = max(end, now + 1.0)
        wide[k] = np.int64(noted[i].procs)
    for k in range(len(procs)):
        i = queue[s.queue_first + k]
        procs[k] = np.int64(min(noted[i].procs, 2.0 * LARGEST))
        lengths[k] = noted[i].planned if planned else noted[i].limit


@kernel
def busy_procs(state: np.ndarray, noted: np.ndarray) -> float:
    """Return the whole processors of the running jobs; -1 if a running or waiting job has no recorded length."""
    s = state[0]
    jobs, queue, running = jobs_of(s), queue_of(s), running_of(s)
    busy = 0.0
    for k in range(s.running_first, s.running_end):
        i = running[k]
        if i >= len(noted) or noted[i].row != jobs[i].row:
            return -1.0
        busy += noted[i].procs
    for k in range(s.queue_first, s.queue_end):
        i = queue[k]
        if i >= len(noted) or noted[i].row != jobs[i].row:
            return -1.0
    return busy
