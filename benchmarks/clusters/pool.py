"""A cluster as a pool of processors under first come, first served with EASY backfill, driven by its caller."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Job(NamedTuple):
    """One job: its submission, size, limit and run time (seconds), its user and its home cluster."""

    row: int
    submit: float
    procs: float
    limit: float
    run: float
    user: str
    home: int


@dataclass
class Pool:
    """The queue and the running jobs. Decisions use limits; ends use run times.

    >>> pool = Pool(4.0)
    >>> for job in (Job(0, 0.0, 4.0, 100.0, 50.0, "a", 0), Job(1, 0.0, 2.0, 100.0, 5.0, "a", 0)):
    ...     pool.add(job)
    >>> [(job.row, at) for job, at in pool.advance(60.0)], pool.queue
    ([(0, 0.0), (1, 50.0)], {})
    """

    size: float
    free: float = math.nan
    now: float = 0.0
    queue: dict[int, Job] = field(default_factory=dict)
    running: dict[int, tuple[Job, float]] = field(default_factory=dict)
    ends: list[tuple[float, int]] = field(default_factory=list)
    due: bool = False

    def __post_init__(self) -> None:
        if self.free != self.free:
            self.free = self.size

    def copy(self) -> Pool:
        """Return a copy of the state, which can be simulated further."""
        return Pool(self.size, self.free, self.now, dict(self.queue), dict(self.running), list(self.ends), self.due)

    def add(self, job: Job) -> None:
        """Add a job to the end of the queue; it may start at the next `advance`."""
        self.queue[job.row], self.due = job, True

    def withdraw(self, row: int, at: float) -> None:
        """Remove a job from the queue; every end before that instant has been processed."""
        if self.queue.pop(row, None) is not None:
            self.due, self.now = True, max(self.now, at)

    def next_event(self) -> float:
        """Return the instant of the next event: now if a pass is due, else the next end."""
        return self.now if self.due else self.ends[0][0] if self.ends else math.inf

    def advance(self, until: float) -> list[tuple[Job, float]]:
        """Process everything up to an instant; return the jobs that started, with their starts."""
        started: list[tuple[Job, float]] = []
        while True:
            if self.due:
                self.due = False
                started += [(job, self.now) for job in self._pass()]
            if not self.ends or self.ends[0][0] > until:
                break
            self.now = self.ends[0][0]
            while self.ends and self.ends[0][0] <= self.now:
                job, _ = self.running.pop(heapq.heappop(self.ends)[1])
                self.free += job.procs
            self.due = bool(self.queue)
        self.now = max(self.now, until)
        return started

    def _start(self, job: Job) -> Job:
        del self.queue[job.row]
        self.free -= job.procs
        self.running[job.row] = (job, self.now)
        heapq.heappush(self.ends, (self.now + job.run, job.row))
        return job

    def _pass(self) -> list[Job]:
        """Run one scheduling pass: start the head while it fits, then each job that does not delay the head's
        reservation."""
        started: list[Job] = []
        waiting = list(self.queue.values())
        k = 0
        while k < len(waiting) and waiting[k].procs <= self.free:
            started.append(self._start(waiting[k]))
            k += 1
        if k == len(waiting) or self.free <= 0:
            return started
        shadow, extra = self._reservation(waiting[k].procs)
        for job in waiting[k + 1 :]:
            if job.procs > self.free:
                continue
            is_short = self.now + job.limit <= shadow
            if is_short or job.procs <= extra:
                extra -= 0.0 if is_short else job.procs
                started.append(self._start(job))
                if self.free <= 0:
                    break
        return started

    def _reservation(self, procs: float) -> tuple[float, float]:
        """Return the latest start of the head by limits, and the processors left beside it then."""
        free = self.free
        for end, freed in sorted((max(start + job.limit, self.now), job.procs) for job, start in self.running.values()):
            free += freed
            if free >= procs:
                return end, free - procs
        return math.inf, 0.0


def start_of(pool: Pool, job: Job, runs: Iterable[tuple[int, float]] = ()) -> float:
    """Return when this job would start if no other job arrived; `runs` replaces run times (of the pool's jobs, by
    row)."""
    known = dict(runs)
    ahead = pool.copy()
    if known:
        ahead.queue = {row: each._replace(run=known.get(row, each.run)) for row, each in ahead.queue.items()}
        ahead.running = {r: (j._replace(run=known.get(r, j.run)), at) for r, (j, at) in ahead.running.items()}
        ahead.ends = [(max(at + j.run, ahead.now + 1.0), row) for row, (j, at) in ahead.running.items()]
        heapq.heapify(ahead.ends)
    ahead.add(job)
    while True:
        for each, at in ahead.advance(ahead.next_event()):
            if each.row == job.row:
                return at
