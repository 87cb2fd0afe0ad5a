# SPDX-License-Identifier: Apache-2.0
"""Column maps: which column of a foreign CSV file contains which of batchcast's columns, and in which unit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...columns import COLUMNS
from ...errors import InputError, UsageError, input_error
from ...table.columns import did_you_mean

INSTANTS = ("submit_time", "eligible_time", "start_time", "end_time")
T = TypeVar("T")
LENGTHS = {"seconds": 1.0, "milliseconds": 1e-3, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}
SIZES = {"bytes": 1 / 1024, "kib": 1.0, "mib": 1024.0, "gib": 1024.0**2}
TRES = {"req_procs": "cpu", "alloc_procs": "cpu", "req_nodes": "node", "alloc_nodes": "node", "req_gpus": "gpu",
        "req_mem_kib": "mem", "used_mem_kib": "mem"}  # fmt: skip
PER = ("job", "node", "processor")
_KEYS = ("about", "columns", "extra", "status", "header", "notes", "timezone", "delimiter", "encoding", "procs_total")


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """One column of batchcast (or `start_time`, `end_time`) and the column of the file that contains its values."""

    target: str  # Name of the column in batchcast, and its name in the file
    source: str
    unit: str  # The unit of the column in the file, one of `units_of`
    # Whether memory in the file is per `job`, `node` or `processor`. In the trace, memory is for the whole job.
    per: str = "job"


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """A column map: which columns of a CSV file become which columns of batchcast, and in which units."""

    name: str  # Name of the map, and its columns
    columns: tuple[MappedColumn, ...]
    # The status word for each job state that occurs in the file.
    status: Mapping[str, str] = field(default_factory=dict)
    header: tuple[str, ...] = ()  # Column names by which a file is recognised as fitting this map
    notes: tuple[str, ...] = ()  # Notes that are added to logs which are read with this map
    timezone: str | None = None  # Properties of the file and of the machine; None and NaN mean unknown
    delimiter: str | None = None
    encoding: str = "utf-8"
    procs_total: float = math.nan


def units_of(target: str) -> tuple[str, ...]:
    """Return the units in which a file can have a column, the default first.

    >>> units_of("submit_time"), units_of("req_gpus"), units_of("user_id")
    (('date', 'epoch_ms'), ('count', 'tres'), ('text', 'whole'))
    """
    declared = COLUMNS.get(target)
    if target in INSTANTS:
        return ("date", "epoch_ms")
    if target == "status":
        return ("slurm", "swf", "text")
    if target == "job_id":
        return ("text",)
    if declared is None:  # an extra column
        return ("text", "whole", "number", *LENGTHS, *SIZES)
    if declared.kind == "nominal":
        return ("text", "whole")
    if declared.unit == "KiB":
        return (*sorted(SIZES, key=lambda unit: unit != "kib"), "slurm", *(("tres",) if target in TRES else ()))
    if declared.unit == "s":
        return (*LENGTHS, "slurm")
    return ("count", *(("tres",) if target in TRES else ()))


def make_map(plain: Mapping[str, Any], source: str) -> ColumnMap:
    """Build a column map from the tables of its TOML file.

    >>> made = make_map({"columns": {"submit_time": "sub", "req_time": {"from": "wall", "unit": "minutes"}}}, "m.toml")
    >>> made.name, made.columns[1]
    ('m', MappedColumn(target='req_time', source='wall', unit='minutes', per='job'))
    """
    _only(plain, _KEYS, source, "key")
    columns = _table(plain, "columns", source)
    targets = (*COLUMNS, "start_time", "end_time")
    _only(columns, targets, source, "column of batchcast")
    extra = _table(plain, "extra", source)
    for name in extra:
        if name in targets:
            raise UsageError(f"{source}: [extra] {name} is one of batchcast's own columns", hint="put it in [columns]")
    if "submit_time" not in columns:
        raise UsageError(f"{source}: [columns] has no submit_time", hint='submit_time = "the column that holds it"')
    tables = (("[columns]", columns), ("[extra]", extra))
    procs = plain.get("procs_total", math.nan)
    if isinstance(procs, bool) or not isinstance(procs, (int, float)) or procs <= 0:
        raise _wrong(source, "procs_total", procs, "a number of processors above 0")
    return ColumnMap(
        name=re.sub(r"\.toml$", "", source.replace("\\", "/").rsplit("/", 1)[-1]),
        columns=tuple(_column(n, value, source, table) for table, items in tables for n, value in items.items()),
        status={str(k): _text(v, f"[status] {k}", source) for k, v in _table(plain, "status", source).items()},
        header=_texts(plain, "header", source),
        notes=_texts(plain, "notes", source),
        timezone=_text(plain["timezone"], "timezone", source) if "timezone" in plain else None,
        delimiter=_delimiter(plain, source),
        encoding=_text(plain.get("encoding", "utf-8"), "encoding", source),
        procs_total=float(procs),
    )


def find_columns(mapped: ColumnMap, header: Sequence[str], source: str) -> list[int]:
    """Return the position of each mapped column in a file's header; InputError if a mapped column is missing."""
    for column in mapped.columns:
        if column.source not in header:
            what = f"the map {mapped.name} reads {column.target} from a column that the file does not have"
            accepted = ", ".join(header[:12]) + (", ..." if len(header) > 12 else "")
            hint = did_you_mean(column.source, header) or "--map with a map of this file's columns"
            raise input_error(source, what, line=1, value=column.source, accepted=accepted, hint=hint)
    return [header.index(column.source) for column in mapped.columns]


