# SPDX-License-Identifier: Apache-2.0
"""Measures that only the papers use."""

from __future__ import annotations

import numpy as np

from batchcast.metrics.curves import POINTS
from batchcast.metrics.measure import mean
from batchcast.metrics.wait import INTERVALS_S, bin_of


def precision_recall(
    predicted: np.ndarray, actual: np.ndarray, low: float, high: float = float("inf")
) -> tuple[float, float]:
    """Compute precision and recall of a predictor for run times in the range [low, high).

    >>> precision_recall(np.array([10.0, 20.0, 90.0]), np.array([15.0, 70.0, 30.0]), 0.0, 60.0)
    (0.5, 0.5)
    """
    # Wu et al. 2019, equations 1 and 2 (ACC and REC).
    is_predicted = (predicted >= low) & (predicted < high)
    is_actual = (actual >= low) & (actual < high)
    return mean(is_actual[is_predicted]), mean(is_predicted[is_actual])


def best_relative_error(predicted: np.ndarray, actual: np.ndarray, under: float = 3600.0, share: float = 0.9) -> float:
    """Return the mean of abs(P - R) / R over the `share` of best predictions P below `under` seconds; NaN if there is
    no such prediction.

    >>> round(best_relative_error(np.array([100.0, 200.0]), np.array([110.0, 900.0])), 4)
    0.0909
    """
    # Wu et al. 2019, section 4 and table 5.
    short = predicted < under
    if not short.any():
        return float("nan")
    error = np.abs(predicted[short] - actual[short])
    best = np.argsort(error, kind="stable")[: max(1, int(share * len(error)))]
    return float((error[best] / actual[short][best]).mean())


def running_mean(values: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Return evenly spaced counts k, and the mean of the first k values for each; NaN is ignored.

    >>> [column.tolist() for column in running_mean(np.array([4.0, 2.0, 0.0]))]
    [[1, 2, 3], [4.0, 3.0, 2.0]]
    """
    values = np.asarray(values, float)
    values = values[~np.isnan(values)]
    if not len(values):
        return np.zeros(0, int), np.zeros(0)
    count = np.unique(np.linspace(1, len(values), min(points, len(values))).round().astype(int))
    return count, np.cumsum(values)[count - 1] / count


def rms_decrease(error: float, reference: float) -> float:
    """Compute the fraction by which an error is smaller than a reference error.

    >>> rms_decrease(50.0, 200.0)
    0.75
    """
    return (reference - error) / reference if reference > 0 else float("nan")


def ranges_matrix(wait: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Count jobs by the bins of their actual wait (rows) and predicted wait (columns), shape (7, 7)."""
    size = len(INTERVALS_S)
    return np.bincount(bin_of(wait) * size + bin_of(point), minlength=size * size).reshape(size, size)
