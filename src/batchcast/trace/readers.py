# SPDX-License-Identifier: Apache-2.0
"""Find the reader of a log by its content or by the name of its format, and call the reader.

Readers are batchcast's own (`formats.READERS`), or come from entry points of the group `batchcast.formats`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from inspect import signature
from pkgutil import resolve_name
from typing import Any, cast

from ..errors import UsageError, input_error, raised_outside
from ..formats import READERS, format_names
from ..formats.chunks import whole_lines
from ..formats.csv.rows import header_of
from ..formats.reader import Reader
from ..plug_ins import GROUPS, installed
from ..table import LogInfo, Trace

GLANCE = 1 << 13


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    """A context in which an unexpected error of another package's reader becomes a BatchcastError with its location."""
    try:
        yield
    except Exception as error:
        if name in READERS:
            raise
        raise raised_outside(error, f"the reader {name}") from error


def reader_of(name: str) -> Reader:
    """Return the reader of a format; UsageError if no package has it, or if it is not a reader."""
    if name in READERS:
        return cast(Reader, import_module(f"batchcast.{READERS[name]}"))
    if name not in installed("format"):
        raise UsageError(f"not a format: {name!r} (accepted: {', '.join(format_names())})")
    with _errors_of(name):
        made = resolve_name(installed("format")[name])
        reader: Reader = made() if isinstance(made, type) else made
    if getattr(reader, "name", None) != name or not (hasattr(reader, "looks_like") and hasattr(reader, "read")):
        what = f"the entry point {name} of the group {GROUPS['format']} is {reader!r}, which is not a reader"
        raise UsageError(f"{what} (accepted: an object with name = {name!r}, looks_like(head) and read(lines))")
    return reader


def sniff(sample: bytes) -> str | None:
    """Return the name of the format of a text by its first bytes; None if no reader recognizes them.

    >>> sniff(b"; MaxProcs: 128\\n"), sniff(b"JobID|Submit|State\\n"), sniff(b"PAR1..."), sniff(b"hello\\n")
    ('swf', 'sacct', 'parquet', None)
    """
    # The first lines show the format of most logs. Other text can come first in a log, so all lines are compared if the
    # first ones are not enough. The records of a JSON document can be long, so a JSON document is compared as a whole.
    for head in [sample] if sample.lstrip()[:1] == b"{" else [sample[:GLANCE], sample]:
        for name in _names():
            with _errors_of(name):
                if reader_of(name).looks_like(head):
                    return name
    return "csv" if header_of(sample) else None


def _names() -> Iterator[str]:
    """Yield the names of all formats; the entry points are read only if the caller needs more than batchcast's own."""
    yield from READERS
    yield from installed("format")


def parse(name: str, blocks: Iterable[bytes], source: str, **options: Any) -> Iterator[Trace]:
    """Yield the jobs of a text in a format, in pieces if the reader makes pieces.

    The reader receives the text, `source` and each of the `options` if it has a parameter of this name.
    """
    reader = reader_of(name)
    with _errors_of(name):
        parameters = signature(reader.read).parameters
        forms: dict[str, Callable[[Iterable[bytes]], Any]] = {"blocks": iter, "lines": _lines, "text": _text}
        given = {key: form(blocks) for key, form in forms.items() if key in parameters}
        given |= {key: value for key, value in {"source": source, **options}.items() if key in parameters}
        made = reader.read(**given)
        if isinstance(made, Mapping):
            made = Trace.from_arrays(made, LogInfo(source=source, format=name))
            if not len(made):
                raise input_error(source, f"no job in this file can be read as {name}")
        yield from [made] if isinstance(made, Trace) else made


def _text(blocks: Iterable[bytes]) -> str:
    """Return the whole text."""
    return b"".join(blocks).decode("utf-8", "replace")


def _lines(blocks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a text without their line ends."""
    for piece in whole_lines(blocks):
        yield from piece.decode("utf-8", "replace").removesuffix("\n").split("\n")
