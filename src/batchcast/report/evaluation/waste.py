# SPDX-License-Identifier: Apache-2.0
"""Whose core-hours go unused: a sentence, a table and bars by user, account, queue and application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...evaluation.evaluation import Evaluation
from ..blocks import Block, Figure, Table, TableColumn, shown

Row = Mapping[str, Any]
COLUMNS = (
    TableColumn("jobs", "jobs", "count", "jobs that ran"),
    TableColumn("unused_core_h", "unused, core-h", "count", "processors times limit minus run time"),
    TableColumn("unused_share", "of all unused", "share", "of what the whole log left unused"),
    TableColumn("asked_core_h", "asked, core-h", "count", "processors times limit, of jobs with a limit"),
    TableColumn("used_core_h", "used, core-h", "count", "processors times run time"),
    TableColumn("failed_core_h", "failed, core-h", "count", "used by runs that failed or were cancelled, by status"),
    TableColumn(
        "at_limit_core_h", "cut, core-h", "count", "used by runs that their limit ended: they may have to run again"
    ),
)
WITHOUT = TableColumn("jobs_without_limit", "without limit", "count", "jobs that asked for no time: asked 0, unused 0")
PARTS = (("completed", 1), ("failed or cancelled", 2), ("cut at the limit", 5), ("asked and unused", 0))
PATTERNS = {0: "", 1: "", 2: "/", 5: "x"}


def waste_blocks(evaluation: Evaluation) -> list[Block]:
    """What the whole log left unused, then by each grouping; nothing where the log knows none or no limits."""
    rows = evaluation.waste_rows()
    whole, groupings = rows[0], list(dict.fromkeys(row["by"] for row in rows[1:]))
    if not whole["asked_core_h"] > 0 or not groupings:
        return []
    by = {name: [row for row in rows if row["by"] == name] for name in groupings}
    tables = [_table(name, by[name], whole, folded=name != groupings[0]) for name in groupings]
    return [_words(whole, by), *tables, _bars(by)]


def _words(whole: Row, by: Mapping[str, Sequence[Row]]) -> str:
    """The whole in a sentence or two, and how few groups make the half of it."""
    unused, used = whole["unused_core_h"], whole["used_core_h"]
    lost = [
        f"{_hours(whole[key])} ({shown(whole[key] / used, 'share')}) {words}"
        for key, words in (
            ("failed_core_h", "went into runs that failed or were cancelled"),
            ("at_limit_core_h", "went into runs that their limit ended"),
        )
        if whole[key] and used > 0
    ]
    text = (
        f"Limits asked for {_hours(whole['asked_core_h'])}, of which {_hours(unused)} "
        f"({shown(unused / whole['asked_core_h'], 'share')}) went unused."
        + (f" Of the {_hours(used)} used, {', '.join(lost)}." if lost else "")
    )
    if unused > 0:
        text += f" Of what went unused {', '.join(_most(name, rows) for name, rows in by.items())}."
    if whole["jobs_without_limit"]:
        text += f" Jobs without a limit, {whole['jobs_without_limit']:,}, count as used and not as asked."
    return text


def _most(by: str, rows: Sequence[Row]) -> str:
    """What is left by as few groups as leave half of it, else by those with a row."""
    named = [row["unused_share"] for row in rows if row["group"] is not None]
    count = sum(row["groups"] for row in rows)
    reached = next((k for k in range(1, len(named) + 1) if sum(named[:k]) >= 0.5), len(named))
    return f"{reached} of {count:,} {by}s left {shown(sum(named[:reached]), 'share')}"


def _hours(value: float) -> str:
    return f"{shown(value, 'count')} core-hours"


def _name(row: Row) -> str:
    """What a row is called."""
    if row["group"] is not None:
        return str(row["group"])
    return f"{row['groups']:,} other{'' if row['groups'] == 1 else 's'}" if row["groups"] else "not known"


def _table(by: str, rows: Sequence[Row], whole: Row, folded: bool) -> Table:
    """The largest groups, the others in a line; the first grouping is open, the rest opens when pressed."""
    columns = [c for c in COLUMNS if c.key != "failed_core_h" or whole[c.key] is not None]
    columns += [WITHOUT] if whole["jobs_without_limit"] else []
    return Table(
        f"Core-hours by {by}, those that leave most unused first",
        [TableColumn("name", by), *columns],
        [{**row, "name": _name(row)} for row in rows],
        folded=folded,
    )


def _bars(by: Mapping[str, Sequence[Row]]) -> Figure:
    """Stacked bars of one grouping at a time; the others together would dwarf them."""
    data, words = [], []
    largest = {name: [row for row in rows if row["group"] is not None] for name, rows in by.items()}
    for name, rows in largest.items():
        names = [_name(row) for row in rows]
        parts = [_parts(row) for row in rows]
        for k, (title, slot) in enumerate(PARTS):
            values = [part[k] for part in parts]
            title = "used" if k == 0 and rows[0]["failed_core_h"] is None else title
            if any(values):
                data.append(_trace(title, slot, f"by {name}", names, values))
        words.append(
            f"By {name}: "
            + ", ".join(f"{one} {_hours(row['unused_core_h'])} unused" for one, row in list(zip(names, rows))[:3])
        )
    layout = {
        "barmode": "stack",
        "bargap": 0.25,
        "yaxis": {"type": "category", "autorange": "reversed"},
        "xaxis": {"title": {"text": "core-hours"}, "rangemode": "tozero"},
        "hovermode": "closest",
    }
    height = 130 + 26 * max(len(rows) for rows in largest.values())
    title, pick = "Core-hours used, lost and left unused, largest groups", tuple(f"by {name}" for name in by)
    return Figure(title, data, layout, f"{'. '.join(words)}.", height=height, pick=pick, pick_label="Groups")


def _parts(row: Row) -> tuple[float, float, float, float]:
    failed, cut = row["failed_core_h"] or 0.0, row["at_limit_core_h"]
    return row["used_core_h"] - failed - cut, failed, cut, row["unused_core_h"]


def _trace(title: str, slot: int, variant: str, names: Sequence[str], values: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": title,
        "meta": {"slot": slot, "variant": variant},
        "y": list(names),
        "x": [float(f"{value:.6g}") for value in values],
        "customdata": [_hours(value) for value in values],
        "hovertemplate": "%{y}: %{customdata}",
        "marker": {"pattern": {"shape": PATTERNS[slot], "solidity": 0.15}},
    }
