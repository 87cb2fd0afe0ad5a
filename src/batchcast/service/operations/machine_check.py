# SPDX-License-Identifier: Apache-2.0
"""The check of `batchcast doctor` whether a machine for simulations is known and up to date."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import BatchcastError
from ...machines.machine import Machine
from ...store.place import machine_path
from ..batch_system import open_scheduler
from ..collector.machine import in_service
from ..planning.checkup import failed, finding
from ..settings import NO_MACHINE, Settings, machine_at

REFRESH = "is batchcast collect running? it refreshes the machine within five minutes, or reports why it cannot"
SCHEDULES = ("PriorityWeight", "SchedulerParameters", "PriorityType", "PriorityMaxAge", "PriorityDecayHalfLife",
             "SelectTypeParameters", "PreemptType", "PreemptMode", "AccountingStorageEnforce")  # fmt: skip
"""Settings in slurm.conf whose names begin like this determine which job starts when."""
MOST = 3
"""A sentence lists at most this many names."""


def machine_finding(settings: Settings, cluster: str, memory: Mapping[str, Any]) -> dict[str, Any]:
    """Compare the machine in use with Slurm's present configuration, by six queries. The finding is `failed` if
    predictions use an outdated machine.
    """
    path, named = machine_path(settings["store"], cluster), settings["machine"]
    if named == NO_MACHINE:
        fact = "machine = none: waits are simulated on a pool of processors, and their bounds are wide"
        return finding("machine", "warning", fact, "remove the setting: the collector captures the machine")
    trouble = (memory.get("machine") or {}).get("trouble")
    if not named and not path.exists():
        fact = f"not captured{f': {trouble}' if trouble else ' yet'}: waits are simulated on a pool of processors"
        return finding("machine", "failed" if trouble else "warning", fact, REFRESH)
    if not named and not os.access(path, os.R_OK):
        return finding("machine", "ok", f"captured; only the collector's user can read {path}")
    try:
        known = machine_at(named, path)
        now = in_service(open_scheduler(settings)[0].machine())
    except BatchcastError as error:
        return failed("machine", error, "`batchcast machine capture` shows the details", "warning")
    assert known is not None
    if not (changed := differences(in_service(known), now)):
        same = f"{len(known.node_names())} nodes, {len(known.partitions)} partitions"
        return finding("machine", "ok", f"{same}, equal to Slurm's present configuration")
    do = f"remove machine = {named}: then the collector keeps the machine up to date" if named else REFRESH
    fact = f"{named or path} differs from Slurm's present configuration: {'; '.join(changed[:4])}"
    return finding("machine", "failed", fact, do)


def differences(old: Machine, new: Machine) -> list[str]:
    """Return sentences about nodes, partitions, QOS, reservations, accounts and settings that differ between two
    machines.

    Nodes that are down do not count as a difference, because the collector often reads which nodes are down.

    >>> from batchcast.machines.machine import homogeneous
    >>> differences(homogeneous(2, 4, PriorityWeightQOS="1"), homogeneous(3, 4, PriorityWeightQOS="9"))
    ['nodes are new: n3', 'partitions have changed: all', 'PriorityWeightQOS is 9, not 1']
    """
    sentences = _of_kind("nodes", _nodes(old), _nodes(new))
    for kind in ("partitions", "QOS", "reservations"):
        before, after = ({one.name: one for one in getattr(each, kind.lower())} for each in (old, new))
        sentences += _of_kind(kind, before, after)
    if {repr(a) for a in old.associations} != {repr(a) for a in new.associations}:
        sentences.append("accounts, users or their limits differ")
    for word in sorted(w for w in {*old.settings, *new.settings} if w.startswith(SCHEDULES)):
        was, now = (each.settings.get(word, "not set") for each in (old, new))
        if was != now:
            sentences.append(f"{word} is {now}, not {was}")
    return sentences


def _nodes(machine: Machine) -> Mapping[str, object]:
    """Return the properties of each node, by name."""
    return {
        name: (g.cpus, g.sockets, g.threads, g.memory_mib, dict(g.gres), g.features, g.weight)
        for g in machine.nodes
        for name in g.names
    }


def _of_kind(kind: str, before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """Return sentences that list which names are new, removed or changed."""
    found = {
        "are new": [name for name in after if name not in before],
        "are gone": [name for name in before if name not in after],
        "have changed": [name for name, one in after.items() if name in before and repr(before[name]) != repr(one)],
    }
    return [f"{kind} {what}: {_some(names)}" for what, names in found.items() if names]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more
