# SPDX-License-Identifier: Apache-2.0
"""Find column maps, which come with batchcast or from a file, and read CSV through the map that fits its columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path

from ..ceilings import parse_toml, small_text
from ..errors import InputError, UsageError
from ..formats.csv.column_map import ColumnMap, make_map, unrecognised_header
from ..formats.csv.foreign import read_mapped_csv
from ..formats.csv.own import is_own, read_own_csv
from ..formats.csv.rows import header_of
from ..table import Trace
from .select import zone

A_MAP = Path(__file__).parents[1] / "data" / "maps" / "nrel.toml"
"""Path of an example map in the installed package."""


@cache
def ready_maps() -> tuple[ColumnMap, ...]:
    """Return the maps that come with batchcast, sorted by name.

    >>> [each.name for each in ready_maps()]
    ['graham', 'nrel']
    """
    import tomllib
    from importlib.resources import files

    folder = files("batchcast") / "data" / "maps"
    items = sorted((item for item in folder.iterdir() if item.name.endswith(".toml")), key=lambda item: item.name)
    return tuple(make_map(tomllib.loads(item.read_text(encoding="utf-8")), item.name) for item in items)


def map_of(name: str) -> ColumnMap:
    """Return a map by its name, or from a TOML file; UsageError or InputError says what is accepted."""
    ready = {each.name: each for each in ready_maps()}
    if name in ready:
        return ready[name]
    if not name.endswith(".toml"):
        raise UsageError(f"--map: {name!r} is not a map (accepted: {', '.join(ready)}, or a file that ends in .toml)")
    try:
        text = small_text(name)
    except FileNotFoundError:
        raise InputError(f"{name}: no such file", hint=f"{A_MAP} is one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name}: cannot be read: {error}") from None
    return make_map(parse_toml(text, name, f"{A_MAP} is one"), name)


def _map_for(header: Sequence[str]) -> ColumnMap | None:
    """Return the map that comes with batchcast for files with exactly these columns, or None."""
    return next((each for each in ready_maps() if sorted(each.header) == sorted(header) != []), None)


def looks_like(head: bytes) -> bool:
    """Whether a text begins with a header of batchcast's own CSV, or of a file for which batchcast has a column map.

    >>> looks_like(b"job_id,submit_time\\n1,2\\n"), looks_like(b"a,b\\n1,2\\n")
    (True, False)
    """
    header = header_of(head)
    return is_own(header) or _map_for(header) is not None


def read(
    blocks: Iterable[bytes],
    source: str = "(memory)",
    *,
    strict: bool = False,
    map: ColumnMap | None = None,
    timezone: str | None = None,
) -> Trace:
    """Read a CSV text through a map, by default the map that fits its columns, else as batchcast's own CSV."""
    whole = iter(blocks)
    first = next(whole, b"")
    header, whole = header_of(first), chain([first], whole)
    mapped = map or _map_for(header)
    if mapped is None and is_own(header):
        return read_own_csv(whole, source, strict=strict)
    if mapped is None:
        raise unrecognised_header(source, header, [each.name for each in ready_maps()], str(A_MAP))
    where = zone(timezone or mapped.timezone or "UTC")
    trace = read_mapped_csv(whole, mapped, source, strict=strict, zone=where)
    if mapped.timezone and not timezone:
        trace = trace.with_info(replace(trace.info, timezone=mapped.timezone, timezone_source=f"the map {mapped.name}"))
    return trace
