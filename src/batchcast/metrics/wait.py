# SPDX-License-Identifier: Apache-2.0
"""Measures of wait predictions: probabilities, quantiles, errors, and how well quick starts are identified.

The module also defines the classes of sizes, time limits and waits that all heat maps of waits share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .coverage import is_covered
from .measure import Measure, mean

COMPARED = (
    Measure("mean_abs_error_s", "seconds", "mean error", meaning="mean absolute error of the likely wait"),
    Measure(
        "crps_log", "number", "CRPS", meaning="continuous ranked probability score of log(1 + wait); lower is better"
    ),
)
"""The measures in which wait predictions are compared, each the mean of one value per job."""
LEAST_JOBS = 5
"""Smallest number of jobs for which a median is shown."""
SHADES_S = (60.0, 900.0, 7200.0, 28800.0)
"""Upper limits of the first four of five shades, in seconds: 1 minute, 15 minutes, 2 hours, 8 hours."""
SIZES = ((1, 1), (2, 4), (5, 16), (17, 64), (65, math.inf))
LIMITS = ((0, 3600), (3600, 4 * 3600), (4 * 3600, 12 * 3600), (12 * 3600, 86400), (86400, math.inf))
"""Classes of time limits in seconds. Each class includes its upper end, because users request round limits."""
HOURS = 3
"""Width of a heat map's cell on the axis of the time of day, in hours."""


def class_of(value: float | None, classes: Sequence[tuple[float, float]]) -> int:
    """Return the index into `classes` of a job's size, time limit or wait, -1 if unknown; each class includes its upper
    end.

    >>> class_of(4.5, SIZES), class_of(0, SIZES), class_of(1e9, SIZES)
    (2, 0, 4)
    """
    if value is None or value != value:
        return -1
    return sum(value > high for _, high in classes[:-1])


def shade_of(wait: float, shades: Sequence[float] = SHADES_S) -> int:
    """Return the number of a wait's shade on a heat map: how many of the upper limits (seconds) the wait exceeds.

    >>> shade_of(60.0), shade_of(61.0), shade_of(1e9)
    (0, 1, 4)
    """
    return sum(wait > least for least in shades)


def log_crps(wait: np.ndarray, levels: Sequence[float], quantiles: np.ndarray) -> np.ndarray:
    """Return the CRPS of log(1 + wait), shape (n,), from quantiles in seconds, shape (n, m); lower is better.

    >>> log_crps(np.array([np.e - 1.0]), (0.5,), np.array([[0.0]])).tolist()
    [1.0]
    """
    return crps(np.log1p(wait), levels, np.log1p(np.maximum(quantiles, 0.0)))


def crps(actual: np.ndarray, levels: Sequence[float], quantiles: np.ndarray) -> np.ndarray:
    """Return the continuous ranked probability score (n,) of actual values (n,) under quantiles (n, m) at ascending
    levels; of a single point at level 0.5, this is the absolute error.

    >>> crps(np.array([3.0]), (0.25, 0.75), np.array([[1.0, 2.0]])).tolist()
    [1.1875]
    """
    # Twice the integral of the pinball loss over all levels from 0 to 1 (Gneiting & Raftery 2007, section 4.2), by the
    # trapezoidal rule: a level counts by its distance from its neighbours. Tails: quantiles below the lowest and above
    # the highest level are the lowest and the highest given quantile; there, the rule is exact.
    level = np.array([0.0, *levels, 1.0])
    error = actual[:, None] - np.column_stack([quantiles[:, 0], quantiles, quantiles[:, -1]])
    return np.asarray(2.0 * np.trapezoid(np.maximum(level * error, (level - 1.0) * error), level, axis=1))


