"""What every verb prints: one JSON document or tables on stdout; notes and progress on stderr."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


def document(
    verb: str,
    log: Mapping[str, Any],
    settings: Mapping[str, Any],
    warnings: Sequence[str],
    results: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The one JSON document: schema, log, settings (defaults included), warnings, results (flat objects)."""
    return {
        "schema": f"batchcast/{verb}/1",
        "log": dict(log),
        "settings": dict(settings),
        "warnings": list(warnings),
        "results": [dict(r) for r in results],
    }


def dumps(value: Any, indent: int | None = 2) -> str:
    """JSON text; NaN and infinities become null, numpy scalars plain numbers.

    >>> dumps({"a": float("nan"), "b": (1, 2.5)}, indent=None)
    '{"a": null, "b": [1, 2.5]}'
    """
    return json.dumps(plain(value), indent=indent, ensure_ascii=False)


def plain(value: Any) -> Any:
    """The value in JSON's own types."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (str, int, bool)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Iterable):
        return [plain(v) for v in value]
    return str(value)


def emit(doc: Mapping[str, Any]) -> None:
    """Print the document on stdout."""
    click.echo(dumps(doc))


def say(text: str) -> None:
    """A note for people, on stderr."""
    click.echo(text, err=True)


def write_text(path: Path, text: str) -> None:
    """Write beside, then rename: a reader never meets half a file."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def console(stderr: bool = False) -> Any:
    """A rich console that respects --color, NO_COLOR and whether this is a terminal."""
    from rich.console import Console

    context = click.get_current_context(silent=True)
    color = (context.find_root().obj or {}).get("color", "auto") if context else "auto"
    stream = sys.stderr if stderr else sys.stdout
    forced = {"always": True, "never": False, "auto": None}[color]
    width = None if stream.isatty() else 160
    return Console(file=stream, force_terminal=forced, no_color=color == "never" or None, width=width, highlight=False)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Any]:
    """A progress bar on a terminal, nothing in a pipe; yields `tick(done)`.

    >>> with progress("reading", 10) as tick:
    ...     tick(10)
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)
