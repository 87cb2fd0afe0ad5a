"""Pictures of a comparison: differences with their intervals, sorted, and what the largest groups own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import figures
from .blocks import Figure, Kind
from .difference import Measures, difference_words, groups_in

_UNITS = (("hours", 3600.0, 2 * 3600.0), ("minutes", 60.0, 120.0), ("seconds", 1.0, 0.0))
_LOOKS = {"ahead": ("circle", 3), "level": ("circle-open", 0), "behind": ("diamond", 2), "unknown": ("x", 0)}
"""The marker and the palette's slot of each word: nothing hangs on colour alone."""


def interval_figures(rows: Sequence[Mapping[str, Any]], measures: Measures, naming: Sequence[str]) -> list[Figure]:
    """For the first measure: dots and bars of the differences, and what the ten largest groups own of each figure."""
    metric, title, kind = measures[0]
    compared = [
        row for row in rows if row.get("against") and row[f"{metric}_difference"] == row[f"{metric}_difference"]
    ]
    if not compared:
        return []
    names = {id(row): ", ".join(str(row[key]) for key in naming) for row in rows}
    shares = figures.bars(
        f"How much of the {title} ten groups own",
        [names[id(row)] for row in rows],
        {"ten largest groups": [row[f"{metric}_top_ten_share"] for row in rows]},
        value="share of the sum over all jobs",
        share=True,
        caption=f"A group is {groups_in(rows)}. Where a few groups own much, a mean says little of the others.",
    )
    return [interval_figure(compared, metric, title, kind, names), shares]


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
