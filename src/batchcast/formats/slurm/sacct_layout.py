# SPDX-License-Identifier: Apache-2.0
"""The header of a `sacct -P` dump, which column holds what.

And the rows of job steps gathered into one peak of memory a job.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..memory import STEP_FIELDS, Peak, outgrew, peak

DELIMITERS = ("|", "^", "\t", ";", "\x1f", ",")
COMMAND = "sacct -a -P -S 2026-01-01 -o ALL > jobs.txt"
"""What prints a file that can be read, job steps and their peaks of memory too."""
_UNKNOWN = r"|Unknown|None|N/A|INVALID"
_TIME = rf"\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?\S*|\d{{1,12}}(\.\d*)?{_UNKNOWN}"
_DURATION = rf"(\d+-)?\d+(:\d+){{0,2}}(\.\d+)?|UNLIMITED|Partition_Limit|INVALID{_UNKNOWN}"
_NUMBER = r"\d*\.?\d*"
_TRES = r"([\w./:-]+=[\w.]+(,[\w./:-]+=[\w.]+)*)?"
_WHOLE = (
    "elapsedraw", "reqcpus", "alloccpus", "ncpus", "reqnodes", "allocnodes", "nnodes", "restarts", "uid", "gid",
    "priority", "cputimeraw",
)  # fmt: skip
_FORMS = {
    "jobid": r"\d+([_+]\S+)?(\.\S+)?",
    "jobidraw": r"\d+(\+\d+)?(\.\S+)?",
    "state": r"[A-Z][A-Z_]*\+?( by \S+)?",
    "reqmem": r"(\d+(\.\d+)?[KMGTPE]?[nc]?|\?)?",
    "exitcode": r"(\d+:\d+)?",
    **dict.fromkeys(("submit", "eligible", "start", "end"), _TIME),
    **dict.fromkeys(("elapsed", "timelimit", "timelimitraw", "planned", "reserved", "totalcpu", "cputime"), _DURATION),
    **dict.fromkeys(_WHOLE, _NUMBER),
    **dict.fromkeys(("reqtres", "alloctres"), _TRES),
    "workdir": r"(/.*)?",
    **dict.fromkeys(("user", "group", "qos", "account", "partition", "cluster"), r"[^\s/]*"),
}
_CHECKS = {name: re.compile(form, re.DOTALL) for name, form in _FORMS.items()}
_FREE_TEXT = (
    "jobname", "workdir", "submitline", "comment", "admincomment", "systemcomment", "extra", "stdout", "stderr", "stdin"
)  # fmt: skip
MOST_PIECES = 12


@dataclass(frozen=True, slots=True)
class Layout:
    """A dump's columns: the delimiter, how many there are, and the place of each by its lower-case name."""

    delimiter: str
    width: int
    place: dict[str, int]

    @classmethod
    def of(cls, line: str) -> Layout | None:
        """The layout a line gives when it is a header: job ids and submit times are among its columns.

        >>> Layout.of("JobID|Submit|State").place
        {'jobid': 0, 'submit': 1, 'state': 2}
        """
        for delimiter in DELIMITERS:
            names = [name.strip().lower().split("%")[0] for name in line.split(delimiter)]
            if "submit" in names and ("jobid" in names or "jobidraw" in names):
                return cls(delimiter, len(names), {name: names.index(name) for name in names})
        return None

    @property
    def job(self) -> int:
        """The place of the job's number."""
        return self.place["jobid"] if "jobid" in self.place else self.place["jobidraw"]

    def is_plain(self, line: str) -> bool:
        """Whether a line has the right number of fields and a job's number where it belongs; quick, and enough.

        A header has no number there; a line torn by a name has another number of fields.
        """
        if line.count(self.delimiter) != self.width - 1:
            return False
        job = self.job
        return line[:1].isdigit() if job == 0 else line.split(self.delimiter, job + 1)[job][:1].isdigit()

    def first(self, *names: str) -> int | None:
        """The place of the first of these columns that is there."""
        return next((self.place[name] for name in names if name in self.place), None)

    def split(self, line: str) -> list[str]:
        """A line's fields."""
        return line.split(self.delimiter)

    def is_record(self, fields: Sequence[str]) -> bool:
        """Whether these are the right number of fields with a job id and a submit time where they belong."""
        return len(fields) == self.width and all(
            _CHECKS[name].fullmatch(fields[self.place[name]])
            for name in ("jobid", "jobidraw", "submit")
            if name in self.place
        )

    def fits(self, fields: Sequence[str]) -> bool:
        """Whether every column of a known form has it: the right number of fields, times where times are due, ..."""
        return len(fields) == self.width and all(
            check.fullmatch(fields[self.place[name]]) for name, check in _CHECKS.items() if name in self.place
        )

    def mend(self, fields: Sequence[str]) -> list[str] | None:
        """The fields of a line whose text columns held delimiters, where the other columns decide it; else None.

        Every way to give the surplus pieces to the free-text columns is tried; the ways under which all columns of a
        known form fit must agree on all of those columns.
        """
        if not self.width < len(fields) <= self.width + MOST_PIECES:
            return None
        fitting = [pieces for pieces in self._splits(fields) if self.fits(pieces)]
        if not fitting:
            return None
        text = {self.place[name] for name in _FREE_TEXT if name in self.place}
        sure = {tuple(field for k, field in enumerate(pieces) if k not in text) for pieces in fitting}
        return fitting[0] if len(sure) == 1 else None

    @property
    def ends_in_text(self) -> bool:
        """Whether the last column is free text, so that a line break in it leaves a whole line before it."""
        return any(self.place.get(name) == self.width - 1 for name in _FREE_TEXT)

    def _splits(self, fields: Sequence[str]) -> Iterator[list[str]]:
        text = sorted(self.place[name] for name in _FREE_TEXT if name in self.place)
        for gifts in _shares(len(fields) - self.width, len(text)):
            pieces, at = [], 0
            for k in range(self.width):
                take = 1 + (gifts[text.index(k)] if k in text else 0)
                pieces.append(self.delimiter.join(fields[at : at + take]))
                at += take
            yield pieces


