"""The K nearest of the last N finished jobs that match a template, and what they say: compiled, one job at a time."""

from __future__ import annotations

import numpy as np

from ...compiled import allocating


def scaling(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimum and range of each column (n, m), unknowns aside; range 0 for a constant or an unknown column.

    >>> scaling(np.array([[1.0, 5.0], [3.0, 5.0]]))
    (array([1., 5.]), array([2., 0.]))
    """
    low, span = np.zeros(values.shape[1]), np.zeros(values.shape[1])
    for column in range(values.shape[1]):
        known = values[:, column][~np.isnan(values[:, column])]
        if len(known):
            low[column] = known.min()
            span[column] = known.max() - low[column]
    return low, np.where(np.isfinite(span), span, 0.0)


@allocating
def normal(value: float, low: float, span: float) -> float:
    """f(x) = (x - min)/(max - min), eq. 2 of Xu et al. 2018; 0 in a column without range, NaN stays."""
    if value != value:
        return value
    return (value - low) / span if span > 0.0 else 0.0


def normalised(values: np.ndarray, low: np.ndarray, span: np.ndarray) -> np.ndarray:
    """`normal` for a table (n, m), the very same numbers."""
    safe = np.where(span > 0, span, 1.0)
    return np.where(np.isnan(values), np.nan, np.where(span > 0, (values - low) / safe, 0.0))


@allocating
def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Sim of eq. 3, over normalised numbers (m,): both unknown add 0, one unknown adds 1."""
    total = 0.0
    for column in range(len(one)):
        x, y = one[column], other[column]
        if x == x and y == y:
            total += (x - y) * (x - y)
        elif x == x or y == y:
            total += 1.0
    return float(np.sqrt(total))


@allocating
def alike(one: np.ndarray, other: np.ndarray, template: int) -> bool:
    """Whether the codes agree on every field whose bit is set in `template`."""
    for field in range(len(one)):
        if (template >> field) & 1 and one[field] != other[field]:
            return False
    return True


@allocating
def insert(best: np.ndarray, positions: np.ndarray, count: int, d: float, position: int) -> int:
    """Put a candidate in its place among the nearest, behind its equals; how many there are now."""
    k = len(best)
    if count == k and not d < best[k - 1]:
        return count
    at = count if count < k else k - 1
    while at > 0 and d < best[at - 1]:
        best[at] = best[at - 1]
        positions[at] = positions[at - 1]
        at -= 1
    best[at] = d
    positions[at] = position
    return min(count + 1, k)


@allocating
def nearest(
    codes: np.ndarray,
    values: np.ndarray,
    query_codes: np.ndarray,
    query: np.ndarray,
    low: np.ndarray,
    span: np.ndarray,
    template: int,
    n: int,
    k: int,
) -> np.ndarray:
    """Positions of the k nearest of the last n finished jobs that match the template, nearest first.

    `codes` (jobs, fields) and `values` (jobs, m) are in completion order; `query` is already normalised. Ties: the
    more recently completed first. O(n (m + k)).
    """
    best = np.empty(k)
    positions = np.empty(k, dtype=np.int64)
    count = 0
    row = np.empty(values.shape[1])
    for back in range(min(n, len(codes))):
        position = len(codes) - 1 - back
        if not alike(codes[position], query_codes, template):
            continue
        for column in range(len(row)):
            row[column] = normal(values[position, column], low[column], span[column])
        d = distance(row, query)
        count = insert(best, positions, count, d, position)
    return positions[:count]


@allocating
def mean_and_std(run: np.ndarray, positions: np.ndarray) -> tuple[float, float]:
    """Mean and population standard deviation of run times, summed nearest first around the nearest.

    The shift makes equal run times have a deviation of exactly 0.
    """
    first = run[positions[0]]
    one = 0.0
    two = 0.0
    for position in positions:
        d = run[position] - first
        one += d
        two += d * d
    count = len(positions)
    mean = one / count
    return first + mean, np.sqrt(max(two / count - mean * mean, 0.0))


@allocating
def mean_of_last(total: np.ndarray, done: int, n: int) -> float:
    """Mean run time of the last n of the first `done` finished jobs, from running totals; done >= 1."""
    n = min(n, done)
    before = total[done - n - 1] if done > n else 0.0
    return float((total[done - 1] - before) / n)


@allocating
def planned(mean: float, std: float, limit: float, alpha: float, beta: float) -> float:
    """Est2 = min(Est + alpha std, beta r), eqs. 5 and 6; no cap without a limit; at least a second."""
    estimate = mean + alpha * std
    if limit == limit and beta * limit < estimate:
        estimate = beta * limit
    return max(estimate, 1.0)
