"""One AdaGrad step on the CRPS of the distribution a finished job was given."""

from __future__ import annotations

import math

from ...compiled import inlined, kernel
from .compare import gather, weigh
from .memory import KNOWN_FIELDS, OWN, Memory, Options
from .ordered import sort

FARTHEST = 10.0  # limits: runs beyond are as wrong as that
ROUNDING = 1e-12  # a slope that is zero but for rounding must not become a whole step
NO_LIMIT = 1e5  # seconds that count as one limit where none is known


@inlined
def scored(o: Options, log_seconds: float, limit: float) -> float:
    """Where a run time stands on the axis of the score: a share of the limit, or log seconds."""
    if o.relative:
        scale = max(limit, 60.0) if limit == limit else NO_LIMIT
        return min(math.exp(min(log_seconds, 100.0)) / scale, FARTHEST)
    return log_seconds


@kernel
def learn(m: Memory, o: Options, slot: int, log_run: float) -> float:
    """Move theta, and the user's offset, one step against the gradient; the CRPS (NaN without two candidates).

    For weights w on sorted values t, CRPS = sum_j w_j |t_j - y| - 1/2 sum_jk w_j w_k |t_j - t_k| (Gneiting & Raftery
    2007, eq. 21), so its derivative in w_j is g_j = |t_j - y| - sum_k w_k |t_j - t_k|, and in theta
    -sum_j w_j (g_j - mean g) d_j. Linear after sorting.
    """
    n = gather(m, o, slot)
    if n < 2:
        return math.nan
    weigh(m, m.unfinished[slot].user, n)
    sort(m, n)
    crps = slopes(m, o, n, log_run, m.unfinished[slot].limit)
    step(m, o, m.unfinished[slot].user, n)
    return crps


@inlined
def slopes(m: Memory, o: Options, n: int, log_run: float, limit: float) -> float:
    """Write the derivative of the CRPS in each weight; the CRPS."""
    value, w, g, order = m.candidate[1], m.candidate[2], m.candidate[3], m.order[0]
    y, mean = scored(o, log_run, limit), 0.0
    for j in range(n):
        g[j] = scored(o, value[j], limit)
        mean += w[j] * g[j]
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
    terms, mean = OWN + m.numbers[KNOWN_FIELDS], 0.0
    for j in range(n):
        mean += w[j] * g[j]
    slope[:] = 0.0
    for j in range(n):
        d, part = m.difference[j], w[j] * (g[j] - mean)
        for t in range(terms):
            slope[t] -= part * d[t]
    for t in range(terms):
        theta[1, t] += slope[t] * slope[t]
        theta[0, t] -= o.step * slope[t] / math.sqrt(theta[1, t] + ROUNDING)
        if o.own_step > 0.0:
            own[1, t] += slope[t] * slope[t]
            own[0, t] = o.keep * own[0, t] - o.own_step * slope[t] / math.sqrt(own[1, t] + ROUNDING)
