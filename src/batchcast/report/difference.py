# SPDX-License-Identifier: Apache-2.0
"""Show differences from a reference as text and figures, with interval, verdict, and the jobs that decide each
difference.

Figures show curves as differences from a reference curve, and sorted intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..evaluation.accuracy import measures_of
from ..evaluation.differences import Comparison, ResultRow
from ..metrics.curves import cdf_gap
from ..metrics.measure import Measure
from ..metrics.paired import LEAST_GROUPS, Difference
from ..metrics.schedule import COMPARED, GEOMETRIC_MEAN
from ..metrics.wait import COMPARED as COMPARED_WAITS
from ..predict.protocol import spec_words
from ..units import counted, span
from .blocks import Block, Figure, Kind, Table, TableColumn, as_text, columns_of
from .figures import SHORTEST_DRAWN, lines, log_time_axis, plain_numbers

Measures = Sequence[Measure]
VERDICTS = {"ahead": "ahead", "behind": "behind", "level": "level", "unknown": "too few groups"}


FORECAST: Measures = measures_of("")
SCHEDULE: Measures = COMPARED
WAIT: Measures = COMPARED_WAITS


def difference_blocks(rows: Sequence[ResultRow], measures: Measures, naming: Sequence[TableColumn]) -> list[Block]:
    """Return the table of differences, and a sentence for each difference that one user's burst decides.

    The result is empty if there is no second method. `naming` has the columns that identify a row.
    """
    against = reference(rows)
    if not against:
        return []
    title, unit = measures[0].title, measures[0].unit
    compared = [row.comparison for row in rows if row.comparison]
    means = [f"over_user_weeks|{title} over user-weeks|{unit}|each week of each user has the same weight"]
    if any(comparison.geometric_mean is not None for comparison in compared):
        means.append(f"{GEOMETRIC_MEAN.name}|{GEOMETRIC_MEAN.title}|{GEOMETRIC_MEAN.unit}")
    columns = [
        *naming,
        *(_against(measure, against, _MEANING) for measure in measures),
        *columns_of(*means, more=True),
        *columns_of(f"users_better|users better off|share|users whose {title} is below the reference's"),
        *columns_of(
            f"users_worse|users worse off|share|users whose {title} is above the reference's",
            f"top_ten_share|ten largest groups|share|share of the total {title} in the ten largest groups",
            more=True,
        ),
    ]
    if any(comparison.replicates for comparison in compared):
        columns.insert(len(naming) + 1, TableColumn("_replicates", f"{title} in replicates", "difference", _REPLICATES))
    cells = [
        named_row(row)
        | {f"{m.name}_words": difference_words(row.difference(m.name), m.unit) for m in measures}
        | {"_replicates": _of_replicates(row.comparison, measures[0])}
        for row in rows
    ]
    heading = f"Differences with 90 % intervals over groups of {groups_in(rows)}"
    names = [column.key for column in naming]
    return [Table(heading, columns, cells, _no_interval(rows, measures[0])), *deciding(rows, measures, names)]


def reference(rows: Sequence[ResultRow]) -> str:
    """Return the reference with which rows are compared; empty if there is none."""
    return next((row.against for row in rows if row.against), "")


def _against(measure: Measure, against: str, meaning: str) -> TableColumn:
    """Return the table column with a measure's differences."""
    return TableColumn(f"{measure.name}_words", f"{measure.title} against {plan_named(against)}", "difference", meaning)


