"""Declared columns read from one job's fields as a batch system prints them: which reading a column needs. Pure.

`columns.ASKED` and `columns.HELD` say which columns there are and which field each is read from; here each unit has its
reading. A column that a batch system means in a way of its own is read by that system's module and handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from ..columns import Column
from ..units import parse_duration, parse_memory
from .sighting import Field
from .tres import parse_tres, tres_gpus


def read_fields(
    columns: Iterable[Column],
    record: Mapping[str, str],
    source: Literal["squeue", "sacct", "pbs"],
    own: Mapping[str, Field] | None = None,
) -> dict[str, Field]:
    """Every column by name; `own` holds those already read. Raises UsageError for a form that is none.

    >>> from batchcast.columns import COLUMNS
    >>> read_fields([COLUMNS["req_time"], COLUMNS["account"]], {"TimeLimit": "10:00", "Account": ""}, "squeue")
    {'req_time': 600.0, 'account': None}
    """
    given = own or {}
    return {
        c.name: given[c.name] if c.name in given else _read(c, record.get(getattr(c, source) or "", ""))
        for c in columns
    }


def _read(column: Column, text: str) -> Field:
    if column.kind != "number":
        return text or None
    return _READ.get(column.unit, number)(text)


def number(text: str) -> float:
    """A count, with Slurm's K and M thousands (squeue shortens large ones); NaN when it is none.

    >>> number("16"), number("2K"), number("1-4")
    (16.0, 2000.0, 1.0)
    """
    word = text.strip().partition("-")[0]  # NumNodes of a waiting job may be a range: at least the first
    scale = {"K": 1e3, "M": 1e6}.get(word[-1:].upper(), 1.0)
    digits = word[:-1] if scale != 1 else word
    return float(digits) * scale if digits.replace(".", "", 1).isdigit() and digits.isascii() else math.nan


def _memory(text: str) -> float:
    """Memory as an amount, or as the `mem` of a TRES string."""
    return parse_memory(parse_tres(text).get("mem", "") if "=" in text else text)


def _gpus(text: str) -> float:
    return tres_gpus(text) if "=" in text else number(text)


_READ: dict[str, Callable[[str], float]] = {"s": parse_duration, "KiB": _memory, "GPUs": _gpus}
