# SPDX-License-Identifier: Apache-2.0
"""Simulates the schedule forward with run times drawn from their predicted distributions. Compiled functions."""

from __future__ import annotations

import math

import numpy as np

from ...compiled import inlined, inner
from ...compiled.arrays import Record
from ...events.kernel import jobs_of, queue_of, running_of
from ...schedule.forward import (
    EASY,
    GREEDY,
    JOBS,
    OPENINGS,
    POLICY,
    RUNNING,
    SIZE,
    Forward,
    begin,
    blank_forward,
    first_opening,
    join_queue,
)
from .queue_features import at_level, bounded, left_at, scale

EASY_DRAWS, GREEDY_DRAWS = 12, 4
BY_LIMITS, BY_MEDIANS = -1, -2
PLANS = (
    *((EASY, draw) for draw in range(EASY_DRAWS)),
    *((GREEDY, draw) for draw in range(GREEDY_DRAWS)),
    (EASY, BY_LIMITS),
    (EASY, BY_MEDIANS),
)
"""The simulations of one queue state: a policy, and a run time for each job (a draw, the time limit or the median)."""
_PLANS = np.array(PLANS)
LARGEST = 5e8
NAMES = (
    *("simulated mean", "simulated least", "simulated 25 %", "simulated 50 %", "simulated 75 %", "simulated most"),
    *("simulated within 1 min", "simulated within 1 h", "simulated within 4 h"),
    *("greedy mean", "greedy least", "greedy within 1 h", "planned by limits", "planned by forecasts"),
)


def blank_draw(running: int, queued: int) -> Forward:
    """Return work arrays for simulating this many running and queued jobs."""
    return blank_forward(1, running, queued, EASY)


@inlined
def uniform(entry: int, draw: int, draws: int) -> float:
    """Return the quantile, in (0, 1), at which a job's run time is drawn. The quantiles of one job are stratified over
    the simulations."""
    mixed = np.uint64(entry + 1) * np.uint64(11400714819323198485)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(13787848793156543929)
    mixed ^= mixed >> np.uint64(32)
    stride = (1, 5, 7, 11)[np.int64(mixed >> np.uint64(10)) & 3]
    stratum = (np.int64(mixed & np.uint64(1023)) + stride * draw) % draws
    inside = np.float64(mixed >> np.uint64(12)) / 4503599627370496.0
    return min(max((stratum + inside) / draws, 1e-6), 1.0 - 1e-6)


@inlined
def run_of(row: np.ndarray, limit: float, elapsed: float, entry: int, draw: int, draws: int) -> float:
    """Return a job's remaining run time, in seconds, in one random draw of run times."""
    if draw == BY_LIMITS:
        return max(bounded(limit) - elapsed, 1.0)
    share = 0.5 if draw == BY_MEDIANS else uniform(entry, draw, draws)
    return left_at(row, limit, elapsed, share)


@inlined
def whole(procs: float) -> int:
    """Return a number of processors as an integer, at least 1."""
    return math.ceil(min(max(procs, 1.0), LARGEST))


@inner
def draw_future(f: Forward, s: Record, runs: np.ndarray, itself: int, now: float, plan: int, size: float) -> None:
    """Set up simulation `plan` (an index of PLANS) of the state at `now` without the job `itself` (-1: with all
    jobs)."""
    jobs, queue, running = jobs_of(s), queue_of(s), running_of(s)
    policy, draw = _PLANS[plan, 0], _PLANS[plan, 1]
    draws = GREEDY_DRAWS if policy == GREEDY else EASY_DRAWS
    busy, n = 0, 0
    for k in range(s.running_first, s.running_end):
        i = running[k]
        job = jobs[i]
        left = run_of(runs[i], job.limit, max(now - job.start, 0.0), i, draw, draws)
        f.running_end[n], f.running_procs[n] = now + left, whole(job.procs)
        busy += f.running_procs[n]
        n += 1
    f.tally[RUNNING] = n
    most = max(np.int64(min(size, LARGEST)) if size == size else 1, busy, 1)
    n = 0
    for k in range(s.queue_first, s.queue_end):
        i = queue[k]
        if i == itself:
            continue
        job = jobs[i]
        f.procs[n], f.planned[n] = whole(job.procs), run_of(runs[i], job.limit, 0.0, i, draw, draws)
        f.start[n] = np.inf if f.procs[n] <= most else -np.inf
        f.order[n] = n
        n += 1
    f.tally[JOBS], f.tally[SIZE], f.tally[POLICY], f.tally[OPENINGS] = n, most, policy, 0
    begin(f, now)


@inner
def wait_in(f: Forward, job: Record, run: np.ndarray, entry: int, now: float, plan: int) -> float:
    """Return the simulated wait of a job that joins the end of the queue; NaN if the job never fits the machine."""
    draw = _PLANS[plan, 1]
    draws = GREEDY_DRAWS if _PLANS[plan, 0] == GREEDY else EASY_DRAWS
    planned = run_of(run, job.limit, 0.0, entry, draw, draws)
    opening = first_opening(f, whole(job.procs), planned)
    return f.openings[opening].time - now if opening >= 0 else math.nan


@inner
def join_future(f: Forward, job: Record, run: np.ndarray, entry: int, plan: int) -> None:
    """Add a job to the end of a simulation's queue, so that the next submitted job queues behind it."""
    draw = _PLANS[plan, 1]
    draws = GREEDY_DRAWS if _PLANS[plan, 0] == GREEDY else EASY_DRAWS
    join_queue(f, whole(job.procs), run_of(run, job.limit, 0.0, entry, draw, draws))


@inner
def write_simulated(waits: np.ndarray, out: np.ndarray) -> None:
    """Write the features of the simulated waits (plans,) to `out`."""
    out[:] = math.nan
    if waits[0] != waits[0]:
        return
    easy, greedy = waits[:EASY_DRAWS], waits[EASY_DRAWS : EASY_DRAWS + GREEDY_DRAWS]
    ordered(easy)
    ordered(greedy)
    out[0], out[9] = mean_of(easy), mean_of(greedy)
    out[1], out[2], out[3] = scale(easy[0]), scale(easy[3]), 0.5 * (scale(easy[5]) + scale(easy[6]))
    out[4], out[5] = scale(easy[8]), scale(easy[11])
    for k in range(3):
        out[6 + k] = within(easy, (60.0, 3600.0, 14400.0)[k])
    out[10], out[11] = scale(greedy[0]), within(greedy, 3600.0)
    for k in range(2):
        out[12 + k] = scale(waits[EASY_DRAWS + GREEDY_DRAWS + k])


@inlined
def ordered(values: np.ndarray) -> None:
    """Sort a few values in ascending order by insertion."""
    for a in range(1, len(values)):
        value, b = values[a], a - 1
        while b >= 0 and values[b] > value:
            values[b + 1] = values[b]
            b -= 1
        values[b + 1] = value


@inlined
def mean_of(waits: np.ndarray) -> float:
    """Return the mean of log(1 + wait) over simulated waits."""
    total = 0.0
    for k in range(len(waits)):
        total += scale(waits[k])
    return total / len(waits)


@inlined
def within(waits: np.ndarray, span: float) -> float:
    """Return the share of simulated waits that are at most a time span."""
    total = 0.0
    for k in range(len(waits)):
        total += 1.0 if waits[k] <= span else 0.0
    return total / len(waits)


__all__ = ["NAMES", "PLANS", "at_level", "blank_draw", "draw_future", "join_future", "wait_in", "write_simulated"]
