# SPDX-License-Identifier: Apache-2.0
"""The check of `batchcast doctor` whether a machine for simulations is known and up to date."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import BatchcastError
from ...machines.machine import Machine
from ...store.place import machine_path
from ..batch_system import open_scheduler
from ..collector.machine import in_service
from ..planning.checkup import finding
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
        return finding(
            "machine", "warning", error.message, error.hint or "`batchcast machine capture` shows the details"
        )
    assert known is not None
    changed = differences(in_service(known), now)
    fact = (
        f"{len(known.node_names())} nodes, {len(known.partitions)} partitions, equal to Slurm's present configuration"
    )
    if not changed:
        return finding("machine", "ok", fact)
    do = f"remove machine = {named}: then the collector keeps the machine up to date" if named else REFRESH
    return finding(
        "machine",
        "failed",
        f"{named or path} differs from Slurm's present configuration: {'; '.join(changed[:4])}",
        do,
    )


def differences(old: Machine, new: Machine) -> list[str]:
    """Return sentences about nodes, partitions, QOS, reservations, accounts and settings that differ between two
    machines.

    Nodes that are down do not count as a difference, because the collector often reads which nodes are down.

    >>> from batchcast.machines.machine import homogeneous
    >>> differences(homogeneous(2, 4, PriorityWeightQOS="1"), homogeneous(3, 4, PriorityWeightQOS="9"))
    ['nodes are new: n3', 'partitions have changed: all', 'PriorityWeightQOS is 9, not 1']
    """
    sentences = []
    for kind, before, after in (
        ("nodes", _nodes(old), _nodes(new)),
        ("partitions", {p.name: p for p in old.partitions}, {p.name: p for p in new.partitions}),
        ("QOS", {q.name: q for q in old.qos}, {q.name: q for q in new.qos}),
        ("reservations", {r.name: r for r in old.reservations}, {r.name: r for r in new.reservations}),
    ):
        sentences += _of_kind(kind, before, after)
    if {repr(a) for a in old.associations} != {repr(a) for a in new.associations}:
        sentences.append("accounts, users or their limits differ")
    words = sorted({w for each in (old, new) for w in each.settings if w.startswith(SCHEDULES)})
    for word in words:
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


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    more = f" and {len(shown) - MOST} more" if len(shown) > MOST else ""
    return ", ".join(shown[:MOST]) + more
