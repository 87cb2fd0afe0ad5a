# SPDX-License-Identifier: Apache-2.0
"""Computes how a job differs from its candidates (the finished jobs that it is compared with), and the candidates'
weights exp(-theta . d).

The logarithm and the exponential use only float64 additions and multiplications, so results are equal bit for bit on
every machine; a C library's functions differ between versions.
"""

from __future__ import annotations

import math

import numpy as np

from ...compiled import inlined, inner
from .candidates import choose_candidates, fetch
from .memory import (
    AGE,
    APART,
    AT_HAND,
    GRADIENT,
    KNOWN_FIELDS,
    LIMIT_DIFFERS,
    LIMIT_RATIO,
    LOG_SECONDS,
    NOT_LISTED,
    OWN,
    PLAIN,
    PROCS_DIFFER,
    PROCS_RATIO,
    RANK,
    SCALED,
    SECONDS,
    TOTAL,
    WEIGHT,
    Memory,
    Options,
)

LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # log(2) in two parts; k * LN2_HIGH is exact
INTEGER = 6755399441055744.0  # 1.5 * 2^52: adding and subtracting it rounds to an integer, found in the low bits
INTEGER_BITS = 0x4338000000000000
ONE = 0x3FF0000000000000
ROOT_HALF = 0x3FE6A09E667F3BCD
MANTISSA = 0x000FFFFFFFFFFFFF
BIAS = 1023


@inlined
def exponential(x: float) -> float:
    """Compute e^x for x up to 700 with an error below 1e-14; x below -700 counts as -700, where e^x is nearly 0.

    x = k log 2 + r with |r| <= log(2) / 2. A Taylor series to degree 11 gives e^r, and k is added to the exponent bits.
    """
    x = max(x, -700.0)
    shifted = x * 1.4426950408889634 + INTEGER
    k = shifted - INTEGER
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = 1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800))
    p = 1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * (1 / 40320 + r * p)))
    p = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * p))))
    power = (np.float64(shifted).view(np.int64) << 52) + (np.int64(BIAS) << 52)
    return p * np.int64(power).view(np.float64)


@inlined
def logarithm_from_one(x: float) -> float:
    """Compute log x for finite x >= 1 with an error below 1e-15.

    x = 2^k m with m between the square roots of 1/2 and 2. log m = 2 atanh(s), s = (m - 1) / (m + 1), as a polynomial
    in odd powers with minimax coefficients, as in common C libraries (Cody & Waite; error below 2^-58).
    """
    shifted = np.float64(x).view(np.int64) + np.int64(ONE - ROOT_HALF)
    k = np.int64((shifted >> 52) - BIAS + INTEGER_BITS).view(np.float64) - INTEGER
    m = np.int64((shifted & np.int64(MANTISSA)) + np.int64(ROOT_HALF)).view(np.float64)
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    r = 0.1818357216161805012 + z * (0.1531383769920937332 + z * 0.1479819860511658591)
    r = 0.3999999999940941908 + z * (0.2857142874366239149 + z * (0.2222219843214978396 + z * r))
    r = z * (0.6666666666666735130 + z * r)
    half = 0.5 * f * f
    return k * LN2_HIGH - ((half - (s * (half + r) + k * LN2_LOW)) - f)


@inlined
def added(a: np.ndarray, n: int) -> float:
    """Sum a[j] for j < n, in eight independent partial sums that the processor can compute in parallel."""
    whole = n - n % 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for j in range(0, whole, 8):
        s0 += a[j]
        s1 += a[j + 1]
        s2 += a[j + 2]
        s3 += a[j + 3]
        s4 += a[j + 4]
        s5 += a[j + 5]
        s6 += a[j + 6]
        s7 += a[j + 7]
    for j in range(whole, n):
        s0 += a[j]
    return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))


