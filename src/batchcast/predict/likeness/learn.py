"""One AdaGrad step on the CRPS of the distribution a finished job was given."""

from __future__ import annotations

import math

import numpy as np

from ...compiled import inlined, inner
from .compare import gather, weigh
from .memory import KNOWN_FIELDS, OWN, PLAIN, SCALED, Memory, Options
from .ordered import sort

FARTHEST = 10.0  # limits: runs beyond are as wrong as that
ROUNDING = 1e-12  # a slope that is zero but for rounding must not become a whole step
NO_LIMIT = 1e5  # seconds that count as one limit where none is known


@inlined
def scored(m: Memory, o: Options, n: int, limit: float, run: float) -> float:
    """Write where candidates stand on the axis of the score, shares of the limit or log seconds; where `run` does."""
    seconds, log_seconds, t = m.candidate[0], m.candidate[1], m.candidate[3]
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
    """Move theta, and the user's offset, one step against the gradient; the CRPS (NaN without two candidates).

    For weights w on sorted values t, CRPS = sum_j w_j |t_j - y| - 1/2 sum_jk w_j w_k |t_j - t_k| (Gneiting & Raftery
    2007, eq. 21), so its derivative in w_j is g_j = |t_j - y| - sum_k w_k |t_j - t_k|, and in theta
    -sum_j w_j (g_j - mean g) d_j. Linear after sorting.
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
    """Write the derivative of the CRPS in each weight; the CRPS."""
    w, g, order = m.candidate[2], m.candidate[3], m.order[0]
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
    """AdaGrad (Duchi, Hazan & Singer 2011) on theta and on the user's offset, which shrinks a little each time."""
    w, g, theta, own, slope = m.candidate[2], m.candidate[3], m.theta, m.offset[user], m.sums[1]
    terms, mean = OWN + m.numbers[KNOWN_FIELDS], dot(w, g, n)
    for j in range(n):
        g[j] = w[j] * (g[j] - mean)
    plain, scaled = m.numbers[PLAIN], 0.0
    for k in range(plain, n):
        scaled += g[k]
        g[m.again[k - plain]] += g[k]
    for t in range(terms):
        slope[t] = -dot(g, m.difference[t], plain) if t != SCALED else -scaled
        theta[1, t] += slope[t] * slope[t]
        theta[0, t] -= o.step * slope[t] / math.sqrt(theta[1, t] + ROUNDING)
        if o.own_step > 0.0:
            own[1, t] += slope[t] * slope[t]
            own[0, t] = o.keep * own[0, t] - o.own_step * slope[t] / math.sqrt(own[1, t] + ROUNDING)


@inlined
def dot(a: np.ndarray, b: np.ndarray, n: int) -> float:
    """Sum of a[j] * b[j], j < n, in eight sums that do not wait for each other."""
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
