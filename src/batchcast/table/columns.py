# SPDX-License-Identifier: Apache-2.0
"""The columns of a trace.

Names as codes, plain sequences with dates and durations as seconds, what no job can have read as unknown, and where a
trace came from.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from ..columns import COLUMNS, DECLARED, SUMS
from ..errors import UsageError


@dataclass(frozen=True, slots=True)
class LogInfo:
    """Where a trace came from and what was done to it on the way: what the report prints as provenance.

    `known_at_submit` names the undeclared columns that the user vouched for, see `Trace.knowing`. `memory_per` is the
    unit of the memory columns, `job` or `processor` (SWF). `unix_start` is the epoch second at which the log's clock
    reads 0; `max_procs_source` is `header`, `--procs-total`, `peak` or `unknown`; `dropped` counts records by the rule
    that left them out, `notes` are sentences for people (unsorted input, a header that lies), in the order they arose;
    where users are `private`, results name none of them.
    """

    source: str = "(memory)"
    format: str = "memory"
    sha256: str = ""
    unix_start: float = 0.0
    timezone: str = "UTC"
    timezone_source: str = "default"
    max_procs: float = float("nan")
    max_procs_source: str = "unknown"
    max_nodes: float = float("nan")
    header: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, Mapping[int | str, str]] = field(default_factory=dict)
    known_at_submit: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    private: bool = False
    memory_per: str = "job"

    def with_dropped(self, rule: str, count: int) -> LogInfo:
        """The same, with `count` more records left out by `rule` (0 is recorded too: the rule was applied)."""
        return replace(self, dropped={**self.dropped, rule: self.dropped.get(rule, 0) + int(count)})

    def with_note(self, note: str) -> LogInfo:
        """The same, with one more sentence."""
        return replace(self, notes=(*self.notes, note))


@dataclass(frozen=True, slots=True)
class Nominal:
    """A dictionary-coded column: `codes` (int32, -1 is null) into `categories` (whole numbers or text)."""

    codes: np.ndarray
    categories: tuple[int | str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def encode(cls, values: Sequence[Any] | np.ndarray) -> Nominal:
        """From plain values, None (or NaN) being null; categories in sorted order, numbers before text. O(n log n).

        >>> Nominal.encode(["b", None, "a", "b"])
        Nominal(codes=array([ 1, -1,  0,  1], dtype=int32), categories=('a', 'b'))
        """
        array = np.asarray(values)
        if array.dtype.kind in "iu":
            names, codes = np.unique(array, return_inverse=True)
            return cls(codes.astype(np.int32), tuple(names.tolist()))
        if array.dtype.kind == "f":
            known = ~np.isnan(array)
            codes = np.full(len(array), -1, dtype=np.int32)
            names, inverse = np.unique(array[known], return_inverse=True)
            codes[known] = inverse
            return cls(codes, tuple(int(v) if v == int(v) else str(v) for v in names.tolist()))
        present = {v for v in values if v is not None and v == v}
        ordered = sorted(present, key=lambda v: (isinstance(v, str), v))
        code = {v: k for k, v in enumerate(ordered)}
        return cls(np.fromiter((code.get(v, -1) for v in values), dtype=np.int32, count=len(values)), tuple(ordered))

    def take(self, rows: np.ndarray) -> Nominal:
        """The same column on other rows; the categories stay, so codes stay comparable."""
        return Nominal(frozen(self.codes[rows]), self.categories)

    def decode(self) -> list[int | str | None]:
        """Plain values, null as None."""
        names = [*self.categories, None]
        return [names[code] for code in self.codes.tolist()]

    def is_known(self) -> np.ndarray:
        """Boolean mask of the rows that hold a value."""
        return self.codes >= 0


Values = np.ndarray | Nominal


def frozen(array: np.ndarray) -> np.ndarray:
    """The array, read-only."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


INSTANTS = ("submit_time", "eligible_time")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EXACT = 2.0**53


def columns_of(source: Any) -> dict[str, Any]:
    """Sequences by column name from a mapping or a data frame; UsageError for anything else, or columns named twice.

    >>> columns_of({"submit_time": [0.0]})
    {'submit_time': [0.0]}
    """
    if not isinstance(source, Mapping) and not (hasattr(source, "items") and hasattr(source, "columns")):
        kind = type(source).__name__
        raise UsageError(
            f"columns: a {kind} (accepted: a mapping of column names to sequences, a pandas DataFrame)",
            hint="batchcast.from_arrow for polars, pyarrow, duckdb",
        )
    pairs = list(source.items())
    names = [str(name) for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"columns: two columns are named {name!r}", hint="rename one of them")
    for name in names:
        meant = _DECLARED.get(name.lower().replace("_", "").replace(" ", ""), name)
        if meant not in names:
            raise UsageError(f"columns: {name!r} (accepted: {meant})", hint="batchcast.columns.COLUMNS has the names")
        near = [] if name in DECLARED or name in SUMS else get_close_matches(name, COLUMNS, 1, cutoff=ALIKE)
        if near and near[0] not in names:
            raise UsageError(f"columns: {name!r} (did you mean {near[0]}?)",
                             hint=f"{near[0]}, or a name that is less like it for a column of your own")  # fmt: skip
    return dict(zip(names, (values for _, values in pairs)))


