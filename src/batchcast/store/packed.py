# SPDX-License-Identifier: Apache-2.0
"""Keeps rows of the table `jobs` in little memory, as columns of numbers and of codes for texts.

A dictionary of eleven values takes more than a kilobyte. In this module, a row takes 8 bytes per number and 4 bytes per
text, and each distinct text is stored once. The module does not import NumPy or SQLAlchemy, because short-lived
commands use it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

WORDS = frozenset({"user_id", "account", "partition_id", "job_name", "status", "gpu_type"})
"""The columns that have texts; all other columns have numbers."""


class _Rows(Sequence[Mapping[str, Any]]):
    """Rows of a `Packed` table, by their numbers in the table."""

    __slots__ = ("_rows", "_table")

    def __init__(self, table: Packed, rows: Sequence[int]) -> None:
        self._table, self._rows = table, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: Any) -> Any:
        chosen = self._rows[at]
        return _View(self._table, chosen) if isinstance(chosen, int) else [_View(self._table, k) for k in chosen]

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return (_View(self._table, k) for k in self._rows)


class Packed(_Rows):
    """Rows of the table `jobs` in their original order. `rows[k]["user_id"]` reads a cell.

    NULL is stored as NaN, which no column of a store contains.

    >>> rows = Packed([{"user_id": "ada", "end_time": 5.0}, {"user_id": None, "end_time": None}])
    >>> len(rows), rows[0]["user_id"], rows[1]["end_time"]
    (2, 'ada', None)
    >>> [(key, len(group)) for key, group in rows.grouped("user_id")]
    [(('ada',), 1), ((None,), 1)]
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._numbers: dict[str, array[float]] = {}
        self._codes: dict[str, array[int]] = {}
        length = 0
        codes_by_word: dict[str, dict[str | None, int]] = {}
        for row in rows:
            if not length:
                self._numbers = {name: array("d") for name in row if name not in WORDS}
                self._codes = {name: array("i") for name in row if name in WORDS}
                codes_by_word = {name: {} for name in self._codes}
            for name, column in self._numbers.items():
                value = row[name]
                column.append(math.nan if value is None else value)
            for name, codes in self._codes.items():
                word_codes = codes_by_word[name]
                codes.append(word_codes.setdefault(row[name], len(word_codes)))
            length += 1
        self._words = {name: list(word_codes) for name, word_codes in codes_by_word.items()}
        super().__init__(self, range(length))

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [*self._numbers, *self._codes]

    def value(self, name: str, k: int) -> Any:
        """Return one cell."""
        if name in self._codes:
            return self._words[name][self._codes[name][k]]
        number = self._numbers[name][k]
        return None if number != number else number

    def grouped(self, *names: str) -> Iterator[tuple[tuple[str | None, ...], Sequence[Mapping[str, Any]]]]:
        """Yield the values and the rows of each group of rows with equal values in the text columns `names`."""
        # O(n log n). A group only stores a range of a shared list of row numbers. Groups come in the order of first
        # appearance.
        columns = [self._codes[name] for name in names] if self else []
        key: Any = columns[0].__getitem__ if len(columns) == 1 else lambda k: tuple(column[k] for column in columns)
        order, begin = array("l", sorted(self._rows, key=key)), 0
        for _, group in groupby(order, key):
            end = begin + len(list(group))
            yield tuple(self.value(name, order[begin]) for name in names), _Rows(self, memoryview(order)[begin:end])
            begin = end


class _View(Mapping[str, Any]):
    """One row of a `Packed` table."""

    __slots__ = ("_k", "_table")

    def __init__(self, table: Packed, k: int) -> None:
        self._table, self._k = table, k

    def __getitem__(self, name: str) -> Any:
        return self._table.value(name, self._k)

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.names)

    def __len__(self) -> int:
        return len(self._table.names)
