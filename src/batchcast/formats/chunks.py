# SPDX-License-Identifier: Apache-2.0
"""Helpers that all readers share: line ends, growing columns, dictionary coding, and counts of broken lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np

from ..columns import COLUMNS
from ..errors import InputError, input_error
from ..table import Nominal, Values
from ..table.trace import join_ids


class Problems:
    """Counts dropped lines and values read as unknown, with the first example of each kind of problem. With `strict`,
    the first problem raises InputError with file, line and value."""

    __slots__ = ("_dropped", "_examples", "_source", "_strict", "_unknown")

    def __init__(self, source: str, strict: bool = False) -> None:
        self._source = source
        self._strict = strict
        self._dropped: dict[str, int] = {}
        self._unknown: dict[str, int] = {}
        self._examples: dict[str, str] = {}

    @property
    def dropped(self) -> int:
        """The total number of dropped lines."""
        return sum(self._dropped.values())

    def drop(self, line: int, problem: str, value: object, *, where: str = "") -> None:
        """Count a line that is not a usable record. `where` names the place of the line in the example; the place is
        not part of the reason."""
        self._note(self._dropped, line, problem, value, where)

    def unknown(self, line: int, problem: str, value: object) -> None:
        """Count a value that is read as unknown; the record of the value is kept."""
        self._note(self._unknown, line, problem, value, "")

    def unknown_at(self, rows: Iterable[int], lines: Sequence[int], problem: str, texts: Sequence[object]) -> None:
        """Count the values in some rows of a column, which are read as unknown."""
        for k in rows:
            self.unknown(lines[k], problem, texts[k])

    def without_negative(
        self, values: np.ndarray, lines: Sequence[int], problem: str, form: str = "{:.0f} s"
    ) -> np.ndarray:
        """Return the values with negative values replaced by NaN, and count the negative values."""
        for k in np.flatnonzero(values < 0).tolist():
            self.unknown(lines[k], problem, form.format(values[k]))
        return np.where(values < 0, np.nan, values)

    def counts(self) -> dict[str, int]:
        """Return the number of dropped lines by reason."""
        return {f"broken line: {what}": count for what, count in self._dropped.items()}

    def notes(self) -> list[str]:
        """Return one sentence for each kind of problem, with its first example."""
        lines = [f"{n} lines left out: {what} (first: {self._examples[what]})" for what, n in self._dropped.items()]
        return lines + [f"{n} values of {what} (first: {self._examples[what]})" for what, n in self._unknown.items()]

    def because(self) -> str:
        """Return the most frequent reason for dropped lines, as the end of a message; empty if no line was dropped."""
        if not self._dropped:
            return ""
        what = max(self._dropped, key=lambda kind: self._dropped[kind])
        return f"; {self.dropped} lines are broken, most often: {what} (first: {self._examples[what]})"

    def _note(self, into: dict[str, int], line: int, problem: str, value: object, where: str) -> None:
        """Count one problem of a line or value; raise InputError if strict."""
        if self._strict:
            hint = "without --strict, such lines are counted and the others are read"
            problem = f"{where}: {problem}" if where else problem
            raise input_error(self._source, problem, line=line, value=value, hint=hint)
        into[problem] = into.get(problem, 0) + 1
        if problem not in self._examples:
            self._examples[problem] = f"line {line}{', ' + where if where else ''}: {str(value)[:60]!r}"


@contextmanager
def json_errors(source: str, kind: str, hint: str) -> Iterator[None]:
    """A context in which an error of the json module becomes an InputError with the line; `kind`: what was expected."""
    try:
        yield
    except json.JSONDecodeError as error:
        what = "not JSON" if error.pos < len(error.doc.rstrip()) else "the JSON ends too early"
        raise InputError(f"{source}:{error.lineno}: {what}: {error.msg}", hint=hint) from None
    except ValueError as error:  # Python refuses integers of more than 4300 digits
        raise InputError(f"{source}: not JSON: {error}", hint=hint) from None
    except RecursionError:
        raise InputError(f"{source}: JSON nested too deep to be {kind}", hint=hint) from None


def load_json(text: str, source: str, kind: str, hint: str) -> Any:
    """Return the values of a JSON text; InputError if the text is not JSON."""
    with json_errors(source, kind, hint):
        return json.loads(text)


BOM = b"\xef\xbb\xbf"


def unix_text(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Remove a UTF-8 byte order mark, and convert line ends from CR to LF if the text has only CR.

    >>> list(unix_text([b"\\xef\\xbb\\xbfa\\rb", b"\\rc"])), list(unix_text([b"a\\r\\nb"]))
    ([b'a\\nb', b'\\nc'], [b'a\\r\\nb'])
    """
    # Old Macs and some exports end lines with CR alone. Only a text whose first block has a CR and no LF is converted.
    # Other texts keep their line ends, and the readers handle `\r\n`.
    rest = iter(blocks)
    first = next(rest, b"").removeprefix(BOM)
    ends_in_cr = b"\n" not in first and b"\r" in first.rstrip(b"\r")
    for block in chain([first], rest):
        yield block.replace(b"\r", b"\n") if ends_in_cr else block


