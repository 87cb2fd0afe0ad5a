# SPDX-License-Identifier: Apache-2.0
"""Heat maps as plain values, and heat maps of queue waits.

Waits are shown by weekday and hour and by size and limit, also with the changes that a prediction would cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...evaluation.calendar import Cells, by_size, by_time
from ...evaluation.differences import over_log, shown_names
from ...evaluation.evaluation import Evaluation
from ...evaluation.findings import ScheduleRow
from ...metrics.wait import HOURS, LEAST_JOBS, LIMITS, SHADES_S, SIZES
from ...simulation.models import YARDSTICK
from ...units import counted
from ..blocks import Figure, Table, TableColumn
from ..figures import signed, span, tick
from .gains import mark_choices, policy_words

SEQUENTIAL, DIVERGING = "sequential", "diverging"
"""Five shades from little to much; seven for changes, with an empty middle."""
HIGH = 34
NARROW = 24


class Axis(NamedTuple):
    """The meaning of a heat map's rows or columns, and the name of each row (from the top) or column."""

    title: str
    names: Sequence[str]


class Shades(NamedTuple):
    """The index of the shade of each cell (rows, columns), -1 for an empty cell; and the meaning of each shade."""

    indices: np.ndarray
    legend: Sequence[str]
    scale: str = SEQUENTIAL


CellText = Callable[[int, int], str]
"""The text of a cell, by row and column."""


def heat(
    title: str, down: Axis, across: Axis, shades: Shades, hover: CellText, inside: CellText, *, alt: str, caption: str,
    high: int = HIGH,
) -> Figure:  # fmt: skip
    """Return a heat map; if rows and columns have the same names, cells of equal names are framed.

    `hover` is the text of a cell for the pointer, and `inside` is written into the cell if it fits. `alt` is the
    alternative text with the main values; `high` is the height of a row in pixels.
    """
    there = np.argwhere(shades.indices >= 0).tolist()
    rows, columns = list(down.names), list(across.names)
    cells = {(r, c): hover(r, c) for r, c in there}
    trace = {
        "type": "heat", "name": "", "meta": {"slot": 0}, "x": [columns[c] for _, c in there],
        "y": [rows[r] for r, _ in there], "shade": [int(shades.indices[r, c]) for r, c in there],
        "text": [inside(r, c) for r, c in there], "customdata": list(cells.values()),
        "hovertemplate": f"{down.title} %{{y}}, {across.title} %{{x}}: %{{customdata}}",
    }  # fmt: skip
    layout = {
        "xaxis": {"type": "category", "title": {"text": across.title}, "categoryarray": columns},
        "yaxis": {"type": "category", "title": {"text": down.title}, "categoryarray": rows},
        "scale": shades.scale, "legend": list(shades.legend), "diagonal": set(rows) == set(columns),
    }  # fmt: skip
    keys = [TableColumn("row", down.title), *(TableColumn(f"c{c}", name) for c, name in enumerate(columns))]
    lines = [{"row": name, **{f"c{c}": cells.get((r, c)) for c in range(len(columns))}} for r, name in enumerate(rows)]
    table = Table(f"{title}, as a table", keys, lines, folded=True)
    return Figure(title, [trace], layout, alt, caption, 60 + high * len(rows), table=table)


DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
TIMES = tuple(f"{hour:02}–{hour + HOURS:02} h" for hour in range(0, 24, HOURS))
CHANGES_S = (-7200.0, -900.0, -60.0, 60.0, 900.0, 7200.0)
WAITS = ("up to 1 min", "to 15 min", "to 2 h", "to 8 h", "over 8 h")
CHANGES = (
    "over 2 h shorter", "15 min to 2 h shorter", "1 to 15 min shorter", "within 1 min", "1 to 15 min longer",
    "15 min to 2 h longer", "over 2 h longer",
)  # fmt: skip


