# SPDX-License-Identifier: Apache-2.0
"""The header of a `sacct -P` dump, and the peak memory of each job over the rows of its steps."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...units import parse_memory
from ..memory import STEP_FIELDS, Peak, outgrew, peak
from .resources import parse_tres
from .sacct_forms import Taken, check_of, may_hold_delimiters, take_apart

DELIMITERS = ("|", "^", "\t", ";", "\x1f", ",")
COMMAND = "sacct -a -P -S 2026-01-01 -o ALL > jobs.txt"
"""The command that prints a readable dump, with job steps and their peak memory."""
_QUOTED = (",", ";", "\t")
"""Delimiters of CSV files. Cells can be in quotes if another program wrote the file; sacct never writes quotes."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a dump.

    Attributes
    ----------
    delimiter
        The delimiter.
    width
        Number of columns.
    place
        Position of each column in a line, by lower-case name.
    names
        All column names in their order.
    is_quoted
        Whether cells can be in quotes (RFC 4180).
    """

    delimiter: str
    width: int
    place: dict[str, int]
    names: tuple[str, ...]
    is_quoted: bool = False

    @classmethod
    def of(cls, line: str) -> Layout | None:
        """Return the layout if a line is a header with job ids and submit times, else None.

        Examples
        --------
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
        """Return the layout for columns with the given lower-case names."""
        return cls(delimiter, len(names), {name: names.index(name) for name in names}, tuple(names), is_quoted)

    @property
    def job(self) -> int:
        """Position of the job id in a line."""
        return self.place["jobid"] if "jobid" in self.place else self.place["jobidraw"]

    def is_plain(self, line: str) -> bool:
        """Whether a line has the right number of fields and a number where the job id belongs. The test is fast,
        because it reads only the number of fields and the job id.

        A header has no number in the place of the job id, and a line that was broken by a text has another number of
        fields.
        """
        if line.count(self.delimiter) != self.width - 1 or (self.is_quoted and '"' in line):
            return False
        job = self.job
        return line[:1].isdigit() if job == 0 else line.split(self.delimiter, job + 1)[job][:1].isdigit()

    def first(self, *names: str) -> int | None:
        """Return the position of the first of the given columns that exists, or None."""
        return next((self.place[name] for name in names if name in self.place), None)

    def split(self, line: str) -> list[str] | None:
        """Return the fields of a line; None if a quote is not closed."""
        return cells_of(line, self.delimiter) if self.is_quoted and '"' in line else line.split(self.delimiter)

    def is_record(self, fields: Sequence[str]) -> bool:
        """Whether the number of fields is right, and job id and submit time are where they belong."""
        return len(fields) == self.width and not self.misfits(fields, ("jobid", "jobidraw", "submit"))

    def misfits(self, fields: Sequence[str], names: Sequence[str] = ()) -> list[str]:
        """Return which of the given columns (default: all) have a known format that their fields do not have."""
        misfits = []
        for name in names or self.names:
            check = check_of(name)
            if check is not None and name in self.place and not check(fields[self.place[name]]):
                misfits.append(name)
        return misfits

    def has_submit(self, fields: Sequence[str]) -> bool:
        """Whether one of the fields is a time. A record without any time is impossible, and checking for a time is
        fast."""
        return any(map(check_of("submit") or bool, fields))

    def mend(self, fields: Sequence[str]) -> Taken:
        """Repair a line whose texts contained delimiters or line breaks, if the other columns determine the right
        split."""
        if len(fields) == self.width:
            return Taken(None if self.misfits(fields) else list(fields))
        return take_apart(self.names, fields, self.delimiter)

    @property
    def ends_in_text(self) -> bool:
        """Whether the last column is free text. A line break in a last column of free text leaves a line that looks
        complete."""
        return may_hold_delimiters(self.names[-1])


