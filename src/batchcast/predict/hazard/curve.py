"""All that is forecast of one job's wait: chances, quantiles, and the same once it has waited."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .bins import quantiles, reached


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

    def starts_within(self, span: float) -> float:
        """The chance to start within `span` seconds from now on."""
        return 1.0 - self.chance(max(self.elapsed, 0.0) + span)

    def given(self, elapsed: float) -> WaitCurve:
        """The same for a job that still waits after `elapsed` seconds."""
        return self._replace(elapsed=max(elapsed, self.elapsed))

    def quantile(self, level: float) -> float:
        """The whole wait in seconds at a level, rounded up; never below what has passed."""
        gone = float(reached(self.chances[None, :], np.array([self.elapsed]))[0])
        wait = float(quantiles(self.chances[None, :], np.array([[gone + level * (1.0 - gone)]]))[0, 0])
        return max(math.ceil(wait - 1e-9), self.elapsed, 0.0)
