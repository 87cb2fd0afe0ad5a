# SPDX-License-Identifier: Apache-2.0
"""Split a `sacct -P` dump into columns of text.

The module knows the formats of sacct's columns, finds headers, repairs lines whose texts contain the delimiter or a
line break, separates messages and job steps, and computes peak memory and GPU use of each job from its steps.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile, zip_longest
from typing import NamedTuple

import numpy as np

from ...errors import input_error
from ...job import is_slurm_state
from ...units import parse_memory
from ..chunks import Problems, rows_of, rows_where
from ..memory import STEP_FIELDS, outgrew, peak
from .resources import parse_tres
from .sbatch import parse_submit_line

_UNKNOWN = r"|Unknown|None|N/A|INVALID"
_TIME = rf"\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?\S*|\d{{1,12}}(\.\d*)?{_UNKNOWN}"
_DURATION = rf"(\d+-)?\d+(:\d+){{0,2}}(\.\d+)?|UNLIMITED|Partition_Limit|INVALID{_UNKNOWN}"
_NUMBER = r"\d*\.?\d*"
_TRES = r"([\w./:-]+=[\w.]+(,[\w./:-]+=[\w.]+)*)?"
_USAGE = r"([\w./:-]+=\S*)?"
_SIZE = rf"-?\d*(\.\d+)?[KMGTPE]?{_UNKNOWN}"
_NO_BLANKS = r"\S*"
_COUNTS = (
    "elapsedraw", "reqcpus", "alloccpus", "ncpus", "reqnodes", "allocnodes", "nnodes", "restarts", "uid", "gid",
    "priority", "cputimeraw", "ntasks", "associd", "dbindex", "qosraw", "reservationid", "wckeyid", "resvcpuraw",
    "plannedcpuraw", "maxdiskreadtask", "maxdiskwritetask", "maxpagestask", "maxrsstask", "maxvmsizetask", "mincputask",
    "segmentsize",
)  # fmt: skip
_DURATIONS = ("elapsed", "totalcpu", "cputime", "suspended", "systemcpu", "usercpu")
_EMPTY_DURATIONS = ("timelimit", "timelimitraw", "planned", "reserved", "avecpu", "mincpu", "resvcpu", "plannedcpu")
"""Durations that sacct can leave empty, for jobs or for steps. The durations above always have a value."""
_SIZES = (
    "averss", "avepages", "avevmsize", "avediskread", "avediskwrite", "maxrss", "maxpages", "maxvmsize", "maxdiskread",
    "maxdiskwrite", "avecpufreq", "consumedenergy", "consumedenergyraw",
)  # fmt: skip
_WORDS = (
    "blockid", "flags", "layout", "mcslabel", "qosreq", "reservation", "reqreservation", "failednode", "sluid",
    "reqcpufreq", "reqcpufreqmin", "reqcpufreqmax", "reqcpufreqgov", "reqgres", "reqtresgpu", "allocgres",
    "maxdiskreadnode", "maxdiskwritenode", "maxpagesnode", "maxrssnode", "maxvmsizenode", "mincpunode",
)  # fmt: skip
_FORMS = {
    "jobid": r"\d+([_+]\S+)?(\.\S+)?",
    "jobidraw": r"\d+(\+\d+)?(\.\S+)?",
    "state": r"[A-Z][A-Z_]*\+?( by \S+)?",
    "reqmem": r"(\d+(\.\d+)?[KMGTPE]?[nc]?|\?)?",
    "nodelist": r"None assigned|\S*",
    "reason": r".*",
    "": _NO_BLANKS,  # the empty field after the last delimiter of `sacct -p`, or a row number that a spreadsheet added
    "submit": _TIME,
    **dict.fromkeys(("eligible", "start", "end"), rf"({_TIME})?"),
    **dict.fromkeys(("exitcode", "derivedexitcode"), r"(\d+:\d+)?"),
    **dict.fromkeys(_DURATIONS, _DURATION),
    **dict.fromkeys(_EMPTY_DURATIONS, rf"({_DURATION})?"),
    **dict.fromkeys(_COUNTS, _NUMBER),
    **dict.fromkeys(_SIZES, _SIZE),
    **dict.fromkeys(_WORDS, _NO_BLANKS),
    **dict.fromkeys(("reqtres", "alloctres"), _TRES),
    **{
        f"tresusage{way}{what}": _USAGE
        for way in ("in", "out")
        for what in ("ave", "max", "maxnode", "maxtask", "min", "minnode", "mintask", "tot")
    },
    **dict.fromkeys(("user", "group", "qos", "account", "partition", "cluster"), r"[^\s/]*"),
}
_TEXT_FORMS = {
    "jobname": r".*",
    "workdir": r"(/.*)?",
    "submitline": r"([\w./~+-]*(sbatch|srun|salloc|scrun|scrontab)[\w.+-]*(\s.*)?)?",
}
"""Text columns that are read and can contain the delimiter."""
_UNREAD = ("admincomment", "comment", "systemcomment", "container", "extra", "stdin", "stdout", "stderr", "wckey")
"""Text columns that are not read. Users rarely begin or end such a text with a delimiter, so a split in which it does
is no split."""
_OPTION_OF = {"constraints": "constraint", "jobname": "job-name"}
"""Text columns whose value the submit command can repeat, with the name of the option."""
MOST_PIECES = 64


def _constraint(text: str) -> bool:
    """Whether a text can be a Slurm constraint, in which no operand is empty and every bracket is closed."""
    form = r"([^\s|&]+([|&][^\s|&]+)*)?"
    return bool(re.fullmatch(form, text)) and all(text.count(a) == text.count(b) for a, b in ("[]", "()"))


_READ = frozenset({*_FORMS, *_TEXT_FORMS, "constraints"})
_CHECKS: dict[str, Callable[[str], object]] = {
    **{name: re.compile(form, re.DOTALL).fullmatch for name, form in (_FORMS | _TEXT_FORMS).items()},
    **dict.fromkeys(_UNREAD, re.compile(r"(?![|^]).*(?<![|^])", re.DOTALL).fullmatch),
    "licenses": re.compile(r"([^\s|,;]+([|,;][^\s|,;]+)*)?").fullmatch,
    "constraints": _constraint,
}


def _fits(name: str, text: str) -> bool:
    """Whether a field has the format of its column; True for columns without a known format."""
    return name not in _CHECKS or bool(_CHECKS[name](text))


class Taken(NamedTuple):
    """A line split into fields: None if no split fits; `undecided` is True if several splits fit and differ."""

    fields: list[str] | None
    undecided: bool = False


def take_apart(names: Sequence[str], pieces: Sequence[str], delimiter: str) -> Taken:
    """Split a line with more pieces than columns, if the formats of the other columns show to which text columns the
    surplus pieces belong.

    >>> take_apart(["jobid", "jobname", "state"], ["7", "a", "b", "FAILED"], "|")
    Taken(fields=['7', 'a|b', 'FAILED'], undecided=False)
    >>> take_apart(["jobid", "constraints", "jobname"], ["7", "intel", "amd", "j"], "|")
    Taken(fields=None, undecided=True)
    """
    # The function examines every way to assign the surplus pieces to text columns. An assignment fits if every column
    # of known format has its format. All assignments that fit must agree on each column that batchcast reads
    # (`_READ`). If assignments differ in a text that the submit command repeats (`-C`, `-J` in SubmitLine), the
    # command decides. O(columns * surplus**2).
    surplus = len(pieces) - len(names)
    if not 0 < surplus <= MOST_PIECES:
        return Taken(None)
    ways = _Ways(names, pieces, delimiter)
    if not ways.edges[0]:
        return Taken(None)
    if ways.undecided():
        ways.ask_the_command()
    return Taken(None, undecided=True) if ways.undecided() else Taken(ways.fields())


class _Ways:
    """All ways to assign the pieces of a broken line to columns. `edges[k]` has pairs: the number of surplus pieces
    used before column k, and the number used up to and including column k."""

    def __init__(self, names: Sequence[str], pieces: Sequence[str], delimiter: str) -> None:
        self.names, self.pieces, self.delimiter = names, pieces, delimiter
        self.edges: list[list[tuple[int, int]]] = []
        self.surplus, here = len(pieces) - len(names), {0}
        for k, name in enumerate(names):
            last = self.surplus if name not in _FORMS else -1
            edges = ((before, after) for before in sorted(here) for after in range(before, max(before, last) + 1))
            self.edges.append([edge for edge in edges if _fits(name, self.text(k, *edge))])
            here = {after for _, after in self.edges[k]}
        self._keep()

    def text(self, k: int, before: int, after: int) -> str:
        """Return the text of column k if `before` surplus pieces come before it and `after` up to its end."""
        return self.delimiter.join(self.pieces[k + before : k + after + 1])

    def undecided(self) -> list[int]:
        """Return the columns that batchcast reads and whose text is not the same in all remaining assignments."""
        return [k for k, name in enumerate(self.names) if name in _READ and len(self.edges[k]) != 1]

    def ask_the_command(self) -> None:
        """Keep the assignments in which texts equal the options in the submit command, if exactly one reading of the
        command fits."""
        if "submitline" not in self.names:
            return
        every, line = self.edges, self.names.index("submitline")
        agreeing = []
        for edge in every[line]:
            self.edges = [[edge] if k == line else edges for k, edges in enumerate(every)]
            if self._agree(parse_submit_line(self.text(line, *edge)).options):
                agreeing.append(self.edges)
        self.edges = agreeing[0] if len(agreeing) == 1 else every

    def _agree(self, options: Mapping[str, str]) -> bool:
        """Keep the assignments in which texts that contain a delimiter equal the command's options. Returns whether at
        least one text equals its option and at least one assignment remains."""
        agrees = False
        for k, name in enumerate(self.names):
            text = options.get(_OPTION_OF.get(name, ""), "")
            same = [edge for edge in self.edges[k] if self.text(k, *edge) == text] if self.delimiter in text else []
            self.edges[k] = same or self.edges[k]
            agrees |= bool(same)
        self._keep()
        return agrees and all(self.edges)

    def fields(self) -> list[str]:
        """Return the fields of one remaining assignment; all agree on the columns that batchcast reads."""
        fields, before = [], 0
        for k, edges in enumerate(self.edges):
            after = next(end for start, end in edges if start == before)
            fields.append(self.text(k, before, after))
            before = after
        return fields

    def _keep(self) -> None:
        """Drop the assignments that are not part of a split of the whole line."""
        forward = range(len(self.edges))
        for side, reached, columns in ((0, {0}, forward), (1, {self.surplus}, forward[::-1])):
            for k in columns:
                self.edges[k] = [edge for edge in self.edges[k] if edge[side] in reached]
                reached = {edge[1 - side] for edge in self.edges[k]}


DELIMITERS = ("|", "^", "\t", ";", "\x1f", ",")
COMMAND = "sacct -a -P --delimiter=^ -S 2026-01-01 -o ALL > jobs.txt"
"""The command that prints a readable dump, with job steps and their peak memory."""
_QUOTED = (",", ";", "\t")
"""Delimiters of CSV files. Cells can be in quotes if another program wrote the file; sacct never writes quotes."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a dump."""

    delimiter: str  # The delimiter
    width: int  # Number of columns
    positions: dict[str, int]  # Position of each column in a line, by lower-case name
    names: tuple[str, ...]  # All column names in their order
    is_quoted: bool = False  # Whether cells can be in quotes (RFC 4180)

    @classmethod
    def of_header(cls, line: str) -> Layout | None:
        """Return the layout if a line is a header with job ids and submit times, else None.

        >>> Layout.of_header("JobID|Submit|State").positions, Layout.of_header('"JobID";"Submit"').is_quoted
        ({'jobid': 0, 'submit': 1, 'state': 2}, True)
        """
        if "submit" not in (lowered := line.lower()) or "jobid" not in lowered:
            return None
        for delimiter in DELIMITERS:
            quoted = '"' in line
            cells = cells_of(line, delimiter) if quoted else line.split(delimiter)
            names = tuple(name.strip().lower().split("%")[0] for name in cells or ())
            if "submit" in names and ("jobid" in names or "jobidraw" in names):
                return cls.of_names(names, delimiter, quoted or delimiter in _QUOTED)
        return None

    @classmethod
    def of_names(cls, names: Sequence[str], delimiter: str = "|", is_quoted: bool = False) -> Layout:
        """Return the layout for columns with the given lower-case names."""
        return cls(delimiter, len(names), {name: names.index(name) for name in names}, tuple(names), is_quoted)

    @property
    def job(self) -> int:
        """Position of the job id in a line."""
        return self.positions["jobid"] if "jobid" in self.positions else self.positions["jobidraw"]

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
        return next((self.positions[name] for name in names if name in self.positions), None)

    def split(self, line: str) -> list[str] | None:
        """Return the fields of a line; None if a quote is not closed."""
        return cells_of(line, self.delimiter) if self.is_quoted and '"' in line else line.split(self.delimiter)

    def continues(self, line: str) -> bool:
        """Whether a line can only be the rest of a text in the last columns, because it does not begin like a record
        and is no header or message."""
        begin = list(takewhile(lambda name: name in _FORMS, self.names))
        if self.is_quoted or self.names[-1] in _FORMS or _MESSAGE.fullmatch(line) or self.of_header(line):
            return False
        fields = line.split(self.delimiter)
        return len(fields) > 1 and not (len(fields) >= len(begin) and all(map(_fits, begin, fields)))

    def is_record(self, fields: Sequence[str]) -> bool:
        """Whether the number of fields is right, and job id and submit time are where they belong."""
        return len(fields) == self.width and not self.misfits(fields, ("jobid", "jobidraw", "submit"))

    def misfits(self, fields: Sequence[str], names: Sequence[str] = ()) -> list[str]:
        """Return which of the given columns (default: all) have a known format that their fields do not have."""
        known = (name for name in names or self.names if name in self.positions)
        return [name for name in known if not _fits(name, fields[self.positions[name]])]


