# SPDX-License-Identifier: Apache-2.0
"""The table of run-time predictions and their errors, with the event order and the selected jobs above the table.

The module also shows the coverage of calibrated bounds, and the results of planning with each quantile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..evaluation.accuracy import measures_of, run_time_target
from ..metrics.accuracy import FORECAST
from ..metrics.coverage import is_covered
from ..predict.protocol import spec_words as spec_words
from . import figures
from .blocks import Block, Figure, Table, TableColumn, TableRows, columns_of, measure_columns
from .difference import groups_in, with_difference
from .figures import span

if TYPE_CHECKING:
    from ..evaluation.accuracy import ForecastRow, Planned
    from ..evaluation.differences import ResultRow
    from ..evaluation.limits import Limits

COLUMNS = (
    *columns_of("predictor", "jobs|jobs|count|selected jobs that ran"),
    *measure_columns(FORECAST),
    *columns_of("coverage_90|within 90 % bound|share|jobs that ended within the 90 % bound of their prediction"),
    *columns_of("seconds|took, s|number|time spent in the predictor, without the replay", more=True),
)
GROUPS_SHOWN = 20
PROTOCOLS = {
    "honest": "honest protocol",
    "paper": "paper protocol (each run time is known right after submission, which no cluster can offer)",
}


def accuracy_table(
    rows: Sequence[ResultRow], protocol: str, settings: Mapping[str, Any], by: str | None = None, per: str = ""
) -> Table:
    """Return rows of `evaluation.accuracy.figures` as a table; `by` adds a column with the group of jobs."""
    columns, note = list(of_memory(COLUMNS) if per else COLUMNS), ""
    if not any("coverage_90" in row for row in rows):
        columns = [column for column in columns if column.key != "coverage_90"]
    notes = [stand_ins(rows), untrained(rows), trainings(rows)]
    rows, lacking = _marked(rows)
    if by is not None:
        rows, note = _largest(rows)
        columns = [replace(column, more=column.more or column.key == "coverage_90") for column in columns[:-1]]
        columns[1:1] = [TableColumn("group", {"size": "processors"}.get(by, by))]
    note = " ".join(filter(None, (note, lacking, *notes)))
    what = f"Predictions of peak memory per {per}" if per else "Run-time predictions"
    heading = f"{what}{f' by {by}' if by else ''} · {PROTOCOLS[protocol]} · {selection_words(settings)}"
    table = Table(heading, columns, [{**row, "predictor": spec_words(row["predictor"])} for row in rows], note)
    return table if by is None else with_difference(table, rows, measures_of(per), WITHIN.format(groups_in(rows)))


def of_memory(columns: Sequence[TableColumn]) -> list[TableColumn]:
    """Convert the columns of a table of run-time errors to columns of memory errors.

    >>> of_memory(COLUMNS)[2].kind
    'memory'
    """
    return [
        replace(each, key=each.key.removesuffix("_s") + "_mib", kind="memory",
                meaning=each.meaning.replace("ran longer", "used more"))
        if each.kind == "seconds"
        else replace(each, meaning=MEANINGS.get(each.key, each.meaning))
        for each in columns
    ]  # fmt: skip


MEANINGS = {
    "jobs": "jobs scored: their peak was measured and they did not run out of memory",
    "underestimate_rate": "jobs that used more memory than predicted",
    "coverage_90": "jobs that used no more memory than the 90 % bound of their prediction",
}
WITHIN = "with its 90 % interval over groups of {}, within the rows' jobs"


def _marked(rows: Sequence[ResultRow]) -> tuple[list[ResultRow], str]:
    """Return the rows, marked if the log lacks a column that the method uses, and a note with these columns."""
    marked = [row.named(predictor=f"{spec_words(row['predictor'])} *") if row.get("lacking") else row for row in rows]
    by_fields = _together((row["lacking"].replace(" ", ", "), row) for row in rows if row.get("lacking"))
    return marked, " ".join(f"* {who}: the log has no {fields}." for fields, who in by_fields.items())


def _together(pairs: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
    """Return the names of the rows' predictors that share a text, as one list of names per text."""
    names: dict[str, list[str]] = {}
    for text, row in pairs:
        names.setdefault(text, []).append(spec_words(row["predictor"]))
    return {text: ", ".join(who) for text, who in names.items()}


