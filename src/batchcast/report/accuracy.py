"""The accuracy table: how good run-time forecasts were, headed by protocol and selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..predict.registry import parse_spec
from .blocks import Table, TableColumn
from .difference import difference_words, groups_in

COLUMNS = (
    TableColumn("predictor", "predictor"),
    TableColumn("jobs", "jobs", "count", "jobs scored: they ran, and the selection scores them"),
    TableColumn("mae_s", "mean error", "seconds", "mean absolute error, |predicted - actual|"),
    TableColumn("median_ae_s", "median error", "seconds", "half of the forecasts are off by no more"),
    TableColumn("p95_ae_s", "95 % within", "seconds", "95th percentile of the absolute error"),
    TableColumn(
        "apa", "accuracy (apa)", "ratio", "mean of min(predicted, actual) / max(predicted, actual); 1 is perfect"
    ),
    TableColumn("underestimate_rate", "underestimates", "share", "jobs that ran longer than predicted"),
    TableColumn("mean_shortfall_s", "mean shortfall", "seconds", "by how much those ran longer, on average"),
    TableColumn("coverage_90", "90 % bound held", "share", "jobs that ended within the forecast's own 90 % bound"),
    TableColumn("seconds", "took, s", "number", "time spent inside the predictor, without the replay's own"),
)
GROUPS_SHOWN = 20
PROTOCOLS = {
    "honest": "honest protocol",
    "paper": "paper protocol (each end is told right after its submission: no production sees that)",
}


def accuracy_table(
    rows: Sequence[Mapping[str, Any]], protocol: str, settings: Mapping[str, Any], by: str | None = None, per: str = ""
) -> Table:
    """Rows of `evaluate.accuracy.figures` as a table; `by` adds the group's column, with `per` they are of memory."""
    columns, note = list(of_memory(COLUMNS) if per else COLUMNS), ""
    if not any("coverage_90" in row for row in rows):
        columns = [column for column in columns if column.key != "coverage_90"]
    rows, lacking = _marked(rows)
    if by is not None:
        rows, note = _largest(rows)
        columns[1:1] = [TableColumn("group", {"size": "processors"}.get(by, by))]
        columns.pop()
        against = next((row["against"] for row in rows if row.get("against")), None)
        if against is not None:
            key = "mae_mib" if per else "mae_s"
            within = WITHIN.format(groups_in(rows))
            columns.append(TableColumn(f"{key}_words", f"mean error against {against}", "difference", within))
            rows = [{**row, f"{key}_words": difference_words(row, key, "memory" if per else "seconds")} for row in rows]
    note = " ".join(filter(None, (note, lacking, stand_ins(rows))))
    what = f"Forecasts of peak memory a {per}" if per else "Run-time forecasts"
    heading = f"{what}{f' by {by}' if by else ''} · {PROTOCOLS[protocol]} · {selection_words(settings)}"
    return Table(heading, columns, [{**row, "predictor": named(row["predictor"])} for row in rows], note)


def of_memory(columns: Sequence[TableColumn]) -> list[TableColumn]:
    """The columns of a table of run times as those of one of memory.

    >>> of_memory(COLUMNS)[2].kind
    'memory'
    """
    return [
        replace(
            column,
            key=column.key.removesuffix("_s") + "_mib",
            kind="memory",
            meaning=column.meaning.replace("ran longer", "held more"),
        )
        if column.kind == "seconds"
        else replace(column, meaning=MEANINGS.get(column.key, column.meaning))
        for column in columns
    ]


MEANINGS = {
    "jobs": "jobs scored: their peak was measured and they did not run out of memory",
    "underestimate_rate": "jobs that held more than predicted",
    "coverage_90": "jobs that held no more than the forecast's own 90 % bound",
}
WITHIN = "with its 90 % interval over groups of {}, within the rows' jobs"


def named(predictor: str) -> str:
    """A predictor's name, the oracle marked as one.

    >>> named("last_2"), named("actual")
    ('last_2', 'actual (oracle)')
    """
    return f"{predictor} (oracle)" if parse_spec(predictor)[0] == "actual" else predictor


def _marked(rows: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], str]:
    """Methods that had to do without a field they use, marked, and the note that says which."""
    lacking = {row["predictor"]: row["lacking"] for row in rows if row.get("lacking")}
    marked = [{**row, "predictor": f"{row['predictor']} *"} if row.get("lacking") else row for row in rows]
    by_fields: dict[str, list[str]] = {}
    for predictor, fields in lacking.items():
        by_fields.setdefault(fields.replace(" ", ", "), []).append(predictor)
    return marked, " ".join(f"* {', '.join(who)}: nothing known of {fields}." for fields, who in by_fields.items())


def stand_ins(rows: Sequence[Mapping[str, Any]]) -> str:
    """Who answered in whose place, for how much of the jobs.

    >>> stand_ins([{"predictor": "irpa", "answered_by": "recent_mean", "answered_by_share": 1.0}])
    'irpa: 100 % answered by recent_mean.'
    """
    answered: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.get("answered_by"):
            share = f"{100 * row['answered_by_share']:.{0 if row['answered_by_share'] == 1.0 else 1}f} %"
            answered.setdefault((share, row["answered_by"]), []).append(str(row["predictor"]).removesuffix(" *"))
    return " ".join(f"{', '.join(who)}: {share} answered by {name}." for (share, name), who in answered.items())


def _largest(rows: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], str]:
    """The rows of the groups with most jobs, in the order they had, and a note when some were left out."""
    jobs = {row["group"]: row["jobs"] for row in rows}
    if len(jobs) <= GROUPS_SHOWN:
        return rows, ""
    kept = set(sorted(jobs, key=lambda group: -jobs[group])[:GROUPS_SHOWN])
    note = f"The {GROUPS_SHOWN} groups with most jobs of {len(jobs)}; --json has them all."
    return [row for row in rows if row["group"] in kept], note


def selection_words(settings: Mapping[str, Any]) -> str:
    """What was read and what was scored, in words.

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
