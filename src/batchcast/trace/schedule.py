# SPDX-License-Identifier: Apache-2.0
"""What schedulers and `batchcast evaluate` left, written and read again.

Schedules as CSV in our columns, and as Batsim's jobs.csv; the numbers of a report, and what each method said of each
scored job.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InputError, input_error
from ..simulation.schedule import interval_text, place
from ..table import Trace
from .csv_lines import cells, lines, shortest, write_by_job
from .whole_file import whole_file
from .write import write_columns

if TYPE_CHECKING:
    from ..simulation import Schedule


VERB, VERSION = "evaluate", 1
AGAIN = "batchcast evaluate LOG -o FOLDER, then its FOLDER"


def read_result(path: str | Path) -> tuple[dict[str, Any], Path]:
    """The document of a report folder or of its result.json, and the folder it lies in.

    Raises InputError that says what the file is where it is not a result of `evaluate` of a version known here.
    """
    given = Path(path)
    place = given / "result.json" if given.is_dir() else given
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        what = "is a folder without result.json, so no report" if given.is_dir() else "does not exist"
        raise input_error(str(path), what, accepted="a report's folder or its result.json", hint=AGAIN) from None
    except UnicodeDecodeError:
        raise input_error(str(place), "is not text, so no result.json", hint=AGAIN) from None
    except OSError as error:
        raise InputError(f"{place}: cannot be read ({error.strerror or error})") from None
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise input_error(str(place), f"is not JSON ({error.msg})", line=error.lineno, hint=AGAIN) from None
    except (ValueError, RecursionError) as error:
        raise input_error(str(place), f"is not JSON ({error})", hint=AGAIN) from None
    _check(document, str(place))
    return document, place.parent


def _check(document: Any, name: str) -> None:
    schema = document.get("schema") if isinstance(document, Mapping) else None
    parts = schema.split("/") if isinstance(schema, str) else []
    if len(parts) != 3 or parts[0] != "batchcast":
        raise input_error(name, "is JSON, but not a document of batchcast", value=schema, hint=AGAIN)
    if parts[1] != VERB:
        raise input_error(
            name,
            f"is what `batchcast {parts[1]}` printed",
            value=schema,
            accepted=f"batchcast/{VERB}/{VERSION}",
            hint=AGAIN,
        )
    if parts[2] != str(VERSION):
        raise input_error(
            name, "is of another version", value=schema, accepted=f"batchcast/{VERB}/{VERSION}",
            hint="evaluate both logs with one version of batchcast",
        )  # fmt: skip
    rows = document.get("results")
    whole = isinstance(rows, list) and all(isinstance(row, dict) and "part" in row for row in rows)
    if not whole or not all(isinstance(document.get(key), dict) for key in ("log", "settings")):
        raise input_error(name, "lacks log, settings or results: it was cut or edited", hint=AGAIN)


FORECASTS = "forecasts.csv"
"""Where a report keeps what its methods said."""
_FIRST = ("job_id", "group", "run_time")


class Forecasts(NamedTuple):
    """Of the scored jobs: ids as text (n,), groups as whole numbers (n,), run times, and each method's forecasts.

    Seconds, NaN where a method said nothing.
    """

    job_id: np.ndarray
    group: np.ndarray
    run_time: np.ndarray
    points: Mapping[str, np.ndarray]


def write_forecasts(path: str | Path, forecasts: Forecasts) -> None:
    """One line a job: job_id, group (a number that names nobody), run_time and a column a method; empty where unknown.

    Written beside and renamed. About a tenth of a second for 200,000 jobs.
    """
    seconds = [shortest(values) for values in (forecasts.run_time, *forecasts.points.values())]
    write_by_job(path, [*_FIRST, *forecasts.points], forecasts.job_id, [cells(forecasts.group), *seconds])


def read_forecasts(path: str | Path) -> Forecasts | None:
    """What `write_forecasts` left; None where there is no such file or it is not one. Some 200,000 jobs a second."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            names = next(csv.reader(file), [])
            if tuple(names[:3]) != _FIRST:
                return None
            kinds = np.dtype([("0", "U40"), ("1", "i8"), *((str(k), "f8") for k in range(2, len(names)))])
            known: dict[int | str, Callable[[str], float]] = dict.fromkeys(range(2, len(names)), _number)
            table = np.loadtxt(file, delimiter=",", dtype=kinds, comments=None, ndmin=1, converters=known)
    except (OSError, ValueError):
        return None
    points = {name: table[str(k)] for k, name in enumerate(names[3:], start=3)}
    return Forecasts(table["0"], table["1"], table["2"], points)


def _number(text: str) -> float:
    return float(text) if text else float("nan")


GROUPS = "schedules/groups.csv"
"""Where a report keeps which simulated jobs are one user's submissions of one week."""


