# SPDX-License-Identifier: Apache-2.0
"""The 33 bins of time since submission, and conversions between probabilities at their ends and wait times.

Also defines `WaitCurve`, the predicted wait distribution of one job.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

ENDS_S = np.array(
    [0, 1, 3, 6, 10, 20, 30, 60, 120, 180, 300, 450, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200, 10800, 14400]
    + [21600, 28800, 43200, 57600, 86400, 129600, 172800, 259200, 432000, 864000],
    float,
)
"""Ends (32,) in seconds of all bins but the last; each end belongs to its bin. The first bin holds waits of 0 s."""
BINS = len(ENDS_S) + 1
LAST_S = 4.0 * ENDS_S[-1]
"""End of the last bin if a number is needed: forty days."""
_KNOTS = np.log1p(np.append(ENDS_S, LAST_S))


def bin_of(wait: np.ndarray) -> np.ndarray:
    """Return the bin of each wait, 0 to 32.

    >>> bin_of(np.array([0.0, 0.5, 1.0, 3601.0, 1e9])).tolist()
    [0, 1, 1, 18, 32]
    """
    return np.searchsorted(ENDS_S, wait, side="left")


def passed(waited: np.ndarray) -> np.ndarray:
    """Return how many bins a job has passed entirely after it has waited `waited` seconds.

    >>> passed(np.array([0.0, 0.5, 3600.0])).tolist()
    [1, 1, 18]
    """
    return np.searchsorted(ENDS_S, waited, side="right")


def reached(curves: np.ndarray, wait: np.ndarray) -> np.ndarray:
    """Return the probabilities (n,) that waits end within `wait` seconds (n,), from wait distributions (n, 33) over the
    bins.

    A curve has the cumulative probability at each bin's end; within a bin it is linear in log(1 + wait). The first bin
    contains waits recorded as 0 s; for the interpolation, this bin extends from -1 to 0 s.

    >>> reached(np.linspace(0.0, 1.0, 33)[None, :], np.array([3600.0])).tolist()
    [0.53125]
    """
    wait = np.minimum(wait, LAST_S)
    at = bin_of(wait)
    rows = np.arange(len(wait))
    high = curves[rows, at]
    low = np.where(at > 0, curves[rows, at - 1], 0.0)
    left, right = _KNOTS[np.maximum(at - 1, 0)], _KNOTS[at]
    first = np.clip(1.0 + wait, 0.0, 1.0)
    share = np.where(at > 0, (np.log1p(np.maximum(wait, 0.0)) - left) / np.where(at > 0, right - left, 1.0), first)
    return np.asarray(low + share * (high - low))


def quantiles(curves: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return waits (n, m) at levels (n, m), ascending in each row, from wait distributions (n, 33); the inverse of
    `reached`.

    >>> quantiles(np.linspace(0.0, 1.0, 33)[None, :], np.array([[0.53125, 1.0]])).round().tolist()
    [[3600.0, 3456000.0]]
    """
    at = np.minimum((curves[:, None, :] < levels[:, :, None]).sum(axis=2), BINS - 1)
    rows = np.arange(len(curves))[:, None]
    high = curves[rows, at]
    low = np.where(at > 0, curves[rows, np.maximum(at - 1, 0)], 0.0)
    left, right = np.where(at > 0, _KNOTS[np.maximum(at - 1, 0)], 0.0), _KNOTS[at]
    share = np.clip((levels - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    return np.where(at > 0, np.expm1(left + share * (right - left)), share - 1.0)


def rest_of(curves: np.ndarray, waited: np.ndarray) -> np.ndarray:
    """Return distributions (n, 33) of the remaining wait, from distributions (n, 33) of the whole wait and the seconds
    waited (n,).

    NaN if a distribution gives probability 0 to a wait of that length.

    >>> whole = np.linspace(1 / 33, 1.0, 33)[None, :]
    >>> rest_of(whole, np.array([3600.0]))[0, [0, 17, 32]].round(2).tolist()
    [0.0, 0.13, 1.0]
    """
    gone = reached(curves, waited)
    left = np.where(gone < 1.0, 1.0 - gone, np.nan)
    by = [(reached(curves, waited + end) - gone) / left for end in ENDS_S]
    return np.column_stack([*by, np.where(gone < 1.0, 1.0, np.nan)])


class WaitCurve(NamedTuple):
    """Probabilities (33,) that the wait ends by the end of each bin, for a job that has waited `elapsed` seconds.

    >>> curve = WaitCurve(np.linspace(0.1, 1.0, 33))
    >>> round(curve.chance(3600.0), 2), round(curve.given(3600.0).quantile(0.5))
    (0.42, 49884)
    """

    chances: np.ndarray
    elapsed: float = -1.0

    def chance(self, span: float) -> float:
        """Return the probability that the whole wait exceeds `span` seconds."""
        if span <= self.elapsed:
            return 1.0
        gone, by = reached(np.stack([self.chances] * 2), np.array([self.elapsed, span])).tolist()
        return float((1.0 - by) / (1.0 - gone)) if gone < 1.0 else 0.0

    def given(self, elapsed: float) -> WaitCurve:
        """Return the wait distribution of a job that still waits after `elapsed` seconds."""
        return self._replace(elapsed=max(elapsed, self.elapsed))

    def quantile(self, level: float) -> float:
        """Return the quantile of the whole wait at a level, in seconds, rounded up; at least the time waited so far."""
        gone = float(reached(self.chances[None, :], np.array([self.elapsed]))[0])
        wait = float(quantiles(self.chances[None, :], np.array([[gone + level * (1.0 - gone)]]))[0, 0])
        return max(math.ceil(wait - 1e-9), self.elapsed, 0.0)
