"""How far a difference of means could be chance: the block bootstrap of paired values."""

from __future__ import annotations

import numpy as np


def paired_interval(
    difference: np.ndarray, block: np.ndarray, rng: np.random.Generator, *, level: float = 0.95, resamples: int = 2000
) -> tuple[float, float]:
    """A percentile interval for the mean of paired differences (n,), resampling whole blocks (n,) of whole numbers.

    Künsch (Annals of Statistics 17, 1989) resamples blocks so that what hangs together inside one (a queue lasts) stays
    together; here the blocks do not overlap and may differ in size: each resample draws as many blocks as there are,
    with replacement, and divides the sum of their differences by their count (a ratio, Cochran 1977, ch. 6). Needs two
    blocks or more, else (NaN, NaN). O(n + resamples * blocks).

    >>> paired_interval(np.array([1.0, 1.0, 1.0]), np.array([0, 0, 1]), np.random.default_rng(0))
    (1.0, 1.0)
    """
    _, at = np.unique(block, return_inverse=True)
    blocks = int(at.max()) + 1 if len(at) else 0
    if blocks < 2:
        return float("nan"), float("nan")
    total, count = np.bincount(at, difference, blocks), np.bincount(at, minlength=blocks)
    drawn = rng.multinomial(blocks, np.full(blocks, 1.0 / blocks), size=resamples)
    means = (drawn @ total) / (drawn @ count)
    low, high = np.percentile(means, [50 * (1 - level), 50 * (1 + level)]).tolist()
    return low, high
