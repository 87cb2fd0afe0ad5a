# SPDX-License-Identifier: Apache-2.0
"""What readers share: text as Unix writes it, columns that grow block by block, and what was wrong with lines.

Whole numbers are dictionary-coded without sorting where the range allows it. Problems are counted by kind, the first of
each kind kept as an example; strict stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from ..columns import COLUMNS
from ..errors import input_error
from ..table import Nominal, Values


class Problems:
    """Counts of dropped lines and of values read as unknown, with the first example of each kind.

    With `strict` the first of either raises InputError that names file, line and value.
    """

    __slots__ = ("_dropped", "_examples", "_source", "_strict", "_unknown")

    def __init__(self, source: str, strict: bool = False) -> None:
        self._source = source
        self._strict = strict
        self._dropped: dict[str, int] = {}
        self._unknown: dict[str, int] = {}
        self._examples: dict[str, str] = {}

    @property
    def dropped(self) -> int:
        """How many lines were left out."""
        return sum(self._dropped.values())

    def drop(self, line: int, what: str, value: object, *, where: str = "") -> None:
        """A line that holds no usable record; `where` makes the example clearer but not the kind finer."""
        self._note(self._dropped, line, what, value, where)

    def unknown(self, line: int, what: str, value: object) -> None:
        """A value that is read as unknown; its record stays."""
        self._note(self._unknown, line, what, value, "")

    def counts(self) -> dict[str, int]:
        """Dropped lines by reason."""
        return {f"broken line: {what}": count for what, count in self._dropped.items()}

    def notes(self) -> list[str]:
        """A sentence for each kind, with its first example."""
        lines = [f"{n} lines left out: {what} (first: {self._examples[what]})" for what, n in self._dropped.items()]
        return lines + [f"{n} values of {what} (first: {self._examples[what]})" for what, n in self._unknown.items()]

    def because(self) -> str:
        """The most frequent reason for dropped lines, to end a message with; empty when nothing was dropped."""
        if not self._dropped:
            return ""
        what = max(self._dropped, key=lambda kind: self._dropped[kind])
        return f"; {self.dropped} lines are broken, most often: {what} (first: {self._examples[what]})"

    def _note(self, into: dict[str, int], line: int, what: str, value: object, where: str) -> None:
        if self._strict:
            raise input_error(
                self._source,
                f"{where}: {what}" if where else what,
                line=line,
                value=value,
                hint="without --strict such lines are counted and the rest is read",
            )
        into[what] = into.get(what, 0) + 1
        if what not in self._examples:
            self._examples[what] = f"line {line}{', ' + where if where else ''}: {str(value)[:60]!r}"


BOM = b"\xef\xbb\xbf"


def unix_text(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The blocks without a UTF-8 byte order mark; where lines end in CR alone (old Macs, some exports), in LF.

    A text is taken for one of CR lines when its first block has carriage returns and no newline at all; otherwise
    carriage returns stay as they are (`\\r\\n` is every reader's own matter). O(bytes).

    >>> list(unix_text([b"\\xef\\xbb\\xbfa\\rb", b"\\rc"])), list(unix_text([b"a\\r\\nb"]))
    ([b'a\\nb', b'\\nc'], [b'a\\r\\nb'])
    """
    rest = iter(blocks)
    first = next(rest, b"").removeprefix(BOM)
    ends_in_cr = b"\n" not in first and b"\r" in first.rstrip(b"\r")
    yield first.replace(b"\r", b"\n") if ends_in_cr else first
    for block in rest:
        yield block.replace(b"\r", b"\n") if ends_in_cr else block


class GrowingColumn:
    """One column that grows piece by piece in place; until something is known it costs nothing.

    `add` copies; `join` hands the whole column over, or None when every piece was unknown. It grows by realloc, a
    third at a time, so a log in memory is never held twice. Whole numbers are int32 while they fit.
    """

    __slots__ = ("_length", "_unknown", "_values")

    def __init__(self, unknown: float) -> None:
        self._values: np.ndarray | None = None
        self._length = 0
        self._unknown = unknown

    def add(self, piece: np.ndarray) -> None:
        """Append the values, which may lie in a buffer that is used again."""
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
        """The whole column, or None when it holds nothing known; the column is empty afterwards."""
        values, self._values = self._values, None
        if values is None:
            return None
        values.resize(self._length, refcheck=False)
        return values


def encode_whole(values: np.ndarray) -> Nominal:
    """Dictionary-code whole numbers, negative ones being null. O(n + range), O(n log n) where the range is wide.

    >>> encode_whole(np.array([7, -1, 3, 7]))
    Nominal(codes=array([ 1, -1,  0,  1], dtype=int32), categories=(3, 7))
    """
    known = values >= 0
    top = int(values.max(initial=-1))
    if top <= 4 * len(values) + 65536:
        present = np.zeros(top + 2, dtype=bool)
        present[values] = True  # -1 marks the spare last place
        present[-1] = False
        code = np.cumsum(present, dtype=np.int32) - 1
        code[-1] = -1
        return Nominal(code[values], tuple(np.flatnonzero(present).tolist()))
    codes = np.full(len(values), -1, dtype=np.int32)
    names, inverse = np.unique(values[known], return_inverse=True)
    codes[known] = inverse
    return Nominal(codes, tuple(names.tolist()))


def as_ids(texts: Sequence[str]) -> np.ndarray:
    """Job ids as whole numbers, or as text when one is not plainly a number (12_3, 12+1)."""
    if all(text.isdecimal() and len(text) < 19 for text in texts):
        return np.array([int(text) for text in texts], dtype=np.int64)
    return np.array(texts, dtype=str)


def join_ids(pieces: Sequence[np.ndarray]) -> np.ndarray:
    """Pieces of job ids as one column: whole numbers if all are, else text."""
    if all(piece.dtype.kind == "i" for piece in pieces):
        return np.concatenate(pieces)
    return np.concatenate([piece.astype(str) for piece in pieces])


def in_house_order(columns: Mapping[str, Values]) -> dict[str, Values]:
    """Columns in the order of `columns.COLUMNS`, extra ones behind."""
    known = {name: columns[name] for name in COLUMNS if name in columns}
    return known | {name: values for name, values in columns.items() if name not in known}


def sorted_nominal(codes: np.ndarray, names: Mapping[str, int]) -> Nominal:
    """Codes in order of appearance as codes of sorted categories."""
    ordered = sorted(names)
    new = np.full(len(names) + 1, -1, dtype=np.int32)
    new[[names[name] for name in ordered]] = np.arange(len(ordered), dtype=np.int32)
    return Nominal(new[codes], tuple(ordered))


def whole_texts(blocks: Iterable[bytes]) -> Iterator[str]:
    """The text in pieces of whole lines, each without its last newline."""
    rest: list[bytes] = []
    for block in unix_text(blocks):
        cut = block.rfind(b"\n")
        if cut < 0:
            rest.append(block)
            continue
        yield b"".join([*rest, block[:cut]]).decode("utf-8", "replace")
        rest = [block[cut + 1 :]]
    if last := b"".join(rest):
        yield last.decode("utf-8", "replace")
