# SPDX-License-Identifier: Apache-2.0
"""Schedule: when every job of a workload started, under which plan, and which processors it then held."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..metrics.schedule import measures
from ..table.arrow import to_arrow
from ..table.exchange import data_frame, html_table


@dataclass(frozen=True, slots=True, repr=False)
class Schedule:
    """The outcome of one simulation: arrays (n,) over the simulated jobs in log order, seconds on the log's clock.

    `rows` are their rows in the trace; `planned_run_time` is the first plan; `corrections` counts new plans;
    `left_out` counts records that were not simulated, by reason; `kernel_s` is NaN when nobody held a clock; `nodes`
    are each job's processors by node, numbered from 0, where the machine has nodes.
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
        """Simulated run times: min(run, request) where jobs are killed."""
        return np.asarray(self.end_time - self.start_time)

    @property
    def wait_time(self) -> np.ndarray:
        """start - submit."""
        return np.asarray(self.start_time - self.submit_time)

    def columns(self) -> dict[str, np.ndarray]:
        """Arrays (n,) by the names of the schedule's CSV, and `row`, the job's row in the trace."""
        names = ("job_id", "submit_time", "start_time", "end_time", "procs", "planned_run_time", "backfilled")
        return {**{name: getattr(self, name) for name in names}, "row": self.rows}

    def to_pandas(self) -> Any:
        """A pandas DataFrame of `columns()`; UsageError where pandas is not installed."""
        return data_frame(self.columns())

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """The Arrow C stream of `columns()`, by which polars, duckdb and pyarrow read a schedule."""
        return to_arrow(self).__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        figures = self.measures()
        return html_table({name: [value] for name, value in figures.items()}, f"schedule of {len(self):,} jobs")

    def measures(self, mask: np.ndarray | None = None) -> dict[str, float]:
        """Quality over all jobs, or those of a boolean mask over the simulated jobs; keys as printed."""
        kept = slice(None) if mask is None else mask
        figures = measures(
            self.submit_time[kept],
            self.start_time[kept],
            self.run_time[kept],
            self.procs[kept],
            self.total,
            self.backfilled[kept],
        )
        return {**figures, "corrections": self.corrections}


Intervals = list[tuple[int, int]]


def place(start: np.ndarray, end: np.ndarray, procs: np.ndarray, total: int) -> list[Intervals]:
    """For each job (n,) its processors, numbered from 0, as closed intervals in ascending order.

    The schedule only counts processors; this numbers them afterwards, which is always possible: at one instant jobs
    that end give theirs back first, then jobs of no length take and return theirs, then the others start, by row.
    Jobs get the lowest free numbers. Raises InputError where more than `total` are held at once. O(n log n + n g), g
    the gaps among the free.

    >>> place(np.array([0.0, 0.0, 5.0]), np.array([5.0, 9.0, 7.0]), np.array([2, 1, 3]), 4)
    [[(0, 1)], [(2, 2)], [(0, 1), (3, 3)]]
    """
    n = len(start)
    free: Intervals = [(0, total - 1)]
    given: list[Intervals] = [[] for _ in range(n)]
    row = np.arange(n)
    lasts = end > start
    time = np.concatenate([end[lasts], start])
    kind = np.concatenate([np.zeros(int(lasts.sum()), dtype=int), np.where(lasts, 2, 1)])
    rows = np.concatenate([row[lasts], row])
    order = np.lexsort((rows, kind, time))
    for k, what in zip(rows[order].tolist(), kind[order].tolist()):
        if what == 0:
            _give_back(free, given[k])
            continue
        given[k] = _take(free, int(procs[k]))
        if what == 1:
            _give_back(free, given[k])
    return given


def interval_text(held: Intervals) -> str:
    """Intervals as Batsim writes them, its canonical form.

    >>> interval_text([(0, 3), (8, 8)])
    '0-3 8'
    """
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in held)


def _take(free: Intervals, count: int) -> Intervals:
    """The lowest `count` free processors, no longer free."""
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
        raise InputError("the schedule holds more processors at once than the machine has")
    del free[:used]
    return taken


def _give_back(free: Intervals, held: Intervals) -> None:
    """Processors free again, joined with their free neighbours."""
    for low, high in held:
        k = bisect_left(free, (low, high))
        if k < len(free) and free[k][0] == high + 1:
            high = free.pop(k)[1]
        if k > 0 and free[k - 1][1] == low - 1:
            k -= 1
            low = free.pop(k)[0]
        free.insert(k, (low, high))
