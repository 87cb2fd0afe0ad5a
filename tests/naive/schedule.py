"""EASY and conservative backfilling by brute force: lists, no incremental state, everything computed again at each
step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

TAIL = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
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
    like: int = -1
    due: float = math.inf
    tail: tuple[float, ...] = ()  # quantiles at TAIL
    spent: float = 0.0
    passed: tuple[int, float] | None = None  # the head that this job passed at a risk, and when that head was to start

    @property
    def end(self) -> float:
        return self.start + self.run

    @property
    def planned_end(self) -> float:
        return self.start + self.planned


@dataclass
class NaiveMachine:
    """One machine with one queue; `promises` records every reservation that a waiting head received."""

    jobs: list[Job]
    total: int
    backfill: str = "easy"
    order: str = "fcfs"
    candidates: str = "fcfs"
    correct: str = "requested"
    pyss: bool = False
    running_ends: str = "planned"
    head_after: float = math.inf
    first_after: float = math.inf
    due_after: float = math.inf
    refresh: bool = False
    due_ends: str = "requested"
    risk_budget: float = 0.0
    queue: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)  # in order of start
    promises: list[tuple[int, float]] = field(default_factory=list)
    corrections: int = 0
    reserved: dict[int, float] = field(default_factory=dict)  # conservative: row -> reserved start
    rebuild: bool = False
    ended: bool = False
    arrived: list[Job] = field(default_factory=list)
    # row of a job -> its start and end in a run of EASY with requests
    shadow: dict[int, list[float]] = field(default_factory=dict)
    shadow_gone: set[int] = field(default_factory=set)
    # class of jobs -> ends and run times of its jobs
    results: dict[int, list[tuple[float, float]]] = field(default_factory=dict)

    def go(self) -> list[Job]:
        waiting = sorted(self.jobs, key=lambda j: (j.submit, j.row))
        for job in waiting:
            job.first = job.planned
        while True:
            times = [j.submit for j in waiting[:1]] + [t for j in self.running for t in (j.end, j.planned_end)]
            times += [self.reserved[j.row] for j in self.queue if j.row in self.reserved]
            times = [t for t in times if t > self.now] if hasattr(self, "now") else times
            if not times:
                return self.jobs
            self.now = min(times)
            arrived = [j for j in waiting if j.submit == self.now]
            waiting = waiting[len(arrived) :]
            (self.pyss_instant if self.pyss else self.instant)(arrived)

    def instant(self, arrived: list[Job]) -> None:
        self.overdue()
        self.finish(sorted((j for j in self.running if j.end == self.now), key=lambda j: j.row))
        self.queue += arrived
        self.arrived += arrived
        while True:
            started = self.schedule()
            short = [j for j in started if j.run == 0]
            if not short:
                return
            self.finish(sorted(short, key=lambda j: j.row))

    def pyss_instant(self, arrived: list[Job]) -> None:
        self.overdue()
        terminating = [j for j in self.running if j.end == self.now]
        started: list[Job] = []
        for job in arrived:
            self.queue.append(job)
            self.arrived.append(job)
            started += self.schedule()
        for job in terminating:
            self.finish([job])
            started += self.schedule()
        if self.backfill == "conservative":
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
                self.rebuild = True

    def finish(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.done = True
            self.ended = True
            self.running.remove(job)
            if job.row in self.shadow:
                begun, end = self.shadow[job.row]
                true = begun + job.run
                self.shadow[job.row][1] = true if true > self.now else min(end, self.now)
            if self.refresh and job.like >= 0:
                self.plan_anew(job)

    def plan_anew(self, ended: Job) -> None:
        """Set new predictions for the queued jobs of a class: the geometric mean of their first prediction and the run
        times of the class's jobs that ended since their submission."""
        results = self.results.setdefault(ended.like, [])
        results.append((self.now, max(ended.run, 1.0)))
        last = list(enumerate(results))[-8:]
        for job in self.queue:
            if job.like == ended.like:
                logs = [math.log(max(job.first, 1.0))]
                logs += [math.log(run) for _, (end, run) in sorted(last, key=lambda r: r[0] % 8) if end >= job.submit]
                total = 0.0
                for each in logs:
                    total += each
                job.planned = max(min(math.exp(total / len(logs)), job.request), 1.0)

    def follow_shadow(self) -> None:
        """Continue the shadow run: EASY with requests over the jobs that have arrived. It uses a job's run time only
        after the job has ended in this simulation."""
        while ends := [end for row, (_, end) in self.shadow.items() if row not in self.shadow_gone and end < self.now]:
            self.shadow_pass(min(ends))
        while True:
            before = len(self.shadow)
            self.shadow_pass(self.now)
            if len(self.shadow) == before:
                return

    def shadow_pass(self, now: float) -> None:
        for job in self.arrived:
            if self.due_ends == "planned" and job.row in self.shadow and self.shadow[job.row][1] <= now:
                self.shadow[job.row][1] = self.shadow[job.row][0] + self.shadow_length(job)
        self.shadow_gone |= {row for row, (_, end) in self.shadow.items() if end <= now}
        seen = [j for j in self.arrived if j.submit <= now]
        while True:
            running = [j for j in seen if j.row in self.shadow and j.row not in self.shadow_gone]
            queue = [j for j in seen if j.row not in self.shadow]
            free = self.total - sum(j.procs for j in running)
            if not queue or queue[0].procs > free:
                break
            self.shadow_start(queue[0], now)
        if not queue:
            return
        head, limits = queue[0], [(self.shadow[j.row][0] + j.request, j.procs) for j in running]
        until = min(t for t, _ in limits if free + sum(p for end, p in limits if end <= t) >= head.procs)
        extra = free + sum(p for end, p in limits if end <= until) - head.procs
        for job in queue[1:]:
            in_time = now + job.request <= until
            if job.procs <= free and (in_time or job.procs <= extra):
                self.shadow_start(job, now)
                free -= job.procs
                extra -= 0 if in_time else job.procs

    def shadow_start(self, job: Job, now: float) -> None:
        self.shadow[job.row] = [now, now + self.shadow_length(job)]
        job.due = now + self.due_after

    def shadow_length(self, job: Job) -> float:
        """Return the length with which the shadow run plans a job: its run time if it has ended, else its prediction
        until it has run longer, else its request."""
        if job.done:
            return job.run
        outlived = job.start + job.first <= self.now
        return job.request if outlived or self.due_ends == "requested" else job.first

    def must_end(self, job: Job, head: Job | None) -> float:
        """Return the job's planned end by its request. If the job passed the head at a risk, the planned start of the
        head counts instead if it is earlier and still to come."""
        end = job.start + job.request
        if head is not None and job.passed is not None and job.passed[0] == head.row and job.passed[1] > self.now:
            end = min(end, job.passed[1])
        return end

    def held(self, at: float, by_request: bool = False, head: Job | None = None) -> int:
        """Return the processors that the plan assigns to running jobs at an instant."""
        held = 0
        for j in self.running:
            gone = self.pyss and j.planned_end <= self.now
            end = self.must_end(j, head) if by_request else j.planned_end
            if not gone and (end > at or at == self.now):
                held += j.procs
        return held

    def key(self, job: Job, order: str) -> tuple[float, float, int]:
        name, _, rest = order.partition(":")
        given = dict(item.split("=") for item in rest.split(",") if "=" in item)
        r = job.request if given.get("on") == "requested" else job.planned
        origin = min(j.submit for j in self.jobs)
        s, n = math.log10(max(job.submit - origin, 1.0)), float(job.procs)
        share = (self.now - job.submit) / r
        key = {
            "fcfs": 0.0,
            "sjf": r,
            "ljf": -r,
            "saf": n * r,
            "wfp": -n * (share * share * share),
            "f1": math.log10(r) * n + 870.0 * s,
            "f2": math.sqrt(r) * n + 25600.0 * s,
            "f3": r * n + 6860000.0 * s,
            "f4": r * math.sqrt(n) + 530000.0 * s,
            "tests.naive.orders": n - r / 7.0 - self.now * (self.now - job.submit) * n / 50.0,
        }[name]
        return (key + float(given.get("ageing", 0.0)) * (job.submit - origin), job.submit, job.row)

    def turn(self, job: Job) -> tuple[object, ...]:
        """Order the queue: due jobs and jobs that waited longer than `first_after`, each by arrival, then all others by
        the queue order."""
        if self.now > job.due:
            return (0, job.submit, job.row)
        old = self.now - job.submit > self.first_after
        return (1, job.submit, job.row) if old else (2, *self.key(job, self.order))

    def start(self, job: Job, backfilled: bool) -> None:
        job.start, job.backfilled = self.now, backfilled
        self.queue.remove(job)
        self.running.append(job)
        if self.running_ends == "requested":
            job.planned = max(job.request, job.run)

    def schedule(self) -> list[Job]:
        before = list(self.running)
        if self.due_after < math.inf:
            self.follow_shadow()
        if self.backfill == "conservative":
            self.conservative()
            return [j for j in self.running if j not in before]
        while self.queue:
            head = min(self.queue, key=self.turn)
            if self.total - self.held(self.now) < head.procs:
                break
            self.start(head, False)
        if self.queue and self.backfill == "easy":
            self.easy(head)
        return [j for j in self.running if j not in before]

    def easy(self, head: Job) -> None:
        old = self.now - head.submit > min(self.head_after, self.first_after) or self.now > head.due
        ends = [self.must_end(j, head) if old else j.planned_end for j in self.running]
        instants = sorted({self.now, *(end for end in ends if end >= self.now)})
        shadow = next(t for t in instants if self.total - self.held(t, old, head) >= head.procs)
        self.promises.append((head.row, shadow))
        # a job that passes by its prediction uses nothing at the shadow time in this pass; if running ends come from
        # requests, it does so from the next pass on
        free_then = self.total - self.held(shadow, old, head)
        for job in sorted((j for j in self.queue if j is not head), key=lambda j: self.key(j, self.candidates)):
            fits_now = self.total - self.held(self.now) >= job.procs
            past = job.procs if self.now + (job.request if old else job.planned) > shadow else 0
            if fits_now and free_then - past >= head.procs:
                self.start(job, True)
                free_then -= past
            elif fits_now and old and self.risk_budget > 0:
                chance = min(
                    (1 - level for level, q in zip(TAIL, job.tail) if self.now + q <= shadow), default=math.inf
                )
                if head.spent + chance <= self.risk_budget:
                    head.spent += chance
                    job.passed = (head.row, shadow)
                    self.start(job, True)

    def conservative(self) -> None:
        """Give every job a reservation; after an end, each job is placed again in arrival order against all other
        reservations."""
        if self.rebuild:
            self.reserved.clear()
        for job in self.queue:
            if self.reserved.get(job.row) is None:
                self.reserved[job.row] = self.earliest(job)
                self.promises.append((job.row, self.reserved[job.row]))
            elif self.ended and self.reserved[job.row] > self.now:
                self.reserved[job.row] = self.earliest(job)
        self.rebuild = self.ended = False
        for job in list(self.queue):
            if self.reserved[job.row] <= self.now:
                self.start(job, job is not self.queue[0])
                del self.reserved[job.row]

    def earliest(self, job: Job) -> float:
        taken = [(j.start, j.planned_end, j.procs) for j in self.running if j.planned_end > self.now]
        others = [j for j in self.queue if j is not job and j.row in self.reserved]
        taken += [(self.reserved[j.row], self.reserved[j.row] + j.planned, j.procs) for j in others]
        for time in sorted({self.now, *(end for _, end, _ in taken)}):
            points = [time, *(start for start, _, _ in taken if time < start < time + job.planned)]
            free = [self.total - sum(p for start, end, p in taken if start <= at < end) for at in points]
            if min(free) >= job.procs:
                return time
        raise AssertionError("everything ends")


class NaiveProfile:
    """Return the free processors of each second from 0 to a horizon, after which all are free."""

    def __init__(self, total: int, horizon: int) -> None:
        self.free = np.full(horizon, total)
        self.now = 0

    def hold(self, start: int, end: int, procs: int) -> None:
        self.free[start:end] -= procs

    def fits(self, start: int, length: int, procs: int) -> bool:
        return bool((self.free[start : start + length] >= procs).all())

    def earliest_fit(self, procs: int, length: int) -> int:
        return next(t for t in range(self.now, len(self.free)) if self.fits(t, length, procs))

    def earlier_fit(self, procs: int, length: int, reserved: int) -> int:
        self.hold(reserved, reserved + length, -procs)
        start = self.earliest_fit(procs, length)
        self.hold(reserved, reserved + length, procs)
        return min(start, reserved)

    def most_free(self, since: int, until: int) -> int:
        return int(self.free[max(since, self.now) : until].max(initial=0))
