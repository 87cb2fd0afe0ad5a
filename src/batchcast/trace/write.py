# SPDX-License-Identifier: Apache-2.0
"""Write a trace as SWF, CSV or Parquet, plain or packed by the name's ending, whole or not there.

What a format has no place for is said before it is missed.
"""

from __future__ import annotations

import csv
import gzip
import lzma
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..columns import COLUMNS
from ..errors import InputError, UsageError
from ..formats.csv.own import header_and_texts
from ..formats.swf_text import write_chunks
from ..table import Trace
from ..units import counted
from .parquet import write_folder, write_parquet
from .whole_file import whole_file

_FORMULA = re.compile(r"[=+\-@\t\r]")


def write_csv(trace: Trace, path: str | Path, *, mark_formulas: bool = False) -> None:
    """One line a job, the header our column names; whole seconds as whole numbers, times as epoch seconds.

    `submit_time` and `eligible_time` are moved by the log's UnixStartTime, so that a date means the same everywhere.
    Written beside and renamed. O(rows). OSError as the system gives it. With `mark_formulas` a text that a spreadsheet
    would take for a formula (it begins with =, +, -, @, a tab or a carriage return) gets a ' in front, which stays
    there when the file is read again.
    """
    names, columns = header_and_texts(trace)
    if mark_formulas:
        is_number = [getattr(trace.column(name), "dtype", np.dtype(object)).kind == "f" for name in trace.names]
        columns = [texts if plain else _marked(texts) for texts, plain in zip(columns, is_number)]
        names = _marked(names)
    write_columns(path, names, columns)


def _marked(texts: Iterable[str]) -> list[str]:
    """The texts, with a ' before each that a spreadsheet would take for a formula."""
    return [f"'{text}" if _FORMULA.match(text) else text for text in texts]


def write_columns(path: str | Path, names: Sequence[str], columns: Iterable[Iterable[object]]) -> None:
    """Columns of equal length as CSV under a header, whole or not there; `-` is stdout. OSErrors pass."""
    if str(path) == STDOUT:
        return _write_rows(sys.stdout, names, columns)
    with whole_file(path) as beside, beside.open("w", newline="", encoding="utf-8") as out:
        _write_rows(out, names, columns)


def _write_rows(out: IO[str], names: Sequence[str], columns: Iterable[Iterable[object]]) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns))


def jobs_written(trace: Trace, kind: str) -> int:
    """How many of the jobs a format takes: Batsim's runs those with processors and a run time alone."""
    return len(trace) if kind != "batsim" else int(((trace.procs() > 0) & (trace.run_time >= 0)).sum())


def not_carried(trace: Trace, kind: str) -> list[str]:
    """What of this trace a format cannot hold, in sentences; nothing for Parquet.

    >>> not_carried(Trace.from_arrays({"submit_time": [0], "qos": ["high"], "user_id": ["ada"]}), "swf")
    ['SWF has no field for: qos', 'SWF has numbers for names: user_id']
    """
    if kind in ("parquet", "folder"):
        return []
    if kind == "batsim":
        kept = ("job_id", "submit_time", "run_time", "alloc_procs", "req_procs", "req_time")
        lost = [name for name in trace.names if name not in kept and _is_known(trace, name)]
        without = len(trace) - jobs_written(trace, kind)
        said = [f"Batsim's workloads have no place for: {', '.join(lost)}"] if lost else []
        said += [f"left out: {counted(without)} without processors or a run time"] if without else []
        instant = int(((trace.procs() > 0) & (trace.run_time == 0)).sum())
        said += [f"{counted(instant)} of 0 s: .001 s there, for Batsim stops at a delay of 0"] if instant else []
        twice = len(trace) - len(set(trace.job_id.tolist()))
        return said + ([f"{counted(twice)} with another's id: named ID~2, for Batsim takes each once"] if twice else [])
    if kind == "csv":
        info, lost = trace.info, []
        lost += ["the machine's size"] if info.max_procs > 0 or info.max_nodes > 0 else []
        lost += ["the time zone"] if info.timezone != "UTC" else []
        lost += ["the header"] if info.header else []
        lost += [f"the names of {column}" for column in info.names]
        return [f"CSV has no place for: {', '.join(lost)}"] if lost else []
    sentences = []
    lost = [name for name in trace.names if (name not in COLUMNS or not COLUMNS[name].swf) and _is_known(trace, name)]
    if lost:
        sentences.append(f"SWF has no field for: {', '.join(lost)}")
    named = [name for name in trace.names if name not in lost and name != "status" and _has_text(trace, name)]
    if named:
        sentences.append(f"SWF has numbers for names: {', '.join(named)}")
    return sentences


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


