# SPDX-License-Identifier: Apache-2.0
"""The running jobs in an array sorted by planned end, the start of a queued job, and the reservation of a head job."""

from __future__ import annotations

import numpy as np

from ..compiled import inlined, inner
from ..compiled.arrays import Record
from .heap import pop, push
from .queue import dequeue
from .state import (
    LOG_START,
    PYSS,
    REQUESTED,
    asides_of,
    choices_of,
    endings_of,
    instant_of,
    jobs_of,
    log_of,
    plan_of,
    slots_of,
)


@inlined
def add_plan(s: Record, job: int, procs: int, planned_end: float) -> None:
    """Insert a running job by its planned end, after jobs with an equal end. O(running)."""
    plan = plan_of(s)
    place = s.running
    while place > 0 and plan[place - 1].end > planned_end:
        plan[place] = plan[place - 1]
        place -= 1
    plan[place].end = planned_end
    plan[place].job = job
    plan[place].procs = procs
    s.running += 1


@inlined
def drop_plan(s: Record, job: int, planned_end: float) -> None:
    """Remove a running job from the plan. O(running)."""
    plan = plan_of(s)
    low, high = 0, s.running
    while low < high:
        middle = (low + high) // 2
        if plan[middle].end < planned_end:
            low = middle + 1
        else:
            high = middle
    while plan[low].job != job:
        low += 1
    last = s.running - 1
    s.running = last
    for place in range(low, last):
        plan[place] = plan[place + 1]


@inlined
def put_off(s: Record, place: int, planned_end: float) -> None:
    """Give the running job at position `place` a later planned end, and move the job after jobs with an equal end.
    O(passed jobs)."""
    plan = plan_of(s)
    job, procs, last = plan[place].job, plan[place].procs, s.running - 1
    while place < last and plan[place + 1].end <= planned_end:
        plan[place] = plan[place + 1]
        place += 1
    plan[place].end = planned_end
    plan[place].job = job
    plan[place].procs = procs


@inlined
def reserve(s: Record, procs: int) -> None:
    """Compute when a head job of `procs` processors can start if running jobs end as planned, and how many processors
    are then left over.

    Mu'alem & Feitelson (TPDS 2001): go through the running jobs by planned end until enough processors are free; all
    jobs that end at this instant count. O(running).
    """
    plan = plan_of(s)
    free, place, running = s.free, 0, s.running
    while free < procs and place < running:
        free += plan[place].procs
        place += 1
    shadow_time = plan[place - 1].end if place > 0 else s.now
    while place < running and plan[place].end == shadow_time:
        free += plan[place].procs
        place += 1
    s.shadow_time = shadow_time
    s.extra_procs = free - procs
    s.reserved = 1


@inner
def reserve_by_request(s: Record, rules: Record, head: int, procs: int) -> None:
    """Compute the reservation as `reserve` does, but let each running job end at start + request. O(running).

    A job that was backfilled at the risk of delaying the job `head` counts as ending at the start that was reserved at
    that time, if this start is in the future. The risk budget was charged for that reserved start; a later reservation
    would let other jobs be backfilled without a charge.
    """
    jobs = jobs_of(s)
    asides = asides_of(s)
    plan = plan_of(s)
    choices = choices_of(s)
    count = 0
    for place in range(s.running):
        entry = jobs[plan[place].job]
        end = entry.start + entry.request
        if rules.risk_budget > 0.0:
            aside = asides[plan[place].job]
            if aside.passed == head and aside.until > s.now:
                end = min(end, aside.until)
        count = push(choices, count, end, place, entry.procs)
    free = s.free
    s.shadow_time = s.now
    while count > 0 and (free < procs or choices[0].key == s.shadow_time):
        free += choices[0].item
        s.shadow_time = choices[0].key
        count = pop(choices, count)
    s.extra_procs = free - procs
    s.reserved = 1


@inlined
def start_job(s: Record, rules: Record, place: int, backfilled: int) -> None:
    """Start the job of a slot. Jobs with equal ends are in log order, or in order of start with the event order of
    pyss."""
    jobs = jobs_of(s)
    slots = slots_of(s)
    instant = instant_of(s)
    job = slots[place].job
    entry = jobs[job]
    entry.start = s.now
    entry.backfilled = backfilled
    s.free -= entry.procs
    s.sequence += 1
    dequeue(s, rules, place)
    if rules.running_ends == REQUESTED:
        entry.planned = max(entry.request, entry.run)
    add_plan(s, job, entry.procs, s.now + entry.planned)
    note(s, LOG_START, job)
    if entry.run <= 0.0:
        instant[s.instant_end] = job
        s.instant_end += 1
    else:
        push_end(
            s,
            s.now + entry.run,
            s.sequence if rules.event_order == PYSS else np.int64(job),
            job,
        )


@inlined
def push_end(s: Record, time: float, tie: np.int64, job: int) -> None:
    """Push a job's actual end onto the heap of ends."""
    endings = endings_of(s)
    s.ending = push(endings, s.ending, time, tie, job)


@inlined
def note(s: Record, kind: int, job: int) -> None:
    """Log a decision for predictors outside the kernel, if there are any."""
    log = log_of(s)
    if log.size > 0:
        entry = log[s.logged]
        entry.kind = kind
        entry.job = job
        entry.time = s.now
        s.logged += 1
