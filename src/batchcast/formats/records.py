"""Lines of a `sacct -P` dump to columns of text: headers, job steps, and lines torn by their own text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..errors import input_error
from .layout import COMMAND, MOST_PIECES, Layout
from .problems import Problems
from .step_peaks import StepPeaks

_LONGEST_NAME = 20  # lines one job's text may be spread over

Columns = list[Sequence[str]]


class Records:
    """Deals a dump's lines out as columns of text; counts steps, headers and repairs.

    A line with too many fields is mended where the columns of known form decide how; a line with too few is joined
    with those that follow until it is whole, the fewest lines that will do, but never with a line that is whole by
    itself. A header in the middle (dumps written one after the other) changes the layout from there on.
    """

    def __init__(self, problems: Problems) -> None:
        self.layout: Layout | None = None
        self.steps = self.mended = self.headers = 0
        self._problems = problems
        self.peaks = StepPeaks()
        self._torn: list[tuple[int, str]] = []
        self._number = 0

    def take(self, lines: Sequence[str]) -> Iterator[tuple[Layout, Columns, list[int]]]:
        """Columns of job records and their line numbers, in batches that share a layout."""
        good: list[str] = []
        numbers: list[int] = []
        mended: list[list[str]] = []
        layout, begun = self.layout, self._number
        for number, line in enumerate(lines, start=begun + 1):
            self._number = number
            if layout is not None and not self._torn and layout.is_plain(line):
                good.append(line)
                numbers.append(number)
                continue
            mended += self._odd(line, good)
            if self.layout is not layout:
                if layout is not None:
                    yield from self._batches(layout, good, numbers, mended)
                good, numbers, mended = [], [], []
                layout = self.layout
        if layout is not None:
            yield from self._batches(layout, good, numbers, mended)

    def close(self) -> None:
        """The text has ended: what is still torn stays so."""
        self._give_up(len(self._torn))

    def notes(self) -> list[str]:
        """What was done to lines, in sentences."""
        notes = []
        if self.mended:
            notes.append(f"{self.mended} lines torn by a delimiter or line break in a name were put together again")
        if self.headers > 1:
            notes.append(f"{self.headers} header lines: several dumps in one file")
        return notes

    def _batches(
        self, layout: Layout, good: list[str], numbers: list[int], mended: list[list[str]]
    ) -> Iterator[tuple[Layout, Columns, list[int]]]:
        if good:
            flat = layout.delimiter.join(good).split(layout.delimiter)  # one list, not one a line: less to collect
            columns: Columns = [flat[k :: layout.width] for k in range(layout.width)]
            steps = [k for k, job in enumerate(columns[layout.job]) if "." in job]
            self.peaks.take(layout, columns)
            if steps:
                self.steps += len(steps)
                keep = sorted(set(range(len(good))) - set(steps))
                columns = [[column[k] for k in keep] for column in columns]
                numbers = [numbers[k] for k in keep]
            if numbers:
                yield layout, columns, numbers
        if mended:
            self.peaks.take(layout, list(zip(*mended)))
        rows = [row for row in mended if "." not in row[layout.job]]
        self.steps += len(mended) - len(rows)
        if rows:
            yield layout, list(zip(*rows)), [self._number] * len(rows)

    def _odd(self, line: str, good: list[str]) -> list[list[str]]:
        """A line that is not plainly a record: a blank, a header, a torn line; the records it completes, if any."""
        layout, new_layout = self.layout, Layout.of(line)
        if new_layout is not None:
            self._give_up(len(self._torn))
            self.layout = new_layout
            self.headers += 1
            return []
        if layout is None:
            if line.strip():
                self._problems.drop(self._number, "before the header", line)
            return []
        fields = layout.split(line)
        alone = fields if layout.is_record(fields) else layout.mend(fields)
        if alone is not None:
            self._give_up(len(self._torn))
            self.mended += alone is not fields
            return [alone]
        if not self._torn and len(fields) == 1 and layout.ends_in_text and good:
            good[-1] += "\n" + line
            self.mended += bool(line)
            return []
        if self._torn or line.strip():
            self._torn.append((self._number, line))
        whole = self._joined(layout)
        if len(self._torn) > _LONGEST_NAME:
            self._give_up(1)
        return whole

    def _joined(self, layout: Layout) -> list[list[str]]:
        """The record that the last torn lines make together, the fewest of them: a line cut short is not part."""
        pieces = 1
        for k in range(len(self._torn) - 1, -1, -1):
            pieces += self._torn[k][1].count(layout.delimiter)
            if pieces > layout.width + MOST_PIECES:
                break
            if pieces < layout.width or k == len(self._torn) - 1:
                continue
            fields = layout.split("\n".join(line for _, line in self._torn[k:]))
            whole = fields if layout.fits(fields) else layout.mend(fields)
            if whole is not None:
                self._give_up(k)
                self._torn.clear()
                self.mended += 1
                return [whole]
        return []

    def _give_up(self, count: int) -> None:
        """The first so many torn lines are broken for good."""
        for number, line in self._torn[:count]:
            if line.strip():
                self._broken(line, number)
        del self._torn[:count]

    def _broken(self, line: str, number: int) -> None:
        assert self.layout is not None
        count = line.count(self.layout.delimiter) + 1
        if count != self.layout.width:
            self._problems.drop(number, f"{count} fields instead of {self.layout.width}", line)
        else:
            self._problems.drop(number, "no job record", line)


def no_header(source: str, line: str) -> Exception:
    """The error for a text without a header of sacct's column names."""
    return input_error(
        source,
        "no header line of sacct's column names with JobID and Submit",
        line=1,
        value=line,
        accepted="`sacct -P` (or --parsable2) with its header, so without -n",
        hint=COMMAND,
    )