@inlined
def largest(a: np.ndarray, n: int) -> float:
    """Return the largest a[j] for j < n (no NaN), four comparisons at a time."""
    whole = n - n % 4
    m0 = m1 = m2 = m3 = -np.inf
    for j in range(0, whole, 4):
        m0 = a[j] if a[j] > m0 else m0
        m1 = a[j + 1] if a[j + 1] > m1 else m1
        m2 = a[j + 2] if a[j + 2] > m2 else m2
        m3 = a[j + 3] if a[j + 3] > m3 else m3
    for j in range(whole, n):
        m0 = a[j] if a[j] > m0 else m0
    return max(max(m0, m1), max(m2, m3))


@inlined
def least(a: np.ndarray, n: int) -> float:
    """Return the smallest a[j] for j < n (no NaN), four comparisons at a time."""
    whole = n - n % 4
    m0 = m1 = m2 = m3 = np.inf
    for j in range(0, whole, 4):
        m0 = a[j] if a[j] < m0 else m0
        m1 = a[j + 1] if a[j + 1] < m1 else m1
        m2 = a[j + 2] if a[j + 2] < m2 else m2
        m3 = a[j + 3] if a[j + 3] < m3 else m3
    for j in range(whole, n):
        m0 = a[j] if a[j] < m0 else m0
    return min(min(m0, m1), min(m2, m3))


@inlined
def apart(a: float, b: float) -> tuple[float, float]:
    """Return the distance of two logarithms and whether they differ; an unknown value (NaN) equals only an unknown
    value.
    """
    ratio = abs(a - b)
    known, unknown = ratio == ratio, (a != a) & (b != b)
    return (ratio if known else 0.0), (0.0 if (a == b) | unknown else 1.0)


@inner
def gather(m: Memory, o: Options, slot: int) -> int:
    """Write run times, log run times and differences of an unfinished job's candidates; return the number of
    candidates.

    Differences are stored only for unscaled candidates, because a scaled copy has the same differences, except for the
    term SCALED. Differences stored in the job's own block of work arrays (room) stay valid until the ring overwrites a
    candidate or a new field appears.
    """
    job, last = m.unfinished[slot], len(m.difference) - 1
    own = choose_candidates(m, slot) if job.count == NOT_LISTED else 0
    m.numbers[AT_HAND] = min(slot, last)
    if job.fields == m.numbers[KNOWN_FIELDS] and job.oldest >= m.numbers[TOTAL] - len(m.finished):
        m.numbers[PLAIN] = job.count
        return job.compared  # type: ignore[no-any-return]
    n = m.numbers[PLAIN] = fetch(m, slot, own)
    compare(m, slot, own, n)
    job.compared = n + (add_scaled(m, n, job.log_limit) if o.scaled else 0)
    job.fields = m.numbers[KNOWN_FIELDS] if slot < last else NOT_LISTED
    return job.compared  # type: ignore[no-any-return]


@inlined
def compare(m: Memory, slot: int, own: int, n: int) -> None:
    """Convert the candidates' collected values to differences from the job; the first `own` candidates are the user's
    latest jobs, newest first."""
    job = m.unfinished[slot]
    asked, log_limit, log_procs = job.asked, job.log_limit, job.log_procs
    rows, signed = m.difference[m.numbers[AT_HAND]], m.candidate[GRADIENT]
    ratio, differs, by_procs, procs_differ = (
        rows[LIMIT_RATIO],
        rows[LIMIT_DIFFERS],
        rows[PROCS_RATIO],
        rows[PROCS_DIFFER],
    )
    between, age, rank = rows[APART], rows[AGE], rows[RANK]
    padded = (n + 7) & -8  # vectorized loops need a multiple of 8; the surplus results are ignored
    for j in range(padded):
        signed[j] = log_limit - ratio[j]
    for j in range(padded):
        ratio[j], differs[j] = apart(log_limit, ratio[j])
    for j in range(padded):
        by_procs[j], procs_differ[j] = apart(log_procs, by_procs[j])
    for j in range(padded):
        between[j] = logarithm_from_one(1.0 + abs(asked - between[j]) / 60.0)
    for j in range(padded):
        age[j] = logarithm_from_one(1.0 + max(asked - age[j], 0.0) / 60.0)
    for j in range(own):
        rank[j] = m.log_rank[j]
    others = rank[own:n]  # a slice, because numba only vectorizes loops that start at 0
    for j in range(n - own):
        others[j] = logarithm_from_one(1.0 + others[j])


