"""Axes of time people can read: 1 min, 1 h, 1 d instead of powers of ten; linear and logarithmic."""

from __future__ import annotations

import math
from typing import Any

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_LOG_TICKS = (1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400)
_CLOSE_TICKS = (
    *(1, 2, 3, 5, 10, 15, 20, 30, 45),
    *(60 * k for k in (1, 2, 3, 5, 10, 15, 20, 30, 45)),
    *(3600 * k for k in (1, 2, 3, 6, 12)),
    *(86400 * k for k in (1, 2, 3, 7, 14, 30, 60, 120, 365)),
)
_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * k for k in (1, 2, 5, 10, 15, 30)),
    *(3600 * k for k in (1, 2, 3, 6, 12)),
    *(86400 * k for k in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
)


def tick(seconds: float) -> str:
    """A round span of time as an axis says it.

    >>> [tick(s) for s in (0, 30, 600, 5400, 172800)]
    ['0', '30 s', '10 min', '1.5 h', '2 d']
    """
    if not seconds:
        return "0"
    size, name = next(((size, name) for size, name in _UNITS if abs(seconds) >= size), _UNITS[-1])
    return f"{seconds / size:g} {name}"


def between(low: float, high: float) -> str:
    """From one round span to the next, the unit once where both have it.

    >>> between(120, 240), between(1800, 3600), between(57600, 129600)
    ('2–4 min', '30 min–1 h', '16 h–1.5 d')
    """
    one, other = tick(low).split(" "), tick(high)
    return f"{one[0]}–{other}" if other.endswith(f" {one[1]}") else f"{' '.join(one)}–{other}"


def span(seconds: float) -> str:
    """A span of time in a sentence, two units at most.

    >>> [span(s) for s in (0.4, 42, 3599.8, 8733, 200000)]
    ['0 s', '42 s', '1 h', '2 h 26 min', '2 d 8 h']
    """
    if math.isnan(seconds):
        return "unknown"
    sign = "-" if seconds < 0 else ""
    seconds = abs(seconds)
    if seconds < 59.5:
        return f"{sign}{seconds:.0f} s"
    if seconds < 600:
        whole = round(seconds)
        parts = [(whole // 60, "min"), (whole % 60, "s")]
    elif seconds < 86400 - 30:
        minutes = round(seconds / 60)
        parts = [(minutes // 60, "h"), (minutes % 60, "min")]
    else:
        hours = round(seconds / 3600)
        parts = [(hours // 24, "d"), (hours % 24, "h")]
    return sign + " ".join(f"{amount} {unit}" for amount, unit in parts if amount)


def log_time_axis(title: str, low: float = 1.0, high: float = 365 * 86400.0) -> dict[str, Any]:
    """A logarithmic axis of seconds with round ticks from 1 s to a year; closer ones where it spans little.

    >>> log_time_axis("wait", 300.0, 1200.0)["ticktext"]
    ['5 min', '10 min', '15 min', '20 min']
    """
    low, high = max(low, 1.0), max(high, 1.0)
    ticks = [t for t in _LOG_TICKS if low <= t <= high]
    if len(ticks) < 3:
        close = [t for t in _CLOSE_TICKS if low <= t <= high]
        ticks = close[:: max(1, -(-len(close) // 6))] or [round(low)]
    else:
        ticks = list(_LOG_TICKS)
    return {
        "type": "log",
        "title": {"text": title},
        "tickvals": ticks,
        "ticktext": [tick(t) for t in ticks],
        "minor": {"ticks": ""},
    }


def linear_time_axis(title: str, highest: float, ticks: int = 5) -> dict[str, Any]:
    """A linear axis of seconds from 0 with about `ticks` round ticks up to `highest`."""
    step = next((s for s in _STEPS if s * ticks >= highest), _STEPS[-1])
    values = [step * k for k in range(int(max(highest, 0) // step) + 2)][: 4 * ticks]
    return {
        "title": {"text": title},
        "tickvals": values,
        "ticktext": [tick(v) for v in values],
        "rangemode": "tozero",
    }
