# SPDX-License-Identifier: Apache-2.0
"""Features of a submission from the queue and the running jobs, with their predicted run times.

Compiled functions.
"""

from __future__ import annotations

import math

import numpy as np

from ...compiled import inlined, inner
from ...compiled.arrays import Record
from ...events.kernel import free_procs, jobs_of, queue_of, running_of
from ...events.record import NO_LIMIT
from ...schedule.state import pop, push
from ..runtime.kernel import LEVELS

COUNT = len(LEVELS)
_LEVELS = np.array(LEVELS)
UNKNOWN_S = 3600.0  # run time of a job without a limit and without a prediction
OVERDUE_S = 60.0


@inlined
def longest(row: np.ndarray, limit: float) -> float:
    """Return the longest possible run time: the time limit, or 1.5 times the highest quantile if there is no limit."""
    if limit < NO_LIMIT:
        return max(limit, 1.0)
    return 1.5 * np.float64(row[COUNT - 1]) if row[0] == row[0] else 2.0 * UNKNOWN_S


@inlined
def reached(row: np.ndarray, limit: float, elapsed: float) -> float:
    """Return the probability of a run time up to `elapsed`, interpolated linearly between 0 s, the quantiles and the
    longest possible run time.
    """
    top = longest(row, limit)
    if elapsed <= 0.0:
        return 0.0
    if elapsed >= top:
        return 1.0
    if row[0] != row[0]:
        return elapsed / top
    below, level = 0.0, 0.0
    for k in range(COUNT):
        value = min(np.float64(row[k]), top)
        if elapsed < value:
            share: float = level + (_LEVELS[k] - level) * (elapsed - below) / (value - below)
            return share
        below, level = value, _LEVELS[k]
    return level + (1.0 - level) * (elapsed - below) / (top - below) if top > below else 1.0


@inlined
def at_level(row: np.ndarray, limit: float, wanted_level: float) -> float:
    """Return the run-time quantile at a level, in seconds; the inverse of `reached`."""
    top = longest(row, limit)
    if row[0] != row[0]:
        return wanted_level * top
    below, level = 0.0, 0.0
    for k in range(COUNT):
        value = min(np.float64(row[k]), top)
        if wanted_level < _LEVELS[k]:
            seconds: float = below + (value - below) * (wanted_level - level) / (_LEVELS[k] - level)
            return seconds
        below, level = value, _LEVELS[k]
    return below + (top - below) * (wanted_level - level) / (1.0 - level)


@inlined
def left_at(row: np.ndarray, limit: float, elapsed: float, share: float) -> float:
    """Return the quantile, at level `share`, of the remaining run time of a job that has run `elapsed` seconds."""
    gone = reached(row, limit, elapsed)
    if gone >= 1.0:
        return 1.0 + share * OVERDUE_S
    return max(at_level(row, limit, gone + share * (1.0 - gone)) - elapsed, 1.0)


GROUPS = ("all", "no larger nor longer", "as large and long", "no larger", "own", "account's", "queue's", "fitting")
EVERY, BELOW, ABOVE, SMALLER, OWN, SHARED, SAME_QUEUE, FITTING = range(8)
OF_GROUP = ("jobs", "processors", "work", "mean age", "oldest", "youngest")
AGES_S = (600.0, 3600.0, 21600.0, 86400.0)
QUEUE_NAMES = (
    *(f"queue: {group}: {what}" for group in GROUPS for what in OF_GROUP),
    *(f"queue: waiting over {age / 60:g} min" for age in AGES_S),
    *("queue: work forecast", "queue: forecast work of no larger", "head: age", "head: processors", "head: limit"),
    "head: processors over free",
)


@inlined
def scale(value: float) -> float:
    """Return log(1 + value), or 0 for a negative value."""
    return math.log1p(value) if value > 0.0 else 0.0


@inlined
def bounded(limit: float) -> float:
    """Return the time limit in seconds, or one hour if the limit is unknown."""
    return limit if limit < NO_LIMIT else 3600.0


@inner
def write_queue(
    s: Record, job: Record, itself: int, until: int, now: float, runs: np.ndarray, sums: np.ndarray, out: np.ndarray
) -> None:
    """Write features of the queued jobs before position `until`, relative to `job`; `sums` (8, 6) is a work array."""
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
def add(total: np.ndarray, job: Record, age: float) -> None:
    """Add a queued job to the sums of a group."""
    total[0] += 1.0
    total[1] += job.procs
    total[2] += job.procs * bounded(job.limit)
    total[3] += age
    total[4] = max(total[4], age)
    total[5] = min(total[5], age)


@inlined
def write_sums(sums: np.ndarray, out: np.ndarray) -> None:
    """Write the logarithms of the groups' sums as features; the ages are NaN if no job of a group waits."""
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
    """Write features of the first job in the queue, and the predicted core-seconds of all queued jobs."""
    out[0], out[1] = scale(work), scale(smaller)
    out[2] = out[3] = out[4] = out[5] = math.nan
    if first >= 0:
        head = jobs[first]
        out[2], out[3], out[4] = scale(now - head.submit), scale(head.procs), scale(bounded(head.limit))
        out[5] = head.procs - free


