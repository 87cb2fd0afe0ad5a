# SPDX-License-Identifier: Apache-2.0
"""Reads grids: expected-time matrices, jobs and resources as CSV, platforms as TOML, jobs from a log."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...ceilings import parse_toml
from ...errors import InputError, input_error
from ...table import Trace
from ...trace.source import Source
from .model import Jobs, Resources, Units

ABSENT = {"speed": np.nan, "bandwidth": np.nan, "free": 0.0}
"""A resource's columns, with the values of empty cells."""
MATRIX_FORM = (
    "a first line 'jobs resources' (a third number there is ignored), then jobs x resources times, job by job; gzip is "
    "recognized by its content"
)


def read_matrix(path: str | Path) -> np.ndarray:
    """Read a matrix (n, m) of expected times in the form of Braun et al.; InputError names the first wrong value."""
    file = str(path)
    first, _, rest = _text(path).lstrip().partition("\n")
    words = first.split()
    try:
        n, m = int(words[0]), int(words[1])
    except (IndexError, ValueError):
        value = " ".join(words[:3])
        raise input_error(file, "not an expected-time matrix", line=1, value=value, accepted=MATRIX_FORM) from None
    if n < 1 or m < 1:
        raise input_error(file, "an empty grid", line=1, value=f"{n} x {m}", accepted="at least one job and resource")
    values = words[3:] + rest.split()
    if len(values) != n * m:
        raise input_error(file, f"{len(values)} times, not {n} x {m} = {n * m}", accepted=MATRIX_FORM)
    try:
        times = np.array(values, dtype=np.float64)
    except ValueError:
        times = np.array([float(word) if _is_number(word) else np.nan for word in values])
    for k in np.flatnonzero(~(np.isfinite(times) & (times >= 0))).tolist():
        value, accepted = (times[k], "finite, at least 0") if _is_number(values[k]) else (values[k], "a number")
        raise input_error(file, f"time of job {k // m} on resource {k % m}", value=value, accepted=accepted)
    return times.reshape(n, m)


def read_jobs(path: str | Path) -> Jobs:
    """Read jobs from CSV: columns id, instructions (MI), file_mb, arrival and deadline (an instant; an empty cell means
    no deadline).

    A column `allowed` (time from arrival to deadline) may replace `deadline`. `cost_weight` is the user's weight of
    cost against time, 0 to 1 (empty: the heuristic's weight). A column `min_X` requests at least the given value of
    resource attribute X. A value that is not a number does not raise an error: the job is returned, and the simulation
    rejects and counts the job.
    """
    more = ("file_mb", "deadline", "allowed", "cost_weight", "min_<attribute>")
    cells = _table(path, ("id", "instructions", "arrival"), more)
    column = partial(_numbers, cells)
    ini, fsize, arrival = column("instructions", np.nan), column("file_mb", 0.0), column("arrival", np.nan)
    deadline = arrival + column("allowed", np.inf) if "allowed" in cells else column("deadline", np.inf)
    demands = {name.removeprefix("min_"): column(name, -np.inf) for name in cells if name.startswith("min_")}
    return Jobs(cells["id"], ini, fsize, arrival, deadline, demands, column("cost_weight", np.nan))


def read_map_jobs(path: str | Path, jobs: int) -> tuple[np.ndarray, np.ndarray]:
    """Read deadlines and file sizes (MB), both (jobs,), from CSV: columns `deadline` (empty: none) and `file_mb`.

    The file has one row per job of the matrix, in the matrix's order; other columns are ignored. An InputError names
    the line of a value that is not a number, or a wrong number of rows.
    """
    cells = _table(path, ("deadline",), ("file_mb",))
    deadline, file_mb = _numbers(cells, "deadline", np.inf), _numbers(cells, "file_mb", 0.0)
    if len(deadline) != jobs:
        what = f"{len(deadline)} rows, the matrix has {jobs} jobs"
        raise input_error(str(path), what, hint="one row for each job, in the jobs' order")
    for name, right in (("deadline", deadline >= 0.0), ("file_mb", (file_mb >= 0.0) & np.isfinite(file_mb))):
        for row in np.flatnonzero(~right).tolist():
            value, accepted = cells[name][row], "a number of at least 0, or an empty cell"
            raise input_error(str(path), f"{name} of job {row}", line=row + 2, value=value, accepted=accepted)
    return deadline, file_mb


def read_platform(path: str | Path) -> tuple[Resources, Units]:
    """Read resources from TOML or CSV.

    TOML has [[resource]] tables (id, count, speed, bandwidth, free, price, attributes) and a table [units]; without a
    table [units], both units are 1. An InputError names the resource that has a wrong value.
    """
    units = Units(1.0, 1.0)
    if Path(path).suffix.lower() == ".csv":
        cells = _table(path, ("id", "speed", "bandwidth"), ("free", "<attribute>"))
        ids, columns = cells["id"], [_numbers(cells, name, absent) for name, absent in ABSENT.items()]
        more = {name: _numbers(cells, name, 0.0) for name in cells if name not in ("id", *ABSENT)}
    else:
        parsed = parse_toml(_text(path), str(path), "[[resource]] tables with id, speed, bandwidth")
        ids, columns, more = _from_tables(path, parsed)
        given = parsed.get("units", {})
        units = Units(*(_number(path, "units", key, given.get(key, 1.0)) for key in ("compute", "transfer")))
    try:
        speed, bandwidth, free = columns
        return Resources(ids, speed, bandwidth, free, more), units
    except InputError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint) from None


