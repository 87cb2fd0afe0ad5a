"""Write a trace as an SWF log, plain or packed by the name's ending; the file is whole or not there."""

from __future__ import annotations

import gzip
import lzma
import os
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

from ..errors import UsageError
from ..formats.swf_write import write_chunks
from ..table import Trace
from .csv import write_csv
from .parquet import write_parquet

ENDINGS = ".swf, .swf.gz, .swf.xz, .csv, .parquet"


def write_by_ending(trace: Trace, path: str | Path) -> str:
    """Write at `path` in the format of its ending, and say which; UsageError when it names none."""
    name = str(path).lower()
    if name.endswith((".swf", ".swf.gz", ".swf.xz")):
        write_trace(trace, path)
        return "swf"
    if name.endswith(".csv"):
        write_csv(trace, path)
        return "csv"
    if name.endswith(".parquet"):
        write_parquet(trace, path)
        return "parquet"
    raise UsageError(f"{path}: its ending names no format (accepted: {ENDINGS})")


def check_ending(path: str | Path) -> None:
    """UsageError when the ending names no format: before the work, not after it."""
    if not str(path).lower().endswith(tuple(ENDINGS.split(", "))):
        raise UsageError(f"{path}: its ending names no format (accepted: {ENDINGS})")


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write SWF at `path`; `.gz` and `.xz` are packed (without a date: the same trace gives the same bytes).

    Written beside and renamed, so that nobody sees half a log. OSError as the system gives it.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with beside.open("wb") as plain, _packed(plain, target.suffix) as out:
            for text in write_chunks(trace):
                out.write(text.encode())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _packed(plain: IO[bytes], suffix: str) -> Any:
    """The file itself, or a packer in front of it."""
    if suffix == ".gz":
        return gzip.GzipFile("", "wb", 9, plain, mtime=0)
    if suffix == ".xz":
        return lzma.LZMAFile(plain, "wb")
    return nullcontext(plain)
