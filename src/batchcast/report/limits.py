# SPDX-License-Identifier: Apache-2.0
"""The tables of time limits and memory requests: what each rule would have requested, killed and saved.

The module also shows unused core-hours: a sentence, a table and bars by user, account, queue and application.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..evaluation.limits import KILLED, MEASURES, MEMORY_MEASURES, RAN_OUT, RISK, advice_words
from ..units import counted
from .blocks import Block, Figure, Table, TableColumn, as_text, columns_of, folded
from .difference import Measures, difference_blocks, difference_words, with_difference
from .figures import span

if TYPE_CHECKING:
    from ..evaluation.differences import ResultRow
    from ..evaluation.evaluation import Evaluation

Row = Mapping[str, Any]


class Wording(NamedTuple):
    """How tables and sentences describe a requested resource (time or memory): names of rules, columns, and compared
    measures. The last column is shown only for groups of jobs."""

    heading: str
    rules: Mapping[str, str]
    measures: Measures
    columns: tuple[TableColumn, ...]

    def with_names(self, rows: Sequence[ResultRow]) -> list[ResultRow]:
        """Return rows with the names that readers see for their rule and the rule's reference."""
        return [row.named(self.rules.get(row.against, ""), limits=self.rules[row["limits"]]) for row in rows]


TIME = Wording(
    "Time limits",
    {"advice": "advice", "rule_of_thumb": "1.25 x longest of 10", "own": "users' limits"},
    MEASURES,
    (
        TableColumn("limits", "limits"),
        TableColumn("jobs", "jobs", "count", "jobs that ran and had a limit"),
        TableColumn(KILLED, "killed of 1,000", "number", "of the jobs that ended within the user's own limit"),
        TableColumn("killed_per_thousand", "with jobs ended by their own limit", "number",
                    "ran longer than the limit, or were ended by their own limit", True),
        TableColumn("undecided_per_thousand", "undecided", "number", "ended by their own limit, which was shorter",
                    True),
        TableColumn("over_request_core_h", "unused, core-h", "count", "processors x (time limit - run time)"),
        TableColumn("median_limit_s", "median limit", "seconds"),
        TableColumn("latest_limit_s", "of the latest job", "seconds"),
    ),
)  # fmt: skip
MEMORY = Wording(
    "Memory requests",
    {"advice": "advice at the risk", "least_waste": "least expected waste", "rule_of_thumb": "1.25 x largest of 10",
     "own": "users' requests"},
    MEMORY_MEASURES,
    (
        TableColumn("limits", "requests"),
        TableColumn("jobs", "jobs", "count", "jobs with a measured peak, or that ran out of memory"),
        TableColumn(RAN_OUT, "out of memory of 1,000", "number", "jobs that needed more than the request"),
        TableColumn("undecided_per_thousand", "undecided", "number",
                    "ran out of memory with their own request, which was smaller", True),
        TableColumn("asked_over_used", "requested / used", "number",
                    "memory times run time of first attempts, over peak times run time"),
        TableColumn("spent_over_used", "with second attempts", "number", "the same, each attempt counted fully"),
        TableColumn("saved_gib_h", "saved, GiB-h", "count", "from the users' requests if known, else the usual rule"),
        TableColumn("saved_nodes", "saved, nodes", "number", "of a node's memory, on average over the log", more=True),
        TableColumn("median_limit_mib", "median request", "memory"),
        TableColumn("latest_limit_mib", "of the latest job", "memory"),
    ),
)  # fmt: skip


def advice_table(wording: Wording, rows: Sequence[ResultRow], risk: float, by: str | None = None) -> Table:
    """Return rows of `evaluation.limits` as a table; `by` adds the group of jobs and the group's latest request."""
    *columns, latest = (
        c for c in wording.columns if c.key != "saved_nodes" or any(row[c.key] == row[c.key] for row in rows)
    )
    if by is not None:
        columns = [replace(column, more=column.more or column.key == "spent_over_used") for column in columns]
        columns = [TableColumn("group", by), *columns, latest]
    per = rows[0].get("per", "job")
    each = f" a {per}" if per != "job" else ""
    heading = f"{wording.heading}{each}{f' by {by}' if by else ''}, accepted risk {100 * risk:g} %, known at submission"
    named = wording.with_names(rows)
    table = Table(heading, columns, named)
    return table if by is not None else with_difference(table, named, wording.measures)


