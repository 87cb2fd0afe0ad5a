# SPDX-License-Identifier: Apache-2.0
"""The Standard Workload Format (Chapin et al. 1999; Feitelson's version 2.2): text to Trace and back.

Eighteen fields a line, -1 for unknown, `;` before a header or comment. The -1 exists only in this file. Well-formed
lines are read by `scan`; every other line is read here again, slowly, so that it can be explained.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from ..columns import COLUMNS, SWF_FIELDS
from ..errors import input_error
from ..job import status_from_swf
from ..table import Nominal, Trace, Values, log_order
from .chunks import GrowingColumn, Problems, encode_whole
from .swf_text import SwfHeader

NAMED = tuple(name for name in SWF_FIELDS if COLUMNS[name].kind != "number")
NUMBERS = tuple(name for name in SWF_FIELDS if COLUMNS[name].kind == "number")
_PLACE = np.array([-1 - NAMED.index(n) if n in NAMED else NUMBERS.index(n) for n in SWF_FIELDS], dtype=np.int64)
_SHORTEST_LINE = 36  # eighteen digits, seventeen blanks, a newline
_ODD_CAPACITY = 4096
_WITHOUT_KERNEL = 100_000  # jobs: what a short log costs by numpy is less than loading numba for it
_PLAIN = np.zeros(256, dtype=bool)
_PLAIN[list(b"0123456789-. \t\r\n")] = True


def looks_like_swf(sample: bytes) -> bool:
    """Whether a text has the marks of SWF: a line of 18 numbers, or a `;` header with one of the known keys."""
    for line in sample.splitlines():
        text = line.strip()
        if text.startswith(b";"):
            if SwfHeader.is_known(text.decode("utf-8", "replace")):
                return True
        elif len(text.split()) >= len(SWF_FIELDS) and _all_numbers(text.split()):
            return True
    return False


def read_swf(blocks: Iterable[bytes], source: str = "(memory)", *, strict: bool = False) -> Trace:
    """The trace of an SWF text that comes in blocks of bytes; sorted, unknown as NaN or null.

    Columns that no record knows are not stored. A broken line is dropped and counted in `info.dropped`; a negative
    number other than -1, a NaN or an infinity is read as unknown and noted; with `strict` the first of either raises
    InputError, as does (always) a text without a single job. O(bytes); about a million lines a second.

    >>> line = b"1 10 5 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1"
    >>> trace = read_swf([b"; MaxProcs: 64 (of 128)\\n", line])
    >>> trace.info.max_procs, trace.run_time.tolist(), trace.nominal("user_id").decode()
    (64.0, [60.0], [7])
    """
    return next(swf_pieces(blocks, source, strict=strict))


def swf_pieces(
    blocks: Iterable[bytes], source: str = "(memory)", *, strict: bool = False, jobs: float = math.inf
) -> Iterator[Trace]:
    """The same text as traces of about `jobs` jobs each, for what is larger than memory: each is sorted in itself.

    Every piece says in its `info` what was dropped and noted of its own lines; what the header promises of the whole
    is said with the last.

    >>> line = b"1 10 5 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1\\n"
    >>> [len(piece) for piece in swf_pieces([line * 2, line], jobs=2)]
    [2, 1]
    """
    header, problems = SwfHeader(source), Problems(source, strict)
    reader, records = _Reader(header, problems), 0
    for data in _whole_lines(blocks):
        if reader.jobs >= jobs:
            records += reader.jobs + problems.dropped
            yield _piece(reader, header, problems)
            problems = reader.begin_anew(Problems(source, strict))
        reader.read(data)
    if records + reader.jobs == 0:
        raise input_error(source, "no job record in it" + problems.because(), hint="check that this is the whole log")
    yield _piece(reader, header, problems, records + reader.jobs + problems.dropped)


def _piece(reader: _Reader, header: SwfHeader, problems: Problems, records: int | None = None) -> Trace:
    """What the reader has gathered, which it gives away; `records` where the header's promises are to be judged."""
    joined = {name: column.join() for name, column in reader.columns.items()}
    kept = {name: values for name, values in joined.items() if values is not None}
    del joined
    kept = {"job_id": np.zeros(0, np.int64), "submit_time": np.zeros(0)} | kept
    return _as_trace(kept, header, problems, records)


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[np.ndarray]:
    """The text as arrays of whole lines; a last line without a newline gets one."""
    rest: list[bytes | memoryview] = []
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if cut:
            yield np.frombuffer(b"".join([*rest, memoryview(block)[:cut]]), dtype=np.uint8)
            rest.clear()
        rest.append(memoryview(block)[cut:])
    last = b"".join(rest)
    if last:
        yield np.frombuffer(last + b"\n", dtype=np.uint8)


