# SPDX-License-Identifier: Apache-2.0
"""The weighted run-time distribution of a job's candidates: its order, running jobs as censored evidence, its
quantiles and its point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...compiled import inlined, inner
from . import memory as at
from .candidates import compute_weights, distance_to_running, prepare_candidates
from .exact import largest_of, total_in_order
from .memory import Memory, Options

LOW = 0.4  # the point lies between the quantiles LOW and 1 - LOW


@inner
def weighted_candidates(m: Memory, o: Options, slot: int, itself: int, now: float) -> int:
    """Compute the sorted and weighted finished jobs that a job is compared with, including the evidence of running
    jobs; return their number."""
    n = prepare_candidates(m, o, slot)
    if n > 0:
        log_sum = compute_weights(m, m.unfinished[slot].user, n)
        sort_by_run_time(m, slot, n)
        if o.running > 0.0:
            censor_by_running_jobs(m, o, slot, itself, now, n, log_sum)
    return n


@inner
def sort_by_run_time(m: Memory, slot: int, n: int) -> None:
    """Sort the n candidates by log run time; reuse the job's earlier sorting if no candidate was dropped."""
    order, kept = m.order[0], m.sorted[slot]
    if m.unfinished[slot].sorted == n:
        for a in range(n):
            order[a] = kept[a]
        return
    presort(m, n)
    insertion_sort(m.per_candidate[at.GRADIENT], order, n)
    for a in range(n):
        kept[a] = order[a]
    m.unfinished[slot].sorted = n


@inlined
def presort(m: Memory, n: int) -> None:
    """Presort candidates by run time into bins between the smallest and the largest value; there are about as many bins
    as candidates.
    """
    value, order, bin_of, bins = m.run_times[m.numbers[at.ROOM], at.LOG_SECONDS], m.order[0], m.order[1], m.bins
    in_order = m.per_candidate[at.GRADIENT]
    low, high, number = -largest_of(value, n, -1.0), largest_of(value, n), 64
    while number < n and number < at.BINS:
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
def insertion_sort(value: np.ndarray, order: np.ndarray, n: int) -> None:
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
def censor_by_running_jobs(m: Memory, o: Options, slot: int, itself: int, now: float, n: int, log_sum: float) -> None:
    """Move weight from candidates that the user's running jobs have outlived to longer candidates.

    As in Efron 1967, the weight of a censored observation moves to values beyond the censoring time, in proportion to
    the weights of these values. A running job has the weight `o.running` times its similarity, while the weights of all
    candidates sum to 1. Running jobs are processed in order from newest to oldest.
    """
    other, count, seen = m.running[m.unfinished[slot].user], 0, 0
    while other >= 0 and seen < min(o.most_running, at.MOST_RUNNING):
        elapsed = now - m.unfinished[other].start
        if elapsed > 0.0 and other != itself:
            mass = o.running * math.exp(min(-distance_to_running(m, slot, other) - log_sum, 50.0))
            record_censored(m, count, math.log(max(elapsed, 1.0)), mass)
            count += 1
        other = m.unfinished[other].next
        seen += 1
    if count > 0:
        move_weight(m, n, count)


@inlined
def record_censored(m: Memory, column: int, reached: float, mass: float) -> None:
    """Record a running job's log seconds so far and weight in column `column` of the evidence of running jobs."""
    cut, b = m.censored[at.CUT], column
    m.censored[at.REACHED, column], m.censored[at.MASS, column] = reached, mass
    while b > 0 and cut[b - 1] > reached:
        cut[b] = cut[b - 1]
        b -= 1
    cut[b] = reached


