# SPDX-License-Identifier: Apache-2.0
"""How good forecasts of run time are, as errors and as classes of run time.

Pure functions on arrays of predicted and actual seconds.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

SIZE_EDGES = np.array([2.0, 5.0, 17.0, 65.0])
_EDGES = SIZE_EDGES.tolist()
SIZE_CLASSES = ("1", "2-4", "5-16", "17-64", "65+")


def accuracy(predicted: np.ndarray, actual: np.ndarray) -> dict[str, float]:
    """The figures of one predictor over n jobs; seconds, except `apa` and `underestimate_rate` (fractions).

    mae_s and median_ae_s, p95_ae_s: mean, median and 95th percentile (linear interpolation) of |P - R|; apa: see
    `relative_accuracy`; underestimate_rate: share with P < R; mean_shortfall_s: mean R - P over those (NaN when there
    are none). O(n).

    >>> accuracy(np.array([10.0, 30.0]), np.array([20.0, 30.0]))["mean_shortfall_s"]
    10.0
    """
    predicted, actual = np.asarray(predicted, float), np.asarray(actual, float)
    known = ~(np.isnan(predicted) | np.isnan(actual))
    p, r = predicted[known], actual[known]
    error = np.abs(p - r)
    short = (r - p)[p < r]
    nothing = float("nan")
    return {
        "jobs": len(p),
        "mae_s": float(error.mean()) if len(p) else nothing,
        "median_ae_s": float(np.median(error)) if len(p) else nothing,
        "apa": float(relative_accuracy(p, r).mean()) if len(p) else nothing,
        "underestimate_rate": len(short) / len(p) if len(p) else nothing,
        "mean_shortfall_s": float(short.mean()) if len(short) else nothing,
        "p95_ae_s": float(np.percentile(error, 95)) if len(p) else nothing,
    }


def relative_accuracy(predicted: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """min(P, R) / max(P, R) of each pair, between 0 and 1; 0/0 is 1 (both were zero: nothing was wrong).

    Its mean is the `apa` of a predictor; of the users' limits it is their accuracy.

    >>> relative_accuracy(np.array([0.0, 5.0, 40.0]), np.array([0.0, 10.0, 10.0])).tolist()
    [1.0, 0.5, 0.25]
    """
    high = np.maximum(predicted, actual)
    low = np.minimum(predicted, actual)
    return np.asarray(np.divide(low, high, out=np.ones(np.shape(high)), where=high != 0))


def size_class(procs: np.ndarray) -> np.ndarray:
    """Index into `SIZE_CLASSES` of each processor count, -1 where it is unknown; of one count, see `size_class_of`.

    >>> [SIZE_CLASSES[k] for k in size_class(np.array([1.0, 4.0, 5.0, 64.0, 65.0]))]
    ['1', '2-4', '5-16', '17-64', '65+']
    """
    procs = np.asarray(procs, float)
    return np.where(np.isnan(procs), -1, np.searchsorted(SIZE_EDGES, procs, side="right"))


def size_class_of(procs: float) -> int:
    """`size_class` of one processor count.

    >>> size_class_of(1), size_class_of(5), size_class_of(1000), size_class_of(float("nan"))
    (0, 2, 4, -1)
    """
    return -1 if procs != procs else bisect_right(_EDGES, procs)


def precision_recall(
    predicted: np.ndarray, actual: np.ndarray, low: float, high: float = float("inf")
) -> tuple[float, float]:
    """ACC and REC of the range T = [low, high) seconds; Wu et al. 2019, eqs. 1 and 2.

    ACC(T) = |pred in T and actual in T| / |pred in T| (precision), REC(T) the same over |actual in T| (recall); NaN
    over nothing. O(n).

    >>> precision_recall(np.array([10.0, 20.0, 90.0]), np.array([15.0, 70.0, 30.0]), 0.0, 60.0)
    (0.5, 0.5)
    """
    within = (predicted >= low) & (predicted < high)
    true = (actual >= low) & (actual < high)
    both = int((within & true).sum())
    nothing = float("nan")
    return (
        both / int(within.sum()) if within.any() else nothing,
        both / int(true.sum()) if true.any() else nothing,
    )


def best_relative_error(predicted: np.ndarray, actual: np.ndarray, under: float = 3600.0, share: float = 0.9) -> float:
    """Mean of |P - R| / R over the best `share`, by absolute error, of jobs predicted under `under` seconds.

    Wu et al. 2019, section 4 and table 5. The number of jobs kept is floor(share n), at least one; NaN where no job
    is predicted that short. O(n log n).

    >>> round(best_relative_error(np.array([100.0, 200.0]), np.array([110.0, 900.0])), 4)
    0.0909
    """
    short = predicted < under
    if not short.any():
        return float("nan")
    error = np.abs(predicted[short] - actual[short])
    best = np.argsort(error, kind="stable")[: max(1, int(share * len(error)))]
    return float((error[best] / actual[short][best]).mean())
