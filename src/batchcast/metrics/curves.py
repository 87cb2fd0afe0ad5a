# SPDX-License-Identifier: Apache-2.0
"""Distributions and running means as short curves, which a page can draw of 200,000 jobs.

And how alike two orders of the same jobs are.
"""

from __future__ import annotations

import numpy as np

POINTS = 400


def cdf(values: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """The empirical distribution function: x ascending and the share of values <= x, at most `points` points.

    Unknown values (NaN) are left out. Of more than `points` distinct values, evenly spaced quantiles are kept, the
    smallest and the largest among them; every kept point is exact. O(n log n).

    >>> [column.tolist() for column in cdf(np.array([3.0, 1.0, 3.0, 9.0]))]
    [[1.0, 3.0, 9.0], [0.25, 0.75, 1.0]]
    """
    values = np.asarray(values, float)
    x, count = np.unique(values[~np.isnan(values)], return_counts=True)
    share = np.cumsum(count) / max(count.sum(), 1)
    if len(x) > points:
        keep = np.unique(np.searchsorted(share, np.linspace(share[0], 1.0, points)))
        x, share = x[keep], share[keep]
    return x, share


def cdf_gap(values: np.ndarray, reference: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """By how much the distribution function of one sample lies above that of a reference: x ascending, the difference.

    Drawn at the values of both (at most `points` evenly spaced quantiles of them together); every point is exact.
    Unknown values (NaN) are left out. O(n log n).

    >>> [column.tolist() for column in cdf_gap(np.array([1.0, 2.0]), np.array([2.0, 3.0]))]
    [[1.0, 2.0, 3.0], [0.5, 0.5, 0.0]]
    """
    one, other = (np.sort(np.asarray(v, float)[~np.isnan(v)]) for v in (values, reference))
    if not len(one) or not len(other):
        return np.zeros(0), np.zeros(0)
    x, _ = cdf(np.concatenate([one, other]), points)
    return x, np.searchsorted(one, x, "right") / len(one) - np.searchsorted(other, x, "right") / len(other)


def running_mean(values: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the first k values as k grows: (k, mean), at most `points` points, evenly spread and the last included.

    Unknown values (NaN) are left out and not counted.

    >>> [column.tolist() for column in running_mean(np.array([4.0, 2.0, 0.0]))]
    [[1, 2, 3], [4.0, 3.0, 2.0]]
    """
    values = np.asarray(values, float)
    values = values[~np.isnan(values)]
    if not len(values):
        return np.zeros(0, int), np.zeros(0)
    count = np.unique(np.linspace(1, len(values), min(points, len(values))).round().astype(int))
    return count, np.cumsum(values)[count - 1] / count


def busy_share(start: np.ndarray, end: np.ndarray, procs: np.ndarray, edges: np.ndarray, total: float) -> np.ndarray:
    """Share of `total` processors busy in each interval of ascending `edges` (m + 1,), as (m,) fractions.

    Jobs with an unknown time or size are left out. O((n + m) log n): the work done up to each edge, differenced.

    >>> busy_share(np.array([0.0]), np.array([15.0]), np.array([2.0]), np.array([0.0, 10.0, 20.0]), 4.0).tolist()
    [0.5, 0.25]
    """
    known = ~(np.isnan(start) | np.isnan(end) | np.isnan(procs))
    start, end, procs = start[known], end[known], procs[known]
    done = _work_before(start, procs, edges) - _work_before(end, procs, edges)
    return np.asarray(np.diff(done) / (np.diff(edges) * total))


def mean_count(since: np.ndarray, until: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many of n stays last on average in each interval of ascending `edges` (m + 1,): (m,), NaN where it is empty.

    Of waits, from submission to start: the mean length of the queue. Unknown times are left out. O((n + m) log n).

    >>> mean_count(np.array([0.0, 5.0]), np.array([10.0, 10.0]), np.array([0.0, 10.0, 20.0])).tolist()
    [1.5, 0.0]
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(np.maximum(busy_share(since, until, np.ones(len(since)), edges, 1.0), 0.0))


def steps(
    since: np.ndarray, until: np.ndarray, weights: np.ndarray, low: float, high: float
) -> tuple[np.ndarray, np.ndarray]:
    """What n stays weigh together at every instant between two: instants (m,) from `low` on, and sums (m, k).

    A stay counts from `since` up to, and not at, `until`; `weights` is (n, k); each sum holds up to the next instant,
    the last one to `high`. Unknown times are left out. Instants at which no sum changes are none. O(n log n).

    >>> at, sums = steps(np.array([0.0, 5.0]), np.array([9.0, 9.0]), np.array([[4], [2]]), 1.0, 20.0)
    >>> at.tolist(), sums.tolist()
    ([1.0, 5.0, 9.0], [[4], [6], [0]])
    """
    stays = (since < high) & (until > low) & (until > since)
    begin, end, weights = np.maximum(since[stays], low), until[stays], weights[stays]
    at, place = np.unique(np.concatenate([[low], begin, end]), return_inverse=True)
    change = np.zeros((len(at), weights.shape[1]), weights.dtype)
    np.add.at(change, place[1:], np.concatenate([weights, -weights]))
    kept = (change.any(axis=1) | (at == low)) & (at < high)
    return at[kept], np.cumsum(change, axis=0)[kept]


def _work_before(time: np.ndarray, procs: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Sum of procs * max(edge - time, 0) at each edge: the area of jobs that would run on for ever from `time`."""
    if _all_whole(time) and _all_whole(procs) and float(np.abs(procs * time).sum()) < 2**53:
        first = np.searchsorted(edges, time, side="right")  # every sum is exact: whole ones need no order, and no sort
        width, moment = (
            np.cumsum(np.bincount(first, one, len(edges) + 1))[: len(edges)] for one in (procs, procs * time)
        )
        return np.asarray(width * edges - moment)
    order = np.argsort(time)
    time, procs = time[order], procs[order]
    count = np.searchsorted(time, edges)
    width = np.concatenate([[0.0], np.cumsum(procs)])[count]
    moment = np.concatenate([[0.0], np.cumsum(procs * time)])[count]
    return np.asarray(width * edges - moment)


def _all_whole(values: np.ndarray) -> bool:
    return bool((values == np.floor(values)).all())


def cdf_distance(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of two empirical distribution functions (Kolmogorov & Smirnov), NaN of no values.

    O(n log n).

    >>> cdf_distance(np.array([1.0, 2.0]), np.array([1.0, 1.0])), cdf_distance(np.ones(3), np.ones(5))
    (0.5, 0.0)
    """
    if not len(one) or not len(other):
        return float("nan")
    both = np.concatenate([one, other])
    shares = (np.searchsorted(np.sort(values), both, side="right") / len(values) for values in (one, other))
    return float(np.abs(np.subtract(*shares)).max())


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
