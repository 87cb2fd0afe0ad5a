# SPDX-License-Identifier: Apache-2.0
"""Write and read the files of a report: result.json, predictions, and schedules as CSV or in Batsim's format."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import input_error
from ..formats.chunks import load_json
from ..simulation.schedule import interval_text
from ..table import Trace
from ..units import shortest
from .whole_file import file_errors
from .write import write_columns

if TYPE_CHECKING:
    from ..simulation import Schedule


VERB, VERSION = "evaluate", 1
AGAIN = "batchcast evaluate LOG -o FOLDER, then its FOLDER"


def read_result(path: str | Path) -> tuple[dict[str, Any], Path]:
    """Read the result of `evaluate` from a report's folder or its result.json; return also the folder."""
    given = Path(path)
    place = given / "result.json" if given.is_dir() else given
    if not place.exists():
        what = "is a folder without result.json, so it is not a report" if given.is_dir() else "does not exist"
        raise input_error(str(path), what, accepted="a report's folder or its result.json", hint=AGAIN)
    try:
        with file_errors(place, "cannot be read"):
            text = place.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise input_error(str(place), "is not text, so it is not a result.json", hint=AGAIN) from None
    document = load_json(text, str(place), "a result.json", AGAIN)
    _check(document, str(place))
    return document, place.parent


def _check(document: Any, name: str) -> None:
    """Raise InputError if a document is not a result of `evaluate` in a supported version."""
    schema = document.get("schema") if isinstance(document, Mapping) else None
    parts, expected = schema.split("/") if isinstance(schema, str) else [], f"batchcast/{VERB}/{VERSION}"
    if len(parts) != 3 or parts[0] != "batchcast":
        raise input_error(name, "is JSON, but was not written by batchcast", value=schema, hint=AGAIN)
    if parts[1] != VERB:
        what = f"is the output of `batchcast {parts[1]}`"
        raise input_error(name, what, value=schema, accepted=expected, hint=AGAIN)
    if parts[2] != str(VERSION):
        hint = "evaluate both logs with one version of batchcast"
        raise input_error(name, "is of another version", value=schema, accepted=expected, hint=hint)
    rows = document.get("results")
    whole = isinstance(rows, list) and all(isinstance(row, dict) and "part" in row for row in rows)
    if not whole or not all(isinstance(document.get(key), dict) for key in ("log", "settings")):
        raise input_error(name, "has no log, settings or results: it was truncated or edited", hint=AGAIN)


FORECASTS = "forecasts.csv"
"""The file of a report with the predictions of all methods."""
_FIRST = ("job_id", "group", "run_time")


class Forecasts(NamedTuple):
    """The predictions for the scored jobs: ids, groups, run times, and each method's predictions, each of shape (n,).

    Times are in seconds; NaN if a method made no prediction.
    """

    job_id: np.ndarray
    group: np.ndarray
    run_time: np.ndarray
    points: Mapping[str, np.ndarray]


def write_forecasts(path: str | Path, forecasts: Forecasts) -> None:
    """Write one line per job: job_id, group (a number, so that no user is named), run_time, and one column per method.
    Cells of unknown values are empty.

    The file is written under a temporary name and renamed.
    """
    seconds = (
        ("" if value != value else f"{value:.10g}" for value in values.tolist())
        for values in (forecasts.run_time, *forecasts.points.values())
    )
    names = [*_FIRST, *forecasts.points]
    write_columns(path, names, [forecasts.job_id.tolist(), forecasts.group.tolist(), *seconds])


