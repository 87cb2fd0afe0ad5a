"""Write a trace as an SWF log, plain or packed by the name's ending; the file is whole or not there."""

from __future__ import annotations

import gzip
import lzma
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

from ..errors import InputError, UsageError
from ..formats.swf_write import write_chunks
from ..table import Trace
from .csv import write_csv
from .folder import write_folder
from .parquet import write_parquet
from .whole_file import whole_file

ENDINGS = ".swf, .swf.gz, .swf.xz, .csv, .parquet"
FOLDER = "folder"


def write_by_ending(trace: Trace, path: str | Path) -> str:
    """Write at `path` in the format of its ending, and say which; UsageError when it names none, InputError when the
    file cannot be written."""
    kind = kind_of(path)
    try:
        {"swf": write_trace, "csv": write_csv, "parquet": write_parquet, FOLDER: _write_whole}[kind](trace, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    return kind


def kind_of(path: str | Path) -> str:
    """The format an ending names; UsageError when it names none: asked before the work, not after it.

    A name without any ending, or with a `/` behind it, is a folder of Parquet by month (`trace.folder`).

    >>> kind_of("a/log.swf.gz"), kind_of("LOG.CSV"), kind_of("years/")
    ('swf', 'csv', 'folder')
    """
    name = str(path).lower()
    if name.endswith("/") or not Path(name).suffix:
        return FOLDER
    for ending in ENDINGS.split(", "):
        if name.endswith(ending):
            return ending.split(".")[1]
    raise UsageError(f"{path}: its ending names no format (accepted: {ENDINGS}, or none for a folder)")


def _write_whole(trace: Trace, path: str | Path) -> None:
    write_folder([trace], path)


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write SWF at `path`; `.gz` and `.xz` are packed (without a date: the same trace gives the same bytes).

    Written beside and renamed, so that nobody sees half a log. OSError as the system gives it.
    """
    with whole_file(path) as beside, beside.open("wb") as plain, _packed(plain, Path(path).suffix) as out:
        for text in write_chunks(trace):
            out.write(text.encode())


def _packed(plain: IO[bytes], suffix: str) -> Any:
    """The file itself, or a packer in front of it."""
    if suffix == ".gz":
        return gzip.GzipFile("", "wb", 9, plain, mtime=0)
    if suffix == ".xz":
        return lzma.LZMAFile(plain, "wb")
    return nullcontext(plain)