def class_words(low: float, high: float) -> str:
    """Return a class of processor counts as text.

    >>> class_words(1, 1), class_words(5, 16), class_words(65, math.inf)
    ('1', '5–16', '65 and more')
    """
    if low == high:
        return f"{low:g}"
    return f"{low:g} and more" if math.isinf(high) else f"{low:g}–{high:g}"


def limit_words(low: float, high: float) -> str:
    """Return a class of time limits as text.

    >>> limit_words(0, 3600), limit_words(3600, 14400), limit_words(86400, math.inf)
    ('to 1 h', '1–4 h', 'over 1 d')
    """
    if not low or math.isinf(high):
        return f"over {tick(low)}" if low else f"to {tick(high)}"
    return f"{low / 3600:g}–{high / 3600:g} h"


SIZE_NAMES = tuple(class_words(*one) for one in SIZES)
LIMIT_NAMES = tuple(limit_words(*one) for one in LIMITS)
WEEKDAY, HOUR = Axis("weekday", DAYS), Axis("hour of submission", TIMES)
SIZE, LIMIT = Axis("processors", SIZE_NAMES), Axis("limit", LIMIT_NAMES)


def recorded_heats(evaluation: Evaluation) -> list[Figure]:
    """Return recorded median waits by weekday and hour, and by size and limit; empty without known waits."""
    trace = evaluation.trace
    waits = np.where((trace.wait_time >= 0) & ~np.isnan(trace.run_time), trace.wait_time, np.nan)
    jobs = int(np.isfinite(waits).sum())
    zone = f"Hours of the log's zone, {trace.info.timezone}. "
    by_hour, by_limit = by_time(trace, waits), by_size(trace, waits, evaluation.procs)
    drawn = _recorded("Waits by weekday and hour of submission, as recorded", by_hour, WEEKDAY, HOUR, jobs, zone)
    drawn += _recorded("Waits by size and limit, as recorded", by_limit, SIZE, LIMIT, jobs)
    return drawn + _by_partition(evaluation, waits)


MOST_PARTITIONS = 4


def _by_partition(evaluation: Evaluation, waits: np.ndarray) -> list[Figure]:
    """Return recorded median waits by size and limit for the largest partitions, if there are several."""
    trace = evaluation.trace
    codes, names = trace.nominal("partition_id").codes, shown_names(trace, "partition_id")
    jobs = np.bincount(codes[(codes >= 0) & np.isfinite(waits)], minlength=len(names))
    if (jobs > 0).sum() < 2:
        return []
    drawn = []
    for code in np.argsort(-jobs, kind="stable")[:MOST_PARTITIONS].tolist():
        cells = by_size(trace, np.where(codes == code, waits, np.nan), evaluation.procs)
        title = f"Waits by size and limit in partition {names[code]}, as recorded"
        drawn += _recorded(title, cells, SIZE, LIMIT, int(jobs[code]))
    return drawn


def _recorded(title: str, cells: Cells, down: Axis, across: Axis, jobs: int, first: str = "") -> list[Figure]:
    """Return a heat map of recorded waits; empty if no cell has enough jobs."""
    aside = jobs - int(cells.jobs.sum())
    left_out = f" {counted(aside)} without a known size and limit are left out." if aside else ""

    def words(r: int, c: int) -> str:
        return f"{span(cells.median[r, c])} ({counted(cells.jobs[r, c])})"

    shades = Shades(_shades(cells.median, SHADES_S), WAITS)
    return _median_heat(title, cells, (down, across), shades, words, "Median wait", f"{first}Median waits.", left_out)


def _median_heat(
    title: str, cells: Cells, axes: tuple[Axis, Axis], shades: Shades, hover: CellText, what: str, caption: str,
    left_out: str = "",
) -> list[Figure]:  # fmt: skip
    """Return a heat map of medians in seconds, with signs if they are changes; empty if no cell has enough jobs."""
    if not np.isfinite(cells.median).any():
        return []
    sign, (down, across) = shades.scale == DIVERGING, axes
    alt = f"{what} by {down.title} and {across.title}: {_extremes(cells, down, across, sign)}."
    empty = f"Cells with fewer than {LEAST_JOBS} jobs are empty." if np.isnan(cells.median).any() else ""
    caption = f"{caption} {empty}{left_out}"

    def inside(r: int, c: int) -> str:
        return brief(cells.median[r, c], sign)

    return [heat(title, down, across, shades, hover, inside, alt=alt, caption=caption)]


