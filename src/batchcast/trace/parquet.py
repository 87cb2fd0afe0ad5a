"""Trace to and from Apache Parquet: our columns, extra columns, and the provenance in the schema's metadata."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..columns import COLUMNS
from ..errors import InputError, UsageError, input_error
from ..events.recorded import Forecasts
from ..simulate import Schedule
from ..table import LogInfo, Nominal, Trace, Values

METADATA = b"batchcast"
VERSION = 1
NEEDED = "pyarrow is needed for Parquet files"
HINT = "pip install 'batchcast[parquet]'"


def write_parquet(trace: Trace, path: str | Path) -> None:
    """Writes a trace so that `read_parquet` gives it back: columns, extra columns, LogInfo; unknown becomes null.

    Names are dictionary-coded; where a column mixes whole numbers and text, they are stored as JSON words. The file is
    written beside its place and renamed. O(rows). Raises InputError without pyarrow.
    """
    _, pq = arrow()
    table = to_arrow(trace)
    beside = Path(f"{path}.{os.getpid()}.part")
    try:
        pq.write_table(table, beside, compression="zstd")
        os.replace(beside, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        beside.unlink(missing_ok=True)


def to_arrow(trace: Trace | Schedule | Forecasts) -> Any:
    """The trace as a pyarrow Table: columns, extra columns, LogInfo in the schema's metadata; unknown becomes null.

    A Schedule or Forecasts become a Table of their `columns()`. Raises UsageError without pyarrow. O(rows).

    >>> to_arrow(Trace.from_arrays({"submit_time": [0.0, 5.0], "user_id": ["ada", None]}))["user_id"].to_pylist()
    ['ada', None]
    """
    pa, _ = arrow()
    if not isinstance(trace, Trace):
        return pa.table(trace.columns())
    arrays, mixed = {}, []
    for name in trace.names:
        values = trace.column(name)
        if isinstance(values, Nominal):
            is_mixed = len({type(category) for category in values.categories}) > 1
            mixed += [name] if is_mixed else []
            arrays[name] = _dictionary(pa, values, is_mixed)
        elif values.dtype.kind == "f":
            arrays[name] = pa.array(values, mask=np.isnan(values))
        else:
            arrays[name] = pa.array(values.tolist() if values.dtype.kind == "U" else values)
    nominal = [name for name in trace.names if isinstance(trace.column(name), Nominal)]
    note = {"version": VERSION, "info": info_to_json(trace.info), "nominal": nominal, "mixed": mixed}
    return pa.table(arrays).replace_schema_metadata({METADATA: json.dumps(note, allow_nan=False).encode()})


def read_parquet(path: str | Path) -> Trace:
    """The trace of a Parquet file; see `parse_parquet`."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    return parse_parquet(data, str(path))


def parse_parquet(data: bytes, name: str) -> Trace:
    """The trace in a Parquet file's bytes; one that batchcast did not write needs at least a column submit_time.

    Of a foreign file, whole and real numbers and booleans become numbers, text becomes names, timestamps become epoch
    seconds, and columns that are known under our names take our types; nested columns are counted as left out.
    Categories that no row uses are not kept. Raises InputError for bytes that are no Parquet file. O(rows).
    """
    pa, pq = arrow()
    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise input_error(
            name, f"is not a readable Parquet file ({str(error).splitlines()[0][:120]})", hint="write it again"
        ) from None
    trace = from_arrow(table, name)
    return trace.with_info(replace(trace.info, format="parquet"))


