# SPDX-License-Identifier: Apache-2.0
"""The batch system as the service asks it (Slurm and PBS alike), and how it is opened behind its transport."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..formats.sighting import NodeAway, Site, Snapshot
from ..slurm.transport import Commands, OneCluster, Recording, Transport
from .settings import Settings


class BatchSystem(Protocol):
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

    def nodes_away(self) -> Sequence[NodeAway]:
        """The nodes that are down or drained."""

    def hides_jobs(self) -> bool:
        """Whether users may not see each other's jobs, now."""


def open_scheduler(settings: Settings, record: str | None = None) -> tuple[Any, Callable[[], dict[str, Any]]]:
    """The batch system the settings name, and the counters of its transport.

    If the settings or SLURM_CLUSTERS name one cluster of Slurm and another answers, the first question raises
    WrongCluster. A name of PBS is a label that the operator chooses.
    """
    local = {"TZ": "UTC"} if settings["scheduler"] == "pbs" else {}  # PBS prints local time only
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


def own_name() -> str:
    """The user who this process is."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def why_blind(scheduler: Any, user: str) -> str:
    """Why this user does not see others' jobs on a batch system that hides them, in words; empty: the user sees them.

    Raises Unreachable where that cannot be asked. A batch system that cannot say is believed to show all.
    """
    ask = getattr(scheduler, "why_blind", None)
    return "" if ask is None else str(ask(user))
