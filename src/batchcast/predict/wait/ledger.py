"""What a wait predictor remembers of its clock: an indexed queue, running set and history, as growing arrays.

The compiled functions here take one event each. The live path calls them event by event, the batch path in one
compiled loop over a whole log, so both see the very same numbers. Nothing is ever rescanned: a submission appends, a
departure swaps the queue's last place into the hole, and the oldest running job is found by moving a head forward
along the order of starts (starts come in the order of time).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit

from ...events.event import CAPACITY, CHANGE, END, OVERDUE, REQUEUE, START, SUBMIT, WITHDRAW, Event
from ...events.state import SystemState
from ...job import JobRequest

QUEUED, RUNNING, GONE = 1, 2, 3
NO_LIMIT = 1e12
JOBS, IN_QUEUE, STARTS, HEAD, IN_RUN = range(5)
SIZE, RUN_PROCS, QUEUE_PROCS, QUEUE_WORK, RUN_ENDS = range(5)
OUTAGE_S = 86400.0


class Jobs(NamedTuple):
    """One entry a job, in order of submission; `place` is its index in `queue` or, once started, in `started`."""

    submit: np.ndarray
    procs: np.ndarray
    limit: np.ndarray
    wait: np.ndarray
    status: np.ndarray
    learned: np.ndarray
    place: np.ndarray
    queue: np.ndarray
    started: np.ndarray
    start: np.ndarray


class Tally(NamedTuple):
    """Running totals: `counts` by JOBS..IN_RUN (int64), `total` by SIZE..RUN_ENDS (float64)."""

    counts: np.ndarray
    total: np.ndarray


def blank_jobs(capacity: int) -> Jobs:
    """Room for so many jobs."""
    number, index = (lambda: np.zeros(capacity)), (lambda: np.zeros(capacity, np.int64))
    flag = lambda: np.zeros(capacity, np.int8)  # noqa: E731
    return Jobs(number(), number(), number(), number(), flag(), flag(), index(), index(), index(), number())


def blank_tally(size: float) -> Tally:
    """An empty machine of `size` processors (NaN: unknown)."""
    tally = Tally(np.zeros(5, np.int64), np.zeros(5))
    tally.total[SIZE] = size
    return tally


Arrays = TypeVar("Arrays", bound=Any)


def grown(arrays: Arrays, capacity: int) -> Arrays:
    """The same arrays with room for `capacity` entries; what is new is zero."""
    return type(arrays)(*(np.concatenate([a, np.zeros(capacity - len(a), a.dtype)]) for a in arrays))


@njit(cache=True)
def work_of(procs, limit):
    """Processor-seconds asked for; an unknown limit counts nothing."""
    return procs * limit if limit < NO_LIMIT else 0.0


@njit(cache=True)
def submit_job(jobs, tally, i, now, procs, limit):
    """Job i enters the queue."""
    jobs.submit[i] = now
    jobs.procs[i] = procs
    jobs.limit[i] = limit
    jobs.wait[i] = np.nan
    jobs.learned[i] = 0
    tally.counts[JOBS] = i + 1
    _queue(jobs, tally, i)


@njit(cache=True)
def _queue(jobs, tally, i):
    place = tally.counts[IN_QUEUE]
    jobs.status[i] = QUEUED
    jobs.place[i] = place
    jobs.queue[place] = i
    tally.counts[IN_QUEUE] = place + 1
    tally.total[QUEUE_PROCS] += jobs.procs[i]
    tally.total[QUEUE_WORK] += work_of(jobs.procs[i], jobs.limit[i])


@njit(cache=True)
def leave_queue(jobs, tally, i):
    """Job i is no longer queued."""
    last = tally.counts[IN_QUEUE] - 1
    moved = jobs.queue[last]
    jobs.queue[jobs.place[i]] = moved
    jobs.place[moved] = jobs.place[i]
    tally.counts[IN_QUEUE] = last
    tally.total[QUEUE_PROCS] -= jobs.procs[i]
    tally.total[QUEUE_WORK] -= work_of(jobs.procs[i], jobs.limit[i])
    jobs.status[i] = GONE


@njit(cache=True)
def start_job(jobs, tally, i, now):
    """Job i leaves the queue for the machine."""
    leave_queue(jobs, tally, i)
    place = tally.counts[STARTS]
    jobs.status[i] = RUNNING
    jobs.place[i] = place
    jobs.started[place] = i
    jobs.start[i] = now
    tally.counts[STARTS] = place + 1
    tally.counts[IN_RUN] += 1
    tally.total[RUN_PROCS] += jobs.procs[i]
    tally.total[RUN_ENDS] += work_of(jobs.procs[i], jobs.limit[i]) + jobs.procs[i] * now


@njit(cache=True)
def end_job(jobs, tally, i):
    """Job i leaves the machine."""
    jobs.status[i] = GONE
    tally.counts[IN_RUN] -= 1
    tally.total[RUN_PROCS] -= jobs.procs[i]
    tally.total[RUN_ENDS] -= work_of(jobs.procs[i], jobs.limit[i]) + jobs.procs[i] * jobs.start[i]
    head = tally.counts[HEAD]
    while head < tally.counts[STARTS] and not _runs(jobs, head):
        head += 1
    tally.counts[HEAD] = head


@njit(cache=True)
def _runs(jobs, place):
    i = jobs.started[place]
    return jobs.status[i] == RUNNING and jobs.place[i] == place


@njit(cache=True)
def requeue_job(jobs, tally, i):
    """A running job goes back to the queue."""
    end_job(jobs, tally, i)
    _queue(jobs, tally, i)


@njit(cache=True)
def oldest_start(jobs, tally):
    """When the longest-running job started; infinity when nothing runs."""
    if tally.counts[IN_RUN] == 0:
        return np.inf
    return jobs.start[jobs.started[tally.counts[HEAD]]]


@njit(cache=True)
def free_procs(tally):
    """Free processors, never below 0; NaN when the machine's size is unknown."""
    left = tally.total[SIZE] - tally.total[RUN_PROCS]
    return 0.0 if left < 0 else left