def cells_of(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of one CSV record, which can have line breaks in quotes; None if quotes do not match.

    Examples
    --------
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
_PERCENT = re.compile(r"\d+(\.\d*)?")


class StepPeaks:
    """The peak memory of each record over the rows of its steps, and how many GPUs the steps used.

    Several records can have the same id: runs of a requeued job, jobs of several clusters, or a reused id. A step
    belongs to the last record before it that has the step's job id. If a step comes before all records with its job id
    (in a sorted file), it counts only if a single record has this id.

    Examples
    --------
    >>> layout = Layout.of("JobID|Submit|MaxRSS")
    >>> peaks = StepPeaks(); peaks.take(layout, [["7.batch", "7.0"], ["", ""], ["0", "12K"]])
    >>> peaks.by_record(["7", "8"], np.array([2.0, 1.0]))[0]["used_mem_kib"].tolist(), peaks.zeros
    ([24.0, nan], 1)
    >>> peaks.take(Layout.of("JobID|Submit|TRESUsageInTot"), [["9", "9.0"], ["", ""], ["", "gres/gpuutil=160,mem=1G"]])
    >>> used, _ = peaks.by_record(["9", "8"], np.ones(2)); used["used_gpus"].tolist(), used["used_gpu_mem_kib"].tolist()
    ([1.6, nan], [nan, nan])
    """

    def __init__(self) -> None:
        self.zeros = self.bad = 0
        self._records: dict[str, int] = {}
        self._before_any: set[str] = set()
        self._most: dict[str, dict[Key, float]] = {"used_mem_kib": {}, "used_gpus": {}, "used_gpu_mem_kib": {}}
        self._outgrown: set[Key] = set()

    def take(self, layout: Layout, columns: Sequence[Sequence[str]]) -> None:
        """Read rows of one layout in the order of the file, jobs and steps."""
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
            count = self._records.get(name, 0)
            key = _key(name, count)
            step_peak: Peak = peak([row])
            self.zeros += step_peak.zeros
            self.bad += step_peak.bad
            has_gpus = "gres/gpu" in row.get("TRESUsageInTot", "")
            if has_gpus:
                self._take_gpus(key, row["TRESUsageInTot"])
            if step_peak.node_kib == step_peak.node_kib:
                self._raise_to("used_mem_kib", key, step_peak.node_kib)
                if dot and outgrew(row):
                    self._outgrown.add(key)
            elif not has_gpus:
                continue
            if not count:
                self._before_any.add(name)

    def _take_gpus(self, key: Key, text: str) -> None:
        """Reads the GPU use of one step: `gres/gpuutil` is in percent, summed over GPUs."""
        tres = parse_tres(text)
        if _PERCENT.fullmatch(percent := tres.get("gres/gpuutil", "")):
            self._raise_to("used_gpus", key, float(percent) / 100.0)
        if (memory := parse_memory(tres.get("gres/gpumem", ""))) >= 0:
            self._raise_to("used_gpu_mem_kib", key, memory)

    def _raise_to(self, name: str, key: Key, value: float) -> None:
        """Stores the value of a step if it is the largest value of the record so far."""
        self._most[name][key] = max(value, self._most[name].get(key, 0.0))

    def by_record(self, ids: Sequence[object], nodes: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return what the steps of each job used.

        Parameters
        ----------
        ids
            Job ids in the order of the file, n values.
        nodes
            Allocated nodes, shape (n,).

        Returns
        -------
        used : dict
            Columns of shape (n,), NaN if no step was measured. `used_mem_kib`: KiB of the whole job (peak of the
            busiest node times nodes). `used_gpus`: the GPUs that the record's busiest step kept busy.
            `used_gpu_mem_kib`: GPU memory of the step that used most, summed over GPUs.
        outgrown : ndarray
            Whether a step of each job was killed for its memory (`formats.memory.outgrew`), shape (n,).
        """
        keys = list(self._keys(ids))
        used = {
            name: np.array([math.nan if key is None else most.get(key, math.nan) for key in keys], dtype=float)
            for name, most in self._most.items()
        }
        used["used_mem_kib"] *= np.where(nodes > 0, nodes, 1.0)
        return used, np.array([key in self._outgrown for key in keys], bool)

    def _keys(self, ids: Sequence[object]) -> Iterator[Key | None]:
        """Yields the key of each record; None if its steps cannot be distinguished from the steps of other records."""
        texts = [str(job) for job in ids]
        total, seen = Counter(texts), Counter[str]()
        for text in texts:
            seen[text] += 1
            is_known = total[text] == max(self._records.get(text, 1), 1)  # False if a record with this id was dropped
            is_sure = total[text] == 1 or text not in self._before_any
            yield _key(text, seen[text]) if is_known and is_sure else None

    def notes(self) -> list[str]:
        """Return sentences about memory peaks that were not used."""
        counts = {
            "a peak memory of 0 (ended before the first sample)": self.zeros,
            "an impossible peak memory (negative, an unknown unit, or more than a pebibyte)": self.bad,
        }
        return [f"{count} job steps have {what}: unknown" for what, count in counts.items() if count]


Key = str | tuple[str, int]


def _key(number: str, count: int) -> Key:
    """Returns the key of the `count`-th record with an id; the key of the first record is the id alone."""
    return number if count < 2 else (number, count)
