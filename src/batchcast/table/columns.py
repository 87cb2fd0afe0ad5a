# SPDX-License-Identifier: Apache-2.0
"""The columns of a trace and its provenance.

This module converts plain sequences to columns (names to codes, dates and durations to seconds) and marks impossible
values as unknown.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from ..columns import COLUMNS, DECLARED, SUMS
from ..errors import UsageError
from ..units import shortest


@dataclass(frozen=True, slots=True)
class LogInfo:
    """The provenance of a trace: its source, its time zone, its machine, and how batchcast has changed the data."""

    source: str = "(memory)"  # The log's file, the file's format, and the file's digest
    format: str = "memory"
    sha256: str = ""
    unix_start: float = 0.0  # Epoch second at which the log's clock reads 0
    timezone: str = "UTC"  # The time zone of the log, and the source of this information
    timezone_source: str = "default"
    max_procs: float = float("nan")  # Processors and nodes of the machine. NaN means unknown.
    max_procs_source: str = "unknown"  # Where `max_procs` comes from: `header`, `--procs-total`, `peak` or `unknown`
    max_nodes: float = float("nan")
    header: Mapping[str, str] = field(default_factory=dict)  # The log's header fields
    # For each column with numeric codes, the names that the codes stand for.
    names: Mapping[str, Mapping[int | str, str]] = field(default_factory=dict)
    # Undeclared columns that the user marked as known at submission, see `Trace.knowing`.
    known_at_submit: tuple[str, ...] = ()
    # Number of records that were left out, by rule for irregular data.
    dropped: Mapping[str, int] = field(default_factory=dict)
    # Messages about the log for people (unsorted input, a wrong header), in order of appearance.
    notes: tuple[str, ...] = ()
    private: bool = False  # Whether results must hide user names
    memory_per: str = "job"  # The unit of the memory columns: `job`, or `processor` in SWF

    def with_dropped(self, rule: str, count: int) -> LogInfo:
        """Return a copy in which more records are counted as left out by a rule."""
        # A count of 0 is recorded too, and shows that the rule was applied.
        return replace(self, dropped={**self.dropped, rule: self.dropped.get(rule, 0) + int(count)})

    def with_note(self, note: str) -> LogInfo:
        """Return a copy with one more note."""
        return replace(self, notes=(*self.notes, note))


@dataclass(frozen=True, slots=True)
class Nominal:
    """A dictionary-coded column of names."""

    codes: np.ndarray  # Index of each row's category, int32, shape (n,); -1 means that the name is unknown
    categories: tuple[int | str, ...]  # The distinct names, as whole numbers or texts

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def encode(cls, values: Sequence[Any] | np.ndarray) -> Nominal:
        """Encode plain values as a column with sorted categories, numbers before texts; None and NaN mean unknown.

        >>> Nominal.encode(["b", None, "a", "b"])
        Nominal(codes=array([ 1, -1,  0,  1], dtype=int32), categories=('a', 'b'))
        """
        array = np.asarray(values)
        if array.dtype.kind in "iuf":
            known = ~np.isnan(array)
            codes = np.full(len(array), -1, dtype=np.int32)
            names, codes[known] = np.unique(array[known], return_inverse=True)
            return cls(codes, tuple(int(v) if v == int(v) else str(v) for v in names.tolist()))
        ordered = sorted_names(v for v in values if v is not None and v == v)
        code = {v: k for k, v in enumerate(ordered)}
        return cls(np.fromiter((code.get(v, -1) for v in values), dtype=np.int32, count=len(values)), ordered)

    @classmethod
    def recode(cls, codes: np.ndarray, names: Sequence[int | str | None]) -> Nominal:
        """Build a column from codes into names that can be unsorted, repeated or None (unknown).

        >>> Nominal.recode(np.array([0, 1, 2, -1]), ["b", None, "a"])
        Nominal(codes=array([ 1, -1,  0, -1], dtype=int32), categories=('a', 'b'))
        """
        ordered = sorted_names(name for name in names if name is not None)
        code: dict[int | str | None, int] = {None: -1, **{name: k for k, name in enumerate(ordered)}}
        return cls(np.array([*(code[name] for name in names), -1], dtype=np.int32)[codes], ordered)

    @classmethod
    def join(cls, parts: Sequence[Nominal]) -> Nominal:
        """Join columns of names into one."""
        first = parts[0].categories
        same = all(part.categories is first for part in parts)
        categories = first if same else sorted_names(name for part in parts for name in part.categories)
        return cls(np.concatenate([part.coded(categories).codes for part in parts]), categories)

    def coded(self, categories: tuple[int | str, ...]) -> Nominal:
        """Return the same names with codes into the given categories, which must include all names."""
        if self.categories is categories:
            return self
        new_code = {name: code for code, name in enumerate(categories)}
        new = np.array([*(new_code[name] for name in self.categories), -1], dtype=np.int32)
        return Nominal(new[self.codes], categories)

    def take(self, rows: np.ndarray) -> Nominal:
        """Return selected rows of the column, with the same categories, so that codes can be compared."""
        return Nominal(frozen(self.codes[rows]), self.categories)

    def is_any(self, names: Collection[int | str | None]) -> np.ndarray:
        """Return a boolean mask, shape (n,), of the rows with one of the names; None means unknown."""
        return np.asarray([name in names for name in (*self.categories, None)], dtype=bool).take(self.codes)

    def where(self, rows: np.ndarray, name: str) -> Nominal:
        """Return the column with another name in the rows of a boolean mask; unused categories are dropped."""
        words = np.array([*self.categories, None], dtype=object)[self.codes]
        words[rows] = name
        return Nominal.encode(words.tolist())

    def decode(self) -> list[int | str | None]:
        """Return the values as a list; unknown values are None."""
        names = [*self.categories, None]
        return [names[code] for code in self.codes.tolist()]

    def is_known(self) -> np.ndarray:
        """Return a boolean mask, shape (n,), of the rows with a known value."""
        return self.codes >= 0


Values = np.ndarray | Nominal


def sorted_names(names: Iterable[int | str]) -> tuple[int | str, ...]:
    """Return the distinct names in sorted order, numbers before texts."""
    return tuple(sorted(set(names), key=lambda name: (isinstance(name, str), name)))


def is_known(values: Values) -> np.ndarray:
    """Return a boolean mask, shape (n,), of the rows of a column with a known value."""
    if isinstance(values, Nominal):
        return values.is_known()
    return ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), dtype=bool)


def frozen(array: np.ndarray) -> np.ndarray:
    """Return a read-only view of an array."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


