# SPDX-License-Identifier: Apache-2.0
"""`kernel`'s learning step: the gradient of the CRPS in the similarity weights, and AdaGrad."""

from __future__ import annotations

import math

from ...compiled import inlined, inner
from . import memory as at
from .candidates import compute_weights, prepare_candidates
from .distribution import sort_by_run_time
from .exact import dot
from .memory import Memory, Options

FARTHEST = 10.0  # largest run time in the score, in time limits, so that outliers do not dominate
ROUNDING = 1e-12  # added to squared slopes; without it, AdaGrad would turn rounding errors into full steps
NO_LIMIT = 1e5  # seconds used as the time limit if none is known


@inner
def learn(m: Memory, o: Options, slot: int, run: float) -> float:
    """Take one gradient step for the similarity weights theta and the user's offset; return the CRPS (NaN with fewer
    than two candidates).

    For weights w on sorted values t, CRPS = sum_j w_j |t_j - y| - 1/2 sum_jk w_j w_k |t_j - t_k| (Gneiting & Raftery
    2007, eq. 21). The derivative of the CRPS in w_j is g_j = |t_j - y| - sum_k w_k |t_j - t_k|, and in theta -sum_j w_j
    (g_j - mean g) d_j. After sorting, the cost is linear in the number of candidates.
    """
    n = prepare_candidates(m, o, slot)
    if n < 2:
        return math.nan
    compute_weights(m, m.unfinished[slot].user, n)
    sort_by_run_time(m, slot, n)
    crps = crps_slopes(m, o, n, run, m.unfinished[slot].limit)
    adagrad_step(m, o, m.unfinished[slot].user, n)
    return crps


@inlined
def on_score_scale(m: Memory, o: Options, n: int, limit: float, run: float) -> float:
    """Write the candidates' run times on the score's scale (shares of the limit or log seconds); return `run` on this
    scale.
    """
    room, t = m.numbers[at.ROOM], m.per_candidate[at.GRADIENT]
    seconds, log_seconds = m.run_times[room, at.SECONDS], m.run_times[room, at.LOG_SECONDS]
    if not o.relative:
        for j in range(n):
            t[j] = log_seconds[j]
        return math.log(run)
    scale = max(limit, 60.0) if limit == limit else NO_LIMIT
    for j in range(n):
        t[j] = min(seconds[j] / scale, FARTHEST)
    return min(run / scale, FARTHEST)


@inlined
def crps_slopes(m: Memory, o: Options, n: int, run: float, limit: float) -> float:
    """Write the derivative of the CRPS with respect to each weight; return the CRPS."""
    w, g, order = m.per_candidate[at.WEIGHT], m.per_candidate[at.GRADIENT], m.order[0]
    y = on_score_scale(m, o, n, limit, run)
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
def adagrad_step(m: Memory, o: Options, user: int, n: int) -> None:
    """Take an AdaGrad step (Duchi, Hazan & Singer 2011) for the similarity weights theta and the user's offset; the
    offset also decays a little.
    """
    w, g, slope = m.per_candidate[at.WEIGHT], m.per_candidate[at.GRADIENT], m.sums[1]
    terms, mean = at.OWN + m.numbers[at.KNOWN_FIELDS], dot(w, g, n)
    for j in range(n):
        g[j] = w[j] * (g[j] - mean)
    unscaled, scaled = m.numbers[at.UNSCALED], 0.0
    rows, original = m.differences[m.numbers[at.ROOM]], m.original[m.numbers[at.ROOM]]
    for k in range(unscaled, n):
        scaled += g[k]
        g[original[k - unscaled]] += g[k]
    for t in range(terms):
        slope[t] = -dot(g, rows[t], unscaled) if t != at.SCALED else -scaled
    now, squares = m.theta[0], m.theta[1]
    for t in range(terms):
        squares[t] += slope[t] * slope[t]
        now[t] -= o.step * slope[t] / math.sqrt(squares[t] + ROUNDING)
    if o.own_step > 0.0:
        now, squares = m.offset[user, 0], m.offset[user, 1]
        for t in range(terms):
            squares[t] += slope[t] * slope[t]
            now[t] = o.offset_decay * now[t] - o.own_step * slope[t] / math.sqrt(squares[t] + ROUNDING)
