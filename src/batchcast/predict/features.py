# SPDX-License-Identifier: Apache-2.0
"""What regressions share.

Names and numbers as the numbers they take, the hour as a point on a circle, and when to refit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..columns import DECLARED
from ..job import JobRequest

DAY = 86400.0
ABSURD = 1e9


def size_and_hour(job: JobRequest, offset: float = 0.0) -> tuple[float, float, float]:
    """Processors, and sine and cosine of the hour of submission; `offset` is the zone's, in seconds.

    Processors are NaN where unknown or absurd (a thousand million and more).

    >>> size_and_hour(JobRequest(0, 1, 21600.0, 8.0, float("nan"), float("nan")))[:2]
    (8.0, 1.0)
    """
    angle = 2.0 * math.pi * (((job.submit_time + offset) % DAY) / DAY)
    procs = job.procs if 0 < job.procs < ABSURD else math.nan
    return procs, math.sin(angle), math.cos(angle)


LARGEST = 1e30  # what single precision holds, since trees compare in it


@dataclass(frozen=True, slots=True)
class Numbers:
    """How rows become numbers: categories of the names, and what stands for an unknown value.

    A column is one of names when columns.py declares it so or a row that teaches holds text. Its categories are
    numbered in sorted order, numbers before text; unknown and never seen ones are unknown.

    >>> Numbers.of(("user_id", "procs"), [("b", 4.0), ("a", None)]).table([("a", 2.0), ("c", None)]).tolist()
    [[0.0, 2.0], [nan, nan]]
    """

    codes: tuple[dict[Any, int] | None, ...]
    instead: np.ndarray

    @classmethod
    def of(cls, names: Sequence[str], rows: Sequence[Sequence[Any]], with_unknown: bool = True) -> Numbers:
        """From the rows that teach; unless `with_unknown`, the mean of a column stands for its unknown values."""
        codes = tuple(
            numbered_categories(column) if _is_of_names(name, column) else None
            for name, column in zip(names, zip(*rows))
        )
        plain = cls(codes, np.full(len(names), math.nan))
        if with_unknown:
            return plain
        table = plain.table(rows)
        known = ~np.isnan(table)
        means = np.where(known, table, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        return cls(codes, means)

    def table(self, rows: Sequence[Sequence[Any]]) -> np.ndarray:
        """Rows as numbers, (rows, columns), float64, finite or NaN."""
        numbers = [
            [_number(value) if codes is None else codes.get(value, math.nan) for value, codes in zip(row, self.codes)]
            for row in rows
        ]
        table = np.clip(np.array(numbers, dtype=float).reshape(len(rows), len(self.codes)), -LARGEST, LARGEST)
        return np.where(np.isnan(table), self.instead, table)


def numbered_categories(values: Sequence[Any]) -> dict[Any, int]:
    """The distinct known values, numbered from 0 in sorted order, numbers before text.

    >>> numbered_categories(["b", 7, None, "a", 7])
    {7: 0, 'a': 1, 'b': 2}
    """
    known = {value for value in values if value is not None}
    return {value: code for code, value in enumerate(sorted(known, key=lambda v: (isinstance(v, str), v)))}


def _is_of_names(name: str, column: Sequence[Any]) -> bool:
    declared = DECLARED.get(name)
    return (declared is not None and declared.kind == "nominal") or any(isinstance(value, str) for value in column)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else math.nan


class Warming:
    """Due after 100, 200, 400, ... submissions until the gap has grown to `every`, then every `every`.

    A clock asks every `cadence` submissions; `due` says whether this is one.

    >>> pace = Warming(300)
    >>> [n for n in range(100, 1500, pace.cadence) if pace.due(n)]
    [100, 200, 400, 700, 1000, 1300]
    """

    FIRST = 100

    def __init__(self, every: int) -> None:
        if every < 1:
            raise ValueError("every is at least 1 job")
        self.every = every
        self.cadence = self.next = min(self.FIRST, every)

    def due(self, submitted: int) -> bool:
        """Whether to refit now; moves on to the next time if so."""
        if submitted < self.next:
            return False
        self.next = submitted + min(submitted, self.every)
        return True
