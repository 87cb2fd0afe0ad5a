# SPDX-License-Identifier: Apache-2.0
"""What was wrong with a log's lines: counted by kind, the first of each kind kept as an example; strict stops."""

from __future__ import annotations

from ..errors import input_error


class Problems:
    """Counts of dropped lines and of values read as unknown, with the first example of each kind.

    With `strict` the first of either raises InputError that names file, line and value.
    """

    __slots__ = ("_dropped", "_examples", "_source", "_strict", "_unknown")

    def __init__(self, source: str, strict: bool = False) -> None:
        self._source = source
        self._strict = strict
        self._dropped: dict[str, int] = {}
        self._unknown: dict[str, int] = {}
        self._examples: dict[str, str] = {}

    @property
    def dropped(self) -> int:
        """How many lines were left out."""
        return sum(self._dropped.values())

    def drop(self, line: int, what: str, value: object, *, where: str = "") -> None:
        """A line that holds no usable record; `where` makes the example clearer but not the kind finer."""
        self._note(self._dropped, line, what, value, where)

    def unknown(self, line: int, what: str, value: object) -> None:
        """A value that is read as unknown; its record stays."""
        self._note(self._unknown, line, what, value, "")

    def counts(self) -> dict[str, int]:
        """Dropped lines by reason."""
        return {f"broken line: {what}": count for what, count in self._dropped.items()}

    def notes(self) -> list[str]:
        """A sentence for each kind, with its first example."""
        lines = [f"{n} lines left out: {what} (first: {self._examples[what]})" for what, n in self._dropped.items()]
        return lines + [f"{n} values of {what} (first: {self._examples[what]})" for what, n in self._unknown.items()]

    def because(self) -> str:
        """The most frequent reason for dropped lines, to end a message with; empty when nothing was dropped."""
        if not self._dropped:
            return ""
        what = max(self._dropped, key=lambda kind: self._dropped[kind])
        return f"; {self.dropped} lines are broken, most often: {what} (first: {self._examples[what]})"

    def _note(self, into: dict[str, int], line: int, what: str, value: object, where: str) -> None:
        if self._strict:
            raise input_error(
                self._source,
                f"{where}: {what}" if where else what,
                line=line,
                value=value,
                hint="without --strict such lines are counted and the rest is read",
            )
        into[what] = into.get(what, 0) + 1
        if what not in self._examples:
            self._examples[what] = f"line {line}{', ' + where if where else ''}: {str(value)[:60]!r}"
