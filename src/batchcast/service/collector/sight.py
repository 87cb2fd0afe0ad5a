# SPDX-License-Identifier: Apache-2.0
"""Checks whether the collector's user may see other users' jobs, because a job that becomes hidden has not ended."""

from __future__ import annotations

import math
from typing import Any

from ...errors import BatchcastError
from ...formats.sighting import Snapshot
from ...store import clock_jobs, history
from ...store.database import Store
from ...store.place import close_to_others, open_to_others
from ..batch_system import why_blind
from ..settings import Settings, is_private, own_name

EVERY_S = 300.0
"""While Slurm hides jobs from users but not from the collector, its permission is checked every so many seconds."""


def follow_privacy(store: Store, settings: Settings, by_slurm: bool) -> tuple[list[str], list[str]]:
    """Make the store unreadable for other users if jobs are hidden; make a new store readable if they are not.

    Returns notices and problems, in words. If the owner made a store unreadable, it stays unreadable. A store that this
    function made unreadable is not made readable again, because it has all users' jobs from the time when jobs were
    hidden.
    """
    is_new, store.is_new = store.is_new, False
    try:
        if not is_private(settings, {"site": {"private": by_slurm}}):
            if is_new:
                open_to_others(store.url)
        elif close_to_others(store.url):
            return [f"jobs are hidden from now on: {store.shown} was open to others and is closed (mode 600)"], []
    except OSError as error:
        return [], [f"jobs are hidden, and {store.shown} is open to others and cannot be closed: {error.strerror}"]
    return [], []


class Sight:
    """The collector's permission to see other users' jobs. `blind` says why it is missing; empty if all jobs can be
    seen.
    """

    def __init__(self) -> None:
        self.blind = ""
        self._asked_at = -math.inf

    def look(self, scheduler: Any, store: Store, cluster: str, private: bool, snapshot: Snapshot) -> str:
        """Return why other users' jobs cannot be seen in this snapshot of the queue; empty if they can be seen. The
        method stores the reason as `blind`.

        The permission is checked when Slurm begins to hide jobs, in each cycle while it is missing, and otherwise every
        five minutes. The permission is also checked at once if Slurm no longer shows any other user's job, because a
        permission can be withdrawn. If the check of the permission fails, the result of the last check holds.
        """
        me = own_name()
        with store.begin() as connection:
            known = clock_jobs.read_meta(connection, cluster).get("blind")
            alone = private and all(s.asked.get("user_id") == me for s in snapshot.jobs)
            alone = alone and history.has_others_open(connection, cluster, me)
        if not private:
            self.blind, self._asked_at = "", -math.inf
        elif self.blind or alone or not 0 <= snapshot.asked_at - self._asked_at < EVERY_S:
            try:
                self.blind, self._asked_at = why_blind(scheduler, me), snapshot.asked_at
            except BatchcastError as error:
                if alone or self._asked_at == -math.inf:
                    self.blind = f"Slurm hides jobs, and whether {me} may see them cannot be asked: {error.message}"
        if bool(self.blind) != bool(known):
            blind = {"since": snapshot.asked_at, "why": self.blind} if self.blind else None
            with store.begin() as connection:
                clock_jobs.write_meta(connection, cluster, blind=blind)
        return self.blind
