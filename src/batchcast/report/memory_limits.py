"""Memory requests as tables: what each rule would have asked for, let run out, and saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluation.memory_limits import KILLED, SPENT
from .blocks import Block, Table, TableColumn
from .difference import Measures, difference_blocks

NAMES = {
    "advice": "advice at the risk",
    "least_waste": "least expected waste",
    "rule_of_thumb": "1.25 x largest of 10",
    "own": "users' own",
}
MEASURES: Measures = ((SPENT, "GiB-hours spent a job", "number"), (KILLED, "out of memory of 1,000", "number"))
COLUMNS = (
    TableColumn("limits", "requests"),
    TableColumn("jobs", "jobs", "count", "jobs with a measured peak, or that ran out of memory"),
    TableColumn(KILLED, "out of memory of 1,000", "number", "needed more than the request"),
    TableColumn("undecided_per_thousand", "undecided", "number", "ran out under their own request, below this one"),
    TableColumn("asked_over_used", "asked / used", "number", "memory-time of first attempts over peak times run time"),
    TableColumn("spent_over_used", "with second attempts", "number", "the same, every attempt counted in full"),
    TableColumn("saved_gib_h", "saved, GiB-h", "count", "against the users' own, where known, else the usual rule"),
    TableColumn("saved_nodes", "saved, nodes", "number", "of a node's memory, on average over the log"),
    TableColumn("median_limit_mib", "median request", "memory"),
)


def memory_table(rows: Sequence[Mapping[str, Any]], risk: float, by: str | None = None) -> Table:
    """Rows of `evaluation.memory_limits.memory_limit_rows` as a table; `by` adds the group and its latest request."""
    columns = [c for c in COLUMNS if c.key != "saved_nodes" or any(row[c.key] == row[c.key] for row in rows)]
    if by is not None:
        columns[0:0] = [TableColumn("group", by)]
        columns.append(TableColumn("latest_limit_mib", "of the latest job", "memory"))
    per = next(row["per"] for row in rows)
    each = f" a {per}" if per != "job" else ""
    heading = f"Memory requests{each} at a risk of {risk:.0%}{f' by {by}' if by else ''} · known at submission"
    return Table(heading, columns, [{**row, "limits": NAMES[row["limits"]]} for row in rows])


def memory_differences(rows: Sequence[Mapping[str, Any]]) -> list[Block]:
    """How the rules differ from the users' own requests (else from the usual rule), with intervals."""
    named = [
        {**row, "limits": NAMES[row["limits"]], **({"against": NAMES[row["against"]]} if "against" in row else {})}
        for row in rows
    ]
    return difference_blocks(named, MEASURES, [TableColumn("limits", "requests")])
