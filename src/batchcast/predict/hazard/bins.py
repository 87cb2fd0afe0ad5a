# SPDX-License-Identifier: Apache-2.0
"""Time since submission in 33 bins, and what follows from the cumulative chances at their ends.

And all that is forecast of one job's wait.
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
"""Ends (32,) of all bins but the last, in seconds, each in its bin; the first holds waits of 0 s."""
BINS = len(ENDS_S) + 1
LAST_S = 4.0 * ENDS_S[-1]
"""Where the last bin ends for whoever needs a number: forty days."""
_ENDS = np.append(ENDS_S, LAST_S)
_KNOTS = np.log1p(_ENDS)


def bin_of(wait: np.ndarray) -> np.ndarray:
    """The bin of each wait, 0 to 32.

    >>> bin_of(np.array([0.0, 0.5, 1.0, 3601.0, 1e9])).tolist()
    [0, 1, 1, 18, 32]
    """
    return np.searchsorted(ENDS_S, wait, side="left")


def passed(waited: np.ndarray) -> np.ndarray:
    """How many bins a job that still waits after `waited` seconds has passed whole.

    >>> passed(np.array([0.0, 0.5, 3600.0])).tolist()
    [1, 1, 18]
    """
    return np.searchsorted(ENDS_S, waited, side="right")


def reached(curves: np.ndarray, wait: np.ndarray) -> np.ndarray:
    """The chance (n,) of a wait up to `wait` (n,) by curves (n, 33) of chances at the ends of the bins.

    Within a bin the chance is linear in log(1 + wait); in the first, of the whole second 0, from -1 to 0 s.

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
    """Waits (n, m) at levels (n, m), ascending in each row, by curves (n, 33): the inverse of `reached`.

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
    """Curves (n, 33) of what is left of a wait, by curves (n, 33) of the whole and the seconds (n,) that have passed.

    NaN where a curve leaves no chance to wait that long.

    >>> whole = np.linspace(1 / 33, 1.0, 33)[None, :]
    >>> rest_of(whole, np.array([3600.0]))[0, [0, 17, 32]].round(2).tolist()
    [0.0, 0.13, 1.0]
    """
    gone = reached(curves, waited)
    left = np.where(gone < 1.0, 1.0 - gone, np.nan)
    by = [(reached(curves, waited + end) - gone) / left for end in ENDS_S]
    return np.column_stack([*by, np.where(gone < 1.0, 1.0, np.nan)])


class WaitCurve(NamedTuple):
    """Chances (33,) that the wait is over by the end of each bin, of a job that has waited `elapsed` seconds.

    >>> curve = WaitCurve(np.linspace(0.1, 1.0, 33))
    >>> round(curve.chance(3600.0), 2), round(curve.given(3600.0).quantile(0.5))
    (0.42, 49884)
    """

    chances: np.ndarray
    elapsed: float = -1.0

    def chance(self, span: float) -> float:
        """The chance to wait longer than `span` seconds in all."""
        if span <= self.elapsed:
            return 1.0
        gone, by = reached(np.stack([self.chances] * 2), np.array([self.elapsed, span])).tolist()
        return float((1.0 - by) / (1.0 - gone)) if gone < 1.0 else 0.0

    def given(self, elapsed: float) -> WaitCurve:
        """The same for a job that still waits after `elapsed` seconds."""
        return self._replace(elapsed=max(elapsed, self.elapsed))

    def quantile(self, level: float) -> float:
        """The whole wait in seconds at a level, rounded up; never below what has passed."""
        gone = float(reached(self.chances[None, :], np.array([self.elapsed]))[0])
        wait = float(quantiles(self.chances[None, :], np.array([[gone + level * (1.0 - gone)]]))[0, 0])
        return max(math.ceil(wait - 1e-9), self.elapsed, 0.0)
