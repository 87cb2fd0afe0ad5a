# SPDX-License-Identifier: Apache-2.0
"""Builds the weighted distribution of a job's candidates, and updates `kernel`'s memory when a job is submitted,
predicted, started, ended or withdrawn.

Candidates are sorted, running jobs are added as censored evidence, and quantiles are computed. The module also performs
the learning step, and processes a whole log in one call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...compiled import inlined, inner, kernel
from ...events.event import END, START, SUBMIT, WITHDRAW
from .candidates import (
    AT_HAND,
    BETWEEN,
    BINS,
    CLASSES,
    FIELD_START,
    GEOMETRIC,
    GRADIENT,
    KNOWN_FIELDS,
    LIMIT_DIFFERS,
    LOG_SECONDS,
    MEDIAN,
    MOST_RUNNING,
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
    gather,
    into_window,
    largest,
    least,
    likeness,
    logarithm_from_one,
    weigh,
)

LOW = 0.4  # the point lies between the quantiles LOW and 1 - LOW
REACHED, MASS, CUT, PART, TIMES = range(5)  # rows of `Memory.heard`: one column per running job, then per part


@inner
def sort(m: Memory, slot: int, n: int) -> None:
    """Sort the n candidates by log run time; reuse the job's earlier sorting if no candidate was dropped."""
    order, kept = m.order[0], m.sorted[slot]
    if m.unfinished[slot].sorted == n:
        for a in range(n):
            order[a] = kept[a]
        return
    into_bins(m, n)
    insert_in_row(m.candidate[GRADIENT], order, n)
    for a in range(n):
        kept[a] = order[a]
    m.unfinished[slot].sorted = n


@inlined
def into_bins(m: Memory, n: int) -> None:
    """Presort candidates by run time into bins between the smallest and the largest value; there are about as many bins
    as candidates.
    """
    value, order, bin_of, bins = m.length[m.numbers[AT_HAND], LOG_SECONDS], m.order[0], m.order[1], m.bins
    in_order = m.candidate[GRADIENT]
    low, high, number = least(value, n), largest(value, n), 64
    while number < n and number < BINS:
        number *= 2
    scale = (number - 1) / (high - low) if high > low else 0.0
    bins[:number] = 0
    for j in range(n):
        into = np.uint64(int((value[j] - low) * scale))  # unsigned: numba adds no check for negative indices
        bin_of[j] = into
        bins[into] += 1
    before = 0
    for b in range(number):
        here = bins[b]
        bins[b] = before
        before += here
    for j in range(n):
        b = bin_of[j]
        place = bins[b]
        order[place], in_order[place] = j, value[j]
        bins[b] = place + 1


@inlined
def insert_in_row(value: np.ndarray, order: np.ndarray, n: int) -> None:
    """Sort values with their indices by a stable insertion sort."""
    for a in range(1, n):
        v, b = value[a], a - 1
        if value[b] > v:
            j = order[a]
            while b >= 0 and value[b] > v:
                value[b + 1], order[b + 1] = value[b], order[b]
                b -= 1
            value[b + 1], order[b + 1] = v, j


@inner
def censor(m: Memory, o: Options, slot: int, itself: int, now: float, n: int, log_sum: float) -> None:
    """Move weight from candidates that the user's running jobs have outlived to longer candidates.

    As in Efron 1967, the weight of a censored observation moves to values beyond the censoring time, in proportion to
    the weights of these values. A running job has the weight `o.running` times its similarity, while the weights of all
    candidates sum to 1. Running jobs are processed in order from newest to oldest.
    """
    other, heard, seen = m.running[m.unfinished[slot].user], 0, 0
    while other >= 0 and seen < min(o.most_running, MOST_RUNNING):
        elapsed = now - m.unfinished[other].start
        if elapsed > 0.0 and other != itself:
            mass = o.running * math.exp(min(-likeness(m, slot, other) - log_sum, 50.0))
            hear(m, heard, math.log(max(elapsed, 1.0)), mass)
            heard += 1
        other = m.unfinished[other].next
        seen += 1
    if heard > 0:
        redistribute(m, n, heard)


@inlined
def hear(m: Memory, heard: int, reached: float, mass: float) -> None:
    """Record a running job's log seconds so far and weight in column `heard` of the evidence of running jobs."""
    cut, b = m.heard[CUT], heard
    m.heard[REACHED, heard], m.heard[MASS, heard] = reached, mass
    while b > 0 and cut[b - 1] > reached:
        cut[b] = cut[b - 1]
        b -= 1
    cut[b] = reached


@inlined
def redistribute(m: Memory, n: int, heard: int) -> None:
    """Move weight beyond the time that each running job has reached, one job after the other.

    All candidates between the times of two running jobs change by the same factor, so one factor per interval is
    computed.
    """
    w, order, begins = m.candidate[WEIGHT], m.order[0], m.order[1]
    reached, mass, cut, part, times = m.heard[REACHED], m.heard[MASS], m.heard[CUT], m.heard[PART], m.heard[TIMES]
    begins[0], begins[heard + 1] = 0, n
    for s in range(heard):
        begins[s + 1] = first_above(m.length[m.numbers[AT_HAND], LOG_SECONDS], order, n, cut[s])
    for s in range(heard + 1):
        part[s], times[s] = added_in_order(w, order, begins[s], begins[s + 1]), 1.0
    for k in range(heard):
        below, last = 0.0, 0
        while last < heard and cut[last] <= reached[k]:
            below += part[last]
            last += 1
        above = 1.0 - below
        if below > 0.0 and above > 1e-9:
            moved = below * mass[k] / (1.0 + mass[k])
            less, more = 1.0 - moved / below, 1.0 + moved / above
            for s in range(heard + 1):
                factor = less if s < last else more
                part[s] *= factor
                times[s] *= factor
    for s in range(heard + 1):
        factor = times[s]
        for a in range(begins[s], begins[s + 1]):
            w[order[a]] *= factor


