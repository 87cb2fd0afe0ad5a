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
from .arrow_column import read_column
from .arrow_out import METADATA, VERSION, arrow, info_to_json, to_arrow
from .info import LogInfo
from .nominal import Values
from .plain import INSTANTS
from .sound import sound
from .trace import Trace

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
            raise input_error(name, what, accepted="what docs/formats.md says of each column") from None
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
