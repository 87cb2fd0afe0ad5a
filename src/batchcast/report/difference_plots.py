# SPDX-License-Identifier: Apache-2.0
"""Pictures of differences.

Curves drawn once more as differences to one of them, and intervals sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..metrics.curves import cdf_gap
from .blocks import Figure, Kind, shown
from .difference import Measures, difference_words, groups_in
from .figures import SHORTEST_DRAWN, lines, log_time_axis, plain_numbers

CURVES = "the curves"
SHARE, NUMBER, AT_MOST = "%{y:+.1%}", "%{y:+}", " ≤ %{x:span}"
"""Templates of a difference that is read off, and of the value up to which it is counted."""
POINTS = 200
NEAR = 0.1  # of the figure's largest value: curves that part by less are shown as differences first


class Gap(NamedTuple):
    """By how much a curve lies above the reference: (m,) places on the other axis, (m,) differences."""

    x: Sequence[Any] | np.ndarray
    y: np.ndarray


def cdf_minus(figure: Figure, series: Mapping[str, np.ndarray], against: str, reads: str) -> Figure:
    """A figure of `figures.cdf` with the differences of its shares to those of one series; see `or_minus`."""
    gaps = {name: _gap(values, series[against]) for name, values in series.items() if name != against}
    return or_minus(figure, gaps, against, reads, share=True, at=AT_MOST)


def cdf_change(title: str, pairs: Mapping[str, tuple[np.ndarray, np.ndarray]], x: str) -> Figure:
    """By how much the distribution of the second of each pair lies above that of the first, a curve a pair."""
    gaps = {name: _gap(b, a) for name, (a, b) in pairs.items()}
    figure = lines(title, gaps, x=x, y="share of jobs, B minus A", kind="share")
    data = [
        {**_minus(trace, gap, "", SHARE + AT_MOST), "line": {**trace["line"], "shape": "hv"}}
        for trace, gap in zip(figure.data, gaps.values())
    ]
    reach = [float(v) for at, _ in gaps.values() for v in (at[0], at[-1])]
    words = "; ".join(f"{n} {_signed(float(y[np.argmax(np.abs(y))]), True)}" for n, (_, y) in gaps.items())
    layout = {
        "xaxis": log_time_axis(x, min(reach), max(reach)),
        "yaxis": {"title": {"text": "share of jobs, B minus A"}, "tickformat": ".0%"},
        "shapes": [{"y0": 0.0}],
        "hovermode": "closest",
    }
    return replace(figure, data=data, layout=layout, alt=f"{title}. Largest differences: {words}.")


def or_minus(
    figure: Figure, gaps: Mapping[str, Gap], against: str, reads: str, *, share: bool = False, at: str = ""
) -> Figure:
    """The figure with a second variant: its curves of the names in `gaps` minus that of `against`.

    The differences come first where none is above `NEAR` of the figure's largest value and no curve is without.
    `reads` says how they are read, `share` whether they are of shares, `at` what stands behind one that is read off.
    Where none is known, or none differs from zero, the figure is what it was.
    """
    largest = {n: float(gap.y[np.nanargmax(np.abs(gap.y))]) for n, gap in gaps.items() if np.isfinite(gap.y).any()}
    if not any(largest.values()):
        return figure
    minus = f"minus {against}"
    words = (SHARE if share else NUMBER) + at
    drawn = [_minus(t, gaps[t["name"]], minus, words) for t in figure.data if t["name"] in largest]
    own = [{**trace, "meta": {**trace["meta"], "variant": CURVES}} for trace in figure.data]
    highest = max((v for trace in figure.data for v in trace["y"] if v is not None), default=1.0)
    every = all(trace["name"] in (*largest, against) for trace in figure.data)
    near = every and max(map(abs, largest.values())) < NEAR * highest
    axis = figure.layout["yaxis"]
    below = {"title": {"text": f"{axis['title']['text']}, {minus}"}, **({"tickformat": ".0%"} if share else {})}
    most = "; ".join(f"{name} {_signed(value, share)}" for name, value in largest.items())
    return replace(
        figure,
        data=[*own, *drawn],
        alt=f"{figure.alt} Largest differences, {minus}: {most}.",
        caption=f"{figure.caption} {minus.capitalize()}: {reads}".strip(),
        pick=(minus, CURVES) if near else (CURVES, minus),
        pick_label="Shown",
        layouts={minus: {"yaxis": below, "shapes": [{"y0": 0.0}]}},
    )


def _gap(values: np.ndarray, reference: np.ndarray) -> Gap:
    """The difference of two distribution functions as drawn: from a second on, to a hundredth of a point."""
    x, y = cdf_gap(np.maximum(values, SHORTEST_DRAWN), np.maximum(reference, SHORTEST_DRAWN), POINTS)
    return Gap(x, y.round(4))


def _minus(trace: Mapping[str, Any], gap: Gap, variant: str, words: str) -> dict[str, Any]:
    """One trace of differences in the colour and dash of the curve it is of."""
    kept = {key: value for key, value in trace.items() if key != "customdata"}
    meta = {**trace["meta"], "variant": variant}
    return {**kept, "x": plain_numbers(gap.x), "y": plain_numbers(gap.y), "meta": meta, "hovertemplate": words}


def _signed(value: float, share: bool) -> str:
    """A difference with its sign; of shares in points.

    >>> _signed(-0.031, True), _signed(12.5, False)
    ('-3.1 points', '+12.5')
    """
    sign = "-" if value < 0 else "+"
    return f"{sign}{100 * abs(value):.1f} points" if share else sign + shown(abs(value), "number")


_UNITS = (("hours", 3600.0, 2 * 3600.0), ("minutes", 60.0, 120.0), ("seconds", 1.0, 0.0))
_LOOKS = {"ahead": ("circle", 3), "level": ("circle-open", 0), "behind": ("diamond", 2), "unknown": ("x", 0)}
"""The marker and the palette's slot of each word: nothing hangs on colour alone."""