def read_forecasts(path: str | Path) -> Forecasts | None:
    """Read a file of `write_forecasts`; None if the file does not exist or has other content."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            names = next(csv.reader(file), [])
            if tuple(names[:3]) != _FIRST:
                return None
            kinds = np.dtype([("0", "U40"), ("1", "i8"), *((str(k), "f8") for k in range(2, len(names)))])
            known: Any = dict.fromkeys(range(2, len(names)), lambda text: float(text or "nan"))
            table = np.loadtxt(file, delimiter=",", dtype=kinds, comments=None, ndmin=1, converters=known)
    except (OSError, ValueError):
        return None
    points = {name: table[str(k)] for k, name in enumerate(names[3:], start=3)}
    return Forecasts(table["0"], table["1"], table["2"], points)


GROUPS = "schedules/groups.csv"
"""The file of a report with the group of each simulated job (one user's submissions in one week)."""


def write_groups(path: str | Path, job_id: np.ndarray, group: np.ndarray) -> None:
    """Write one line per job with its id and its group, under a temporary name that is renamed."""
    write_columns(path, ("job_id", "group"), [job_id.tolist(), group.tolist()])


COLUMNS = ("job_id", "submit_time", "start_time", "end_time", "procs", "planned_run_time", "backfilled")


def write_schedule(path: str | Path, schedule: Schedule) -> None:
    """Write one line per job in log order: job_id, submit, start, end, procs, planned run time, backfilled (0 or 1)."""
    columns = {**schedule.columns(), "backfilled": schedule.backfilled.astype(np.int8)}
    write_columns(path, COLUMNS, (_cells(columns[name]) for name in COLUMNS))


def _cells(values: np.ndarray) -> Iterator[str]:
    """Yield the values of a column as texts. Whole numbers have no decimal point."""
    for first in range(0, len(values), _ROWS):
        yield from map(shortest, values[first : first + _ROWS].tolist())


_ROWS = 65_536  # number of values that are converted to Python numbers at a time


def read_schedule(path: str | Path) -> dict[str, np.ndarray]:
    """Read a schedule that `write_schedule` wrote: job_id as text, the other columns as float64, each of shape (n,)."""
    try:
        with file_errors(path, "cannot be read"), Path(path).open(encoding="utf-8") as file:
            header = file.readline().rstrip("\n")
            if header != ",".join(COLUMNS):
                raise input_error(str(path), "is not a schedule", line=1, value=header, accepted=",".join(COLUMNS))
            kinds = np.dtype([(COLUMNS[0], "U40"), *((name, "f8") for name in COLUMNS[1:])])
            table = np.loadtxt(file, delimiter=",", dtype=kinds, comments=None, ndmin=1)
    except ValueError as error:
        raise input_error(str(path), f"is not a schedule ({error})", hint="evaluate the log again") from None
    return {name: table[name] for name in COLUMNS}


NAMES = {
    "job_id": ("job_id", "jobID", "id", "job"),
    "submit_time": ("submit_time", "submission_time", "submit", "subtime"),
    "start_time": ("start_time", "starting_time", "start"),
    "end_time": ("end_time", "finish_time", "finish", "end"),
    "procs": ("procs", "requested_number_of_resources", "requested_procs", "size"),
    "run_time": ("execution_time", "run_time", "runtime"),
}
"""Accepted names of a schedule's columns: batchcast's names, the names of Batsim and evalys, and other common names."""
CLOCK = {name for key in ("submit_time", "start_time", "end_time") for name in NAMES[key]}


def is_schedule(name: str) -> bool:
    """Whether a name has the ending of a schedule: CSV, plain or compressed.

    >>> is_schedule("a/jobs.csv"), is_schedule("jobs.csv.gz"), is_schedule("report/")
    (True, True, False)
    """
    return name.endswith((".csv", ".csv.gz", ".csv.xz"))


def read_starts(path: str | Path) -> dict[str, np.ndarray]:
    """Read a schedule of another program from a CSV file (plain, gzip or xz) with a header: its columns by name, times
    in seconds, NaN for unknown."""
    # `NAMES` has the accepted column names. Jobs without a start are left out; a missing end is the start plus the run
    # time.
    header, numbered = _fields(path)
    place = {key: header.index(n) for key, names in NAMES.items() for n in names[::-1] if n in header}
    if missing := [key for key in ("job_id", "start_time") if key not in place]:
        raise input_error(
            str(path), f"has no column {' and no column '.join(missing)}", line=1, value=",".join(header),
            accepted="job_id,submit_time,start_time,end_time,procs, or Batsim's jobs.csv",
        )  # fmt: skip
    for row, line in numbered:
        if len(row) <= max(place.values()):
            fields = f"{len(row)} field{'s' * (len(row) != 1)}"
            raise input_error(str(path), f"has {fields} instead of {len(header)}", line=line)
    began = [pair for pair in numbered if pair[0][place["start_time"]].strip().lower() not in ("", "nan")]
    if not began:
        raise input_error(str(path), "no job in this file has a start time")
    rows, lines = zip(*began)
    numbers = {
        key: _numbers(path, header[k], [row[k] for row in rows], lines) for key, k in place.items() if key != "job_id"
    }
    texts = [row[place["job_id"]].strip() for row in rows]
    if all(text.removesuffix(".0").isdigit() for text in texts):  # pandas writes 7.0 for 7 if another id is missing
        texts = [text.removesuffix(".0") for text in texts]
    ids = np.array(texts, dtype="U")
    names, counts = np.unique(ids, return_counts=True)
    if counts.max() > 1:
        raise input_error(str(path), "has a job more than once", value=names[counts.argmax()])
    columns = {key: numbers.get(key, np.full(len(ids), np.nan)) for key in NAMES if key != "job_id"}
    run, end = columns.pop("run_time"), columns["end_time"]
    for name, wrong, what in (
        ("end_time", end < columns["start_time"], "ends before it starts"),
        ("run_time", run < 0, "has a negative run time"),
    ):
        for k in np.flatnonzero(wrong)[:1]:
            raise input_error(str(path), f"job {ids[k]} {what}", line=lines[k], value=rows[k][place[name]])
    return {"job_id": ids, **columns, "end_time": np.where(np.isnan(end), columns["start_time"] + run, end)}


def _fields(path: str | Path) -> tuple[list[str], list[tuple[list[str], int]]]:
    """Return the header of a CSV file, and each row with the line at which the row ends."""
    from .source import Source

    try:
        text = b"".join(Source(path).blocks()).decode("utf-8-sig")
        head = text.partition("\n")[0]
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=head.count))
        return [name.strip() for name in next(reader, [])], [(row, reader.line_num) for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise input_error(str(path), f"is not a schedule ({error})", accepted="CSV in UTF-8") from None


def _numbers(path: str | Path, name: str, values: Sequence[str], lines: Sequence[int]) -> np.ndarray:
    """Return texts as numbers; InputError names the line and the value."""
    numbers = []
    for value, line in zip(values, lines):
        try:
            numbers.append(float(value.strip() or "nan"))
        except ValueError:
            numbers.append(np.inf)
        if np.isinf(numbers[-1]):
            accepted = "seconds on the log's clock" if name in CLOCK else "a number"
            raise input_error(str(path), f"{name} is not a number", line=line, value=value, accepted=accepted)
    return np.array(numbers)


def read_groups(path: str | Path, schedule: dict[str, np.ndarray]) -> np.ndarray | None:
    """Return the group of each job of a schedule, numbered from 0; None if the file does not belong to the schedule."""
    try:
        kinds = np.dtype([("job_id", "U40"), ("group", "i8")])
        table = np.loadtxt(path, delimiter=",", dtype=kinds, comments=None, skiprows=1, ndmin=1)
    except (ValueError, OSError):
        return None
    if not np.array_equal(table["job_id"], schedule["job_id"]):
        return None
    return np.unique(table["group"], return_inverse=True)[1]


_STATES = {"failed": "COMPLETED_FAILED", "cancelled": "COMPLETED_KILLED", "timeout": "COMPLETED_WALLTIME_REACHED"}
_FAILED = ("node_fail", "out_of_memory", "boot_fail", "launch_failed", "deadline", "preempted")
_SUCCESS = "COMPLETED_SUCCESSFULLY"


def write_batsim(path: str | Path, schedule: Schedule, trace: Trace) -> None:
    """Write a schedule in the format of Batsim's jobs.csv (docs/output-jobs.rst of Batsim)."""
    # `simulation.schedule.assign_processors` assigns the numbers of the processors. A job that was cut at its time
    # limit has the state COMPLETED_WALLTIME_REACHED; other jobs have their recorded state, or success if it is unknown.
    # `profile` is delay_SECONDS. `requested_time` is -1 if the job has no requested time. `stretch` and
    # `consumed_energy` are empty if they are unknown.
    run, turnaround = schedule.run_time, schedule.end_time - schedule.submit_time
    states = _final_states(trace, schedule)
    with np.errstate(divide="ignore", invalid="ignore"):
        stretch = turnaround / run
    columns = {
        "job_id": schedule.job_id.tolist(),
        "workload_name": [Path(trace.info.source).name.split(".")[0] or "log"] * len(schedule),
        "profile": [f"delay_{text}" for text in _cells(run)],
        "submission_time": _cells(schedule.submit_time),
        "requested_number_of_resources": schedule.procs.tolist(),
        "requested_time": [shortest(limit) if limit > 0 else "-1" for limit in trace.req_time[schedule.rows].tolist()],
        "success": [int(state == _SUCCESS) for state in states],
        "final_state": states,
        "starting_time": _cells(schedule.start_time),
        "execution_time": _cells(run),
        "finish_time": _cells(schedule.end_time),
        "waiting_time": _cells(schedule.wait_time),
        "turnaround_time": _cells(turnaround),
        "stretch": [shortest(value) if np.isfinite(value) else "" for value in stretch.tolist()],
        "allocated_resources": map(interval_text, schedule.placed()),
        "consumed_energy": [""] * len(schedule),
        "metadata": [""] * len(schedule),
    }
    write_columns(path, list(columns), columns.values())


def _final_states(trace: Trace, schedule: Schedule) -> list[str]:
    """Return Batsim's final state of each simulated job."""
    status = trace.nominal("status")
    words = [_STATES.get(str(word), _STATES["failed"] if word in _FAILED else _SUCCESS) for word in status.categories]
    states = [[*words, _SUCCESS][code] for code in status.codes[schedule.rows].tolist()]
    cut = trace.run_time[schedule.rows] > schedule.run_time
    return [_STATES["timeout"] if was_cut else state for was_cut, state in zip(cut.tolist(), states)]
