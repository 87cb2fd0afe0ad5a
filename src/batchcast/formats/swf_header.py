# SPDX-License-Identifier: Apache-2.0
"""The `;` lines of an SWF log: keys, values with trailing text, and the names of queues and partitions."""

from __future__ import annotations

import math
import re

from ..table import LogInfo

_LINE = re.compile(r";+\s*([A-Za-z][A-Za-z ]{0,30}?)\s*:\s*(.*)")
_NAMED = {"Queue": "queue_id", "Partition": "partition_id"}
_KNOWN = re.compile(
    r"Max[A-Z][a-z]+|UnixStartTime|TimeZone(String)?|StartTime|EndTime|(Queue|Partition)s?|Version|Computer|Installation"
    r"|Acknowledge|Information|Conversion|Preemption|AllowOveruse|Note"
)


class SwfHeader:
    """Collects header lines and turns them into a log's provenance.

    Of a scalar the first value counts and of a value its first token (`1664 (72, 1368, 224)` is 1664). What cannot be
    read is a note, never an error: the records are still good.

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
        """Whether a line is a header line with one of the format's own keys."""
        match = _LINE.match(line)
        return match is not None and _KNOWN.fullmatch(match[1]) is not None

    def take(self, line: str) -> None:
        """One comment line."""
        match = _LINE.match(line)
        if match is None:
            return
        key, value = match[1], match[2].strip()
        if key in _NAMED:
            word = re.match(r"(\d+)[\s:=-]*(.*)", value)
            if word:
                self.names.setdefault(_NAMED[key], {})[int(word[1])] = word[2].strip()
            return
        self.values.setdefault(key, value)

    def info(self) -> LogInfo:
        """The provenance these lines give; a zone is TimeZoneString, else TimeZone (seconds), else UTC."""
        zone, zone_source = "UTC", "default"
        offset = self._number("TimeZone")
        if self._token("TimeZoneString"):
            zone, zone_source = self._token("TimeZoneString"), "header TimeZoneString"
        elif not math.isnan(offset):
            zone, zone_source = format_offset(offset), "header TimeZone"
        start = self._number("UnixStartTime")
        procs = self._number("MaxProcs")
        nodes = self._number("MaxNodes")
        return LogInfo(
            source=self._source,
            format="swf",
            unix_start=0.0 if math.isnan(start) else start,
            timezone=zone,
            timezone_source=zone_source,
            max_procs=procs if procs > 0 else math.nan,
            max_procs_source="header" if procs > 0 else "unknown",
            max_nodes=nodes if nodes > 0 else math.nan,
            header=dict(self.values),
            names={column: dict(names) for column, names in self.names.items()},
        )

    def notes(self, records: int) -> list[str]:
        """What the header says that cannot be so, in sentences; `records` is how many lines there were."""
        notes = [
            f"the header's {key} is not a number: {self.values[key][:40]!r}"
            for key in ("UnixStartTime", "TimeZone", "MaxProcs", "MaxNodes", "MaxRecords")
            if self._token(key) and math.isnan(self._number(key))
        ]
        if self._number("MaxProcs") == 0 or self._number("MaxProcs") < -1:
            notes.append(f"the header's MaxProcs is {self._token('MaxProcs')}: the machine's size is taken as unknown")
        promised = self._number("MaxRecords")
        if promised >= 0 and promised != records:
            notes.append(f"the header promises {promised:.0f} records, the log holds {records}")
        if "UnixStartTime" not in self.values:
            notes.append("no UnixStartTime in the header: the log's clock starts at 1970-01-01, dates mean nothing")
        return notes

    def _token(self, key: str) -> str:
        words = self.values.get(key, "").split()
        return words[0] if words else ""

    def _number(self, key: str) -> float:
        try:
            value = float(self._token(key).rstrip(",;"))
        except ValueError:
            return math.nan
        return value if math.isfinite(value) else math.nan


def format_offset(seconds: float) -> str:
    """An offset from UTC as +HH:MM.

    >>> format_offset(-28800), format_offset(19800)
    ('-08:00', '+05:30')
    """
    minutes = round(abs(seconds) / 60)
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
