# SPDX-License-Identifier: Apache-2.0
"""Updates `kernel`'s memory when a job is submitted, predicted, started, ended or withdrawn.

The module also performs the learning step, and processes a whole log in one call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...compiled import inlined, inner, kernel
from ...events.event import END, START, SUBMIT, WITHDRAW
from .candidates import into_window
from .compare import gather, logarithm_from_one, weigh
from .distribution import censor, middle, quantile_left, quantiles, sort, within
from .memory import (
    AT_HAND,
    CLASSES,
    FIELD_START,
    GRADIENT,
    KNOWN_FIELDS,
    LIMIT_DIFFERS,
    LOG_SECONDS,
    NOBODY,
    NOT_LISTED,
    OTHER_USER,
    OWN,
    PLAIN,
    PROCS_DIFFER,
    SCALED,
    SECONDS,
    TOTAL,
    WEIGHT,
    WINDOW,
    Memory,
    Options,
)

FARTHEST = 10.0  # largest run time in the score, in time limits, so that outliers do not dominate
ROUNDING = 1e-12  # added to squared slopes; without it, AdaGrad would turn rounding errors into full steps
NO_LIMIT = 1e5  # seconds used as the time limit if none is known


@inlined
def scored(m: Memory, o: Options, n: int, limit: float, run: float) -> float:
    """Write the candidates' run times on the score's scale (shares of the limit or log seconds); return `run` on this
    scale.
    """
    room, t = m.numbers[AT_HAND], m.candidate[GRADIENT]
    seconds, log_seconds = m.length[room, SECONDS], m.length[room, LOG_SECONDS]
    if not o.relative:
        for j in range(n):
            t[j] = log_seconds[j]
        return math.log(run)
    scale = max(limit, 60.0) if limit == limit else NO_LIMIT
    for j in range(n):
        t[j] = min(seconds[j] / scale, FARTHEST)
    return min(run / scale, FARTHEST)


@inner
def learn(m: Memory, o: Options, slot: int, run: float) -> float:
    """Take one gradient step for the similarity weights theta and the user's offset; return the CRPS (NaN with fewer
    than two candidates).

    For weights w on sorted values t, CRPS = sum_j w_j |t_j - y| - 1/2 sum_jk w_j w_k |t_j - t_k| (Gneiting & Raftery
    2007, eq. 21). The derivative of the CRPS in w_j is g_j = |t_j - y| - sum_k w_k |t_j - t_k|, and in theta -sum_j w_j
    (g_j - mean g) d_j. After sorting, the cost is linear in the number of candidates.
    """
    n = gather(m, o, slot)
    if n < 2:
        return math.nan
    weigh(m, m.unfinished[slot].user, n)
    sort(m, slot, n)
    crps = slopes(m, o, n, run, m.unfinished[slot].limit)
    step(m, o, m.unfinished[slot].user, n)
    return crps


@inlined
def slopes(m: Memory, o: Options, n: int, run: float, limit: float) -> float:
    """Write the derivative of the CRPS with respect to each weight; return the CRPS."""
    w, g, order = m.candidate[WEIGHT], m.candidate[GRADIENT], m.order[0]
    y = scored(m, o, n, limit, run)
    mean = dot(w, g, n)
    crps, below, moment = 0.0, 0.0, 0.0
    for a in range(n):
        j = order[a]
        t = g[j]
        spread = t * below - moment + (mean - moment) - t * (1.0 - below)
        below += w[j]
        moment += w[j] * t
        g[j] = abs(t - y) - spread
        crps += w[j] * (abs(t - y) - 0.5 * spread)
    return crps


@inlined
def step(m: Memory, o: Options, user: int, n: int) -> None:
    """Take an AdaGrad step (Duchi, Hazan & Singer 2011) for the similarity weights theta and the user's offset; the
    offset also decays a little.
    """
    w, g, slope = m.candidate[WEIGHT], m.candidate[GRADIENT], m.sums[1]
    terms, mean = OWN + m.numbers[KNOWN_FIELDS], dot(w, g, n)
    for j in range(n):
        g[j] = w[j] * (g[j] - mean)
    plain, scaled = m.numbers[PLAIN], 0.0
    rows, again = m.difference[m.numbers[AT_HAND]], m.again[m.numbers[AT_HAND]]
    for k in range(plain, n):
        scaled += g[k]
        g[again[k - plain]] += g[k]
    for t in range(terms):
        slope[t] = -dot(g, rows[t], plain) if t != SCALED else -scaled
    now, squares = m.theta[0], m.theta[1]
    for t in range(terms):
        squares[t] += slope[t] * slope[t]
        now[t] -= o.step * slope[t] / math.sqrt(squares[t] + ROUNDING)
    if o.own_step > 0.0:
        now, squares = m.offset[user, 0], m.offset[user, 1]
        for t in range(terms):
            squares[t] += slope[t] * slope[t]
            now[t] = o.keep * now[t] - o.own_step * slope[t] / math.sqrt(squares[t] + ROUNDING)


@inlined
def dot(a: np.ndarray, b: np.ndarray, n: int) -> float:
    """Sum a[j] * b[j] for j < n, in eight independent partial sums."""
    whole = n - n % 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for j in range(0, whole, 8):
        s0 += a[j] * b[j]
        s1 += a[j + 1] * b[j + 1]
        s2 += a[j + 2] * b[j + 2]
        s3 += a[j + 3] * b[j + 3]
        s4 += a[j + 4] * b[j + 4]
        s5 += a[j + 5] * b[j + 5]
        s6 += a[j + 6] * b[j + 6]
        s7 += a[j + 7] * b[j + 7]
    for j in range(whole, n):
        s0 += a[j] * b[j]
    return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))


ABSURD = 1e15  # seconds or processors; larger values count as unknown


@inlined
def logarithm(value: float) -> float:
    """Return the log of a limit or a number of processors; NaN if it is unknown or implausible."""
    return math.log(value) if 0.0 < value < ABSURD else math.nan


@kernel
def note(m: Memory, slot: int, numbers: np.ndarray, codes: np.ndarray) -> None:
    """Write a job's request to a slot: numbers (submit time, limit, processors) and codes (user, classes, fields).

    Fields that are unknown for all earlier jobs are ignored, because every candidate would differ in them.
    """
    job, user = m.unfinished[slot], codes[0]
    job.asked, job.limit = numbers[0], numbers[1]
    job.log_limit, job.log_procs = logarithm(numbers[1]), logarithm(numbers[2])
    job.user, job.rank, job.start = user, m.ends[user], math.nan
    job.next = job.previous = NOBODY
    job.count = job.sorted = job.fields = NOT_LISTED
    for kind in range(CLASSES):
        m.classes[slot, kind] = codes[1 + kind]
        m.heads[slot, kind] = m.head[kind, codes[1 + kind]]
    for f in range(len(m.place)):
        m.codes[slot, f] = 0
    for f in range(len(m.place)):
        if m.place[f] >= 0:
            m.codes[slot, m.place[f]] = codes[1 + CLASSES + f]


@kernel
def submitted(m: Memory, slot: int, numbers: np.ndarray, codes: np.ndarray) -> None:
    """Record a submitted job, and start comparing fields that no earlier job had."""
    note(m, slot, numbers, codes)
    met(m, slot, codes)


@inner
def met(m: Memory, slot: int, codes: np.ndarray) -> None:
    """Add the fields that no earlier job had to the compared fields."""
    for f in range(len(m.place)):
        if m.place[f] < 0 and codes[1 + CLASSES + f] != 0:
            m.place[f] = m.numbers[KNOWN_FIELDS]
            m.theta[0, OWN + m.place[f]] = FIELD_START[f]
            m.numbers[KNOWN_FIELDS] += 1
            m.codes[slot, m.place[f]] = codes[1 + CLASSES + f]


@kernel
def answer(m: Memory, o: Options, slot: int, itself: int, now: float, levels: np.ndarray, out: np.ndarray) -> int:
    """Write a prediction into `out`: the point, quantiles at `levels` (ascending), and five numbers about its evidence.

    Returns the number of finished jobs on which the prediction is based. The evidence is the total weight of the user's
    own candidates, of the user's candidates with this limit, with these processors, and with both; and the effective
    number of candidates, 1 / (sum of squared weights). `itself` is the index (slot) of a job that is predicted while it
    runs, else NOBODY.
    """
    n = weighted(m, o, slot, itself, now)
    if n == 0:
        return 0
    limit = m.unfinished[slot].limit
    out[0] = middle(m, o, n, limit)
    quantiles(m, n, levels, out[1:])
    for k in range(len(levels)):
        out[1 + k] = within(out[1 + k], limit)
    rests_on(m, n, out[1 + len(levels) :])
    return n


@inner
def weighted(m: Memory, o: Options, slot: int, itself: int, now: float) -> int:
    """Compute the sorted and weighted finished jobs that a job is compared with, including the evidence of running
    jobs; return their number."""
    n = gather(m, o, slot)
    if n > 0:
        log_sum = weigh(m, m.unfinished[slot].user, n)
        sort(m, slot, n)
        if o.running > 0.0:
            censor(m, o, slot, itself, now, n, log_sum)
    return n


@inner
def forecast(m: Memory, o: Options, slot: int, now: float, otherwise: float) -> float:
    """Return the point prediction for a job at its submission; `otherwise` if there is no candidate."""
    n = weighted(m, o, slot, NOBODY, now)
    return middle(m, o, n, m.unfinished[slot].limit) if n > 0 else otherwise


@inner
def tail(m: Memory, slot: int, levels: Sequence[float], out: np.ndarray) -> None:
    """Write quantiles at ascending levels for the job predicted last; without a candidate, `out` is unchanged."""
    n = m.unfinished[slot].sorted
    if n > 0:
        quantiles(m, n, levels, out)
        for k in range(len(levels)):
            out[k] = within(out[k], m.unfinished[slot].limit)


@inlined
def rests_on(m: Memory, n: int, shares: np.ndarray) -> None:
    """Write the total weight of the user's candidates (all, with this limit, of this size, both) and the effective
    number of candidates.
    """
    shares[:] = 0.0
    squares = 0.0
    w, rows = m.candidate[WEIGHT], m.difference[m.numbers[AT_HAND]]
    other_user, limit_differs, procs_differ = rows[OTHER_USER], rows[LIMIT_DIFFERS], rows[PROCS_DIFFER]
    plain, again = m.numbers[PLAIN], m.again[m.numbers[AT_HAND]]
    for k in range(n):
        j = k if k < plain else again[k - plain]
        own = w[k] * (1.0 - other_user[j])
        squares += w[k] * w[k]
        shares[0] += own
        shares[1] += own * (1.0 - limit_differs[j])
        shares[2] += own * (1.0 - procs_differ[j])
        shares[3] += own * (1.0 - limit_differs[j]) * (1.0 - procs_differ[j])
    shares[4] = 1.0 / squares


@kernel
def revised(m: Memory, o: Options, slot: int, itself: int, now: float, elapsed: float) -> float:
    """Return the median run time of candidates longer than `elapsed`, the seconds that a job has run; at most the
    limit.

    If no candidate is longer, return the limit, or twice `elapsed` if the limit is unknown or passed.
    """
    n, limit = weighted(m, o, slot, itself, now), m.unfinished[slot].limit
    median = quantile_left(m, n, elapsed, 0.5) if n > 0 else math.nan
    if median == median and not median > limit:
        return median
    return limit if elapsed < limit < math.inf else 2.0 * max(elapsed, 1.0)


@kernel
def started(m: Memory, slot: int, now: float) -> None:
    """Add a started job at the front of its user's list of running jobs."""
    job = m.unfinished[slot]
    job.start, job.previous, job.next = now, NOBODY, m.running[job.user]
    if job.next >= 0:
        m.unfinished[job.next].previous = slot
    m.running[job.user] = slot


