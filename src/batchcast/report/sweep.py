# SPDX-License-Identifier: Apache-2.0
"""The tables of `batchcast sweep`: the cost of a study, its results, and the comparison of each plan (policy and
predictor) with a reference plan.

The module also draws the Pareto frontier of plans as an SVG image.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from ..metrics.measure import OverReplicates
from ..metrics.paired import DECIDES, Difference
from ..metrics.schedule import DIFFERENCES, GEOMETRIC_MEAN, MEAN_SLOWDOWN, RATIOS, SCHEDULE
from ..units import counted
from .blocks import Block, Table, TableColumn, columns_of, measure_columns
from .difference import named_row, plan_named

Row = Mapping[str, Any]
_NAMING = columns_of("log", "period", "settings", "policy", "predictor|planned with")
_COST = columns_of(
    *("log", "tasks|tasks|count", "done|done|count", "to_do|to do|count", "task_s|s per task|number"),
    *("core_hours|core hours|number", "wall_s|on the workers|seconds"),
)
_RATIOS = [TableColumn(each.name, f"{each.heading} over", "difference") for each in RATIOS]
_BEHIND = "In brackets: the 5th to 95th percentile over the replicates, paired"


def cost_table(rows: Sequence[Row], workers: int, source: str) -> Table:
    """Return the table that `--dry-run` prints."""
    note = (
        f"Seconds per task: {source}. The time assumes an even share of the tasks, and is at least the time of the "
        "longest task."
    )
    return Table(f"Tasks and their cost, on {counted(workers, 'worker')}", _COST, rows, note)


def study_tables(rows: Sequence[Row]) -> list[Block]:
    """Return the comparison, the differences to the reference, and the differences that one burst of jobs decides."""
    naming = _naming(rows)
    plain = [
        *naming,
        TableColumn("replicates", "replicates", "count"),
        *measure_columns([GEOMETRIC_MEAN]),
        *measure_columns(replace(each, table="always") for each in SCHEDULE if each in (*DIFFERENCES, *RATIOS)),
        TableColumn("on", "frontier"),
    ]
    means = Table(
        "Means over the replicates (without replicates: of the log itself); bounded slowdown, tau = 10 s", plain,
        [{**named_row(row), "on": "yes" if row["frontier"] else ""} for row in rows],
        "Frontier: no other plan (except perfect knowledge) has both a smaller mean bounded slowdown and a smaller"
        " longest wait.",
    )  # fmt: skip
    compared = [row for row in rows if row.get("against")]
    bursts = [
        _of_one_burst(row, stated)
        for row in compared
        if (stated := Difference.get(row, MEAN_SLOWDOWN.name)) and stated.largest_share > DECIDES
    ]
    return [means, *([_differences(compared, naming)] if compared else []), *bursts]


def _differences(rows: Sequence[Row], naming: Sequence[TableColumn]) -> Table:
    """Return a table of each plan's measures minus the reference plan's, or divided by them, with the results of
    replicates and of groups of jobs."""
    first = ("slowdown|bounded slowdown less|difference", "jobs|on the log itself, by user-weeks|difference")
    columns = [*naming, *columns_of(*first), *_RATIOS, *columns_of("users|users above 1.10|difference")]
    cells = [{**_cells(row), "jobs": _paired(row), "users": interval(row["users_longer"], "{:.2f}")} for row in rows]
    note = (
        f"{_BEHIND}; on the log itself the 90 % interval over groups of one user's submissions of one week. Users: the "
        "share of users with 50 jobs or more that wait longer by more than a tenth."
    )
    return Table(f"Against {plan_named(rows[0]['against'])}", columns, cells, note)


def _cells(row: Row) -> dict[str, Any]:
    """Return a plan's row for the table, with its difference in slowdown and its ratios to the reference."""
    ratios = {column.key: interval(row["ratios"][column.key], "{:.2f}") for column in _RATIOS}
    return {**named_row(row), **ratios, "slowdown": interval(row["replicated"][MEAN_SLOWDOWN.name], "{:+.1f}")}


def ablation_table(rows: Sequence[Row]) -> Table:
    """Return the effect of each word of a plan: the plan without it against the plan with it."""
    columns = [*_naming(rows), *columns_of("without", "slowdown|bounded slowdown more|difference"), *_RATIOS]
    note = "Difference and ratio of the plan without the word to the plan with it: above 0 or 1 if the word helps."
    caption = "Ablation: pairs of plans that differ by one word"
    return Table(caption, columns, [_cells(row) for row in rows], f"{note} {_BEHIND}.")


def _naming(rows: Sequence[Row]) -> list[TableColumn]:
    """Return the columns that name a plan: policy and predictor, and further settings that differ between rows."""
    return [c for c in _NAMING if c.key in ("policy", "predictor") or any(row[c.key] for row in rows)]


def interval(figure: OverReplicates | Difference, form: str) -> str:
    """Return a value with its interval as text; empty if the value is unknown.

    >>> interval(Difference(1.0, 0.5, 2.0), "{:.1f}"), interval(Difference(1.0), "{:.1f}")
    ('1.0, 0.5 to 2.0', '1.0')
    """
    if math.isnan(figure.value):
        return ""
    ends = "" if math.isnan(figure.low) else f", {form.format(figure.low)} to {form.format(figure.high)}"
    return f"{form.format(figure.value)}{ends}"


def _paired(row: Row) -> str:
    """Return the difference on the log itself as text; empty if it was not computed."""
    stated = Difference.get(row, MEAN_SLOWDOWN.name)
    if stated is None:
        return ""
    if not stated.has_interval:
        return f"{stated.value:+.1f} (too few groups)"
    return f"{stated.verdict}: {interval(stated, '{:+.1f}')}"


