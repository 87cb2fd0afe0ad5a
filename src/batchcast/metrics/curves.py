# SPDX-License-Identifier: Apache-2.0
"""Distribution functions, running means, time series and rank correlation, as curves of a few hundred points.

The number of points does not grow with the log, so a page can draw the curves of any log.
"""

from __future__ import annotations

import numpy as np

POINTS = 400


def cdf(values: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Return at most `points` ascending values of a sample, and the fraction of values <= each of them; NaN is ignored.

    >>> [column.tolist() for column in cdf(np.array([3.0, 1.0, 3.0, 9.0]))]
    [[1.0, 3.0, 9.0], [0.25, 0.75, 1.0]]
    """
    # If there are more distinct values than points, the curve has evenly spaced quantiles, among them the minimum and
    # the maximum. Every point of the curve is exact. O(n log n).
    values = np.asarray(values, float)
    x, count = np.unique(values[~np.isnan(values)], return_counts=True)
    share = np.cumsum(count) / max(count.sum(), 1)
    if len(x) > points:
        keep = np.unique(np.searchsorted(share, np.linspace(share[0], 1.0, points)))
        x, share = x[keep], share[keep]
    return x, share


def cdf_gap(values: np.ndarray, reference: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Return ascending values, and at each the distribution function of `values` minus that of `reference`; empty if a
    sample is empty.

    >>> [column.tolist() for column in cdf_gap(np.array([1.0, 2.0]), np.array([2.0, 3.0]))]
    [[1.0, 2.0, 3.0], [0.5, 0.5, 0.0]]
    """
    # The points are evenly spaced quantiles of both samples together. Every point of the curve is exact. O(n log n).
    sample, base = (np.sort(np.asarray(v, float)[~np.isnan(v)]) for v in (values, reference))
    if not len(sample) or not len(base):
        return np.zeros(0), np.zeros(0)
    x, _ = cdf(np.concatenate([sample, base]), points)
    return x, np.searchsorted(sample, x, "right") / len(sample) - np.searchsorted(base, x, "right") / len(base)


def busy_share(start: np.ndarray, end: np.ndarray, procs: np.ndarray, edges: np.ndarray, total: float) -> np.ndarray:
    """Return the share of `total` processors that are busy in each time interval between `edges` (seconds), shape (m,);
    jobs with an unknown time or size are ignored.

    >>> busy_share(np.array([0.0]), np.array([15.0]), np.array([2.0]), np.array([0.0, 10.0, 20.0]), 4.0).tolist()
    [0.5, 0.25]
    """
    # The function computes the processor-seconds used up to each edge, and takes differences between edges. Costs O((n
    # + m) log n).
    known = ~(np.isnan(start) | np.isnan(end) | np.isnan(procs))
    start, end, procs = start[known], end[known], procs[known]
    done = _work_before(start, procs, edges) - _work_before(end, procs, edges)
    return np.asarray(np.diff(done) / (np.diff(edges) * total))


def mean_count(since: np.ndarray, until: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Compute the mean number of stays that are in progress in each time interval.

    A stay is a time span of one job. If stays last from submission to start, the result is the mean queue length.

    >>> mean_count(np.array([0.0, 5.0]), np.array([10.0, 10.0]), np.array([0.0, 10.0, 20.0])).tolist()
    [1.5, 0.0]
    """
    # Costs O((n + m) log n).
    with np.errstate(invalid="ignore"):
        return np.asarray(np.maximum(busy_share(since, until, np.ones(len(since)), edges, 1.0), 0.0))


def steps(
    since: np.ndarray, until: np.ndarray, weights: np.ndarray, low: float, high: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the times between `low` and `high` (seconds) at which the sum of the weights of all stays in progress
    changes, and the sums from each time to the next.

    >>> at, sums = steps(np.array([0.0, 5.0]), np.array([9.0, 9.0]), np.array([[4], [2]]), 1.0, 20.0)
    >>> at.tolist(), sums.tolist()
    ([1.0, 5.0, 9.0], [[4], [6], [0]])
    """
    # A stay counts from `since` on, and does not count at `until`. The first time is `low`; the last row of sums
    # applies until `high`.
    #
    # Costs O(n log n).
    stays = (since < high) & (until > low) & (until > since)
    begin, end, weights = np.maximum(since[stays], low), until[stays], weights[stays]
    at, index = np.unique(np.concatenate([[low], begin, end]), return_inverse=True)
    change = np.zeros((len(at), weights.shape[1]), weights.dtype)
    np.add.at(change, index[1:], np.concatenate([weights, -weights]))
    is_step = (change.any(axis=1) | (at == low)) & (at < high)
    return at[is_step], np.cumsum(change, axis=0)[is_step]


def _work_before(time: np.ndarray, procs: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the sum over jobs of procs * max(edge - time, 0) for each edge, shape (m,)."""
    is_whole = all((values == np.floor(values)).all() for values in (time, procs))
    if is_whole and float(np.abs(procs * time).sum()) < 2**53:
        # Sums of whole numbers below 2**53 are exact in any order, so the times need no sorting.
        first = np.searchsorted(edges, time, side="right")
        width, moment = (
            np.cumsum(np.bincount(first, weights, len(edges) + 1))[: len(edges)] for weights in (procs, procs * time)
        )
        return np.asarray(width * edges - moment)
    order = np.argsort(time)
    time, procs = time[order], procs[order]
    count = np.searchsorted(time, edges)
    width = np.concatenate([[0.0], np.cumsum(procs)])[count]
    moment = np.concatenate([[0.0], np.cumsum(procs * time)])[count]
    return np.asarray(width * edges - moment)


def cdf_distance(values: np.ndarray, reference: np.ndarray) -> float:
    """Compute the largest difference of two empirical distribution functions (Kolmogorov-Smirnov distance).

    >>> cdf_distance(np.array([1.0, 2.0]), np.array([1.0, 1.0])), cdf_distance(np.ones(3), np.ones(5))
    (0.5, 0.0)
    """
    gap = cdf_gap(values, reference, len(values) + len(reference))[1]
    return float(np.abs(gap).max()) if len(gap) else float("nan")


def ranks(values: np.ndarray) -> np.ndarray:
    """Compute ranks from 0; equal values share their mean rank.

    >>> ranks(np.array([5.0, 1.0, 5.0])).tolist()
    [1.5, 0.0, 1.5]
    """
    _, index, count = np.unique(values, return_inverse=True, return_counts=True)
    mean_rank: np.ndarray = np.cumsum(count) - 1 - (count - 1) / 2
    return mean_rank[index]


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Return Spearman's rank correlation, with mean ranks for equal values; NaN for fewer than two pairs, or if all
    values of one array are equal.

    >>> round(rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([10.0, 30.0, 20.0])), 6)
    0.5
    """
    x_ranks, y_ranks = ranks(x), ranks(y)
    if len(x) < 2 or np.ptp(x_ranks) == 0 or np.ptp(y_ranks) == 0:
        return float("nan")
    return float(np.corrcoef(x_ranks, y_ranks)[0, 1])
