# SPDX-License-Identifier: Apache-2.0
"""Builds a trace from an Arrow table; the trace's provenance comes from the metadata of the table's schema."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ..columns import COLUMNS
from ..errors import UsageError, input_error
from .columns import INSTANTS, LogInfo, Nominal, Values, as_column, sound
from .result import METADATA, VERSION, arrow, info_to_json, to_arrow
from .trace import Trace


def read_column(name: str, values: Any, kind: str, is_mixed: bool = False) -> Values | None:
    """Convert a pyarrow ChunkedArray to float64 numbers, names or ids, as `kind` says, or the Arrow type if `kind` is
    empty; None for a nested type."""
    # `is_mixed`: the texts are JSON values, which batchcast writes if a column mixes whole numbers and texts.
    import pyarrow as pa

    values = _unwrapped(pa, values)
    if pa.types.is_nested(values.type):
        return None
    is_text = pa.types.is_string(_value_type(pa, values))
    if kind == "id":
        return as_column("job_id", _unpacked(pa, values).to_pylist())
    if kind == "nominal" or (not kind and is_text):
        return _names(pa, values, is_mixed) if is_text else _plain_names(pa, _unpacked(pa, values))
    return _numbers(pa, name, _unpacked(pa, values), kind)


def _unwrapped(pa: Any, values: Any) -> Any:
    """Return the values with plain storage types: no extension or run-end-encoded types, and `string` for all texts."""
    import pyarrow.compute as pc

    if isinstance(values.type, pa.BaseExtensionType):
        values = pa.chunked_array([chunk.storage for chunk in values.chunks], type=values.type.storage_type)
    if pa.types.is_run_end_encoded(values.type):
        values = pa.chunked_array([pc.run_end_decode(chunk) for chunk in values.chunks], type=values.type.value_type)
    text_kinds = ("large_string", "string_view", "binary", "large_binary", "fixed_size_binary", "binary_view")
    if any(getattr(pa.types, f"is_{kind}")(_value_type(pa, values)) for kind in text_kinds):
        values = _unpacked(pa, values).cast(pa.string())
    return values


def _value_type(pa: Any, values: Any) -> Any:
    """Return the type of the values, or of the dictionary's values if they are dictionary-encoded."""
    return values.type.value_type if pa.types.is_dictionary(values.type) else values.type


def _unpacked(pa: Any, values: Any) -> Any:
    """Return the values without dictionary encoding."""
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def _numbers(pa: Any, name: str, values: Any, kind: str) -> np.ndarray:
    """Return the values as float64, with times and durations in seconds."""
    types = pa.types
    if types.is_string(values.type):
        values = _parsed(pa, name, values, kind)
    per_second = 1.0
    if types.is_date(values.type):
        values = values.cast(pa.timestamp("ms"))
    if types.is_timestamp(values.type) or types.is_duration(values.type) or types.is_time(values.type):
        per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[values.type.unit]
        values = values.cast(pa.int32() if types.is_time32(values.type) else pa.int64())
    if types.is_boolean(values.type):
        values = values.cast(pa.int8())
    numbers = values.cast(pa.float64(), safe=False).fill_null(float("nan"))
    return np.asarray(numbers.to_numpy(), dtype=float) / per_second


def _parsed(pa: Any, name: str, values: Any, kind: str) -> Any:
    """Return texts as numbers, or as timestamps in a column of instants; UsageError names the row and the value."""
    import pyarrow.compute as pc

    values = pc.if_else(pc.equal(pc.utf8_trim_whitespace(values), ""), pa.scalar(None, pa.string()), values)
    times = [pa.timestamp("us"), pa.timestamp("us", "UTC")] if kind == "instant" else []
    for each in (pa.float64(), *times):
        with suppress(pa.ArrowInvalid):
            return values.cast(each)
    return pa.array(as_column(name, values.to_pylist()))


def _plain_names(pa: Any, values: Any) -> Nominal:
    """Return values that are not texts as names: whole numbers stay numbers, other values are converted to text."""
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_null(values.type):
        return Nominal.encode(values.to_pylist())
    return _names(pa, values.cast(pa.string()), False)