def jobs_from_log(trace: Trace, *, reference_speed: float = 1000.0, slack: float = 2.0) -> Jobs:
    """Convert jobs of a batch log: instructions = run time x reference speed, deadline = submit + slack x limit.

    With these instructions, a job takes its recorded run time on a resource of the reference speed (MI/s). The job
    requests an attribute `procs` of at least its number of processors. If the time limit is missing, the run time
    replaces it. The converted jobs have no input files. Jobs that never ran are left out.
    """
    ran = np.isfinite(trace.run_time) & (trace.run_time > 0)
    taken = trace.take(ran)
    limit = np.where(taken.req_time > 0, taken.req_time, taken.run_time)
    ids = [str(name) for name in taken.job_id.tolist()]
    deadline = taken.submit_time + slack * np.maximum(limit, taken.run_time)
    ini = taken.run_time * reference_speed
    return Jobs(ids, ini, np.zeros(len(taken)), taken.submit_time, deadline, {"procs": taken.procs()})


def _text(path: str | Path) -> str:
    """Return the text of a file, which may be compressed."""
    return b"".join(Source(path, strict=True).blocks()).decode("utf-8", errors="replace")


def _table(path: str | Path, needed: tuple[str, ...], more: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the columns of a CSV by name, as texts; the columns `needed` must exist, the columns `more` may exist."""
    file = str(path)
    lines = [row for row in csv.reader(io.StringIO(_text(path))) if row and not row[0].startswith("#")]
    header = [name.strip().lower() for name in lines[0]] if lines else []
    if missing := [name for name in needed if name not in header]:
        accepted = ", ".join((*needed, *more))
        raise input_error(file, f"no column {missing[0]!r}", line=1, value=",".join(header), accepted=accepted)
    if len(lines) < 2:
        raise input_error(file, "a header and no row", hint="one line for each job or resource")
    for number, row in enumerate(lines[1:], start=2):
        if len(row) != len(header):
            what = f"{len(row)} fields, the header has {len(header)}"
            raise input_error(file, what, line=number, value=",".join(row))
    return {name: [cell.strip() for cell in column] for name, column in zip(header, zip(*lines[1:]))}


def _numbers(cells: Mapping[str, list[str]], name: str, absent: float) -> np.ndarray:
    """Return a column as numbers; an empty cell (or missing column) is `absent`, text is NaN."""
    texts = cells.get(name) or [""] * len(next(iter(cells.values())))
    return np.array([absent if not text else float(text) if _is_number(text) else np.nan for text in texts])


def _is_number(word: str) -> bool:
    """Return whether Python can convert the text to a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _from_tables(path: str | Path, parsed: dict[str, Any]) -> tuple[list[str], list[np.ndarray], dict[str, np.ndarray]]:
    """Return the resources' ids; their speed, bandwidth and free time; and their attributes."""
    tables = parsed.get("resource", [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise input_error(str(path), "resource is not a list of tables", accepted="[[resource]]")
    ids: list[str] = []
    rows: list[list[float]] = []
    attributes: list[dict[str, float]] = []
    keys = ("id", "count", *ABSENT, "price", "attributes")
    for number, table in enumerate(tables):
        if unknown := sorted(set(table) - set(keys)):
            accepted = ", ".join(keys)
            raise input_error(str(path), f"resource {number}: unknown key", value=unknown[0], accepted=accepted)
        name, count = str(table.get("id", f"r{number}")), table.get("count", 1)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise input_error(str(path), f"resource {name!r}: count", value=count, accepted="a whole number from 1")
        ids += [name] if count == 1 else [f"{name}.{k}" for k in range(count)]
        rows += [[_number(path, name, key, table.get(key, absent)) for key, absent in ABSENT.items()]] * count
        more = table.get("attributes", {}) | ({"price": table["price"]} if "price" in table else {})
        attributes += [{key: _number(path, name, key, more[key]) for key in sorted(more)}] * count
    names = sorted(set().union(*attributes))
    columns = list(np.array(rows).reshape(-1, len(ABSENT)).T.copy())
    return ids, columns, {key: np.array([row.get(key, 0.0) for row in attributes]) for key in names}


def _number(path: str | Path, name: str, key: str, value: Any) -> float:
    """Return the value of a TOML key as a number; InputError names the file, the table and the key."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise input_error(str(path), f"{name}: {key}", value=value, accepted="a number")
    return float(value)
