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
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...columns import COLUMNS
from ...table import LogInfo, Nominal, Trace, Values
from ...table.columns import INSTANTS
from ...units import shortest
from ..chunks import Codes, LogColumns, Problems, as_ids, rows_of
from .rows import CsvRows, check_header, no_rows

_MARKS = ("text", "whole", "number", "json", "processor")


def is_own(header: Sequence[str]) -> bool:
    """Whether a header belongs to batchcast's own CSV: it has the columns `job_id` and `submit_time`.

    >>> is_own(["job_id:text", "submit_time", "run_time"]), is_own(["JobID", "Submit"])
    (True, False)
    """
    return {"job_id", "submit_time"} <= {_unmarked(name)[0] for name in header}


def header_and_texts(trace: Trace) -> tuple[list[str], list[list[str]]]:
    """Return the header and all columns as texts; unknown values are empty, and instants are epoch seconds.

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
            texts = ["" if math.isnan(value) else shortest(value + shift) for value in values.tolist()]
            mark = "" if name in COLUMNS or any(texts) else "number"
            if name in COLUMNS and COLUMNS[name].unit == "KiB" and trace.info.memory_per == "processor":
                mark = "processor"
        else:
            texts = [str(value) for value in values.tolist()]
            mark = _id_mark(values, texts)
            texts = [json.dumps(text) for text in texts] if mark == "json" else texts
        if not mark and _unmarked(name)[1]:  # a column name that ends like a mark needs a real mark after it
            mark, texts = ("json", _cells(values, json.dumps)) if isinstance(values, Nominal) else ("number", texts)
        names.append(f"{name}:{mark}" if mark else name)
        columns.append(texts)
    return names, columns


def read_own_csv(blocks: Iterable[bytes], source: str = "(memory)", *, strict: bool = False) -> Trace:
    """Read batchcast's own CSV; times are epoch seconds.

    >>> trace = read_own_csv([b"job_id,submit_time,run_time,speed\\n7,10,,2.5\\n"])
    >>> trace.job_id.tolist(), trace.run_time.tolist(), trace.number("speed").tolist()
    ([7], [nan], [2.5])
    """
    # A row without a submit time or with another number of cells is dropped and counted; other values that cannot be
    # read are unknown and counted.
    problems = Problems(source, strict)
    rows = CsvRows(blocks, source, problems)
    named = [_unmarked(name) for name in rows.header]
    names = [name for name, _ in named]
    check_header(names, source)
    # A column whose type depends on all of its cells is stored as texts first.
    words = {
        name: Codes(lambda text: text or None)
        for name, mark in named
        if mark not in ("number", "processor") and (mark or name not in COLUMNS or COLUMNS[name].kind != "number")
    }
    submit, gathered = names.index("submit_time"), LogColumns(words)
    batches = rows.batches(range(len(names)), lambda cells: math.isfinite(_float(cells[submit]) or math.nan))
    for lines, columns in batches:
        is_dated = np.isfinite(_numbers(columns[submit], None, lines, problems))
        if not is_dated.all():
            for k in np.flatnonzero(~is_dated).tolist():
                problems.drop(lines[k], "no submit_time (accepted: epoch seconds)", columns[submit][k])
            columns, lines = rows_of(np.flatnonzero(is_dated).tolist(), columns, lines)
        texts = dict(zip(names, columns))
        ids = np.array(texts.pop("job_id"), dtype=str)
        values = {
            name: words[name].encode(cells) if name in words else _numbers(cells, name, lines, problems)
            for name, cells in texts.items()
        }
        gathered.add(ids, values)
    if not gathered.jobs:
        raise no_rows(source, problems, "--map FILE.toml, if this is not batchcast's own CSV")
    known: dict[str, Any] = dict(gathered.join())
    unknown = np.full(gathered.jobs, np.nan)
    by_name: dict[str, Values] = {}
    for name, mark in named:
        if name == "job_id":
            by_name[name] = _ids(known[name].tolist(), mark)
        elif name in words:
            by_name[name] = _typed(known.get(name, Nominal.encode(unknown)), name, mark)
        else:
            by_name[name] = known.get(name, unknown)
    notes, per = tuple(problems.notes()), "processor" if any(mark == "processor" for _, mark in named) else "job"
    info = LogInfo(source=source, format="csv", dropped=problems.counts(), notes=notes, memory_per=per)
    return Trace(by_name, info)


def _unmarked(name: str) -> tuple[str, str]:
    """Return a header name without its mark, and the mark (empty if there is none)."""
    plain, colon, mark = name.rpartition(":")
    return (plain, mark) if colon and mark in _MARKS else (name, "")


def _numbers(texts: Sequence[str], name: str | None, lines: Sequence[int], problems: Problems) -> np.ndarray:
    """Return texts as numbers, with impossible values replaced by NaN as in `table.sound`. If the column's `name` is
    given, texts that are not numbers and impossible numbers other than -1 are reported."""
    try:
        values = np.array([float(text) if text else math.nan for text in texts])
    except ValueError:
        parsed = [_float(text) for text in texts]
        bad_rows = [k for k, value in enumerate(parsed) if value is None and name is not None]
        problems.unknown_at(bad_rows, lines, f"{name}: not a number, read as unknown", texts)
        values = np.array(parsed, dtype=float)
    if name not in COLUMNS or name in (*INSTANTS, "wait_time"):
        return values
    bad = (values < 0) | np.isinf(values)
    for k in np.flatnonzero(bad & (values != -1)).tolist():
        problems.unknown(lines[k], f"{name}: {'negative' if values[k] < 0 else 'infinite'}, read as unknown", texts[k])
    return np.where(bad, math.nan, values)


def _float(text: str) -> float | None:
    """Return a number, also with a decimal comma (as spreadsheets of many countries write numbers); None if the text
    is not a number."""
    try:
        return float(text.replace(",", ".", 1)) if text else math.nan
    except ValueError:
        return None


def _typed(column: Nominal, name: str, mark: str) -> Values:
    """Return a column of texts with the type that the column's name, mark and texts imply."""
    texts = list(map(str, column.categories))
    values: Sequence[int | str] = texts
    if mark == "json":
        values = [_json_value(text) for text in texts]
    elif name in COLUMNS or mark == "whole":
        values = list(map(int, texts)) if mark != "text" and all(map(_is_whole, texts)) else texts
    elif mark != "text" and texts and all(_float(text) is not None for text in texts):
        return np.array([*(_float(text) for text in texts), math.nan], dtype=float).take(column.codes)
    return Nominal.recode(column.codes, values)


