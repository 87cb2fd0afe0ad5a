"""The tables of `batchcast sweep`: what a study will cost, and what came out, each plan against a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .blocks import Block, Table, TableColumn

Row = Mapping[str, Any]
_NAMING = (
    TableColumn("log", "log"),
    TableColumn("period", "period"),
    TableColumn("settings", "settings"),
    TableColumn("policy", "policy"),
    TableColumn("predictor", "planned with"),
)
_COST = (
    TableColumn("log", "log"),
    TableColumn("tasks", "tasks", "count"),
    TableColumn("done", "done", "count"),
    TableColumn("to_do", "to do", "count"),
    TableColumn("task_s", "s a task", "number"),
    TableColumn("core_hours", "core hours", "number"),
    TableColumn("wall_s", "on the workers", "seconds"),
)
_RATIOS = (
    TableColumn("geometric_mean_bounded_slowdown", "geometric mean over", "difference"),
    TableColumn("p99_wait_s", "p99 over", "difference"),
    TableColumn("max_wait_s", "max over", "difference"),
)
_BEHIND = "Behind each mean the 5th to 95th percentile over the replicates, paired"


def cost_table(rows: Sequence[Row], workers: int, source: str) -> Table:
    """What `--dry-run` prints."""
    note = f"Seconds a task: {source}. The time is that of an even share, and no shorter than the longest task."
    return Table(f"What is to be done, on {workers:,} worker{'' if workers == 1 else 's'}", _COST, rows, note)


def study_tables(rows: Sequence[Row], tau: float = 10.0) -> list[Block]:
    """The comparison, the part that is against the reference with its intervals, and what one burst decides."""
    naming = [c for c in _NAMING if c.key in ("policy", "predictor") or any(row[c.key] for row in rows)]
    plain = [
        *naming,
        TableColumn("replicates", "replicates", "count"),
        TableColumn("mean_bounded_slowdown", "mean bsld", "number"),
        TableColumn("geometric_mean_bounded_slowdown", "geometric mean", "number"),
        TableColumn("mean_wait_s", "mean wait", "seconds"),
        TableColumn("p99_wait_s", "p99", "seconds"),
        TableColumn("max_wait_s", "max", "seconds"),
        TableColumn("utilization", "util.", "share"),
        TableColumn("on", "frontier"),
    ]
    blocks: list[Block] = [
        Table(
            f"Means over the replicates (of the log itself where there are none); bounded slowdown, tau = {tau:g} s",
            plain,
            [{**row, "on": "yes" if row["frontier"] else ""} for row in rows],
            "Frontier: no other plan of the log that can be had (perfect knowledge cannot) has a smaller mean bounded"
            " slowdown and a smaller longest wait.",
        )
    ]
    against = next((row["against"] for row in rows if row.get("against")), None)
    if against is None:
        return blocks
    compared = [row for row in rows if row.get("against")]
    blocks.append(_differences(compared, naming, against))
    blocks += [
        _of_one_burst(row) for row in compared if row.get("mean_bounded_slowdown_paired_largest_share", 0.0) > 0.2
    ]
    return blocks


def _differences(rows: Sequence[Row], naming: Sequence[TableColumn], against: str) -> Table:
    """Each plan less the reference, or over it, with what the replicates and the groups of jobs say."""
    columns = [
        *naming,
        TableColumn("slowdown", "mean bsld less", "difference"),
        TableColumn("jobs", "on the log itself, by user-weeks", "difference"),
        *_RATIOS,
        TableColumn("users", "users above 1.10", "difference"),
    ]
    cells = [
        {
            **{column.key: row[column.key] for column in naming},
            "slowdown": interval(row, "mean_bounded_slowdown_difference", "{:+.1f}"),
            "jobs": _paired(row),
            **{column.key: interval(row, f"{column.key}_ratio", "{:.2f}") for column in _RATIOS},
            "users": interval(row, "users_longer", "{:.2f}"),
        }
        for row in rows
    ]
    note = (
        f"{_BEHIND}; on the log itself the 90 % interval"
        " over groups of one user's submissions of one week. Users: of those with 50 jobs or more the share that waits"
        " longer by more than a tenth."
    )
    return Table(f"Against {against}", columns, cells, note)


def ablation_table(rows: Sequence[Row]) -> Table:
    """What each word of a plan is worth: the plan without it against the plan with it."""
    naming = [c for c in _NAMING if c.key in ("policy", "predictor") or any(row[c.key] for row in rows)]
    columns = [
        *naming,
        TableColumn("without", "without"),
        TableColumn("slowdown", "mean bsld more", "difference"),
        *_RATIOS,
    ]
    cells = [
        {
            **{column.key: row[column.key] for column in naming},
            "without": row["without"],
            "slowdown": interval(row, "mean_bounded_slowdown_difference", "{:+.1f}"),
            **{column.key: interval(row, f"{column.key}_ratio", "{:.2f}") for column in _RATIOS},
        }
        for row in rows
    ]
    note = "The plan without the word less, or over, the plan with it: above 0, above 1 where the word helps."
    return Table("Ablation: pairs of plans that differ by one word", columns, cells, f"{note} {_BEHIND}.")


def interval(row: Row, key: str, form: str) -> str:
    """A figure with its interval; empty where it is unknown.

    >>> interval({"x": 1.0, "x_low": 0.5, "x_high": 2.0}, "x", "{:.1f}"), interval({"x": 1.0}, "x", "{:.1f}")
    ('1.0, 0.5 to 2.0', '1.0')
    """
    value = row.get(key)
    if value is None or value != value:
        return ""
    if f"{key}_low" not in row:
        return form.format(value)
    return f"{form.format(value)}, {form.format(row[f'{key}_low'])} to {form.format(row[f'{key}_high'])}"


def _paired(row: Row) -> str:
    key = "mean_bounded_slowdown_paired"
    if row.get(key) is None:
        return ""
    verdict = row[f"{key}_verdict"]
    if verdict == "unknown":
        return f"{row[key]:+.1f} (too few groups)"
    return f"{verdict}: {interval(row, key, '{:+.1f}')}"


def _of_one_burst(row: Row) -> str:
    key = "mean_bounded_slowdown_paired"
    share = 100 * row[f"{key}_largest_share"]
    return (
        f"{row['log']}, {row['policy']} with {row['predictor']}: {share:.0f} % of the sum of absolute differences on "
        f"the log itself belongs to one user's submissions of one week; without them the difference is "
        f"{row[f'{key}_without_largest']:+.1f} instead of {row[key]:+.1f}; judge by the geometric mean"
    )
