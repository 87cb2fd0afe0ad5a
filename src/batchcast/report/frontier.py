"""A study's frontier as one SVG: mean bounded slowdown against the longest wait, a panel a log, a letter a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

Row = Mapping[str, Any]
PANEL, WIDE, HIGH, EDGE, LINE = 2, 400.0, 280.0, 56.0, 18.0  # panels abreast, a panel's box, its margin, a line of text
BESIDE = (((6, -5), "start"), ((-6, 13), "end"), ((6, 13), "start"), ((-6, -5), "end"))  # where a letter stands
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NICE = (1.0, 2.0, 2.5, 5.0, 10.0)


def frontier_svg(rows: Sequence[Row]) -> str:
    """The picture of `sweep.compare`'s rows.

    Parameters
    ----------
    rows
        Of every log, period, settings and plan: `mean_bounded_slowdown`, `max_wait_s`, `frontier`.

    Returns
    -------
    str
        An SVG document without a font, a script or a link of its own. Plans on the frontier are filled and joined: to
        its left and below it no plan was found. Letters stand for plans, below the panels.

    Examples
    --------
    >>> row = {"log": "ours", "period": "", "settings": "", "policy": "easy", "predictor": "requested",
    ...        "mean_bounded_slowdown": 9.0, "max_wait_s": 3600.0, "frontier": True}
    >>> "easy, requested" in frontier_svg([row])
    True
    """
    plans = list(dict.fromkeys(f"{row['policy']}, {row['predictor']}" for row in rows))
    letters = {plan: LETTERS[k % 26] * (1 + k // 26) for k, plan in enumerate(plans)}
    cells: dict[str, list[Row]] = {}
    for row in rows:
        cells.setdefault(" ".join(filter(None, (row["log"], row["period"], row["settings"]))), []).append(row)
    width = PANEL * (WIDE + EDGE) + EDGE / 2
    down = math.ceil(len(cells) / PANEL) * (HIGH + 1.6 * EDGE)
    parts = [_panel(name, mine, letters, k) for k, (name, mine) in enumerate(cells.items())]
    legend = [
        _text(EDGE / 2, down + LINE * (k + 1.5), f"{letter}  {plan}", "start", size=11)
        for k, (plan, letter) in enumerate(letters.items())
    ]
    height = down + LINE * (len(plans) + 2)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        f' font-family="sans-serif" font-size="12" role="img"><title>Mean bounded slowdown against the longest wait'
        f'</title><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}{"".join(legend)}</svg>\n'
    )


def _panel(name: str, rows: Sequence[Row], letters: Mapping[str, str], place: int) -> str:
    """One log's axes and points."""
    left = EDGE + place % PANEL * (WIDE + EDGE)
    top = EDGE / 2 + place // PANEL * (HIGH + 1.6 * EDGE)
    points = [(row["mean_bounded_slowdown"], max(row["max_wait_s"], 1.0) / 3600.0, row) for row in rows]
    across, up = ticks([x for x, _, _ in points]), ticks([y for _, y, _ in points])

    def at(x: float, y: float) -> tuple[float, float]:
        return left + _share(x, across) * WIDE, top + HIGH - _share(y, up) * HIGH

    parts = [f'<rect x="{left:.1f}" y="{top:.1f}" width="{WIDE}" height="{HIGH}" fill="none" stroke="#999"/>']
    parts += [_text(at(x, up[0])[0], top + HIGH + 15, f"{x:g}") for x in across]
    parts += [_text(left - 6, at(across[0], y)[1] + 4, f"{y:g} h", "end") for y in up]
    parts.append(_text(left + WIDE / 2, top - 8, name, weight="bold"))
    parts.append(_text(left + WIDE / 2, top + HIGH + 31, "mean bounded slowdown; upwards the longest wait"))
    best = sorted((x, y) for x, y, row in points if row["frontier"])
    joined = " ".join("{:.1f},{:.1f}".format(*at(*point)) for point in best)
    parts.append(f'<polyline points="{joined}" fill="none" stroke="#0a5" stroke-dasharray="4 3"/>')
    drawn: list[tuple[float, float]] = []
    for x, y, row in points:
        cx, cy = at(x, y)
        aside, anchor = BESIDE[sum(abs(cx - a) < 20 and abs(cy - b) < 20 for a, b in drawn) % len(BESIDE)]
        drawn.append((cx, cy))
        fill = "#0a5" if row["frontier"] else "#fff"
        parts.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="4" fill="{fill}" stroke="#0a5"/>')
        letter = letters[f"{row['policy']}, {row['predictor']}"]
        parts.append(_text(cx + aside[0], cy + aside[1], letter, anchor))
    return "".join(parts)


def ticks(values: Sequence[float]) -> list[float]:
    """Round numbers for a logarithmic axis of positive values, from below the least to above the largest.

    >>> ticks([13.2, 39.0])
    [10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0]
    >>> ticks([13.2, 99.0])
    [10.0, 20.0, 50.0, 100.0]
    """
    low, high = min(values), max(values)
    if high > 3.0 * low:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        every = [round(k * 10.0**d, 9) for d in decades for k in ((1, 2, 5) if len(decades) < 5 else (1,))]
        first, last = max(t for t in every if t <= low), min(t for t in every if t >= high)
        return [t for t in every if first <= t <= last]
    if low == high:
        low, high = 0.9 * low, 1.1 * high
    size = 10.0 ** math.floor(math.log10((high - low) / 5.0))
    step = next(
        size * nice for nice in (*NICE, 20.0) if math.ceil(high / (size * nice)) - math.floor(low / (size * nice)) <= 6
    )
    return [round(k * step, 9) for k in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _share(value: float, axis: Sequence[float]) -> float:
    """Where a value stands on a logarithmic axis, 0 at its begin and 1 at its end."""
    return math.log(value / axis[0]) / math.log(axis[-1] / axis[0])


def _text(x: float, y: float, text: str, anchor: str = "middle", weight: str = "normal", size: int = 12) -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{size}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
