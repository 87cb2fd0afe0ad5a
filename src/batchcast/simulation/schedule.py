"""Schedule: when every job of a workload started, under which plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..metrics.schedule import measures
from ..table.arrow import to_arrow
from ..table.frame import data_frame, html_table


@dataclass(frozen=True, slots=True, repr=False)
class Schedule:
    """The outcome of one simulation: arrays (n,) over the simulated jobs in log order, seconds on the log's clock.

    `rows` are their rows in the trace; `planned_run_time` is the first plan; `corrections` counts new plans;
    `left_out` counts records that were not simulated, by reason; `kernel_s` is NaN when nobody held a clock.
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
