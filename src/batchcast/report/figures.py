# SPDX-License-Identifier: Apache-2.0
"""Figures as plain values (see `blocks.Figure`).

The module builds distributions, lines, bars and scatter plots, with readable time axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..metrics.curves import cdf as distribution
from ..units import span as span
from .blocks import Figure, Kind, as_text

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_LOG_TICKS = (1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400)


def _spans(sixtieths: Sequence[int], days: Sequence[int]) -> tuple[int, ...]:
    """Return round spans of time: seconds and minutes (`sixtieths`), hours, and days, in seconds."""
    counts = {1: sixtieths, 60: sixtieths, 3600: (1, 2, 3, 6, 12), 86400: days}
    return tuple(unit * count for unit, some in counts.items() for count in some)


_CLOSE_TICKS = _spans((1, 2, 3, 5, 10, 15, 20, 30, 45), (1, 2, 3, 7, 14, 30, 60, 120, 365))
_STEPS = _spans((1, 2, 5, 10, 15, 30), (1, 2, 5, 10, 20, 50, 100, 200, 500))


def tick(seconds: float) -> str:
    """Return a round span of time as the label of an axis.

    >>> [tick(s) for s in (0, 30, 600, 5400, 172800)]
    ['0', '30 s', '10 min', '1.5 h', '2 d']
    """
    if not seconds:
        return "0"
    size, name = next(((size, name) for size, name in _UNITS if abs(seconds) >= size), _UNITS[-1])
    return f"{seconds / size:g} {name}"


def between(low: float, high: float) -> str:
    """Return a range between two round spans as text, with the unit written only once if both ends have the same unit.

    >>> between(120, 240), between(1800, 3600), between(57600, 129600)
    ('2–4 min', '30 min–1 h', '16 h–1.5 d')
    """
    one, other = tick(low).split(" "), tick(high)
    return f"{one[0]}–{other}" if other.endswith(f" {one[1]}") else f"{' '.join(one)}–{other}"


def signed(seconds: float) -> str:
    """Return a change in time as text.

    >>> signed(90.0), signed(-90.0), signed(0.0)
    ('+1 min 30 s', '-1 min 30 s', '0 s')
    """
    return f"+{span(seconds)}" if seconds >= 0.5 else span(seconds if seconds <= -0.5 else 0.0)


def log_time_axis(title: str, low: float = 1.0, high: float = 365 * 86400.0) -> dict[str, Any]:
    """Return a logarithmic axis of seconds with round ticks from 1 s to a year, with closer ticks for a short range.

    >>> log_time_axis("wait", 300.0, 1200.0)["ticktext"]
    ['5 min', '10 min', '15 min', '20 min']
    """
    low, high = max(low, 1.0), max(high, 1.0)
    ticks = list(_LOG_TICKS)
    if sum(low <= t <= high for t in ticks) < 3:
        close = [t for t in _CLOSE_TICKS if low <= t <= high]
        ticks = close[:: max(1, -(-len(close) // 6))] or [round(low)]
    return {"type": "log", **_axis(title, ticks), "minor": {"ticks": ""}}


def _axis(title: str, ticks: Sequence[int]) -> dict[str, Any]:
    return {"title": {"text": title}, "tickvals": ticks, "ticktext": [tick(t) for t in ticks]}


def linear_time_axis(title: str, highest: float) -> dict[str, Any]:
    """Return a linear axis of seconds from 0 with about five round ticks up to `highest`."""
    step = next((s for s in _STEPS if 5 * s >= highest), _STEPS[-1])
    return {**_axis(title, [step * k for k in range(min(int(max(highest, 0) // step) + 2, 20))]), "rangemode": "tozero"}


DASHES = ("dot", "solid", "dash", "dashdot", "longdash", "longdashdot", "solid", "dash", "solid")
MARKERS = ("circle-open", "circle", "square", "diamond", "triangle-up", "x", "cross", "star")
PATTERNS = ("", "", "/", ".", "\\", "x", "-", "+")
SHORTEST_DRAWN = 1.0
Slots = Mapping[str, int] | None
Series = Mapping[str, tuple[Sequence[Any] | np.ndarray, Sequence[Any] | np.ndarray]]
"""Positions on the x axis and values, by the name of the series."""


def cdf(title: str, series: Mapping[str, np.ndarray], *, x: str, slots: Slots = None, caption: str = "") -> Figure:
    """Return distribution functions of seconds on a logarithmic axis; values under 1 s are drawn at 1 s."""
    data, words = [], []
    for name, slot in _slots(series, slots):
        at, share = distribution(np.maximum(series[name], SHORTEST_DRAWN))
        line = {"shape": "hv", "dash": _style(DASHES, slot)}
        data.append(_trace(name, slot, x=plain_numbers(at), y=plain_numbers(share), mode="lines", line=line,
                           hovertemplate="%{y:.1%} of jobs ≤ %{x:span}"))  # fmt: skip
        if len(at):
            half, most = np.nanpercentile(np.asarray(series[name], float), [50, 90])
            words.append(f"{name}: half at most {span(half)}, nine in ten at most {span(most)}")
    reach = [v for trace in data for v in (trace["x"][:1] + trace["x"][-1:])]
    layout = {
        "xaxis": log_time_axis(x, min(reach, default=1.0), max(reach, default=1.0)),
        "yaxis": {"title": {"text": "share of jobs"}, "tickformat": ".0%", "range": [0, 1.02]},
        "hovermode": "closest",
    }
    return Figure(title, data, layout, f"Distribution of {x}. {'; '.join(words)}.", caption)


def lines(
    title: str,
    series: Series,
    *,
    x: str,
    y: str,
    kind: Kind = "number",
    slots: Slots = None,
    caption: str = "",
    markers: bool = False,
    over_share: bool = False,
) -> Figure:
    """Return lines over numbers or ISO dates; y values are of the kind `seconds`, `share` or `number`.

    If `over_share` is true, x values are shares, and the page names only the closest point.
    """
    data: list[dict[str, Any]] = []
    words = []
    for name, slot in _slots(series, slots):
        numbers = np.asarray(series[name][1], float)
        data.append(_trace(
            name, slot, x=plain_numbers(series[name][0]), y=plain_numbers(numbers),
            mode="lines+markers" if markers else "lines", line={"dash": _style(DASHES, slot)},
            marker={"symbol": _style(MARKERS, slot), "size": 7},
            customdata=[_value(v, kind) for v in numbers.tolist()], hovertemplate="%{customdata}",
        ))  # fmt: skip
        if len(numbers):
            words.append(f"{name}: last {_value(float(numbers[-1]), kind)}")
    highest = max((float(np.nanmax(v)) for _, v in series.values() if len(v) and not np.isnan(v).all()), default=0.0)
    few = all(isinstance(v, int) and v <= 10 for trace in data for v in trace["x"])
    layout = {
        "xaxis": {"title": {"text": x}} | ({"dtick": 1} if few else {}) | ({"tickformat": ".0%"} if over_share else {}),
        "yaxis": _value_axis(y, highest, kind),
        "hovermode": "closest" if over_share else "x unified",
    }
    return Figure(title, data, layout, f"{y} over {x}. {'; '.join(words)}.", caption)


def bars(
    title: str,
    categories: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    value: str,
    kind: Kind = "number",
    slots: Slots = None,
    caption: str = "",
) -> Figure:
    """Return grouped horizontal bars (readable on a phone): one group per category, with the value at each bar.

    Values are of the kind `seconds`, `share` or `number`.
    """
    data = []
    for name, slot in _slots(series, slots):
        texts = [_value(float(v), kind) for v in series[name]]
        pattern = {"shape": _style(PATTERNS, slot), "solidity": 0.15}
        data.append(_trace(
            name, slot, type="bar", orientation="h", y=list(categories), x=plain_numbers(series[name]), text=texts,
            customdata=texts, hovertemplate="%{y}: %{customdata}", marker={"pattern": pattern},
        ))  # fmt: skip
    highest = max((float(v) for values in series.values() for v in values if v == v), default=0.0)
    layout = {
        "barmode": "group",
        "bargap": 0.25,
        "yaxis": {"type": "category", "autorange": "reversed"},
        "xaxis": _value_axis(value, highest, kind),
        "hovermode": "closest",
    }
    words = [f"{name}: {', '.join(f'{c} {t}' for c, t in zip(categories, d['text']))}" for name, d in zip(series, data)]
    height = 130 + 26 * len(categories) * max(len(series), 1)
    return Figure(title, data, layout, f"{value}. {'; '.join(words)}.", caption, height)


def scatter(title: str, series: Series, *, x: str, y: str, alt: str, slots: Slots = None) -> Figure:
    """Return a scatter plot."""
    data = []
    for name, slot in _slots(series, slots):
        at, values = map(plain_numbers, series[name])
        marker = {"symbol": _style(MARKERS, slot), "size": 9, "opacity": 0.8}
        data.append(_trace(name, slot, x=at, y=values, mode="markers", marker=marker,
                           hovertemplate=f"{x} %{{x}}\n{y} %{{y}}"))  # fmt: skip
    layout = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}, "hovermode": "closest"}
    return Figure(title, data, layout, alt)


def _slots(series: Mapping[str, Any], slots: Slots) -> list[tuple[str, int]]:
    """Return each series with its slot in the palette: slots are assigned in order, unless `slots` has the series."""
    return [(name, (slots or {}).get(name, place)) for place, name in enumerate(series, 1)]


def _trace(name: str, slot: int, **more: Any) -> dict[str, Any]:
    return {"type": "scatter", "name": name, "meta": {"slot": slot}, **more}


def _style(styles: Sequence[str], slot: int) -> str:
    return styles[slot % len(styles)]


def plain_numbers(values: Sequence[Any] | np.ndarray) -> list[Any]:
    """Return JSON numbers with six significant digits (to keep pages small); text unchanged; unknown as null."""
    plain = values.tolist() if isinstance(values, np.ndarray) else list(values)
    return [v if isinstance(v, (str, int)) else None if v != v else float(f"{v:.6g}") for v in plain]


def _value(value: float, kind: Kind) -> str:
    if value != value:
        return "unknown"
    if kind == "seconds":
        return span(value)
    return as_text(value, "count" if kind == "number" and value == round(value) else kind)


def _value_axis(title: str, highest: float, kind: Kind) -> dict[str, Any]:
    if kind == "seconds":
        return linear_time_axis(title, highest)
    axis: dict[str, Any] = {"title": {"text": title}, "rangemode": "tozero"}
    return axis | {"tickformat": ".0%"} if kind == "share" else axis
