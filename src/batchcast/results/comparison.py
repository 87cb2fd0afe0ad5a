# SPDX-License-Identifier: Apache-2.0
"""Two reports, or two schedules, side by side; and a report read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from ..trace.schedule import (
    FORECASTS,
    GROUPS,
    is_schedule,
    read_forecasts,
    read_groups,
    read_result,
    read_schedule,
    read_starts,
)


@dataclass(frozen=True, slots=True, repr=False)
class Report(Rows):
    """What `evaluate` left in a folder: its rows (`part` tells them apart), the whole `document`, and where it lies."""

    document: Mapping[str, Any]
    folder: Path

    def __repr__(self) -> str:
        return f"<Report of {self.document['log'].get('jobs')} jobs in {self.folder}>"

    def part(self, name: str) -> list[Mapping[str, Any]]:
        """The rows of one part: forecast, schedule, step, limits, waste, validity."""
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
    """The report that `evaluate` wrote.

    Parameters
    ----------
    folder
        The folder, or its result.json.

    Returns
    -------
    Report
        `rows`, `part(NAME)`, `plot()`, frames.

    Raises
    ------
    InputError
        Says what the file is where it is no report.

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
    """Two schedules of the same jobs: a row a mean with its interval; `shared` says how many start alike."""

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
    """Two reports of `evaluate`, or two schedules, side by side; changes are B less A, with 90 % intervals.

    Parameters
    ----------
    a, b
        Two folders that `write_report` or `batchcast evaluate` wrote; or two schedules: what `simulate` returned, or a
        CSV with job_id and start_time, ours, Batsim's or anybody's.
    log
        Of two schedules: the log that names their users.
    seed
        For the intervals' draws.
    resamples
        How many draws.

    Returns
    -------
    Comparison or ScheduleComparison
        `rows`, `plot()`, frames.

    Raises
    ------
    UsageError
        Where one is a schedule and the other a report, or no job is in both.

    Examples
    --------
    >>> import batchcast
    >>> jobs = batchcast.read_trace(batchcast.demo_path())[:800]
    >>> found = compare(batchcast.simulate(jobs, "fcfs"), batchcast.simulate(jobs, "easy"), log=jobs)
    >>> found.to_polars()["measure"].to_list()
    ['wait', 'turnaround', 'bounded_slowdown']
    """
    kinds = {_is_schedule(a), _is_schedule(b)}
    if len(kinds) > 1:
        raise UsageError("compare: a schedule and a report (accepted: two schedules, or two reports of evaluate)")
    if kinds == {True}:
        users = None if log is None else users_of(log)
        shared, rows = comparison.compare_starts(_starts(a), _starts(b), users, seed=seed, resamples=resamples)
        return ScheduleComparison(rows, shared)
    one, other = (
        comparison.Report(document, schedules_in(place), read_forecasts(place / FORECASTS))
        for document, place in map(read_result, (a, b))
    )
    return comparison.compare(one, other, seed=seed, resamples=resamples)


def users_of(log: Trace) -> dict[str, int]:
    """The user of each job, as a number, by the job's id."""
    return dict(zip(map(str, log.job_id.tolist()), log.nominal("user_id").codes.tolist()))


def schedules_in(place: Path) -> Callable[[Mapping[str, Any]], Mapping[str, np.ndarray] | None]:
    """Reads a row's schedule from a report's own folder; None where it is not there."""

    def read(row: Mapping[str, Any]) -> Mapping[str, np.ndarray] | None:
        name = Path(str(row.get("schedule_file", "")))
        if name.parts[:1] != ("schedules",) or len(name.parts) != 2 or not (place / name).is_file():
            return None
        schedule = read_schedule(place / name)
        group = read_groups(place / GROUPS, schedule)
        return schedule if group is None else {**schedule, "group": group}

    return read


def _is_schedule(side: Any) -> bool:
    return isinstance(side, Schedule) or is_schedule(str(side))


def _starts(side: Any) -> Mapping[str, np.ndarray]:
    """A schedule as `trace.schedule.read_starts` reads one."""
    if not isinstance(side, Schedule):
        return read_starts(side)
    numbers = {name: np.asarray(getattr(side, name), float) for name in ("submit_time", "start_time", "end_time")}
    return {"job_id": side.job_id.astype(str), **numbers, "procs": np.asarray(side.procs, float)}