@inlined
def move_weight(m: Memory, n: int, count: int) -> None:
    """Move weight beyond the time that each running job has reached, one job after the other.

    All candidates between the times of two running jobs change by the same factor, so one factor per interval is
    computed.
    """
    w, order, begins = m.per_candidate[at.WEIGHT], m.order[0], m.order[1]
    reached, mass, cut, part, times = (
        m.censored[at.REACHED],
        m.censored[at.MASS],
        m.censored[at.CUT],
        m.censored[at.PART],
        m.censored[at.TIMES],
    )
    begins[0], begins[count + 1] = 0, n
    for s in range(count):
        begins[s + 1] = first_above(m.run_times[m.numbers[at.ROOM], at.LOG_SECONDS], order, n, cut[s])
    for s in range(count + 1):
        part[s], times[s] = total_in_order(w, order, begins[s], begins[s + 1]), 1.0
    for k in range(count):
        below, last = 0.0, 0
        while last < count and cut[last] <= reached[k]:
            below += part[last]
            last += 1
        above = 1.0 - below
        if below > 0.0 and above > 1e-9:
            moved = below * mass[k] / (1.0 + mass[k])
            less, more = 1.0 - moved / below, 1.0 + moved / above
            for s in range(count + 1):
                factor = less if s < last else more
                part[s] *= factor
                times[s] *= factor
    for s in range(count + 1):
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
def quantiles(m: Memory, n: int, levels: np.ndarray | Sequence[float], out: np.ndarray) -> None:
    """Compute weighted quantiles of the n candidates at ascending levels in one pass."""
    w, order, seconds = m.per_candidate[at.WEIGHT], m.order[0], m.run_times[m.numbers[at.ROOM], at.SECONDS]
    below, a = w[order[0]], 0
    for k in range(len(levels)):
        level = levels[k] - 1e-12
        while a < n - 1 and below < level:
            a += 1
            below += w[order[a]]
        out[k] = seconds[order[a]]


@inlined
def within_limit(seconds: float, limit: float) -> float:
    """Limit a value to at most the time limit, if known, and at least one second."""
    return max(min(seconds, limit), 1.0) if limit == limit else max(seconds, 1.0)


@inlined
def point_of(m: Memory, o: Options, n: int, limit: float) -> float:
    """Return the point of the distribution that the option `point` (`POINTS`) selects, at most the time limit."""
    if o.point == at.MEDIAN:
        quantiles(m, n, (0.5,), m.sums[1])
        return within_limit(m.sums[1, 0], limit)
    if o.point == at.GEOMETRIC:
        return within_limit(geometric_mean(m, n), limit)
    return most_accurate(m, n, limit, LOW if o.point == at.BETWEEN else 0.0)


@inlined
def geometric_mean(m: Memory, n: int) -> float:
    """Return the geometric mean of the n candidates, each counted as at least one second."""
    seconds, w = m.run_times[m.numbers[at.ROOM], at.SECONDS], m.per_candidate[at.WEIGHT]
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
    seconds, w, order = m.run_times[m.numbers[at.ROOM], at.SECONDS], m.per_candidate[at.WEIGHT], m.order[0]
    first, below, rising, falling = 0, w[order[0]], 0.0, 0.0
    while first < n - 1 and below < low - 1e-12:
        rising += w[order[first]] * within_limit(seconds[order[first]], limit)
        first += 1
        below += w[order[first]]
    last = first
    while last < n - 1 and below < 1.0 - low - 1e-12:
        last += 1
        below += w[order[last]]
    for a in range(first, n):
        falling += w[order[a]] / within_limit(seconds[order[a]], limit)
    best, point = -1.0, 0.0
    for a in range(first, last + 1):
        p = within_limit(seconds[order[a]], limit)
        rising += w[order[a]] * p
        falling -= w[order[a]] / p
        expected = rising / p + falling * p
        if expected > best + 1e-12:
            best, point = expected, p
    return point


@inner
def quantile_beyond(m: Memory, n: int, elapsed: float, level: float) -> float:
    """Return the quantile at a level among the candidates longer than `elapsed`; NaN if no candidate is longer."""
    seconds, w = m.run_times[m.numbers[at.ROOM], at.SECONDS], m.per_candidate[at.WEIGHT]
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


@inlined
def summarize_evidence(m: Memory, n: int, shares: np.ndarray) -> None:
    """Write the total weight of the user's candidates (all, with this limit, of this size, both) and the effective
    number of candidates.
    """
    shares[:] = 0.0
    squares = 0.0
    w, rows = m.per_candidate[at.WEIGHT], m.differences[m.numbers[at.ROOM]]
    other_user, limit_differs, procs_differ = rows[at.OTHER_USER], rows[at.LIMIT_DIFFERS], rows[at.PROCS_DIFFER]
    unscaled, original = m.numbers[at.UNSCALED], m.original[m.numbers[at.ROOM]]
    for k in range(n):
        j = k if k < unscaled else original[k - unscaled]
        own = w[k] * (1.0 - other_user[j])
        squares += w[k] * w[k]
        shares[0] += own
        shares[1] += own * (1.0 - limit_differs[j])
        shares[2] += own * (1.0 - procs_differ[j])
        shares[3] += own * (1.0 - limit_differs[j]) * (1.0 - procs_differ[j])
    shares[4] = 1.0 / squares