@kernel
def stopped(m: Memory, slot: int) -> None:
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
    job.next = job.previous = NOBODY


@kernel
def ended(m: Memory, o: Options, slot: int, now: float, run: float, teach: bool) -> float:
    """Record an ended job: learn from it (if `teach`), then store it as a candidate; return the CRPS of the job's
    prediction."""
    run = max(run, 1.0)
    crps = learn(m, o, slot, run) if teach and o.step > 0.0 else math.nan
    stopped(m, slot)
    job, number = m.unfinished[slot], m.numbers[TOTAL]
    place = number % len(m.finished)
    kept = m.finished[place]
    kept.submit, kept.end, kept.run, kept.log_run = job.asked, now, run, math.log(run)
    kept.log_limit, kept.log_procs, kept.user, kept.seen = job.log_limit, job.log_procs, job.user, 0
    m.ends[job.user] += 1
    kept.rank = m.ends[job.user]
    for f in range(len(m.place)):
        m.finished_codes[place, f] = m.codes[slot, f]
    for kind in range(CLASSES):
        m.before[place, kind] = m.head[kind, m.classes[slot, kind]]
        m.head[kind, m.classes[slot, kind]] = number
    into_window(m, slot, number, np.uint64(place))
    if number < WINDOW:
        m.log_rank[number] = logarithm_from_one(1.0 + number)
    m.numbers[TOTAL] += 1
    return crps


