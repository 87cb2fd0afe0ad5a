# SPDX-License-Identifier: Apache-2.0
"""A Machine as the kernels' arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...cluster.machine import Association, Machine, Partition, Qos
from ...errors import UsageError
from ...units import parse_duration
from .arrays import (
    ASSOC_RECORD,
    FAR,
    NODE_RECORD,
    NONE,
    PART_RECORD,
    QOS_RECORD,
    RESERVATION_RECORD,
    Site,
)  # fmt: skip


def make_site(machine: Machine) -> tuple[Site, dict[str, Any]]:
    """The machine's arrays, and the names by which requests find their places in them."""
    names = {name: i for i, name in enumerate(machine.node_names())}
    groups = [group for group in machine.nodes for _ in group.names]
    kinds = sorted({kind.split(":")[0] for group in machine.nodes for kind in group.gres})
    loaded = "CR_LLN" in machine.settings.get("SelectTypeParameters", "")
    words = {w for g in machine.nodes for w in (*g.features, *g.gres, *(k.split(":")[0] for k in g.gres))}
    if len(words) > 62 or len(machine.partitions) > 62:
        raise UsageError("more than 62 node features and gres types, or partitions, are not modelled")
    bits = {word: 1 << k for k, word in enumerate(sorted(words))}
    width = (len(names) + 63) // 64
    members = [sorted(names[n] for n in p.nodes if n in names) for p in machine.partitions]
    most = max(p.priority_job_factor for p in machine.partitions) or 1
    tres = ["cpu", "node", "mem", *(f"gres/{kind}" for kind in kinds)]
    qos, assoc = machine.qos, machine.associations
    every = {i: i for i in range(len(names))}
    alike: dict[Any, list[int]] = {}
    for i, g in enumerate(groups):
        kind = (g.cpus, g.memory_mib, g.features, tuple(sorted(g.gres.items())))
        alike.setdefault(kind, []).append(i)
    by_tier, by_qos = (machine.settings.get("PreemptType", "").endswith(kind) for kind in ("partition_prio", "qos"))
    exempt = _exempt(machine)
    best = max((q.priority for q in qos), default=0.0) or 1.0
    places = {(a.account, a.user): k for k, a in enumerate(assoc)}
    parent = [_parent(a.account, a.user, a.parent, places) for a in assoc]
    peers = [sum(b.shares for b, p in zip(assoc, parent) if p == parent[k]) for k in range(len(assoc))]
    site = Site(
        node=records(
            NODE_RECORD,
            cpus=[g.cpus for g in groups],
            weight=[g.weight for g in groups],
            features=[sum(bits[w] for w in _words(g.features, g.gres)) for g in groups],
            memory=[min(g.memory_mib, FAR) for g in groups],
        ),
        gres=whole([[amount(g.gres, kind) for kind in kinds] for g in groups], len(groups), len(kinds)),
        part=records(
            PART_RECORD,
            tier=[p.priority_tier for p in machine.partitions] + [0],
            loaded=[p.least_loaded or loaded for p in machine.partitions] + [0],
            preempts=[_lower(machine, p) for p in machine.partitions] + [0],
            cancels=[by_tier and _cancels(machine, p.preempt_mode) for p in machine.partitions] + [0],
            grace=[p.grace_time if by_tier else 0.0 for p in machine.partitions] + [0.0],
            first=np.concatenate([[0], np.cumsum([len(m) for m in members])]),
            factor=[p.priority_job_factor / most for p in machine.partitions] + [0.0],
            max_time=[min(p.max_time, FAR) for p in machine.partitions] + [0.0],
            default_time=[or_none(p.default_time) for p in machine.partitions] + [0.0],
            mem_node=[or_none(p.default_mem_per_node) for p in machine.partitions] + [0.0],
            mem_cpu=[or_none(p.default_mem_per_cpu) for p in machine.partitions] + [0.0],
        ),
        inside=whole([mask(p.nodes, names, width) for p in machine.partitions], len(machine.partitions), width),
        members=np.array([i for m in members for i in m], np.int64),
        qos=records(
            QOS_RECORD,
            factor=[q.priority / best for q in qos] or [0.0],
            rank=[int(min(q.priority, 0xFFFF)) for q in qos] or [0],
            cancels=[by_qos and _cancels(machine, q.preempt_mode) for q in qos] or [0],
            grace=[q.grace_time if by_qos else 0.0 for q in qos] or [0.0],
            exempt=[exempt if math.isnan(q.preempt_exempt_time) else q.preempt_exempt_time for q in qos] or [exempt],
            jobs=[min(q.limits.grp_jobs, FAR) for q in qos] or [FAR],
            user_jobs=[min(q.limits.max_jobs_per_user, FAR) for q in qos] or [FAR],
            account_jobs=[min(q.limits.max_jobs_per_account, FAR) for q in qos] or [FAR],
        ),
        qos_tres=_limits([q.limits.grp_tres for q in qos] or [{}], tres),
        qos_user_tres=_limits([q.limits.max_tres_per_user for q in qos] or [{}], tres),
        qos_account_tres=_limits([q.limits.max_tres_per_account for q in qos] or [{}], tres),
        qos_job_tres=_limits([q.limits.max_tres for q in qos] or [{}], tres),
        assoc=records(
            ASSOC_RECORD,
            parent=parent or [NONE],
            is_user=[bool(a.user) for a in assoc] or [1],
            share=[a.shares / peers[k] if peers[k] else 0.0 for k, a in enumerate(assoc)] or [1.0],
            jobs=[min(a.limits.grp_jobs, FAR) for a in assoc] or [FAR],
            own_jobs=[min(_inherited(assoc, parent, k, "max_jobs", FAR), FAR) for k in range(len(assoc))] or [FAR],
        ),
        assoc_tres=_limits([a.limits.grp_tres for a in assoc] or [{}], tres),
        assoc_job_tres=_limits([_inherited(assoc, parent, k, "max_tres", {}) for k in range(len(assoc))] or [{}], tres),
        billing=np.array([[float(_billing(p).get(name, 0.0)) for name in tres] for p in machine.partitions]),
        tres_weight=tres_weights(machine.settings, tres),
        part_tres=np.array([_held(p, machine, tres) for p in machine.partitions]),
        licenses=np.array(list(machine.licenses.values()), np.float64),
        reservation=records(
            RESERVATION_RECORD,
            begin=[r.start for r in machine.reservations],
            end=[r.end for r in machine.reservations],
        ),
        reserved=whole([mask(r.nodes, names, width) for r in machine.reservations], len(machine.reservations), width),
        alike=whole([mask(members, every, width) for members in alike.values()], len(alike), width),
        sample=np.array([members[0] for members in alike.values()], np.int64),
    )
    index = {
        "node": names,
        "cpus": [{groups[i].cpus for i in m} for m in members],
        "feature": bits,
        "gres": kinds,
        "partition": {p.name: k for k, p in enumerate(machine.partitions)},
        "default": sum(1 << k for k, p in enumerate(machine.partitions) if p.default) or 1,
        "exclusive": sum(1 << k for k, p in enumerate(machine.partitions) if p.exclusive),
        "licenses": tuple(machine.licenses),
        "enforced": any(w in machine.settings.get("AccountingStorageEnforce", "") for w in ("limits", "safe")),
        "wall": (
            [q.limits.max_wall for q in qos],
            [_inherited(assoc, parent, k, "max_wall", math.inf) for k in range(len(assoc))],
        ),
        "qos": {q.name: k for k, q in enumerate(qos)},
        "preempts": [sum(1 << k for k, o in enumerate(qos) if _may(machine, q, o)) for q in qos] or [0],
        "assoc": places,
        "reservation": {r.name: k for k, r in enumerate(machine.reservations)},
    }
    return site, index


