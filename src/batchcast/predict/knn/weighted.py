"""Nearest neighbours under a weighted distance over names and numbers: instance-based learning's."""

from __future__ import annotations

import numpy as np

from ...compiled import allocating
from .nearest import alike, insert


@allocating
def weighted_nearest(
    codes: np.ndarray,
    values: np.ndarray,
    query_codes: np.ndarray,
    query: np.ndarray,
    null: np.ndarray,
    span: np.ndarray,
    weights: np.ndarray,
    template: int,
    n: int,
    k: int,
    parted_at: float,
) -> np.ndarray:
    """Positions of the k nearest of the last n finished jobs that match the template, nearest first.

    D(x, y) = sqrt(sum w_a d_a^2 / sum w_a): d is 0 or 1 for names (first the `codes`' weights), |x - y|/range for
    numbers (then the `values`'), 1 where either is unknown (`null` holds the code that means unknown), 0 in a column
    without range. With `parted_at` not NaN only jobs on the query's side of that number of processors (the first
    number) count. Ties: the more recently completed. O(n (fields + k)).
    """
    best = np.empty(k)
    positions = np.empty(k, dtype=np.int64)
    count = 0
    fields = len(query_codes)
    whole = weights.sum()
    for back in range(min(n, len(codes))):
        place = len(codes) - 1 - back
        if not alike(codes[place], query_codes, template):
            continue
        if parted_at == parted_at and (values[place, 0] > parted_at) != (query[0] > parted_at):
            continue
        total = 0.0
        for field in range(fields):
            if codes[place, field] != query_codes[field] or query_codes[field] == null[field]:
                total += weights[field]
        for column in range(len(query)):
            d = abs(values[place, column] - query[column])
            if d != d:
                total += weights[fields + column]
            elif span[column] > 0.0:
                d /= span[column]
                total += weights[fields + column] * d * d
        count = insert(best, positions, count, np.sqrt(total / whole) if whole > 0.0 else 0.0, place)
    return positions[:count]
