# SPDX-License-Identifier: Apache-2.0
"""The protocol of a reader of a log format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ..table import Trace


class Reader(Protocol):
    """The protocol of a reader of a log format, for the entry points of the group `batchcast.formats`.

    Attributes
    ----------
    name
        The name of the format, as in `--format NAME`; the entry point has the same name.
    read
        A function that reads a log. It receives the content in the parameter that it has: `lines`, an iterator of texts
        without line ends; `text`, the whole text; or `blocks`, an iterator of bytes. If it has parameters of these
        names, it also receives `source` (name of the file for messages), `strict` (whether to raise
        `batchcast.errors.InputError` at the first broken line; else broken lines are dropped) and `zone` (the
        `datetime.tzinfo` of times without an offset). It returns a `Trace`, or columns by name, as
        `Trace.from_arrays` accepts them.

    Examples
    --------
    >>> class Times:
    ...     name = "times"
    ...
    ...     def looks_like(self, head):
    ...         return head.startswith(b"# times")
    ...
    ...     def read(self, lines):
    ...         return {"submit_time": [float(line) for line in lines if not line.startswith("#")]}
    """

    name: str
    read: Callable[..., Trace | Iterable[Trace] | Mapping[str, Sequence[Any]]]

    def looks_like(self, head: bytes) -> bool:
        """Return whether a log of this format can begin with these bytes: the first 8 KiB, or, if no reader recognizes
        them, the first mebibyte."""