def interval_figures(rows: Sequence[Mapping[str, Any]], measures: Measures, naming: Sequence[str]) -> list[Figure]:
    """For the first measure: dots and bars of the differences; nothing where nothing is compared."""
    metric, title, kind = measures[0]
    compared = [
        row for row in rows if row.get("against") and row[f"{metric}_difference"] == row[f"{metric}_difference"]
    ]
    names = {id(row): ", ".join(str(row[key]) for key in naming) for row in rows}
    return [interval_figure(compared, metric, title, kind, names)] if compared else []


def interval_figure(
    rows: Sequence[Mapping[str, Any]], metric: str, title: str, kind: Kind, names: Mapping[int, str]
) -> Figure:
    """Dots with bars, the smallest difference on top, a line at no difference; `names` are by the `id` of a row."""
    ordered = sorted(rows, key=lambda row: row[f"{metric}_difference"])
    unit, size = _unit(ordered, metric) if kind == "seconds" else ("", 1.0)
    data = []
    for verdict, (symbol, slot) in _LOOKS.items():
        mine = [row for row in ordered if row[f"{metric}_verdict"] == verdict]
        if not mine:
            continue
        middles = [row[f"{metric}_difference"] for row in mine]
        halves = [row[f"{metric}_difference_high"] - middle for row, middle in zip(mine, middles)]
        data.append(
            {
                "type": "scatter",
                "name": verdict if verdict != "unknown" else "too few groups",
                "meta": {"slot": slot},
                "mode": "markers",
                "x": [middle / size for middle in middles],
                "y": [names[id(row)] for row in mine],
                "error_x": {"type": "data", "array": [half / size if half == half else 0.0 for half in halves]},
                "marker": {"symbol": symbol, "size": 10},
                "customdata": [difference_words(row, metric, kind) for row in mine],
                "hovertemplate": "%{y}: %{customdata}",
            }
        )
    against = ordered[0]["against"]
    words = [f"{names[id(row)]}: {difference_words(row, metric, kind)}" for row in ordered]
    axis = f"{title} minus that of {against}{f', {unit}' if unit else ''}"
    layout = {
        "xaxis": {"title": {"text": axis}, "rangemode": "tozero", "zeroline": True, "zerolinewidth": 2},
        "yaxis": {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [names[id(row)] for row in ordered],
            "autorange": "reversed",
        },
        "hovermode": "closest",
    }
    caption = (
        f"Left of the line a smaller {title}. Bars are 90 % intervals over groups of {groups_in(rows)}; a bar that "
        "crosses the line says that this log cannot tell the two apart."
    )
    height = 160 + 34 * len(ordered)
    return Figure(f"Differences in {title}", data, layout, f"{axis}. {'; '.join(words)}.", caption, height)


def _unit(rows: Sequence[Mapping[str, Any]], metric: str) -> tuple[str, float]:
    """The unit in which the largest difference is a number of a few digits."""
    ends = [abs(row[f"{metric}_difference{end}"]) for row in rows for end in ("", "_low", "_high")]
    largest = max((end for end in ends if end == end), default=0.0)
    return next((unit, size) for unit, size, least in _UNITS if largest >= least)