@njit(cache=True)
def room_for_one(jobs, tally):
    """Whether some queued job would have fitted the free processors (or nothing runs at all)."""
    if tally.counts[IN_QUEUE] == 0:
        return False
    if tally.counts[IN_RUN] == 0:
        return True
    free = free_procs(tally)
    for k in range(tally.counts[IN_QUEUE]):
        if jobs.procs[jobs.queue[k]] <= free:
            return True
    return False


@njit(cache=True)
def note_gap(jobs, tally, gap):
    """A day without any event although a queued job had room is an outage: the waits of the queued teach nothing.

    `learned` of each queued job becomes -1. Returns whether it was one.
    """
    if gap < OUTAGE_S or not room_for_one(jobs, tally):
        return False
    for k in range(tally.counts[IN_QUEUE]):
        jobs.learned[jobs.queue[k]] = -1
    return True


@njit(cache=True)
def learn_wait(jobs, tally, i, wait):
    """Job i left the queue after `wait`: whether that teaches (not negative, no outage in it, the job fits)."""
    if jobs.learned[i] != 0 or not wait >= 0.0 or jobs.procs[i] > tally.total[SIZE]:
        return False
    jobs.wait[i] = wait
    jobs.learned[i] = 1
    return True


def known_procs(procs: float) -> float:
    """Processors for the index: unknown counts as none, as in SystemState."""
    return procs if procs == procs else 0.0


def known_limit(limit: float) -> float:
    """The limit for the index: unknown and unlimited are one value beyond all others."""
    return limit if limit < NO_LIMIT else NO_LIMIT


