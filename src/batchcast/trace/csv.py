"""Write a trace as CSV: our columns by name, unknown left empty; the file is whole or not there."""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path

from ..table import Nominal, Trace


def write_csv(trace: Trace, path: str | Path) -> None:
    """One line a job, the header our column names; whole seconds as whole numbers, times as epoch seconds.

    `submit_time` and `eligible_time` are moved by the log's UnixStartTime, so that a date means the same everywhere.
    Written beside and renamed. O(rows). OSError as the system gives it.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    columns = [_texts(trace, name) for name in trace.names]
    try:
        with beside.open("w", newline="", encoding="utf-8") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(trace.names)
            writer.writerows(zip(*columns))
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _texts(trace: Trace, name: str) -> list[str]:
    values = trace.column(name)
    if isinstance(values, Nominal):
        return ["" if value is None else str(value) for value in values.decode()]
    if values.dtype.kind != "f":
        return [str(value) for value in values.tolist()]
    shift = trace.info.unix_start if name in ("submit_time", "eligible_time") else 0.0
    return [_text(value + shift) for value in values.tolist()]


def _text(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return ""
    return str(int(value)) if value == int(value) else repr(value)