def advice_differences(wording: Wording, rows: Sequence[ResultRow]) -> list[Block]:
    """Return the rules' differences from users' requests, and the advice's from the usual rule, with intervals."""
    blocks = difference_blocks(wording.with_names(rows), wording.measures, wording.columns[:1])
    beside = next((row.comparison.rule_differences for row in rows if row["limits"] == "advice" and row.comparison), {})
    stated = ((m, beside.get(m.name)) for m in wording.measures)
    words = "; ".join(f"{m.title} {difference_words(one, m.unit)}" for m, one in stated if one and one.is_known)
    return [*blocks, *([f"Advice against {wording.rules['rule_of_thumb']}: {words}."] if words else [])]


def limit_blocks(evaluation: Evaluation) -> list[Block]:
    """Return the advised limits and what they would have saved; the differences between rules are folded. The result is
    empty if too few jobs had a limit."""
    rows = evaluation.limit_rows()
    if not rows:
        return []
    medians = {row["limits"]: span(row["median_limit_s"]) for row in rows}
    words = (
        "Suggested time limits: 95 % of similar jobs of the same user finish within this time. "
        f"The median time limit would be {medians['advice']} instead of {medians['own']}. "
        f"{advice_words(rows, RISK)} The table also has the usual rule: 1.25 times the longest of the last ten jobs. "
        "`batchcast limits LOG --by user` lists limits by user, account, queue or application."
    )
    differences = folded("Differences between the limits, with intervals", advice_differences(TIME, rows))
    return [words, advice_table(TIME, rows, RISK), *differences]


WASTE_COLUMNS = columns_of(
    *("jobs|jobs|count|jobs that ran", "unused_core_h|unused, core-h|count|processors x (time limit - run time)"),
    "unused_share|of all unused|share|of the unused core-hours of the whole log",
    "asked_core_h|requested, core-h|count|processors x time limit, of jobs with a limit",
    "used_core_h|used, core-h|count|processors x run time",
    "failed_core_h|failed, core-h|count|used by jobs that failed or were cancelled",
    "at_limit_core_h|timed out, core-h|count|used by jobs that their time limit ended",
)
WITHOUT = "jobs_without_limit|without limit|count|jobs without a time limit: they count as requested 0 and unused 0"
PARTS = (("completed", 1), ("failed or cancelled", 2), ("ended by the limit", 5), ("requested and unused", 0))
PATTERNS = {0: "", 1: "", 2: "/", 5: "x"}


def waste_blocks(evaluation: Evaluation) -> list[Block]:
    """Return blocks on the unused core-hours of the whole log and of groups of jobs; empty if the log has no core-hours
    or no limits."""
    rows = evaluation.waste_rows()
    whole, by = rows[0], {name: list(mine) for name, mine in groupby(rows[1:], itemgetter("by"))}
    if not whole["asked_core_h"] > 0 or not by:
        return []
    tables = [_table(name, mine, whole, folded=place > 0) for place, (name, mine) in enumerate(by.items())]
    return [_words(whole, by), *tables, _bars(by)]


