"""Writes a trace in the format that a file's ending names, and says what that format has no place for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..columns import COLUMNS
from ..errors import InputError, UsageError
from ..table import Trace
from .csv import write_csv
from .parquet import write_parquet
from .write import write_trace

ENDINGS = ".swf, .swf.gz, .swf.xz, .csv, .parquet"


def kind_of(path: str | Path) -> str:
    """`swf`, `csv` or `parquet` by the ending; UsageError for any other.

    >>> kind_of("a/log.swf.gz"), kind_of("LOG.CSV")
    ('swf', 'csv')
    """
    name = str(path).lower()
    if name.endswith((".swf", ".swf.gz", ".swf.xz")):
        return "swf"
    for kind in ("csv", "parquet"):
        if name.endswith(f".{kind}"):
            return kind
    raise UsageError(f"{path}: its ending names no format (accepted: {ENDINGS})")


def write_as(trace: Trace, path: str | Path) -> str:
    """Writes the trace and returns the kind of file; InputError where that cannot be done."""
    kind = kind_of(path)
    try:
        {"swf": write_trace, "csv": write_csv, "parquet": write_parquet}[kind](trace, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    return kind


def not_carried(trace: Trace, kind: str) -> list[str]:
    """What of this trace a format cannot hold, in sentences; nothing for Parquet.

    >>> not_carried(Trace.from_arrays({"submit_time": [0], "qos": ["high"], "user_id": ["ada"]}), "swf")
    ['SWF has no field for: qos', 'SWF has numbers for names: user_id']
    """
    if kind == "parquet":
        return []
    if kind == "csv":
        info, lost = trace.info, []
        lost += ["the machine's size"] if info.max_procs > 0 or info.max_nodes > 0 else []
        lost += ["the time zone"] if info.timezone != "UTC" else []
        lost += ["the header"] if info.header else []
        lost += [f"the names of {column}" for column in info.names]
        return [f"CSV has no place for: {', '.join(lost)}"] if lost else []
    said = []
    lost = [name for name in trace.names if (name not in COLUMNS or not COLUMNS[name].swf) and _is_known(trace, name)]
    if lost:
        said.append(f"SWF has no field for: {', '.join(lost)}")
    named = [name for name in trace.names if name not in lost and name != "status" and _has_text(trace, name)]
    if named:
        said.append(f"SWF has numbers for names: {', '.join(named)}")
    return said


def _is_known(trace: Trace, name: str) -> bool:
    values = trace.column(name)
    if isinstance(values, np.ndarray):
        return values.dtype.kind != "f" or bool((~np.isnan(values)).any())
    return bool(values.is_known().any())


def _has_text(trace: Trace, name: str) -> bool:
    values = trace.column(name)
    if isinstance(values, np.ndarray):
        return values.dtype.kind == "U"
    return any(isinstance(value, str) for value in values.categories)
