"""Write a trace as an SWF log, plain or packed by the name's ending; the file is whole or not there."""

from __future__ import annotations

import gzip
import lzma
import os
from pathlib import Path

from ..formats.swf_write import write_lines
from ..table import Trace


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write SWF at `path`; `.gz` and `.xz` are packed (without a date: the same trace gives the same bytes).

    Written beside and renamed, so that nobody sees half a log. OSError as the system gives it.
    """
    target = Path(path)
    text = "".join(f"{line}\n" for line in write_lines(trace)).encode()
    if target.suffix == ".gz":
        text = gzip.compress(text, 9, mtime=0)
    elif target.suffix == ".xz":
        text = lzma.compress(text)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_bytes(text)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
