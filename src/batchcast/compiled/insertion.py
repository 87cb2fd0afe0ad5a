"""Insertion sort for what is short or nearly sorted: numba's own sorts take seconds to compile."""

from __future__ import annotations

import numpy as np

from . import inlined


@inlined
def insert(value: np.ndarray, order: np.ndarray, n: int) -> None:
    """The first n of `order` so that their values ascend; equal ones stay as they are. O(n) sorted, O(n^2) at worst."""
    for a in range(1, n):
        j = order[a]
        b = a - 1
        while b >= 0 and value[order[b]] > value[j]:
            order[b + 1] = order[b]
            b -= 1
        order[b + 1] = j