@kernel
def follow(
    m: Memory,
    o: Options,
    events: tuple[np.ndarray, np.ndarray, np.ndarray],
    jobs: tuple[np.ndarray, np.ndarray],
    run: np.ndarray,
    ask: np.ndarray,
    levels: np.ndarray,
    free: np.ndarray,
    slot_of: np.ndarray,
    out: np.ndarray,
) -> None:
    """Process every event of a log (time, kind, row); write predictions to the rows of `out` that `ask` marks.

    `jobs` contains numbers and codes for `note`, `free` is a stack of free slots, `slot_of` gives the slot of each row.
    """
    time, kind, rows = events
    numbers, codes = jobs
    left = len(free)
    for e in range(len(time)):
        row, what = rows[e], kind[e]
        if what == SUBMIT:
            left -= 1
            slot = slot_of[row] = free[left]
            note(m, slot, numbers[row], codes[row])
            if ask[row] and answer(m, o, slot, NOBODY, time[e], levels, out[row]) == 0:
                out[row, 0] = math.nan
            met(m, slot, codes[row])
        elif what == START:
            started(m, slot_of[row], time[e])
        elif what in (END, WITHDRAW):
            slot = slot_of[row]
            if what == END:
                ended(m, o, slot, time[e], run[row], True)
            else:
                stopped(m, slot)
            free[left] = slot
            left += 1
