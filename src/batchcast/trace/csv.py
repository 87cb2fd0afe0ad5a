"""Write a trace as batchcast's own CSV (`formats.csv_own`); the file is whole or not there."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..formats.csv_own import header_and_texts
from ..table import Trace
from .whole_file import whole_file


def write_csv(trace: Trace, path: str | Path) -> None:
    """One line a job, the header our column names; whole seconds as whole numbers, times as epoch seconds.

    `submit_time` and `eligible_time` are moved by the log's UnixStartTime, so that a date means the same everywhere.
    Written beside and renamed. O(rows). OSError as the system gives it.
    """
    write_columns(path, *header_and_texts(trace))


def write_columns(path: str | Path, names: Sequence[str], columns: Iterable[Iterable[object]]) -> None:
    """Columns of equal length as CSV under a header, written beside and renamed. OSError as the system gives it."""
    with whole_file(path) as beside, beside.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(zip(*columns))