def _mode(machine: Machine, own: str) -> str:
    """OFF, REQUEUE or CANCEL: one's own mode, else the cluster's. Without JobRequeue what is requeued is cancelled."""
    words = (own or machine.settings.get("PreemptMode", "OFF")).upper().split(",")
    found = next((word for word in words if word in ("REQUEUE", "CANCEL")), "OFF")
    return "CANCEL" if found == "REQUEUE" and machine.settings.get("JobRequeue", "1").split()[0] == "0" else found


def _cancels(machine: Machine, own: str) -> bool:
    return _mode(machine, own) == "CANCEL"


def _lower(machine: Machine, partition: Partition) -> int:
    """preempt/partition_prio: the partitions of a lower tier whose jobs give way to this one's, as bits."""
    if not machine.settings.get("PreemptType", "").endswith("partition_prio"):
        return 0
    way = (p.preempt and p.priority_tier < partition.priority_tier and _mode(machine, p.preempt_mode) != "OFF"
           for p in machine.partitions)  # fmt: skip
    return sum(1 << k for k, gives in enumerate(way) if gives)


def _may(machine: Machine, qos: Qos, other: Qos) -> bool:
    """preempt/qos: whether the first may preempt the other."""
    named = machine.settings.get("PreemptType", "").endswith("qos") and other.name in qos.preempts
    return named and _mode(machine, other.preempt_mode) != "OFF"