def named_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the name that readers see for its predictor, if it has one."""
    return {**row, **({"predictor": spec_words(str(row["predictor"]))} if "predictor" in row else {})}


def plan_named(against: str) -> str:
    """Return the name that readers see, of a predictor or of a policy and its predictor.

    >>> plan_named("requested"), plan_named("easy, actual")
    ("users' limits", 'easy, perfect knowledge')
    """
    policy, _, spec = against.rpartition(", ")
    return f"{policy}, {spec_words(spec)}" if policy else spec_words(spec)


def with_difference(table: Table, results: Sequence[ResultRow], measures: Measures, meaning: str = "") -> Table:
    """Return the table with another column: the difference of each row's first measure to the reference, with interval.

    `results` are the table's rows in its order; without a reference, the table is unchanged. Without a `meaning` of the
    column, the usual meaning applies, and the table's note says why differences have no interval.
    """
    measure, against = measures[0], reference(results)
    if not against:
        return table
    column = _against(measure, against, meaning or _INTERVAL)
    words = [interval_words(row.difference(measure.name), measure.unit) for row in results]
    rows = [{**row, column.key: text} for row, text in zip(table.rows, words)]
    note = " ".join(filter(None, (table.note, "" if meaning else _no_interval(results, measure))))
    return replace(table, columns=[*table.columns, column], rows=rows, note=note)


def _no_interval(rows: Sequence[ResultRow], measure: Measure) -> str:
    """Return a sentence on why a difference has no interval; empty if each difference has one."""
    stated = (row.difference(measure.name) for row in rows)
    few = next((one.groups for one in stated if one and one.verdict == "unknown" and one.groups is not None), None)
    return f"No interval: only {counted(few, 'group')}; {LEAST_GROUPS} are needed." if few is not None else ""


def groups_in(rows: Sequence[ResultRow]) -> str:
    """Return a description of the groups of jobs behind the compared rows, from `evaluation.differences.groups_of`."""
    named = (row.comparison.groups_of for row in rows if row.comparison and row.comparison.groups_of)
    return next(named, USUAL_GROUPS)


USUAL_GROUPS = "one user's submissions of one week"
_INTERVAL = (
    "difference of the means with its 90 % interval; if the interval contains zero, the log does not show a difference"
)
_MEANING = (
    "difference of the means with its 90 % interval: ahead or behind if the interval excludes zero, else level (the "
    "log does not show a difference)"
)


_REPLICATES = "5th to 95th percentile of the difference over logs resampled by week, and how often it is below 0"


def _of_replicates(comparison: Comparison | None, measure: Measure) -> str | None:
    """Return a difference over replicates as text."""
    change = comparison.replicated.get(measure.name) if comparison else None
    if comparison is None or change is None:
        return None
    low, high = (signed(end, measure.unit) for end in (change.low, change.high))
    return f"{low} to {high}, below in {100 * change.ahead:.0f} % of {comparison.replicates}"


def difference_words(difference: Difference | None, kind: Kind) -> str | None:
    """Return a difference with its interval and verdict as text; None if there is no difference.

    >>> difference_words(Difference(-60.0, -90.0, -30.0, "ahead"), "seconds")
    'ahead -60 s (-90 to -30)'
    """
    if difference is None or not difference.is_known:
        return None
    verdict, words = VERDICTS[difference.verdict], interval_words(difference, kind)
    return f"{verdict} {words}" if difference.has_interval else f"{words} ({verdict})"


UNITS = ((100.0, 1.0, "s"), (6000.0, 60.0, "min"), (2 * 86400.0, 3600.0, "h"), (math.inf, 86400.0, "d"))


def interval_words(difference: Difference | None, kind: Kind) -> str | None:
    """Return a difference and its interval as text, with times in one unit; None if there is no difference.

    >>> interval_words(Difference(-792.0, -1008.0, -586.0), "seconds")
    '-13.2 min (-16.8 to -9.8)'
    """
    if difference is None or not difference.is_known:
        return None
    if not difference.has_interval:
        return signed(difference.value, kind)
    values = difference.value, difference.low, difference.high
    if kind != "seconds":
        return "{} ({} to {})".format(*(signed(value, kind) for value in values))
    largest = max(map(abs, values))
    size, unit = next((size, unit) for most, size, unit in UNITS if largest < most)
    digits = 0 if size == 1.0 and largest >= 10 else 1
    middle, low, high = (f"{value / size + 0.0:+.{digits}f}" for value in values)
    return f"{middle} {unit} ({low} to {high})"


def signed(value: float, kind: Kind) -> str:
    """Return a difference as text with its sign.

    >>> signed(-0.5, "seconds"), signed(12.0, "number"), signed(0.0, "seconds")
    ('-0.5 s', '+12.0', '0')
    """
    if not value:
        return "0"
    sign = "-" if value < 0 else "+"
    if kind == "seconds":
        return f"{sign}{span(abs(value))}" if abs(value) >= 1 else f"{sign}{abs(value):.2g} s"
    if kind == "share":
        return f"{sign}{100 * abs(value):.1f} points"
    return f"{sign}{as_text(abs(value), kind)}"


def deciding(rows: Sequence[ResultRow], measures: Measures, naming: Sequence[str]) -> list[str]:
    """Return a sentence for each difference that one group of submissions decides."""
    return [
        f"{', '.join(str(named_row(row)[key]) for key in naming)} against {plan_named(row.against)}, "
        f"{measure.title}: {difference.decided_by}."
        for row in rows
        for measure in measures
        if (difference := row.difference(measure.name)) and difference.decided_by
    ]


CURVES = "the curves"
SHARE, NUMBER, AT_MOST = "%{y:+.1%}", "%{y:+}", " ≤ %{x:span}"
"""Hover texts of a difference, and of the value at which the difference is computed."""
POINTS = 200
CLOSE_SHARE = 0.1
"""If all curves differ by less than this share of the figure's largest value, the page first shows the differences."""