def stand_ins(rows: TableRows) -> str:
    """Return a text that says which method replaced another method, and for what share of the jobs.

    >>> stand_ins([{"predictor": "mine", "answered_by": "recent_mean", "answered_by_share": 1.0}])
    'mine: 100 % answered by recent_mean.'
    """
    answered = [row for row in rows if row.get("answered_by")]
    shares = (f"{100 * row['answered_by_share']:.{0 if row['answered_by_share'] == 1.0 else 1}f} %" for row in answered)
    names = _together(
        (f"{share} answered by {spec_words(row['answered_by'])}", row) for share, row in zip(shares, answered)
    )
    return " ".join(f"{who}: {words}." for words, who in names.items())


def untrained(rows: TableRows) -> str:
    """Return a text that names the methods that never trained because the log is too short.

    >>> untrained([{"predictor": "learner", "trains_from_jobs": 4500}])
    'learner: never trained, because its first search needs 4,500 submissions; it used its initial parameters.'
    """
    return " ".join(
        f"{spec_words(row['predictor'])}: never trained, because its first search needs "
        f"{row['trains_from_jobs']:,} submissions; it used its initial parameters."
        for row in rows
        if row.get("trains_from_jobs")
    )


def trainings(rows: TableRows) -> str:
    """Return a text that says how often each method was trained on this log.

    >>> trainings([{"predictor": "own", "trainings": 36}, {"predictor": "mine", "trainings": 1}, {"predictor": "x"}])
    'Trained: own 36 times, mine once.'
    """
    counts = {spec_words(row["predictor"]): row["trainings"] for row in rows if row.get("trainings")}
    words = [f"{who} {'once' if count == 1 else f'{count:,} times'}" for who, count in counts.items()]
    return f"Trained: {', '.join(words)}." if words else ""


def _largest(rows: Sequence[ResultRow]) -> tuple[Sequence[ResultRow], str]:
    """Return the rows of the groups with the most jobs, and a note if some groups were left out."""
    jobs = {row["group"]: row["jobs"] for row in rows}
    if len(jobs) <= GROUPS_SHOWN:
        return rows, ""
    kept = set(sorted(jobs, key=lambda group: -jobs[group])[:GROUPS_SHOWN])
    note = f"The {GROUPS_SHOWN} groups with most jobs of {len(jobs)}; --json has them all."
    return [row for row in rows if row["group"] in kept], note


def selection_words(settings: Mapping[str, Any]) -> str:
    """Return a description of the selected and the scored jobs.

    >>> selection_words({"from": "2004-01-01", "status": ["1"], "score_from": "2004-06-01"})
    "papers' selection (cut first, cold start): from 2004-01-01, status 1; scored from 2004-06-01"
    """
    cut = _words(settings, ("from", "to", "status", "partition", "queue", "user", "first"))
    scored = _words(settings, ("score_from", "score_to", "score_status"))
    text = f"papers' selection (cut first, cold start): {cut}" if cut else "whole log"
    return f"{text}; scored {scored.replace('score ', '')}" if scored else text


def _words(settings: Mapping[str, Any], keys: Sequence[str]) -> str:
    given = [(key.replace("score_", ""), settings.get(key)) for key in keys]
    return ", ".join(f"{key} {'|'.join(v) if isinstance(v, list) else v}" for key, v in given if v)


DEFAULT = "kernel"
PLANNED_COLUMNS = (
    TableColumn("level", "planned with", "text", "the quantile of the prediction that the scheduler would use"),
    *measure_columns(each for each in FORECAST if each.name in ("mae_s", "underestimate_rate")),
)


def _with_quantiles(forecasts: Mapping[str, ForecastRow]) -> tuple[str, Sequence[Planned]]:
    """Return the method whose quantiles are shown, and the results of planning with them: `kernel`, else the first
    method that has quantiles; empty if no method has any."""
    planned = {name: row.planned for name, row in forecasts.items() if row.planned}
    name = DEFAULT if DEFAULT in planned else next(iter(planned), "")
    return name, planned.get(name, ())


def planned_table(forecasts: Mapping[str, ForecastRow]) -> list[Block]:
    """Return the results of planning with each quantile; empty if no method has quantiles."""
    name, planned = _with_quantiles(forecasts)
    if not name:
        return []
    rows = [{**found._asdict(), "level": f"{100 * found.level:g} %"} for found in planned]
    title = f"Fewer underestimates: errors of the quantiles of {spec_words(name)} (--plan-level)"
    return [Table(title, PLANNED_COLUMNS, rows)]


