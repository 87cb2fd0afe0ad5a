# SPDX-License-Identifier: Apache-2.0
"""Logarithm and exponential without a branch or a call, so that a loop over candidates runs several abreast.

Both are plain float64 arithmetic in a fixed order: the same bits on every machine.
"""

from __future__ import annotations

import numpy as np

from ...compiled import inlined

LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # in two parts: k * LN2_HIGH is exact
INTEGER = (
    6755399441055744.0  # 1.5 * 2^52: added and taken away it rounds to a whole number, which stands in its low bits
)
INTEGER_BITS = 0x4338000000000000
ONE = 0x3FF0000000000000
ROOT_HALF = 0x3FE6A09E667F3BCD
MANTISSA = 0x000FFFFFFFFFFFFF
BIAS = 1023


@inlined
def exponential(x: float) -> float:
    """e to the power of x for x up to 700, within 1e-14 of it; below -700 what it is there, which is next to nothing.

    x = k log 2 + r with |r| <= log(2) / 2, then Taylor's series of e^r to the eleventh power, then k to the exponent.
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
    """log x for finite x of at least 1, within 1e-15 of it.

    x = 2^k m with m between the roots of 1/2 and 2; log m = 2 atanh(s), s = (m - 1) / (m + 1), by its odd powers with
    the minimax coefficients of W. J. Cody & W. Waite's kind that every C library uses (error below 2^-58).
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
    """Sum of a[j], j < n, in eight sums that do not wait for each other."""
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
    """The largest of a[j], j < n, none of them NaN; four abreast."""
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
    """The least, likewise."""
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
