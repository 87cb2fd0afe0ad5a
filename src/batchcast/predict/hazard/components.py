# SPDX-License-Identifier: Apache-2.0
"""Answers from the first day: the simulated waits as a curve, and recent waits of the same queue and size."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from .bins import BINS, ENDS_S
from .features import AT_DRAWS

RECENT_LAGS = 50
LEAST_LAGS = 5
_MINUTE = math.log1p(60.0)
SPREADS = (1.5, 0.35)
"""How widely a simulated wait is spread: as widely as where little is known of the scheduler, and as where it does what
the simulation does; which of them has been better by CRPS answers."""
_LOG_ENDS = np.log1p(ENDS_S)
_POINTS = slice(AT_DRAWS + 1, AT_DRAWS + 6)  # least, 25, 50, 75 % and most of the simulated waits, as logarithms


def simulated_curves(features: np.ndarray, spread: float = SPREADS[0], lag: float | np.ndarray = 0.0) -> np.ndarray:
    """Curves (n, 33) of features (n, f): five simulated waits, each spread as a logistic in log(1 + wait), `lag` later
    (one, or (n, 1)).

    NaN where the job never fits.

    >>> from batchcast.predict.hazard.features import NAMES
    >>> simulated_curves(np.zeros((1, len(NAMES))))[0, [0, 17, 32]].round(2).tolist()
    [0.5, 1.0, 1.0]
    """
    return spread_curves(features[:, _POINTS].astype(float) + lag, spread)


def spread_curves(points: np.ndarray, spread: float) -> np.ndarray:
    """Curves (n, 33) of waits (n, m) simulated, as log(1 + wait), each spread as a logistic; NaN where one is unknown.

    >>> spread_curves(np.array([[0.0]]), 1.5)[0, [0, 32]].tolist()
    [0.5, 1.0]
    """
    out = np.ones((len(points), BINS))
    above = (_LOG_ENDS[None, :, None] - points[:, None, :]) / (spread / 2.0)
    out[:, : BINS - 1] = (1.0 / (1.0 + np.exp(-np.clip(above, -40.0, 40.0)))).mean(axis=2)
    out[np.isnan(points).any(axis=1)] = np.nan
    return out


class Lag:
    """How much longer jobs wait than was simulated, in log(1 + wait): the median of the last 30 that started.

    Of those that were to start within a minute and of the others apart: what a scheduler takes to start a job is all of
    a short wait and nothing of a long one. Of each class of jobs apart once 5 of the class have started: a QOS, or a
    partition with a queue of its own, is early or late by itself. Before that of all; 0 before 5 started.

    >>> lag = Lag()
    >>> for _ in range(5):
    ...     lag.add(np.log1p(600.0), 1201.0)
    ...     lag.add(np.log1p(600.0), 600.0, (1,))
    >>> round(lag.of(np.log1p(900.0)), 2), lag.of(np.log1p(900.0), (1,)), lag.of(0.0)
    (0.35, 0.0, 0.0)
    """

    def __init__(self) -> None:
        self.last: dict[tuple[bool, tuple[int, ...]], deque[float]] = {}
        self.middle: dict[tuple[bool, tuple[int, ...]], float] = {}

    def add(self, simulated: float, wait: float, key: tuple[int, ...] = ()) -> None:
        """A job of class `key` for which this log(1 + wait) was simulated waited so long.

        NaN, where it never fitted, is no lesson.
        """
        if simulated != simulated:
            return
        for name in {(simulated > _MINUTE, key), (simulated > _MINUTE, ())}:
            last = self.last.setdefault(name, deque(maxlen=30))
            last.append(math.log1p(max(wait, 0.0)) - simulated)
            if len(last) >= LEAST_LAGS:
                self.middle[name] = float(np.median(last))

    def of(self, simulated: float, key: tuple[int, ...] = ()) -> float:
        """What to add to a simulated log(1 + wait) of a job of class `key`."""
        is_long = simulated > _MINUTE
        return self.middle.get((is_long, key), self.middle.get((is_long, ()), 0.0))


DRAWS = 3
"""So many futures are simulated on a machine's nodes."""
Nodes = tuple[float, ...]
SAID_NOTHING: Nodes = (math.nan,) * DRAWS


def curves_on_nodes(simulated: Nodes, lag: float) -> np.ndarray:
    """Curves (3, 33) of the log(1 + wait) of each future on the nodes: by each of SPREADS, and `lag` later.

    NaN where one never starts.

    >>> curves_on_nodes((0.0, 0.0, 0.0), 0.0)[:, 0].tolist()
    [0.5, 0.5, 0.5]
    """
    points = np.array([simulated])
    return np.concatenate(
        [*(spread_curves(points, spread) for spread in SPREADS), spread_curves(points + lag, SPREADS[-1])]
    )


class RecentWaits:
    """The last 50 waits of each class of jobs (queue and size), everybody's where the class has fewer than 5.

    >>> recent = RecentWaits()
    >>> recent.add((0, 1), 30.0)
    >>> recent.curve((0, 1))[[6, 7]].round(2).tolist()
    [0.61, 0.62]
    """

    def __init__(self) -> None:
        self.waits: dict[tuple[int, ...], deque[float]] = {}
        self.curves: dict[tuple[int, ...], np.ndarray] = {}

    def add(self, key: tuple[int, ...], wait: float) -> None:
        """A job of class `key` waited so long."""
        for name in (key, ()):
            self.waits.setdefault(name, deque(maxlen=RECENT_LAGS)).append(wait)
            self.curves.pop(name, None)

    def curve(self, key: tuple[int, ...]) -> np.ndarray:
        """The curve (33,), one wait of no knowledge mixed in; NaN where nobody waited yet."""
        name = key if len(self.waits.get(key, ())) >= 5 else ()
        kept = self.curves.get(name)
        if kept is None:
            waits = np.sort(np.array(self.waits.get(name, ())))
            if not len(waits):
                return np.full(BINS, np.nan)
            flat = np.arange(1, BINS + 1) / BINS
            counts = np.append(np.searchsorted(waits, ENDS_S, side="right"), len(waits))
            kept = self.curves[name] = (counts + flat) / (len(waits) + 1.0)
        return kept
