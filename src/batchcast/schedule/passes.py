"""One scheduling pass: start heads while they fit, then backfill around the reservation of the first that does not."""

from __future__ import annotations

import numpy as np

from .compiled import kernel
from .queue import any_fits, dequeue, head_place, next_candidate
from .running import add_plan, push_end, reserve
from .state import EASY, LOG_START, PYSS


@kernel
def schedule(r, jobs, slots, blocks, plan, endings, instant, log):
    """One pass at `now`. Nothing is looked at twice: where only one job came since a pass that left the queue blocked,
    that job alone can start, for time only shrinks what fits."""
    one_came = r.dirty == 0 and r.arrived == 1 and r.waiting > 1 and r.head_order == 0
    r.dirty = 0
    r.arrived = 0
    if r.waiting == 0:
        return
    if one_came:
        if r.backfill == EASY and slots[r.newest].procs <= r.free:
            try_newest(r, jobs, slots, blocks, plan, endings, instant, log)
        return
    r.reserved = 0
    head = head_place(r, slots, blocks)
    while slots[head].procs <= r.free:
        start_job(r, jobs, slots, blocks, plan, endings, instant, log, head, 0)
        if r.waiting == 0:
            return
        head = head_place(r, slots, blocks)
    if r.backfill == EASY and r.free > 0 and r.waiting > 1 and any_fits(r, blocks):
        reserve(r, plan, slots[head].procs)
        place = next_candidate(r, slots, blocks, head)
        while place >= 0:
            backfill(r, jobs, slots, blocks, plan, endings, instant, log, place)
            place = next_candidate(r, slots, blocks, head)


@kernel
def try_newest(r, jobs, slots, blocks, plan, endings, instant, log):
    """Backfill the job that has just come, if the head's reservation allows."""
    if not r.reserved:
        reserve(r, plan, slots[r.head].procs)
    slot = slots[r.newest]
    if slot.procs <= r.extra_procs or r.now + slot.planned <= r.shadow_time:
        backfill(r, jobs, slots, blocks, plan, endings, instant, log, r.newest)


@kernel
def backfill(r, jobs, slots, blocks, plan, endings, instant, log, place):
    """Start a candidate; one that runs past the shadow time uses up extra processors."""
    if r.now + slots[place].planned > r.shadow_time:
        r.extra_procs -= slots[place].procs
    start_job(r, jobs, slots, blocks, plan, endings, instant, log, place, 1)


@kernel
def start_job(r, jobs, slots, blocks, plan, endings, instant, log, place, backfilled):
    """A queued job begins to run now. Ends tie by log order, under pyss by order of start."""
    job = slots[place].job
    it = jobs[job]
    it.start = r.now
    it.backfilled = backfilled
    r.free -= it.procs
    r.sequence += 1
    dequeue(r, slots, blocks, place)
    add_plan(r, plan, job, it.procs, r.now + it.planned)
    note(r, log, LOG_START, job)
    if it.run <= 0.0:
        instant[r.instant_end] = job
        r.instant_end += 1
    else:
        push_end(r, endings, r.now + it.run, r.sequence if r.event_order == PYSS else np.int64(job), job)


@kernel
def note(r, log, kind, job):
    """Note a decision for predictors outside the kernel, where there are any."""
    if log.size > 0:
        entry = log[r.logged]
        entry.kind = kind
        entry.job = job
        entry.time = r.now
        r.logged += 1