def change_heat(evaluation: Evaluation) -> list[Figure]:
    """Return the change in median wait by size and limit if a policy plans with a prediction instead of time limits."""
    pair = _forecast(evaluation)
    if pair is None:
        return []
    limits, forecast = pair
    trace, both = evaluation.trace, []
    for each in (forecast, limits):
        waits = np.where(evaluation.mask, over_log(trace, each.schedule, each.schedule.wait_time), np.nan)
        both.append(by_size(trace, waits, evaluation.procs))
    ours, theirs = both
    cells = Cells(ours.jobs, ours.median - theirs.median)
    policy = policy_words(forecast.policy)

    def words(r: int, c: int) -> str:
        change, before, after = (each[r, c] for each in (cells.median, theirs.median, ours.median))
        return f"{signed(change)} ({span(before)} to {span(after)}; {counted(cells.jobs[r, c])})"

    drawn = _median_heat(
        f"Change in median wait with {forecast.predictor} under {policy}", cells, (SIZE, LIMIT),
        Shades(_shades(cells.median, CHANGES_S), CHANGES, DIVERGING), words, "Change in median wait",
        f"Planned with {forecast.predictor} instead of the users' limits, simulated under {policy}. Which jobs wait "
        "less and which wait longer.",
    )  # fmt: skip
    return [mark_choices(figure, [forecast.predictor], policy=forecast.policy) for figure in drawn]


def _forecast(evaluation: Evaluation) -> tuple[ScheduleRow, ScheduleRow] | None:
    """Return two rows of one policy: planned with time limits, and planned with the best prediction.

    The policy is the policy of the best schedule that plans with a prediction, else the policy of the steps. The result
    is None if no schedule plans with a prediction.
    """
    findings = evaluation.findings
    step = next((step for step in findings.steps if step.name == "forecasts"), None) if findings else None
    if findings is None or step is None:
        return None
    ran = {(o.policy, o.predictor): o for o in evaluation.outcomes}
    row = findings.forecast or step
    return ran[row.policy, YARDSTICK], ran[row.policy, row.predictor]


def _shades(values: np.ndarray, limits: Sequence[float]) -> np.ndarray:
    return np.where(np.isnan(values), -1, np.searchsorted(limits, values, side="left"))


def brief(seconds: float, sign: bool = False) -> str:
    """Return a duration as text for a cell.

    >>> brief(42.0), brief(2820.0), brief(3580.0), brief(12600.0, sign=True), brief(-2e5, sign=True), brief(0.2, True)
    ('42 s', '47 min', '1.0 h', '+3.5 h', '-2.3 d', '0 s')
    """
    size = abs(seconds)
    unit, length, digits = next(one for one in _UNITS if size >= 0.992 * one[1] or one[1] == 1)
    amount = f"{size / length:.{digits if size < 9.95 * length else 0}f}"
    before = ("-" if seconds < 0 else "+" if sign else "") if float(amount) else ""
    return f"{before}{amount} {unit}"


_UNITS = (("d", 86400, 1), ("h", 3600, 1), ("min", 60, 0), ("s", 1, 0))


def _extremes(cells: Cells, down: Axis, across: Axis, sign: bool = False) -> str:
    """Return the cells with the largest and the smallest value as words for the alternative text."""
    said = []
    for word, place in (("most", np.nanargmax(cells.median)), ("least", np.nanargmin(cells.median))):
        r, c = divmod(int(place), cells.median.shape[1])
        value = signed(cells.median[r, c]) if sign else span(cells.median[r, c])
        said.append(f"{word} {value} ({down.names[r]}, {across.names[c]}; {counted(cells.jobs[r, c])})")
    return ", ".join(said)