class _Reader:
    """Scans arrays of lines into growing columns, its buffers used again and again."""

    def __init__(self, header: SwfHeader, problems: Problems) -> None:
        self._line = 1
        self._header = header
        self.begin_anew(problems)
        self._numbers = np.empty((len(NUMBERS), 0))
        self._names = np.empty((len(NAMED), 0), dtype=np.int64)
        self._odd = np.empty((_ODD_CAPACITY, 4), dtype=np.int64)

    def begin_anew(self, problems: Problems) -> Problems:
        """Nothing is gathered yet; what is wrong with the lines that follow is noted there."""
        self.columns = {name: GrowingColumn(-1 if name in NAMED else np.nan) for name in SWF_FIELDS}
        self.jobs = 0
        self._problems = problems
        return problems

    def read(self, data: np.ndarray) -> None:
        """Take in whole lines; by numpy alone while the log is short and no other kernel has brought numba in."""
        if self.jobs < _WITHOUT_KERNEL and not numba_is_loaded():
            data = data[self._take_header(data) :]
            rows = plain_rows(data)
            if rows is not None:
                for field, (name, column) in enumerate(self.columns.items()):
                    column.add(rows[field].astype(np.int64) if name in NAMED else rows[field])
                self.jobs += rows.shape[1]
                self._line += rows.shape[1]
                return
        self._scan(data)

    def _take_header(self, data: np.ndarray) -> int:
        """Read the comments at the beginning of `data`; returns where they end."""
        at = 0
        while at < len(data) and data[at] == ord(";"):
            end = at + int(np.argmax(data[at:] == ord("\n"))) + 1
            self._header.take(data[at:end].tobytes().decode("utf-8", "replace").strip())
            self._line += 1
            at = end
        return at

    def _scan(self, data: np.ndarray) -> None:
        """Take in whole lines by the compiled scanner, and explain those that it only points at."""
        from .scan import scan_lines  # numba, 0.4 s of start-up

        capacity = len(data) // _SHORTEST_LINE + 16
        if capacity > self._numbers.shape[1]:
            self._numbers = np.empty((len(NUMBERS), capacity))
            self._names = np.empty((len(NAMED), capacity), dtype=np.int64)
        at = 0
        while at < len(data):
            at, rows, odds, lines = scan_lines(data, at, _PLACE, self._numbers, self._names, self._odd)
            gone = self._look_closer(data, self._odd[:odds])
            self._line += lines
            for name, column in self.columns.items():
                k = NAMED.index(name) if name in NAMED else NUMBERS.index(name)
                values = self._names[k, :rows] if name in NAMED else self._numbers[k, :rows]
                column.add(np.delete(values, gone) if gone else values)
            self.jobs += rows - len(gone)

    def _look_closer(self, data: np.ndarray, odd: np.ndarray) -> list[int]:
        """Explain every line the scanner pointed at; returns the rows that must go."""
        gone: list[int] = []
        for begin, end, row, after in odd.tolist():
            text = data[begin:end].tobytes().decode("utf-8", "replace").strip()
            if row < 0:
                self._header.take(text)
                continue
            values = _parse_line(text, self._line + after, self._problems)
            if values is None:
                gone.append(row)
                continue
            for place, value in zip(_PLACE.tolist(), values):
                if place >= 0:
                    self._numbers[place, row] = value
                else:
                    self._names[-place - 1, row] = -1 if math.isnan(value) else int(value)
        return gone


def numba_is_loaded() -> bool:
    """Whether some other kernel has brought numba in, so that the compiled scanner costs next to nothing."""
    return "numba" in sys.modules


def plain_rows(data: np.ndarray) -> np.ndarray | None:
    """The fields of `data` (uint8, whole lines), a row a field, unknown as NaN; None unless every line is plain.

    A plain line has eighteen decimal numbers and nothing else: none negative but -1, whole ones of less than 16
    digits where a name is due, job number and submit time known. O(bytes), about a million lines a second.
    """
    if not _PLAIN[data].all():
        return None
    edges = np.flatnonzero(np.diff(data <= ord(" "), prepend=True, append=True))
    begins, ends = edges[::2], edges[1::2]
    fields = np.diff(np.searchsorted(begins, np.flatnonzero(data == ord("\n"))), prepend=0)
    if (fields != len(SWF_FIELDS)).any():
        return None
    flat = _decimals(data, begins, ends)
    if flat is None:
        return None
    values = flat.reshape(-1, len(SWF_FIELDS)).T
    named = values[[SWF_FIELDS.index(name) for name in NAMED]]
    if ((values < 0) & (values != -1)).any() or (values >= 1e15).any() or (named != np.floor(named)).any():
        return None
    if (values[[SWF_FIELDS.index("job_id"), SWF_FIELDS.index("submit_time")]] < 0).any():
        return None
    numbers = np.array([name not in NAMED for name in SWF_FIELDS])[:, None]
    return np.where(numbers & (values == -1), np.nan, values)


