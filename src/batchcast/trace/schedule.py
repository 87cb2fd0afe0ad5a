"""Schedules as CSV: written beside the target and then renamed, and read again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, input_error
from .whole_file import whole_file

if TYPE_CHECKING:
    from ..simulation import Schedule

GROUPS = "schedules/groups.csv"
"""Where a report keeps which simulated jobs are one user's submissions of one week."""
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
    with whole_file(path) as beside, beside.open("w") as out:
        out.write(",".join(COLUMNS) + "\n")
        out.writelines(f"{i},{a},{b},{e},{p},{r},{f}\n" for i, a, b, e, p, r, f in zip(*columns))


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


def read_groups(path: str | Path, schedule: dict[str, np.ndarray]) -> np.ndarray | None:
    """The group of each job of a schedule that was read, whole numbers from 0; None where the file is not its own."""
    try:
        kinds = np.dtype([("job_id", "U40"), ("group", "i8")])
        table = np.loadtxt(path, delimiter=",", dtype=kinds, comments=None, skiprows=1, ndmin=1)
    except (ValueError, OSError):
        return None
    if not np.array_equal(table["job_id"], schedule["job_id"]):
        return None
    return np.unique(table["group"], return_inverse=True)[1]


def _plain(values: np.ndarray) -> list[Any]:
    """Whole seconds as whole numbers, others as they are."""
    if (values == np.floor(values)).all():
        return list(values.astype(np.int64).tolist())
    return [int(v) if v.is_integer() else v for v in values.tolist()]
