"""The weighted distribution: candidates in order, running jobs as censored evidence, quantiles."""

from __future__ import annotations

import math

from ...compiled import inlined, kernel
from .compare import likeness
from .memory import BINS, Memory, Options


@kernel
def sort(m: Memory, n: int) -> None:
    """The n candidates in ascending order of log seconds: counted into bins, then each bin by insertion. O(n)."""
    value, order, bin_of, bins = m.candidate[1], m.order[0], m.order[1], m.bins
    bins[:] = 0
    for j in range(n):
        b = max(min(int(value[j] * 64.0), BINS - 1), 0)
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
    for a in range(1, n):
        j = order[a]
        b = a - 1
        while b >= 0 and value[order[b]] > value[j]:
            order[b + 1] = order[b]
            b -= 1
        order[b + 1] = j


@kernel
def censor(m: Memory, o: Options, slot: int, itself: int, now: float, n: int, log_sum: float) -> None:
    """Let the user's running jobs move weight from the candidates they have outlived to longer ones.

    Efron 1967: a censored observation's mass goes to the right of where it was censored, in proportion to what stands
    there. A running job's mass is `o.running` times its likeness, against all candidates' sum of one. Newest first.
    """
    value, w, order = m.candidate[1], m.candidate[2], m.order[0]
    other, seen = m.running[m.unfinished[slot].user], 0
    while other >= 0 and seen < o.most_running:
        elapsed = now - m.unfinished[other].start
        if elapsed > 0.0 and other != itself:
            mass = o.running * math.exp(min(-likeness(m, slot, other) - log_sum, 50.0))
            reached, below = math.log(max(elapsed, 1.0)), 0.0
            for a in range(n):
                if value[order[a]] > reached:
                    break
                below += w[order[a]]
            above = 1.0 - below
            if below > 0.0 and above > 1e-9:
                moved = below * mass / (1.0 + mass)
                for j in range(n):
                    w[j] *= 1.0 - moved / below if value[j] <= reached else 1.0 + moved / above
        other = m.unfinished[other].next
        seen += 1


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


@kernel
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