@inlined
def add_scaled(m: Memory, n: int, log_limit: float) -> int:
    """Append a copy of each of the n candidates with another limit, scaled by the ratio of limits; return the new
    number of candidates.
    """
    room = m.numbers[AT_HAND]
    again, ratio, signed = m.again[room], m.difference[room, LIMIT_RATIO], m.candidate[GRADIENT]
    seconds, log_seconds = m.length[room, SECONDS], m.length[room, LOG_SECONDS]
    more = 0
    for j in range(n):
        again[more] = j
        more += 1 if ratio[j] > 0.0 else 0
    for k in range(more):
        log_seconds[n + k] = max(log_seconds[again[k]] + signed[again[k]], 0.0)
    into, longs = seconds[n:], log_seconds[n:]  # slices, because numba only vectorizes loops that start at 0
    for k in range((more + 7) & -8):
        into[k] = exponential(min(longs[k], 700.0))
    return more


@inner
def weigh(m: Memory, user: int, n: int) -> float:
    """Compute the weights of the n candidates, normalized to sum to 1; return the logarithm of their sum before
    normalization."""
    terms = OWN + m.numbers[KNOWN_FIELDS]
    w, theta = m.candidate[WEIGHT], m.sums[0]
    for t in range(terms):
        theta[t] = m.theta[0, t] + m.offset[user, 0, t]
    plain, again = m.numbers[PLAIN], m.again[m.numbers[AT_HAND]]
    exponents(m, theta, terms, (plain + 7) & -8)
    for k in range(n - plain):
        w[plain + k] = w[again[k]] - theta[SCALED]
    best = largest(w, n)
    padded = (n + 7) & -8
    for j in range(padded):
        w[j] = exponential(w[j] - best)
    total = added(w, n)
    share = 1.0 / total
    for j in range(padded):
        w[j] *= share
    return best + math.log(total)


@inlined
def exponents(m: Memory, theta: np.ndarray, terms: int, n: int) -> None:
    """Compute -theta . d of the n candidates that are not scaled, four terms at a time."""
    w, rows, t = m.candidate[WEIGHT], m.difference[m.numbers[AT_HAND]], terms % 4
    w[:n] = 0.0
    for u in range(t):
        d, much = rows[u], theta[u]
        for j in range(n):
            w[j] -= much * d[j]
    while t < terms:
        a, b, c, d = rows[t], rows[t + 1], rows[t + 2], rows[t + 3]
        by_a, by_b, by_c, by_d = theta[t], theta[t + 1], theta[t + 2], theta[t + 3]
        for j in range(n):
            w[j] = w[j] - by_a * a[j] - by_b * b[j] - by_c * c[j] - by_d * d[j]
        t += 4


@inner
def likeness(m: Memory, slot: int, other: int) -> float:
    """Return theta . d between an unfinished job and a running job, where both jobs have the same user and the running
    job counts as the user's newest job."""
    user = m.unfinished[slot].user
    job, theirs, theta, own = m.unfinished[slot], m.unfinished[other], m.theta[0], m.offset[user, 0]
    ratio, differs = apart(job.log_limit, theirs.log_limit)
    exponent: float = (theta[LIMIT_RATIO] + own[LIMIT_RATIO]) * ratio + (
        theta[LIMIT_DIFFERS] + own[LIMIT_DIFFERS]
    ) * differs
    ratio, differs = apart(job.log_procs, theirs.log_procs)
    exponent += (theta[PROCS_RATIO] + own[PROCS_RATIO]) * ratio + (theta[PROCS_DIFFER] + own[PROCS_DIFFER]) * differs
    exponent += (theta[APART] + own[APART]) * math.log(1.0 + abs(job.asked - theirs.asked) / 60.0)
    for f in range(m.numbers[KNOWN_FIELDS]):
        if m.codes[slot, f] != m.codes[other, f]:
            exponent += theta[OWN + f] + own[OWN + f]
    return exponent