INSTANTS = ("submit_time", "eligible_time")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EXACT = 2.0**53


def did_you_mean(name: str, accepted: Iterable[str], most: int = 3) -> str:
    """Return a hint with the most similar accepted names; empty if none is similar."""
    near = get_close_matches(name, list(accepted), most)
    return f"did you mean {' or '.join(near)}?" if near else ""


def columns_of(source: Any) -> dict[str, Any]:
    """Return the columns of a mapping or a data frame as sequences by name.

    >>> columns_of({"submit_time": [0.0]})
    {'submit_time': [0.0]}
    """
    if not isinstance(source, Mapping) and not (hasattr(source, "items") and hasattr(source, "columns")):
        kind = type(source).__name__
        what = f"columns: a {kind} (accepted: a mapping of column names to sequences, a pandas DataFrame)"
        raise UsageError(what, hint="batchcast.from_arrow for polars, pyarrow, duckdb")
    pairs = list(source.items())
    names = [str(name) for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"columns: two columns are named {name!r}", hint="rename one of them")
        meant = _DECLARED.get(name.lower().replace("_", "").replace(" ", ""), name)
        if meant not in names:
            raise UsageError(f"columns: {name!r} (accepted: {meant})", hint="batchcast.columns.COLUMNS has the names")
        near = [] if name in DECLARED or name in SUMS else get_close_matches(name, COLUMNS, 1, cutoff=ALIKE)
        if near and near[0] not in names:
            hint = f"rename it to {near[0]}, or to a less similar name if it is an extra column"
            raise UsageError(f"columns: {name!r} (did you mean {near[0]}?)", hint=hint)
    return dict(zip(names, (values for _, values in pairs)))


ALIKE = 0.8
"""Similarity (`difflib`'s ratio) from which an unknown column name counts as misspelt."""
_DECLARED = {name.replace("_", ""): name for name in COLUMNS} | {"submit": "submit_time"}


