"""A batch system as the collector asks it: what Slurm and PBS have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..formats.sighting import Site, Snapshot


class Scheduler(Protocol):
    """A batch system as the collector sees it: Slurm and PBS alike."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def ticks(self) -> float:
        """Seconds of a clock that nobody sets."""

    def snapshot(self) -> Snapshot:
        """Every job it knows."""

    def history(self, since: float, until: float) -> Snapshot:
        """Every job that ended between two instants."""

    def ended(self, ids: Sequence[str], since: float) -> Snapshot:
        """Jobs by id, of those that ended from an instant on."""

    def site(self) -> Site:
        """What holds for the machine."""

    def reservations(self) -> list[dict[str, Any]]:
        """Name, start, end, whether for maintenance, of every reservation."""

    def hides_jobs(self) -> bool:
        """Whether users may not see each other's jobs, now."""
