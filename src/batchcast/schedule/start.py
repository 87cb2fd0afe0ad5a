"""A queued job begins to run."""

from __future__ import annotations

import numpy as np

from ..compiled import inlined
from ..compiled.arrays import Record
from .heap import push
from .queue import dequeue
from .running import add_plan
from .state import (
    LOG_START,
    PYSS,
    REQUESTED,
    endings_of,
    instant_of,
    jobs_of,
    log_of,
    slots_of,
)


@inlined
def start_job(s: Record, rules: Record, place: int, backfilled: int) -> None:
    """The job of a slot runs from now on. Ends tie by log order, under pyss by order of start."""
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
    """Note when a job will truly end."""
    endings = endings_of(s)
    s.ending = push(endings, s.ending, time, tie, job)


@inlined
def note(s: Record, kind: int, job: int) -> None:
    """Note a decision for predictors outside the kernel, where there are any."""
    log = log_of(s)
    if log.size > 0:
        entry = log[s.logged]
        entry.kind = kind
        entry.job = job
        entry.time = s.now
        s.logged += 1