def _exempt(machine: Machine) -> float:
    """PreemptExemptTime in seconds; none where it says -1 or no end."""
    value = parse_duration(machine.settings.get("PreemptExemptTime", "00:00:00"))
    return value if 0 <= value < math.inf else 0.0


def _parent(account: str, user: str, parent: str, places: Mapping[tuple[str, str], int]) -> int:
    return places.get((account if user else parent, ""), NONE) if user or parent else NONE


def _inherited(assoc: Sequence[Association], parent: Sequence[int], k: int, name: str, unset: Any) -> Any:
    """A limit of one's own, or that of the nearest account above that sets it."""
    while k != NONE:
        value = getattr(assoc[k].limits, name)
        if value and value != math.inf:
            return value
        k = parent[k]
    return unset


def _billing(partition: Partition) -> Mapping[str, float]:
    """TRESBillingWeights by TRES; a processor is one where the partition has none."""
    return partition.billing_weights or {"cpu": 1.0}


def tres_weights(settings: Mapping[str, str], tres: Sequence[str]) -> np.ndarray:
    """PriorityWeightTRES by TRES: `CPU=1000,Mem=2000,GRES/gpu=3000`."""
    pairs = (item.partition("=") for item in settings.get("PriorityWeightTRES", "").lower().split(",") if "=" in item)
    given = {name.strip(): float(value) for name, _, value in pairs}
    return np.array([given.get(name, 0.0) for name in tres])


def _held(partition: Partition, machine: Machine, tres: Sequence[str]) -> list[float]:
    """Each TRES of a partition's nodes; 0 where it has none or as much as one likes."""
    inside, held = set(partition.nodes), dict.fromkeys(tres, 0.0)
    for group in machine.nodes:
        nodes = sum(name in inside for name in group.names)
        kinds = {f"gres/{kind.split(':')[0]}": 0 for kind in group.gres}
        each = {"cpu": group.cpus, "node": 1, "mem": group.memory_mib} | {
            name: amount(group.gres, name.removeprefix("gres/")) for name in kinds
        }
        for name, count in each.items():
            held[name] += nodes * count if nodes else 0.0
    return [value if math.isfinite(value) else 0.0 for value in held.values()]


def _words(features: Sequence[str], gres: Mapping[str, int]) -> set[str]:
    return {*features, *gres, *(kind.split(":")[0] for kind in gres)}


def _limits(tables: Sequence[Mapping[str, float]], tres: Sequence[str]) -> np.ndarray:
    return np.array([[min(t.get(name, FAR), FAR) for name in tres] for t in tables], np.float64)


def records(kind: Any, **columns: Any) -> np.ndarray:
    """A record array from columns."""
    table = np.zeros(len(next(iter(columns.values()))), kind)
    for name, values in columns.items():
        table[name] = values
    return table


def mask(nodes: Sequence[Any], names: Mapping[Any, int], width: int) -> list[int]:
    """Words of bits, one a node named."""
    words = [0] * width
    for name in nodes:
        if name in names:
            words[names[name] >> 6] |= 1 << (names[name] & 63)
    return [w - (1 << 64) if w >> 63 else w for w in words]


def amount(gres: Mapping[str, int], kind: str) -> int:
    """How many of a kind of gres, whatever their types."""
    return sum(count for name, count in gres.items() if name.split(":")[0] == kind)


def or_none(value: float) -> float:
    """-1 for NaN."""
    return -1.0 if math.isnan(value) else value


def whole(rows: Sequence[Sequence[int]], height: int, width: int) -> np.ndarray:
    """Rows as an int64 array of this height and width."""
    return np.array(rows, np.int64).reshape(height, width)
