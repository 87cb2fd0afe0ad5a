# SPDX-License-Identifier: Apache-2.0
"""Show in the terminal which jobs a planned outage delays, and how much longer other jobs wait if a running job gets
more time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..units import counted, span
from .blocks import Block, Callout, Table, TableColumn, TableRows, columns_of

MOST_STARTS, MOST_GROUPS = 5, 4
"""Starts and groups in the short answer, which fits a terminal of 24 lines."""


def outage_blocks(rows: TableRows, groups: TableRows, details: bool) -> tuple[list[Block], list[Block]]:
    """Return the tables of an outage simulated on a log: the requested start first, then the best starts."""
    requested, best = rows[0], next(row for row in rows if row["verdict"] == "best")
    cells = [{**row, "work": _hours(row, "delayed_hours"), "against": _against(row)} for row in rows]
    columns = columns_of(
        *("start", "delayed_jobs|jobs delayed|count", "delayed_users|users|count", "mean_delay_s|mean delay|seconds"),
        *("work|processor-hours delayed (90 %)", "against|more than the best (90 %)"),
    )
    some = sorted(groups, key=lambda row: -row["jobs"] * row["change_s"])[: None if details else MOST_GROUPS]
    whose = columns_of(
        "by", "group", "jobs|jobs|count", "now_s|mean wait without|seconds", "then_s|with the outage|seconds"
    )
    blocks: list[Block] = [_advice(requested, best, len(rows) == 1), _starts(columns, cells, details)]
    blocks += [Table("Groups whose jobs wait longer with the requested start", whose, some)] if some else []
    return blocks, [] if details or len(rows) <= MOST_STARTS + 1 else [Callout("--details shows every start.")]


def _advice(requested: Mapping[str, Any], best: Mapping[str, Any], alone: bool) -> Callout:
    """Return the sentence that says which start of the outage delays the least work, and how certain this is."""
    text = (
        f"Starting at {requested['start']}, the outage delays {counted(requested['delayed_jobs'])} of "
        f"{counted(requested['delayed_users'], 'user')}, by {_hours(requested, 'delayed_hours')} processor-hours. "
    )
    if alone:
        return Callout(f"{text}No other start was simulated.", "note")
    if requested is best:
        return Callout(f"{text}No start of that week delays less work.", "good")
    text += f"Of that week, {best['start']} delays the least work"
    less = _hours(requested, "more_than_best_hours")
    is_sure = requested["verdict"] == "behind"
    end = f": {less} processor-hours less." if is_sure else f", but the difference is not certain: {less}."
    return Callout(text + end, "note")


def _against(row: Mapping[str, Any]) -> str:
    """Return how much more work a start of the outage delays than the best start."""
    if row["verdict"] == "best":
        return "the best"
    word = {"behind": "", "level": ", level", "unknown": ", too few user-weeks"}.get(str(row["verdict"]), "")
    return f"{_hours(row, 'more_than_best_hours')}{word}"


def _hours(row: Mapping[str, Any], name: str, form: str = "{:,.0f}") -> str:
    """Return a number with its interval, if the interval has different ends.

    >>> _hours({"a": 57.0, "a_low": 57.0, "a_high": 57.0}, "a"), _hours({"a": 5.0, "a_low": 3.0, "a_high": 9.0}, "a")
    ('57', '5 (3 to 9)')
    """
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    value = form.format(row[name])
    return value if low != low or low == high else f"{value} ({form.format(low)} to {form.format(high)})"


_jobs = partial(_hours, form="{:.0f}")


def _starts(columns: list[TableColumn], cells: TableRows, details: bool) -> Table:
    """Return the table of the starts, without `details` only of the first."""
    caption = "What the outage delays, the requested start first"
    return _first_rows(caption, columns, cells, len(cells) if details else MOST_STARTS + 1, "starts")


def _first_rows(caption: str, columns: list[TableColumn], rows: TableRows, most: int, noun: str) -> Table:
    """Return the table of the first rows, at most `most`, with a note if rows are left out."""
    note = f"{most} of {len(rows)} {noun}; --details shows all." if most < len(rows) else ""
    return Table(caption, columns, rows[:most], note)


def live_outage_blocks(rows: TableRows, users: TableRows, details: bool) -> list[Block]:
    """Return the tables of an outage on a live machine: jobs delayed by the requested and the best starts."""
    requested, best = rows[0], min(rows, key=lambda row: float(row["cost_hours"]))
    cells = [
        {**row, "start": _when(row["start_s"]), "waiting": _jobs(row, "held_waiting"),
         "past": f"{row['running_past']:.0f} (at most {row['running_past_by_limit']})",
         "work": _hours(row, "delayed_hours"), "lost": _hours(row, "lost_hours")}
        for row in rows
    ]  # fmt: skip
    columns = columns_of(
        *("start", "waiting|waiting jobs delayed (80 %)", "past|jobs still running", "mean_delay_s|mean delay|seconds"),
        "work|processor-hours delayed (80 %)",
    ) + columns_of("lost|processor-hours lost if running jobs are ended", more=True)
    text = (
        f"Starting at {_when(requested['start_s'])}, the outage delays {_jobs(requested, 'held_waiting')} waiting "
        f"jobs; {requested['running_past']:.0f} running jobs will still run then, "
        f"{requested['running_past_by_limit']} at most. "
    )
    if requested is best or requested["cost_hours"] <= best["cost_hours"]:
        text += "No later start of that week costs less."
    else:
        overlap = "" if requested["cost_hours_low"] > best["cost_hours_high"] else "; the intervals overlap"
        text += f"{_when(best['start_s'])} costs less ({_hours(best, 'cost_hours')} processor-hours instead of "
        text += f"{_hours(requested, 'cost_hours')}{overlap})."
    blocks: list[Block] = [Callout(text, "note"), _starts(columns, cells, details)]
    if users:
        running = "running|still running if jobs use their limits|count"
        whose = columns_of("user", "waiting|waiting jobs delayed|count", running, "procs|processors|count")
        most, caption = len(users) if details else MOST_GROUPS, "Users whose jobs the requested start delays"
        blocks.append(_first_rows(caption, whose, users, most, "users"))
    return blocks


def _when(epoch: float) -> str:
    return time.strftime("%a %Y-%m-%d %H:%M", time.localtime(epoch))


def extension_lines(row: Mapping[str, Any]) -> list[str]:
    """Return sentences on how much longer other jobs wait if a running job gets more time.

    >>> row = {"job_id": "7", "hours": 4.0, "waiting": 9, "later": 0.0, "later_low": 0.0, "later_high": 0.0,
    ...        "chance_that_none": 1.0, "ends_by_s": 0.0, "would_end_by_s": 14400.0}
    >>> extension_lines(row)[0]
    'Job 7 may have 4 more hours: none of 9 waiting jobs would start later.'
    """
    asked = f"Job {row['job_id']} may have {row['hours']:g} more hours"
    until = f"It would end by {_when(row['would_end_by_s'])} instead of {_when(row['ends_by_s'])}."
    waiting = counted(row["waiting"], "waiting job")
    if row["later_high"] == 0:
        return [f"{asked}: none of {waiting} would start later.", until]
    return [
        f"With {row['hours']:g} more hours for job {row['job_id']}, {_jobs(row, 'later')} of {waiting} would start "
        f"later, by {span(row['mean_delay_s'])} on average and {span(row['most_delay_s'])} at most.",
        f"Together they lose {_hours(row, 'delayed_hours')} processor-hours (80 % interval). Probability that no job "
        f"starts later: {row['chance_that_none']:.0%}.",
        until,
    ]


def growth_table(rows: TableRows, intervals: str) -> Table:
    """Return the table of waits after the work has grown; `intervals` explains the intervals of the waits."""
    cells = [
        {**row, "more": f"{row['work']:+.0%}", "mean": _spans(row, "mean_wait_s"), "most": _spans(row, "wait_90_s")}
        for row in rows
    ]
    headings = ("variant", "reaction|users react", "more|work", "partition", "mean|mean wait")
    note = f"Users react: which share of the added processors they fill with more work (none, half, full). {intervals}."
    return Table("Waits with grown work", columns_of(*headings, "most|wait of 90 % of jobs"), cells, note)


def _spans(row: Mapping[str, Any], name: str) -> str:
    """Return a duration with its interval as text."""
    return f"{span(row[name])} ({span(row[f'{name}_low'])} to {span(row[f'{name}_high'])})"