def _words(whole: Row, by: Mapping[str, Sequence[Row]]) -> str:
    """Return one or two sentences on the total of unused core-hours, and on how few groups account for half of it."""
    unused, used = whole["unused_core_h"], whole["used_core_h"]
    kinds = {"failed_core_h": "failed or were cancelled", "at_limit_core_h": "their time limit ended"}
    lost = [
        f"{_hours(whole[key])} ({as_text(whole[key] / used, 'share')}) by jobs that {words}"
        for key, words in kinds.items()
        if whole[key] and used > 0
    ]
    text = (
        f"Time limits requested {_hours(whole['asked_core_h'])}, of which {_hours(unused)} "
        f"({as_text(unused / whole['asked_core_h'], 'share')}) went unused."
        + (f" Jobs used {_hours(used)}: {', '.join(lost)}." if lost else "")
    )
    if unused > 0:
        text += f" Of the unused core-hours, {', '.join(_most(name, rows) for name, rows in by.items())}."
    if whole["jobs_without_limit"]:
        text += f" {whole['jobs_without_limit']:,} jobs without a time limit count as used and not as requested."
    return text


def _most(by: str, rows: Sequence[Row]) -> str:
    """Return the share of unused core-hours of the fewest groups that account for half of the unused core-hours, else
    of all groups with a row."""
    named = [row["unused_share"] for row in rows if row["group"] is not None]
    count = sum(row["groups"] for row in rows)
    reached = next((k for k in range(1, len(named) + 1) if sum(named[:k]) >= 0.5), len(named))
    return f"{reached} of {count:,} {by}s left {as_text(sum(named[:reached]), 'share')}"


def _hours(value: float) -> str:
    return f"{as_text(value, 'count')} core-hours"


def _name(row: Row) -> str:
    if row["group"] is not None:
        return str(row["group"])
    return counted(row["groups"], "other") if row["groups"] else "not known"


def _table(by: str, rows: Sequence[Row], whole: Row, folded: bool) -> Table:
    """Return the table of the largest groups of one grouping, with all other groups in one row; `whole` is the row of
    the whole log."""
    columns = [TableColumn("name", by), *(c for c in WASTE_COLUMNS if whole[c.key] is not None)]
    columns += columns_of(WITHOUT) if whole["jobs_without_limit"] else []
    cells = [{**row, "name": _name(row)} for row in rows]
    return Table(f"Core-hours by {by}, most unused first", columns, cells, folded=folded)


def _bars(by: Mapping[str, Sequence[Row]]) -> Figure:
    """Return stacked bars of one grouping at a time, without the row of all other groups, which would be far longer."""
    data, words = [], []
    largest = {name: [row for row in rows if row["group"] is not None] for name, rows in by.items()}
    for name, rows in largest.items():
        names = [_name(row) for row in rows]
        for (title, slot), values in zip(PARTS, zip(*map(_parts, rows))):
            title = "used" if title == "completed" and rows[0]["failed_core_h"] is None else title
            if any(values):
                data.append(_trace(title, slot, f"by {name}", names, values))
        first = ", ".join(f"{_name(row)} {_hours(row['unused_core_h'])} unused" for row in rows[:3])
        words.append(f"By {name}: {first}")
    layout = {
        "barmode": "stack",
        "bargap": 0.25,
        "yaxis": {"type": "category", "autorange": "reversed"},
        "xaxis": {"title": {"text": "core-hours"}, "rangemode": "tozero"},
        "hovermode": "closest",
    }
    height = 130 + 26 * max(len(rows) for rows in largest.values())
    title, pick = "Core-hours used, lost and unused, largest groups", tuple(f"by {name}" for name in by)
    return Figure(title, data, layout, f"{'. '.join(words)}.", height=height, pick=pick, pick_label="Groups")


def _parts(row: Row) -> tuple[float, float, float, float]:
    failed, cut = row["failed_core_h"] or 0.0, row["at_limit_core_h"]
    return row["used_core_h"] - failed - cut, failed, cut, row["unused_core_h"]


def _trace(title: str, slot: int, variant: str, names: Sequence[str], values: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "bar", "orientation": "h", "name": title, "meta": {"slot": slot, "variant": variant}, "y": list(names),
        "x": [float(f"{value:.6g}") for value in values], "customdata": [_hours(value) for value in values],
        "hovertemplate": "%{y}: %{customdata}", "marker": {"pattern": {"shape": PATTERNS[slot], "solidity": 0.15}},
    }  # fmt: skip
