"""The jobs of each resource in order of a key: what makes the pair heuristics incremental."""

from __future__ import annotations

import numpy as np

from ..compiled import allocating

HANDFUL = 64


def resource_orders(keys: np.ndarray, less: np.ndarray | None = None) -> np.ndarray:
    """For each resource (row) the jobs by ascending `keys[:, r]`, or by `less - keys[:, r]`; stable, int32 (m, n).

    In blocks of resources, so the scratch memory stays small beside the result; a handful of jobs, of which a
    simulation maps thousands of times, is sorted in compiled code. O(m n log n).
    """
    n, m = keys.shape
    if n <= HANDFUL:
        return np.asarray(_small_orders(keys, np.zeros(n) if less is None else less, less is not None))
    orders = np.empty((m, n), dtype=np.int32)
    for first in range(0, m, 32):
        block = keys[:, first : first + 32].T.copy(order="C")
        if less is not None:
            with np.errstate(invalid="ignore"):  # no deadline and no fit: NaN, which sorts last
                np.subtract(less, block, out=block)
        orders[first : first + 32] = np.argsort(block, axis=1, kind="stable")
    return orders


@allocating
def _small_orders(keys: np.ndarray, less: np.ndarray, negate: bool) -> np.ndarray:
    """`resource_orders` by insertion; NaN last, as numpy sorts it."""
    n, m = keys.shape
    orders = np.empty((m, n), dtype=np.int32)
    key = np.empty(n)
    for r in range(m):
        for i in range(n):
            value = less[i] - keys[i, r] if negate else keys[i, r]
            k = i
            while k > 0 and (value < key[k - 1] or (np.isnan(key[k - 1]) and not np.isnan(value))):
                key[k], orders[r, k] = key[k - 1], orders[r, k - 1]
                k -= 1
            key[k], orders[r, k] = value, i
    return orders
