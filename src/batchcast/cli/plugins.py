"""Verbs found as entry points of the group `batchcast.commands`: no verb is imported to be listed."""

from __future__ import annotations

import ast
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

GROUP = "batchcast.commands"


@cache
def commands() -> dict[str, EntryPoint]:
    """Every verb that an installed package brings, by name."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def summary(point: EntryPoint) -> str:
    """What the verb's module says of itself in its docstring's first line, read from its source, not imported.

    The words after `: ` where the line has them (`` `batchcast grid`: map jobs ... ``), else the whole line; the
    module's name where its source cannot be found.
    """
    path = _source(point.module)
    try:
        words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path else None
    except (OSError, SyntaxError, UnicodeDecodeError):
        words = None
    if not words:
        return point.module
    line = words.splitlines()[0]
    line = line.partition(": ")[2] or line if line.startswith("`") else line
    return line[:1].upper() + line[1:]


def _source(module: str) -> Path | None:
    """The file of a module, found package by package as import does, with nothing executed."""
    parts, search = module.split("."), None
    for depth in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:depth]), search)
        if spec is None:
            return None
        search = list(spec.submodule_search_locations or ())
    return Path(spec.origin) if spec is not None and spec.origin and spec.origin.endswith(".py") else None
