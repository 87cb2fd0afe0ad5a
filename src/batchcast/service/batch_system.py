# SPDX-License-Identifier: Apache-2.0
"""The interface of a batch system, the same for Slurm and PBS, and how to open one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..formats.sighting import NodeAway, Site, Snapshot
from ..slurm.transport import Commands, OneCluster, Recording, Transport
from .settings import Settings


class BatchSystem(Protocol):
    """The queries that the collector sends to a batch system, the same for Slurm and PBS."""

    def now(self) -> float:
        """Return the present time, epoch seconds."""

    def ticks(self) -> float:
        """Return the seconds of a monotonic clock, which does not change when the wall clock is set."""

    def snapshot(self) -> Snapshot:
        """Return every job that the batch system shows."""

    def history(self, since: float, until: float) -> Snapshot:
        """Return every job that ended between two instants."""

    def ended(self, ids: Sequence[str], since: float) -> Snapshot:
        """Return the jobs with these ids that ended at `since` or later."""

    def site(self) -> Site:
        """Return facts about the site: cluster, partitions, accounting, privacy."""

    def reservations(self) -> list[dict[str, Any]]:
        """Return name, start, end and kind (maintenance or not) of every reservation."""

    def nodes_away(self) -> Sequence[NodeAway]:
        """Return the nodes that are down or drained."""

    def hides_jobs(self) -> bool:
        """Return whether the batch system hides users' jobs from other users at present."""


def open_scheduler(settings: Settings, record: str | None = None) -> tuple[Any, Callable[[], dict[str, Any]]]:
    """Open the batch system in the settings; return it, and a function that returns the counters of its calls.

    If the settings or SLURM_CLUSTERS name a Slurm cluster and another cluster answers, the first query raises
    WrongCluster. For PBS the cluster's name is only a label that the operator chooses.
    """
    local = {"TZ": "UTC"} if settings["scheduler"] == "pbs" else {}  # PBS prints times only in the local time zone
    limits = {name: settings[name] for name in ("timeout_s", "floor_s", "back_off_s", "longest_back_off_s")}
    commands = Commands(environment=local, **limits)
    transport: Transport = Recording(commands, record) if record else commands
    if settings["scheduler"] == "slurm":
        from ..slurm.client import Slurm

        if name := settings["cluster"] or os.environ.get("SLURM_CLUSTERS", ""):
            transport = OneCluster(transport, name)
        return Slurm(transport), commands.health
    from ..pbs import Pbs

    return Pbs(transport), commands.health
