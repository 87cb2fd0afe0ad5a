"""Differences to a reference as people read them: with their interval and a word, and what decides them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluation.differences import more_history
from ..metrics.paired import LEAST_GROUPS
from ..units import format_duration
from .blocks import Block, Kind, Table, TableColumn, shown

Measures = Sequence[tuple[str, str, Kind]]
"""Key, name and kind of each measure that is compared."""
VERDICTS = {"ahead": "ahead", "behind": "behind", "level": "level", "unknown": "too few groups"}


FORECAST: Measures = (("mae_s", "mean error", "seconds"), ("apa", "accuracy", "ratio"))
FORECAST_MEMORY: Measures = (("mae_mib", "mean error", "memory"), ("apa", "accuracy", "ratio"))
SCHEDULE: Measures = (("mean_wait_s", "mean wait", "seconds"), ("mean_bounded_slowdown", "mean slowdown", "number"))
WAIT: Measures = (("mean_abs_error_s", "mean error", "seconds"), ("crps_log", "CRPS", "number"))


def difference_blocks(
    rows: Sequence[Mapping[str, Any]], measures: Measures, naming: Sequence[TableColumn]
) -> list[Block]:
    """The differences of a comparison: a table, and a sentence for each that one user's burst decides.

    `rows` are results with the keys of `evaluation.differences`; nothing where there is no second method. `naming` are
    the columns that say what a row is about.
    """
    against = next((row["against"] for row in rows if row.get("against")), None)
    if against is None:
        return []
    first, title, kind = measures[0]
    columns = [
        *naming,
        *(
            TableColumn(f"{key}_words", f"{word} against {against}", "difference", _MEANING)
            for key, word, _ in measures
        ),
        TableColumn(f"{first}_user_weeks", f"{title} over user-weeks", kind, "every user's week counts once"),
    ]
    if any("geometric_mean_bounded_slowdown" in row for row in rows):
        columns.append(TableColumn("geometric_mean_bounded_slowdown", "geometric mean slowdown", "number"))
    columns += [
        TableColumn("users_better", "users better off", "share", f"users whose {title} is below the reference's"),
        TableColumn("users_worse", "users worse off", "share", "and above it"),
        TableColumn(
            f"{first}_top_ten_share", "ten groups own", "share", f"part of all {title} that the ten largest groups own"
        ),
    ]
    if any("replicates" in row for row in rows):
        columns.insert(len(naming) + 1, TableColumn("_replicates", f"{title} in replicates", "difference", _REPLICATES))
        rows = [{**row, "_replicates": _of_replicates(row, first, kind)} for row in rows]
    cells = [{**row, **{f"{key}_words": difference_words(row, key, how) for key, _, how in measures}} for row in rows]
    heading = f"What is real: differences with 90 % intervals over groups of {groups_in(rows)}"
    few = next((row[f"{first}_groups"] for row in rows if row.get(f"{first}_verdict") == "unknown"), None)
    note = f"No interval: {few} groups, 20 are needed." if few is not None else ""
    names = [column.key for column in naming]
    return [Table(heading, columns, cells, note), *deciding(rows, measures, names)]


def groups_in(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the groups of compared rows are, as `evaluation.differences.groups_of` says it."""
    return next((str(row["groups_of"]) for row in rows if row.get("groups_of")), "one user's submissions of one week")


_MEANING = (
    "the difference of means with its 90 % interval: ahead or behind where it holds no zero, else level, which is to "
    "say that this log cannot tell the two apart"
)


_REPLICATES = "5th to 95th percentile of the difference over logs made of this one's weeks, and how often it is below 0"


def _of_replicates(row: Mapping[str, Any], metric: str, kind: Kind) -> str | None:
    """A difference over replicates in words."""
    if f"{metric}_replicates_low" not in row:
        return None
    low, high = (signed(row[f"{metric}_replicates_{end}"], kind) for end in ("low", "high"))
    return f"{low} to {high}, below in {100 * row[f'{metric}_replicates_ahead']:.0f} % of {row['replicates']}"


def difference_words(row: Mapping[str, Any], metric: str, kind: Kind) -> str | None:
    """A difference with its interval and word; None where there is none.

    >>> difference_words({"x_difference": -60.0, "x_difference_low": -90.0, "x_difference_high": -30.0,
    ...                   "x_verdict": "ahead"}, "x", "seconds")
    'ahead -00:01:00 (-00:01:30 to -00:00:30)'
    """
    middle = row.get(f"{metric}_difference")
    if middle is None or middle != middle:
        return None
    verdict = VERDICTS[str(row.get(f"{metric}_verdict", "unknown"))]
    low, high = row[f"{metric}_difference_low"], row[f"{metric}_difference_high"]
    if low is None or low != low:
        return f"{signed(middle, kind)} ({verdict})"
    return f"{verdict} {signed(middle, kind)} ({signed(low, kind)} to {signed(high, kind)})"


def signed(value: float, kind: Kind) -> str:
    """A difference with its sign.

    >>> signed(-0.5, "seconds"), signed(12.0, "number"), signed(0.0, "seconds")
    ('-0.5 s', '+12.0', '0')
    """
    if not value:
        return "0"
    sign = "-" if value < 0 else "+"
    if kind == "seconds":
        return f"{sign}{format_duration(abs(value))}" if abs(value) >= 1 else f"{sign}{abs(value):.2g} s"
    if kind == "share":
        return f"{sign}{100 * abs(value):.1f} points"
    return f"{sign}{shown(abs(value), kind)}"


def deciding(rows: Sequence[Mapping[str, Any]], measures: Measures, naming: Sequence[str]) -> list[str]:
    """A sentence for each difference that one group of submissions decides."""
    return [
        f"{', '.join(str(row[key]) for key in naming)} against {row['against']}, {title}: "
        f"{row[f'{measure}_decided_by']}."
        for row in rows
        for measure, title, _ in measures
        if row.get(f"{measure}_decided_by")
    ]


MOST_HISTORY = 50.0
"""Beyond so many times the log's length there is no use in waiting."""


def history_needed(row: Mapping[str, Any], metric: str) -> str:
    """How much more history would tell a difference of this size from none."""
    times = more_history(row, metric)
    if math.isnan(times) or times <= 1:
        return ""
    much = f"{max(times, 1.1):.1f} times as much history would be needed"
    if row.get(f"{metric}_verdict") == "unknown":
        return f"; at least {much} for an interval ({LEAST_GROUPS} groups)"
    if times > MOST_HISTORY:
        return f"; more than {MOST_HISTORY:.0f} times as much history would be needed, should it stay so small"
    return f"; about {much}, should the difference stay as large"
