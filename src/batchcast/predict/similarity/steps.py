# SPDX-License-Identifier: Apache-2.0
"""What `kernel` does when a job is submitted, predicted, started, ended or withdrawn, and a whole log in one call."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...compiled import inlined, inner, kernel
from ...events.event import END, START, SUBMIT, WITHDRAW
from . import memory as at
from .distribution import point_of, quantile_beyond, quantiles, summarize_evidence, weighted_candidates, within_limit
from .exact import logarithm_from_one
from .learning import learn
from .memory import Memory, Options, add_to_window

ABSURD = 1e15  # seconds or processors; larger values count as unknown


@inlined
def log_or_unknown(value: float) -> float:
    """Return the log of a limit or a number of processors; NaN if it is unknown or implausible."""
    return math.log(value) if 0.0 < value < ABSURD else math.nan


@kernel
def write_request(m: Memory, slot: int, numbers: np.ndarray, codes: np.ndarray) -> None:
    """Write a job's request to a slot: numbers (submit time, limit, processors) and codes (user, classes, fields).

    Fields that are unknown for all earlier jobs are ignored, because every candidate would differ in them.
    """
    job, user = m.unfinished[slot], codes[0]
    job.submit, job.limit = numbers[0], numbers[1]
    job.log_limit, job.log_procs = log_or_unknown(numbers[1]), log_or_unknown(numbers[2])
    job.user, job.rank, job.start = user, m.ends[user], math.nan
    job.next = job.previous = at.NOBODY
    job.count = job.sorted = job.fields = at.NOT_CHOSEN
    for kind in range(at.CLASSES):
        m.classes[slot, kind] = codes[1 + kind]
        m.heads[slot, kind] = m.head[kind, codes[1 + kind]]
    for f in range(len(m.weight_index)):
        m.codes[slot, f] = 0
    for f in range(len(m.weight_index)):
        if m.weight_index[f] >= 0:
            m.codes[slot, m.weight_index[f]] = codes[1 + at.CLASSES + f]


@kernel
def job_submitted(m: Memory, slot: int, numbers: np.ndarray, codes: np.ndarray) -> None:
    """Record a submitted job, and start comparing fields that no earlier job had."""
    write_request(m, slot, numbers, codes)
    add_new_fields(m, slot, codes)


@inner
def add_new_fields(m: Memory, slot: int, codes: np.ndarray) -> None:
    """Add the fields that no earlier job had to the compared fields."""
    for f in range(len(m.weight_index)):
        if m.weight_index[f] < 0 and codes[1 + at.CLASSES + f] != 0:
            m.weight_index[f] = m.numbers[at.KNOWN_FIELDS]
            m.theta[0, at.OWN + m.weight_index[f]] = at.FIELD_START[f]
            m.numbers[at.KNOWN_FIELDS] += 1
            m.codes[slot, m.weight_index[f]] = codes[1 + at.CLASSES + f]


@kernel
def predict_job(m: Memory, o: Options, slot: int, itself: int, now: float, levels: np.ndarray, out: np.ndarray) -> int:
    """Write a prediction into `out`: the point, quantiles at `levels` (ascending), and five numbers about its evidence.

    Returns the number of finished jobs on which the prediction is based. The evidence is the total weight of the user's
    own candidates, of the user's candidates with this limit, with these processors, and with both; and the effective
    number of candidates, 1 / (sum of squared weights). `itself` is the index (slot) of a job that is predicted while it
    runs, else at.NOBODY.
    """
    n = weighted_candidates(m, o, slot, itself, now)
    if n == 0:
        return 0
    limit = m.unfinished[slot].limit
    out[0] = point_of(m, o, n, limit)
    quantiles(m, n, levels, out[1:])
    for k in range(len(levels)):
        out[1 + k] = within_limit(out[1 + k], limit)
    summarize_evidence(m, n, out[1 + len(levels) :])
    return n


@inner
def predict_point(m: Memory, o: Options, slot: int, now: float, otherwise: float) -> float:
    """Return the point prediction for a job at its submission; `otherwise` if there is no candidate."""
    n = weighted_candidates(m, o, slot, at.NOBODY, now)
    return point_of(m, o, n, m.unfinished[slot].limit) if n > 0 else otherwise


@inner
def predict_tail(m: Memory, slot: int, levels: Sequence[float], out: np.ndarray) -> None:
    """Write quantiles at ascending levels for the job predicted last; without a candidate, `out` is unchanged."""
    n = m.unfinished[slot].sorted
    if n > 0:
        quantiles(m, n, levels, out)
        for k in range(len(levels)):
            out[k] = within_limit(out[k], m.unfinished[slot].limit)


@kernel
def predict_again(m: Memory, o: Options, slot: int, itself: int, now: float, elapsed: float) -> float:
    """Return the median run time of candidates longer than `elapsed`, the seconds that a job has run; at most the
    limit.

    If no candidate is longer, return the limit, or twice `elapsed` if the limit is unknown or passed.
    """
    n, limit = weighted_candidates(m, o, slot, itself, now), m.unfinished[slot].limit
    median = quantile_beyond(m, n, elapsed, 0.5) if n > 0 else math.nan
    if median == median and not median > limit:
        return median
    return limit if elapsed < limit < math.inf else 2.0 * max(elapsed, 1.0)


@kernel
def job_started(m: Memory, slot: int, now: float) -> None:
    """Add a started job at the front of its user's list of running jobs."""
    job = m.unfinished[slot]
    job.start, job.previous, job.next = now, at.NOBODY, m.running[job.user]
    if job.next >= 0:
        m.unfinished[job.next].previous = slot
    m.running[job.user] = slot


