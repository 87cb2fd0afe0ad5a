# SPDX-License-Identifier: Apache-2.0
"""Finds column maps: those that come with batchcast by name, others by their file."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from ..errors import InputError, UsageError
from ..formats.csv.column_map import ColumnMap, make_map


@cache
def ready_maps() -> tuple[ColumnMap, ...]:
    """The maps that come with batchcast, by name.

    >>> [each.name for each in ready_maps()]
    ['graham', 'nrel']
    """
    folder = files("batchcast") / "data" / "maps"
    items = sorted((item for item in folder.iterdir() if item.name.endswith(".toml")), key=lambda item: item.name)
    return tuple(make_map(tomllib.loads(item.read_text(encoding="utf-8")), item.name) for item in items)


def map_of(name: str) -> ColumnMap:
    """The map of a name, or in a TOML file; UsageError or InputError says what is accepted."""
    for each in ready_maps():
        if each.name == name:
            return each
    if not name.endswith(".toml"):
        ready = ", ".join(each.name for each in ready_maps())
        raise UsageError(f"--map: no map {name!r} (accepted: {ready}, or a file that ends in .toml)")
    try:
        text = Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{name}: no such file", hint="docs/reference/formats.md shows a map") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name}: cannot be read: {error}") from None
    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name}: is not TOML: {error}", hint="docs/reference/formats.md shows a map") from None
    return make_map(plain, name)


def fitting_map(header: Sequence[str]) -> ColumnMap | None:
    """The ready-made map of a file with exactly these columns, in any order."""
    for each in ready_maps():
        if each.header and len(header) == len(each.header) and set(header) == set(each.header):
            return each
    return None
