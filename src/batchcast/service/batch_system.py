# SPDX-License-Identifier: Apache-2.0
"""The batch system as the service sees it, the same for Slurm and PBS, and how it is opened behind its transport."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..formats.sighting import NodeAway, Site, Snapshot
from ..slurm.transport import Commands, OneCluster, Recording, Transport
from .settings import Settings


class BatchSystem(Protocol):
    """A batch system as the collector sees it, the same for Slurm and PBS."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def ticks(self) -> float:
        """Return seconds of a monotonic clock, which is never set."""

    def snapshot(self) -> Snapshot:
        """Return every job that the batch system shows."""

    def history(self, since: float, until: float) -> Snapshot:
        """Return every job that ended between two instants."""

    def ended(self, ids: Sequence[str], since: float) -> Snapshot:
        """Return the jobs with these ids that ended at an instant or later."""

    def site(self) -> Site:
        """Facts about the machine."""

    def reservations(self) -> list[dict[str, Any]]:
        """Return name, start, end and kind (maintenance or not) of every reservation."""

    def nodes_away(self) -> Sequence[NodeAway]:
        """Return the nodes that are down or drained."""

    def hides_jobs(self) -> bool:
        """Return whether users may currently not see each other's jobs."""


def open_scheduler(settings: Settings, record: str | None = None) -> tuple[Any, Callable[[], dict[str, Any]]]:
    """Open the batch system of the settings; return it and a function that returns its transport's counters.

    If the settings or SLURM_CLUSTERS name a Slurm cluster and another cluster answers, the first query raises
    WrongCluster. With PBS the name is a label that the operator chooses.
    """
    local = {"TZ": "UTC"} if settings["scheduler"] == "pbs" else {}  # PBS prints only local time
    commands = Commands(
        environment=local,
        timeout_s=settings["timeout_s"],
        floor_s=settings["floor_s"],
        back_off_s=settings["back_off_s"],
        longest_back_off_s=settings["longest_back_off_s"],
    )
    transport: Transport = Recording(commands, record) if record else commands
    if settings["scheduler"] == "slurm":
        from ..slurm.client import Slurm

        if name := settings["cluster"] or os.environ.get("SLURM_CLUSTERS", ""):
            transport = OneCluster(transport, name)
        return Slurm(transport), commands.health
    from ..pbs import Pbs

    return Pbs(transport), commands.health


def why_blind(scheduler: Any, user: str) -> str:
    """Return why this user cannot see other users' jobs although the batch system hides them; empty if it can.

    Raises Unreachable if the batch system does not answer. A batch system without such a query is assumed to show all
    jobs.
    """
    ask = getattr(scheduler, "why_blind", None)
    return "" if ask is None else str(ask(user))
