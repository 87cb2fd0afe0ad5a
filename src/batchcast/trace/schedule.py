"""Writes schedules as CSV, beside the target and then renamed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..simulate import Schedule

COLUMNS = ("job_id", "submit_time", "start_time", "end_time", "procs", "planned_run_time", "backfilled")


def write_schedule(path: str | Path, schedule: Schedule) -> None:
    """One line a job in log order: job_id, submit, start and end on the log's clock in seconds, procs, plan, 0 or 1."""
    columns = [
        schedule.job_id.astype(str),
        *(_number(v) for v in (schedule.submit_time, schedule.start_time, schedule.end_time)),
        schedule.procs.astype(str),
        _number(schedule.planned_run_time),
        schedule.backfilled.astype(np.int8).astype(str),
    ]
    target = Path(path)
    beside = target.with_name(f".{target.name}.part")
    try:
        with beside.open("w") as out:
            out.write(",".join(COLUMNS) + "\n")
            out.writelines(",".join(row) + "\n" for row in zip(*(c.tolist() for c in columns)))
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _number(values: np.ndarray) -> np.ndarray:
    """Whole seconds without a decimal point, others as they are."""
    whole = values == np.floor(values)
    return np.where(whole, np.where(whole, values, 0).astype(np.int64).astype(str), values.astype(str))
