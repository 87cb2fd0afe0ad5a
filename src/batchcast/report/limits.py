# SPDX-License-Identifier: Apache-2.0
"""The tables of limits and of memory requests: what each rule would have asked for, let run out, and saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..evaluation.evaluation import Evaluation
from ..evaluation.limits import KILLED, MEAN_UNUSED, RISK, advice_words
from ..evaluation.memory_limits import RAN_OUT, SPENT
from .blocks import Block, Table, TableColumn
from .difference import Measures, beside, difference_blocks, difference_words
from .figures import span

NAMES = {"advice": "advice", "rule_of_thumb": "1.25 x longest of 10", "own": "users' limits"}
MEASURES: Measures = (
    (MEAN_UNUSED, "unused core-hours a job", "number"),
    (KILLED, "killed of 1,000 that would have ended", "number"),
)
COLUMNS = (
    TableColumn("limits", "limits"),
    TableColumn("jobs", "jobs", "count", "jobs that ran and had a limit"),
    TableColumn("killed_per_thousand", "killed of 1,000", "number", "outran the limit, or were cut by their own"),
    TableColumn(
        "killed_beyond_own_per_thousand", "not by own", "number", "ended by themselves under their own limit", more=True
    ),
    TableColumn(
        "undecided_per_thousand", "undecided", "number", "cut by their own limit, shorter than this one", more=True
    ),
    TableColumn("over_request_core_h", "unused, core-h", "count", "processors times limit minus run time"),
    TableColumn("median_limit_s", "median limit", "seconds"),
)


def limits_table(rows: Sequence[Mapping[str, Any]], risk: float, by: str | None = None) -> Table:
    """Rows of `evaluation.limits.limit_rows` as a table; `by` adds the group and the limit of its latest job."""
    columns = list(COLUMNS)
    if by is not None:
        columns[0:0] = [TableColumn("group", by)]
        columns.append(TableColumn("latest_limit_s", "of the latest job", "seconds"))
    title = f"Limits at a risk of {risk:.0%}{f' by {by}' if by else ''} · known at submission"
    table = Table(title, columns, _named(rows, NAMES))
    return table if by is not None else beside(table, table.rows, MEASURES)


def _named(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> list[Mapping[str, Any]]:
    """Rows with their rule, and the one they are compared with, named for people."""
    return [
        {**row, "limits": names[row["limits"]], **({"against": names[row["against"]]} if row.get("against") else {})}
        for row in rows
    ]


def limit_differences(rows: Sequence[Mapping[str, Any]]) -> list[Block]:
    """How the limits of the whole differ from the users' own, and advice from the usual rule, with intervals."""
    blocks = difference_blocks(_named(rows, NAMES), MEASURES, [TableColumn("limits", "limits")])
    advice = next((row for row in rows if row["limits"] == "advice"), {})
    words = [
        f"{title} {said}"
        for key, title, kind in MEASURES
        if (said := difference_words(advice, f"{key}_rule", kind)) is not None
    ]
    return [*blocks, *([f"Advice against {NAMES['rule_of_thumb']}: {'; '.join(words)}."] if words else [])]


def limit_blocks(evaluation: Evaluation) -> list[Block]:
    """Which limits to advise and what they would have saved; nothing where too few jobs had one."""
    rows = evaluation.limit_rows()
    if not rows:
        return []
    asked = {row["limits"]: span(row["median_limit_s"]) for row in rows}
    words = (
        "Limits to advise: the time that 19 of 20 such jobs keep, learned from each user's own jobs as they end. "
        f"Half of the jobs would then ask for {asked['advice']} or less; today half ask for {asked['own']} or less. "
        f"{advice_words(rows, RISK)} The usual rule, 1.25 times the longest of the last ten, stands beside it; "
        "`batchcast limits LOG --by user` lists the limits by user, account, queue or application."
    )
    return [words, limits_table(rows, RISK), *limit_differences(rows)]


MEMORY_NAMES = {
    "advice": "advice at the risk",
    "least_waste": "least expected waste",
    "rule_of_thumb": "1.25 x largest of 10",
    "own": "users' requests",
}
MEMORY_MEASURES: Measures = ((SPENT, "GiB-hours spent a job", "number"), (RAN_OUT, "out of memory of 1,000", "number"))
MEMORY_COLUMNS = (
    TableColumn("limits", "requests"),
    TableColumn("jobs", "jobs", "count", "jobs with a measured peak, or that ran out of memory"),
    TableColumn(RAN_OUT, "out of memory of 1,000", "number", "needed more than the request"),
    TableColumn(
        "undecided_per_thousand", "undecided", "number", "ran out under their own request, below this one", more=True
    ),
    TableColumn("asked_over_used", "asked / used", "number", "memory-time of first attempts over peak times run time"),
    TableColumn("spent_over_used", "with second attempts", "number", "the same, every attempt counted in full"),
    TableColumn("saved_gib_h", "saved, GiB-h", "count", "against the users' own, where known, else the usual rule"),
    TableColumn("saved_nodes", "saved, nodes", "number", "of a node's memory, on average over the log", more=True),
    TableColumn("median_limit_mib", "median request", "memory"),
)


def memory_table(rows: Sequence[Mapping[str, Any]], risk: float, by: str | None = None) -> Table:
    """Rows of `evaluation.memory_limits.memory_limit_rows` as a table; `by` adds the group and its latest request."""
    columns = [c for c in MEMORY_COLUMNS if c.key != "saved_nodes" or any(row[c.key] == row[c.key] for row in rows)]
    if by is not None:
        columns = [replace(column, more=column.more or column.key == "spent_over_used") for column in columns]
        columns[0:0] = [TableColumn("group", by)]
        columns.append(TableColumn("latest_limit_mib", "of the latest job", "memory"))
    per = next(row["per"] for row in rows)
    each = f" a {per}" if per != "job" else ""
    heading = f"Memory requests{each} at a risk of {risk:.0%}{f' by {by}' if by else ''} · known at submission"
    table = Table(heading, columns, _named(rows, MEMORY_NAMES))
    return table if by is not None else beside(table, table.rows, MEMORY_MEASURES)


def memory_differences(rows: Sequence[Mapping[str, Any]]) -> list[Block]:
    """How the rules differ from the users' own requests (else from the usual rule), with intervals."""
    return difference_blocks(_named(rows, MEMORY_NAMES), MEMORY_MEASURES, [TableColumn("limits", "requests")])
