"""What a job sees of the queue when it is submitted: one scan, compiled."""

from __future__ import annotations

import math

import numpy as np

from ...compiled import inlined, inner
from ...compiled.arrays import Record
from ...events.kernel import free_procs, jobs_of, queue_of
from ...events.record import NO_LIMIT
from .run_curve import left_at

GROUPS = ("all", "no larger nor longer", "as large and long", "no larger", "own", "account's", "queue's", "fitting")
EVERY, BELOW, ABOVE, SMALLER, OWN, SHARED, SAME_QUEUE, FITTING = range(8)
OF_GROUP = ("jobs", "processors", "work", "mean age", "oldest", "youngest")
AGES_S = (600.0, 3600.0, 21600.0, 86400.0)
NAMES = (
    *(f"queue: {group}: {what}" for group in GROUPS for what in OF_GROUP),
    *(f"queue: waiting over {age / 60:g} min" for age in AGES_S),
    *("queue: work forecast", "queue: forecast work of no larger", "head: age", "head: processors", "head: limit"),
    "head: processors over free",
)


@inlined
def scale(value: float) -> float:
    """log(1 + value) of what is not negative."""
    return math.log1p(value) if value > 0.0 else 0.0


@inlined
def bounded(limit: float) -> float:
    """A limit, an hour where none is known."""
    return limit if limit < NO_LIMIT else 3600.0


@inner
def see_queue(
    s: Record, job: Record, itself: int, until: int, now: float, runs: np.ndarray, sums: np.ndarray, out: np.ndarray
) -> None:
    """Write NAMES of the queue before place `until` as `job` finds it now into `out`; `sums` (8, 6) is room."""
    jobs, queue, free = jobs_of(s), queue_of(s), free_procs(s)
    sums[:] = 0.0
    sums[:, 5] = np.inf
    out[:] = 0.0
    first, work, smaller_work = -1, 0.0, 0.0
    ages = out[len(GROUPS) * len(OF_GROUP) :]
    for k in range(s.queue_first, until):
        i = queue[k]
        if i == itself:
            continue
        other = jobs[i]
        first = i if first < 0 else first
        age = max(now - other.submit, 0.0)
        forecast = other.procs * left_at(runs[i], other.limit, 0.0, 0.5)
        work += forecast
        add(sums[EVERY], other, age)
        if other.procs <= job.procs:
            add(sums[SMALLER], other, age)
            smaller_work += forecast
            if other.limit <= job.limit:
                add(sums[BELOW], other, age)
        if other.procs >= job.procs and other.limit >= job.limit:
            add(sums[ABOVE], other, age)
        if other.user == job.user:
            add(sums[OWN], other, age)
        if (other.account == job.account and job.account > 0) or (other.group == job.group and job.group > 0):
            add(sums[SHARED], other, age)
        if other.queue == job.queue and other.partition == job.partition:
            add(sums[SAME_QUEUE], other, age)
        if other.procs <= free:
            add(sums[FITTING], other, age)
        for a in range(len(AGES_S)):
            if age > AGES_S[a]:
                ages[a] += 1.0
    write_sums(sums, out)
    for a in range(len(AGES_S)):
        ages[a] = scale(ages[a])
    write_head(jobs, first, now, free, work, smaller_work, ages[len(AGES_S) :])


@inlined
def add(total: np.ndarray, other: Record, age: float) -> None:
    """A queued job counts in a group."""
    total[0] += 1.0
    total[1] += other.procs
    total[2] += other.procs * bounded(other.limit)
    total[3] += age
    total[4] = max(total[4], age)
    total[5] = min(total[5], age)


@inlined
def write_sums(sums: np.ndarray, out: np.ndarray) -> None:
    """Groups as features: logarithms, the ages NaN where nobody waits."""
    for group in range(len(sums)):
        total, into = sums[group], out[6 * group : 6 * group + 6]
        into[0], into[1], into[2] = scale(total[0]), scale(total[1]), scale(total[2])
        if total[0] > 0.0:
            into[3], into[4], into[5] = scale(total[3] / total[0]), scale(total[4]), scale(total[5])
        else:
            into[3] = into[4] = into[5] = math.nan


@inlined
def write_head(
    jobs: np.ndarray, first: int, now: float, free: float, work: float, smaller: float, out: np.ndarray
) -> None:
    """The head of the queue, and the queue's work by forecasts."""
    out[0], out[1] = scale(work), scale(smaller)
    out[2] = out[3] = out[4] = out[5] = math.nan
    if first >= 0:
        head = jobs[first]
        out[2], out[3], out[4] = scale(now - head.submit), scale(head.procs), scale(bounded(head.limit))
        out[5] = head.procs - free
