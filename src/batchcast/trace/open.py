# SPDX-License-Identifier: Apache-2.0
"""Open, clean and select a log, in the way that all commands and studies share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from ..errors import NoAnswer, UsageError
from ..events.machine_size import peak_procs
from ..table import Trace
from .clean import clean
from .read import Reading, read_pieces, read_trace
from .select import Selection, select

ONE_BY_ONE = "leave this option out, or use a log that fits into memory"
EVERY_JOB = Selection()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Describes how a log is read, cleaned and cut.

    The order is: read, choose clusters, drop repeated records, clean, select, take the first jobs.

    Attributes
    ----------
    procs_total
        Size of the machine, or `peak`: the largest number of processors in use at once in the whole log, before
        cleaning and selection.
    first
        Number of jobs at the beginning of the log to keep.

    Notes
    -----
    The other attributes are the arguments of `read_trace`, `clean` and `select`.
    """

    format: str | None = None
    strict: bool = False
    timezone: str | None = None
    procs_total: float | str | None = None
    map: str | None = None
    cluster: Sequence[str] = ()
    keep_repeats: bool = False
    procs: str | None = None
    known_at_submit: Sequence[str] = ()
    clean: Sequence[str] = ()
    selection: Selection = EVERY_JOB
    first: int | None = None

    @property
    def rule(self) -> str:
        """The rule for processor counts, `req` or `alloc`; UsageError if `clean` and `procs` contradict each
        other."""
        if "reference" not in self.clean:
            return self.procs or "req"
        if self.procs == "req":
            raise UsageError("--clean reference implies --procs alloc", hint="leave --procs req out")
        return "alloc"

    def open(self, path: str | Path | Sequence[str | Path]) -> Trace:
        """Return the jobs of one or several logs after reading, cleaning and selecting."""
        rule, trace = self.rule, read_trace(path, **self._reading())
        if self.procs_total == "peak":
            peak = peak_procs(trace, rule)
            trace = trace.with_info(replace(trace.info, max_procs=peak, max_procs_source="peak"))
        return select(clean(trace.knowing(self.known_at_submit), self.clean), self.selection, self.first)

    def pieces(self, path: str | Path) -> Iterator[Trace]:
        """Yield the jobs that `open` returns in pieces, for logs that do not fit into memory. A piece can be empty.

        Raises
        ------
        UsageError
            If an option needs the whole log at once (`check_pieces`).
        """
        self.check_pieces()
        for piece in read_pieces(path, **self._reading()):
            try:
                yield select(clean(piece.knowing(self.known_at_submit), self.clean), self.selection)
            except NoAnswer:
                yield piece.take(np.zeros(0, np.int64), piece.info.with_dropped("not selected", len(piece)))

    def check_pieces(self) -> None:
        """Raise UsageError if an option needs the whole log at once."""
        given = {
            "--clean duplicates": "duplicates" in self.clean,
            "--procs-total peak": self.procs_total == "peak",
            "--first": bool(self.first),
        }
        if option := next((option for option, is_given in given.items() if is_given), ""):
            raise UsageError(f"{option} needs the whole log at once", hint=ONE_BY_ONE)

    def _reading(self) -> Reading:
        """Returns the arguments of `read_trace` and `read_pieces`."""
        size = self.procs_total if isinstance(self.procs_total, float) else None
        return cast(Reading, {name: getattr(self, name) for name in Reading.__annotations__} | {"procs_total": size})
