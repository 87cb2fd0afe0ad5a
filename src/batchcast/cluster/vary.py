# SPDX-License-Identifier: Apache-2.0
"""A machine with something changed: `what if`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ..errors import UsageError
from .machine import Machine, NodeGroup

POLICIES = {
    "fifo": {"SchedulerType": "sched/builtin", "PriorityType": "priority/basic"},
    "backfill": {"SchedulerType": "sched/backfill", "PriorityType": "priority/basic"},
    "multifactor": {"SchedulerType": "sched/backfill", "PriorityType": "priority/multifactor"},
}
"""What `policy=` stands for, in slurm.conf's words."""
JOB_KEYS = ("limits", "memory", "order", "within", "age")
"""Keys that change the jobs, not the machine."""
SETTINGS_READ = (
    "nodes", "policy", *JOB_KEYS, "SchedulerType", "PriorityType", "SelectTypeParameters", "AccountingStorageEnforce",
    "bf_interval", "bf_resolution", "bf_window", "bf_max_job_test", "bf_max_job_user", "bf_max_job_part",
    "bf_max_job_array_resv", "bf_min_age_reserve", "bf_min_prio_reserve", "sched_interval", "batch_sched_delay",
    "default_queue_depth",
    "PriorityDecayHalfLife", "PriorityCalcPeriod", "PriorityMaxAge", "PriorityWeightAge", "PriorityWeightFairShare",
    "PriorityWeightJobSize", "PriorityWeightPartition", "PriorityWeightQOS", "PriorityWeightTRES",
)  # fmt: skip

NUMBERS = ("bf_", "sched_", "batch_", "default_", "PriorityWeight")
"""How the settings begin that are numbers, but for `PriorityWeightTRES`."""


def parse_changes(text: str) -> dict[str, str]:
    """KEY=VALUE pairs of one variant, by commas.

    >>> parse_changes("nodes=+10%,bf_interval=60")
    {'nodes': '+10%', 'bf_interval': '60'}
    """
    pairs = [item.partition("=") for item in text.split(",") if item]
    wrong = [key for key, equals, _ in pairs if not equals or not key]
    if wrong or not pairs:
        raise UsageError(f"not KEY=VALUE: {text!r}", hint="nodes=+10%, policy=fifo, limits=forecast, bf_interval=60")
    return {key: value for key, _, value in pairs}


def vary(machine: Machine, changes: Mapping[str, str]) -> Machine:
    """The machine with `nodes=+10%` (of every group; `nodes=-3` of the largest), `policy=`, or settings changed.

    What belongs to the jobs (`JOB_KEYS`) is left alone. Any other key is one of slurm.conf's words. UsageError
    where a value cannot be read or a key is not one that the scheduler's model reads.

    >>> from batchcast.cluster.machine import homogeneous
    >>> vary(homogeneous(10, 4), {"nodes": "+20%"}).cpus
    48
    """
    for key, value in changes.items():
        if key == "nodes":
            machine = _resized(machine, value)
        elif key == "policy":
            if value not in POLICIES:
                raise UsageError(f"policy={value}: not a policy of Slurm's (accepted: {', '.join(POLICIES)})")
            machine = replace(machine, settings={**machine.settings, **POLICIES[value]})
        elif key not in JOB_KEYS:
            if key not in SETTINGS_READ:
                raise UsageError(
                    f"{key}={value}: the model reads no such setting (accepted: {', '.join(SETTINGS_READ)})"
                )
            if key.startswith(NUMBERS) and key != "PriorityWeightTRES" and not _is_number(value):
                raise UsageError(f"{key}={value}: not a number (accepted: {key}=60)")
            machine = replace(machine, settings={**machine.settings, key: value})
    return machine


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None


def _resized(machine: Machine, value: str) -> Machine:
    number = re.fullmatch(r"([+-]\d+(?:\.\d+)?)(%?)", value)
    if number is None:
        raise UsageError(f"nodes={value}: not a change (accepted: +10%, -5%, +4, -4)")
    amount, share = float(number[1]), bool(number[2])
    largest = max(machine.nodes, key=lambda group: len(group.names))
    taken: set[str] = set()
    more: dict[str, tuple[str, ...]] = {}
    groups: list[NodeGroup] = []
    for k, group in enumerate(machine.nodes):
        change = round(len(group.names) * amount / 100) if share else int(amount) if group is largest else 0
        if change < 0:
            taken |= set(group.names[change:])
            names = group.names[:change]
        else:
            fresh = tuple(f"more{k}x{n + 1}" for n in range(change))
            more[group.names[-1]] = fresh
            names = (*group.names, *fresh)
        if names:
            groups.append(replace(group, names=names, down=tuple(n for n in group.down if n in names)))
    if not groups:
        raise UsageError(f"nodes={value}: nothing is left of the machine")

    def changed(nodes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(m for n in nodes if n not in taken for m in (n, *more.get(n, ())))

    partitions = tuple(replace(p, nodes=changed(p.nodes)) for p in machine.partitions)
    empty = [p.name for p in partitions if not p.nodes]
    if empty:
        raise UsageError(f"nodes={value}: partition {empty[0]} would have no node")
    kept = tuple(replace(r, nodes=tuple(n for n in r.nodes if n not in taken)) for r in machine.reservations)
    return replace(machine, nodes=tuple(groups), partitions=partitions, reservations=kept)
