"""Schedules as CSV: written beside the target and then renamed, and read again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, input_error

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


def read_schedule(path: str | Path) -> dict[str, np.ndarray]:
    """The columns of a schedule's CSV by name, as `write_schedule` left them: job_id text (n,), the others float64.

    Raises InputError where the file is not there or not such a file. About half a second for 200,000 jobs.
    """
    try:
        with Path(path).open(encoding="utf-8") as file:
            header = file.readline().rstrip("\n")
            if header != ",".join(COLUMNS):
                raise input_error(str(path), "is not a schedule", line=1, value=header, accepted=",".join(COLUMNS))
            kinds = np.dtype([(COLUMNS[0], "U40"), *((name, "f8") for name in COLUMNS[1:])])
            table = np.loadtxt(file, delimiter=",", dtype=kinds, comments=None, ndmin=1)
    except (ValueError, UnicodeDecodeError) as error:
        raise input_error(str(path), f"is not a schedule ({error})", hint="evaluate the log again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    return {name: table[name] for name in COLUMNS}


def _plain(values: np.ndarray) -> list[Any]:
    """Whole seconds as whole numbers, others as they are."""
    if (values == np.floor(values)).all():
        return values.astype(np.int64).tolist()
    return [int(v) if v.is_integer() else v for v in values.tolist()]