def cells_of(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of one CSV record, which can have line breaks in quotes; None if quotes do not match.

    >>> cells_of('1,"a,b","say ""hi"" twice"', ","), cells_of('1,"a', ",")
    (['1', 'a,b', 'say "hi" twice'], None)
    """
    try:
        rows = list(csv.reader([f"{part}\n" for part in line.split("\n")], delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


_STEP_NAMES = {name.lower(): name for name in (*STEP_FIELDS[1:], "AllocNodes", "AllocTRES", "State")}
_MEASURED = ("maxrss", "tresusageinmax", "tresusageintot")
_PERCENT = re.compile(r"\d+(\.\d*)?")


class StepPeaks:
    """The peak memory of each record over the rows of its steps, and how many GPUs the steps used.

    Several records can have the same id: runs of a requeued job, jobs of several clusters, or a reused id. A step
    belongs to the last record before it that has the step's job id. If a step comes before all records with its job id
    (in a sorted file), it counts only if a single record has this id.

    >>> layout = Layout.of_header("JobID|Submit|MaxRSS")
    >>> peaks = StepPeaks(); peaks.take(layout, [["7.batch", "7.0"], ["", ""], ["0", "12K"]])
    >>> peaks.by_record(["7", "8"], np.array([2.0, 1.0]))[0]["used_mem_kib"].tolist(), peaks.zeros
    ([24.0, nan], 1)
    >>> layout = Layout.of_header("JobID|Submit|TRESUsageInTot")
    >>> peaks.take(layout, [["9", "9.0"], ["", ""], ["", "gres/gpuutil=160,mem=1G"]])
    >>> used, _ = peaks.by_record(["9", "8"], np.ones(2)); used["used_gpus"].tolist(), used["used_gpu_mem_kib"].tolist()
    ([1.6, nan], [nan, nan])
    """

    def __init__(self) -> None:
        self.zeros = self.bad = 0
        self._records = Counter[str]()
        self._before_any: set[str] = set()
        self._most: dict[str, dict[Key, float]] = {"used_mem_kib": {}, "used_gpus": {}, "used_gpu_mem_kib": {}}
        self._outgrown: set[Key] = set()

    def take(self, layout: Layout, columns: Sequence[Sequence[str]]) -> None:
        """Read rows of one layout in the order of the file, jobs and steps."""
        if layout.first(*_MEASURED) is None:
            return
        names = [(position, _STEP_NAMES[name]) for name, position in layout.positions.items() if name in _STEP_NAMES]
        measured = [columns[layout.positions[name]] for name in _MEASURED if name in layout.positions]
        for k, (job, *texts) in enumerate(zip(columns[layout.job], *measured)):
            name, dot, _ = job.partition(".")
            if not dot:
                self._records[name] += 1
            if not any(texts):
                continue
            row = {name: columns[position][k] for position, name in names}
            count, step_peak = self._records[name], peak([row])
            key = _key(name, count)
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
        """Read the GPU use of one step: `gres/gpuutil` is in percent, summed over GPUs."""
        tres = parse_tres(text)
        if _PERCENT.fullmatch(percent := tres.get("gres/gpuutil", "")):
            self._raise_to("used_gpus", key, float(percent) / 100.0)
        if (memory := parse_memory(tres.get("gres/gpumem", ""))) >= 0:
            self._raise_to("used_gpu_mem_kib", key, memory)

    def _raise_to(self, name: str, key: Key, value: float) -> None:
        """Store the value of a step if it is the largest value of the record so far."""
        self._most[name][key] = max(value, self._most[name].get(key, 0.0))

    def by_record(self, ids: Sequence[object], nodes: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return what the steps of each job used as columns, shape (n,), NaN if no step was measured; and whether a
        step was killed for its memory."""
        # `used_mem_kib` is for the whole job: the peak of the busiest node times the nodes. `used_gpus`: the GPUs that
        # the record's busiest step kept busy. `used_gpu_mem_kib`: GPU memory of the step that used most, summed over
        # GPUs.
        keys = list(self._keys(ids))
        used = {
            name: np.array([math.nan if key is None else most.get(key, math.nan) for key in keys], dtype=float)
            for name, most in self._most.items()
        }
        used["used_mem_kib"] *= np.where(nodes > 0, nodes, 1.0)
        return used, np.array([key in self._outgrown for key in keys], bool)

    def _keys(self, ids: Sequence[object]) -> Iterator[Key | None]:
        """Yield the key of each record; None if its steps cannot be distinguished from the steps of other records."""
        texts = [str(job) for job in ids]
        total, seen = Counter(texts), Counter[str]()
        for text in texts:
            seen[text] += 1
            is_known = total[text] == max(self._records[text], 1)  # False if a record with this id was dropped
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
    """Return the key of the `count`-th record with an id; the key of the first record is the id alone."""
    return number if count < 2 else (number, count)


_LONGEST_TEXT = 100  # largest number of lines over which one record can be spread
_MOST_HOPELESS = 10_000  # lines that may fail the slow search for a repair; a file with more such lines is not a dump
_MESSAGE = re.compile(r"(sacct|squeue|scontrol|slurm\w*|srun|sbatch|ssh|bash)(\[\d+\])?: .*|CLUSTER: \S+\s*")
"""Lines that programs print between records: error messages, and the name of a cluster."""
MESSAGE = "a message, not a record"
UNDECIDED = "its text columns can be split in more than one way (`sacct -P --delimiter=^` avoids such lines)"

Columns = list[Sequence[str]]


class Records:
    """Splits the lines of a dump into columns of text, and counts steps, headers and repairs.

    A line with too many fields is repaired if the columns of known format determine the right split. A line with too
    few fields is joined with the following lines, as few as possible, until the joined line is complete, but never with
    a line that is complete by itself. Lines that can be split in several ways are dropped. A header in the middle
    (several dumps in one file) changes the layout of the lines after it.
    """

    def __init__(self, problems: Problems) -> None:
        self.layout: Layout | None = None
        self.steps = self.mended = self.headers = 0
        self._problems = problems
        self._first_mended = ""
        self.peaks = StepPeaks()
        self._torn: list[tuple[int, str]] = []
        self._number = self._hopeless = 0

    def take(self, lines: Sequence[str]) -> Iterator[tuple[Layout, Columns, list[int]]]:
        """Yield layout, columns and line numbers of job records in file order, in batches with one layout."""
        # One list of the fields of all lines, instead of one list per line, saves time in the garbage collector.
        fields: list[str] = []
        numbers: list[int] = []
        odd: set[int] = set()
        layout, begun = self.layout, self._number
        for number, (line, following) in enumerate(zip_longest(lines, lines[1:]), start=begun + 1):
            self._number = number
            if layout is not None and not self._torn and layout.is_plain(line):
                fields += line.split(layout.delimiter)
                numbers.append(number)
                continue
            if record := self._odd(line, fields, following):
                fields += record
                numbers.append(number)
                odd.add(number)
            if self.layout is not layout:
                if layout is not None:
                    yield from self._batches(layout, fields, numbers, odd)
                fields, numbers, odd = [], [], set()
                layout = self.layout
        if layout is not None:
            yield from self._batches(layout, fields, numbers, odd)

    def take_columns(self, layout: Layout, columns: Columns, numbers: list[int]) -> tuple[Columns, list[int]]:
        """Return the job records among records given as columns; count steps and store their memory and GPU use."""
        self.peaks.take(layout, columns)
        steps = [k for k, job in enumerate(columns[layout.job]) if "." in job]
        if not steps:
            return columns, numbers
        self.steps += len(steps)
        return rows_of(sorted(set(range(len(numbers))) - set(steps)), columns, numbers)

    def notes(self) -> list[str]:
        """Return sentences about repaired lines and additional headers."""
        notes = []
        if self.mended:
            what = "that were broken by a delimiter or line break in a text were repaired"
            notes.append(f"{self.mended} lines {what} (first: {self._first_mended})")
        if self.headers > 1:
            notes.append(f"{self.headers} header lines: several dumps in one file")
        return notes

    def _batches(
        self, layout: Layout, fields: list[str], numbers: list[int], odd: Set[int]
    ) -> Iterator[tuple[Layout, Columns, list[int]]]:
        """Yield the records as columns. `odd` has the numbers of lines whose form was checked already."""
        columns: Columns = [fields[k :: layout.width] for k in range(layout.width)]
        columns, numbers = self._without_misfits(layout, columns, numbers, odd)
        if numbers:
            columns, numbers = self.take_columns(layout, columns, numbers)
        if numbers:
            yield layout, columns, numbers

    def _without_misfits(
        self, layout: Layout, columns: Columns, numbers: list[int], odd: Set[int]
    ) -> tuple[Columns, list[int]]:
        """Drop records whose state and one more column do not have their format: the fields are shifted."""
        states = columns[layout.positions["state"]] if "state" in layout.positions else ()
        dropped = set()
        for k in rows_where(lambda text: not is_slurm_state(text), states):
            if numbers[k] not in odd and {*layout.misfits([column[k] for column in columns])} - {"state"}:
                self._problems.drop(numbers[k], "fields that do not have the format of their column", states[k])
                dropped.add(k)
        if not dropped:
            return columns, numbers
        return rows_of([k for k in range(len(numbers)) if k not in dropped], columns, numbers)

    def _odd(self, line: str, earlier: list[str], following: str | None) -> list[str]:
        """Return the record that an irregular line completes (header, message, broken line, blank line), or an empty
        list. `earlier` has the fields of the records before the line, `following` is the next line."""
        layout, new_layout = self.layout, Layout.of_header(line)
        if new_layout is not None:
            self.give_up()
            self.layout = new_layout
            self.headers += 1
            return []
        if layout is None or _MESSAGE.fullmatch(line):
            if line.strip():
                self._problems.drop(self._number, "before the header" if layout is None else MESSAGE, line)
            return []
        fields = layout.split(line)
        if fields is not None:
            is_whole = layout.is_record(fields)
            single = Taken(fields) if is_whole else self._mend(fields) if len(fields) > layout.width else Taken(None)
            if single.fields is not None:
                self.give_up()
                self._count_mended(line, not is_whole)
                return single.fields
            if single.undecided:
                self.give_up()
                self._problems.drop(self._number, UNDECIDED, line)
                return []
            # A line break in a last column of free text leaves a line that looks complete before this line.
            ends_in_text = layout.names[-1] not in _FORMS
            if not self._torn and len(fields) == 1 and ends_in_text and earlier:
                earlier[-1] += "\n" + line
                self._count_mended(line, bool(line))
                return []
        if self._torn or line.strip():
            self._torn.append((self._number, line))
        # A line that begins no record continues the text of the record before it.
        whole = [] if following and layout.continues(following) else self._joined(layout)
        if len(self._torn) > _LONGEST_TEXT:
            self.give_up(1)
        return whole

    def _joined(self, layout: Layout) -> list[str]:
        """Return the record that the last broken lines, as few as possible, form together; else an empty list."""
        pieces = 1
        for k in range(len(self._torn) - 1, -1, -1):
            pieces += self._torn[k][1].count(layout.delimiter)
            if pieces > layout.width + MOST_PIECES and not layout.is_quoted:
                break
            if pieces < layout.width or k == len(self._torn) - 1:
                continue
            fields = layout.split("\n".join(line for _, line in self._torn[k:]))
            whole = Taken(None) if fields is None else self._mend(fields)
            if whole == Taken(None):
                continue
            self.give_up(k)
            number, line = self._torn[0]
            self._torn.clear()
            if whole.fields is not None:
                self._count_mended(line, True)
                return whole.fields
            self._problems.drop(number, UNDECIDED, line)
            break
        return []

    def _mend(self, fields: list[str]) -> Taken:
        """Return the fields of a line whose texts contained delimiters or line breaks, if the other columns determine
        the right split. Stops trying after very many lines of the file could not be repaired."""
        layout = self.layout
        assert layout is not None
        # A record without any time is impossible, and checking for a time is fast.
        if self._hopeless > _MOST_HOPELESS or not any(_fits("submit", field) for field in fields):
            return Taken(None)
        is_whole = len(fields) == layout.width and not layout.misfits(fields)
        taken = Taken(fields) if is_whole else take_apart(layout.names, fields, layout.delimiter)
        self._hopeless += taken == Taken(None)
        return taken

    def _count_mended(self, line: str, is_mended: bool) -> None:
        """Count a repaired line and store the first repaired line as an example."""
        if is_mended:
            self._first_mended = self._first_mended or f"line {self._number}: {line[:60]!r}"
            self.mended += 1

    def give_up(self, count: int | None = None) -> None:
        """Drop the first `count` broken lines; default: all."""
        for number, line in self._torn[:count]:
            if line.strip():
                self._problems.drop(number, self._why_broken(line), line)
        del self._torn[:count]

    def _why_broken(self, line: str) -> str:
        assert self.layout is not None
        fields, width = self.layout.split(line), self.layout.width
        if fields is None:
            return "quotes that do not match"
        return "not a job record" if len(fields) == width else f"{len(fields)} fields instead of {width}"


def no_header(source: str, line: str) -> Exception:
    """Build the error for a text without a header of sacct's column names."""
    what = "no header line of sacct's column names with JobID and Submit"
    accepted = "`sacct -P` (or --parsable2) with its header, that is, without -n"
    return input_error(source, what, line=1, value=line, accepted=accepted, hint=COMMAND)


_FILETXT = re.compile(r"JobId=\d+ UserId=\S+ GroupId=\S+ Name=")
_SHOW_JOB = re.compile(r"JobId=\d+ (ArrayJobId=|HetJobId=|JobName=)")


def named_text(line: str) -> tuple[str, str] | None:
    """Return what a text is, from its first line, and how to get a readable log instead; None for other texts.

    >>> named_text("7|ada|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:10:00")[0]
    'a sacct dump without its header line'
    >>> named_text("JobId=7 UserId=ada(1001) GroupId=ada(1001) Name=relax JobState=COMPLETED")[0]
    "the file of Slurm's plugin jobcomp/filetxt, which lacks time limits and complete requests"
    """
    if _FILETXT.match(line):
        what = "the file of Slurm's plugin jobcomp/filetxt, which lacks time limits and complete requests"
        return what, f"if slurmdbd runs, use the accounting records: {COMMAND}"
    if _SHOW_JOB.match(line):
        return "the output of `scontrol show job`, which has only current jobs", COMMAND
    if any(_is_record(line.strip().split(delimiter)) for delimiter in DELIMITERS):
        return "a sacct dump without its header line", f"leave out -n (--noheader), which removes it: {COMMAND}"
    return None


def _is_record(fields: list[str]) -> bool:
    """Whether the fields look like a job in sacct's notation: an id, a state, and a time written as a date."""
    words = [field.strip('"') for field in fields]
    states = [word.split(" ")[0] for word in words]
    has_state = any(word.isupper() and len(word) > 2 and is_slurm_state(word) for word in states)
    return has_state and any(map(_is_date, words)) and any(_fits("jobid", word) for word in words)


def _is_date(text: str) -> bool:
    """Whether a text is an ISO 8601 date with a time."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return "T" in text
