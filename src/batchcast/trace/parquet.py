"""Trace to and from Apache Parquet, as `table.arrow` holds it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..errors import InputError, input_error
from ..table import Trace
from ..table.arrow import arrow, from_arrow, to_arrow
from .whole_file import whole_file


def write_parquet(trace: Trace, path: str | Path) -> None:
    """Writes a trace so that `read_parquet` gives it back: columns, extra columns, LogInfo; unknown becomes null.

    Names are dictionary-coded; where a column mixes whole numbers and text, they are stored as JSON words. The file is
    written beside its place and renamed. O(rows). Raises InputError without pyarrow.
    """
    _, pq = arrow()
    table = to_arrow(trace)
    try:
        with whole_file(path) as beside:
            pq.write_table(table, beside, compression="zstd", write_page_checksum=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None


def read_parquet(path: str | Path) -> Trace:
    """The trace of a Parquet file; see `parse_parquet`."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    return parse_parquet(data, str(path))


def parse_parquet(data: bytes, name: str) -> Trace:
    """The trace in a Parquet file's bytes, as `table.arrow.from_arrow` reads a table; checksums of pages are verified.

    Raises InputError for bytes that are no Parquet file, or a damaged one. O(rows).
    """
    pa, pq = arrow()
    try:
        table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError, TypeError, MemoryError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise input_error(name, f"is not a readable Parquet file ({reason})", hint="write it again") from None
    trace = from_arrow(table, name)
    return trace.with_info(replace(trace.info, format="parquet"))
