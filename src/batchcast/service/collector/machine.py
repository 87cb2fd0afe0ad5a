# SPDX-License-Identifier: Apache-2.0
"""The machine for simulated predictions: captured from Slurm, kept beside the store, renewed when it changes.

Every few minutes three short queries find changes of nodes, partitions, QOS, weights or reservations. The file names
accounts and users with their limits, so only the collector's user can read it.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ...errors import BatchcastError
from ...machines.machine import Machine
from ...schedule.slurm.site import make_site
from ...store.place import machine_path
from ...trace.machine_files import open_machine, toml_of
from ...trace.whole_file import whole_file
from ..settings import Settings, machine_at

WHOLE_EVERY_S = 3600.0
"""Accounts and their limits are queried this often: the answer is the longest and changes least."""


def in_service(machine: Machine) -> Machine:
    """Return the machine with every node in service, because the clock knows which nodes are down."""
    return replace(machine, nodes=tuple(replace(group, down=()) for group in machine.nodes))


class MachineWatch:
    """The machine of one cluster. `machine` is None if none is known; then `trouble` says why."""

    def __init__(self, settings: Settings, cluster: str) -> None:
        self.settings, self.cluster = settings, cluster
        self.machine: Machine | None = None
        self.trouble = ""
        self.captured_at = math.nan
        self._looked_at = self._whole_at = self._shares_at = -math.inf
        self._digest = ""
        self._seen: frozenset[str] = frozenset()
        if settings["machine"]:
            self.machine = machine_at(settings["machine"])
        else:
            self.machine = self._kept()

    @property
    def is_captured(self) -> bool:
        """Return whether the machine is captured from Slurm: no file is named, and the setting is not `none`."""
        return not self.settings["machine"]

    def known(self, scheduler: Any, now: float) -> dict[str, Any]:
        """Return what the store should record: capture time (epoch seconds; None: not yet), trouble, shares."""
        used = self.shares(scheduler, now)
        at = self.captured_at if math.isfinite(self.captured_at) else None
        return {"machine": {"at": at, "trouble": self.trouble}} | ({} if used is None else {"shares": used})

    def look(self, scheduler: Any, now: float, partitions: Iterable[str]) -> bool:
        """Capture the machine again if it changed, and return whether it did.

        It is checked as often as accounting, and at once if a job is in an unknown partition. After a failure the
        machine stays as it was.
        """
        unknown = frozenset(partitions) - self._seen
        due = unknown or not 0 <= now - self._looked_at < self.settings["history_every_s"]
        if not (self.is_captured and due and hasattr(scheduler, "machine")):
            return False
        self._looked_at, self._seen = now, self._seen | unknown
        try:
            digest = hashlib.sha256(scheduler.shape().encode()).hexdigest()
            if digest == self._digest and 0 <= now - self._whole_at < WHOLE_EVERY_S:
                return False
            fresh = in_service(scheduler.machine())
            make_site(fresh)  # list now what the simulation does not model, not at each prediction
        except BatchcastError as error:
            self.trouble = error.message
            return False
        changed = self.machine is None or repr(fresh) != repr(self.machine)
        self.machine, self._digest, self._whole_at, self.captured_at = fresh, digest, now, now
        self.trouble = self._keep(fresh) if changed else ""
        return changed

    def shares(self, scheduler: Any, now: float) -> dict[str, float] | None:
        """Return the usage of each "account|user" if fair-share ranks jobs here and the last query is old enough."""
        weight = self.machine.settings.get("PriorityWeightFairShare", "0") if self.machine is not None else "0"
        due = not 0 <= now - self._shares_at < self.settings["history_every_s"]
        if not (due and weight.isdigit() and int(weight) and hasattr(scheduler, "shares")):
            return None
        self._shares_at = now
        try:
            used: dict[str, float] = scheduler.shares()
        except BatchcastError as error:
            self.trouble = error.message
            return None
        return used

    def _kept(self) -> Machine | None:
        """Return the stored machine; None if there is none or it cannot be read."""
        try:
            return open_machine(machine_path(self.settings["store"], self.cluster))
        except BatchcastError:
            return None

    def _keep(self, machine: Machine) -> str:
        """Write the machine's file, readable only by its owner; return what failed."""
        place = machine_path(self.settings["store"], self.cluster)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(place) as part:
                part.touch(0o600)
                os.chmod(part, 0o600)
                part.write_text(toml_of(machine), encoding="utf-8")
        except OSError as error:
            return f"{place}: {error.strerror}"
        return ""