def _names(pa: Any, values: Any, is_mixed: bool) -> Nominal:
    """Return texts as codes into sorted categories; categories that occur twice in the Arrow dictionary are merged."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    combined = values.unify_dictionaries().combine_chunks()
    names = [None if c is None else _json_category(c) if is_mixed else c for c in combined.dictionary.to_pylist()]
    codes = np.asarray(combined.indices.fill_null(len(names)).to_numpy(zero_copy_only=False), dtype=np.int64)
    return Nominal.recode(codes, names)


def _json_category(text: str) -> int | str:
    """Decode a JSON whole number or text; ValueError for any other value."""
    value = json.loads(text)
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"not a whole number or a text: {text[:40]!r}")
    return value


__all__ = ["arrow", "from_arrow", "info_from_json", "info_to_json", "to_arrow"]


def from_arrow(table: Any, name: str = "(arrow)") -> Trace:
    """Build a trace from a pyarrow Table, or from any object with `__arrow_c_stream__` (polars, duckdb, pandas).

    Parameters
    ----------
    table
        A table with at least the column `submit_time`. A column with one of batchcast's names is converted to the type
        of that column. Numbers, decimals, booleans and numeric texts become float64; whole numbers above 2**53 are
        rounded. Dates and timestamps become epoch seconds (UTC if they have no zone). Durations and times of day become
        seconds. Texts in other columns become names. Nested columns and rows without a submit time are left out and
        counted.
    name
        Name of the table in messages and reports.

    Returns
    -------
    Trace
        `info.dropped` counts the rows and columns that were left out, and `info.notes` describes the values that were
        changed.

    Raises
    ------
    InputError
        If a column is missing, occurs twice or cannot be read. The message names the row and the value if they are
        known.

    Examples
    --------
    >>> import pyarrow
    >>> from_arrow(pyarrow.table({"submit_time": [0.0, 5.0], "run_time": [9.0, None], "user_id": ["a", "b"]})).run_time
    array([ 9., nan])
    """
    pa, _ = arrow()
    table = _table(pa, table, name)
    _check_names(table.column_names, name)
    info, nominal, mixed = _note((table.schema.metadata or {}).get(METADATA), name)
    info = replace(info, source=name, format="arrow")
    columns: dict[str, Values] = {}
    for column in table.column_names:
        kind = _kind_of(column, column in nominal)
        try:
            values = read_column(column, table[column], kind, column in mixed)
        except UsageError as error:
            raise input_error(name, f"column {error.message}") from None
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            reason = (str(error).splitlines() or [""])[0][:120]
            raise input_error(name, f"column {column} cannot be read as {_FORMS[kind]} ({reason})") from None
        if values is not None:
            columns[column] = values
    skipped = len(table.column_names) - len(columns)
    columns.setdefault("job_id", np.arange(1, table.num_rows + 1, dtype=np.int64))
    if skipped:
        info = info.with_dropped("column of a nested type", skipped)
    return Trace(*sound(columns, info))


_FORMS = {"id": "job ids", "instant": "times", "number": "numbers", "nominal": "names", "": "numbers or names"}


def _kind_of(column: str, is_nominal: bool) -> str:
    """Return the kind (`number`, `nominal`, ...) to which a column is converted; empty if its Arrow type decides."""
    if column in COLUMNS:
        return "instant" if column in INSTANTS else COLUMNS[column].kind
    return "nominal" if is_nominal else ""


def _table(pa: Any, table: Any, name: str) -> Any:
    """Return the object as a validated pyarrow Table."""
    try:
        if not isinstance(table, pa.Table):
            table = pa.table(table)
        table.validate(full=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        kinds = "a pyarrow Table, or an object with __arrow_c_stream__"
        raise input_error(name, f"is not a readable table ({str(error)[:120]})", accepted=kinds) from None
    return table


def _check_names(names: Sequence[str], source: str) -> None:
    """Raise InputError if a column name occurs twice or `submit_time` is missing."""
    for column in names:
        if names.count(column) > 1:
            raise input_error(source, "two columns have the same name", value=column, hint="rename one of them")
    if "submit_time" not in names:
        shown = ", ".join(names[:8])
        accepted = "the column names of batchcast.columns.COLUMNS"
        raise input_error(source, "has no column submit_time", value=shown, accepted=accepted)


def _note(text: bytes | None, name: str) -> tuple[LogInfo, Collection[str], Collection[str]]:
    """Return the log's provenance from batchcast's metadata of a table, the columns of names, and the columns that mix
    whole numbers and texts; all are empty if batchcast did not write the table."""
    if text is None:
        return LogInfo(), (), ()
    try:
        document = json.loads(text)
        version = int(document.get("version", VERSION))
        if version <= VERSION:
            info = info_from_json(document["info"]) if "info" in document else LogInfo()
            nominal, mixed = (frozenset(map(str, document.get(kind, ()))) for kind in ("nominal", "mixed"))
            return info, nominal, mixed
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        hint = "write the file again with batchcast"
        raise input_error(name, "batchcast's metadata in its schema is damaged", hint=hint) from None
    what = "was written by a newer batchcast: metadata version"
    raise input_error(name, what, value=version, accepted=f"at most {VERSION}")


def info_from_json(plain: Mapping[str, Any]) -> LogInfo:
    """Build a `LogInfo` from the mapping that `info_to_json` returns.

    >>> info_from_json(info_to_json(LogInfo(names={"user_id": {3: "ada"}}))).names
    {'user_id': {3: 'ada'}}
    """
    import msgspec

    values = {name: plain[name] for name in LogInfo.__dataclass_fields__ if plain.get(name) is not None}
    if "names" in values:
        values["names"] = {column: dict(pairs) for column, pairs in values["names"].items()}
    try:
        return msgspec.convert(values, LogInfo)
    except msgspec.ValidationError as error:
        raise TypeError(str(error)) from None
