# SPDX-License-Identifier: Apache-2.0
"""The header of a `sacct -P` dump, which column holds what.

And the rows of job steps gathered into one peak of memory a job.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..memory import STEP_FIELDS, Peak, outgrew, peak
from .sacct_forms import Taken, check_of, may_hold_delimiters, take_apart

DELIMITERS = ("|", "^", "\t", ";", "\x1f", ",")
COMMAND = "sacct -a -P -S 2026-01-01 -o ALL > jobs.txt"
"""What prints a file that can be read, job steps and their peaks of memory too."""
_QUOTED = (",", ";", "\t")
"""Delimiters of CSV files: their cells may stand in quotes, which `sacct` itself never writes."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A dump's columns: the delimiter, how many there are, and the place of each by its lower-case name.

    `names` are all of them in order; `is_quoted` where cells may stand in quotes (RFC 4180).
    """

    delimiter: str
    width: int
    place: dict[str, int]
    names: tuple[str, ...]
    is_quoted: bool = False

    @classmethod
    def of(cls, line: str) -> Layout | None:
        """The layout a line gives when it is a header: job ids and submit times are among its columns.

        >>> Layout.of("JobID|Submit|State").place, Layout.of('"JobID";"Submit"').is_quoted
        ({'jobid': 0, 'submit': 1, 'state': 2}, True)
        """
        if "submit" not in (lowered := line.lower()) or "jobid" not in lowered:
            return None
        for delimiter in DELIMITERS:
            quoted = '"' in line
            cells = cells_of(line, delimiter) if quoted else line.split(delimiter)
            names = tuple(name.strip().lower().split("%")[0] for name in cells or ())
            if "submit" in names and ("jobid" in names or "jobidraw" in names):
                return cls.named(names, delimiter, quoted or delimiter in _QUOTED)
        return None

    @classmethod
    def named(cls, names: Sequence[str], delimiter: str = "|", is_quoted: bool = False) -> Layout:
        """The layout of these columns, named in lower case."""
        return cls(delimiter, len(names), {name: names.index(name) for name in names}, tuple(names), is_quoted)

    @property
    def job(self) -> int:
        """The place of the job's number."""
        return self.place["jobid"] if "jobid" in self.place else self.place["jobidraw"]

    def is_plain(self, line: str) -> bool:
        """Whether a line has the right number of fields and a job's number where it belongs; quick, and enough.

        A header has no number there; a line torn by a name has another number of fields.
        """
        if line.count(self.delimiter) != self.width - 1 or (self.is_quoted and '"' in line):
            return False
        job = self.job
        return line[:1].isdigit() if job == 0 else line.split(self.delimiter, job + 1)[job][:1].isdigit()

    def first(self, *names: str) -> int | None:
        """The place of the first of these columns that is there."""
        return next((self.place[name] for name in names if name in self.place), None)

    def split(self, line: str) -> list[str] | None:
        """A line's fields; None where a quote is opened and not closed."""
        return cells_of(line, self.delimiter) if self.is_quoted and '"' in line else line.split(self.delimiter)

    def is_record(self, fields: Sequence[str]) -> bool:
        """Whether these are the right number of fields with a job id and a submit time where they belong."""
        return len(fields) == self.width and not self._misfits(fields, ("jobid", "jobidraw", "submit"))

    def misfits(self, fields: Sequence[str]) -> list[str]:
        """The columns of a known form whose fields do not have it."""
        return self._misfits(fields, self.names)

    def _misfits(self, fields: Sequence[str], names: Sequence[str]) -> list[str]:
        wrong = []
        for name in names:
            check = check_of(name)
            if check is not None and name in self.place and not check(fields[self.place[name]]):
                wrong.append(name)
        return wrong

    def has_submit(self, fields: Sequence[str]) -> bool:
        """Whether one of the fields is a time of submission; quick, and no record is without one."""
        check = check_of("submit")
        return check is not None and any(map(check, fields))

    def mend(self, fields: Sequence[str]) -> Taken:
        """A line whose text columns held delimiters or line breaks, where the other columns decide how."""
        if len(fields) == self.width:
            return Taken(None if self.misfits(fields) else list(fields))
        return take_apart(self.names, fields, self.delimiter)

    @property
    def ends_in_text(self) -> bool:
        """Whether the last column is free text, so that a line break in it leaves a whole line before it."""
        return may_hold_delimiters(self.names[-1])


