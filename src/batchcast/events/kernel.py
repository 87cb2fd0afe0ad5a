# SPDX-License-Identifier: Apache-2.0
"""Compiled functions that apply events to the state, one event at a time or a whole log in one call.

None of these functions scans the whole queue. A submission appends a job to the queue. When a job leaves the queue, the
jobs between this job and the nearer end of the array move by one position.
"""

from __future__ import annotations

import numpy as np

from ..compiled import inlined, inner, kernel
from ..compiled.arrays import Record, array_in
from .event import CAPACITY, CHANGE, END, OVERDUE, PLAN, REQUEUE, START, SUBMIT, WITHDRAW
from .record import GONE, JOB, LEFT, NO_LIMIT, OUTAGE_S, PENDING, QUEUED, RUNNING, SPOILED, STARTED, USER

jobs_of = array_in("jobs", JOB)
queue_of = array_in("queue", np.int32)
running_of = array_in("running", np.int32)
users_of = array_in("users", USER)


@kernel
def apply_events(state: np.ndarray, requests: np.ndarray, events: np.ndarray, first: int, end: int) -> None:
    """Apply the events from `first` up to, but not including, `end` to the system state, in place."""
    for k in range(first, end):
        apply_event(state[0], requests, events[k])


@inner
def apply_event(s: Record, requests: np.ndarray, event: Record) -> None:
    """Apply one event to the state.

    Predictors learn the wait of a started or withdrawn job, unless the wait is marked as spoiled or is negative, or the
    job is larger than the machine.
    """
    jobs = jobs_of(s)
    if event.rank == PLAN:
        jobs[event.entry].planned_end = event.value
        return
    note_gap(s, event.time - s.now)
    s.now = event.time
    s.entry, s.was, s.taught = -1, 0, np.nan
    s.before_procs, s.before_work, s.before_submits = s.queued_procs, s.queued_work, s.queued_submits
    rank = event.rank
    if rank == CAPACITY:
        s.size = event.value
        return
    if rank == OVERDUE:
        return
    i = event.entry
    s.entry = i
    if rank == SUBMIT:
        jobs[i] = requests[i]
        jobs[i].submit = event.time
        s.entries = i + 1
        enter_queue(s, i)
        return
    job = jobs[i]
    s.was = job.status
    if rank == START and job.status == QUEUED:
        leave_queue(s, i)
        start_job(s, i, event.time)
        learn(s, job, event.value, STARTED)
    elif rank == WITHDRAW and job.status == QUEUED:
        leave_queue(s, i)
        learn(s, job, event.value, LEFT)
    elif rank == END:
        if job.status == RUNNING:
            end_job(s, i)
        elif job.status == QUEUED:
            leave_queue(s, i)
    elif rank == REQUEUE and job.status == RUNNING:
        end_job(s, i)
        if job.lesson == PENDING:
            job.lesson = SPOILED
        enter_queue(s, i)
    elif rank == CHANGE and job.status == QUEUED:
        count_queued(s, job, -1)
        job.procs, job.limit = requests[i].procs, requests[i].limit
        count_queued(s, job, 1)


@inlined
def learn(s: Record, job: Record, wait: float, lesson: int) -> None:
    """Record the wait of a job that left the queue, if predictors may learn from it."""
    if job.lesson == PENDING and wait >= 0.0 and not job.procs > s.size:
        job.wait = wait
        job.lesson = lesson
        s.taught = wait


@inlined
def note_gap(s: Record, gap: float) -> None:
    """Detect an outage: a day without events although a queued job fitted into the free processors.

    Predictors do not learn from waits that span an outage.
    """
    if gap >= OUTAGE_S and s.queue_end > s.queue_first and room_for_one(s):
        jobs, queue = jobs_of(s), queue_of(s)
        s.outages += 1
        for k in range(s.queue_first, s.queue_end):
            jobs[queue[k]].lesson = SPOILED


@inner
def room_for_one(s: Record) -> bool:
    """Whether a queued job fits into the free processors; also true if no job is running."""
    if s.running_end == s.running_first:
        return True
    jobs, queue, free = jobs_of(s), queue_of(s), free_procs(s)
    for k in range(s.queue_first, s.queue_end):
        if jobs[queue[k]].procs <= free:
            return True
    return False


