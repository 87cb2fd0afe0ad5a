# SPDX-License-Identifier: Apache-2.0
"""A trace from Arrow: our columns, extra columns, and the provenance in the schema's metadata."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from ..columns import COLUMNS
from ..errors import UsageError, input_error
from .columns import INSTANTS, LogInfo, Nominal, Values, as_column, sound
from .result import METADATA, VERSION, arrow, info_to_json, to_arrow
from .trace import Trace


def read_column(name: str, values: Any, kind: str, is_mixed: bool = False) -> Values | None:
    """A pyarrow ChunkedArray as float64, names or ids; None when it is nested.

    `kind` is `id`, `instant`, `number`, `nominal`, or empty where the column's own type decides; `is_mixed` says that
    texts are JSON words. Raises ArrowInvalid, ValueError or, with row and value, UsageError for values that are not of
    that kind.
    """
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
    """Extension types as what they are stored as, run ends written out, every kind of text as `string`."""
    import pyarrow.compute as pc

    if isinstance(values.type, pa.BaseExtensionType):
        values = pa.chunked_array([chunk.storage for chunk in values.chunks], type=values.type.storage_type)
    if pa.types.is_run_end_encoded(values.type):
        values = pa.chunked_array([pc.run_end_decode(chunk) for chunk in values.chunks], type=values.type.value_type)
    kind = _value_type(pa, values)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or _is_binary(pa, kind):
        values = _unpacked(pa, values).cast(pa.string())
    return values


def _is_binary(pa: Any, kind: Any) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(test(kind) for test in tests)


def _value_type(pa: Any, values: Any) -> Any:
    return values.type.value_type if pa.types.is_dictionary(values.type) else values.type


def _unpacked(pa: Any, values: Any) -> Any:
    """A dictionary written out."""
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def _numbers(pa: Any, name: str, values: Any, kind: str) -> np.ndarray:
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
    """Texts as numbers; where times are due, also as dates with or without a zone. UsageError names row and value."""
    import pyarrow.compute as pc

    values = pc.if_else(pc.equal(pc.utf8_trim_whitespace(values), ""), pa.scalar(None, pa.string()), values)
    types = [pa.float64()]
    if kind == "instant":
        types += [pa.timestamp("us"), pa.timestamp("us", "UTC")]
    for each in types:
        try:
            return values.cast(each)
        except pa.ArrowInvalid:
            continue
    return pa.array(as_column(name, values.to_pylist()))


def _plain_names(pa: Any, values: Any) -> Nominal:
    """Names that are no texts: whole numbers as they are, anything else as it is written."""
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_null(values.type):
        return Nominal.encode(values.to_pylist())
    return _names(pa, values.cast(pa.string()), False)


def _names(pa: Any, values: Any, is_mixed: bool) -> Nominal:
    """Codes into sorted categories, whatever order the table has them in; a category that stands twice is one."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    whole = _one_chunk(pa, values)
    names = [None if c is None else _word(c) if is_mixed else c for c in whole.dictionary.to_pylist()]
    codes = np.asarray(whole.indices.fill_null(len(names)).to_numpy(zero_copy_only=False), dtype=np.int64)
    ordered = sorted({name for name in names if name is not None}, key=lambda name: (isinstance(name, str), name))
    code = {name: k for k, name in enumerate(ordered)}
    place = np.array([*(code.get(name, -1) for name in names), -1], dtype=np.int32)
    return Nominal(place[codes], tuple(ordered))


def _one_chunk(pa: Any, values: Any) -> Any:
    chunks = values.unify_dictionaries().chunks
    if not chunks:
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
    return pa.concat_arrays(chunks)


def _word(text: str) -> int | str:
    """A JSON word as the whole number or text it is; ValueError for anything else."""
    value = json.loads(text)
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"not a name: {text[:40]!r}")
    return value


__all__ = ["arrow", "from_arrow", "info_from_json", "info_to_json", "to_arrow"]


