# SPDX-License-Identifier: Apache-2.0
"""Compares two reports or two schedules, and reads a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import plots
from ..errors import UsageError, says_arguments
from ..evaluation import comparison
from ..evaluation.comparison import Comparison
from ..simulation import Schedule
from ..table import Trace
from ..table.result import Picture, Rows
from ..trace import schedule as files
from ..trace.schedule import FORECASTS, GROUPS, read_forecasts, read_groups, read_result, read_schedule, read_starts


@dataclass(frozen=True, slots=True, repr=False)
class Report(Rows):
    """A report of `evaluate`: result rows (the key `part` says which), the JSON `document`, and the folder."""

    document: Mapping[str, Any]
    folder: Path

    def __repr__(self) -> str:
        return f"<Report of {self.document['log'].get('jobs')} jobs in {self.folder}>"

    def part(self, name: str) -> list[Mapping[str, Any]]:
        """Return the rows of one part of the report: forecast, schedule, step, limits, waste, validity."""
        return [row for row in self.rows if row.get("part") == name]

    def _pictures(self) -> Mapping[str, Picture]:
        schedules = self.part("schedule")
        points = {
            f"{row['policy']}, {row['predictor']}": (row["mean_wait_s"] / 3600.0, row["max_wait_s"] / 3600.0)
            for row in schedules
        }
        found: dict[str, Picture] = {
            "differences": partial(plots.differences, schedules),
            "frontier": partial(plots.tradeoff, points, "mean wait (h)", "longest wait (h)"),
        }
        error = partial(plots.differences, self.part("forecast"), "mae_s", ("predictor",))
        return (found if schedules else {}) | {"error_differences": error}


def read_report(folder: str | Path) -> Report:
    """Read the report that `evaluate` wrote.

    Parameters
    ----------
    folder
        The report's folder, or the path of the report's result.json.

    Returns
    -------
    Report
        The report, with `rows`, `part(NAME)`, `plot()` and data frames.

    Raises
    ------
    InputError
        If the file is not a report; the message says what the file is.

    Examples
    --------
    >>> import batchcast, tempfile
    >>> log = batchcast.read_trace(batchcast.demo_path())[:800]
    >>> found = batchcast.evaluate(log, predictor="last_2", policy="easy")
    >>> with tempfile.TemporaryDirectory() as place:
    ...     page = batchcast.write_report(found, place)
    ...     [row["predictor"] for row in read_report(place).part("schedule")]
    ['requested', 'last_2', 'actual']
    """
    document, place = read_result(folder)
    return Report(document["results"], document, place)


@dataclass(frozen=True, slots=True, repr=False)
class ScheduleComparison(Rows):
    """A comparison of two schedules of the same jobs: one row per compared mean, with a confidence interval; `shared`
    counts jobs with equal starts."""

    shared: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<ScheduleComparison of {self.shared['jobs']} jobs: {self.shared['same_start']} start at one instant>"

    def _pictures(self) -> Mapping[str, Picture]:
        times = [row for row in self.rows if row["measure"] != "bounded_slowdown"]
        each = {r["measure"]: tuple(r[key] / 60.0 for key in ("difference", "low", "high")) for r in times}
        return {"differences": partial(plots.intervals, each, "B less A, means (min)")}


@says_arguments
def compare(
    a: Any, b: Any, *, log: Trace | None = None, seed: int = 0, resamples: int = 1000
) -> Comparison | ScheduleComparison:
    """Compare two reports of `evaluate`, or two schedules; changes are B minus A, with 90 % intervals.

    Parameters
    ----------
    a, b
        Two folders written by `write_report` or `batchcast evaluate`; or two schedules: results of `simulate`, or CSV
        files with job_id and start_time, such as batchcast and Batsim write.
    log
        For schedules: the log, which gives the users of the jobs.
    seed
        Random seed of the intervals.
    resamples
        Number of bootstrap samples.

    Returns
    -------
    Comparison or ScheduleComparison
        The comparison, with `rows`, `plot()` and data frames.

    Raises
    ------
    UsageError
        If `a` and `b` are a schedule and a report, or have no job in common.

    Examples
    --------
    >>> import batchcast
    >>> jobs = batchcast.read_trace(batchcast.demo_path())[:800]
    >>> found = compare(batchcast.simulate(jobs, "fcfs"), batchcast.simulate(jobs, "easy"), log=jobs)
    >>> found.to_polars()["measure"].to_list()
    ['wait', 'turnaround', 'bounded_slowdown']
    """
    is_schedule = [isinstance(side, Schedule) or files.is_schedule(str(side)) for side in (a, b)]
    if any(is_schedule) and not all(is_schedule):
        raise UsageError("compare: a schedule and a report (accepted: two schedules, or two reports of evaluate)")
    if all(is_schedule):
        users = None
        if log is not None:
            users = dict(zip(map(str, log.job_id.tolist()), log.nominal("user_id").codes.tolist()))
        shared, rows = comparison.compare_starts(_starts(a), _starts(b), users, seed=seed, resamples=resamples)
        return ScheduleComparison(rows, shared)
    return comparison.compare(whole_report(a), whole_report(b), seed=seed, resamples=resamples)


def whole_report(folder: str | Path) -> comparison.Report:
    """Read a report with its predictions from a folder. The report's schedules are read when they are compared; a
    missing schedule is None."""
    document, place = read_result(folder)

    def schedule_of(row: Mapping[str, Any]) -> Mapping[str, np.ndarray] | None:
        name = Path(str(row.get("schedule_file", "")))
        if name.parts[:1] != ("schedules",) or len(name.parts) != 2 or not (place / name).is_file():
            return None
        schedule = read_schedule(place / name)
        group = read_groups(place / GROUPS, schedule)
        return schedule if group is None else {**schedule, "group": group}

    return comparison.Report(document, schedule_of, read_forecasts(place / FORECASTS))


def _starts(side: Any) -> Mapping[str, np.ndarray]:
    """Return a schedule in the form of `trace.schedule.read_starts`."""
    if not isinstance(side, Schedule):
        return read_starts(side)
    numbers = {name: np.asarray(getattr(side, name), float) for name in ("submit_time", "start_time", "end_time")}
    return {"job_id": side.job_id.astype(str), **numbers, "procs": np.asarray(side.procs, float)}