class Gap(NamedTuple):
    """Difference between a curve and the reference curve: (m,) positions on the other axis, (m,) differences."""

    x: Sequence[Any] | np.ndarray
    y: np.ndarray


def cdf_minus(figure: Figure, series: Mapping[str, np.ndarray], against: str, reads: str) -> Figure:
    """Return a figure of `figures.cdf` that can also show the differences from one of its series; see `or_minus`."""
    gaps = {name: _gap(values, series[against]) for name, values in series.items() if name != against}
    return or_minus(figure, gaps, against, reads, share=True, at=AT_MOST)


def cdf_change(title: str, pairs: Mapping[str, tuple[np.ndarray, np.ndarray]], x: str) -> Figure:
    """Return a figure with one curve per pair: the distribution function of the second sample minus the distribution
    function of the first."""
    gaps = {name: _gap(b, a) for name, (a, b) in pairs.items()}
    figure = lines(title, gaps, x=x, y="share of jobs, B minus A", kind="share")
    data = [
        {**_minus(trace, gap, "", SHARE + AT_MOST), "line": {**trace["line"], "shape": "hv"}}
        for trace, gap in zip(figure.data, gaps.values())
    ]
    reach = [float(v) for gap in gaps.values() for v in (gap.x[0], gap.x[-1])]
    words = "; ".join(f"{n} {signed(float(y[np.argmax(np.abs(y))]), 'share')}" for n, (_, y) in gaps.items())
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
    """Return the figure with a second variant, which shows the curves named in `gaps` minus the curve `against`.

    The page first shows the differences if every curve has one and each is at most the share `CLOSE_SHARE` of the
    figure's largest value. `reads` explains the differences, `share` says whether they are differences of shares, and
    `at` is the text that follows a position. If no difference is known or all are zero, the figure is returned
    unchanged.
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
    near = every and max(map(abs, largest.values())) < CLOSE_SHARE * highest
    axis = figure.layout["yaxis"]
    below = {"title": {"text": f"{axis['title']['text']}, {minus}"}, **({"tickformat": ".0%"} if share else {})}
    most = "; ".join(f"{name} {signed(value, 'share' if share else 'number')}" for name, value in largest.items())
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
    """Return the difference of two distribution functions, from 1 s, rounded to 0.01 percentage points."""
    x, y = cdf_gap(np.maximum(values, SHORTEST_DRAWN), np.maximum(reference, SHORTEST_DRAWN), POINTS)
    return Gap(x, y.round(4))


def _minus(trace: Mapping[str, Any], gap: Gap, variant: str, words: str) -> dict[str, Any]:
    """Return the trace of one curve's differences, in the colour and dash of the curve."""
    kept = {key: value for key, value in trace.items() if key != "customdata"}
    meta = {**trace["meta"], "variant": variant}
    return {**kept, "x": plain_numbers(gap.x), "y": plain_numbers(gap.y), "meta": meta, "hovertemplate": words}