def _shares(total: int, among: int) -> Iterator[tuple[int, ...]]:
    """Every way to deal `total` pieces to `among` columns, the first column served most first."""
    if among == 0:
        return
    if among == 1:
        yield (total,)
        return
    for mine in range(total, -1, -1):
        for rest in _shares(total - mine, among - 1):
            yield (mine, *rest)


_PLACES = {name.lower(): name for name in (*STEP_FIELDS[1:], "AllocNodes", "AllocTRES", "State")}
_MEASURED = ("maxrss", "tresusageinmax", "tresusageintot")


class StepPeaks:
    """The peak of each job over the rows of its steps, by the text of its id; jobs' own rows may be among them.

    >>> layout = Layout.of("JobID|Submit|MaxRSS")
    >>> peaks = StepPeaks(); peaks.take(layout, [["7.batch", "7.0"], ["", ""], ["0", "12K"]])
    >>> peaks.of(["7", "8"], np.array([2.0, 1.0])).tolist(), peaks.zeros
    ([24.0, nan], 1)
    """

    def __init__(self) -> None:
        self.zeros = self.bad = 0
        self._most: dict[str, float] = {}
        self._outgrown: set[str] = set()

    def take(self, layout: Layout, columns: Sequence[Sequence[str]]) -> None:
        """Rows of one layout, job by job or step by step."""
        if layout.first(*_MEASURED) is None:
            return
        names = [(place, _PLACES[name]) for name, place in layout.place.items() if name in _PLACES]
        measured = [columns[layout.place[name]] for name in _MEASURED if name in layout.place]
        for k, (job, *texts) in enumerate(zip(columns[layout.job], *measured)):
            if not any(texts):
                continue
            row = {name: columns[place][k] for place, name in names}
            one: Peak = peak([row])
            self.zeros += one.zeros
            self.bad += one.bad
            if one.node_kib == one.node_kib:
                name = job.partition(".")[0]
                self._most[name] = max(one.node_kib, self._most.get(name, 0.0))
                if "." in job and outgrew(row):
                    self._outgrown.add(name)

    def of(self, ids: Sequence[object], nodes: np.ndarray) -> np.ndarray:
        """KiB of each whole job (n,): its busiest node's peak times its nodes; NaN where no step was measured.

        A number that two records share is nobody's: whose steps they were cannot be told.
        """
        most = [self._most.get(text, math.nan) if alone else math.nan for text, alone in _alone(ids)]
        return np.array(most) * np.where(nodes > 0, nodes, 1.0)

    def outgrown(self, ids: Sequence[object]) -> np.ndarray:
        """Which of the jobs (n,) had a step that was ended for its memory (`formats.memory.outgrew`)."""
        return np.array([alone and text in self._outgrown for text, alone in _alone(ids)], bool)

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


def _alone(ids: Sequence[object]) -> list[tuple[str, bool]]:
    """Each job's number as text, and whether no other record has it."""
    texts = [str(job) for job in ids]
    seen = Counter(texts)
    return [(text, seen[text] == 1) for text in texts]