def as_column(name: str, values: Any, unix_start: float = 0.0) -> Values:
    """Convert a sequence to the kind of column that its name implies.

    >>> as_column("submit_time", np.array(["1970-01-02", "NaT"], dtype="datetime64[D]")).tolist()
    [86400.0, nan]
    >>> as_column("submit_time", ["1970-01-01 00:01:30", "90"])
    array([90., 90.])
    >>> as_column("run_time", ["12", None])
    array([12., nan])
    """
    # None, NaN, NaT and NA mean unknown, and bytes are decoded as UTF-8. Dates can be datetime64, pandas or datetime
    # values, or ISO 8601 texts in columns of instants; dates without a zone are in UTC and become seconds on the log's
    # clock. Columns that batchcast does not declare become numbers if all values are numbers, else names.
    if isinstance(values, Nominal):
        return values
    array = _array(name, values)
    kind = COLUMNS[name].kind if name in COLUMNS else ""
    if kind == "id":
        return _ids(array)
    if kind == "nominal":
        return Nominal.encode(array.tolist() if array.dtype.kind in "OUSb" else array)
    if array.dtype.kind in "Mm":
        return _seconds(array, unix_start)
    if array.dtype.kind in "iufb":
        return array.astype(np.float64)
    is_time = array.dtype.kind == "O" and _holds_time(array)
    if not kind and not is_time:
        return _own_kind(array)
    rows = enumerate(array.tolist(), 1)
    return np.array([_number(name, row, v, unix_start, is_time) for row, v in rows], dtype=float)


def _array(name: str, values: Any) -> np.ndarray:
    """Return the values as a one-dimensional NumPy array; missing values of pandas types become None, NaN or NaT."""
    if hasattr(values, "notna") and hasattr(values, "to_numpy"):
        kind = str(values.dtype)
        if kind.startswith("datetime64"):
            values = values.to_numpy(dtype="datetime64[ns]")  # this call converts times with a zone to UTC
        elif isinstance(values.dtype, np.dtype):
            values = values.to_numpy()
        else:
            values = values.astype(object).where(values.notna(), None).to_numpy()
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise UsageError(f"{name}: {values!r} (accepted: a sequence of one value for each job)")
    if isinstance(values, Sequence) and any(value is None for value in values):
        array = np.empty(len(values), dtype=object)
        array[:] = values
    else:
        array = np.asarray(values)
    if array.ndim != 1:
        raise UsageError(f"{name}: an array of {array.ndim} dimensions (accepted: one value for each job)")
    if array.dtype.kind == "S" or (array.dtype.kind == "O" and any(isinstance(v, bytes) for v in array.tolist())):
        texts = [v.decode("utf-8", "backslashreplace") if isinstance(v, bytes) else v for v in array.tolist()]
        array = np.array(texts, dtype=object)
    return array


def _ids(array: np.ndarray) -> np.ndarray:
    """Return ids as int64 if all are whole numbers, else as text; a missing id becomes `row` and its number."""
    kind = array.dtype.kind
    if kind == "O" and all(isinstance(v, int) and not isinstance(v, bool) and abs(v) < 2**63 for v in array.tolist()):
        return array.astype(np.int64)
    if kind in "ib" or (kind == "u" and (array < 2**63).all()):
        return array.astype(np.int64)
    if kind == "f" and ((array == np.floor(array)) & (np.abs(array) < _EXACT)).all():
        return array.astype(np.int64)
    texts = [f"row{row}" if _is_missing(v) else shortest(v) for row, v in enumerate(array.tolist(), 1)]
    return np.array(texts, dtype=str)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _holds_time(array: np.ndarray) -> bool:
    """Whether the first value that is not missing is a date or a duration."""
    first = next((v for v in array.tolist() if not _is_missing(v)), None)
    return isinstance(first, (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64))


def _seconds(array: np.ndarray, unix_start: float) -> np.ndarray:
    """Return NumPy dates and durations as seconds."""
    missing = np.isnat(array)
    unit = "datetime64[us]" if array.dtype.kind == "M" else "timedelta64[us]"
    seconds: np.ndarray = array.astype(unit).astype(np.int64) / 1e6
    seconds[missing] = np.nan
    return seconds - unix_start if array.dtype.kind == "M" else seconds


def _number(name: str, row: int, value: Any, unix_start: float, is_time: bool) -> float:
    """Return one value of a column as a number, or as seconds if the column has dates or durations (`is_time`); NaN if
    the value is missing. A column of instants can have dates as text."""
    if not is_time:
        try:
            return float("nan") if _is_missing(value) or value == "" else float(value)
        except (TypeError, ValueError, OverflowError):
            if name not in INSTANTS or not isinstance(value, str):
                raise not_a_number(name, row, value) from None
            with suppress(ValueError):
                value = datetime.datetime.fromisoformat(value.strip())
    if isinstance(value, (np.datetime64, np.timedelta64)):
        value = value.astype("datetime64[us]" if isinstance(value, np.datetime64) else "timedelta64[us]").item()
    if _is_missing(value) or value != value:  # NaT, like NaN, does not equal itself
        return float("nan")
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if not isinstance(value, datetime.date):
        raise not_a_number(name, row, value)
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    return float((zoned - _EPOCH).total_seconds()) - unix_start