@kernel
def job_stopped(m: Memory, slot: int) -> None:
    """Remove a job that no longer runs from its user's list of running jobs."""
    job = m.unfinished[slot]
    if job.start != job.start:
        return
    if job.previous >= 0:
        m.unfinished[job.previous].next = job.next
    else:
        m.running[job.user] = job.next
    if job.next >= 0:
        m.unfinished[job.next].previous = job.previous
    job.start = math.nan
    job.next = job.previous = at.NOBODY


@kernel
def job_ended(m: Memory, o: Options, slot: int, now: float, run: float, teach: bool) -> float:
    """Record an ended job: learn from it (if `teach`), then store it as a candidate; return the CRPS of the job's
    prediction."""
    run = max(run, 1.0)
    crps = learn(m, o, slot, run) if teach and o.step > 0.0 else math.nan
    job_stopped(m, slot)
    job, number = m.unfinished[slot], m.numbers[at.TOTAL]
    place = number % len(m.finished)
    kept = m.finished[place]
    kept.submit, kept.end, kept.run, kept.log_run = job.submit, now, run, math.log(run)
    kept.log_limit, kept.log_procs, kept.user, kept.stamp = job.log_limit, job.log_procs, job.user, 0
    m.ends[job.user] += 1
    kept.rank = m.ends[job.user]
    for f in range(len(m.weight_index)):
        m.finished_codes[place, f] = m.codes[slot, f]
    for kind in range(at.CLASSES):
        m.before[place, kind] = m.head[kind, m.classes[slot, kind]]
        m.head[kind, m.classes[slot, kind]] = number
    add_to_window(m, slot, number, np.uint64(place))
    if number < at.WINDOW:
        m.log_rank[number] = logarithm_from_one(1.0 + number)
    m.numbers[at.TOTAL] += 1
    return crps


@kernel
def follow_log(
    m: Memory,
    o: Options,
    events: tuple[np.ndarray, np.ndarray, np.ndarray],
    jobs: tuple[np.ndarray, np.ndarray],
    run: np.ndarray,
    levels: np.ndarray,
    free: np.ndarray,
    slot_of: np.ndarray,
    out: np.ndarray,
) -> None:
    """Process every event of a log (time, kind, row); write each job's prediction to its row of `out`.

    `jobs` contains numbers and codes for `write_request`, `free` is a stack of free slots, and `slot_of` gives the slot
    of each row.
    """
    time, kind, rows = events
    numbers, codes = jobs
    left = len(free)
    for e in range(len(time)):
        row, what = rows[e], kind[e]
        if what == SUBMIT:
            left -= 1
            slot = slot_of[row] = free[left]
            write_request(m, slot, numbers[row], codes[row])
            if predict_job(m, o, slot, at.NOBODY, time[e], levels, out[row]) == 0:
                out[row, 0] = math.nan
            add_new_fields(m, slot, codes[row])
        elif what == START:
            job_started(m, slot_of[row], time[e])
        elif what in (END, WITHDRAW):
            slot = slot_of[row]
            if what == END:
                job_ended(m, o, slot, time[e], run[row], True)
            else:
                job_stopped(m, slot)
            free[left] = slot
            left += 1
