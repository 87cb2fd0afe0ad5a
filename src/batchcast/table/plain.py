"""Plain sequences as columns of a trace: lists, numpy arrays, pandas Series, with dates and durations as seconds."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ..columns import COLUMNS
from ..errors import UsageError
from .nominal import Nominal, Values

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
    return dict(zip(names, (values for _, values in pairs)))


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
    plain = array.tolist()
    if array.dtype.kind == "O" and all(v is None or isinstance(v, (int, float, Decimal)) for v in plain):
        return np.array([np.nan if v is None else float(v) for v in plain])
    return Nominal.encode(plain)
