# SPDX-License-Identifier: Apache-2.0
"""Write a log as SWF, CSV, Parquet or Batsim workload, plain or compressed; the ending of the file's name decides.

A file is written completely or not at all. `not_carried` says in advance which data a format cannot hold.
"""

from __future__ import annotations

import csv
import gzip
import lzma
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..columns import COLUMNS
from ..errors import InputError, UsageError
from ..formats.csv.own import header_and_texts
from ..formats.swf import write_chunks
from ..table import Trace
from ..table.columns import is_known
from ..units import counted
from .parquet import write_folder, write_parquet
from .whole_file import whole_file

_FORMULA = re.compile(r"[=+\-@\t\r]")


def write_csv(trace: Trace, path: str | Path, *, mark_formulas: bool = False) -> None:
    """Write a log as batchcast's CSV; `mark_formulas` puts a ' before texts that a spreadsheet reads as formulas."""
    # There is one line per job. `submit_time` and `eligible_time` are epoch seconds, so that dates do not depend on the
    # log's clock.
    names, columns = header_and_texts(trace)
    if mark_formulas:
        is_number = [getattr(trace.column(name), "dtype", np.dtype(object)).kind == "f" for name in trace.names]
        columns = [texts if plain else _marked(texts) for texts, plain in zip(columns, is_number)]
        names = _marked(names)
    write_columns(path, names, columns)


def _marked(texts: Iterable[str]) -> list[str]:
    """Return the texts with a ' before each text that a spreadsheet would take for a formula."""
    return [f"'{text}" if _FORMULA.match(text) else text for text in texts]


def write_columns(path: str | Path, names: Sequence[str], columns: Iterable[Iterable[object]]) -> None:
    """Write columns of equal length as CSV with a header; `-` is standard output."""
    with nullcontext(sys.stdout) if str(path) == STDOUT else _text_file(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(zip(*columns))


@contextmanager
def _text_file(path: str | Path) -> Iterator[IO[str]]:
    """A context manager with a text file, which is written under a temporary name and renamed."""
    with whole_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as out:
        yield out


def jobs_written(trace: Trace, kind: str) -> int:
    """Return how many of a log's jobs a format can represent; Batsim needs processors and a run time for each job."""
    return len(trace) if kind != "batsim" else int(((trace.procs() > 0) & (trace.run_time >= 0)).sum())


def not_carried(trace: Trace, kind: str) -> list[str]:
    """Describe which data of a log a format cannot represent; empty for Parquet.

    >>> not_carried(Trace.from_arrays({"submit_time": [0], "qos": ["high"], "user_id": ["ada"]}), "swf")
    ['SWF has no field for: qos', 'SWF has numbers instead of names for: user_id']
    """
    if kind in ("parquet", "folder"):
        return []
    if kind == "batsim":
        kept = ("job_id", "submit_time", "run_time", "alloc_procs", "req_procs", "req_time")
        lost = [name for name in trace.names if name not in kept and _is_known(trace, name)]
        without = len(trace) - jobs_written(trace, kind)
        sentences = [f"Batsim's workloads have no field for: {', '.join(lost)}"] if lost else []
        sentences += [f"left out: {counted(without)} without processors or a run time"] if without else []
        if instant := int(((trace.procs() > 0) & (trace.run_time == 0)).sum()):
            why = "written as 0.001 s, because Batsim needs more than 0"
            sentences.append(f"{counted(instant)} with a run time of 0 s: {why}")
        if twice := len(trace) - len(set(trace.job_id.tolist())):
            sentences.append(f"{counted(twice)} with a repeated id: written as ID~2, because Batsim needs unique ids")
        return sentences
    if kind == "csv":
        info, lost = trace.info, []
        lost += ["the machine's size"] if info.max_procs > 0 or info.max_nodes > 0 else []
        lost += ["the time zone"] if info.timezone != "UTC" else []
        lost += ["the header"] if info.header else []
        lost += [f"the names of {column}" for column in info.names]
        return [f"CSV has no field for: {', '.join(lost)}"] if lost else []
    lost = [name for name in trace.names if (name not in COLUMNS or not COLUMNS[name].swf) and _is_known(trace, name)]
    named = [name for name in trace.names if name not in lost and name != "status" and _has_text(trace, name)]
    sentences = [f"SWF has no field for: {', '.join(lost)}"] if lost else []
    return sentences + ([f"SWF has numbers instead of names for: {', '.join(named)}"] if named else [])


def _is_known(trace: Trace, name: str) -> bool:
    """Whether a column has a known value."""
    return bool(is_known(trace.column(name)).any())


def _has_text(trace: Trace, name: str) -> bool:
    values = trace.column(name)
    if isinstance(values, np.ndarray):
        return values.dtype.kind == "U"
    return any(isinstance(value, str) for value in values.categories)


STDOUT = "-"
ENDINGS = ".swf, .swf.gz, .swf.xz, .csv, .parquet, .json"
FOLDER = "folder"


def write_by_ending(trace: Trace, path: str | Path, kind: str | None = None, *, mark_formulas: bool = False) -> str:
    """Write a log in the format `kind`, by default that of the path's ending, and return the format."""
    kind = kind or kind_of(path)
    check_formulas(path, kind, mark_formulas)
    writers: dict[str, Callable[[Trace, str | Path], object]] = {
        "swf": write_trace,
        "csv": partial(write_csv, mark_formulas=mark_formulas),
        "parquet": write_parquet,
        FOLDER: lambda trace, path: write_folder([trace], path),
        "batsim": _write_batsim,
    }
    try:
        writers[kind](trace, path)
    except BrokenPipeError:
        raise  # the reader of standard output has closed the pipe, which is not an error of the file
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    return kind


def check_formulas(path: str | Path, kind: str, mark_formulas: bool) -> None:
    """Raise UsageError if formulas are to be marked in a format other than CSV, before long computations."""
    if mark_formulas and kind != "csv":
        raise UsageError(f"--mark-formulas is for CSV, but {path} is not CSV", hint="-o LOG.csv --mark-formulas")


def kind_of(path: str | Path) -> str:
    """Return the format that the ending of a path names. Call this function before long computations.

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


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write a log as SWF; with the ending `.gz` or `.xz` it is compressed.

    Compressed files contain no date, so the same log gives the same bytes. The file is written under a temporary name
    and renamed. OSErrors are raised.
    """
    with whole_file(path) as temporary, temporary.open("wb") as plain, _packed(plain, Path(path).suffix) as out:
        for text in write_chunks(trace):
            out.write(text.encode())


def _write_batsim(trace: Trace, path: str | Path) -> None:
    from ..formats.batsim import write_batsim_workload

    with _text_file(path) as out:
        out.writelines(write_batsim_workload(trace))


def _packed(plain: IO[bytes], suffix: str) -> Any:
    """Return the file, or a compressor that writes to it."""
    if suffix == ".gz":
        return gzip.GzipFile("", "wb", 9, plain, mtime=0)
    if suffix == ".xz":
        return lzma.LZMAFile(plain, "wb")
    return nullcontext(plain)
