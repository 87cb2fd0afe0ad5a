"""How alike two orders of the same jobs are: Spearman's rank correlation."""

from __future__ import annotations

import numpy as np


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0, equal values sharing the middle of theirs. O(n log n).

    >>> ranks(np.array([5.0, 1.0, 5.0])).tolist()
    [1.5, 0.0, 1.5]
    """
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    middle: np.ndarray = np.cumsum(count) - 1 - (count - 1) / 2
    return middle[place]


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's rho with mean ranks of ties, -1 to 1; NaN below two values or where one of the two is constant.

    >>> round(rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([10.0, 30.0, 20.0])), 6)
    0.5
    """
    ours, theirs = ranks(one), ranks(other)
    if len(one) < 2 or np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return float("nan")
    return float(np.corrcoef(ours, theirs)[0, 1])