@inlined
def free_procs(s: Record) -> float:
    """Return the free processors, at least 0; NaN if the size of the machine is unknown."""
    left: float = s.size - s.running_procs
    return 0.0 if left < 0 else left


@inlined
def work_of(job: Record) -> float:
    """Return the requested processor-seconds; a job with an unknown time limit counts 0."""
    work: float = job.procs * job.limit if job.limit < NO_LIMIT else 0.0
    return work


@inlined
def count_queued(s: Record, job: Record, sign: int) -> None:
    """Add a job to the sums over the queue (sign 1) or remove the job from them (sign -1)."""
    user = users_of(s)[job.user]
    s.queued_procs += sign * job.procs
    s.queued_work += sign * work_of(job)
    s.queued_submits += sign * job.submit
    user.queued += sign
    user.queued_procs += sign * job.procs


@inlined
def count_running(s: Record, job: Record, sign: int) -> None:
    """Add a job to the sums over the running jobs (sign 1) or remove the job from them (sign -1)."""
    user = users_of(s)[job.user]
    s.running_procs += sign * job.procs
    s.running_ends += sign * (work_of(job) + job.procs * job.start)
    user.running += sign
    user.running_procs += sign * job.procs


@inlined
def enter_queue(s: Record, i: int) -> None:
    """Append job i to the queue."""
    job, queue = jobs_of(s)[i], queue_of(s)
    job.status = QUEUED
    s.queue_first, s.queue_end = append(queue, s.queue_first, s.queue_end, i)
    job.turn = s.turns
    s.turns += 1
    count_queued(s, job, 1)


@inner
def leave_queue(s: Record, i: int) -> None:
    """Remove job i from the queue."""
    job = jobs_of(s)[i]
    s.queue_first, s.queue_end = take_out(s, queue_of(s), s.queue_first, s.queue_end, job.turn)
    count_queued(s, job, -1)
    job.status = GONE


@inlined
def start_job(s: Record, i: int, now: float) -> None:
    """Add job i to the running jobs."""
    job = jobs_of(s)[i]
    s.running_first, s.running_end = append(running_of(s), s.running_first, s.running_end, i)
    job.status = RUNNING
    job.start = now
    job.planned_end = np.nan
    job.turn = s.turns
    s.turns += 1
    count_running(s, job, 1)


@inner
def end_job(s: Record, i: int) -> None:
    """Remove job i from the running jobs."""
    job = jobs_of(s)[i]
    s.running_first, s.running_end = take_out(s, running_of(s), s.running_first, s.running_end, job.turn)
    job.status = GONE
    count_running(s, job, -1)


@inlined
def append(order: np.ndarray, first: int, end: int, i: int) -> tuple[int, int]:
    """Append job i to an order (of the queue or of running jobs) and return the order's new range (first, end).

    If the order has reached the end of its array, it first moves to the front of the array, where earlier jobs have
    left space.
    """
    if end == order.size:
        for k in range(first, end):
            order[k - first] = order[k]
        end -= first
        first = 0
    order[end] = i
    return first, end + 1


@inner
def take_out(s: Record, order: np.ndarray, first: int, end: int, turn: int) -> tuple[int, int]:
    """Remove the job with sequence number `turn` from an order (of the queue or of running jobs) and return the
    order's new range (first, end).

    A binary search finds the job to remove. The jobs between the removed job and the nearer end of the order move by
    one position. Costs O(log n + distance to the nearer end).
    """
    jobs = jobs_of(s)
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        if jobs[order[middle]].turn < turn:
            low = middle + 1
        else:
            high = middle
    if low - first < end - low:
        for k in range(low, first, -1):
            order[k] = order[k - 1]
        return first + 1, end
    for k in range(low, end - 1):
        order[k] = order[k + 1]
    return first, end - 1


@inlined
def oldest_start(s: Record) -> float:
    """Return the start time of the job that has been running longest; infinity if no job runs."""
    if s.running_end == s.running_first:
        return np.inf
    start: float = jobs_of(s)[running_of(s)[s.running_first]].start
    return start