def not_a_number(name: str, row: int, value: Any) -> UsageError:
    """Build the error for a numeric column with a value that is not a number."""
    dates = ", dates, texts such as 2024-01-31T08:00:00" if name in INSTANTS else ""
    forms = f"numbers{dates}; None or NaN for unknown"
    return UsageError(f"{name}: row {row} is not a number: {str(value)[:80]!r} (accepted: {forms})")


def _own_kind(array: np.ndarray) -> Values:
    """Return an undeclared column: numbers if all values are numbers, else names."""
    from decimal import Decimal  # imported here because few logs have undeclared columns

    plain = array.tolist()
    if array.dtype.kind == "O" and all(v is None or isinstance(v, (int, float, Decimal)) for v in plain):
        return np.array([np.nan if v is None else float(v) for v in plain])
    return Nominal.encode(plain)


NO_SUBMIT = "no submit_time"


def sound(columns: Mapping[str, Values], info: LogInfo) -> tuple[dict[str, Values], LogInfo]:
    """Mark impossible numbers as unknown and drop rows without a submit time.

    >>> columns, info = sound({"submit_time": np.zeros(3), "run_time": np.array([-1.0, 5.0, -3.0])}, LogInfo())
    >>> columns["run_time"].tolist(), info.notes
    ([nan, 5.0, nan], ('1 values of run_time: negative, read as unknown (first: -3)',))
    """
    # In declared columns of numbers, negative and infinite values become NaN. A note reports the replaced values,
    # except -1, by which many logs mark unknown values. Instants may be negative, because they are on the log's own
    # clock. A wait may also be negative (a start recorded before the submission); a replay counts negative waits.
    # O(values).
    results = dict(columns)
    for name, values in columns.items():
        declared = COLUMNS.get(name)
        if declared is None or declared.kind != "number" or name in INSTANTS or isinstance(values, Nominal):
            continue
        negative = (values < 0) & ((name != "wait_time") | np.isinf(values))
        for what, bad in (("negative", negative), ("infinite", values == np.inf)):
            noted = bad & (values != -1)
            if noted.any():
                first = f"{values[int(np.argmax(noted))]:g}"
                info = info.with_note(f"{int(noted.sum())} values of {name}: {what}, read as unknown (first: {first})")
            if bad.any():
                results[name] = values = np.where(bad, np.nan, values)
    submit = results.get("submit_time")
    if isinstance(submit, np.ndarray) and not np.isfinite(submit).all():
        rows = np.flatnonzero(np.isfinite(submit))
        info = info.with_dropped(NO_SUBMIT, len(submit) - len(rows))
        results = {name: values.take(rows) for name, values in results.items()}
    return results, info


def log_order(submit_time: Values, job_id: Values) -> np.ndarray:
    """Return the row numbers of jobs in log order: by submit time, then job id, then row."""
    # Costs O(n log n), or O(n) if the jobs are in order already.
    submit, ids = np.asarray(submit_time, dtype=float), np.asarray(job_id)
    major, minor = (ids, np.zeros(len(ids))) if ids.dtype.kind in "iu" else _id_numbers(ids)
    is_sorted = np.ones(max(len(submit) - 1, 0), dtype=bool)
    for key in (minor, major, submit):
        is_sorted = (key[:-1] < key[1:]) | ((key[:-1] == key[1:]) & is_sorted)
    if is_sorted.all():
        return np.arange(len(submit))
    return np.lexsort((np.arange(len(submit)), minor, major, submit))


SORTED = "the records were not in order of submit time and job number: sorted"
"""The note of a log whose records were not in order."""


def in_log_order(columns: dict[str, Values]) -> tuple[dict[str, Values], bool]:
    """Return columns with their rows in log order, and whether the rows were in log order already.

    The given dictionary is emptied column by column, so that a log is never in memory twice.
    """
    order = log_order(columns["submit_time"], columns["job_id"])
    if bool((order[1:] > order[:-1]).all()):
        return columns, True
    return {name: columns.pop(name).take(order) for name in list(columns)}, False


def _id_numbers(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two numbers for each text id, (12, 3) for 12_3 and 12+3; ids without a leading number sort last."""
    parts = [re.match(r"(\d+)(?:\D+(\d+))?", str(text)) for text in ids.tolist()]
    major = np.array([float(m[1]) if m else np.inf for m in parts])
    minor = np.array([float(m[2]) if m and m[2] else -1.0 for m in parts])
    return major, minor