ALIKE = 0.8
"""How much alike two names are of which one is taken for a slip of the pen: `difflib`'s ratio."""
_DECLARED = {name.replace("_", ""): name for name in COLUMNS} | {"submit": "submit_time"}


def as_column(name: str, values: Any, unix_start: float = 0.0) -> Values:
    """A sequence as the column its name asks for: numbers as float64 seconds, names dictionary-coded, ids as they are.

    Dates (datetime64, pandas, datetime, and where instants are due ISO 8601 texts; without a zone: UTC) become seconds
    on a clock that reads 0 at `unix_start`, durations seconds; bytes are UTF-8 texts; None, NaN, NaT and NA are
    unknown. Raises UsageError that names column, row and value where a known column of numbers holds something else.
    O(n).

    >>> as_column("submit_time", np.array(["1970-01-02", "NaT"], dtype="datetime64[D]")).tolist()
    [86400.0, nan]
    >>> as_column("submit_time", ["1970-01-01 00:01:30", "90"])
    array([90., 90.])
    >>> as_column("run_time", ["12", None])
    array([12., nan])
    """
    if isinstance(values, Nominal):
        return values
    array = _array(name, values)
    known = COLUMNS.get(name)
    if known is not None and known.kind == "id":
        return _ids(array)
    if known is not None and known.kind == "nominal":
        return Nominal.encode(array.tolist() if array.dtype.kind in "OUSb" else array)
    if array.dtype.kind in "Mm" or (array.dtype.kind == "O" and _holds_time(array)):
        return _seconds(name, array, unix_start)
    if array.dtype.kind in "iufb":
        return array.astype(np.float64)
    if known is not None:
        return _numbers(name, array, unix_start)
    return _own_kind(array)


def _array(name: str, values: Any) -> np.ndarray:
    """One-dimensional, pandas's own kinds as numpy's: what is missing becomes None, NaN or NaT."""
    if hasattr(values, "notna") and hasattr(values, "to_numpy"):
        kind = str(values.dtype)
        if kind.startswith("datetime64"):
            values = values.to_numpy(dtype="datetime64[ns]")  # of a zone: in UTC
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
    """Whole numbers as int64, anything else as text; a job without an id is named by its row."""
    kind = array.dtype.kind
    if kind == "O" and all(isinstance(v, int) and not isinstance(v, bool) and abs(v) < 2**63 for v in array.tolist()):
        return array.astype(np.int64)
    if kind in "ib" or (kind == "u" and (array < 2**63).all()):
        return array.astype(np.int64)
    if kind == "f" and ((array == np.floor(array)) & (np.abs(array) < _EXACT)).all():
        return array.astype(np.int64)
    texts = [f"row{row}" if _is_missing(v) else _id_text(v) for row, v in enumerate(array.tolist(), 1)]
    return np.array(texts, dtype=str)


def _id_text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _holds_time(array: np.ndarray) -> bool:
    """Whether the first value that is there is a date or a duration."""
    first = next((v for v in array.tolist() if not _is_missing(v)), None)
    return isinstance(first, (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64))


def _seconds(name: str, array: np.ndarray, unix_start: float) -> np.ndarray:
    if array.dtype.kind == "O":
        return np.array([_one_time(name, row, v, unix_start) for row, v in enumerate(array.tolist(), 1)])
    missing = np.isnat(array)
    unit = "datetime64[us]" if array.dtype.kind == "M" else "timedelta64[us]"
    seconds: np.ndarray = array.astype(unit).astype(np.int64) / 1e6
    seconds[missing] = np.nan
    return seconds - unix_start if array.dtype.kind == "M" else seconds


def _one_time(name: str, row: int, value: Any, unix_start: float) -> float:
    if isinstance(value, (np.datetime64, np.timedelta64)):
        value = value.astype("datetime64[us]" if isinstance(value, np.datetime64) else "timedelta64[us]").item()
    if _is_missing(value) or value != value:  # NaT is not itself
        return float("nan")
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.date):
        if not isinstance(value, datetime.datetime):
            value = datetime.datetime(value.year, value.month, value.day)
        zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return float((zoned - _EPOCH).total_seconds()) - unix_start
    raise not_a_number(name, row, value)


