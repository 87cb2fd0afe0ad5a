# SPDX-License-Identifier: Apache-2.0
"""Read and write batchcast's own CSV: batchcast's column names in the header, and one line per job.

Reading a written file gives exactly the same log. Files that a spreadsheet has changed can also be read: cells
separated by `;`, tab or `|`, and numbers with a decimal comma.

The type of a column declared in `columns` is fixed. An extra column is numeric if all its values are numbers, else
text. Names that are all whole numbers are read as whole numbers. If a column would be read back with another type, its
header name ends in a colon and a mark: `:text`, `:whole` (names that are whole numbers), `:number`, `:processor`
(memory per processor, from SWF; other memory is for the whole job) or `:json` (each value is a JSON value, for texts on
which CSV readers disagree: empty texts, line ends other than \n, numbers and texts mixed).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

import numpy as np

from ...columns import COLUMNS
from ...table import LogInfo, Nominal, Trace, Values
from ...table.columns import INSTANTS
from ..chunks import Codes, GrowingColumn, Problems, as_ids
from .rows import CsvRows, check_header, no_rows

_MARKS = ("text", "whole", "number", "json", "processor")


def is_own(header: Sequence[str]) -> bool:
    """Whether a header belongs to batchcast's own CSV: it has the columns `job_id` and `submit_time`.

    Examples
    --------
    >>> is_own(["job_id:text", "submit_time", "run_time"]), is_own(["JobID", "Submit"])
    (True, False)
    """
    names = {_unmarked(name)[0] for name in header}
    return {"job_id", "submit_time"} <= names


def header_and_texts(trace: Trace) -> tuple[list[str], list[list[str]]]:
    """Return the header and all columns as texts.

    Parameters
    ----------
    trace
        The log.

    Returns
    -------
    names : list of str
        The column names in the header.
    columns : list of list of str
        The cells. Unknown values are empty, instants are epoch seconds, and infinity is `inf`.

    Examples
    --------
    >>> header_and_texts(Trace.from_arrays({"submit_time": [2.5], "tag": ["7"], "run_time": [None]}))
    (['job_id', 'submit_time', 'tag:text', 'run_time'], [['1'], ['2.5'], ['7'], ['']])
    """
    names, columns = [], []
    for name in trace.names:
        values = trace.column(name)
        if isinstance(values, Nominal):
            mark, texts = _nominal_texts(name, values)
        elif values.dtype.kind == "f":
            shift = trace.info.unix_start if name in INSTANTS else 0.0
            texts = [_text(value + shift) for value in values.tolist()]
            mark = "" if name in COLUMNS or any(texts) else "number"
            if name in COLUMNS and COLUMNS[name].unit == "KiB" and trace.info.memory_per == "processor":
                mark = "processor"
        else:
            texts = [str(value) for value in values.tolist()]
            mark = _id_mark(values, texts)
            texts = [json.dumps(text) for text in texts] if mark == "json" else texts
        if not mark and _unmarked(name)[1]:  # a column name that ends like a mark needs a real mark after it
            mark, texts = ("json", _json_texts(values)) if isinstance(values, Nominal) else ("number", texts)
        names.append(f"{name}:{mark}" if mark else name)
        columns.append(texts)
    return names, columns


def read_own_csv(blocks: Iterable[bytes], source: str = "(memory)", *, strict: bool = False) -> Trace:
    """Read batchcast's own CSV.

    Parameters
    ----------
    blocks
        The text of the file in blocks of bytes.
    source
        File name for messages.
    strict
        Whether to raise InputError at the first row or value that cannot be read.

    Returns
    -------
    Trace
        Times are epoch seconds. A row without a submit time or with another number of cells is dropped and counted.
        Other values that cannot be read are unknown and counted. Size of the machine, time zone and header are unknown.

    Raises
    ------
    InputError
        If the file has no job.

    Examples
    --------
    >>> trace = read_own_csv([b"job_id,submit_time,run_time,speed\\n7,10,,2.5\\n"])
    >>> trace.job_id.tolist(), trace.run_time.tolist(), trace.number("speed").tolist()
    ([7], [nan], [2.5])
    """
    problems = Problems(source, strict)
    rows = CsvRows(blocks, source, problems)
    named = [_unmarked(name) for name in rows.header]
    names = [name for name, _ in named]
    check_header(names, source)
    place, id_place = names.index("submit_time"), names.index("job_id")
    codes = {k: (Codes(_as_is), GrowingColumn(-1)) for k, (name, mark) in enumerate(named) if _is_text(name, mark)}
    numbers = {k: GrowingColumn(np.nan) for k in range(len(named)) if k not in codes}
    jobs, ids = 0, list[str]()
    for lines, columns in rows.batches(
        range(len(named)), lambda cells: math.isfinite(_float(cells[place]) or math.nan)
    ):
        submit = _numbers(columns[place], None, lines, problems)
        keep = np.flatnonzero(np.isfinite(submit)).tolist()
        if len(keep) < len(lines):
            for k in np.flatnonzero(~np.isfinite(submit)).tolist():
                problems.drop(lines[k], "no submit_time (accepted: epoch seconds)", columns[place][k])
            columns = [tuple(column[k] for k in keep) for column in columns]
            lines = [lines[k] for k in keep]
        for k, (code_of, growing) in codes.items():
            if k != id_place:
                growing.add(code_of.of(columns[k]))
        for k, growing in numbers.items():
            name = named[k][0]
            values = _numbers(columns[k], name, lines, problems)
            growing.add(_sound(values, name, columns[k], lines, problems))
        ids += columns[id_place]
        jobs += len(lines)
    if not jobs:
        raise no_rows(source, problems, "--map FILE.toml, if this is not batchcast's own CSV")
    by_name: dict[str, Values] = {}
    for k, (name, mark) in enumerate(named):
        if k == id_place:
            by_name[name] = _ids(ids, mark)
        elif k in numbers:
            whole = numbers[k].join()
            by_name[name] = np.full(jobs, np.nan) if whole is None else whole
        else:
            code_of, growing = codes[k]
            joined = growing.join()
            by_name[name] = _typed(np.full(jobs, -1, np.int32) if joined is None else joined, code_of.names, name, mark)
    notes, per = tuple(problems.notes()), "processor" if any(mark == "processor" for _, mark in named) else "job"
    info = LogInfo(source=source, format="csv", dropped=problems.counts(), notes=notes, memory_per=per)
    return Trace(by_name, info)


def _unmarked(name: str) -> tuple[str, str]:
    """Returns a header name without its mark, and the mark (empty if there is none)."""
    plain, colon, mark = name.rpartition(":")
    return (plain, mark) if colon and mark in _MARKS else (name, "")


def _is_text(name: str, mark: str) -> bool:
    """Whether a column's cells are stored as texts until all cells are read, because only then the column's type is
    known."""
    known = COLUMNS.get(name)
    return mark not in ("number", "processor") and (bool(mark) or known is None or known.kind != "number")


def _as_is(text: str) -> str | None:
    """Returns a cell's text, or None if the cell is empty."""
    return text or None


