# SPDX-License-Identifier: Apache-2.0
"""The rows of a CSV text: header, delimiter, encoding, and the handling of broken rows."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from ...errors import InputError, UsageError, input_error
from ..chunks import Problems, unix_text, whole_lines

DELIMITERS = (",", ";", "\t", "|")
_LONGEST_ROW = 1000
"""Largest number of lines of one row (a cell can hold a script). In a longer row, the opening quote is an error."""
_BATCH = 1 << 15
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class CsvRows:
    """The header of a CSV text, and its rows in batches.

    >>> rows = CsvRows([b'a,b\\n1,"x\\ny"\\n2\\n3,z'], "(memory)", Problems("(memory)"))
    >>> rows.header, list(rows.batches([0, 1]))
    (['a', 'b'], [([2, 5], [('1', '3'), ('x\\ny', 'z')])])
    """

    # Rows with another number of cells than the header, a NUL byte or broken quotes are dropped and counted. After a
    # stray quote, only one line is lost, not all lines after it. Bytes that do not fit the encoding are kept as \\xNN
    # and counted.

    def __init__(
        self,
        blocks: Iterable[bytes],
        source: str,
        problems: Problems,
        *,
        delimiter: str | None = None,
        encoding: str = "utf-8",
    ) -> None:
        self._problems = problems
        self._is_record: Callable[[Sequence[str]], bool] | None = None
        self._feed = _Feed(blocks, _checked_encoding(encoding), problems, source)
        first = self._feed.peek()
        self.delimiter = delimiter or delimiter_of(first)
        self._reader = csv.reader(self._feed, delimiter=self.delimiter, strict=True)
        try:
            self.header = [name.strip() for name in next(self._reader)]
        except (csv.Error, StopIteration) as error:
            what = f"no readable header line ({error})"
            raise input_error(source, what, line=1, value=first[:60], accepted="column names") from None
        self._feed.row_done()
        check_header(self.header, source)

    def batches(
        self, positions: Sequence[int], is_record: Callable[[Sequence[str]], bool] | None = None
    ) -> Iterator[tuple[list[int], list[Sequence[str]]]]:
        """Yield the line numbers and the cells, one tuple per column, of some ten thousand rows at a time."""
        # If a row over several lines contains a line that is a record by itself (`is_record`), the row began with a
        # stray quote, and only its first line is dropped.
        self._is_record = is_record
        numbered = self._rows()
        while batch := list(islice(numbered, _BATCH)):
            yield [line for line, _ in batch], list(zip(*([row[k] for k in positions] for _, row in batch)))

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line number and the cells of each good row; drop and count broken rows."""
        feed = self._feed
        while True:
            row: list[str] = []
            where = ""
            try:
                row = next(self._reader)
                problem = self._problem(row)
            except StopIteration:
                if feed.is_over:
                    return
                problem = ""
            except csv.Error as error:
                problem, where = "quotes that do not match", str(error)
            if problem:
                self._problems.drop(feed.first, problem, feed.text, where=where)
                feed.retry()
                continue
            if row:
                yield feed.first, row[: len(self.header)]
            feed.row_done()

    def _problem(self, row: Sequence[str]) -> str:
        """Return why a row is broken; empty for a good or empty row, and for a row with a delimiter at its end."""
        width, is_record = len(self.header), self._is_record
        if not row or (len(row) > width and not any(row[width:]) and not self._feed.has_nul):
            return ""
        if self._feed.has_nul or len(row) != width:
            return "a NUL byte" if self._feed.has_nul else f"{len(row)} cells instead of {width}"
        # If a continuation line of the row is a record by itself, the opening quote before it is an error.
        rows = csv.reader([line for line in self._feed.continuation if "\0" not in line], delimiter=self.delimiter)
        swallowed = is_record is not None and any(len(cells) == width and is_record(cells) for cells in rows)
        return "an opening quote without a closing quote" if swallowed else ""


def delimiter_of(line: str) -> str:
    """Return the most frequent delimiter of a header line; a comma if there is none.

    >>> delimiter_of("a;b;c,d"), delimiter_of("a")
    (';', ',')
    """
    return max(DELIMITERS, key=lambda mark: (line.count(mark), mark == ","))