def from_arrow(table: Any, name: str = "(arrow)") -> Trace:
    """The trace in a pyarrow Table, see `parse_parquet`; `name` is what errors and the report call it.

    >>> import pyarrow
    >>> from_arrow(pyarrow.table({"submit_time": [0.0, 5.0], "run_time": [9.0, None], "user_id": ["a", "b"]})).run_time
    array([ 9., nan])
    """
    pa, _ = arrow()
    note = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
    if note.get("version", VERSION) > VERSION:
        raise input_error(name, "was written by a newer batchcast", value=note["version"], accepted=str(VERSION))
    info = info_from_json(note["info"]) if "info" in note else LogInfo()
    columns: dict[str, Values] = {}
    skipped = 0
    for column in table.column_names:
        known = COLUMNS.get(column)
        is_nominal = column in note.get("nominal", ()) or (known is not None and known.kind == "nominal")
        values = _column(pa, column, table[column], is_nominal, column in note.get("mixed", ()))
        if values is None:
            skipped += 1
        else:
            columns[column] = values
    if "submit_time" not in columns:
        raise input_error(
            name, "has no column submit_time", value=", ".join(table.column_names[:8]), accepted="batchcast's own names"
        )
    columns.setdefault("job_id", np.arange(1, table.num_rows + 1, dtype=np.int64))
    info = replace(info, source=name, format="arrow")
    return Trace(columns, info.with_dropped("column of a nested type", skipped) if skipped else info)


def info_to_json(info: LogInfo) -> dict[str, Any]:
    """LogInfo in JSON's own types: unknown numbers null, `names` as pairs since JSON keys are text only."""
    plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(info).items()}
    plain["names"] = {column: list(map(list, names.items())) for column, names in info.names.items()}
    return plain


def info_from_json(plain: Mapping[str, Any]) -> LogInfo:
    """The inverse of `info_to_json`; fields this version does not know are ignored.

    >>> info_from_json(info_to_json(LogInfo(names={"user_id": {3: "ada"}}))).names
    {'user_id': {3: 'ada'}}
    """
    known = {f.name for f in fields(LogInfo)}
    values: dict[str, Any] = {k: float("nan") if v is None else v for k, v in plain.items() if k in known}
    values["names"] = {column: dict(pairs) for column, pairs in plain.get("names", {}).items()}
    values["notes"] = tuple(plain.get("notes", ()))
    return LogInfo(**values)


def arrow() -> tuple[Any, Any]:
    """pyarrow and its Parquet module; UsageError with the way out where they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(NEEDED, hint=HINT) from None
    return pyarrow, pyarrow.parquet


def _dictionary(pa: Any, values: Nominal, is_mixed: bool) -> Any:
    categories = [json.dumps(c) for c in values.categories] if is_mixed else list(values.categories)
    kind = pa.int64() if categories and isinstance(categories[0], int) else pa.string()
    codes = pa.array(values.codes, mask=values.codes < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(categories, kind))


def _column(pa: Any, name: str, values: Any, is_nominal: bool, is_mixed: bool) -> Values | None:
    """A column of ours from a column of arrow's; None when it is nested."""
    kind = values.type
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if name == "job_id":
            return np.array([str(v) for v in values.to_pylist()])
        return _nominal(pa, values, is_mixed)
    if is_nominal and pa.types.is_integer(kind):
        return Nominal.encode([None if v is None else int(v) for v in values.to_pylist()])
    if name == "job_id" and pa.types.is_integer(kind) and values.null_count == 0:
        return np.asarray(values.to_numpy(), dtype=np.int64)
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        return np.asarray(values.cast(pa.float64()).fill_null(float("nan")).to_numpy(), dtype=float) / 1e6
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        values = values.cast(pa.int8()) if pa.types.is_boolean(kind) else values
        return np.asarray(values.cast(pa.float64()).fill_null(float("nan")).to_numpy(), dtype=float)
    return None


def _nominal(pa: Any, values: Any, is_mixed: bool) -> Nominal:
    """Codes into sorted categories, whatever order the file has them in."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    whole = values.combine_chunks() if not isinstance(values, pa.ChunkedArray) else _one_chunk(pa, values)
    names = [json.loads(c) if is_mixed else c for c in whole.dictionary.to_pylist()]
    codes = np.asarray(whole.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    order = sorted(range(len(names)), key=lambda k: (isinstance(names[k], str), names[k]))
    place = np.full(len(names) + 1, -1, dtype=np.int32)
    place[order] = np.arange(len(names), dtype=np.int32)
    return Nominal(place[codes], tuple(names[k] for k in order))


def _one_chunk(pa: Any, values: Any) -> Any:
    chunks = values.unify_dictionaries().chunks
    if not chunks:
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], values.type.value_type))
    return pa.concat_arrays(chunks)
