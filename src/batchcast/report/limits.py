"""The table of limits: kills and over-request under each rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .blocks import Table, TableColumn

NAMES = {"advice": "advice", "rule_of_thumb": "1.25 x longest of 10", "own": "users' own"}
COLUMNS = (
    TableColumn("limits", "limits"),
    TableColumn("jobs", "jobs", "count", "jobs that ran and had a limit"),
    TableColumn("killed_per_thousand", "killed of 1,000", "number", "outran the limit, or were cut by their own"),
    TableColumn(
        "killed_beyond_own_per_thousand", "of them not by own", "number", "ended by themselves under their own limit"
    ),
    TableColumn("undecided_per_thousand", "undecided", "number", "cut by their own limit, shorter than this one"),
    TableColumn("over_request_core_h", "unused, core-h", "count", "processors times limit minus run time"),
    TableColumn("median_limit_s", "median limit", "seconds"),
)


def limits_table(rows: Sequence[Mapping[str, Any]], risk: float, by: str | None = None) -> Table:
    """Rows of `evaluation.limits.limit_rows` as a table; `by` adds the group and the limit of its latest job."""
    columns = list(COLUMNS)
    if by is not None:
        columns[0:0] = [TableColumn("group", by)]
        columns.append(TableColumn("latest_limit_s", "of the latest job", "seconds"))
    named = [{**row, "limits": NAMES[row["limits"]]} for row in rows]
    return Table(f"Limits at a risk of {risk:.0%}{f' by {by}' if by else ''} · known at submission", columns, named)