def _numbers(texts: Sequence[str], name: str | None, lines: Sequence[int], problems: Problems) -> np.ndarray:
    """Returns texts as numbers; reports texts that are not numbers if the column's `name` is given."""
    try:
        return np.array([float(text) if text else math.nan for text in texts])
    except ValueError:
        values = [_float(text) for text in texts]
    bad = [k for k, value in enumerate(values) if value is None and name is not None]
    problems.unknown_at(bad, lines, f"{name}: not a number, read as unknown", texts)
    return np.array(values, dtype=float)


def _sound(values: np.ndarray, name: str, texts: Sequence[str], lines: Sequence[int], problems: Problems) -> np.ndarray:
    """Returns the numbers with impossible values replaced by NaN, as in `table.sound`. Reports impossible values other
    than -1."""
    known = COLUMNS.get(name)
    if known is None or name in (*INSTANTS, "wait_time"):
        return values
    bad = (values < 0) | np.isinf(values)
    for k in np.flatnonzero(bad & (values != -1)).tolist():
        problems.unknown(lines[k], f"{name}: {'negative' if values[k] < 0 else 'infinite'}, read as unknown", texts[k])
    return np.where(bad, math.nan, values)


def _float(text: str) -> float | None:
    """Returns a number, also with a decimal comma (as spreadsheets of many countries write numbers); None if the text
    is not a number.
    """
    try:
        return float(text.replace(",", ".", 1)) if text else math.nan
    except ValueError:
        return None