def _numbers(name: str, array: np.ndarray, unix_start: float) -> np.ndarray:
    """Numbers that came as objects or as texts, dates among them; UsageError at the first that is neither."""
    values = np.empty(len(array))
    for row, value in enumerate(array.tolist(), 1):
        try:
            values[row - 1] = np.nan if _is_missing(value) or value == "" else float(value)
        except (TypeError, ValueError, OverflowError):
            values[row - 1] = _dated(name, row, value, unix_start)
    return values


def _dated(name: str, row: int, value: Any, unix_start: float) -> float:
    """Seconds of a text that is a date, where an instant is due."""
    if name in INSTANTS and isinstance(value, str):
        try:
            return _one_time(name, row, datetime.datetime.fromisoformat(value.strip()), unix_start)
        except ValueError:
            pass
    raise not_a_number(name, row, value)


def not_a_number(name: str, row: int, value: Any) -> UsageError:
    """The error for a value that is no number where numbers are due."""
    dates = ", dates, texts such as 2024-01-31T08:00:00" if name in INSTANTS else ""
    forms = f"numbers{dates}; None or NaN for unknown"
    return UsageError(f"{name}: row {row} is not a number: {str(value)[:80]!r} (accepted: {forms})")


def _own_kind(array: np.ndarray) -> Values:
    """A column of a name that is not ours: numbers where all are, else names."""
    from decimal import Decimal  # from here down, few logs come this way

    plain = array.tolist()
    if array.dtype.kind == "O" and all(v is None or isinstance(v, (int, float, Decimal)) for v in plain):
        return np.array([np.nan if v is None else float(v) for v in plain])
    return Nominal.encode(plain)


NO_SUBMIT = "no submit_time"


def sound(columns: Mapping[str, Values], info: LogInfo) -> tuple[dict[str, Values], LogInfo]:
    """The columns with impossible numbers unknown, without rows that have no submit time, and what was done, noted.

    Of our own columns of numbers, negative values and infinite ones (a limit that is none) become NaN, and are noted
    but for -1, which is how many logs write unknown. Instants may be negative, they are on the log's own clock, and so
    may a wait (a start recorded before its submission), which the recorded clock counts. Rows whose submit time is
    unknown or infinite are left out and counted in `info.dropped`. Columns without such values are handed on as are.
    O(values).

    >>> columns, info = sound({"submit_time": np.zeros(3), "run_time": np.array([-1.0, 5.0, -3.0])}, LogInfo())
    >>> columns["run_time"].tolist(), info.notes
    ([nan, 5.0, nan], ('1 values of run_time: negative, read as unknown (first: -3)',))
    """
    kept = dict(columns)
    for name, values in columns.items():
        known = COLUMNS.get(name)
        if known is None or known.kind != "number" or name in INSTANTS or isinstance(values, Nominal):
            continue
        negative = (values < 0) & ((name != "wait_time") | np.isinf(values))
        for what, bad in (("negative", negative), ("endless", values == np.inf)):
            strange = bad & (values != -1)
            if strange.any():
                first = f"{values[int(np.argmax(strange))]:g}"
                info = info.with_note(
                    f"{int(strange.sum())} values of {name}: {what}, read as unknown (first: {first})"
                )
            if bad.any():
                kept[name] = values = np.where(bad, np.nan, values)
    submit = kept.get("submit_time")
    if isinstance(submit, np.ndarray) and not np.isfinite(submit).all():
        rows = np.flatnonzero(np.isfinite(submit))
        info = info.with_dropped(NO_SUBMIT, len(submit) - len(rows))
        kept = {n: v.take(rows) if isinstance(v, Nominal) else v[rows] for n, v in kept.items()}
    return kept, info


def log_order(submit_time: Values, job_id: Values) -> np.ndarray:
    """Row numbers in log order: submit time, then job id, then row. O(n log n), O(n) when already in order."""
    submit, ids = np.asarray(submit_time, dtype=float), np.asarray(job_id)
    major, minor = (ids, np.zeros(len(ids))) if ids.dtype.kind in "iu" else _id_numbers(ids)
    before = submit[:-1], major[:-1], minor[:-1]
    after = submit[1:], major[1:], minor[1:]
    later = before[0] < after[0]
    same = before[0] == after[0]
    later |= same & (before[1] < after[1])
    later |= same & (before[1] == after[1]) & (before[2] <= after[2])
    if later.all():
        return np.arange(len(submit))
    return np.lexsort((np.arange(len(submit)), minor, major, submit))


def _id_numbers(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Text ids such as 12_3 or 12+1 as (12, 3); ids without a leading number sort last, by row."""
    parts = [re.match(r"(\d+)(?:\D+(\d+))?", str(text)) for text in ids.tolist()]
    major = np.array([float(m[1]) if m else np.inf for m in parts])
    minor = np.array([float(m[2]) if m and m[2] else -1.0 for m in parts])
    return major, minor
