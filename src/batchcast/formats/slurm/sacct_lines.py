# SPDX-License-Identifier: Apache-2.0
"""Split a `sacct -P` dump into columns of text: repair broken lines, separate headers, messages and job steps, and
compute from the steps how many GPUs a job kept busy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from ...errors import input_error
from ...job import is_slurm_state
from ..chunks import Problems, rows_where
from .sacct_forms import MOST_PIECES, Taken, check_of
from .sacct_layout import COMMAND, DELIMITERS, Layout, StepPeaks

_LONGEST_TEXT = 100  # largest number of lines over which one record can be spread
_MOST_HOPELESS = 10_000  # lines that may fail the slow search for a repair; a file with more such lines is not a dump
_MESSAGE = re.compile(r"(sacct|squeue|scontrol|slurm\w*|srun|sbatch|ssh|bash)(\[\d+\])?: .*|CLUSTER: \S+\s*")
"""Lines that programs print between records: error messages, and the name of a cluster."""
MESSAGE = "a message, not a record"
UNDECIDED = "its text columns can be split in more than one way (`sacct -P --delimiter=^` avoids such lines)"

Columns = list[Sequence[str]]
Row = tuple[int, list[str]]
"""A repaired record: its line number and its fields."""


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
        """Yield layout, columns and line numbers of job records in the order of the file, in batches with one
        layout.
        """
        good: list[str] = []
        numbers: list[int] = []
        rows: list[Row] = []
        layout, begun = self.layout, self._number
        for number, line in enumerate(lines, start=begun + 1):
            self._number = number
            if layout is not None and not self._torn and layout.is_plain(line):
                good.append(line)
                numbers.append(number)
                continue
            last = rows[-1][1] if rows and not (numbers and numbers[-1] > rows[-1][0]) else None
            rows += [(number, row) for row in self._odd(line, good, last)]
            if self.layout is not layout:
                if layout is not None:
                    yield from self._batches(layout, good, numbers, rows)
                good, numbers, rows = [], [], []
                layout = self.layout
        if layout is not None:
            yield from self._batches(layout, good, numbers, rows)

    def take_columns(self, layout: Layout, columns: Columns, numbers: list[int]) -> tuple[Columns, list[int]]:
        """Return the job records among records that are given as columns; count steps and store their memory and GPU
        use.
        """
        self.peaks.take(layout, columns)
        steps = [k for k, job in enumerate(columns[layout.job]) if "." in job]
        if not steps:
            return columns, numbers
        self.steps += len(steps)
        keep = sorted(set(range(len(numbers))) - set(steps))
        return [[column[k] for k in keep] for column in columns], [numbers[k] for k in keep]

    def close(self) -> None:
        """Drop the remaining broken lines, because the text has ended."""
        self._give_up()

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
        self, layout: Layout, good: list[str], numbers: list[int], rows: list[Row]
    ) -> Iterator[tuple[Layout, Columns, list[int]]]:
        """Yields plain lines and repaired rows as columns, in the order of the file."""
        columns: Columns = [[] for _ in layout.names]
        if good:
            # One list for all lines, instead of one list per line, saves time in the garbage collector.
            flat = layout.delimiter.join(good).split(layout.delimiter)
            columns = [flat[k :: layout.width] for k in range(layout.width)]
        columns, numbers = self._without_misfits(layout, columns, numbers)
        if rows:
            numbers = [*numbers, *(number for number, _ in rows)]
            order = sorted(range(len(numbers)), key=numbers.__getitem__)
            mended = list(zip(*(row for _, row in rows)))
            whole = [[*column, *more] for column, more in zip(columns, mended)]
            columns, numbers = [[column[k] for k in order] for column in whole], [numbers[k] for k in order]
        if numbers:
            columns, numbers = self.take_columns(layout, columns, numbers)
        if numbers:
            yield layout, columns, numbers

    def _without_misfits(self, layout: Layout, columns: Columns, numbers: list[int]) -> tuple[Columns, list[int]]:
        """Drops records in which the state and one more column do not have their format, because the fields are
        shifted.
        """
        states = columns[layout.place["state"]] if "state" in layout.place else ()
        dropped = set()
        for k in rows_where(lambda text: not is_slurm_state(text), states):
            if {*layout.misfits([column[k] for column in columns])} - {"state"}:
                self._problems.drop(numbers[k], "fields that do not have the format of their column", states[k])
                dropped.add(k)
        if not dropped:
            return columns, numbers
        keep = [k for k in range(len(numbers)) if k not in dropped]
        return [[column[k] for k in keep] for column in columns], [numbers[k] for k in keep]

    def _odd(self, line: str, good: list[str], last: list[str] | None) -> list[list[str]]:
        """Returns the records that an irregular line completes (header, message, broken line, blank line).

        `last` is the record before the line, or None if this record is the last element of the list `good`.
        """
        layout, new_layout = self.layout, Layout.of(line)
        if new_layout is not None:
            self._give_up()
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
                self._give_up()
                self._count_mended(line, not is_whole)
                return [single.fields]
            if single.undecided:
                self._give_up()
                self._problems.drop(self._number, UNDECIDED, line)
                return []
            if not self._torn and len(fields) == 1 and layout.ends_in_text and (good or last is not None):
                if last is not None:
                    last[-1] += "\n" + line
                else:
                    good[-1] += "\n" + line
                self._count_mended(line, bool(line))
                return []
        if self._torn or line.strip():
            self._torn.append((self._number, line))
        whole = self._joined(layout)
        if len(self._torn) > _LONGEST_TEXT:
            self._give_up(1)
        return whole

    def _joined(self, layout: Layout) -> list[list[str]]:
        """Returns the record that the last broken lines form together; uses as few of the lines as possible."""
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
            self._give_up(k)
            number, line = self._torn[0]
            self._torn.clear()
            if whole.fields is not None:
                self._count_mended(line, True)
                return [whole.fields]
            self._problems.drop(number, UNDECIDED, line)
            break
        return []

    def _mend(self, fields: list[str]) -> Taken:
        """Returns a repaired line (`Layout.mend`). Stops trying after very many lines of the file could not be
        repaired."""
        assert self.layout is not None
        if self._hopeless > _MOST_HOPELESS or not self.layout.has_submit(fields):
            return Taken(None)
        taken = self.layout.mend(fields)
        self._hopeless += taken == Taken(None)
        return taken

    def _count_mended(self, line: str, is_mended: bool) -> None:
        """Counts a repaired line and stores the first repaired line as an example."""
        if is_mended:
            self._first_mended = self._first_mended or f"line {self._number}: {line[:60]!r}"
            self.mended += 1

    def _give_up(self, count: int | None = None) -> None:
        """Drops the first `count` broken lines; default: all."""
        for number, line in self._torn[:count]:
            if line.strip():
                self._problems.drop(number, self._why_broken(line), line)
        del self._torn[:count]

    def _why_broken(self, line: str) -> str:
        """Returns the reason for which a line is not a job record."""
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
    """Recognise a text by its first line.

    Parameters
    ----------
    line
        The first line of the text.

    Returns
    -------
    tuple of str, or None
        What the text is, and how to get a readable log instead. None for other texts.

    Examples
    --------
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
    is_job = check_of("jobid") or bool
    words = [field.strip('"') for field in fields]
    states = [word.split(" ")[0] for word in words]
    has_state = any(word.isupper() and len(word) > 2 and is_slurm_state(word) for word in states)
    return has_state and any(map(_is_date, words)) and any(map(is_job, words))


def _is_date(text: str) -> bool:
    """Whether a text is an ISO 8601 date with a time."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return "T" in text