def _decimals(data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray | None:
    """The numbers that stand there, as float() reads them; None where one is no decimal number of up to 15 digits."""
    negative = data[begins] == ord("-")
    begins = begins + negative
    fractions = np.searchsorted(begins, np.flatnonzero(data == ord(".")), "right") - 1
    digits = ends - begins
    if (digits < 1).any() or (digits > 15).any() or np.count_nonzero(data == ord("-")) != np.count_nonzero(negative):
        return None
    ones = data - np.uint8(ord("0"))
    values: np.ndarray = ones[begins].astype(np.float64)
    longer = np.arange(len(begins))
    for place in range(1, int(digits.max(initial=1))):  # a digit at a time, of all that have so many
        longer = longer[digits[longer] > place]
        values[longer] = values[longer] * 10 + ones[begins[longer] + place]
    try:
        for k in fractions.tolist():
            values[k] = float(data[begins[k] : ends[k]].tobytes())
    except ValueError:  # "1.2.3", "."
        return None
    values[negative] *= -1.0
    return values


def _parse_line(text: str, line: int, problems: Problems) -> list[float] | None:
    """Eighteen numbers with NaN for unknown, or None (and the reason noted) for a line that is no job record."""
    words = text.split()
    if len(words) < len(SWF_FIELDS):
        problems.drop(line, f"{len(words)} fields instead of {len(SWF_FIELDS)}", text[:40])
        return None
    values: list[float] = []
    for field, (name, word) in enumerate(zip(SWF_FIELDS, words), start=1):
        try:
            value = math.nan if "_" in word else float(word)
        except ValueError:
            value = None
        if value is None or "_" in word:
            problems.drop(line, "a field is not a number", word, where=f"field {field} ({name})")
            return None
        if not _is_sound(name, value):
            early = name == "wait_time" and value < 0
            what = "wait (start before submission): negative" if early else f"{name}: not a number of its kind"
            problems.unknown(line, f"{what}, read as unknown", word)
            value = math.nan
        values.append(math.nan if value == -1 else value)
    for field, name in ((0, "job number"), (1, "submit time")):
        if math.isnan(values[field]):
            problems.drop(line, f"no {name}", words[field], where=f"field {field + 1}")
            return None
    return values


def _is_sound(name: str, value: float) -> bool:
    """Whether a number may stand in this field: known and not negative, or -1; a name is a whole number."""
    if not (value >= 0 or value == -1) or math.isinf(value):
        return False
    return name not in NAMED or (value == int(value) and value < 2**53)


def _all_numbers(words: list[bytes]) -> bool:
    try:
        return all(math.isfinite(float(word)) for word in words[: len(SWF_FIELDS)])
    except ValueError:
        return False


def _as_trace(kept: dict[str, np.ndarray], header: SwfHeader, problems: Problems, records: int | None) -> Trace:
    """Sort column by column (a log is never held twice), code the names, and say what was found."""
    ids = kept["job_id"].astype(np.int64, copy=False)
    kept["job_id"] = ids
    order = log_order(kept["submit_time"], ids)
    is_sorted = bool((order[1:] > order[:-1]).all())
    info = replace(header.info(), dropped=problems.counts(), memory_per="processor")
    columns: dict[str, Values] = {}
    for name in list(kept):
        values = kept.pop(name)
        values = values if is_sorted else values[order]
        if name == "status":
            columns[name] = _status_words(encode_whole(values))
        else:
            columns[name] = encode_whole(values) if name in NAMED and name != "job_id" else values
    notes = [*(header.notes(records) if records is not None else ()), *problems.notes()]
    if not is_sorted:
        notes.append("the records were not in order of submit time and job number: sorted")
    return Trace(columns, replace(info, notes=tuple(notes)), is_sorted=True)


def _status_words(numbers: Nominal) -> Nominal:
    """Codes of SWF's status numbers as codes of words, categories in sorted order."""
    words = [status_from_swf(int(number)) or "" for number in numbers.categories]
    ordered = sorted(words)
    new = np.array([*(ordered.index(word) for word in words), -1], dtype=np.int32)
    return Nominal(new[numbers.codes], tuple(ordered))