def planned_figure(forecasts: Mapping[str, ForecastRow], rows: TableRows, slots: Mapping[str, int]) -> list[Figure]:
    """Return a figure of one method's quantiles as a curve, and of all methods' predictions as points."""
    name, curve = _with_quantiles(forecasts)
    if not name:
        return []
    series: dict[str, tuple[list[float], list[float]]] = {
        f"{name}, its quantiles": ([p.underestimate_rate for p in curve], [p.mae_s for p in curve])
    }
    highest, beyond = 2.0 * max(p.mae_s for p in curve), []
    for row in rows:
        if row["mae_s"] > highest:
            beyond.append(
                f"{spec_words(row['predictor'])} ({span(row['mae_s'])}, {100 * row['underestimate_rate']:.0f} %)"
            )
        elif row["mae_s"] == row["mae_s"]:
            series[spec_words(row["predictor"])] = ([row["underestimate_rate"]], [row["mae_s"]])
    levels = ", ".join(f"{100 * p.level:g}" for p in curve)
    left_out = f" Beyond the picture: {', '.join(beyond)}." if beyond else ""
    figure = figures.lines(
        "Mean error against underestimates", series, x="share of underestimates", y="mean absolute error",
        kind="seconds", markers=True, slots={**slots, f"{name}, its quantiles": slots.get(name, 1)}, over_share=True,
        caption="Planning with a higher quantile gives fewer underestimates and a larger mean error. Points of the "
        f"curve, from right to left: the quantiles at {levels} %. A point below the curve has a smaller error at "
        f"the same share of underestimates.{left_out}",
    )  # fmt: skip
    alt = "; ".join(
        f"planned with {100 * p.level:g} %: mean error {span(p.mae_s)}, {100 * p.underestimate_rate:.0f} % "
        "underestimates"
        for p in curve
    )
    xaxis = {**figure.layout["xaxis"], "rangemode": "tozero"}
    return [replace(figure, layout={**figure.layout, "xaxis": xaxis}, alt=f"{alt}.")]


WINDOW = 5000
DRAWN = (0.8, 0.9, 0.95)
LEAST = 500
WINDOWS_DRAWN = 200


def bound_figures(limits: Limits) -> list[Figure]:
    """Return a figure of the coverage in windows of 5,000 jobs (in a shorter log, of a fifth of the jobs); empty if
    there are too few jobs."""
    rows = np.flatnonzero(limits.scored)
    window = min(WINDOW, len(rows) // 5)
    if window < LEAST or not limits.bounds:
        return []
    run = run_time_target(limits.trace).within[rows]
    ends = np.unique(np.linspace(window, len(rows), WINDOWS_DRAWN).astype(int))
    held, near = {}, []
    for level in DRAWN:
        kept = np.concatenate([[0], np.cumsum(is_covered(run, limits.bounds[level][rows]))])
        shares, name = (kept[ends] - kept[ends - window]) / window, f"{100.0 * level:g} %"
        held[name] = (ends, shares)
        near.append(f"{name}: {np.mean(np.abs(shares - level) <= 0.02):.1%}")
    coverage = figures.lines(
        f"Coverage of the bounds, in windows of {window:,} jobs", held, x="jobs so far",
        y="share of jobs within their bound", kind="share",
        caption="Dotted: the target of each bound. The bounds are learned as jobs end, so coverage drops when many "
        "jobs are submitted before the first of them ends. Windows within two points of the target: "
        f"{'; '.join(near)}.",
    )  # fmt: skip
    lowest = min(float(np.min(shares)) for _, shares in held.values())
    yaxis = {**coverage.layout["yaxis"], "range": [max(min(lowest - 0.02, min(DRAWN) - 0.1), 0.0), 1.0]}
    dotted = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "line": {"dash": "dot", "width": 1, "color": "#888"}}
    shapes = [{**dotted, "y0": level, "y1": level} for level in DRAWN]
    return [replace(coverage, layout={**coverage.layout, "yaxis": yaxis, "shapes": shapes})]


PLAIN = {
    "kernel": "similar-jobs predictor",
    "last_2": "mean of the user's last two jobs",
    "recent_mean": "mean of recent similar jobs",
    "requested": "users' time limits",
    "actual": "true run times",
}


def method_words(spec: str) -> str:
    """Return the name of a run-time method after a description in plain words.

    >>> method_words("kernel"), method_words("requested"), method_words("mine:k=3")
    ('similar-jobs predictor (kernel)', "users' time limits", 'mine:k=3')
    """
    words = PLAIN.get(spec.partition(":")[0])
    return spec if words is None else words if spec in ("requested", "actual") else f"{words} ({spec})"
