"""What a job sees of the running set when it is submitted, and of itself: compiled."""

from __future__ import annotations

import math

import numpy as np

from ...compiled import inlined, inner
from ...compiled.arrays import Record
from ...events.kernel import free_procs, jobs_of, running_of
from ...events.record import NO_LIMIT
from ...schedule.heap import pop, push
from .run_curve import at_level, left_at
from .see_queue import bounded, scale

SPANS_S = (600.0, 3600.0, 14400.0, 86400.0)
NAMES = (
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
def see_job(s: Record, job: Record, now: float, run: np.ndarray, peak: float, out: np.ndarray) -> None:
    """Write the first NAMES, of the job itself; `run` is its own row of run-time quantiles."""
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
def see_running(
    s: Record, job: Record, now: float, runs: np.ndarray, peak: float, heaps: np.ndarray, out: np.ndarray
) -> None:
    """Write the other NAMES, of the running set; `heaps` (2, running) of HEAP is room."""
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


@inlined
def shadow(heap: np.ndarray, n: int, lacking: float) -> float:
    """log(1 + seconds) until so many processors have ended; NaN where that many do not run."""
    time = 0.0
    while lacking > 0.0:
        if n == 0:
            return math.nan
        time = heap[0].key
        lacking -= heap[0].item
        n = pop(heap, n)
    return scale(time)
