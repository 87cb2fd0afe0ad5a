# SPDX-License-Identifier: Apache-2.0
"""Trace to and from Apache Parquet, as `table.arrow` holds it.

And every job's answer as a folder of Parquet files: whole or not there at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from ..errors import InputError, UsageError, input_error
from ..table import Trace
from ..table.arrow import arrow, from_arrow, to_arrow
from .whole_file import beside, whole_file


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


class Answers:
    """A context in which tables are added under names: `OUT/predictor=last_2/part-000.parquet`, as hive does.

    `keys` name the levels of the folder. The folder takes its place when the block ends well, else it is removed.
    Raises UsageError where something lies in that place already.
    """

    def __init__(self, path: str | Path, keys: Sequence[str]) -> None:
        self.place = Path(path)
        self.keys = keys
        self.parts: Counter[str] = Counter()
        self._open = ExitStack()
        if self.place.exists():
            raise UsageError(f"{self.place}: something is there already", hint="a folder that is not there yet")

    def __enter__(self) -> Self:
        arrow()
        self.under = self._open.enter_context(beside(self.place))
        try:
            self.under.mkdir(parents=True)
        except OSError as error:
            raise InputError(f"{self.place}: cannot be written ({error.strerror or error})") from None
        return self

    def add(self, names: Sequence[str], columns: Mapping[str, Any]) -> None:
        """One more file of arrays (n,) under these values of the keys."""
        pa, pq = arrow()
        name = "/".join(f"{key}={quote(value, safe='')}" for key, value in zip(self.keys, names))
        try:
            (self.under / name).mkdir(parents=True, exist_ok=True)
            file = self.under / name / f"part-{self.parts[name]:05d}.parquet"
            pq.write_table(pa.table(dict(columns)), file, compression="zstd")
        except OSError as error:
            raise InputError(f"{self.place}: cannot be written ({error.strerror or error})") from None
        self.parts[name] += 1

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._open:
            if kind is None:
                self.under.rename(self.place)
