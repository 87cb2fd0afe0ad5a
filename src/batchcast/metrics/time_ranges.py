"""Forecasts as classes of run time: precision and recall per range, and the relative error of the best."""

from __future__ import annotations

import numpy as np


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
