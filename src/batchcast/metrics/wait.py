# SPDX-License-Identifier: Apache-2.0
"""How good forecasts of the wait are.

Chances and quantiles, quick starters found and misled, errors, good shares: pure functions on arrays. Below them the
classes of sizes, limits and waits that every heat map of waits shares, for rows and arrays alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEAST_JOBS = 5
"""A median of fewer jobs is not shown."""
SHADES_S = (60.0, 900.0, 7200.0, 28800.0)
"""Five shades, the same everywhere: up to a minute, a quarter, two hours, eight, and more."""
SIZES = ((1, 1), (2, 4), (5, 16), (17, 64), (65, math.inf))
LIMITS = ((0, 3600), (3600, 4 * 3600), (4 * 3600, 12 * 3600), (12 * 3600, 86400), (86400, math.inf))
"""Up to and with each end, for limits are round."""
HOURS = 3
"""Hours of a day that one cell holds."""


def class_of(value: float | None, classes: Sequence[tuple[float, float]]) -> int:
    """Which class a value is in, classes reaching up to and with their ends; -1 where it is unknown.

    >>> class_of(4.5, SIZES), class_of(0, SIZES), class_of(1e9, SIZES)
    (2, 0, 4)
    """
    if value is None or value != value:
        return -1
    return sum(value > high for _, high in classes[:-1])


def shade_of(wait: float, shades: Sequence[float] = SHADES_S) -> int:
    """Which shade a value has: how many of these limits it exceeds.

    >>> shade_of(60.0), shade_of(61.0), shade_of(1e9)
    (0, 1, 4)
    """
    return sum(wait > least for least in shades)


def log_crps(wait: np.ndarray, levels: Sequence[float], quantiles: np.ndarray) -> np.ndarray:
    """The CRPS (n,) of log(1 + wait) by quantiles (n, m) in seconds at `levels`: twice their mean pinball loss.

    Gneiting & Raftery (2007), section 4.2, on the levels given and no others; one median alone gives the absolute error
    of the logarithm.

    >>> log_crps(np.array([np.e - 1.0]), (0.5,), np.array([[0.0]])).tolist()
    [1.0]
    """
    level = np.asarray(levels, float)
    error = np.log1p(wait)[:, None] - np.log1p(np.maximum(quantiles, 0.0))
    return np.asarray(2.0 * np.maximum(level * error, (level - 1.0) * error).mean(axis=1))


def identified_curve(score: np.ndarray, quick: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of jobs marked quick from the highest `score` (n,) down: the misguided share of all, the identified of the quick.

    Both (m,) ascending, a point for each distinct score, the first where nobody is marked. O(n log n).

    >>> identified_curve(np.array([0.9, 0.5, 0.5]), np.array([True, True, False]))[1].tolist()
    [0.0, 0.5, 1.0]
    """
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0.0, True)) if len(score) else np.zeros(0, int)
    late, found = np.cumsum(~quick[order])[ends], np.cumsum(quick[order])[ends]
    total, count = max(int(quick.sum()), 1), max(len(score), 1)
    return np.append(0.0, late / count), np.append(0.0, found / total)


def identified_at(score: np.ndarray, quick: np.ndarray, misguided: float) -> float:
    """The share of quick starters identified when at most `misguided` of all jobs are marked wrongly.

    >>> identified_at(np.array([0.9, 0.5, 0.4]), np.array([True, False, True]), 0.1)
    0.5
    """
    late, found = identified_curve(score, quick)
    return float(found[np.searchsorted(late, misguided + 1e-12, side="right") - 1])


def kept_by_window(kept: np.ndarray, window: int = 5000) -> np.ndarray:
    """The share of `kept` (n,) in each window of so many jobs, in order; a last one shorter than half is left out.

    >>> kept_by_window(np.array([True, False, True, True, True]), 2).tolist()
    [0.5, 1.0, 1.0]
    """
    parts = [kept[low : low + window] for low in range(0, len(kept), window)]
    return np.array([part.mean() for part in parts if len(part) >= window / 2 or len(parts) == 1])


def reliability(chance: np.ndarray, happened: np.ndarray, bins: int = 10) -> list[tuple[float, float, int]]:
    """Mean forecast chance, observed share and number of forecasts in each of `bins` equal classes that has any.

    >>> reliability(np.array([0.1, 0.9, 1.0]), np.array([False, True, True]), 2)
    [(0.1, 0.0, 1), (0.95, 1.0, 2)]
    """
    which = np.minimum((chance * bins).astype(int), bins - 1)
    rows = []
    for k in np.unique(which).tolist():
        inside = which == k
        rows.append((float(chance[inside].mean()), float(happened[inside].mean()), int(inside.sum())))
    return rows


FOUR_HOURS_S = 4 * 3600.0
BINS_S = (3600.0, 3 * 3600.0, 6 * 3600.0, 12 * 3600.0, 86400.0, 2 * 86400.0)
INTERVALS_S = (900.0, 1800.0, 3600.0, 3 * 3600.0, 6 * 3600.0, 12 * 3600.0, 86400.0)


class WaitScore(NamedTuple):
    """The wait measures of one method over the scored jobs; shares are fractions, NaN where nothing is known."""

    jobs: int
    quick_share: float
    quick_identified: float
    quick_bounded: float
    misguided_share: float
    misguided_under_4h: float
    rms_error_s: float
    normalised_rms: float
    mean_ppert: float
    good_share: float
    bound_coverage: float
    mean_abs_error_s: float
    median_abs_error_s: float
    within_x2: float
    within_x3: float


