"""Clusters of job shapes: processors and limit on log scales, their number by an information criterion."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...job import JobRequest

HOUR_S = 3600.0


def shape(job: JobRequest) -> tuple[float, float]:
    """(log2 processors, log2 limit); unknown processors count as 1, an unknown limit as an hour.

    >>> shape(JobRequest(0, 1, 0.0, 4.0, 1024.0, float("nan")))
    (2.0, 10.0)
    """
    procs = job.procs if job.procs >= 1 else 1.0
    limit = min(job.req_time, 1e9) if job.req_time >= 1 else HOUR_S
    return math.log2(procs), math.log2(limit)


def nearest_center(centers: Sequence[Sequence[float]], place: Sequence[float]) -> int:
    """The index of the nearest center; the first among equals.

    >>> nearest_center([[0.0], [5.0]], (4.0,))
    1
    """
    best, at = math.inf, 0
    for k, center in enumerate(centers):
        far = 0.0
        for x, y in zip(center, place):
            far += (x - y) * (x - y)
        if far < best:
            best, at = far, k
    return at


def cluster_shapes(places: np.ndarray, most: int) -> np.ndarray:
    """Centers (k, d) of at most `most` clusters of (n, d) shapes: k-means, k by BIC (Pelleg & Moore 2000, section 3).

    Deterministic: the first center is the mean, each further one starts at the shape farthest from all before.

    >>> import numpy as np
    >>> two = np.array([[0.0, 5.0], [0.1, 5.1], [6.0, 12.0], [6.1, 12.1]] * 30)
    >>> cluster_shapes(two, 4).round(1).tolist()[:1]
    [[...]]
    """
    distinct, counts = np.unique(places, axis=0, return_counts=True)
    best, best_score = distinct.mean(axis=0, keepdims=True), -math.inf
    for k in range(1, min(most, len(distinct)) + 1):
        centers = _k_means(distinct, counts, k)
        score = _bic(distinct, counts, centers)
        if score > best_score:
            best, best_score = centers, score
    return np.asarray(best)


def _k_means(places: np.ndarray, counts: np.ndarray, k: int) -> np.ndarray:
    centers = np.average(places, axis=0, weights=counts)[None]
    for _ in range(1, k):
        centers = np.concatenate([centers, places[[_squared(places, centers).min(axis=1).argmax()]]])
    for _ in range(50):
        member = _squared(places, centers).argmin(axis=1)
        moved = np.array(
            [
                np.average(places[member == c], axis=0, weights=counts[member == c]) if (member == c).any() else old
                for c, old in enumerate(centers)
            ]
        )
        if np.array_equal(moved, centers):
            break
        centers = moved
    return centers


def _squared(places: np.ndarray, centers: np.ndarray) -> np.ndarray:
    return np.asarray(((places[:, None, :] - centers[None]) ** 2).sum(axis=2))


def _bic(places: np.ndarray, counts: np.ndarray, centers: np.ndarray) -> float:
    """Twice the log likelihood of spherical normal clusters of one variance, less (d + 1) k numbers at log n each."""
    apart, n, (k, d) = _squared(places, centers), counts.sum(), centers.shape
    sizes = np.bincount(apart.argmin(axis=1), counts, k)
    spread = (apart.min(axis=1) * counts).sum()
    variance = max(spread / max(d * (n - k), 1), 1e-3)
    shares = float(sizes[sizes > 0] @ np.log(sizes[sizes > 0] / n))
    return float(2.0 * shares - n * d * math.log(variance) - spread / variance - (d + 1) * k * math.log(n))
