# SPDX-License-Identifier: Apache-2.0
"""Logarithm, exponential and sums that are equal bit for bit on every machine.

They use only float64 additions and multiplications in a fixed order; a C library's functions differ between versions.
"""

from __future__ import annotations

import numpy as np

from ...compiled import inlined

LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # log(2) in two parts; k * LN2_HIGH is exact
INTEGER = 6755399441055744.0  # 1.5 * 2^52: adding and subtracting it rounds to an integer, found in the low bits
INTEGER_BITS = 0x4338000000000000
ONE_BITS = 0x3FF0000000000000
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
    shifted = np.float64(x).view(np.int64) + np.int64(ONE_BITS - ROOT_HALF)
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
def total_of(a: np.ndarray, n: int) -> float:
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
def largest_of(a: np.ndarray, n: int, sign: float = 1.0) -> float:
    """Return the largest sign * a[j] for j < n (no NaN), four comparisons at a time; `sign` is 1 or -1."""
    whole = n - n % 4
    m0 = m1 = m2 = m3 = -np.inf
    for j in range(0, whole, 4):
        m0 = sign * a[j] if sign * a[j] > m0 else m0
        m1 = sign * a[j + 1] if sign * a[j + 1] > m1 else m1
        m2 = sign * a[j + 2] if sign * a[j + 2] > m2 else m2
        m3 = sign * a[j + 3] if sign * a[j + 3] > m3 else m3
    for j in range(whole, n):
        m0 = sign * a[j] if sign * a[j] > m0 else m0
    return max(max(m0, m1), max(m2, m3))


@inlined
def total_in_order(w: np.ndarray, order: np.ndarray, begin: int, end: int) -> float:
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
