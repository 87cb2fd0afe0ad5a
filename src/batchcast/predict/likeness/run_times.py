"""A distribution of run times as weighted values: quantiles, chances, and what is left of it for a job that runs on."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class RunTimes(NamedTuple):
    """Values (n,) ascending, seconds, with their weights (n,), summing to one.

    >>> runs = RunTimes(np.array([10.0, 20.0, 60.0]), np.array([0.5, 0.25, 0.25]))
    >>> runs.quantile(0.5), runs.chance(20.0), runs.given(15.0).weights.tolist()
    (10.0, 0.25, [0.5, 0.5])
    """

    seconds: np.ndarray
    weights: np.ndarray

    def quantile(self, level: float) -> float:
        """The smallest value with at least `level` of the weight at or below it; NaN where there is none."""
        if not len(self.seconds):
            return math.nan
        at = int(np.searchsorted(np.cumsum(self.weights), level - 1e-12))
        return float(self.seconds[min(at, len(self.seconds) - 1)])

    def chance(self, span: float) -> float:
        """The chance to run longer than `span` seconds; NaN where nothing is known."""
        return float(self.weights[self.seconds > span].sum()) if len(self.seconds) else math.nan

    def given(self, elapsed: float) -> RunTimes:
        """The same for a job that has run `elapsed` seconds: what is longer; empty where nothing is."""
        longer = self.seconds > elapsed
        weights = self.weights[longer]
        total = weights.sum()
        return RunTimes(self.seconds[longer], weights / total) if total > 0 else RunTimes(*np.empty((2, 0)))
