"""Chances as bars over the coming hours: where 10, 50 and 90 % of what may happen has happened."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...predict.conditional import given_waited
from ...store.issued import as_prediction, newest

LEVELS = (0.1, 0.5, 0.9)
SCALES_H = (1, 2, 3, 6, 12, 24, 48, 72, 168)


class Chances(NamedTuple):
    """Instants, epoch seconds, by which it has happened with 10, 50, 90 %; infinite beyond what was forecast."""

    by_10: float
    by_50: float
    by_90: float


def of_forecast(row: Mapping[str, Any], since: float, now: float) -> Chances:
    """The chances of what began to count at `since`, as forecast in a row, given that it has not happened by now."""
    row = newest(row)
    if row.get("point_s") is None:
        return Chances(math.nan, math.nan, math.nan)
    given = given_waited(as_prediction(row), max(now - since, 0.0), LEVELS)
    times = given.quantiles if given.levels else (math.nan, given.point, math.nan)
    return Chances(*(since + t for t in times))


class Axis(NamedTuple):
    """The coming hours from `now` on, and where to put marks: (share of the width, instant)."""

    now: float
    hours: float
    ticks: list[tuple[float, float]]

    def at(self, instant: float) -> float:
        """Where an instant lies, in thousandths of the width, within the axis."""
        return round(1000 * min(max((instant - self.now) / (3600 * self.hours), 0.0), 1.0), 1)

    def bar(self, chances: Chances) -> dict[str, float] | None:
        """A bar's parts: from 10 to 50 % (`a`, `b`), to 90 % (`c`), the middle (`m`); None where nothing is known.

        What lies beyond the forecast runs to the edge: `open` is 1.
        """
        low, middle, high = chances
        if middle != middle or (math.isinf(middle) and not math.isfinite(low)):
            return None
        low = self.now if low != low else low
        end = self.hours * 3600 + self.now
        high = end if high != high or math.isinf(high) else high
        shown = {"a": self.at(low), "b": self.at(min(middle, end)), "c": self.at(high)}
        return {**shown, "open": float(high >= end or math.isinf(middle))}


def axis(now: float, all_chances: Iterable[Chances]) -> Axis:
    """An axis that holds every middle and three of four upper ends, in steps people count in; a week at most.

    >>> axis(0.0, [Chances(60.0, 3600.0, 9000.0)]).hours
    3
    """
    shown = list(all_chances)
    middles = [c.by_50 - now for c in shown if math.isfinite(c.by_50)]
    ends = sorted(c.by_90 - now for c in shown if math.isfinite(c.by_90))
    longest = max([3600.0, *middles, *ends[: math.ceil(0.75 * len(ends))]]) / 3600
    hours = next((scale for scale in SCALES_H if scale >= longest), SCALES_H[-1])
    step = {1: 0.25, 2: 0.5, 3: 0.5, 6: 1, 12: 2, 24: 4, 48: 8, 72: 12, 168: 24}[hours]
    ticks = [(k * step / hours, now + 3600 * k * step) for k in range(round(hours / step) + 1)]
    return Axis(now, hours, ticks)