def header_of(sample: bytes) -> list[str]:
    """Return the names in the first line of a text; empty if the line is not a CSV header (fewer than two names, or not
    text).

    >>> header_of(b"job_id,submit_time\\n1,2\\n"), header_of(b"hello\\n")
    (['job_id', 'submit_time'], [])
    """
    line = sample.split(b"\n", 1)[0]
    try:
        text = line.decode("utf-8-sig").rstrip("\r")
        names = next(csv.reader([text], delimiter=delimiter_of(text), strict=True), [])
    except (UnicodeDecodeError, csv.Error):
        return []
    return [name.strip() for name in names] if len(names) > 1 and "\0" not in text else []


class _Feed:
    """Passes lines to the csv reader, and remembers the lines of the current row so that they can be read again."""

    def __init__(self, blocks: Iterable[bytes], encoding: str, problems: Problems, source: str) -> None:
        self._lines = self._decoded(blocks, encoding, source)
        self._problems = problems
        self._again: list[tuple[int, str]] = []
        self._row_lines: list[tuple[int, str]] = []
        self.has_nul = self.is_over = False

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        if len(self._row_lines) >= _LONGEST_ROW:
            raise StopIteration
        numbered = self._again.pop() if self._again else next(self._lines, None)
        if numbered is None:
            self.is_over = not self._row_lines
            raise StopIteration
        self._row_lines.append(numbered)
        self.has_nul |= "\0" in numbered[1]
        return numbered[1]

    @property
    def first(self) -> int:
        """Line number at which the current row begins."""
        return self._row_lines[0][0] if self._row_lines else 0

    @property
    def text(self) -> str:
        """First line of the current row."""
        return self._row_lines[0][1].rstrip("\r\n") if self._row_lines else ""

    @property
    def continuation(self) -> list[str]:
        """Lines of the current row after its first line."""
        return [text for _, text in self._row_lines[1:]]

    def peek(self) -> str:
        """Return the first line without consuming it."""
        numbered = next(self._lines, None)
        if numbered is None:
            return ""
        self._again.append(numbered)
        return numbered[1]

    def row_done(self) -> None:
        """Remove the lines of the current row from memory."""
        self._row_lines.clear()
        self.has_nul = False

    def retry(self) -> None:
        """Drop the first line of the current row, and read the other lines again."""
        self._again += self._row_lines[:0:-1]
        self.row_done()

    def _decoded(self, blocks: Iterable[bytes], encoding: str, source: str) -> Iterator[tuple[int, str]]:
        """Yield the decoded lines with their numbers; report bytes that do not fit the encoding."""
        pieces = (lines.removesuffix(b"\n").split(b"\n") for lines in whole_lines(unix_text(blocks)))
        for number, raw in enumerate(chain.from_iterable(pieces), 1):
            if number == 1 and raw.startswith(_UTF16):
                accepted = "UTF-8, or a map's encoding"
                raise input_error(source, "is UTF-16 text", line=1, accepted=accepted, hint="iconv -f UTF-16")
            try:
                text = raw.decode(encoding)
            except UnicodeDecodeError:
                what = f"text that is not {encoding} (its bytes are kept as \\xNN; a map can name another encoding)"
                self._problems.unknown(number, what, raw)
                text = raw.decode(encoding, "backslashreplace")
            yield number, text + "\n"


def check_header(header: Sequence[str], source: str) -> None:
    """Raise InputError if a header has no column name, or a column name twice."""
    if not any(header):
        raise input_error(source, "no header line", line=1, accepted="a first line of column names")
    for name in header:
        if name and header.count(name) > 1:
            what = "a column name occurs twice in the header"
            raise input_error(source, what, line=1, value=name, hint="rename one of them")


def _checked_encoding(encoding: str) -> str:
    """Return the encoding if it exists and is a superset of ASCII; UsageError otherwise."""
    try:
        if "\n,".encode(encoding) == b"\n,":
            return encoding
    except LookupError:
        pass
    raise UsageError(f"not an encoding that batchcast reads: {encoding!r} (accepted: utf-8, latin-1, cp1252, ...)")


def no_rows(source: str, problems: Problems, hint: str) -> InputError:
    """Build the error for a CSV text without a job."""
    return input_error(source, "the file has no job record" + problems.because(), hint=hint)