SPANS_S = (600.0, 3600.0, 14400.0, 86400.0)
RUNNING_NAMES = (
    *("processors", "limit", "area", "share of the machine", "hour", "weekday", "nodes", "memory", "gpus"),
    *("run time, 10 %", "run time, 50 %", "run time, 90 %", "run time over limit", "time waited"),
    *("running", "busy", "free", "free share", "lacking", "fits"),
    *("remaining work by limits", "remaining work by forecasts", "oldest run", "mean run", "overdue"),
    *(f"freed in {span / 60:g} min by forecasts" for span in SPANS_S),
    *(f"freed in {span / 60:g} min by limits" for span in SPANS_S),
    *("own running", "own processors", "own work left", "own next end", "account's running", "account's processors"),
    *("queue's running", "queue's processors", "started in the last hour", "shadow by limits", "shadow by forecasts"),
)
OWN_JOB = 14


@inner
def write_job(s: Record, job: Record, now: float, run: np.ndarray, peak: float, out: np.ndarray) -> None:
    """Write the features of the job itself; `run` is its row of run-time quantiles."""
    size = s.size if s.size == s.size else peak
    procs, limit = job.procs, job.limit
    out[0] = scale(procs)
    out[1] = scale(limit) if limit < NO_LIMIT else math.nan
    out[2] = scale(procs * bounded(limit))
    out[3] = procs / size if size > 0.0 else math.nan
    day = now / 86400.0
    out[4] = 24.0 * (day - math.floor(day))
    out[5] = math.floor(day) - 7.0 * math.floor(day / 7.0)
    out[6], out[7], out[8] = job.nodes, job.memory_kib, job.gpus
    for k in range(3):
        out[9 + k] = scale(at_level(run, limit, (0.1, 0.5, 0.9)[k]))
    out[12] = out[10] - out[1]
    out[13] = scale(now - job.submit)


@inner
def write_running(
    s: Record, job: Record, now: float, runs: np.ndarray, peak: float, heaps: np.ndarray, out: np.ndarray
) -> None:
    """Write the features of the running jobs; `heaps` (2, running) of HEAP is a work array."""
    jobs, running = jobs_of(s), running_of(s)
    free, n = free_procs(s), s.running_end - s.running_first
    if free != free:
        free = max(peak - s.running_procs, 0.0)
    out[:] = 0.0
    out[0], out[1], out[2] = scale(n), scale(s.running_procs), scale(free)
    out[3], out[4] = free / max(free + s.running_procs, 1.0), job.procs - free
    out[5] = 1.0 if job.procs <= free else 0.0
    own_end = math.inf
    for k in range(n):
        i = running[s.running_first + k]
        other = jobs[i]
        elapsed = max(now - other.start, 0.0)
        by_limit, by_forecast = bounded(other.limit) - elapsed, left_at(runs[i], other.limit, elapsed, 0.5)
        out[10] += 1.0 if by_limit <= 0.0 else 0.0
        by_limit = max(by_limit, 1.0)
        out[6] += other.procs * by_limit
        out[7] += other.procs * by_forecast
        out[8] = max(out[8], elapsed)
        out[9] += elapsed
        for a in range(len(SPANS_S)):
            out[11 + a] += other.procs if by_forecast <= SPANS_S[a] else 0.0
            out[15 + a] += other.procs if by_limit <= SPANS_S[a] else 0.0
        if other.user == job.user:
            out[19] += 1.0
            out[20] += other.procs
            out[21] += other.procs * by_forecast
            own_end = min(own_end, by_forecast)
        if (other.account == job.account and job.account > 0) or (other.group == job.group and job.group > 0):
            out[23] += 1.0
            out[24] += other.procs
        if other.queue == job.queue and other.partition == job.partition:
            out[25] += 1.0
            out[26] += other.procs
        out[27] += 1.0 if elapsed <= 3600.0 else 0.0
        push(heaps[0], k, by_limit, k, int(min(other.procs, 5e8)))
        push(heaps[1], k, by_forecast, k, int(min(other.procs, 5e8)))
    out[9] = out[9] / n if n > 0 else math.nan
    for place in range(6, 28):
        if place != 22:
            out[place] = scale(out[place]) if out[place] == out[place] else math.nan
    out[22] = scale(own_end) if own_end < math.inf else math.nan
    out[28], out[29] = shadow(heaps[0], n, job.procs - free), shadow(heaps[1], n, job.procs - free)


GPU_NAMES = ("gpus: busy", "gpus: free", "gpus: lacking")


@inner
def busy_gpus(s: Record, gpu_type: int) -> float:
    """Return the number of GPUs of a type that running jobs requested (0: of all types)."""
    jobs, running, busy = jobs_of(s), running_of(s), 0.0
    for k in range(s.running_first, s.running_end):
        other = jobs[running[k]]
        if other.gpus > 0.0 and (gpu_type == 0 or other.gpu_type == gpu_type):
            busy += other.gpus
    return busy


@inner
def write_gpus(s: Record, job: Record, most: float, out: np.ndarray) -> None:
    """Write the features of the GPUs of the job's type; NaN if the job requests no GPUs.

    A log does not say how many GPUs a machine has. So the number of free GPUs is `most`, the largest number that were
    busy at one time before, minus the GPUs that are busy now.
    """
    out[:] = math.nan
    if not job.gpus > 0.0:
        return
    out[0] = busy_gpus(s, job.gpu_type)
    if most > 0.0:
        out[1] = max(most - out[0], 0.0)
        out[2] = job.gpus - out[1]


@inlined
def shadow(heap: np.ndarray, n: int, lacking: float) -> float:
    """Return log(1 + seconds) until running jobs have freed `lacking` processors; NaN if the running jobs have fewer
    processors."""
    time = 0.0
    while lacking > 0.0:
        if n == 0:
            return math.nan
        time = heap[0].key
        lacking -= heap[0].item
        n = pop(heap, n)
    return scale(time)