def sacct_line(header: Sequence[str]) -> str:
    """Return the sacct command that prints a readable file, if the header is from sacct but lacks `-P` or the Submit
    column.

    >>> sacct_line(["JobID", "JobName", "State"]), sacct_line(["a", "b"])
    ('sacct -a -P --delimiter=^ -S 2026-01-01 -o ALL > jobs.txt', '')
    """
    from ..slurm.sacct_lines import COMMAND

    own = {"jobname", "state", "exitcode", "alloccpus", "ncpus", "elapsed", "submit", "start", "end", "partition"}
    words = {name.strip().lower() for name in header}
    return COMMAND if words & {"jobid", "jobidraw"} and words & own else ""


def unrecognised_header(source: str, header: Sequence[str], map_names: Sequence[str], example: str) -> InputError:
    """Build the error for a CSV file that no map fits."""
    is_data = any(header) and all(re.fullmatch(r"[\d\s:.+-]*", name) for name in header)
    what = "a CSV table without a header line" if is_data else "a CSV table whose columns batchcast does not know"
    accepted = f"batchcast's own (job_id, submit_time, ...), the files of the maps {', '.join(map_names)}, or --map"
    hint = sacct_line(header) or f"write a map of the columns for --map FILE.toml; {example} is an example"
    return input_error(source, what, line=1, value=",".join(header), accepted=accepted, hint=hint)


def _column(target: str, value: Any, source: str, table: str) -> MappedColumn:
    """Return one mapped column; UsageError if the entry in the map is wrong."""
    where = f"{table} {target}"
    given = {"from": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not isinstance(given.get("from"), str):
        raise _wrong(source, where, value, 'the name of a column, or { from = "NAME", unit = "UNIT" }')
    is_memory = target in COLUMNS and COLUMNS[target].unit == "KiB"
    _only(given, ("from", "unit", *(("per",) if is_memory else ())), source, f"key of {where}")
    per = given.get("per", "job")
    if per not in PER:
        raise _wrong(source, f"`per` of {where}", per, ", ".join(PER))
    accepted = units_of(target)
    unit = given.get("unit", accepted[0])
    if unit not in accepted:
        raise _wrong(source, f"the unit of {where}", unit, ", ".join(accepted))
    return MappedColumn(target, given["from"], unit, per)


def _only(given: Mapping[str, Any], accepted: Sequence[str], source: str, what: str) -> None:
    """Raise UsageError, with similar names as a hint, if a key is not accepted."""
    for name in given:
        if name not in accepted:
            hint = did_you_mean(name, accepted, 2)
            raise UsageError(f"{source}: not a {what}: {name!r} (accepted: {', '.join(accepted)})", hint=hint)


def _table(plain: Mapping[str, Any], key: str, source: str) -> Mapping[str, Any]:
    """Return a TOML table from the column map; UsageError if the value is of another type."""
    return _typed(plain.get(key, {}), dict, key, source, f"a table [{key}]")


def _texts(plain: Mapping[str, Any], key: str, source: str) -> tuple[str, ...]:
    """Return a list of strings from the column map; UsageError if the value is of another type."""
    values = _typed(plain.get(key, []), list, key, source, "a list of texts")
    return tuple(_text(item, key, source) for item in values)


def _text(value: Any, key: str, source: str) -> str:
    """Return a string from the column map; UsageError if the value is of another type."""
    return _typed(value, str, key, source, "a text in quotes")


def _typed(value: Any, kind: type[T], key: str, source: str, accepted: str) -> T:
    """Return a value of the column map; UsageError if the value is of another type."""
    if not isinstance(value, kind):
        raise _wrong(source, key, value, accepted)
    return value


def _delimiter(plain: Mapping[str, Any], source: str) -> str | None:
    """Return the delimiter in the column map, or None; UsageError unless it is one character."""
    value = plain.get("delimiter")
    if value is not None and not (isinstance(value, str) and len(value) == 1 and value not in '"\r\n'):
        raise _wrong(source, "delimiter", value, 'one character, e.g. ";" or "\\t"')
    return value


def _wrong(source: str, key: str, value: Any, accepted: str) -> UsageError:
    """Return the error for a wrong value in a column map."""
    return UsageError(f"{source}: {key} cannot be {value!r} (accepted: {accepted})")