def identified_curve(score: np.ndarray, quick: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the fractions of all jobs that are marked but not quick, and the fractions of the quick jobs that are
    marked.

    Jobs are marked as quick in order of falling score.

    >>> identified_curve(np.array([0.9, 0.5, 0.5]), np.array([True, True, False]))[1].tolist()
    [0.0, 0.5, 1.0]
    """
    # At the first point of the curve, no job is marked. Every other point marks the jobs down to one further distinct
    # score. O(n log n).
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0.0, True)) if len(score) else np.zeros(0, int)
    misguided, identified = np.cumsum(~quick[order])[ends], np.cumsum(quick[order])[ends]
    total, count = max(int(quick.sum()), 1), max(len(score), 1)
    return np.append(0.0, misguided / count), np.append(0.0, identified / total)


def identified_at(score: np.ndarray, quick: np.ndarray, misguided: float) -> float:
    """Compute the fraction of quick starters that is identified at a given fraction of misguided jobs.

    >>> identified_at(np.array([0.9, 0.5, 0.4]), np.array([True, False, True]), 0.1)
    0.5
    """
    misguided_shares, identified = identified_curve(score, quick)
    return float(identified[np.searchsorted(misguided_shares, misguided + 1e-12, side="right") - 1])


def share_by_window(is_true: np.ndarray, window: int = 5000) -> np.ndarray:
    """Compute the share of True values in consecutive windows of jobs.

    >>> share_by_window(np.array([True, False, True, True, True]), 2).tolist()
    [0.5, 1.0, 1.0]
    """
    # A last window with fewer than half the jobs is left out, because its share says little.
    parts = [is_true[low : low + window] for low in range(0, len(is_true), window)]
    return np.array([part.mean() for part in parts if len(part) >= window / 2 or len(parts) == 1])


def reliability(chance: np.ndarray, happened: np.ndarray, bins: int = 10) -> list[tuple[float, float, int]]:
    """Return mean predicted probability, observed share and number of predictions of each bin of equal width that is
    not empty.

    >>> reliability(np.array([0.1, 0.9, 1.0]), np.array([False, True, True]), 2)
    [(0.1, 0.0, 1), (0.95, 1.0, 2)]
    """
    which = np.minimum((chance * bins).astype(int), bins - 1)
    rows = []
    for k in np.unique(which).tolist():
        inside = which == k
        rows.append((float(chance[inside].mean()), float(happened[inside].mean()), int(inside.sum())))
    return rows


BINS_S = (3600.0, 3 * 3600.0, 6 * 3600.0, 12 * 3600.0, 86400.0, 2 * 86400.0)
INTERVALS_S = (900.0, 1800.0, 3600.0, 3 * 3600.0, 6 * 3600.0, 12 * 3600.0, 86400.0)


def score_waits(
    wait: np.ndarray,
    run: np.ndarray,
    point: np.ndarray,
    bound: np.ndarray,
    marked: np.ndarray,
    answer: np.ndarray,
    threshold: float = 3600.0,
) -> dict[str, float]:
    """Return all measures of one wait predictor by name; times are in seconds, shape (n,), and jobs with an unknown
    wait are ignored.

    >>> import numpy as np
    >>> one = score_waits(np.array([60.0, 7200.0]), np.array([60.0, 60.0]), np.array([120.0, 3600.0]),
    ...                   np.array([3600.0, 3600.0]), np.array([True, True]), np.array([3600.0, 3600.0]))
    >>> [one[name] for name in ("quick_share", "quick_identified", "misguided_share", "within_x2", "bound_coverage")]
    [0.5, 1.0, 0.5, 1.0, 0.5]
    """
    # `quick_identified` is the share of quick starters that were marked, `quick_bounded` the share of quick starters
    # whose `answer` is at most the threshold. `misguided_share` is the share of all jobs that were marked but started
    # late, and `misguided_under_4h` the share of the misguided jobs that waited less than four hours. Error measures
    # compare `point` with `wait`. Normalised errors are divided by the wait, which counts as at least 1 s.
    known = ~np.isnan(wait)
    wait, run, point, bound, marked, answer = (each[known] for each in (wait, run, point, bound, marked, answer))
    quick = wait <= threshold
    misguided = marked & ~quick
    error = np.abs(point - wait)
    bounded = ~np.isnan(bound)
    factor = ratio(point, wait)
    return {
        "jobs": len(wait),
        "quick_share": mean(quick),
        "quick_identified": mean(marked[quick]),
        "quick_bounded": mean(answer[quick] <= threshold),
        "misguided_share": mean(misguided),
        "misguided_under_4h": mean(wait[misguided] < 4 * 3600.0),
        "rms_error_s": rms(error),
        "normalised_rms": rms(error / np.maximum(wait, 1.0)),
        "mean_ppert": mean(ppert(point, wait, run)),
        "good_share": mean(good(point, wait, run)),
        "bound_coverage": mean(is_covered(wait[bounded], bound[bounded])),
        "mean_abs_error_s": mean(error),
        "median_abs_error_s": float(np.median(error)) if len(error) else float("nan"),
        "within_x2": mean(factor <= 2.0),
        "within_x3": mean(factor <= 3.0),
    }


def ppert(point: np.ndarray, wait: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Compute abs(point - wait) / (wait + run), the prediction error relative to the response time; an unknown run time
    counts as 0 s, a response time as at least 1 s.

    >>> ppert(np.array([120.0]), np.array([60.0]), np.array([60.0])).tolist()
    [0.5]
    """
    return np.asarray(np.abs(point - wait) / np.maximum(wait + np.nan_to_num(run), 1.0))


def rounded(wait: np.ndarray) -> np.ndarray:
    """Round waits up to the interval of their bin; 37 minutes become 45 minutes.

    >>> rounded(np.array([37 * 60.0, 4000.0])).tolist()
    [2700.0, 5400.0]
    """
    # R. Kumar and S. Vadhiyar, "Identifying quick starters", JSSPP 2012, table 6.
    interval = np.array(INTERVALS_S)[bin_of(wait)]
    return np.asarray(np.ceil(wait / interval) * interval)


def bin_of(wait: np.ndarray) -> np.ndarray:
    """Find the bin of each wait: 0 (at most 1 hour) to 6 (more than 2 days).

    >>> bin_of(np.array([3600.0, 3601.0, 1e6])).tolist()
    [0, 1, 6]
    """
    return np.searchsorted(BINS_S, wait, side="left")


def good(point: np.ndarray, wait: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Whether each rounded prediction is in the bin of the rounded wait, or `ppert` is at most 0.10."""
    return np.asarray((bin_of(rounded(point)) == bin_of(rounded(wait))) | (ppert(point, wait, run) <= 0.10))


def ratio(point: np.ndarray, wait: np.ndarray) -> np.ndarray:
    """Compute max(prediction, wait) / min(prediction, wait), where values below 1 s count as 1 s.

    >>> ratio(np.array([10.0, 0.0]), np.array([30.0, 0.0])).tolist()
    [3.0, 1.0]
    """
    p, w = np.maximum(point, 1.0), np.maximum(wait, 1.0)
    return np.asarray(np.maximum(p / w, w / p))


def rms(error: np.ndarray) -> float:
    """Compute the root of the mean square of the errors; NaN without errors."""
    return math.sqrt(mean(np.square(error)))


def error_by_range(wait: np.ndarray, point: np.ndarray) -> list[float]:
    """Return the mean absolute error in seconds in each of the seven bins of the actual wait; NaN for an empty bin."""
    bins, error = bin_of(wait), np.abs(point - wait)
    return [mean(error[bins == b]) for b in range(len(INTERVALS_S))]
