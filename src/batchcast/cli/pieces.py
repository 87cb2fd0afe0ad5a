"""A log as the shared options cut it, piece by piece: for what is larger than memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import NoAnswer, UsageError
from .options import find_modules_here, split_words, usual_procs

if TYPE_CHECKING:
    from ..table import Trace

ONE_BY_ONE = "without it, or a log that fits into memory"


class Pieces:
    """The pieces of a log, cleaned and selected; may be gone through again where the log is a file or a folder.

    `take_log` one piece at a time, for the options that mean the same then; UsageError names one that does not.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        self.rules = split_words(given["clean"])
        self.procs, self.total = usual_procs(given["procs"], given["procs_total"], self.rules)
        self.vouched = split_words(given.get("known_at_submit", ()))
        if self.vouched:
            find_modules_here()
        for option, is_given in (
            ("--clean duplicates", "duplicates" in self.rules),
            ("--procs-total peak", self.total == "peak"),
            ("--first", bool(given["first"])),
        ):
            if is_given:
                raise UsageError(f"{option} needs the whole log at once", hint=ONE_BY_ONE)

    def __iter__(self) -> Iterator[Trace]:
        import numpy as np

        from ..trace.clean import clean
        from ..trace.read import read_pieces
        from ..trace.select import Selection, select

        given = self.given
        words = {key: split_words(given[key]) for key in ("status", "partition", "queue", "user")}
        selection = Selection(given["since"], given["until"], **words)
        total = self.total if isinstance(self.total, float) else None
        named = {name: given[name] for name in ("format", "strict", "timezone", "map")}
        for piece in read_pieces(given["log"], procs_total=total, **named):
            try:
                yield select(clean(piece.knowing(self.vouched), self.rules), selection)
            except NoAnswer:
                yield piece.take(np.zeros(0, np.int64), piece.info.with_dropped("not selected", len(piece)))

    @property
    def settings(self) -> dict[str, Any]:
        """The options for a document."""
        names = {"from": "since", "to": "until", "timezone": "timezone", "format": "format", "map": "map"}
        lists = {key: split_words(self.given[key]) or None for key in ("status", "partition", "queue", "user")}
        said = {key: self.given[name] for key, name in names.items()}
        return {**said, **lists, "clean": self.rules or None, "procs": self.procs}