_UNITS = (("hours", 3600.0, 2 * 3600.0), ("minutes", 60.0, 120.0), ("seconds", 1.0, 0.0))
_SYMBOLS = {"ahead": ("circle", 3), "level": ("circle-open", 0), "behind": ("diamond", 2), "unknown": ("x", 0)}
"""The marker and the palette's slot of each verdict: both differ, so that colour is not needed to read them."""


def interval_figures(rows: Sequence[ResultRow], measures: Measures, naming: Sequence[str]) -> list[Figure]:
    """Return a figure of the differences in the first measure with intervals; empty if nothing is compared."""
    measure = measures[0]
    compared = {
        ", ".join(str(row[key]) for key in naming): one
        for row in rows
        if (one := row.difference(measure.name)) and one.is_known
    }
    if not compared:
        return []
    return [interval_figure(compared, measure.title, measure.unit, reference(rows), groups_in(rows))]


def interval_figure(differences: Mapping[str, Difference], title: str, kind: Kind, against: str, groups: str) -> Figure:
    """Return a figure with a dot and an interval bar per difference, the smallest on top, and a line at zero;
    `differences` has the differences by name."""
    ordered = dict(sorted(differences.items(), key=lambda item: item[1].value))
    largest = np.nanmax(np.abs([end for one in ordered.values() for end in (one.value, one.low, one.high)]))
    unit, size = "", 1.0
    if kind == "seconds":  # choose the unit in which the largest difference has few digits
        unit, size = next((unit, size) for unit, size, least in _UNITS if largest >= least)
    data = []
    for verdict, (symbol, slot) in _SYMBOLS.items():
        mine = {name: stated for name, stated in ordered.items() if stated.verdict == verdict}
        if not mine:
            continue
        halves = [(stated.high - stated.value) / size if stated.has_interval else 0.0 for stated in mine.values()]
        data.append({
            "type": "scatter", "name": VERDICTS[verdict], "meta": {"slot": slot}, "mode": "markers",
            "x": [stated.value / size for stated in mine.values()], "y": list(mine),
            "error_x": {"type": "data", "array": halves}, "marker": {"symbol": symbol, "size": 10},
            "customdata": [difference_words(stated, kind) for stated in mine.values()],
            "hovertemplate": "%{y}: %{customdata}",
        })  # fmt: skip
    words = [f"{name}: {difference_words(stated, kind)}" for name, stated in ordered.items()]
    axis = f"{title} minus that of {against}{f', {unit}' if unit else ''}"
    layout = {
        "xaxis": {"title": {"text": axis}, "rangemode": "tozero", "zeroline": True, "zerolinewidth": 2},
        "yaxis": {
            "type": "category", "categoryorder": "array", "categoryarray": list(ordered), "autorange": "reversed",
        },
        "hovermode": "closest",
    }  # fmt: skip
    caption = (
        f"Left of the line, the {title} is smaller. Bars are 90 % intervals over groups of {groups}. If a bar "
        "crosses the line, the log does not show a difference."
    )
    height = 160 + 34 * len(ordered)
    return Figure(f"Differences in {title}", data, layout, f"{axis}. {'; '.join(words)}.", caption, height)