STDOUT = "-"
ENDINGS = ".swf, .swf.gz, .swf.xz, .csv, .parquet, .json"
FOLDER = "folder"


def write_by_ending(trace: Trace, path: str | Path, kind: str | None = None, *, mark_formulas: bool = False) -> str:
    """Write at `path` in the format of its ending, and say which; UsageError when it names none, InputError when the
    file cannot be written."""
    kind = kind or kind_of(path)
    check_formulas(path, kind, mark_formulas)
    writers: dict[str, Callable[[Trace, str | Path], object]] = {
        "swf": write_trace,
        "csv": partial(write_csv, mark_formulas=mark_formulas),
        "parquet": write_parquet,
        FOLDER: _write_whole,
        "batsim": _write_batsim,
    }
    try:
        writers[kind](trace, path)
    except BrokenPipeError:
        raise  # who reads stdout has enough
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    return kind


def check_formulas(path: str | Path, kind: str, mark_formulas: bool) -> None:
    """UsageError if formulas are to be marked in a format that no spreadsheet reads as text: asked before the work."""
    if mark_formulas and kind != "csv":
        raise UsageError(f"--mark-formulas is for CSV, and {path} is none", hint="-o LOG.csv --mark-formulas")


def kind_of(path: str | Path) -> str:
    """The format an ending names; UsageError when it names none: asked before the work, not after it.

    A name without any ending, or with a `/` behind it, is a folder of Parquet by month (`trace.parquet`); `-` is CSV on
    stdout.

    >>> kind_of("a/log.swf.gz"), kind_of("LOG.CSV"), kind_of("years/"), kind_of("-"), kind_of("log.json")
    ('swf', 'csv', 'folder', 'csv', 'batsim')
    """
    name = str(path).lower()
    if name == STDOUT:
        return "csv"
    if name.endswith("/") or not Path(name).suffix:
        return FOLDER
    for ending in ENDINGS.split(", "):
        if name.endswith(ending):
            return "batsim" if ending == ".json" else ending.split(".")[1]
    raise UsageError(f"{path}: its ending names no format (accepted: {ENDINGS}, none: a folder, -: CSV on stdout)")


def _write_whole(trace: Trace, path: str | Path) -> None:
    write_folder([trace], path)


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write SWF at `path`; `.gz` and `.xz` are packed (without a date: the same trace gives the same bytes).

    Written beside and renamed, so that nobody sees half a log. OSError as the system gives it.
    """
    with whole_file(path) as beside, beside.open("wb") as plain, _packed(plain, Path(path).suffix) as out:
        for text in write_chunks(trace):
            out.write(text.encode())


def _write_batsim(trace: Trace, path: str | Path) -> None:
    """A workload of Batsim's."""
    from ..formats.batsim import write_batsim_workload

    with whole_file(path) as beside, beside.open("w", encoding="utf-8") as out:
        out.writelines(write_batsim_workload(trace))


def _packed(plain: IO[bytes], suffix: str) -> Any:
    """The file itself, or a packer in front of it."""
    if suffix == ".gz":
        return gzip.GzipFile("", "wb", 9, plain, mtime=0)
    if suffix == ".xz":
        return lzma.LZMAFile(plain, "wb")
    return nullcontext(plain)
