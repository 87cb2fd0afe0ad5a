"""One column of Arrow's as one of ours, by pyarrow's own conversions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from .nominal import Nominal, Values
from .plain import as_column


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
    ways = [pa.float64()]
    if kind == "instant":
        ways += [pa.timestamp("us"), pa.timestamp("us", "UTC")]
    for way in ways:
        try:
            return values.cast(way)
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
