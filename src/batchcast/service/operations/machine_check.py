# SPDX-License-Identifier: Apache-2.0
"""`doctor` on the machine: is there one that forecasts are simulated on, and is it what Slurm says now?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...errors import BatchcastError
from ...machines.differences import differences
from ...store.place import machine_path
from ..batch_system import open_scheduler
from ..collector.machine import in_service
from ..planning.checkup import finding
from ..settings import NO_MACHINE, Settings, machine_at

REFRESH = "is batchcast collect running? it refreshes the machine within five minutes, or says why not"


def machine_finding(settings: Settings, cluster: str, memory: Mapping[str, Any]) -> dict[str, Any]:
    """Compares the machine in use with what Slurm says: six questions. Failed where forecasts rest on another one."""
    place, named = machine_path(settings["store"], cluster), settings["machine"]
    if named == NO_MACHINE:
        fact = "machine = none: waits are simulated on processors alone, and their bounds are wide"
        return finding("machine", "warning", fact, "leave the setting out: the collector captures the machine")
    trouble = (memory.get("machine") or {}).get("trouble")
    if not named and not place.exists():
        fact = f"not captured{f': {trouble}' if trouble else ' yet'}: waits are simulated on processors alone"
        return finding("machine", "failed" if trouble else "warning", fact, REFRESH)
    if not named and not os.access(place, os.R_OK):
        return finding("machine", "ok", f"captured; {place} is its collector's alone to read")
    try:
        known = machine_at(named, place)
        now = in_service(open_scheduler(settings)[0].machine())
    except BatchcastError as error:
        return finding("machine", "warning", error.message, error.hint or "batchcast machine capture says more")
    assert known is not None
    changed = differences(in_service(known), now)
    fact = f"{len(known.node_names())} nodes, {len(known.partitions)} partitions, as Slurm says now"
    if not changed:
        return finding("machine", "ok", fact)
    do = f"leave out machine = {named}, and the collector keeps it current" if named else REFRESH
    return finding("machine", "failed", f"{named or place} is not what Slurm says: {'; '.join(changed[:4])}", do)
