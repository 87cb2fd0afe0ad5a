# SPDX-License-Identifier: Apache-2.0
"""Read and write the Standard Workload Format (SWF; Chapin et al. 1999, Feitelson's version 2.2).

A line has 18 fields with -1 for unknown; `;` begins a header line or a comment. Only this module uses -1 for unknown.
The compiled scanner (module `scan`) reads well-formed lines. Python code in this module reads all other lines, which is
slow but gives precise messages.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..columns import COLUMNS, SWF_FIELDS
from ..errors import input_error
from ..job import status_from_swf, status_to_swf
from ..table import LogInfo, Nominal, Trace
from ..table.columns import SORTED, in_log_order
from ..table.memory import share_of
from ..units import shortest
from .chunks import GrowingColumn, Problems, encode_whole, whole_lines

_LINE = re.compile(r";+\s*([A-Za-z][A-Za-z ]{0,30}?)\s*:\s*(.*)")
_NAME_COLUMNS = {"Queue": "queue_id", "Partition": "partition_id"}
_HEADER_KEYS = re.compile(
    r"Max[A-Z][a-z]+|UnixStartTime|TimeZone(String)?|StartTime|EndTime|(Queue|Partition)s?|Version|Computer|Installation"
    r"|Acknowledge|Information|Conversion|Preemption|AllowOveruse|Note"
)


class SwfHeader:
    """Collects SWF header lines and converts them to the provenance of a log.

    If a header key occurs several times, its first value is used. Only the first word of a value is read
    (`1664 (72, 1368, 224)` is 1664). A header value that cannot be read leads to a note, not to an error, because the
    records are still usable.

    >>> header = SwfHeader("a.swf")
    >>> for line in ["; MaxProcs: 64 (dual)", "; TimeZoneString: US/Pacific", "; Queue: 3 normal (18hr)"]:
    ...     header.take(line)
    >>> info = header.info(); info.max_procs, info.timezone, info.names
    (64.0, 'US/Pacific', {'queue_id': {3: 'normal (18hr)'}})
    """

    __slots__ = ("_source", "names", "values")

    def __init__(self, source: str) -> None:
        self._source = source
        self.values: dict[str, str] = {}
        self.names: dict[str, dict[int | str, str]] = {}

    def take(self, line: str) -> None:
        """Read one comment line, which may be a header line."""
        if (match := _LINE.match(line)) is None:
            return
        key, value = match[1], match[2].strip()
        if key not in _NAME_COLUMNS:
            self.values.setdefault(key, value)
        elif word := re.match(r"(\d+)[\s:=-]*(.*)", value):
            self.names.setdefault(_NAME_COLUMNS[key], {})[int(word[1])] = word[2].strip()

    def info(self) -> LogInfo:
        """Return the provenance. The log's time zone: the header's TimeZoneString, else its TimeZone (an offset in
        seconds), else UTC."""
        zone, zone_source = self._token("TimeZoneString"), "header TimeZoneString"
        if not zone:
            offset = self._number("TimeZone")
            zone, zone_source = ("UTC", "default") if math.isnan(offset) else (format_offset(offset), "header TimeZone")
        start, procs, nodes = map(self._number, ("UnixStartTime", "MaxProcs", "MaxNodes"))
        return LogInfo(
            source=self._source,
            format="swf",
            unix_start=start if start > 0 else 0.0,
            timezone=zone,
            timezone_source=zone_source,
            max_procs=procs if procs > 0 else math.nan,
            max_procs_source="header" if procs > 0 else "unknown",
            max_nodes=nodes if nodes > 0 else math.nan,
            header=dict(self.values),
            names={column: dict(names) for column, names in self.names.items()},
        )

    def notes(self, records: int) -> list[str]:
        """Return a sentence for each header value that cannot be right."""
        notes = [
            f"the header's {key} is not a number: {self.values[key][:40]!r}"
            for key in ("UnixStartTime", "TimeZone", "MaxProcs", "MaxNodes", "MaxRecords")
            if self._token(key) and math.isnan(self._number(key))
        ]
        if self._number("MaxProcs") == 0 or self._number("MaxProcs") < -1:
            notes.append(f"the header's MaxProcs is {self._token('MaxProcs')}: the size of the machine is unknown")
        promised = self._number("MaxRecords")
        if promised >= 0 and promised != records:
            notes.append(f"the header says that the log has {promised:.0f} records, but it has {records}")
        if "UnixStartTime" not in self.values or self._number("UnixStartTime") < 0:
            unknown = f"is {self._token('UnixStartTime')}" if "UnixStartTime" in self.values else "is missing"
            what = f"UnixStartTime {unknown}: the log's clock starts at 1970-01-01, so dates are not real"
            notes.append(f"the header's {what}")
        return notes

    def _token(self, key: str) -> str:
        """Return the first word of a header value; empty if the header lacks the key."""
        return next(iter(self.values.get(key, "").split()), "")

    def _number(self, key: str) -> float:
        """Return the first word of a header value as a number; NaN if the word is not a finite number."""
        try:
            value = float(self._token(key).rstrip(",;"))
        except ValueError:
            return math.nan
        return value if math.isfinite(value) else math.nan


def format_offset(seconds: float) -> str:
    """Format an offset from UTC, in seconds, as +HH:MM.

    >>> format_offset(-28800), format_offset(19800)
    ('-08:00', '+05:30')
    """
    minutes = round(abs(seconds) / 60)
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


NAME_FIELDS = tuple(name for name in SWF_FIELDS if COLUMNS[name].kind != "number")
NUMBER_FIELDS = tuple(name for name in SWF_FIELDS if COLUMNS[name].kind == "number")
_DESTINATIONS = np.array(
    [-1 - NAME_FIELDS.index(n) if n in NAME_FIELDS else NUMBER_FIELDS.index(n) for n in SWF_FIELDS], dtype=np.int64
)
_SHORTEST_LINE = 36  # bytes: eighteen digits, seventeen blanks, a newline
_ODD_CAPACITY = 4096
_WITHOUT_KERNEL = 100_000  # jobs; for shorter logs, parsing with NumPy is faster than loading numba
_PLAIN = np.zeros(256, dtype=bool)
_PLAIN[list(b"0123456789-. \t\r\n")] = True


def looks_like(head: bytes) -> bool:
    """Whether a text looks like SWF: a line of 18 numbers, or a header line with a known key."""
    for line in head.splitlines():
        text = line.strip()
        if text.startswith(b";"):
            if (match := _LINE.match(text.decode("utf-8", "replace"))) and _HEADER_KEYS.fullmatch(match[1]):
                return True
        elif len(text.split()) >= len(SWF_FIELDS) and _all_numbers(text.split()):
            return True
    return False


def read_swf(blocks: Iterable[bytes], source: str = "(memory)", *, strict: bool = False) -> Trace:
    """Read an SWF text as a sorted trace; unknown values are NaN or null, and columns without known values are absent.

    >>> line = b"1 10 5 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1"
    >>> trace = read_swf([b"; MaxProcs: 64 (of 128)\\n", line])
    >>> trace.info.max_procs, trace.run_time.tolist(), trace.nominal("user_id").decode()
    (64.0, [60.0], [7])
    """
    # Negative numbers other than -1, NaN and infinity are read as unknown and noted; `info.dropped` counts broken
    # lines.
    #
    # Speed is about a million lines per second.
    return next(read(blocks, source, strict=strict))


def read(
    blocks: Iterable[bytes], source: str = "(memory)", *, strict: bool = False, jobs: float = math.inf
) -> Iterator[Trace]:
    """Read an SWF text in pieces, for logs that do not fit into memory.

    >>> line = b"1 10 5 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1\\n"
    >>> [len(piece) for piece in read([line * 2, line], jobs=2)]
    [2, 1]
    """
    # The `info` of a piece describes the lines of the piece. The last piece also has the notes about the header.
    header, problems = SwfHeader(source), Problems(source, strict)
    reader, records = _Reader(header, problems), 0
    for lines in whole_lines(blocks):
        if reader.jobs >= jobs:
            records += reader.jobs + problems.dropped
            yield _piece(reader, header, problems)
            problems = reader.begin_anew(Problems(source, strict))
        reader.read(np.frombuffer(lines if lines.endswith(b"\n") else lines + b"\n", dtype=np.uint8))
    if records + reader.jobs == 0:
        what = "the file has no job record" + problems.because()
        raise input_error(source, what, hint="check that this is the whole log")
    yield _piece(reader, header, problems, records + reader.jobs + problems.dropped)


def _piece(reader: _Reader, header: SwfHeader, problems: Problems, records: int | None = None) -> Trace:
    """Return the jobs that the reader has gathered: sorted column by column (to save memory), names coded, with notes
    about problems. `records` is the total count if the header must be checked."""
    columns: Any = {"job_id": np.zeros(0, np.int64), "submit_time": np.zeros(0)}
    columns |= {name: values for name, column in reader.columns.items() if (values := column.join()) is not None}
    columns["job_id"] = columns["job_id"].astype(np.int64, copy=False)
    columns, is_sorted = in_log_order(columns)
    for name in (name for name in NAME_FIELDS if name in columns and name != "job_id"):
        columns[name] = encode_whole(columns[name])
    if "status" in columns:
        words = [status_from_swf(int(number)) or "" for number in columns["status"].categories]
        columns["status"] = Nominal.recode(columns["status"].codes, words)
    notes = [*(header.notes(records) if records is not None else ()), *problems.notes()]
    notes += [] if is_sorted else [SORTED]
    info = replace(header.info(), dropped=problems.counts(), memory_per="processor", notes=tuple(notes))
    return Trace(columns, info, is_sorted=True)


class _Reader:
    """Scans arrays of lines into growing columns, with buffers that are allocated once and reused."""

    def __init__(self, header: SwfHeader, problems: Problems) -> None:
        self._line = 1
        self._header = header
        self.begin_anew(problems)
        self._allocate(0)
        self._odd = np.empty((_ODD_CAPACITY, 4), dtype=np.int64)

    def _allocate(self, capacity: int) -> None:
        """Make the arrays to which the scanner writes; `_fields` has the row of each SWF field in these arrays."""
        self._numbers = np.empty((len(NUMBER_FIELDS), capacity))
        self._names = np.empty((len(NAME_FIELDS), capacity), dtype=np.int64)
        self._fields = [self._numbers[k] if k >= 0 else self._names[-k - 1] for k in _DESTINATIONS.tolist()]

    def begin_anew(self, problems: Problems) -> Problems:
        """Empty the columns, and report further problems to `problems`."""
        self.columns = {name: GrowingColumn(-1 if name in NAME_FIELDS else np.nan) for name in SWF_FIELDS}
        self.jobs = 0
        self._problems = problems
        return problems

    def read(self, data: np.ndarray) -> None:
        """Read whole lines: with NumPy while the log is short and numba is not loaded, else with the scanner."""
        if self.jobs < _WITHOUT_KERNEL and not numba_is_loaded():
            data = data[self._take_header(data) :]
            rows = plain_rows(data)
            if rows is not None:
                for field, (name, column) in enumerate(self.columns.items()):
                    column.add(rows[field].astype(np.int64) if name in NAME_FIELDS else rows[field])
                self.jobs += rows.shape[1]
                self._line += rows.shape[1]
                return
        self._scan(data)

    def _take_header(self, data: np.ndarray) -> int:
        """Read the comments at the beginning of `data` and return the position of their end."""
        at = 0
        while at < len(data) and data[at] == ord(";"):
            end = at + int(np.argmax(data[at:] == ord("\n"))) + 1
            self._header.take(data[at:end].tobytes().decode("utf-8", "replace").strip())
            self._line += 1
            at = end
        return at

    def _scan(self, data: np.ndarray) -> None:
        """Read whole lines with the compiled scanner, and lines that it reports with Python code."""
        from .scan import scan_lines  # imported in the function because loading numba takes 0.4 s

        capacity = len(data) // _SHORTEST_LINE + 16
        if capacity > self._numbers.shape[1]:
            self._allocate(capacity)
        at = 0
        while at < len(data):
            at, rows, odds, lines = scan_lines(data, at, _DESTINATIONS, self._numbers, self._names, self._odd)
            gone = self._look_closer(data, self._odd[:odds])
            self._line += lines
            for values, column in zip(self._fields, self.columns.values()):
                column.add(np.delete(values[:rows], gone) if gone else values[:rows])
            self.jobs += rows - len(gone)

    def _look_closer(self, data: np.ndarray, odd: np.ndarray) -> list[int]:
        """Read the lines that the scanner reported, and return the rows to drop."""
        dropped_rows: list[int] = []
        for begin, end, row, after in odd.tolist():
            text = data[begin:end].tobytes().decode("utf-8", "replace").strip()
            if row < 0:
                self._header.take(text)
                continue
            values = _parse_line(text, self._line + after, self._problems)
            if values is None:
                dropped_rows.append(row)
                continue
            for field, value in zip(self._fields, values):
                field[row] = -1 if math.isnan(value) and field.dtype.kind == "i" else value
        return dropped_rows


def numba_is_loaded() -> bool:
    """Whether numba is already loaded, in which case the compiled scanner costs almost no start-up time."""
    return "numba" in sys.modules


def plain_rows(data: np.ndarray) -> np.ndarray | None:
    """Return the fields of whole lines, shape (18, lines), NaN for unknown numbers; None if one of the lines is not
    plain.

    A plain line has exactly 18 decimal numbers: none negative except -1, whole numbers of less than 16 digits in fields
    of names, and a known job number and submit time.
    """
    if not _PLAIN[data].all():
        return None
    begins = np.flatnonzero(np.diff(data <= ord(" "), prepend=True))[::2]
    fields = np.diff(np.searchsorted(begins, np.flatnonzero(data == ord("\n"))), prepend=0)
    if (fields != len(SWF_FIELDS)).any():
        return None
    try:
        flat = np.fromstring(data.tobytes(), sep=" ")
    except ValueError:  # "1.2.3", "."
        return None
    if len(flat) != len(begins):  # older NumPy stops at a malformed number without an error
        return None
    values = flat.reshape(-1, len(SWF_FIELDS)).T
    named = values[[SWF_FIELDS.index(name) for name in NAME_FIELDS]]
    if ((values < 0) & (values != -1)).any() or (values >= 1e15).any() or (named != np.floor(named)).any():
        return None
    if (values[[SWF_FIELDS.index("job_id"), SWF_FIELDS.index("submit_time")]] < 0).any():
        return None
    numbers = np.array([name not in NAME_FIELDS for name in SWF_FIELDS])[:, None]
    return np.where(numbers & (values == -1), np.nan, values)


def _parse_line(text: str, line: int, problems: Problems) -> list[float] | None:
    """Return the 18 numbers of a line, NaN for unknown; None and a note if the line is not a job record."""
    words = text.split()
    if len(words) < len(SWF_FIELDS):
        problems.drop(line, f"{len(words)} fields instead of {len(SWF_FIELDS)}", text[:40])
        return None
    values: list[float] = []
    for field, (name, word) in enumerate(zip(SWF_FIELDS, words), start=1):
        try:
            value = float(word.replace("_", "?"))  # float() would accept underscores between digits
        except ValueError:
            problems.drop(line, "a field is not a number", word, where=f"field {field} ({name})")
            return None
        if not _is_sound(name, value):
            early = name == "wait_time" and value < 0
            what = "wait (start before submission): negative" if early else f"{name}: not a valid number"
            problems.unknown(line, f"{what}, read as unknown", word)
            value = math.nan
        values.append(math.nan if value == -1 else value)
    for field, name in ((0, "job number"), (1, "submit time")):
        if math.isnan(values[field]):
            problems.drop(line, f"no {name}", words[field], where=f"field {field + 1}")
            return None
    return values


def _is_sound(name: str, value: float) -> bool:
    """Whether a number is valid in a field: -1, or at least 0 and, in fields of names, whole."""
    is_valid = value == -1 or 0 <= value < math.inf
    return is_valid and (name not in NAME_FIELDS or (value == int(value) and value < 2**53))


def _all_numbers(words: list[bytes]) -> bool:
    """Whether the first 18 words are finite numbers."""
    try:
        return all(math.isfinite(float(word)) for word in words[: len(SWF_FIELDS)])
    except ValueError:
        return False


ROWS = 65_536
_OWN = ("UnixStartTime", "TimeZone", "TimeZoneString", "MaxProcs", "MaxNodes", "MaxRecords", "Version", "columns")


def write_chunks(trace: Trace) -> Iterator[str]:
    """Yield a trace as SWF text: the header, then the lines in pieces of `ROWS`, so that memory does not grow with the
    log.

    >>> log = Trace.from_arrays({"submit_time": [0], "run_time": [2.5], "status": ["timeout"], "user_id": ["ada"]})
    >>> header, jobs = write_chunks(log)
    >>> jobs
    '1 0 -1 2.5 -1 -1 -1 -1 -1 -1 0 1 -1 -1 -1 -1 -1 -1\\n'
    """
    # Unknown values are -1, and numbers keep their exact value. Text names become numbers from 1, and the header lists
    # the names of queues and partitions. Text job ids become row numbers, and a status becomes the nearest SWF status.
    # Memory amounts of a whole job become memory per processor. If the log's times are epoch seconds, UnixStartTime is
    # the first submit time. Columns that SWF does not have are left out.
    start = trace.info.unix_start or (math.floor(trace.submit_time[0]) if len(trace) else 0.0)
    yield "".join(f"{line}\n" for line in _header(trace, start))
    for first in range(0, len(trace), ROWS):
        part = slice(first, min(first + ROWS, len(trace)))
        columns = [_field(trace, name, start - trace.info.unix_start, part) for name in SWF_FIELDS]
        yield "".join(f"{' '.join(row)}\n" for row in zip(*columns))


def _header(trace: Trace, start: float) -> Iterator[str]:
    info = trace.info
    yield "; Version: 2.2"
    for key, value in info.header.items():
        if key not in _OWN and "\n" not in value:
            yield f"; {key}: {value}"
    yield f"; MaxRecords: {len(trace)}"
    yield f"; UnixStartTime: {_text(start)}"
    yield f"; TimeZoneString: {info.timezone}"
    for key, amount in (("MaxNodes", info.max_nodes), ("MaxProcs", info.max_procs)):
        if amount > 0:
            yield f"; {key}: {_text(amount)}"
    for key, column in _NAME_COLUMNS.items():
        values = trace.nominal(column)
        names = dict(info.names.get(column, {}))
        names.update({k: str(v) for v, k in zip(values.categories, _numbers(values)) if isinstance(v, str)})
        for number, name in names.items():
            yield f"; {key}: {number} {' '.join(name.split())}"


def _field(trace: Trace, name: str, shift: float, part: slice) -> list[str]:
    """Return one field of some rows as texts."""
    if name not in trace.names:
        return ["-1"] * (part.stop - part.start)
    if name == "job_id":
        is_whole = trace.job_id.dtype.kind in "iu"
        return list(map(str, trace.job_id[part].tolist() if is_whole else range(part.start + 1, part.stop + 1)))
    if COLUMNS[name].kind == "nominal":
        values = trace.nominal(name)
        is_status = name == "status"
        numbers = [status_to_swf(str(word)) for word in values.categories] if is_status else _numbers(values)
        words = [*map(str, numbers), "-1"]
        return [words[code] for code in values.codes[part].tolist()]
    amounts = trace.number(name)[part]
    if name == "submit_time":
        amounts = amounts - shift
    if COLUMNS[name].unit == "KiB":
        amounts = share_of(trace, name, "processor")[part]
    if (np.floor(amounts) == amounts).all() and (np.abs(amounts) < 2**53).all():
        return list(map(str, amounts.astype(np.int64).tolist()))
    return [_text(value) for value in amounts.tolist()]


def _numbers(values: Nominal) -> list[int]:
    """Return a number for each category: the category itself if all are numbers, else its position from 1."""
    if all(isinstance(v, (int, np.integer)) for v in values.categories):
        return [int(v) for v in values.categories]
    return list(range(1, len(values.categories) + 1))


def _text(value: float) -> str:
    """Return a number as SWF text: -1 for NaN and infinity, whole numbers without a point."""
    return shortest(value) if math.isfinite(value) else "-1"
