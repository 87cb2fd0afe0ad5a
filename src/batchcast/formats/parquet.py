# SPDX-License-Identifier: Apache-2.0
"""Read Parquet files: batchcast's own, and tables with the columns of `sacct`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, timedelta, tzinfo
from typing import Any

from ..ceilings import Ceilings
from ..errors import input_error
from ..table import Trace
from ..table.arrow import arrow, from_arrow
from ..units import format_duration, shortest


def looks_like(head: bytes) -> bool:
    """Whether a file begins as every Parquet file does."""
    return head.startswith(b"PAR1")


def read(blocks: Iterable[bytes], source: str = "(memory)", *, strict: bool = False, zone: tzinfo = UTC) -> Trace:
    """Read a log from the bytes of a Parquet file; checksums of pages are verified."""
    # A table with sacct's columns (JobID and Submit) is read as a sacct dump.
    data, (pa, pq) = b"".join(blocks), arrow()
    try:
        about = pq.ParquetFile(pa.BufferReader(data)).metadata
        Ceilings.set().check_records(source, about.num_rows)
        Ceilings.set().check_unpacked(source, 8.0 * about.num_rows * about.num_columns, len(data))
        table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError, TypeError, MemoryError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise input_error(source, f"is not a readable Parquet file ({reason})", hint="write the file again") from None
    names = [column.lower() for column in table.column_names]
    if "submit" in names and {"jobid", "jobidraw"} & set(names):
        from .slurm.sacct import read_sacct_columns

        texts = {column: [_text(value) for value in table[column].to_pylist()] for column in table.column_names}
        return read_sacct_columns(texts, source, strict=strict, zone=zone)
    trace = from_arrow(table, source)
    return trace.with_info(replace(trace.info, format="parquet"))


def _text(value: Any) -> str:
    """Return a value of a table as sacct would print it."""
    if value is None or value != value:
        return ""
    if isinstance(value, timedelta):
        return format_duration(value.total_seconds())
    if isinstance(value, date):
        return value.isoformat()
    return shortest(value)