def write_groups(path: str | Path, job_id: np.ndarray, group: np.ndarray) -> None:
    """One line a job: its id and its group, a whole number. Written beside and renamed."""
    write_by_job(path, ("job_id", "group"), job_id, [cells(group)])


COLUMNS = ("job_id", "submit_time", "start_time", "end_time", "procs", "planned_run_time", "backfilled")


TextCache = dict[tuple[str, int], tuple[np.ndarray, bytes]]
"""Values and their text, of a column from a row on."""


def write_schedule(path: str | Path, schedule: Schedule, cache: TextCache | None = None) -> None:
    """One line a job in log order: job_id, submit, start and end on the log's clock in seconds, procs, plan, 0 or 1.

    Schedules of one log written one after the other with the same `cache` make the text of like columns once.
    """
    cache = {} if cache is None else cache
    columns = (
        schedule.job_id, schedule.submit_time, schedule.start_time, schedule.end_time, schedule.procs,
        schedule.planned_run_time, schedule.backfilled.astype(np.int8),
    )  # fmt: skip
    with whole_file(path) as beside, beside.open("wb") as out:
        out.write((",".join(COLUMNS) + "\n").encode())
        for first in range(0, len(schedule), _ROWS):
            parts = [(name, values[first : first + _ROWS]) for name, values in zip(COLUMNS, columns)]
            out.write(lines([_cached_cells(cache, (name, first), values) for name, values in parts]))


_ROWS = 65_536  # a report has fifteen schedules, so they are written in bulk


def _cached_cells(cache: TextCache, key: tuple[str, int], values: np.ndarray) -> bytes:
    known, text = cache.get(key, (None, b""))
    if known is None or known.dtype != values.dtype or not np.array_equal(known, values):
        text = cells(values)
        cache[key] = values, text
    return text


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


NAMES = {
    "job_id": ("job_id", "jobID", "id", "job"),
    "submit_time": ("submit_time", "submission_time", "submit", "subtime"),
    "start_time": ("start_time", "starting_time", "start"),
    "end_time": ("end_time", "finish_time", "finish", "end"),
    "procs": ("procs", "requested_number_of_resources", "requested_procs", "size"),
    "run_time": ("execution_time", "run_time", "runtime"),
}
"""What a schedule's columns are called: here, by Batsim and evalys, and by hand."""
CLOCK = {name for key in ("submit_time", "start_time", "end_time") for name in NAMES[key]}


def is_schedule(name: str) -> bool:
    """Whether a name is one of a schedule: a CSV, plain or packed.

    >>> is_schedule("a/jobs.csv"), is_schedule("jobs.csv.gz"), is_schedule("report/")
    (True, True, False)
    """
    return name.endswith((".csv", ".csv.gz", ".csv.xz"))


def read_starts(path: str | Path) -> dict[str, np.ndarray]:
    """Anybody's schedule from a CSV with a header: job_id text (n,), seconds and processors float64, NaN where unknown.

    Plain, gzip or xz, fields apart by commas, semicolons or tabs. Columns are found by the names of `NAMES`; job_id and
    start_time are needed, others may be there, and a line without a start is a job that did not. Without end_time, it
    is start_time and run time. InputError names line and value; a job that stands there twice is one too.
    """
    header, rows, lines = _fields(path)
    place = {key: header.index(n) for key, names in NAMES.items() for n in names[::-1] if n in header}
    if missing := [key for key in ("job_id", "start_time") if key not in place]:
        raise input_error(
            str(path), f"has no column {' and no column '.join(missing)}", line=1, value=",".join(header),
            accepted="job_id,submit_time,start_time,end_time,procs, or Batsim's jobs.csv",
        )  # fmt: skip
    for row, line in zip(rows, lines):
        if len(row) <= max(place.values()):
            counted = f"{len(row)} field{'s' * (len(row) != 1)}"
            raise input_error(str(path), f"has {counted} where {len(header)} are due", line=line)
    began = [k for k, row in enumerate(rows) if row[place["start_time"]].strip().lower() not in ("", "nan")]
    rows, lines = [rows[k] for k in began], [lines[k] for k in began]
    if not rows:
        raise input_error(str(path), "no job in it has a start")
    found = {
        key: _numbers(path, header[k], [row[k] for row in rows], lines) for key, k in place.items() if key != "job_id"
    }
    texts = [row[place["job_id"]].strip() for row in rows]
    if all(text.removesuffix(".0").isdigit() for text in texts):  # pandas makes 7.0 of 7 beside an unknown one
        texts = [text.removesuffix(".0") for text in texts]
    ids = np.array(texts, dtype="U")
    if len(np.unique(ids)) < len(ids):
        names, counts = np.unique(ids, return_counts=True)
        raise input_error(str(path), "has a job more than once", value=names[counts.argmax()])
    columns = {key: found.get(key, np.full(len(ids), np.nan)) for key in NAMES if key != "job_id"}
    for k in np.flatnonzero(columns["end_time"] < columns["start_time"])[:1]:
        value = rows[k][place["end_time"]]
        raise input_error(str(path), f"job {ids[k]} ends before it starts", line=lines[k], value=value)
    for k in np.flatnonzero(columns["run_time"] < 0)[:1]:
        value = rows[k][place["run_time"]]
        raise input_error(str(path), f"job {ids[k]} has a negative run time", line=lines[k], value=value)
    run = columns.pop("run_time")
    return {
        "job_id": ids,
        **columns,
        "end_time": np.where(np.isnan(columns["end_time"]), columns["start_time"] + run, columns["end_time"]),
    }