def score_waits(
    wait: np.ndarray,
    run: np.ndarray,
    point: np.ndarray,
    bound: np.ndarray,
    marked: np.ndarray,
    answer: np.ndarray,
    threshold: float = 3600.0,
) -> WaitScore:
    """All measures of one method, each array (n,) over the scored jobs.

    `marked` (bool): the method's own word that the job starts quickly; `answer` (s): what it commits itself to.
    `quick_identified` counts marks, `quick_bounded` answers at most the threshold, whichever branch gave them;
    both among quick starters. `misguided_share` is marked but late, of all jobs; `misguided_under_4h` the share of
    those that waited less than four hours. Errors are of the point; normalised ones divide by the wait (floor 1 s).

    >>> import numpy as np
    >>> one = score_waits(np.array([60.0, 7200.0]), np.array([60.0, 60.0]), np.array([120.0, 3600.0]),
    ...                   np.array([3600.0, 3600.0]), np.array([True, True]), np.array([3600.0, 3600.0]))
    >>> one.quick_share, one.quick_identified, one.misguided_share, one.within_x2, one.bound_coverage
    (0.5, 1.0, 0.5, 1.0, 0.5)
    """
    known = ~np.isnan(wait)
    wait, run, point, bound = wait[known], run[known], point[known], bound[known]
    marked, answer = marked[known], answer[known]
    quick = wait <= threshold
    misguided = marked & ~quick
    error = np.abs(point - wait)
    bounded = ~np.isnan(bound)
    factor = ratio(point, wait)
    return WaitScore(
        jobs=len(wait),
        quick_share=_mean(quick),
        quick_identified=_mean(marked[quick]),
        quick_bounded=_mean(answer[quick] <= threshold),
        misguided_share=_mean(misguided),
        misguided_under_4h=_mean(wait[misguided] < FOUR_HOURS_S),
        rms_error_s=rms(error),
        normalised_rms=rms(error / np.maximum(wait, 1.0)),
        mean_ppert=_mean(ppert(point, wait, run)),
        good_share=_mean(good(point, wait, run)),
        bound_coverage=_mean(wait[bounded] <= bound[bounded]),
        mean_abs_error_s=_mean(error),
        median_abs_error_s=float(np.median(error)) if len(error) else float("nan"),
        within_x2=_mean(factor <= 2.0),
        within_x3=_mean(factor <= 3.0),
    )


def ppert(point: np.ndarray, wait: np.ndarray, run: np.ndarray) -> np.ndarray:
    """|predicted wait - wait| / (wait + run); a run that never was counts 0 s, the response time at least 1 s.

    >>> ppert(np.array([120.0]), np.array([60.0]), np.array([60.0])).tolist()
    [0.5]
    """
    return np.asarray(np.abs(point - wait) / np.maximum(wait + np.nan_to_num(run), 1.0))


def rounded(wait: np.ndarray) -> np.ndarray:
    """Waits rounded up to the interval of their bin (Table 6): 37 minutes become 45.

    >>> rounded(np.array([37 * 60.0, 4000.0])).tolist()
    [2700.0, 5400.0]
    """
    interval = np.array(INTERVALS_S)[np.searchsorted(BINS_S, wait, side="left")]
    return np.asarray(np.ceil(wait / interval) * interval)


def bin_of(wait: np.ndarray) -> np.ndarray:
    """The bin of each wait, 0 (at most 1 h) to 6 (more than 2 days).

    >>> bin_of(np.array([3600.0, 3601.0, 1e6])).tolist()
    [0, 1, 6]
    """
    return np.searchsorted(BINS_S, wait, side="left")


def good(point: np.ndarray, wait: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Whether a forecast is good: both rounded values in one bin, or PPErt at most 0.10."""
    return np.asarray((bin_of(rounded(point)) == bin_of(rounded(wait))) | (ppert(point, wait, run) <= 0.10))


def ratio(point: np.ndarray, wait: np.ndarray) -> np.ndarray:
    """The larger over the smaller of forecast and wait, each at least 1 s.

    >>> ratio(np.array([10.0, 0.0]), np.array([30.0, 0.0])).tolist()
    [3.0, 1.0]
    """
    p, w = np.maximum(point, 1.0), np.maximum(wait, 1.0)
    return np.asarray(np.maximum(p / w, w / p))


def rms(error: np.ndarray) -> float:
    """Root of the mean square; NaN of nothing."""
    return float(np.sqrt(np.mean(np.square(error)))) if len(error) else float("nan")


def rms_decrease(of: float, against: float) -> float:
    """(against - of) / against: how much smaller the first root-mean-square error is.

    >>> rms_decrease(50.0, 200.0)
    0.75
    """
    return (against - of) / against if against > 0 else float("nan")


def error_by_range(wait: np.ndarray, point: np.ndarray) -> list[float]:
    """Mean absolute error in each bin of the actual wait (7 values, NaN where a bin is empty)."""
    where, error = bin_of(wait), np.abs(point - wait)
    return [_mean(error[where == b]) for b in range(len(INTERVALS_S))]


def ranges_matrix(wait: np.ndarray, point: np.ndarray) -> np.ndarray:
    """(7, 7) counts of jobs by bin of the actual wait (rows) and of the forecast (columns)."""
    size = len(INTERVALS_S)
    return np.bincount(bin_of(wait) * size + bin_of(point), minlength=size * size).reshape(size, size)


def _mean(values: np.ndarray | Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")