def _json_value(text: str) -> int | str:
    """Return the whole number or text of a JSON cell; a cell that is not JSON is returned unchanged."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else text


def _ids(texts: Sequence[str], mark: str) -> np.ndarray:
    """Return the job ids, as integers or texts depending on the mark of their column."""
    if mark == "json":
        return np.array([str(_json_value(text)) for text in texts])
    return np.array(texts, dtype=str) if mark == "text" else as_ids(texts)


def _id_mark(values: np.ndarray, texts: Sequence[str]) -> str:
    """Return the mark that the header name of a column of ids needs, so that the ids are read back unchanged."""
    if values.dtype.kind in "iu":
        return ""
    if any(map(_is_awkward, texts)):
        return "json"
    return "text" if as_ids(texts).dtype.kind == "i" else ""


def _nominal_texts(name: str, values: Nominal) -> tuple[str, list[str]]:
    """Return the mark that the header name of a column of names needs, and the column's cells."""
    used = [values.categories[code] for code in np.unique(values.codes).tolist() if code >= 0]
    words = [value for value in used if isinstance(value, str)]
    if words and (len(words) < len(used) or any(map(_is_awkward, words))):
        return "json", _cells(values, json.dumps)
    texts = _cells(values)
    if name in COLUMNS:
        return ("text" if words and all(map(_is_whole, words)) else ""), texts
    if not words:
        return ("whole" if used else "text"), texts
    return ("text" if all(_float(word) is not None for word in words) else ""), texts


def _cells(values: Nominal, spell: Callable[[int | str], str] = str) -> list[str]:
    """Return the cells of a column of names, empty for unknown names."""
    cells = [*map(spell, values.categories), ""]
    return [cells[code] for code in values.codes.tolist()]


def _is_awkward(text: str) -> bool:
    """Whether CSV readers could change a text, or could read a part of it as a separate record."""
    return not text or any(c in "\n\r\0\ufeff" or "\ud800" <= c <= "\udfff" for c in text)


def _is_whole(text: str) -> bool:
    """Whether a text is a whole number without leading zeros or a plus sign."""
    digits = text.removeprefix("-")
    return len(text) < 19 and digits.isascii() and digits.isdigit() and str(int(digits)) == digits and text != "-0"
