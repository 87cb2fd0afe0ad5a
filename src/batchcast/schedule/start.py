"""A queued job begins to run."""

from __future__ import annotations

import numpy as np

from .compiled import inlined
from .heap import push
from .queue import dequeue
from .running import add_plan
from .state import LOG_START, PYSS, REQUESTED


@inlined
def start_job(r, jobs, slots, blocks, index, plan, endings, instant, log, place, backfilled):
    """The job of a slot runs from now on. Ends tie by log order, under pyss by order of start."""
    job = slots[place].job
    it = jobs[job]
    it.start = r.now
    it.backfilled = backfilled
    r.free -= it.procs
    r.sequence += 1
    dequeue(r, slots, blocks, index, place)
    if r.running_ends == REQUESTED:
        it.planned = max(it.request, it.run)
    add_plan(r, plan, job, it.procs, r.now + it.planned)
    note(r, log, LOG_START, job)
    if it.run <= 0.0:
        instant[r.instant_end] = job
        r.instant_end += 1
    else:
        push_end(r, endings, r.now + it.run, r.sequence if r.event_order == PYSS else np.int64(job), job)


@inlined
def push_end(r, endings, time, tie, job):
    """Note when a job will truly end."""
    r.ending = push(endings, r.ending, time, tie, job)


@inlined
def note(r, log, kind, job):
    """Note a decision for predictors outside the kernel, where there are any."""
    if log.size > 0:
        entry = log[r.logged]
        entry.kind = kind
        entry.job = job
        entry.time = r.now
        r.logged += 1