def from_arrow(table: Any, name: str = "(arrow)") -> Trace:
    """The trace in a pyarrow Table, or in anything that speaks Arrow (polars, duckdb, pandas): `__arrow_c_stream__`.

    Parameters
    ----------
    table
        Needs at least a column submit_time. Columns under our names take our types: whole and real numbers, decimals,
        booleans and texts that are numbers become float64 (whole numbers beyond 2**53 are rounded), dates and
        timestamps (without a zone: UTC) epoch seconds, durations and times of day seconds. Of other columns texts
        become names; nested columns are left out and counted, as are rows without a submit time.
    name
        What errors and the report call it.

    Returns
    -------
    Trace
        What was left out is counted in `info.dropped`, what was changed is said in `info.notes`.

    Raises
    ------
    InputError
        Names the column that is missing, stands twice or cannot be read, and its row and value where one is to blame.

    Examples
    --------
    >>> import pyarrow
    >>> from_arrow(pyarrow.table({"submit_time": [0.0, 5.0], "run_time": [9.0, None], "user_id": ["a", "b"]})).run_time
    array([ 9., nan])
    """
    pa, _ = arrow()
    table = _table(pa, table, name)
    _check_names(table.column_names, name)
    note = _note((table.schema.metadata or {}).get(METADATA), name)
    info = replace(note.info, source=name, format="arrow")
    columns: dict[str, Values] = {}
    skipped = 0
    for column in table.column_names:
        kind = _kind_of(column, column in note.nominal)
        try:
            values = read_column(column, table[column], kind, column in note.mixed)
        except UsageError as error:
            raise input_error(name, f"column {error.message}") from None
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            reason = (str(error).splitlines() or [""])[0][:120]
            what = f"column {column} cannot be read as {_FORMS[kind]} ({reason})"
            raise input_error(name, what) from None
        skipped += values is None
        if values is not None:
            columns[column] = values
    columns.setdefault("job_id", np.arange(1, table.num_rows + 1, dtype=np.int64))
    if skipped:
        info = info.with_dropped("column of a nested type", skipped)
    return Trace(*sound(columns, info))


_FORMS = {"id": "job ids", "instant": "times", "number": "numbers", "nominal": "names", "": "numbers or names"}


def _kind_of(column: str, is_nominal: bool) -> str:
    """What a column of this name is read as; empty where its own type decides."""
    if column in COLUMNS:
        return "instant" if column in INSTANTS else COLUMNS[column].kind
    return "nominal" if is_nominal else ""


def _table(pa: Any, table: Any, name: str) -> Any:
    """The object as a pyarrow Table, every text in it valid."""
    try:
        if not isinstance(table, pa.Table):
            table = pa.table(table)
        table.validate(full=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        kinds = "a pyarrow Table, or an object with __arrow_c_stream__"
        raise input_error(name, f"is no readable table ({str(error)[:120]})", accepted=kinds) from None
    return table


def _check_names(names: Sequence[str], source: str) -> None:
    for column in names:
        if names.count(column) > 1:
            raise input_error(source, "two columns have one name", value=column, hint="rename one of them")
    if "submit_time" not in names:
        shown = ", ".join(names[:8])
        raise input_error(source, "has no column submit_time", value=shown, accepted="batchcast's own names")


class _Note(NamedTuple):
    """What batchcast left in a table's metadata: the provenance, and which columns are names."""

    info: LogInfo
    nominal: frozenset[str]
    mixed: frozenset[str]


def _note(text: bytes | None, name: str) -> _Note:
    """The note of a table, empty where batchcast did not write it."""
    if text is None:
        return _Note(LogInfo(), frozenset(), frozenset())
    try:
        plain = json.loads(text)
        version = int(plain.get("version", VERSION))
        if version <= VERSION:
            info = info_from_json(plain["info"]) if "info" in plain else LogInfo()
            return _Note(info, *(frozenset(map(str, plain.get(kind, ()))) for kind in ("nominal", "mixed")))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise input_error(name, "its note of where the log comes from is damaged", hint="write it again") from None
    raise input_error(name, "was written by a newer batchcast", value=version, accepted=str(VERSION))


def info_from_json(plain: Mapping[str, Any]) -> LogInfo:
    """The inverse of `info_to_json`; fields this version does not know are ignored, TypeError for one of another kind.

    >>> info_from_json(info_to_json(LogInfo(names={"user_id": {3: "ada"}}))).names
    {'user_id': {3: 'ada'}}
    """
    values: dict[str, Any] = {}
    for field in fields(LogInfo):
        if field.name not in plain:
            continue
        value, usual = plain[field.name], getattr(LogInfo(), field.name)
        if isinstance(usual, float):
            values[field.name] = math.nan if value is None else float(value)
        elif field.name == "names":
            values["names"] = {column: dict(pairs) for column, pairs in value.items()}
        elif field.name in ("notes", "known_at_submit"):
            values[field.name] = tuple(map(str, value))
        elif field.name == "dropped":
            values["dropped"] = {rule: int(count) for rule, count in value.items()}
        elif isinstance(value, type(usual)):
            values[field.name] = value
        else:
            raise TypeError(f"{field.name}: {value!r}")
    return LogInfo(**values)
