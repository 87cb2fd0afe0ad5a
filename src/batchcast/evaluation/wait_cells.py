"""Median waits by weekday and hour, and by size and limit: the cells of heat maps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from ..metrics.wait_classes import HOURS, LEAST_JOBS, LIMITS, SIZES
from ..table import Trace
from ..trace.zone import zone

QUARTER = 900.0
"""Clocks are set forward and back at whole quarters of an hour."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Of each cell (rows, columns): how many jobs, and the median of their values, NaN where they are too few."""

    jobs: np.ndarray
    median: np.ndarray


def median_cells(
    row: np.ndarray, column: np.ndarray, values: np.ndarray, shape: tuple[int, int], least: int = LEAST_JOBS
) -> Cells:
    """Counts and medians of values (n,) by two classes (n,); class -1 and value NaN are in no cell.

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
    """The weekday (0: Monday) and the hour of each submission (n,), by the clock of the log's zone.

    >>> [column.tolist() for column in weekday_hour(Trace.from_arrays({"submit_time": [0.0, 3600.0 * 33]}))]
    [[3, 4], [0, 9]]
    """
    quarters, place = np.unique((trace.info.unix_start + trace.submit_time) // QUARTER, return_inverse=True)
    where = zone(trace.info.timezone)
    there = [datetime.fromtimestamp(float(quarter) * QUARTER, where) for quarter in quarters]
    return np.array([t.weekday() for t in there], int)[place], np.array([t.hour for t in there], int)[place]


def by_time(trace: Trace, waits: np.ndarray) -> Cells:
    """Median waits (n,), seconds, by weekday of submission and by `HOURS` hours of the day: 7 rows."""
    day, hour = weekday_hour(trace)
    return median_cells(day, hour // HOURS, waits, (7, 24 // HOURS))


def by_size(trace: Trace, values: np.ndarray, procs: str = "req") -> Cells:
    """Medians of values (n,) by size (rows) and limit (columns), in the classes that the service's page shows."""
    size = _classes(trace.procs(procs), [high for _, high in SIZES[:-1]])
    limit = np.where(trace.req_time > 0, _classes(trace.req_time, [high for _, high in LIMITS[:-1]]), -1)
    return median_cells(size, limit, values, (len(SIZES), len(LIMITS)))


def _classes(values: np.ndarray, ends: list[float]) -> np.ndarray:
    """Which class each value (n,) is in, classes reaching up to and with their ends; -1 where it is unknown."""
    return np.where(np.isfinite(values), np.searchsorted(ends, values, side="left"), -1)