def _fields(path: str | Path) -> tuple[list[str], list[list[str]], list[int]]:
    """The header of a CSV, its rows, and the line that each ends in."""
    from .source import Source

    try:
        text = b"".join(Source(path).blocks()).decode("utf-8-sig")
        head = text.partition("\n")[0]
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=head.count))
        header = [name.strip() for name in next(reader, [])]
        numbered = [(row, reader.line_num) for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise input_error(str(path), f"is not a schedule ({error})", accepted="CSV in UTF-8") from None
    return header, [row for row, _ in numbered], [line for _, line in numbered]


def _numbers(path: str | Path, name: str, values: list[str], lines: list[int]) -> np.ndarray:
    numbers = []
    for value, line in zip(values, lines):
        try:
            numbers.append(float(value.strip() or "nan"))
        except ValueError:
            numbers.append(np.inf)
        if np.isinf(numbers[-1]):
            accepted = "seconds on the log's clock" if name in CLOCK else "a number"
            raise input_error(str(path), f"{name} is no number", line=line, value=value, accepted=accepted)
    return np.array(numbers)


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


BATSIM_COLUMNS = (
    "job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources", "requested_time",
    "success", "final_state", "starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time",
    "stretch", "allocated_resources", "consumed_energy", "metadata",
)  # fmt: skip
_STATES = {"failed": "COMPLETED_FAILED", "cancelled": "COMPLETED_KILLED", "timeout": "COMPLETED_WALLTIME_REACHED"}
_FAILED = ("node_fail", "out_of_memory", "boot_fail", "launch_failed", "deadline", "preempted")
_SUCCESS = "COMPLETED_SUCCESSFULLY"


def write_batsim(path: str | Path, schedule: Schedule, trace: Trace) -> None:
    """One line a simulated job in log order, Batsim's columns (docs/output-jobs.rst), seconds on the log's clock.

    Processors are numbered by `simulate.placement`. A job cut at its request reached its walltime; otherwise the final
    state is the recorded one, and success where that is unknown. `profile` is delay_SECONDS; `requested_time` is -1
    without a request, `stretch` and `consumed_energy` are empty where there is none. `trace` is the log that was
    simulated. Written beside and renamed.
    """
    rows = schedule.rows
    run, turnaround = schedule.run_time, schedule.end_time - schedule.submit_time
    held = place(schedule.start_time, schedule.end_time, schedule.procs, schedule.total)
    asked = trace.req_time[rows]
    states = _final_states(trace, schedule)
    with np.errstate(divide="ignore", invalid="ignore"):
        stretch = turnaround / run
    name = Path(trace.info.source).name.split(".")[0] or "log"
    columns = (
        schedule.job_id.tolist(),
        [name] * len(schedule),
        [f"delay_{_text(value)}" for value in run.tolist()],
        _texts(schedule.submit_time),
        schedule.procs.tolist(),
        ["-1" if not value > 0 else _text(value) for value in asked.tolist()],
        [int(state == _SUCCESS) for state in states],
        states,
        _texts(schedule.start_time),
        _texts(run),
        _texts(schedule.end_time),
        _texts(schedule.wait_time),
        _texts(turnaround),
        ["" if not np.isfinite(value) else _text(value) for value in stretch.tolist()],
        map(interval_text, held),
        [""] * len(schedule),
        [""] * len(schedule),
    )
    write_columns(path, BATSIM_COLUMNS, columns)


def _final_states(trace: Trace, schedule: Schedule) -> list[str]:
    status = trace.nominal("status")
    words = [_STATES.get(str(word), _STATES["failed"] if word in _FAILED else _SUCCESS) for word in status.categories]
    states = [[*words, _SUCCESS][code] for code in status.codes[schedule.rows].tolist()]
    cut = trace.run_time[schedule.rows] > schedule.run_time
    return [_STATES["timeout"] if was_cut else state for was_cut, state in zip(cut.tolist(), states)]


def _texts(values: np.ndarray) -> list[str]:
    return [_text(value) for value in values.tolist()]


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