def _of_one_burst(row: Row, stated: Difference) -> str:
    """Return a sentence on a difference that one user's submissions of one week decide."""
    return (
        f"{row['log']}, {row['policy']} with {named_row(row)['predictor']}: {100 * stated.largest_share:.0f} % of the "
        f"sum of absolute differences on the log itself belongs to one user's submissions of one week; without them "
        f"the difference is {stated.without_largest:+.1f} instead of {stated.value:+.1f}; judge by the geometric mean"
    )


PANEL, WIDE, HIGH, EDGE, LINE = 2, 400.0, 280.0, 56.0, 18.0  # panels abreast, a panel's box, its margin, a line of text
LETTER_OFFSETS = (((6, -5), "start"), ((-6, 13), "end"), ((6, 13), "start"), ((-6, -5), "end"))
"""Where a plan's letter stands beside its point: the distance in both directions, and the text's anchor."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NICE = (1.0, 2.0, 2.5, 5.0, 10.0, 20.0)


def frontier_svg(rows: Sequence[Row]) -> str:
    """Draw the rows that `sweep.compare` returns as an SVG image.

    >>> row = {"log": "ours", "period": "", "settings": "", "policy": "easy", "predictor": "requested",
    ...        "mean_bounded_slowdown": 9.0, "max_wait_s": 3600.0, "frontier": True}
    >>> "easy, users" in frontier_svg([row])
    True
    """
    # Plans on the frontier are drawn filled and joined by a line: no plan lies to the left of the frontier and below
    # it. Letters stand for plans, explained below the panels.
    plans = list(dict.fromkeys(f"{row['policy']}, {row['predictor']}" for row in rows))
    letters = {plan: LETTERS[k % 26] * (1 + k // 26) for k, plan in enumerate(plans)}
    cells: dict[str, list[Row]] = {}
    for row in rows:
        cells.setdefault(" ".join(filter(None, (row["log"], row["period"], row["settings"]))), []).append(row)
    width = PANEL * (WIDE + EDGE) + EDGE / 2
    down = math.ceil(len(cells) / PANEL) * (HIGH + 1.6 * EDGE)
    parts = [_panel(name, mine, letters, k) for k, (name, mine) in enumerate(cells.items())]
    legend = [
        _text(EDGE / 2, down + LINE * (k + 1.5), f"{letter}  {plan_named(plan)}", "start", size=11)
        for k, (plan, letter) in enumerate(letters.items())
    ]
    height = down + LINE * (len(plans) + 2)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        f' font-family="sans-serif" font-size="12" role="img"><title>Mean bounded slowdown against the longest wait'
        f'</title><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}{"".join(legend)}</svg>\n'
    )


def _panel(name: str, rows: Sequence[Row], letters: Mapping[str, str], place: int) -> str:
    """Return the SVG elements of one log's axes and points."""
    left = EDGE + place % PANEL * (WIDE + EDGE)
    top = EDGE / 2 + place // PANEL * (HIGH + 1.6 * EDGE)
    points = [(row["mean_bounded_slowdown"], max(row["max_wait_s"], 1.0) / 3600.0, row) for row in rows]
    across, up = ticks([x for x, _, _ in points]), ticks([y for _, y, _ in points])

    def position(x: float, y: float) -> tuple[float, float]:
        return left + _share(x, across) * WIDE, top + HIGH - _share(y, up) * HIGH

    parts = [f'<rect x="{left:.1f}" y="{top:.1f}" width="{WIDE}" height="{HIGH}" fill="none" stroke="#999"/>']
    parts += [_text(position(x, up[0])[0], top + HIGH + 15, f"{x:g}") for x in across]
    parts += [_text(left - 6, position(across[0], y)[1] + 4, f"{y:g} h", "end") for y in up]
    parts.append(_text(left + WIDE / 2, top - 8, name, weight="bold"))
    parts.append(_text(left + WIDE / 2, top + HIGH + 31, "mean bounded slowdown (x axis) and longest wait (y axis)"))
    best = sorted((x, y) for x, y, row in points if row["frontier"])
    joined = " ".join("{:.1f},{:.1f}".format(*position(*point)) for point in best)
    parts.append(f'<polyline points="{joined}" fill="none" stroke="#0a5" stroke-dasharray="4 3"/>')
    places = [position(x, y) for x, y, _ in points]
    for k, ((cx, cy), (_, _, row)) in enumerate(zip(places, points)):
        close = sum(abs(cx - a) < 20 and abs(cy - b) < 20 for a, b in places[:k])
        aside, anchor = LETTER_OFFSETS[close % len(LETTER_OFFSETS)]
        fill = "#0a5" if row["frontier"] else "#fff"
        parts.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="4" fill="{fill}" stroke="#0a5"/>')
        letter = letters[f"{row['policy']}, {row['predictor']}"]
        parts.append(_text(cx + aside[0], cy + aside[1], letter, anchor))
    return "".join(parts)


def ticks(values: Sequence[float]) -> list[float]:
    """Return round numbers for a logarithmic axis of positive values, from below the smallest to above the largest
    value.

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
    step = next(s for s in (size * nice for nice in NICE) if math.ceil(high / s) - math.floor(low / s) <= 6)
    return [round(k * step, 9) for k in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _share(value: float, axis: Sequence[float]) -> float:
    """Return the position of a value on a logarithmic axis, 0 at its start and 1 at its end."""
    return math.log(value / axis[0]) / math.log(axis[-1] / axis[0])


def _text(x: float, y: float, text: str, anchor: str = "middle", weight: str = "normal", size: int = 12) -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{size}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
