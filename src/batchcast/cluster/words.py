"""A machine in words, for `batchcast machine show`. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ..units import format_duration
from .machine import Limits, Machine

SCHEDULER = ("SchedulerType", "PriorityType", "SelectType", "SelectTypeParameters", "AccountingStorageEnforce")


def describe(machine: Machine, fold: Callable[[Sequence[str]], str]) -> list[str]:
    """Lines on nodes, partitions, the scheduler, limits, reservations and what the model leaves out."""
    count = len(machine.node_names())
    lines = [f"{machine.name or 'machine'}: {count} nodes, {machine.cpus} processors", "", "nodes"]
    for group in machine.nodes:
        size = f"{group.cpus} processors" + (f", {group.memory_mib:.0f} MiB" if math.isfinite(group.memory_mib) else "")
        extra = [f"{n} {kind}" for kind, n in group.gres.items()] + (
            [",".join(group.features)] if group.features else []
        )
        down = f"; down: {fold(group.down)}" if group.down else ""
        lines.append(f"  {fold(group.names)}: {', '.join([size, *extra])}, weight {group.weight}{down}")
    lines += ["", "partitions"]
    for part in machine.partitions:
        state = "" if part.up else ", not up"
        default = ", default" if part.default else ""
        lines.append(
            f"  {part.name}: {fold(part.nodes)}, at most {format_duration(part.max_time)}, unless asked"
            f" {format_duration(part.default_time)}, tier {part.priority_tier}{default}{state}"
        )
    settings = {key: machine.settings[key] for key in SCHEDULER if key in machine.settings}
    tuned = {key: value for key, value in machine.settings.items() if key.startswith(("bf_", "sched_"))}
    weights = {k: v for k, v in machine.settings.items() if k.startswith("PriorityWeight") and v not in ("0", "(null)")}
    lines += ["", "scheduler", *(f"  {k} = {v}" for k, v in {**settings, **tuned, **weights}.items())]
    limits = [f"  qos {q.name}: priority {q.priority:g}{_limits(q.limits)}" for q in machine.qos]
    for a in machine.associations:
        if _limits(a.limits):
            limits.append(f"  {a.account}{'/' + a.user if a.user else ''}{_limits(a.limits)}")
    lines += ["", "limits", *limits] if limits else []
    if machine.licenses:
        lines += ["", "licenses", *(f"  {name}: {count:g}" for name, count in machine.licenses.items())]
    if machine.reservations:
        lines += ["", "reservations"]
        for r in machine.reservations:
            lines.append(
                f"  {r.name}: {fold(r.nodes)}, {format_duration(r.end - r.start)} {','.join(r.flags)}".rstrip()
            )
    if machine.left_out:
        lines += ["", "not modelled: " + ", ".join(machine.left_out)]
    return lines


def _limits(limits: Limits) -> str:
    words = []
    for name in limits.__slots__:
        value = getattr(limits, name)
        if isinstance(value, Mapping) and value:
            words.append(f"{name} {','.join(f'{k}={v:g}' for k, v in value.items())}")
        elif isinstance(value, float) and math.isfinite(value):
            words.append(f"{name} {value:g}")
    return ", " + ", ".join(words) if words else ""