def _typed(codes: np.ndarray, names: dict[str, int], name: str, mark: str) -> Values:
    """Returns a column from codes of texts; the column's name and mark determine its type."""
    texts = list(names)
    values: Sequence[int | str] = texts
    if mark == "json":
        values = [_word(text) for text in texts]
    elif name in COLUMNS or mark == "whole":
        values = list(map(int, texts)) if mark != "text" and all(map(_is_whole, texts)) else texts
    elif mark != "text" and texts and all(_float(text) is not None for text in texts):
        return np.array([*(_float(text) for text in texts), math.nan], dtype=float).take(codes)
    return Nominal.recode(codes, values)


def _word(text: str) -> int | str:
    """Returns the whole number or text of a JSON cell; a cell that is not JSON is returned unchanged."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else text


def _ids(texts: Sequence[str], mark: str) -> np.ndarray:
    """Returns the job ids, as integers or texts depending on the mark of their column."""
    if mark == "json":
        return np.array([str(_word(text)) for text in texts])
    return np.array(texts, dtype=str) if mark == "text" else as_ids(texts)


def _id_mark(values: np.ndarray, texts: Sequence[str]) -> str:
    """Returns the mark that the header name of a column of ids needs, so that the ids are read back unchanged."""
    if values.dtype.kind in "iu":
        return ""
    if any(map(_is_awkward, texts)):
        return "json"
    return "text" if as_ids(texts).dtype.kind == "i" else ""


def _nominal_texts(name: str, values: Nominal) -> tuple[str, list[str]]:
    """Returns the mark that the header name of a column of names needs, and the column's cells."""
    used = [values.categories[code] for code in np.unique(values.codes).tolist() if code >= 0]
    words = [value for value in used if isinstance(value, str)]
    if words and (len(words) < len(used) or any(map(_is_awkward, words))):
        return "json", _json_texts(values)
    cells = [*map(str, values.categories), ""]
    texts = [cells[code] for code in values.codes.tolist()]
    if name in COLUMNS:
        return ("text" if words and all(map(_is_whole, words)) else ""), texts
    if not words:
        return ("whole" if used else "text"), texts
    return ("text" if all(_float(word) is not None for word in words) else ""), texts


def _json_texts(values: Nominal) -> list[str]:
    """Returns the cells of a column of names as JSON values."""
    cells = [*map(json.dumps, values.categories), ""]
    return [cells[code] for code in values.codes.tolist()]


def _is_awkward(text: str) -> bool:
    """Whether CSV readers could change a text, or could read a part of it as a separate record."""
    return not text or any(c in "\n\r\0\ufeff" or "\ud800" <= c <= "\udfff" for c in text)


def _is_whole(text: str) -> bool:
    """Whether a text is a whole number without leading zeros or a plus sign."""
    digits = text.removeprefix("-")
    return len(text) < 19 and digits.isascii() and digits.isdigit() and str(int(digits)) == digits and text != "-0"


def _text(value: float) -> str:
    """Returns a number as a cell: empty for NaN, whole numbers without a point."""
    if math.isnan(value):
        return ""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(value)
