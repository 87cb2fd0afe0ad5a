# SPDX-License-Identifier: Apache-2.0
"""Components that need no training: wait distributions from simulated waits, and from recent waits of a job's class."""

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
"""Spreads of the logistic distribution around a simulated wait: a wide one, for schedulers that the simulation does
not reproduce well, and a narrow one. The CRPS of past predictions decides the weight of each spread.
"""
_LOG_ENDS = np.log1p(ENDS_S)
_POINTS = slice(AT_DRAWS + 1, AT_DRAWS + 6)  # minimum, 25, 50, 75 % and maximum of the simulated waits, as logarithms


_SUFFIXES = (*("" for _ in SPREADS), ", with the observed lag")
SIMULATIONS = tuple(f"{name}{end}" for name in ("simulation on the machine's nodes", "simulation") for end in _SUFFIXES)
"""Names of the components that `curves_around` computes: three on the machine's nodes, then three on a pool."""


def pool_curves(features: np.ndarray, lag: float | np.ndarray = 0.0) -> np.ndarray:
    """Return the wait distributions (n, 3, 33) around the simulated waits in features (n, f), as `curves_around` does;
    NaN if the job never fits the machine.

    >>> from batchcast.predict.hazard.features import NAMES
    >>> pool_curves(np.zeros((1, len(NAMES))))[0, 0, [0, 17, 32]].round(2).tolist()
    [0.5, 1.0, 1.0]
    """
    return curves_around(features[:, _POINTS].astype(float), lag)


def curves_around(points: np.ndarray, lag: float | np.ndarray) -> np.ndarray:
    """Return wait distributions (n, 3, 33) around simulated log(1 + wait) (n, m): one distribution for each spread in
    SPREADS, and one with the narrow spread, shifted by `lag` (scalar or (n, 1)).

    NaN if one of the m simulated waits is unknown, because the job never starts.

    >>> curves_around(np.zeros((1, 3)), 0.0)[0, :, 0].tolist()
    [0.5, 0.5, 0.5]
    """
    late = spread_curves(points + lag, SPREADS[-1])
    return np.stack([*(spread_curves(points, spread) for spread in SPREADS), late], axis=1)


def spread_curves(points: np.ndarray, spread: float) -> np.ndarray:
    """Return wait distributions (n, 33): means of m logistics around log(1 + wait) (n, m); NaN if one of the m waits is
    unknown.

    >>> spread_curves(np.array([[0.0]]), 1.5)[0, [0, 32]].tolist()
    [0.5, 1.0]
    """
    out = np.ones((len(points), BINS))
    above = (_LOG_ENDS[None, :, None] - points[:, None, :]) / (spread / 2.0)
    out[:, : BINS - 1] = (1.0 / (1.0 + np.exp(-np.clip(above, -40.0, 40.0)))).mean(axis=2)
    out[np.isnan(points).any(axis=1)] = np.nan
    return out


class Lag:
    """Median difference between true and simulated waits, in log(1 + wait), over the last 30 jobs that started.

    Simulated waits up to a minute have a lag of their own, because the time that a scheduler takes to start a job
    dominates a short wait but not a long one. A class of jobs has its own lag once 5 of its jobs have started, because
    the simulated starts may be too early or too late for a whole QOS, or for a partition with its own queue. Before 5
    jobs of the class have started, the lag of all jobs is used, which is 0 until 5 jobs have started.

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
        """Record that a job of class `key` waited `wait` seconds, together with the simulated log(1 + wait).

        A simulated wait of NaN (the job never fits the machine in the simulation) is ignored.
        """
        if simulated != simulated:
            return
        for name in {(simulated > _MINUTE, key), (simulated > _MINUTE, ())}:
            last = self.last.setdefault(name, deque(maxlen=30))
            last.append(math.log1p(max(wait, 0.0)) - simulated)
            if len(last) >= LEAST_LAGS:
                self.middle[name] = float(np.median(last))

    def of(self, simulated: float, key: tuple[int, ...] = ()) -> float:
        """Return the lag to add to a simulated log(1 + wait) of a job of class `key`."""
        is_long = simulated > _MINUTE
        return self.middle.get((is_long, key), self.middle.get((is_long, ()), 0.0))

    def of_each(self, simulated: np.ndarray) -> np.ndarray:
        """Return the lags (n, 1) of all jobs to add to each simulated log(1 + wait) (n,)."""
        return np.array([self.of(each) for each in simulated.tolist()]).reshape(-1, 1)


DRAWS = 3
"""Number of futures simulated on a machine's nodes."""
Nodes = tuple[float, ...]
NO_SIMULATION: Nodes = (math.nan,) * DRAWS


class RecentWaits:
    """Distribution of the last 50 waits of a class (queue and size), or of all jobs if the class has fewer than 5
    waits.

    >>> recent = RecentWaits()
    >>> recent.add((0, 1), 30.0)
    >>> recent.curve((0, 1))[[6, 7]].round(2).tolist()
    [0.61, 0.62]
    """

    def __init__(self) -> None:
        self.waits: dict[tuple[int, ...], deque[float]] = {}
        self.curves: dict[tuple[int, ...], np.ndarray] = {}

    def add(self, key: tuple[int, ...], wait: float) -> None:
        """Record that a job of class `key` waited `wait` seconds."""
        for name in (key, ()):
            self.waits.setdefault(name, deque(maxlen=RECENT_LAGS)).append(wait)
            self.curves.pop(name, None)

    def curve(self, key: tuple[int, ...]) -> np.ndarray:
        """Return a class's wait distribution (33,), mixed with one uniform observation; NaN before the first wait."""
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
