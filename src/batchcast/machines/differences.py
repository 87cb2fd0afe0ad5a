# SPDX-License-Identifier: Apache-2.0
"""In what two descriptions of a machine differ, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .machine import Machine

SCHEDULES = ("PriorityWeight", "SchedulerParameters", "PriorityType", "PriorityMaxAge", "PriorityDecayHalfLife",
             "SelectTypeParameters", "PreemptType", "PreemptMode", "AccountingStorageEnforce")  # fmt: skip
"""The beginnings of slurm.conf's words that decide which job starts when."""
MOST = 3
"""So many names stand in one sentence."""


def differences(old: Machine, new: Machine) -> list[str]:
    """What of nodes, partitions, QOS, settings and reservations is otherwise in `new`; empty where nothing is.

    Which nodes are down is no difference: that is asked as often as accounting.

    >>> from batchcast.machines.machine import homogeneous
    >>> differences(homogeneous(2, 4, PriorityWeightQOS="1"), homogeneous(3, 4, PriorityWeightQOS="9"))
    ['nodes are new: n3', 'partitions are otherwise: all', 'PriorityWeightQOS is 9, not 1']
    """
    said = []
    for kind, before, after in (
        ("nodes", _nodes(old), _nodes(new)),
        ("partitions", {p.name: p for p in old.partitions}, {p.name: p for p in new.partitions}),
        ("QOS", {q.name: q for q in old.qos}, {q.name: q for q in new.qos}),
        ("reservations", {r.name: r for r in old.reservations}, {r.name: r for r in new.reservations}),
    ):
        said += _of_kind(kind, before, after)
    if {repr(a) for a in old.associations} != {repr(a) for a in new.associations}:
        said.append("accounts, users or their limits are otherwise")
    words = sorted({w for each in (old, new) for w in each.settings if w.startswith(SCHEDULES)})
    for word in words:
        was, now = (each.settings.get(word, "not set") for each in (old, new))
        if was != now:
            said.append(f"{word} is {now}, not {was}")
    return said


def _nodes(machine: Machine) -> Mapping[str, object]:
    """What each node has, by name."""
    return {
        name: (g.cpus, g.sockets, g.threads, g.memory_mib, dict(g.gres), g.features, g.weight)
        for g in machine.nodes
        for name in g.names
    }


def _of_kind(kind: str, before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """Which names are new, which are gone, and which mean something else."""
    found = {
        "are new": [name for name in after if name not in before],
        "are gone": [name for name in before if name not in after],
        "are otherwise": [name for name, one in after.items() if name in before and repr(before[name]) != repr(one)],
    }
    return [f"{kind} {what}: {_some(names)}" for what, names in found.items() if names]


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    more = f" and {len(shown) - MOST} more" if len(shown) > MOST else ""
    return ", ".join(shown[:MOST]) + more
