# SPDX-License-Identifier: Apache-2.0
"""Captures the machine for simulations from Slurm, saves it beside the store, and renews it when it changes.

Every few minutes three short queries find changes of nodes, partitions, QOS, weights or reservations. The machine's
file contains accounts and users with their limits, so only the collector's user can read it.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
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
"""Accounts and their limits are queried only this often, because this answer is the longest and rarely changes."""


def in_service(machine: Machine) -> Machine:
    """Return the machine with every node in service, because the clock knows which nodes are down."""
    return replace(machine, nodes=tuple(replace(group, down=()) for group in machine.nodes))


class MachineWatch:
    """Keeps the captured machine of one cluster up to date. If `machine` is None, no machine is known, and `trouble`
    gives the reason.
    """

    def __init__(self, settings: Settings, cluster: str) -> None:
        self.settings = settings
        self.machine: Machine | None = None
        self.trouble = ""
        self.captured_at: float | None = None
        self._looked_at = self._whole_at = self._shares_at = -math.inf
        self._digest = ""
        self._seen: frozenset[str] = frozenset()
        self.place = machine_path(settings["store"], cluster)
        # the setting `machine` may name a file or be `none`; then the machine is not captured from Slurm
        if settings["machine"]:
            self.machine = machine_at(settings["machine"])
        else:
            with contextlib.suppress(BatchcastError):
                self.machine = open_machine(self.place)

    def look(self, scheduler: Any, now: float, partitions: Iterable[str]) -> bool:
        """Capture the machine again if it changed, and return whether it did.

        The machine is checked as often as accounting is queried, and at once if a job is in an unknown partition. If a
        query fails, the last machine stays in use.
        """
        unknown = frozenset(partitions) - self._seen
        due = unknown or not 0 <= now - self._looked_at < self.settings["history_every_s"]
        if self.settings["machine"] or not due or not hasattr(scheduler, "machine"):
            return False
        self._looked_at, self._seen = now, self._seen | unknown
        try:
            digest = hashlib.sha256(scheduler.shape().encode()).hexdigest()
            if digest == self._digest and 0 <= now - self._whole_at < WHOLE_EVERY_S:
                return False
            fresh = in_service(scheduler.machine())
            make_site(fresh)  # find unsupported features of the machine once, here, and not at each prediction
        except BatchcastError as error:
            self.trouble = error.message
            return False
        changed = self.machine is None or repr(fresh) != repr(self.machine)
        self.machine, self._digest, self._whole_at, self.captured_at = fresh, digest, now, now
        self.trouble = self._keep(fresh) if changed else ""
        return changed

    def known(self, scheduler: Any, now: float) -> dict[str, Any]:
        """Return values for the store: `machine` with the capture time (epoch seconds; None: not yet) and the last
        error, and `shares`, the usage of each "account|user", if fair share ranks jobs here and the query is due.
        """
        weight = self.machine.settings.get("PriorityWeightFairShare", "0") if self.machine is not None else "0"
        due = not 0 <= now - self._shares_at < self.settings["history_every_s"]
        shares: dict[str, Any] = {}
        if due and weight.isdigit() and int(weight) and hasattr(scheduler, "shares"):
            self._shares_at = now
            try:
                shares = {"shares": dict(scheduler.shares())}
            except BatchcastError as error:
                self.trouble = error.message
        return {"machine": {"at": self.captured_at, "trouble": self.trouble}, **shares}

    def _keep(self, machine: Machine) -> str:
        """Write the machine to a file that only its owner can read; return the error, if any."""
        try:
            self.place.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(self.place) as part:
                part.touch(0o600)
                part.chmod(0o600)
                part.write_text(toml_of(machine), encoding="utf-8")
        except OSError as error:
            return f"{self.place}: {error.strerror}"
        return ""
