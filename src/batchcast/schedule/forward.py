# SPDX-License-Identifier: Apache-2.0
"""Forward simulation: computes when a job at the end of the queue starts, if no job arrives and all plans are exact."""

from __future__ import annotations

import numpy as np

from . import forward_kernel as kernel
from .forward_kernel import EASY, EASY_SJBF, FCFS, JOBS, NOW, OPENINGS, POLICY, RUNNING, SIZE, Forward, blank_forward

POLICIES = {"fcfs": FCFS, "easy": EASY, "easy-sjbf": EASY_SJBF}
SPARE = 64
NO_ORDER = np.zeros(0, np.int64)


class ForwardPlan:
    """The planned schedule of a queue and its running jobs under FCFS, EASY, or EASY with shortest-job backfill.

    The method follows Mu'alem & Feitelson (TPDS 2001) with exact plans. The schedule is computed only as far as a call
    requires. The computed schedule stays valid when jobs join the end of the queue (`append`), when queued jobs start
    as planned (`started`), and when time passes without an event (`moved_to`). `running_end` has planned ends after
    `now`, in any order. The queue is in order of arrival. The running jobs must use at most `size` processors. A queued
    job that is larger than `size` is ignored. Times are instants in seconds. Construction and simulation cost O(jobs
    log jobs), a call of `start_of` O(number of recorded openings).

    >>> plan = ForwardPlan(0.0, 4, np.array([60.0]), np.array([2]), np.array([4]), np.array([100.0]))
    >>> plan.start_of(2, 50.0), plan.start_of(2, 70.0)
    (0.0, 160.0)
    >>> plan.append(2, 50.0), plan.start_of(2, 50.0)
    (0.0, 160.0)
    """

    def __init__(
        self,
        now: float,
        size: int,
        running_end: np.ndarray,
        running_procs: np.ndarray,
        queued_procs: np.ndarray,
        queued_planned: np.ndarray,
        policy: str = "easy",
        room: Forward | None = None,
    ) -> None:
        """Create the schedule; the arrays of an old schedule, `room`, are reused if they are large enough."""
        n, running = len(queued_procs), len(running_end)
        self.by_length = policy == "easy-sjbf"
        if room is None or n >= len(room.procs) or running > len(room.running_end) - len(room.procs):
            room = blank_forward(size, 2 * running, 2 * n + SPARE, POLICIES[policy])
        self.arrays, self.now = room, now
        order = np.argsort(queued_planned, kind="stable") if self.by_length else NO_ORDER
        self.first_end = kernel.fill(
            room, size, POLICIES[policy], running_end, running_procs, queued_procs, queued_planned, order
        )
        self.due = self._begin(now)

    @property
    def size(self) -> int:
        """The number of processors of the machine."""
        return int(self.arrays.tally[SIZE])

    def __len__(self) -> int:
        """Return the number of jobs that are or were in the queue, including jobs that have started."""
        return int(self.arrays.tally[JOBS])

    def start_of(self, procs: int, planned: float) -> float:
        """Return when a job that joins the end of the queue now starts; infinity if it never fits."""
        i = int(self._go(kernel.OPENING, self.now, procs, planned))
        return float(self.arrays.openings[i]["time"]) if i >= 0 else np.inf

    def append(self, procs: int, planned: float) -> float:
        """Add a job to the end of the queue, and return its start. The call takes O(jobs) time if the computed schedule
        extends beyond this start.

        The plan changes from the job's start on, or from the time at which the job becomes the head and has a
        reservation.
        """
        if len(self) == len(self.arrays.procs):
            self._grow()
        f, q, start = self.arrays, len(self), self.start_of(procs, planned)
        since = self.now
        if start < np.inf:
            since = self._go(kernel.NOTICED, since, procs, planned)
        if since == start == f.time[NOW] and not self.by_length:
            self._go(kernel.JOIN, self.now, procs, planned)
        else:
            f.procs[q], f.planned[q] = procs, planned
            f.start[q] = np.inf if start < np.inf else -np.inf
            f.tally[JOBS] = q + 1
            self._rank(q)
            self._begin(since)
        self.due += start == self.now
        return start

    def started(self, place: int, time: float) -> bool:
        """Mark the queued job at position `place` as running if it starts now as planned; if False, the caller must
        plan again."""
        f = self.arrays
        if self.by_length or f.start[place] != time or time != self.now:
            return False
        k = f.tally[RUNNING]
        end = time + f.planned[place]
        f.running_end[k], f.running_procs[k] = end, f.procs[place]
        f.tally[RUNNING] = k + 1
        f.start[place] = -np.inf
        self.first_end = min(self.first_end, float(end))
        self.due -= 1
        return True

    def moved_to(self, now: float) -> bool:
        """Move the plan to `now` if it is valid and there was no event; if False, make a new plan.

        The plan is not valid if a job should have started by now, or should have ended more than a second ago.
        """
        if now == self.now:
            return True
        if now < self.now or self.due or self.first_end < now + 1.0:
            return False
        openings = self.arrays.openings[: self.arrays.tally[OPENINGS]]
        openings["time"][openings["time"] == self.now] = now
        if self.arrays.time[NOW] == self.now:
            self.arrays.time[NOW] = now
        self.now = now
        return True

    def _begin(self, now: float) -> int:
        """Compute the plan from `now` on again, and return how many queued jobs start at `now`."""
        return int(self._go(kernel.BEGIN, now, 0, 0.0))

    def _go(self, what: int, now: float, procs: int, planned: float) -> float:
        return float(kernel.go_forward(self.arrays, what, float(now), int(procs), float(planned)))

    def _rank(self, q: int) -> None:
        """Insert the new job into the backfill candidates: at the end, or by planned run time, after all candidates
        that are not longer."""
        f, place = self.arrays, q
        if self.by_length:
            place = int(np.searchsorted(f.planned[f.order[:q]], f.planned[q], side="right"))
            f.order[place + 1 : q + 1] = f.order[place:q].copy()
        f.order[place] = q

    def _grow(self) -> None:
        """Double the capacity of the queue, and compute the plan again from its first instant."""
        old, n, running = self.arrays, len(self), int(self.arrays.tally[RUNNING])
        self.arrays = f = blank_forward(self.size, running, 2 * n + SPARE, int(old.tally[POLICY]))
        for name in ("procs", "planned", "start", "order"):
            getattr(f, name)[:n] = getattr(old, name)[:n]
        for name in ("running_end", "running_procs"):
            getattr(f, name)[:running] = getattr(old, name)[:running]
        f.tally[JOBS], f.tally[RUNNING] = n, running
        self._begin(self.now)
