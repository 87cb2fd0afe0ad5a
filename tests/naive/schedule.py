"""EASY by brute force: lists, no incremental state, every question answered from scratch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

STEPS = [60.0 * m for m in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000)]


@dataclass
class Job:
    row: int
    submit: float
    procs: int
    run: float
    request: float
    planned: float
    first: float = 0.0
    start: float = math.nan
    backfilled: bool = False
    step: int = 0
    done: bool = False

    @property
    def end(self) -> float:
        return self.start + self.run

    @property
    def planned_end(self) -> float:
        return self.start + self.planned


@dataclass
class NaiveMachine:
    """One machine, one queue; `promises` notes every reservation a waiting head was given."""

    jobs: list[Job]
    total: int
    backfill: bool = True
    order: str = "fcfs"
    candidates: str = "fcfs"
    correct: str = "requested"
    pyss: bool = False
    queue: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)  # in order of start
    promises: list[tuple[int, float]] = field(default_factory=list)
    corrections: int = 0

    def go(self) -> list[Job]:
        waiting = sorted(self.jobs, key=lambda j: (j.submit, j.row))
        for job in waiting:
            job.first = job.planned
        while True:
            times = [j.submit for j in waiting[:1]] + [t for j in self.running for t in (j.end, j.planned_end)]
            times = [t for t in times if t > self.now] if hasattr(self, "now") else times
            if not times:
                return self.jobs
            self.now = min(times)
            arrived = [j for j in waiting if j.submit == self.now]
            waiting = waiting[len(arrived) :]
            (self.pyss_instant if self.pyss else self.instant)(arrived)

    def instant(self, arrived: list[Job]) -> None:
        self.overdue()
        self.finish([j for j in self.running if j.end == self.now])
        self.queue += arrived
        while True:
            started = self.schedule()
            short = [j for j in started if j.run == 0]
            if not short:
                return
            self.finish(short)

    def pyss_instant(self, arrived: list[Job]) -> None:
        self.overdue()
        terminating = [j for j in self.running if j.end == self.now]
        started: list[Job] = []
        for job in arrived:
            self.queue.append(job)
            started += self.schedule()
        for job in terminating:
            self.finish([job])
            started += self.schedule()
        while started:
            job = started.pop(0)
            if job.run == 0:
                self.finish([job])
                started += self.schedule()

    def overdue(self) -> None:
        for job in list(self.running):
            if job.planned_end == self.now and job.end > self.now:
                job.step += 1
                self.corrections += 1
                if self.correct == "incremental" and job.step <= len(STEPS):
                    job.planned = job.first + STEPS[job.step - 1]
                elif self.correct == "doubling":
                    job.planned = job.first * 2**job.step
                else:
                    job.planned = job.request
                job.planned = min(job.planned, job.request)
                if job.planned_end <= self.now:
                    job.planned = max(job.request, job.run)

    def finish(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.done = True
            self.running.remove(job)

    def held(self, at: float) -> int:
        """Processors the plan holds at an instant by the jobs running now."""
        return sum(j.procs for j in self.running if j.planned_end > at or (not self.pyss and at == self.now))

    def key(self, job: Job, order: str) -> tuple[float, float, int]:
        return (job.planned if order == "sjf" else 0.0, job.submit, job.row)

    def start(self, job: Job, backfilled: bool) -> None:
        job.start, job.backfilled = self.now, backfilled
        self.queue.remove(job)
        self.running.append(job)

    def schedule(self) -> list[Job]:
        before = list(self.running)
        while self.queue:
            head = min(self.queue, key=lambda j: self.key(j, self.order))
            if self.total - self.held(self.now) < head.procs:
                break
            self.start(head, False)
        if self.queue and self.backfill:
            instants = sorted({self.now, *(j.planned_end for j in self.running)})
            shadow = next(t for t in instants if self.total - self.held(t) >= head.procs)
            self.promises.append((head.row, shadow))
            for job in sorted((j for j in self.queue if j is not head), key=lambda j: self.key(j, self.candidates)):
                fits_now = self.total - self.held(self.now) >= job.procs
                past = job.procs if self.now + job.planned > shadow else 0
                if fits_now and self.total - self.held(shadow) - past >= head.procs:
                    self.start(job, True)
        return [j for j in self.running if j not in before]
