"""The table of wait forecasts: quick starters found, jobs misled, errors, good shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .blocks import Table, TableColumn

COLUMNS = (
    TableColumn("predictor", "predictor"),
    TableColumn("quick_s", "quick", "seconds", "a quick starter waits at most this long"),
    TableColumn("jobs", "jobs", "count", "jobs scored"),
    TableColumn("quick_share", "quick starters", "share", "of the jobs scored"),
    TableColumn("quick_identified", "identified", "share", "quick starters the method marks as such"),
    TableColumn("quick_bounded", "bounded", "share", "quick starters answered at most so, by whichever branch"),
    TableColumn("misguided_share", "misguided", "share", "jobs marked quick that waited longer, of all"),
    TableColumn(
        "identified_like_pqstar", "identified at pqstar's misguided", "share", "ranked by the chance, or point"
    ),
    TableColumn("identified_at_4", "identified at 4 % misguided", "share", "ranked by the chance, else by the point"),
    TableColumn("misguided_under_4h", "of them < 4 h", "share"),
    TableColumn("crps_log", "CRPS", "number", "of log(1 + wait); of a point the absolute error"),
    TableColumn("interval_80", "80 % kept", "share", "waits between the 10 and 90 % quantiles"),
    TableColumn("interval_80_low", "least of 5,000", "share", "in any window of 5,000 jobs"),
    TableColumn("interval_80_high", "most", "share"),
    TableColumn("interval_90", "90 % kept", "share", "waits between the 5 and 95 % quantiles"),
    TableColumn("interval_90_low", "least of 5,000", "share", "in any window of 5,000 jobs"),
    TableColumn("interval_90_high", "most", "share"),
    TableColumn("mean_abs_error_s", "mean error", "seconds", "mean absolute error of the point"),
    TableColumn("median_abs_error_s", "median error", "seconds"),
    TableColumn("rms_error_s", "RMS error", "seconds"),
    TableColumn("normalised_rms", "normalised RMS", "number", "each error over the wait, floor 1 s"),
    TableColumn("mean_ppert", "PPErt", "number", "mean of |predicted - wait| / (wait + run)"),
    TableColumn("good_share", "good", "share", "same rounded range, or PPErt at most 0.10"),
    TableColumn("good_likeliest", "good, likeliest range", "share", "the point in the likeliest range of the paper"),
    TableColumn("within_x2", "within x2", "share", "forecast and wait at most a factor 2 apart"),
    TableColumn("within_x3", "within x3", "share"),
    TableColumn("bound_coverage", "95 % bound held", "share", "waits at most the method's own bound"),
    TableColumn("near_share", "near", "share", "quick starters marked by the near history"),
    TableColumn("near_jobs", "near jobs", "number", "mean length of the near history"),
    TableColumn("seconds", "took, s", "number"),
)
CLOCKS = {
    "honest": "honest clock",
    "starts_first": "clock of the paper: starts up to an instant come before its submissions",
    "paper": "paper protocol (each end is told right after its submission: no production sees that)",
}


def wait_table(rows: Sequence[Mapping[str, Any]], title: str) -> Table:
    """Rows of `evaluate.wait.figures` under a heading; the note says which clock and which readings are in it."""
    notes = []
    for clock in dict.fromkeys(row["protocol"] for row in rows):
        who = dict.fromkeys(row["predictor"] for row in rows if row["protocol"] == clock)
        notes.append(f"{', '.join(who)}: {CLOCKS[clock]}.")
    if any("reading=tables" in row["predictor"] for row in rows):
        notes.append("reading=tables was fitted to the printed tables.")
    return Table(title, COLUMNS, rows, " ".join(notes))
