"""*Should I believe it?*, in one sentence for each partition and for each length of wait that was forecast."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..errors import NoAnswer
from ..units import format_duration
from .access import Asker
from .settings import Settings

PROMISED = 0.9


def believed(settings: Settings, viewer: Asker, partition: str | None, now: float) -> list[dict[str, Any]]:
    """Flat objects, each with a `sentence`: the answering method on the whole, by partition and by length of wait.

    Of the last 60 days, of groups of 20 forecasts or more; by the rule of `disclosure`. Empty where there are none.
    """
    from .page.belief import belief

    try:
        known = belief(settings, viewer, now)
    except NoAnswer:
        return []
    parts = [(f"partition {one['partition']}", one) for one in known["partitions"]
             if partition in (None, one["partition"])]  # fmt: skip
    groups = [("all", known["whole"]), *parts] if partition is None else parts
    if partition is None:
        groups += [(f"waits forecast at {_span(one['low'], one['high'])}", one) for one in known["horizons"]]
    return [_object(name, known["method"], one) for name, one in groups]


def _object(name: str, method: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    count, kept, error = figures["forecasts"], figures["coverage_90"], figures["median_ae_s"]
    word = verdict(count, kept)
    half = f"half started within {format_duration(error)} of the likely time"
    sentences = {
        "believe": f"believe it: {kept:.0%} of {count} started by the 90 % time, {half}",
        "too early": f"do not rely on it: only {kept:.0%} of {count} started by the 90 % time; {half}",
        "too late": f"it is on the safe side: {kept:.0%} of {count} started by the 90 % time; {half}",
        "unknown": f"nobody knows: too few of {count} forecasts had a 90 % time; {half}",
    }
    shown = {"of": name, "method": method, "forecasts": count, "coverage_90": kept, "median_ae_s": error}
    return {**shown, "verdict": word, "sentence": f"{name}: {sentences[word].replace('%', ' %').replace('  %', ' %')}"}


def verdict(count: int, kept: float) -> str:
    """Whether a 90 % bound has kept its promise: within two standard errors of so many, at least 2 points.

    >>> verdict(400, 0.91), verdict(400, 0.8), verdict(4000, 0.97), verdict(20, float("nan"))
    ('believe', 'too early', 'too late', 'unknown')
    """
    if kept != kept or not count:
        return "unknown"
    margin = max(2.0 * math.sqrt(PROMISED * (1.0 - PROMISED) / count), 0.02)
    return "believe" if abs(kept - PROMISED) <= margin + 1e-12 else "too early" if kept < PROMISED else "too late"


def _span(low: float, high: float) -> str:
    """A length of wait as people say it.

    >>> _span(0.0, 600.0), _span(600.0, 3600.0), _span(86400.0, math.inf)
    ('under 00:10:00', '00:10:00 to 01:00:00', '1-00:00:00 or more')
    """
    if not math.isfinite(high):
        return f"{format_duration(low)} or more"
    return f"{format_duration(low)} to {format_duration(high)}" if low else f"under {format_duration(high)}"
