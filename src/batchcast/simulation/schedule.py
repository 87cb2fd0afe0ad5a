# SPDX-License-Identifier: Apache-2.0
"""`Schedule`: the result of a simulation, with start times, planned run times and the processors of each job."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .. import plots
from ..errors import InputError
from ..metrics.schedule import measures
from ..table.result import Picture, Result
from ..table.text import cell
from .workload import left_out_words

Intervals = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, repr=False)
class Schedule(Result):
    """The outcome of one simulation: arrays (n,) over the simulated jobs in log order, seconds on the log's clock.

    `rows` are the jobs' rows in the trace. `planned_run_time` is the first planned run time, and `corrections` counts
    later changes of plans. `left_out` counts records that were not simulated, by reason. `kernel_s` is the duration of
    the simulation in seconds, NaN if it was not measured. `nodes` holds each job's processors by node, numbered from 0,
    if the machine has nodes.
    """

    rows: np.ndarray
    job_id: np.ndarray
    submit_time: np.ndarray
    start_time: np.ndarray
    end_time: np.ndarray
    procs: np.ndarray
    planned_run_time: np.ndarray
    backfilled: np.ndarray
    total: int
    corrections: int
    left_out: Mapping[str, int]
    notes: tuple[str, ...]
    kernel_s: float = float("nan")
    nodes: tuple[Mapping[int, int], ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<Schedule of {len(self)} jobs on {self.total} processors>"

    @property
    def run_time(self) -> np.ndarray:
        """Return simulated run times: min(run, request) if jobs are killed at their request."""
        return np.asarray(self.end_time - self.start_time)

    @property
    def wait_time(self) -> np.ndarray:
        """Return start time minus submit time."""
        return np.asarray(self.start_time - self.submit_time)

    def columns(self) -> dict[str, np.ndarray]:
        """Return arrays (n,) by the column names of the schedule's CSV, and `row`, the job's row in the trace."""
        names = ("job_id", "submit_time", "start_time", "end_time", "procs", "planned_run_time", "backfilled")
        return {**{name: getattr(self, name) for name in names}, "row": self.rows}

    def placed(self) -> list[Intervals]:
        """Return each job's processors, numbered from 0, as closed intervals (see `assign_processors`)."""
        return assign_processors(self.start_time, self.end_time, self.procs, self.total)

    def _tables(self) -> Mapping[str, Mapping[str, Any]]:
        figures = self.measures()
        return {f"schedule of {len(self):,} jobs": {name: [value] for name, value in figures.items()}}

    def _summary(self) -> Mapping[str, Mapping[str, Any]]:
        figures = self.measures()
        values = [cell(name, value) for name, value in figures.items()]
        return {f"schedule of {len(self):,} jobs": {"measure": list(figures), "value": values}}

    def _pictures(self) -> Mapping[str, Picture]:
        return {"waits": partial(plots.waits, {"simulated": self}), "gantt": partial(plots.gantt, self)}

    @property
    def remarks(self) -> list[str]:
        """Sentences about the jobs that were not simulated, and the workload's notes."""
        return [*left_out_words(self.left_out), *self.notes]

    def measures(self, mask: np.ndarray | None = None) -> dict[str, float]:
        """Return quality measures over all jobs, or over a boolean mask of the simulated jobs, by printed name."""
        kept = slice(None) if mask is None else mask
        columns = (self.submit_time, self.start_time, self.run_time, self.procs, self.backfilled)
        submit, start, run, procs, backfilled = (column[kept] for column in columns)
        figures = measures(submit, start, run, procs, self.total, backfilled)
        return {**figures, "corrections": self.corrections}


def schedule_of(jobs: np.ndarray, rows: np.ndarray, job_id: np.ndarray, *counts: Any) -> Schedule:
    """Return the schedule of the kernel's job records (n,); `counts` are the fields of `Schedule` from `total` on."""
    submit, start, planned = (jobs[name].copy() for name in ("submit", "start", "first"))
    procs, backfilled = jobs["procs"].astype(np.int64), jobs["backfilled"].astype(bool)
    return Schedule(rows, job_id, submit, start, start + jobs["run"], procs, planned, backfilled, *counts)


def assign_processors(start: np.ndarray, end: np.ndarray, procs: np.ndarray, total: int) -> list[Intervals]:
    """Return which processors each job (n,) uses, numbered from 0, as closed intervals in ascending order.

    A schedule has only numbers of used processors; this function assigns processors afterwards, which is always
    possible. At each instant, ending jobs first release their processors, then jobs with run time 0 take and release
    processors, then the other jobs start, in the order of rows. Jobs get the lowest free numbers. Raises InputError if
    more than `total` processors are used at once. O(n log n + n g) with g gaps among free processors.

    >>> assign_processors(np.array([0.0, 0.0, 5.0]), np.array([5.0, 9.0, 7.0]), np.array([2, 1, 3]), 4)
    [[(0, 1)], [(2, 2)], [(0, 1), (3, 3)]]
    """
    n = len(start)
    free: Intervals = [(0, total - 1)]
    assigned: list[Intervals] = [[] for _ in range(n)]
    row = np.arange(n)
    lasts = end > start
    time = np.concatenate([end[lasts], start])
    kind = np.concatenate([np.zeros(int(lasts.sum()), dtype=int), np.where(lasts, 2, 1)])
    rows = np.concatenate([row[lasts], row])
    order = np.lexsort((rows, kind, time))
    for k, what in zip(rows[order].tolist(), kind[order].tolist()):
        if what == 0:
            _give_back(free, assigned[k])
            continue
        assigned[k] = _take(free, int(procs[k]))
        if what == 1:
            _give_back(free, assigned[k])
    return assigned


def interval_text(intervals: Intervals) -> str:
    """Format intervals of processors in Batsim's form.

    >>> interval_text([(0, 3), (8, 8)])
    '0-3 8'
    """
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in intervals)


def _take(free: Intervals, count: int) -> Intervals:
    """Take the lowest `count` free processors."""
    taken: Intervals = []
    used = 0
    for low, high in free:
        if count <= 0:
            break
        size = min(count, high - low + 1)
        taken.append((low, low + size - 1))
        count -= size
        if low + size <= high:
            free[used] = (low + size, high)
        else:
            used += 1
    if count > 0:
        raise InputError("the schedule uses more processors at once than the machine has")
    del free[:used]
    return taken


def _give_back(free: Intervals, held: Intervals) -> None:
    """Return processors to the list of free intervals, and join neighbouring intervals."""
    for low, high in held:
        k = bisect_left(free, (low, high))
        if k < len(free) and free[k][0] == high + 1:
            high = free.pop(k)[1]
        if k > 0 and free[k - 1][1] == low - 1:
            k -= 1
            low = free.pop(k)[0]
        free.insert(k, (low, high))
