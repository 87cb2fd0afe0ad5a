# SPDX-License-Identifier: Apache-2.0
"""SWF as text: read header lines, and write a trace as lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from ..columns import COLUMNS, SWF_FIELDS
from ..job import status_to_swf
from ..table import LogInfo, Nominal, Trace
from ..table.memory import per_processor

_LINE = re.compile(r";+\s*([A-Za-z][A-Za-z ]{0,30}?)\s*:\s*(.*)")
_NAMED = {"Queue": "queue_id", "Partition": "partition_id"}
_KNOWN = re.compile(
    r"Max[A-Z][a-z]+|UnixStartTime|TimeZone(String)?|StartTime|EndTime|(Queue|Partition)s?|Version|Computer|Installation"
    r"|Acknowledge|Information|Conversion|Preemption|AllowOveruse|Note"
)


class SwfHeader:
    """Collects SWF header lines and converts them to the provenance of a log.

    If a header key occurs several times, its first value is used. Only the first word of a value is read
    (`1664 (72, 1368, 224)` is 1664). A header value that cannot be read leads to a note, not to an error, because the
    records are still usable.

    Parameters
    ----------
    source
        Name of the file.

    Examples
    --------
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

    @staticmethod
    def is_known(line: str) -> bool:
        """Whether a line is a header line with a key that SWF defines."""
        match = _LINE.match(line)
        return match is not None and _KNOWN.fullmatch(match[1]) is not None

    def take(self, line: str) -> None:
        """Read one comment line, which may be a header line."""
        match = _LINE.match(line)
        if match is None:
            return
        key, value = match[1], match[2].strip()
        if key in _NAMED:
            if word := re.match(r"(\d+)[\s:=-]*(.*)", value):
                self.names.setdefault(_NAMED[key], {})[int(word[1])] = word[2].strip()
            return
        self.values.setdefault(key, value)

    def info(self) -> LogInfo:
        """Return the provenance. The log's time zone: the header's TimeZoneString, else its TimeZone (an offset in
        seconds), else UTC."""
        zone, zone_source = "UTC", "default"
        offset = self._number("TimeZone")
        if self._token("TimeZoneString"):
            zone, zone_source = self._token("TimeZoneString"), "header TimeZoneString"
        elif not math.isnan(offset):
            zone, zone_source = format_offset(offset), "header TimeZone"
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
        """Return a sentence for each header value that cannot be right.

        Parameters
        ----------
        records
            Number of records in the log.

        Returns
        -------
        list of str
        """
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
        """Returns the first word of a header value; empty if the header lacks the key."""
        words = self.values.get(key, "").split()
        return words[0] if words else ""

    def _number(self, key: str) -> float:
        """Returns the first word of a header value as a number; NaN if the word is not a finite number."""
        try:
            value = float(self._token(key).rstrip(",;"))
        except ValueError:
            return math.nan
        return value if math.isfinite(value) else math.nan


def format_offset(seconds: float) -> str:
    """Format an offset from UTC, in seconds, as +HH:MM.

    Examples
    --------
    >>> format_offset(-28800), format_offset(19800)
    ('-08:00', '+05:30')
    """
    minutes = round(abs(seconds) / 60)
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


ROWS = 65_536
_OWN = ("UnixStartTime", "TimeZone", "TimeZoneString", "MaxProcs", "MaxNodes", "MaxRecords", "Version", "columns")


def write_chunks(trace: Trace, rows: int = ROWS) -> Iterator[str]:
    """Write a trace as SWF.

    Parameters
    ----------
    trace
        The log.
    rows
        Number of lines in each piece of text. Memory does not grow with the log.

    Yields
    ------
    str
        The header, and then the lines in pieces.

    Notes
    -----
    Unknown values are -1, and numbers keep their exact value. Text names become numbers from 1, and the header lists
    the names of queues and partitions. Text job ids become row numbers, and a status becomes the nearest SWF status.
    Memory amounts of a whole job become memory per processor. If the log's times are epoch seconds, UnixStartTime is
    the first submit time. Columns that SWF does not have are left out.

    Examples
    --------
    >>> log = Trace.from_arrays({"submit_time": [0], "run_time": [2.5], "status": ["timeout"], "user_id": ["ada"]})
    >>> header, jobs = write_chunks(log)
    >>> jobs
    '1 0 -1 2.5 -1 -1 -1 -1 -1 -1 0 1 -1 -1 -1 -1 -1 -1\\n'
    """
    start = trace.info.unix_start or (math.floor(trace.submit_time[0]) if len(trace) else 0.0)
    yield "".join(f"{line}\n" for line in _header(trace, start))
    for first in range(0, len(trace), rows):
        part = slice(first, min(first + rows, len(trace)))
        columns = [_field(trace, name, start - trace.info.unix_start, part) for name in SWF_FIELDS]
        yield "".join(f"{' '.join(row)}\n" for row in zip(*columns))


def _header(trace: Trace, start: float) -> Iterator[str]:
    """Yields the header lines."""
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
    for key, column in _NAMED.items():
        values = trace.nominal(column)
        names = dict(info.names.get(column, {}))
        names.update({k: str(v) for v, k in zip(values.categories, _numbers(values)) if isinstance(v, str)})
        for number, name in names.items():
            yield f"; {key}: {number} {' '.join(name.split())}"


def _field(trace: Trace, name: str, shift: float, part: slice) -> list[str]:
    """Returns one field of some rows as texts."""
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
    if COLUMNS[name].unit == "KiB" and trace.info.memory_per == "job":
        amounts = per_processor(trace, name)[part]
    if (np.floor(amounts) == amounts).all() and (np.abs(amounts) < 2**53).all():
        return list(map(str, amounts.astype(np.int64).tolist()))
    return [_text(value) for value in amounts.tolist()]


def _numbers(values: Nominal) -> list[int]:
    """Returns a number for each category: the category itself if all are numbers, else its position from 1."""
    if all(isinstance(v, (int, np.integer)) for v in values.categories):
        return [int(v) for v in values.categories]
    return list(range(1, len(values.categories) + 1))


def _text(value: float) -> str:
    """Returns a number as SWF text: -1 for NaN and infinity, whole numbers without a point."""
    if not math.isfinite(value):
        return "-1"
    return str(int(value)) if value == int(value) else repr(value)