def cells_of(line: str, delimiter: str) -> list[str] | None:
    """The cells of one record of CSV, which may have line breaks in quotes; None where quotes do not match.

    >>> cells_of('1,"a,b","say ""hi"" twice"', ","), cells_of('1,"a', ",")
    (['1', 'a,b', 'say "hi" twice'], None)
    """
    try:
        rows = list(csv.reader([f"{part}\n" for part in line.split("\n")], delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


_PLACES = {name.lower(): name for name in (*STEP_FIELDS[1:], "AllocNodes", "AllocTRES", "State")}
_MEASURED = ("maxrss", "tresusageinmax", "tresusageintot")


class StepPeaks:
    """The peak of each record over the rows of its steps, which follow the record they belong to.

    Several records may have one number: runs of a requeued job, jobs of several clusters, a number used again. A step
    belongs to the last record before it with its number. If a step stands before all records with its number (a sorted
    file), the step counts only if a single record has the number.

    >>> layout = Layout.of("JobID|Submit|MaxRSS")
    >>> peaks = StepPeaks(); peaks.take(layout, [["7.batch", "7.0"], ["", ""], ["0", "12K"]])
    >>> peaks.of(["7", "8"], np.array([2.0, 1.0])).tolist(), peaks.zeros
    ([24.0, nan], 1)
    """

    def __init__(self) -> None:
        self.zeros = self.bad = 0
        self._records: dict[str, int] = {}
        self._before_any: set[str] = set()
        self._most: dict[Key, float] = {}
        self._outgrown: set[Key] = set()

    def take(self, layout: Layout, columns: Sequence[Sequence[str]]) -> None:
        """Rows of one layout in the order of the file, jobs and steps."""
        if layout.first(*_MEASURED) is None:
            return
        names = [(place, _PLACES[name]) for name, place in layout.place.items() if name in _PLACES]
        measured = [columns[layout.place[name]] for name in _MEASURED if name in layout.place]
        for k, (job, *texts) in enumerate(zip(columns[layout.job], *measured)):
            name, dot, _ = job.partition(".")
            if not dot:
                self._records[name] = self._records.get(name, 0) + 1
            if not any(texts):
                continue
            row = {name: columns[place][k] for place, name in names}
            one: Peak = peak([row])
            self.zeros += one.zeros
            self.bad += one.bad
            if one.node_kib == one.node_kib:
                count = self._records.get(name, 0)
                if not count:
                    self._before_any.add(name)
                key = _key(name, count)
                self._most[key] = max(one.node_kib, self._most.get(key, 0.0))
                if dot and outgrew(row):
                    self._outgrown.add(key)

    def of(self, ids: Sequence[object], nodes: np.ndarray) -> np.ndarray:
        """KiB of each whole job (n,): its busiest node's peak times its nodes; NaN where no step was measured.

        `ids` are the jobs' numbers in the order of the file.
        """
        most = [math.nan if key is None else self._most.get(key, math.nan) for key in self._keys(ids)]
        return np.array(most) * np.where(nodes > 0, nodes, 1.0)

    def outgrown(self, ids: Sequence[object]) -> np.ndarray:
        """Which of the jobs (n,) had a step that was ended for its memory (`formats.memory.outgrew`)."""
        return np.array([key in self._outgrown for key in self._keys(ids)], bool)

    def _keys(self, ids: Sequence[object]) -> Iterator[Key | None]:
        """The key of each record; None where its steps cannot be told from those of other records."""
        texts = [str(job) for job in ids]
        total, seen = Counter(texts), Counter[str]()
        for text in texts:
            seen[text] += 1
            is_known = total[text] == max(self._records.get(text, 1), 1)  # else a record of this number was dropped
            is_sure = total[text] == 1 or text not in self._before_any
            yield _key(text, seen[text]) if is_known and is_sure else None

    def notes(self) -> list[str]:
        """What was read and not learned from, in sentences."""
        notes = []
        if self.zeros:
            notes.append(f"{self.zeros} job steps have a peak memory of 0 (ended before the first sample): unknown")
        if self.bad:
            notes.append(
                f"{self.bad} job steps have a peak memory that is none (negative, a unit that is none, or more"
                " than a pebibyte): unknown"
            )
        return notes


Key = str | tuple[str, int]


def _key(number: str, count: int) -> Key:
    """What names the record that is the `count`-th with its number; the number alone for the first."""
    return number if count < 2 else (number, count)
