"""Keeps the list of jobs on planned limits where the script that runs as a job starts reads it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..planning.at_start import start_list
from ..planning.record import Entry
from ..trace.whole_file import whole_file


@dataclass(slots=True)
class StartList:
    """The file at `place`; with none there is no script, and nothing is written."""

    place: str
    _last: str | None = None

    def write(self, entries: Iterable[Entry]) -> str:
        """Write the list, where it is another than before; what went wrong, in words.

        Readable by everybody, since slurmctld's user reads it: ids and limits are all it holds.
        """
        text = start_list(entries) if self.place else ""
        if not self.place or text == self._last:
            return ""
        try:
            with whole_file(Path(self.place)) as part:
                part.write_text(text, encoding="ascii")
                part.chmod(0o644)
        except OSError as error:
            self._last = None
            return f"plan_list {self.place}: {error.strerror}: looks alone give limits back"
        self._last = text
        return ""