@inlined
def first_above(value: np.ndarray, order: np.ndarray, n: int, cut: float) -> int:
    """Return the index of the first candidate, in the sorted order, whose value is above `cut`."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if value[order[middle]] > cut:
            high = middle
        else:
            low = middle + 1
    return low


@inlined
def added_in_order(w: np.ndarray, order: np.ndarray, begin: int, end: int) -> float:
    """Sum the candidates' weights between two indices in the sorted order, in four independent partial sums."""
    whole = end - (end - begin) % 4
    s0 = s1 = s2 = s3 = 0.0
    for a in range(begin, whole, 4):
        s0 += w[order[a]]
        s1 += w[order[a + 1]]
        s2 += w[order[a + 2]]
        s3 += w[order[a + 3]]
    for a in range(whole, end):
        s0 += w[order[a]]
    return (s0 + s1) + (s2 + s3)


@inlined
def quantiles(m: Memory, n: int, levels: np.ndarray | Sequence[float], out: np.ndarray) -> None:
    """Compute weighted quantiles of the n candidates at ascending levels in one pass."""
    w, order, seconds = m.candidate[WEIGHT], m.order[0], m.length[m.numbers[AT_HAND], SECONDS]
    below, a = w[order[0]], 0
    for k in range(len(levels)):
        level = levels[k] - 1e-12
        while a < n - 1 and below < level:
            a += 1
            below += w[order[a]]
        out[k] = seconds[order[a]]


@inlined
def quantile(m: Memory, n: int, level: float) -> float:
    """Return the smallest candidate with at least `level` of the weight at or below it."""
    below, last = 0.0, n - 1
    for a in range(n):
        below += m.candidate[WEIGHT, m.order[0, a]]
        if below >= level - 1e-12:
            last = a
            break
    seconds: float = m.length[m.numbers[AT_HAND], SECONDS, m.order[0, last]]
    return seconds


@inlined
def within(seconds: float, limit: float) -> float:
    """Limit a value to at most the time limit, if known, and at least one second."""
    return max(min(seconds, limit), 1.0) if limit == limit else max(seconds, 1.0)


@inlined
def middle(m: Memory, o: Options, n: int, limit: float) -> float:
    """Return the point of the distribution that the option `point` (`POINTS`) selects, at most the time limit."""
    if o.point == MEDIAN:
        return within(quantile(m, n, 0.5), limit)
    if o.point == GEOMETRIC:
        return within(geometric_mean(m, n), limit)
    return most_accurate(m, n, limit, LOW if o.point == BETWEEN else 0.0)


@inlined
def geometric_mean(m: Memory, n: int) -> float:
    """Return the geometric mean of the n candidates, each counted as at least one second."""
    seconds, w = m.length[m.numbers[AT_HAND], SECONDS], m.candidate[WEIGHT]
    total, weight = 0.0, 0.0
    for j in range(n):
        total += w[j] * math.log(max(seconds[j], 1.0))
        weight += w[j]
    return math.exp(total / weight)


@inlined
def most_accurate(m: Memory, n: int, limit: float, low: float) -> float:
    """Return the candidate p between the quantiles `low` and 1 - `low` with the largest sum_j w_j min(p, y_j) / max(p,
    y_j).

    The sum equals rising / p + p falling, where rising is the sum of w y up to p and falling the sum of w / y beyond p.
    Between two candidates, the sum is convex in p, so its maximum is at a candidate. Candidates above the limit count
    as the limit. Of two equally good candidates, the shorter is returned.
    """
    seconds, w, order = m.length[m.numbers[AT_HAND], SECONDS], m.candidate[WEIGHT], m.order[0]
    first, below, rising, falling = 0, w[order[0]], 0.0, 0.0
    while first < n - 1 and below < low - 1e-12:
        rising += w[order[first]] * within(seconds[order[first]], limit)
        first += 1
        below += w[order[first]]
    last = first
    while last < n - 1 and below < 1.0 - low - 1e-12:
        last += 1
        below += w[order[last]]
    for a in range(first, n):
        falling += w[order[a]] / within(seconds[order[a]], limit)
    best, point = -1.0, 0.0
    for a in range(first, last + 1):
        p = within(seconds[order[a]], limit)
        rising += w[order[a]] * p
        falling -= w[order[a]] / p
        expected = rising / p + falling * p
        if expected > best + 1e-12:
            best, point = expected, p
    return point


@inner
def quantile_left(m: Memory, n: int, elapsed: float, level: float) -> float:
    """Return the quantile at a level among the candidates longer than `elapsed`; NaN if no candidate is longer."""
    seconds, w = m.length[m.numbers[AT_HAND], SECONDS], m.candidate[WEIGHT]
    left = 0.0
    for j in range(n):
        if seconds[j] > elapsed:
            left += w[j]
    if left <= 0.0:
        return math.nan
    below = 0.0
    last: float = math.nan
    for a in range(n):
        j = m.order[0, a]
        if seconds[j] > elapsed:
            below += w[j]
            last = seconds[j]
            if below >= (level - 1e-12) * left:
                return last
    return last


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
    levels: np.ndarray,
    free: np.ndarray,
    slot_of: np.ndarray,
    out: np.ndarray,
) -> None:
    """Process every event of a log (time, kind, row); write each job's prediction to its row of `out`.

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
            if answer(m, o, slot, NOBODY, time[e], levels, out[row]) == 0:
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
