"""The table of limits: kills and over-request under each rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluation.evaluation import Evaluation
from ..evaluation.limits import RISK, advice_words
from .axes import span
from .blocks import Block, Table, TableColumn

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
    return [words, limits_table(rows, RISK)]
