"""What was forecast of a job's run time when it was submitted, as a row of quantiles, and what is left of it since."""

from __future__ import annotations

import numpy as np

from ...compiled import inlined
from ...events.record import NO_LIMIT
from ..runtime.kernel import LEVELS

COUNT = len(LEVELS)
_LEVELS = np.array(LEVELS)
UNKNOWN_S = 3600.0  # a job of which nothing is known
OVERDUE_S = 60.0


@inlined
def longest(row: np.ndarray, limit: float) -> float:
    """The end of the distribution: the limit, else half as long again as the highest quantile."""
    if limit < NO_LIMIT:
        return max(limit, 1.0)
    return 1.5 * np.float64(row[COUNT - 1]) if row[0] == row[0] else 2.0 * UNKNOWN_S


@inlined
def reached(row: np.ndarray, limit: float, elapsed: float) -> float:
    """The share of the distribution up to `elapsed`: linear between the quantiles, from 0 s to the longest."""
    top = longest(row, limit)
    if elapsed <= 0.0:
        return 0.0
    if elapsed >= top:
        return 1.0
    if row[0] != row[0]:
        return elapsed / top
    below, level = 0.0, 0.0
    for k in range(COUNT):
        value = min(np.float64(row[k]), top)
        if elapsed < value:
            share: float = level + (_LEVELS[k] - level) * (elapsed - below) / (value - below)
            return share
        below, level = value, _LEVELS[k]
    return level + (1.0 - level) * (elapsed - below) / (top - below) if top > below else 1.0


@inlined
def at_level(row: np.ndarray, limit: float, wanted: float) -> float:
    """The run time at a level: the inverse of `reached`, in seconds."""
    top = longest(row, limit)
    if row[0] != row[0]:
        return wanted * top
    below, level = 0.0, 0.0
    for k in range(COUNT):
        value = min(np.float64(row[k]), top)
        if wanted < _LEVELS[k]:
            seconds: float = below + (value - below) * (wanted - level) / (_LEVELS[k] - level)
            return seconds
        below, level = value, _LEVELS[k]
    return below + (top - below) * (wanted - level) / (1.0 - level)


@inlined
def left_at(row: np.ndarray, limit: float, elapsed: float, share: float) -> float:
    """Seconds left of a job that has run `elapsed`, at the level `share` of what is left; at least 1."""
    gone = reached(row, limit, elapsed)
    if gone >= 1.0:
        return 1.0 + share * OVERDUE_S
    return max(at_level(row, limit, gone + share * (1.0 - gone)) - elapsed, 1.0)