class Ledger:
    """The live side of the arrays: takes events as a clock tells them; `job` tells which entry an event was about.

    Events about jobs it never saw submitted (a predictor attached late) are taken as a submission first, so the queue
    and the running set are right from then on. `cancelled`: whether leaving the queue without running counts as the
    end of a wait (`count`, the reading of Kumar & Vadhiyar's tables) or teaches nothing (`skip`).

    >>> from batchcast.events.event import Submit
    >>> ledger, job = Ledger(), JobRequest(0, 1, 5.0, 4.0, 60.0, float("nan"))
    >>> ledger.observe(Submit(5.0, job), SystemState(10.0)); int(ledger.tally.counts[IN_QUEUE])
    1
    """

    def __init__(self, cancelled: str = "count", capacity: int = 1024) -> None:
        self.cancelled = cancelled
        self.jobs = blank_jobs(capacity)
        self.tally = blank_tally(float("nan"))
        self.entry: dict[int, int] = {}
        self.now = -np.inf
        self.job = -1
        self.taught = False
        self.outages = 0

    def __len__(self) -> int:
        return int(self.tally.counts[JOBS])

    def observe(self, event: Event, at: SystemState) -> None:
        """Take one event in; afterwards `job` is its entry (-1: none) and `taught` whether a wait was learned."""
        self.job, self.taught = -1, False
        kind, jobs, tally = event.kind, self.jobs, self.tally
        tally.total[SIZE] = at.total
        if event.time - self.now >= OUTAGE_S:
            self.outages += note_gap(jobs, tally, event.time - self.now)
        self.now = event.time
        if kind in (CAPACITY, OVERDUE):
            return
        request: JobRequest = event.job  # type: ignore[union-attr]
        i = self.entry.get(request.row, -1)
        if i < 0:
            i = self._append(request, event.time if kind == SUBMIT else request.submit_time)
            jobs, tally = self.jobs, self.tally
        self.job = i
        status = jobs.status[i]
        if kind == START and status == QUEUED:
            start_job(jobs, tally, i, event.time)
            self.taught = learn_wait(jobs, tally, i, event.wait_time)  # type: ignore[union-attr]
        elif kind == WITHDRAW and status == QUEUED:
            leave_queue(jobs, tally, i)
            del self.entry[request.row]
            if self.cancelled == "count":
                self.taught = learn_wait(jobs, tally, i, event.wait_time)  # type: ignore[union-attr]
        elif kind == END:
            if status == RUNNING:
                end_job(jobs, tally, i)
            elif status == QUEUED:
                leave_queue(jobs, tally, i)
            del self.entry[request.row]
        elif kind == REQUEUE and status == RUNNING:
            requeue_job(jobs, tally, i)
        elif kind == CHANGE and status == QUEUED:
            leave_queue(jobs, tally, i)
            jobs.procs[i], jobs.limit[i] = known_procs(request.procs), known_limit(request.req_time)
            _queue(jobs, tally, i)

    def _append(self, request: JobRequest, now: float) -> int:
        i = len(self)
        if max(i, int(self.tally.counts[STARTS])) + 1 >= len(self.jobs.submit):
            self.jobs = grown(self.jobs, 2 * len(self.jobs.submit))
        submit_job(self.jobs, self.tally, i, now, known_procs(request.procs), known_limit(request.req_time))
        self.entry[request.row] = i
        return i


def told_waits(wait_time: np.ndarray, run_time: np.ndarray, cancelled: str) -> np.ndarray:
    """What a departure from the queue teaches in a batch path: NaN where it teaches nothing by the record alone."""
    waits = np.where(wait_time >= 0, wait_time, np.nan)
    return waits if cancelled == "count" else np.where(np.isnan(run_time), np.nan, waits)


def clean_requests(procs: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`known_procs` and `known_limit` on whole columns."""
    p, q = np.asarray(procs, float), np.asarray(limit, float)
    return np.where(np.isnan(p), 0.0, p), np.where(q < NO_LIMIT, q, NO_LIMIT)
