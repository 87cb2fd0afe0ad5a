"""Writes schedules as CSV, beside the target and then renamed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..simulate import Schedule

COLUMNS = ("job_id", "submit_time", "start_time", "end_time", "procs", "planned_run_time", "backfilled")


def write_schedule(path: str | Path, schedule: Schedule) -> None:
    """One line a job in log order: job_id, submit, start and end on the log's clock in seconds, procs, plan, 0 or 1."""
    columns: list[list[Any]] = [
        schedule.job_id.tolist(),
        *(_plain(v) for v in (schedule.submit_time, schedule.start_time, schedule.end_time)),
        schedule.procs.tolist(),
        _plain(schedule.planned_run_time),
        schedule.backfilled.astype(np.int8).tolist(),
    ]
    target = Path(path)
    beside = target.with_name(f".{target.name}.part")
    try:
        with beside.open("w") as out:
            out.write(",".join(COLUMNS) + "\n")
            out.writelines(f"{i},{a},{b},{e},{p},{r},{f}\n" for i, a, b, e, p, r, f in zip(*columns))
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _plain(values: np.ndarray) -> list[Any]:
    """Whole seconds as whole numbers, others as they are."""
    if (values == np.floor(values)).all():
        return values.astype(np.int64).tolist()
    return [int(v) if v.is_integer() else v for v in values.tolist()]
