# SPDX-License-Identifier: Apache-2.0
"""Small tables that single commands print.

The tables show schedules, synthetic logs, periods, wait predictions, and parameters that trained methods found.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import BatchcastError
from ..metrics.schedule import SCHEDULE
from ..metrics.wait import COMPARED
from ..trace.whole_file import whole_file
from ..units import counted
from .accuracy import COLUMNS as FORECASTS
from .blocks import Table, TableRows, columns_of, measure_columns
from .difference import named_row

COLUMNS = (
    *columns_of("policy", "predictor|planned with"),
    *measure_columns(each for each in SCHEDULE if each.table),
    *columns_of("corrections|corrections|count", more=True),
)


def simulation_table(rows: TableRows, jobs: int, total: int) -> Table:
    """Return a table with one row per policy and predictor, and the simulated jobs in its caption."""
    caption = f"{counted(jobs)} simulated on {total:,} processors; bounded slowdown with tau = 10 s"
    return Table(caption, COLUMNS, [named_row(row) for row in rows])


_SINGLE = (
    ("jobs", "jobs", 0, ""),
    ("load", "load", 3, ""),
    ("users", "users", 0, ""),
    ("serial_share", "on one processor", 3, ""),
    ("power_of_two_share", "on a power of two", 3, ""),
    ("mean_run_s", "mean run time, s", 0, ""),
    ("apa", "accuracy of the limits", 3, "distance_accuracy"),
    ("at_request_share", "ran to 99 % of the request", 3, ""),
    ("request_values", "different requests", 0, ""),
    ("popular_requests_share", "share of the 20 most popular", 3, ""),
    ("like_last_run", "run time / the user's previous run time", 3, "distance_last_run_ratio"),
    ("same_user_next_share", "next job is the same user's", 3, ""),
)
"""The key of each compared quantity, its label, its decimals, and the key of the distance between both logs."""
_SPREADS = tuple(
    (f"{key}_{quantile}{unit}", f"{label}, {quantile}", 0, f"distance_{key}" if quantile == "p95" else "")
    for key, label, unit in (
        ("procs", "processors", ""),
        ("run_time", "run time, s", "_s"),
        ("interarrival", "between arrivals, s", "_s"),
        ("req_time", "request, s", "_s"),
    )
    for quantile in ("p25", "p50", "p75", "p95")
)


def comparison_table(real: Mapping[str, Any], synthetic: Mapping[str, Any]) -> Table:
    """Return a table with a row per quantity: its value in the log and in the synthetic log, and the distance between
    the two distributions."""
    rows = []
    for key, label, digits, distance_key in (*_SINGLE, *_SPREADS):
        log, made = (f"{row[key]:,.{digits}f}" for row in (real, synthetic))
        distance = synthetic.get(distance_key, math.nan)
        words = "" if math.isnan(distance) else f"{distance:.3f}"
        rows.append({"quantity": label, "log": log, "synthetic": made, "distance": words})
    columns = columns_of("quantity", "log", "synthetic", "distance")
    return Table(str(real["workload"]).rsplit("/", 1)[-1], columns, rows)


NOTE = (
    "Medians, percentiles and intervals need all jobs at once: compute them from the results of each job in the folder."
)


def totals_table(rows: TableRows, jobs: int, periods: int, source: str) -> Table:
    """Return rows of `metrics.totals` as a table, with the columns that `runtime` or `simulate` prints."""
    columns = [column for column in (COLUMNS if "policy" in rows[0] else FORECASTS) if column.key in rows[0]]
    caption = f"{jobs:,} jobs in {periods:,} periods, the state carried on · {source}"
    return Table(caption, columns, [named_row(row) for row in rows], NOTE)


WAIT_COLUMNS = (
    *columns_of("predictor", "jobs|jobs|count|jobs scored", "median_abs_error_s|median error|seconds"),
    *measure_columns(COMPARED[:1]),
    *columns_of(
        "interval_80|80 % coverage|share|waits between the 10 % and 90 % quantiles",
        "interval_90|90 % coverage|share|waits between the 5 % and 95 % quantiles",
    ),
    *measure_columns(COMPARED[1:]),
    *columns_of(
        "quick_s|quick|seconds|a quick starter waits at most this long",
        "quick_share|quick starters|share|of the jobs scored",
        "quick_identified|identified|share|quick starters that the method marks as quick",
        "quick_bounded|bounded|share|quick starters with a predicted wait of at most the threshold",
        "misguided_share|misguided|share|jobs marked quick that waited longer, as a share of all jobs",
        "identified_at_marks|identified at the marks' misguided|share|ranked by probability",
        "identified_at_4|identified at 4 % misguided|share|else by point prediction",
        "misguided_under_4h|of them < 4 h|share",
        *("interval_80_low|least of 5,000|share|least of all windows of 5,000 jobs", "interval_80_high|most|share"),
        *("interval_90_low|least of 5,000|share|least of all windows of 5,000 jobs", "interval_90_high|most|share"),
        *(
            f"told_{key}_{level}|{level} % coverage, predicted {words} or more|share"
            for key, words in (("10min", "10 min"), ("1h", "1 h"), ("4h", "4 h"), ("1d", "a day"))
            for level in (80, 90)
        ),
        "rms_error_s|RMS error|seconds",
        "normalised_rms|normalised RMS|number|error divided by the wait (at least 1 s)",
        "mean_ppert|PPErt|number|mean of |predicted - wait| / (wait + run)",
        "good_share|good|share|same rounded range, or PPErt at most 0.10",
        "good_likeliest|good, likeliest range|share|with the point of the likeliest range",
        "within_x2|within x2|share|predicted and actual wait differ by at most a factor of 2",
        "within_x3|within x3|share",
        "bound_coverage|within 95 % bound|share|waits within the method's own 95 % bound",
        "near_share|near|share|quick starters marked by the near history",
        "near_jobs|near jobs|number|mean length of the near history",
        "seconds|took, s|number",
        more=True,
    ),
)
CLOCKS = {
    "honest": "honest clock (at one instant, submissions come before starts)",
    "starts_first": "clock of the paper (at one instant, starts come before submissions)",
    "paper": "paper protocol (each end is known right after submission, which no cluster can offer)",
}


def wait_table(rows: TableRows, title: str, remarks: Iterable[str] = ()) -> Table:
    """Return rows of `evaluation.wait.figures` as a table; the note names the protocol and has the methods' remarks."""
    notes = []
    for clock in dict.fromkeys(row["protocol"] for row in rows):
        who = dict.fromkeys(row["predictor"] for row in rows if row["protocol"] == clock)
        notes.append(f"{', '.join(who)}: {CLOCKS[clock]}.")
    notes += filter(None, dict.fromkeys(remarks))
    return Table(title, WAIT_COLUMNS, [named_row(row) for row in rows], " ".join(notes))


def write_parameters(target: str | Path, rows: TableRows) -> None:
    """Write a file with one line per refit and the union of all refits' columns, in order of appearance; the file is
    written completely or not at all.

    `now` is the time of the refit, in seconds on the log's clock. Raises BatchcastError if the file cannot be written.
    """
    columns = list(dict.fromkeys(key for row in rows for key in row)) or ["predictor", "protocol", "now"]
    try:
        with whole_file(target) as beside, beside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise BatchcastError(f"{target}: cannot be written: {error.strerror}", hint="another place") from error