class GrowingColumn:
    """A column of numbers that grows in place. It allocates no memory before the first known value."""

    # The array grows by a third with realloc, so that a log is never in memory twice. Whole numbers are stored as int32
    # if they fit.

    __slots__ = ("_length", "_unknown", "_values")

    def __init__(self, unknown: float) -> None:
        self._values: np.ndarray | None = None
        self._length = 0
        self._unknown = unknown

    def add(self, piece: np.ndarray) -> None:
        """Append a copy of the values."""
        begin, self._length = self._length, self._length + len(piece)
        if self._values is None:
            known = ~np.isnan(piece) if piece.dtype.kind == "f" else piece != self._unknown
            if not known.any():
                return
            dtype = np.int32 if piece.dtype.kind == "i" else piece.dtype
            self._values = np.full(self._length, self._unknown, dtype=dtype)
        if self._values.dtype == np.int32 and len(piece) and piece.max() >= 2**31:
            self._values = self._values.astype(np.int64)
        if len(self._values) < self._length:
            self._values.resize(self._length + self._length // 3, refcheck=False)
        self._values[begin : self._length] = piece

    def join(self) -> np.ndarray | None:
        """Return the whole column and empty this object; None if the column has no known value."""
        values, self._values = self._values, None
        if values is None:
            return None
        values.resize(self._length, refcheck=False)
        return values


class Codes(dict[str, int]):
    """Assigns consecutive integer codes to distinct names; texts that stand for no value get -1 (null)."""

    def __init__(self, meaning: Callable[[str], str | None]) -> None:
        self._meaning = meaning
        self.names: dict[str, int] = {}

    def __missing__(self, text: str) -> int:
        name = self._meaning(text)
        self[text] = code = -1 if name is None else self.names.setdefault(name, len(self.names))
        return code

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return the codes of texts, int32, shape (n,)."""
        return np.fromiter(map(self.__getitem__, texts), dtype=np.int32, count=len(texts))


class LogColumns:
    """The columns of a log, which grow batch by batch: job ids, numbers, and names as codes."""

    def __init__(self, words: dict[str, Codes]) -> None:
        self.words, self.jobs = words, 0
        self._columns: dict[str, GrowingColumn] = {}
        self._ids: list[np.ndarray] = []

    def add(self, ids: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
        """Append a batch of jobs. Every batch must have the same columns."""
        self._ids.append(ids)
        self.jobs += len(ids)
        for name, values in columns.items():
            self._columns.setdefault(name, GrowingColumn(-1 if name in self.words else np.nan)).add(values)

    def join(self) -> dict[str, Values]:
        """Return the columns that have a known value: job ids, numbers, then names. The object is empty afterwards."""
        columns: dict[str, Values] = {"job_id": join_ids(self._ids)}
        for name in sorted(self._columns, key=self.words.__contains__):
            if (values := self._columns[name].join()) is not None:
                names = list(self.words[name].names) if name in self.words else None
                columns[name] = values if names is None else Nominal.recode(values, names)
        return columns


def encode_whole(values: np.ndarray) -> Nominal:
    """Dictionary-code whole numbers; negative numbers are null.

    >>> encode_whole(np.array([7, -1, 3, 7]))
    Nominal(codes=array([ 1, -1,  0,  1], dtype=int32), categories=(3, 7))
    """
    # O(n + range), or O(n log n) if the range of the numbers is wide.
    known = values >= 0
    top = int(values.max(initial=-1))
    if top <= 4 * len(values) + 65536:
        present = np.zeros(top + 2, dtype=bool)
        present[values] = True  # the null code -1 indexes the additional last element
        present[-1] = False
        code = np.cumsum(present, dtype=np.int32) - 1
        code[-1] = -1
        return Nominal(code[values], tuple(np.flatnonzero(present).tolist()))
    codes = np.full(len(values), -1, dtype=np.int32)
    names, codes[known] = np.unique(values[known], return_inverse=True)
    return Nominal(codes, tuple(names.tolist()))


def as_ids(texts: Sequence[str]) -> np.ndarray:
    """Return job ids as whole numbers, or as text if one of them is not a plain number (12_3, 12+1)."""
    if all(text.isdecimal() and len(text) < 19 for text in texts):
        return np.array([int(text) for text in texts], dtype=np.int64)
    return np.array(texts, dtype=str)


def in_house_order(columns: Mapping[str, Values]) -> dict[str, Values]:
    """Return the columns in the order of `columns.COLUMNS`, with extra columns at the end."""
    return {name: columns[name] for name in COLUMNS if name in columns} | dict(columns)


def rows_of(
    rows: Sequence[int], columns: Iterable[Sequence[str]], lines: Sequence[int]
) -> tuple[list[Sequence[str]], list[int]]:
    """Return some rows of columns of text, and the line numbers of these rows."""
    return [[column[k] for k in rows] for column in columns], [lines[k] for k in rows]


def rows_where(is_wanted: Callable[[str], bool], texts: Sequence[str]) -> list[int]:
    """Return the rows whose texts pass a test, which is called once for each distinct text."""
    wanted = {text for text in set(texts) if is_wanted(text)}
    return [k for k, text in enumerate(texts) if text in wanted] if wanted else []


def whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text in pieces of whole lines. Only the last line of the text can lack a newline."""
    rest: list[bytes] = []
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if cut:
            yield b"".join([*rest, block[:cut]])
            rest.clear()
        rest.append(block[cut:])
    if last := b"".join(rest):
        yield last
