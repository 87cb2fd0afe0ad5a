# SPDX-License-Identifier: Apache-2.0
"""Hours, days, weeks and months of a log in its own time zone, and median waits by weekday and hour, and by job size
and time limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from ..errors import InputError
from ..metrics.wait import HOURS, LEAST_JOBS, LIMITS, SIZES
from ..table import Trace
from ..trace.select import zone

MOST = 400


def calendar(trace: Trace, time: float) -> datetime:
    """Return an instant of the log's clock as local time; InputError if it is outside the calendar."""
    try:
        return datetime.fromtimestamp(trace.info.unix_start + time, zone(trace.info.timezone))
    except (OverflowError, OSError, ValueError):
        raise InputError(
            f"{trace.info.source}: the calendar has no date for {trace.info.unix_start + time:.0f} seconds since 1970",
            hint="--from and --to to leave out jobs with a broken submit time",
        ) from None


def month_starts(trace: Trace) -> tuple[np.ndarray, list[str]]:
    """Return the instants (log clock) of the local midnights at which months begin, and the months' names (YYYY-MM).

    >>> trace = Trace.from_arrays({"submit_time": [0.0, 32 * 86400.0]})
    >>> [column.tolist() if not isinstance(column, list) else column for column in month_starts(trace)]
    [[0.0, 2678400.0], ['1970-01', '1970-02']]
    """
    submit = trace.submit_time
    if not len(submit):
        return np.zeros(0), []
    here = calendar(trace, float(submit[0])).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    last = calendar(trace, float(submit[-1]))
    starts, names = [], []
    while here <= last:
        starts.append(here.timestamp() - trace.info.unix_start)
        names.append(f"{here.year:04d}-{here.month:02d}")
        here = here.replace(year=here.year + here.month // 12, month=here.month % 12 + 1)
    return np.array(starts), names


def periods(trace: Trace) -> tuple[np.ndarray, list[str], str]:
    """Return periods of equal length that cover a log's submissions: boundaries (m + 1,), each period's local start as
    ISO text, and the unit.

    Periods are weeks; days if there are fewer than ten weeks, hours if fewer than five days; several weeks if there are
    more than `MOST`. The first period starts at local midnight (or at the hour) before the first submission; a clock
    change shifts later starts by one hour.

    >>> edges, starts, unit = periods(Trace.from_arrays({"submit_time": [0.0, 10 * 86400.0]}))
    >>> unit, len(starts), starts[1]
    ('day', 11, '1970-01-02 00:00')
    """
    submit = trace.submit_time
    length = float(submit[-1] - submit[0])
    unit, width = next((u, w) for u, w, least in _PERIODS if length >= least)
    if length > MOST * width:
        weeks = int(length // (MOST * width)) + 1
        unit, width = f"{weeks} weeks", weeks * width
    first = calendar(trace, float(submit[0])).replace(minute=0, second=0, microsecond=0)
    begin = (first if unit == "hour" else first.replace(hour=0)).timestamp() - trace.info.unix_start
    count = int((float(submit[-1]) - begin) // width) + 1
    edges = begin + width * np.arange(count + 1)
    return edges, [f"{calendar(trace, float(t)):%Y-%m-%d %H:%M}" for t in edges[:-1]], unit


_PERIODS = (("week", 7 * 86400.0, 70 * 86400.0), ("day", 86400.0, 5 * 86400.0), ("hour", 3600.0, 0.0))

QUARTER = 900.0
"""Clocks are set forward and back at whole quarters of an hour."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Number of jobs and median of their values in each cell of a table (rows, columns). The median is NaN in cells
    with too few jobs."""

    jobs: np.ndarray
    median: np.ndarray


def median_cells(
    row: np.ndarray, column: np.ndarray, values: np.ndarray, shape: tuple[int, int], least: int = LEAST_JOBS
) -> Cells:
    """Return the counts and medians of values (n,), grouped by two classifications (n,) of the jobs. Values of class -1
    and NaN are ignored.

    >>> cells = median_cells(np.array([0, 0, 0, -1]), np.array([1, 1, 0, 0]), np.array([5.0, 7.0, 9.0, 1.0]), (1, 2), 2)
    >>> cells.jobs.tolist(), cells.median.tolist()
    ([[1, 2]], [[nan, 6.0]])
    """
    known = (row >= 0) & (column >= 0) & ~np.isnan(values)
    cell = row[known] * shape[1] + column[known]
    count = np.bincount(cell, minlength=shape[0] * shape[1])
    ordered = values[known][np.argsort(cell, kind="stable")]
    parts = np.split(ordered, np.cumsum(count)[:-1])
    median = np.array([np.median(part) if len(part) >= least else np.nan for part in parts])
    return Cells(count.reshape(shape), median.reshape(shape))


def weekday_hour(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Return the weekday (0: Monday) and the hour of each submission (n,), in the log's time zone.

    >>> [column.tolist() for column in weekday_hour(Trace.from_arrays({"submit_time": [0.0, 3600.0 * 33]}))]
    [[3, 4], [0, 9]]
    """
    quarters, place = np.unique((trace.info.unix_start + trace.submit_time) // QUARTER, return_inverse=True)
    where = zone(trace.info.timezone)
    there = [datetime.fromtimestamp(float(quarter) * QUARTER, where) for quarter in quarters]
    return np.array([t.weekday() for t in there], int)[place], np.array([t.hour for t in there], int)[place]


def by_time(trace: Trace, waits: np.ndarray) -> Cells:
    """Return median waits (n,), seconds, by weekday of submission (7 rows) and by `HOURS` hours of the day."""
    day, hour = weekday_hour(trace)
    return median_cells(day, hour // HOURS, waits, (7, 24 // HOURS))


def by_size(trace: Trace, values: np.ndarray, procs: str = "req") -> Cells:
    """Return medians of values (n,) by size (rows) and limit (columns), in the classes of the service's page."""
    size = _classes(trace.procs(procs), [high for _, high in SIZES[:-1]])
    limit = np.where(trace.req_time > 0, _classes(trace.req_time, [high for _, high in LIMITS[:-1]]), -1)
    return median_cells(size, limit, values, (len(SIZES), len(LIMITS)))


def _classes(values: np.ndarray, ends: list[float]) -> np.ndarray:
    """Return the class of each value (n,), -1 if unknown. A class includes its upper boundary."""
    return np.where(np.isfinite(values), np.searchsorted(ends, values, side="left"), -1)
