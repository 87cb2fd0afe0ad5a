"""The weighted distribution: candidates in order, running jobs as censored evidence, quantiles."""

from __future__ import annotations

import math

import numpy as np

from ...compiled import inlined, inner
from .compare import likeness
from .memory import BINS, Memory, Options


@inner
def sort(m: Memory, slot: int, n: int) -> None:
    """The n candidates in ascending order of log seconds; as they were sorted for this job before, if none is gone."""
    order, kept = m.order[0], m.sorted[slot]
    if m.unfinished[slot].sorted == n:
        for a in range(n):
            order[a] = kept[a]
        return
    into_bins(m, n)
    insert(m.candidate[1], order, n)
    for a in range(n):
        kept[a] = order[a]
    m.unfinished[slot].sorted = n


@inlined
def into_bins(m: Memory, n: int) -> None:
    """Counted into bins between the least and the largest."""
    value, order, bin_of, bins = m.candidate[1], m.order[0], m.order[1], m.bins
    least, most = math.inf, -math.inf
    for j in range(n):
        least, most = min(least, value[j]), max(most, value[j])
    scale = (BINS - 1) / (most - least) if most > least else 0.0
    bins[:] = 0
    for j in range(n):
        b = int((value[j] - least) * scale)
        bin_of[j] = b
        bins[b] += 1
    before = 0
    for b in range(BINS):
        here = bins[b]
        bins[b] = before
        before += here
    for j in range(n):
        order[bins[bin_of[j]]] = j
        bins[bin_of[j]] += 1


@inlined
def insert(value: np.ndarray, order: np.ndarray, n: int) -> None:
    """Insertion sort of what is nearly sorted."""
    for a in range(1, n):
        j = order[a]
        b = a - 1
        while b >= 0 and value[order[b]] > value[j]:
            order[b + 1] = order[b]
            b -= 1
        order[b + 1] = j


@inner
def censor(m: Memory, o: Options, slot: int, itself: int, now: float, n: int, log_sum: float) -> None:
    """Let the user's running jobs move weight from the candidates they have outlived to longer ones.

    Efron 1967: a censored observation's mass goes to the right of where it was censored, in proportion to what stands
    there. A running job's mass is `o.running` times its likeness, against all candidates' sum of one. Newest first.
    """
    other, seen = m.running[m.unfinished[slot].user], 0
    while other >= 0 and seen < o.most_running:
        elapsed = now - m.unfinished[other].start
        if elapsed > 0.0 and other != itself:
            mass = o.running * math.exp(min(-likeness(m, slot, other) - log_sum, 50.0))
            outlived(m, n, math.log(max(elapsed, 1.0)), mass)
        other = m.unfinished[other].next
        seen += 1


@inlined
def outlived(m: Memory, n: int, reached: float, mass: float) -> None:
    """Move weight from the candidates up to `reached` log seconds to the longer ones, for an observation of `mass`."""
    value, w = m.candidate[1], m.candidate[2]
    below = weight_up_to(value, w, n, reached)
    above = 1.0 - below
    if below > 0.0 and above > 1e-9:
        moved = below * mass / (1.0 + mass)
        less, more = 1.0 - moved / below, 1.0 + moved / above
        for j in range(n):
            w[j] *= less if value[j] <= reached else more


@inlined
def weight_up_to(value: np.ndarray, w: np.ndarray, n: int, reached: float) -> float:
    """Sum of the weights of values up to `reached`, in four sums that do not wait for each other."""
    whole = n - n % 4
    s0 = s1 = s2 = s3 = 0.0
    for j in range(0, whole, 4):
        s0 += w[j] if value[j] <= reached else 0.0
        s1 += w[j + 1] if value[j + 1] <= reached else 0.0
        s2 += w[j + 2] if value[j + 2] <= reached else 0.0
        s3 += w[j + 3] if value[j + 3] <= reached else 0.0
    for j in range(whole, n):
        s0 += w[j] if value[j] <= reached else 0.0
    return (s0 + s1) + (s2 + s3)


@inlined
def quantiles(m: Memory, n: int, levels: np.ndarray, out: np.ndarray) -> None:
    """`quantile` at ascending levels, in one pass."""
    below, a = 0.0, -1
    for k in range(len(levels)):
        while a < n - 1 and (a < 0 or below < levels[k] - 1e-12):
            a += 1
            below += m.candidate[2, m.order[0, a]]
        out[k] = m.candidate[0, m.order[0, a]]


@inlined
def quantile(m: Memory, n: int, level: float) -> float:
    """The smallest candidate with at least `level` of the weight at or below it."""
    below, last = 0.0, n - 1
    for a in range(n):
        below += m.candidate[2, m.order[0, a]]
        if below >= level - 1e-12:
            last = a
            break
    seconds: float = m.candidate[0, m.order[0, last]]
    return seconds


@inner
def quantile_left(m: Memory, n: int, elapsed: float, level: float) -> float:
    """The same among the candidates longer than `elapsed`; NaN where there is none."""
    left = 0.0
    for j in range(n):
        if m.candidate[0, j] > elapsed:
            left += m.candidate[2, j]
    if left <= 0.0:
        return math.nan
    below = 0.0
    last: float = math.nan
    for a in range(n):
        j = m.order[0, a]
        if m.candidate[0, j] > elapsed:
            below += m.candidate[2, j]
            last = m.candidate[0, j]
            if below >= (level - 1e-12) * left:
                return last
    return last
