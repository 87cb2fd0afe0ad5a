# SPDX-License-Identifier: Apache-2.0
"""Reads a platform: the resources of a grid as TOML or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..ceilings import parse_toml
from ..errors import InputError, input_error
from ..trace.source import Source
from .model import Resources, Units

ABSENT = {"speed": np.nan, "bandwidth": np.nan, "free": 0.0}
"""A resource's columns, with the values of empty cells."""


def read_platform(path: str | Path) -> tuple[Resources, Units]:
    """Read resources from TOML or CSV.

    TOML has [[resource]] tables (id, count, speed, bandwidth, free, price, attributes) and a table [units]; without a
    table [units], both units are 1. An InputError names the resource that has a wrong value.
    """
    units = Units(1.0, 1.0)
    if Path(path).suffix.lower() == ".csv":
        cells = read_table(path, ("id", "speed", "bandwidth"), ("free", "<attribute>"))
        ids, columns = cells["id"], [numbers(cells, name, absent) for name, absent in ABSENT.items()]
        more = {name: numbers(cells, name, 0.0) for name in cells if name not in ("id", *ABSENT)}
    else:
        parsed = parse_toml(text_of(path), str(path), "[[resource]] tables with id, speed, bandwidth")
        ids, columns, more = _from_tables(path, parsed)
        given = parsed.get("units", {})
        units = Units(*(_number(path, "units", key, given.get(key, 1.0)) for key in ("compute", "transfer")))
    try:
        speed, bandwidth, free = columns
        return Resources(ids, speed, bandwidth, free, more), units
    except InputError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint) from None


def text_of(path: str | Path) -> str:
    """Return the text of a file, which may be compressed."""
    return b"".join(Source(path, strict=True).blocks()).decode("utf-8", errors="replace")


def read_table(path: str | Path, needed: tuple[str, ...], more: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the columns of a CSV by name, as texts; the columns `needed` must exist, the columns `more` may exist."""
    file = str(path)
    lines = [row for row in csv.reader(io.StringIO(text_of(path), newline=None)) if row and not row[0].startswith("#")]
    header = [name.strip().lower() for name in lines[0]] if lines else []
    if missing := [name for name in needed if name not in header]:
        accepted = ", ".join((*needed, *more))
        raise input_error(file, f"no column {missing[0]!r}", line=1, value=",".join(header), accepted=accepted)
    if len(lines) < 2:
        raise input_error(file, "a header and no row", hint="one line for each job or resource")
    for number, row in enumerate(lines[1:], start=2):
        if len(row) != len(header):
            what = f"{len(row)} fields, the header has {len(header)}"
            raise input_error(file, what, line=number, value=",".join(row))
    return {name: [cell.strip() for cell in column] for name, column in zip(header, zip(*lines[1:]))}


def numbers(cells: Mapping[str, list[str]], name: str, absent: float) -> np.ndarray:
    """Return a column as numbers; an empty cell (or missing column) is `absent`, text is NaN."""
    texts = cells.get(name) or [""] * len(next(iter(cells.values())))
    return np.array([absent if not text else float(text) if is_number(text) else np.nan for text in texts])


def is_number(word: str) -> bool:
    """Return whether Python can convert the text to a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True


def _from_tables(path: str | Path, parsed: dict[str, Any]) -> tuple[list[str], list[np.ndarray], dict[str, np.ndarray]]:
    """Return the resources' ids; their speed, bandwidth and free time; and their attributes."""
    tables = parsed.get("resource", [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise input_error(str(path), "resource is not a list of tables", accepted="[[resource]]")
    ids: list[str] = []
    rows: list[list[float]] = []
    attributes: list[dict[str, float]] = []
    keys = ("id", "count", *ABSENT, "price", "attributes")
    for number, table in enumerate(tables):
        if unknown := sorted(set(table) - set(keys)):
            accepted = ", ".join(keys)
            raise input_error(str(path), f"resource {number}: unknown key", value=unknown[0], accepted=accepted)
        name, count = str(table.get("id", f"r{number}")), table.get("count", 1)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise input_error(str(path), f"resource {name!r}: count", value=count, accepted="a whole number from 1")
        ids += [name] if count == 1 else [f"{name}.{k}" for k in range(count)]
        rows += [[_number(path, name, key, table.get(key, absent)) for key, absent in ABSENT.items()]] * count
        more = table.get("attributes", {}) | ({"price": table["price"]} if "price" in table else {})
        attributes += [{key: _number(path, name, key, more[key]) for key in sorted(more)}] * count
    names = sorted(set().union(*attributes))
    columns = list(np.array(rows).reshape(-1, len(ABSENT)).T.copy())
    return ids, columns, {key: np.array([row.get(key, 0.0) for row in attributes]) for key in names}


def _number(path: str | Path, name: str, key: str, value: Any) -> float:
    """Return the value of a TOML key as a number; InputError names the file, the table and the key."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise input_error(str(path), f"{name}: {key}", value=value, accepted="a number")
    return float(value)
