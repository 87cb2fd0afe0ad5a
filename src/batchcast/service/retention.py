"""How long a store keeps what is over: one rule for `purge` and for the collector that does it by itself."""

from __future__ import annotations

from ..errors import UsageError
from .settings import Settings

LEAST_DAYS = 2.0


def before(settings: Settings, now: float) -> float | None:
    """Jobs that ended before this instant (epoch seconds) are kept no longer; None where everything is kept.

    UsageError where that is less than predictors are taught with at a start.

    >>> from .settings import load
    >>> before(load({"retention_days": 400}, {}), 50_000_000.0), before(load({}, {}), 50_000_000.0)
    (15440000.0, None)
    """
    days, taught = float(settings["retention_days"]), max(float(settings["memory_days"]), LEAST_DAYS)
    if 0 < days < taught:
        raise UsageError(
            f"retention_days: {days:g} days are fewer than predictors are taught with (accepted: {taught:g} or more, "
            "0 for all)",
            hint="memory_days is how far back that goes",
        )
    return now - days * 86400 if days else None
