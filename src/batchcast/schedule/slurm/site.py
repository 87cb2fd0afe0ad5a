# SPDX-License-Identifier: Apache-2.0
"""Converts the description of a machine (`Machine`) to the kernels' arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import UsageError
from ...machines.machine import Association, Machine, NodeGroup, Partition, Qos
from ...units import parse_duration
from . import arrays
from .arrays import FAR, NONE, Site, mask, records


@dataclass(frozen=True, slots=True)
class _Places:
    """Positions of nodes, features, GRES and associations in the arrays.

    `groups` (n,) has the node group of each node, `kinds` the kinds of GRES, `bits` the bit position of each feature
    and GRES, `members` the nodes of each partition, `tres` the names of TRES, and `parent` the parent of each
    association.
    """

    node: Mapping[str, int]
    groups: Sequence[NodeGroup]
    kinds: Sequence[str]
    bits: Mapping[str, int]
    members: Sequence[Sequence[int]]
    tres: Sequence[str]
    assoc: Mapping[tuple[str, str], int]
    parent: Sequence[int]

    @classmethod
    def of(cls, machine: Machine) -> _Places:
        names = {name: i for i, name in enumerate(machine.node_names())}
        kinds = sorted({kind.split(":")[0] for group in machine.nodes for kind in group.gres})
        words = {w for g in machine.nodes for w in _words(g.features, g.gres)}
        if len(words) > 62 or len(machine.partitions) > 62:
            raise UsageError("more than 62 node features and gres types, or partitions, are not modelled")
        places = {(a.account, a.user): k for k, a in enumerate(machine.associations)}
        return cls(
            names,
            [group for group in machine.nodes for _ in group.names],
            kinds,
            {word: 1 << k for k, word in enumerate(sorted(words))},
            [sorted(names[n] for n in p.nodes if n in names) for p in machine.partitions],
            ["cpu", "node", "mem", *(f"gres/{kind}" for kind in kinds)],
            places,
            [_parent(a.account, a.user, a.parent, places) for a in machine.associations],
        )

    def sets(self, groups: Sequence[Sequence[str]]) -> np.ndarray:
        """Return sets of named nodes as bits (sets, words)."""
        width = (len(self.node) + 63) // 64
        return whole([mask(names, self.node, width) for names in groups], len(groups), width)


def make_site(machine: Machine) -> tuple[Site, dict[str, Any]]:
    """Return the machine's arrays, and the tables by which the names in requests are converted."""
    at = _Places.of(machine)
    qos, assoc = machine.qos, machine.associations
    alike = _alike(machine)
    site = Site(
        node=records(
            arrays.NODE_RECORD,
            cpus=[g.cpus for g in at.groups],
            weight=[g.weight for g in at.groups],
            features=[sum(at.bits[w] for w in _words(g.features, g.gres)) for g in at.groups],
            memory=[min(g.memory_mib, FAR) for g in at.groups],
        ),
        gres=whole([[amount(g.gres, kind) for kind in at.kinds] for g in at.groups], len(at.groups), len(at.kinds)),
        part=_partitions(machine, at.members),
        inside=at.sets([p.nodes for p in machine.partitions]),
        members=np.array([i for m in at.members for i in m], np.int64),
        qos=_qos(machine),
        qos_tres=_limits([q.limits.grp_tres for q in qos], at.tres),
        qos_user_tres=_limits([q.limits.max_tres_per_user for q in qos], at.tres),
        qos_account_tres=_limits([q.limits.max_tres_per_account for q in qos], at.tres),
        qos_job_tres=_limits([q.limits.max_tres for q in qos], at.tres),
        assoc=_associations(assoc, at.parent),
        assoc_tres=_limits([a.limits.grp_tres for a in assoc], at.tres),
        assoc_job_tres=_limits(_inherited(assoc, at.parent, "max_tres", {}), at.tres),
        billing=np.array(
            [
                [float((p.billing_weights or {"cpu": 1.0}).get(name, 0.0)) for name in at.tres]
                for p in machine.partitions
            ]
        ),
        tres_weight=tres_weights(machine.settings, at.tres),
        part_tres=np.array([_held(p, machine, at.kinds) for p in machine.partitions]),
        licenses=np.array(list(machine.licenses.values()), np.float64),
        reservation=records(
            arrays.RESERVATION_RECORD,
            begin=[r.start for r in machine.reservations],
            end=[r.end for r in machine.reservations],
            every=[r.every for r in machine.reservations],
            within=[r.max_time for r in machine.reservations],
            until=[min(r.until, FAR) for r in machine.reservations],
        ),
        reserved=at.sets([r.nodes for r in machine.reservations]),
        alike=at.sets(alike),
        sample=np.array([at.node[names[0]] for names in alike], np.int64),
    )
    return site, _index(machine, at)


def _index(machine: Machine, at: _Places) -> dict[str, Any]:
    """Return the tables by which the names in requests are converted."""
    qos, partitions = machine.qos, machine.partitions
    return {
        "node": at.node,
        "cpus": [{at.groups[i].cpus for i in m} for m in at.members],
        "feature": at.bits,
        "gres": at.kinds,
        "partition": {p.name: k for k, p in enumerate(partitions)},
        "default": sum(1 << k for k, p in enumerate(partitions) if p.default) or 1,
        "exclusive": sum(1 << k for k, p in enumerate(partitions) if p.exclusive),
        "memory": holds_memory(machine),
        "licenses": tuple(machine.licenses),
        "enforced": enforces_limits(machine),
        "wall": ([q.limits.max_wall for q in qos], _inherited(machine.associations, at.parent, "max_wall", math.inf)),
        "qos": {q.name: k for k, q in enumerate(qos)},
        "preempts": [sum(1 << k for k, o in enumerate(qos) if _may(machine, q, o)) for q in qos] or [0],
        "assoc": at.assoc,
        "reservation": {r.name: k for k, r in enumerate(machine.reservations)},
    }


def enforces_limits(machine: Machine) -> bool:
    """Return whether slurmctld enforces the limits of QOS and associations."""
    return any(word in machine.settings.get("AccountingStorageEnforce", "") for word in ("limits", "safe"))


def holds_memory(machine: Machine) -> bool:
    """Return whether a job reserves its memory, so that no other job can have it.

    Slurm allocates memory only if SelectTypeParameters names it, for example CR_Core_Memory. With CR_Core every job
    shows the whole memory of a node as requested, yet two jobs can share the node. Without SelectTypeParameters, or if
    limits, priorities or billing count memory, the machine is assumed to allocate memory.

    >>> from batchcast.machines.machine import homogeneous
    >>> [holds_memory(homogeneous(1, 4, SelectTypeParameters=word)) for word in ("CR_CORE", "CR_CORE_MEMORY")]
    [False, True]
    >>> holds_memory(homogeneous(1, 4))
    True
    """
    word = machine.settings.get("SelectTypeParameters")
    if word is None or "MEMORY" in word.upper():
        return True
    tables = [
        table
        for limits in (*(q.limits for q in machine.qos), *(a.limits for a in machine.associations))
        for table in (limits.grp_tres, limits.max_tres, limits.max_tres_per_user, limits.max_tres_per_account)
    ]
    weighs = "mem" in machine.settings.get("PriorityWeightTRES", "").lower()
    return weighs or any("mem" in table for table in (*tables, *(p.billing_weights for p in machine.partitions)))


def _alike(machine: Machine) -> list[list[str]]:
    """Return classes of nodes that are equal in everything that a job can request."""
    alike: dict[Any, list[str]] = {}
    for g in machine.nodes:
        kind = (g.cpus, g.memory_mib, g.features, tuple(sorted(g.gres.items())))
        alike.setdefault(kind, []).extend(g.names)
    return [names for names in alike.values() if names]


def _partitions(machine: Machine, members: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the records of partitions, and one more record for the end of the last partition's nodes."""
    partitions = machine.partitions
    loaded = "CR_LLN" in machine.settings.get("SelectTypeParameters", "")
    by_tier = _preempts_by(machine, "partition_prio")
    most = max(p.priority_job_factor for p in partitions) or 1
    holds = holds_memory(machine)
    return records(
        arrays.PART_RECORD,
        tier=[p.priority_tier for p in partitions] + [0],
        loaded=[p.least_loaded or loaded for p in partitions] + [0],
        preempts=[_lower(machine, p) for p in partitions] + [0],
        cancels=[by_tier and _cancels(machine, p.preempt_mode) for p in partitions] + [0],
        grace=[p.grace_time if by_tier else 0.0 for p in partitions] + [0.0],
        first=np.concatenate([[0], np.cumsum([len(m) for m in members])]),
        factor=[p.priority_job_factor / most for p in partitions] + [0.0],
        max_time=[min(p.max_time, FAR) for p in partitions] + [0.0],
        default_time=[or_none(p.default_time) for p in partitions] + [0.0],
        mem_node=[or_none(p.default_mem_per_node if holds else math.nan) for p in partitions] + [0.0],
        mem_cpu=[or_none(p.default_mem_per_cpu if holds else math.nan) for p in partitions] + [0.0],
    )


def _qos(machine: Machine) -> np.ndarray:
    """Return the records of QOS; if the machine has none, one QOS without limits."""
    qos = machine.qos or (Qos(""),)
    by_qos, exempt = _preempts_by(machine, "qos"), _exempt(machine)
    best = max(q.priority for q in qos) or 1.0
    return records(
        arrays.QOS_RECORD,
        factor=[q.priority / best for q in qos],
        rank=[int(min(q.priority, 0xFFFF)) for q in qos],
        cancels=[by_qos and _cancels(machine, q.preempt_mode) for q in qos],
        grace=[q.grace_time if by_qos else 0.0 for q in qos],
        exempt=[exempt if math.isnan(q.preempt_exempt_time) else q.preempt_exempt_time for q in qos],
        jobs=[min(q.limits.grp_jobs, FAR) for q in qos],
        user_jobs=[min(q.limits.max_jobs_per_user, FAR) for q in qos],
        account_jobs=[min(q.limits.max_jobs_per_account, FAR) for q in qos],
    )


def _associations(assoc: Sequence[Association], parent: Sequence[int]) -> np.ndarray:
    """Return the records of associations; if the machine has none, one user without limits."""
    peers = [sum(b.shares for b, p in zip(assoc, parent) if p == mine) for mine in parent]
    return records(
        arrays.ASSOC_RECORD,
        parent=parent or [NONE],
        is_user=[bool(a.user) for a in assoc] or [1],
        share=[a.shares / of if of else 0.0 for a, of in zip(assoc, peers)] or [1.0],
        jobs=[min(a.limits.grp_jobs, FAR) for a in assoc] or [FAR],
        own_jobs=[min(most, FAR) for most in _inherited(assoc, parent, "max_jobs", FAR)] or [FAR],
    )


def _preempts_by(machine: Machine, kind: str) -> bool:
    return machine.settings.get("PreemptType", "").endswith(kind)


def _mode(machine: Machine, own: str) -> str:
    """Return OFF, REQUEUE or CANCEL, from the preemption mode `own` or, if it is not set, from the cluster's mode.

    With JobRequeue=0, REQUEUE means CANCEL.
    """
    words = (own or machine.settings.get("PreemptMode", "OFF")).upper().split(",")
    found = next((word for word in words if word in ("REQUEUE", "CANCEL")), "OFF")
    return "CANCEL" if found == "REQUEUE" and machine.settings.get("JobRequeue", "1").split()[0] == "0" else found


def _cancels(machine: Machine, own: str) -> bool:
    return _mode(machine, own) == "CANCEL"


def _lower(machine: Machine, partition: Partition) -> int:
    """Return as bits the partitions of lower tier whose jobs this partition may preempt (preempt/partition_prio)."""
    if not _preempts_by(machine, "partition_prio"):
        return 0
    lower = (p.preempt and p.priority_tier < partition.priority_tier and _mode(machine, p.preempt_mode) != "OFF"
           for p in machine.partitions)  # fmt: skip
    return sum(1 << k for k, yields in enumerate(lower) if yields)


def _may(machine: Machine, qos: Qos, other: Qos) -> bool:
    """Return whether the first QOS may preempt the other (preempt/qos)."""
    named = _preempts_by(machine, "qos") and other.name in qos.preempts
    return named and _mode(machine, other.preempt_mode) != "OFF"


def _exempt(machine: Machine) -> float:
    """Return PreemptExemptTime in seconds; 0 if the setting is -1 or infinite."""
    value = parse_duration(machine.settings.get("PreemptExemptTime", "00:00:00"))
    return value if 0 <= value < math.inf else 0.0


def _parent(account: str, user: str, parent: str, places: Mapping[tuple[str, str], int]) -> int:
    return places.get(((parent or account) if user else parent, ""), NONE) if user or parent else NONE


def _inherited(assoc: Sequence[Association], parent: Sequence[int], name: str, unset: Any) -> list[Any]:
    """Return each association's own limit, or the limit of the nearest account above that sets it."""

    def of(k: int) -> Any:
        while k != NONE:
            value = getattr(assoc[k].limits, name)
            if value and value != math.inf:
                return value
            k = parent[k]
        return unset

    return [of(k) for k in range(len(assoc))]


def tres_weights(settings: Mapping[str, str], tres: Sequence[str]) -> np.ndarray:
    """Return PriorityWeightTRES by TRES, for example `CPU=1000,Mem=2000,GRES/gpu=3000`."""
    pairs = (item.partition("=") for item in settings.get("PriorityWeightTRES", "").lower().split(",") if "=" in item)
    given = {name.strip(): float(value) for name, _, value in pairs}
    return np.array([given.get(name, 0.0) for name in tres])


def _held(partition: Partition, machine: Machine, kinds: Sequence[str]) -> np.ndarray:
    """Return the amount of each TRES on a partition's nodes; 0 if the nodes have none or an infinite amount."""
    inside, held = set(partition.nodes), np.zeros(3 + len(kinds))
    for group in machine.nodes:
        if nodes := sum(name in inside for name in group.names):
            each = (group.cpus, 1, group.memory_mib, *(amount(group.gres, kind) for kind in kinds))
            held += nodes * np.array(each, float)
    return np.where(np.isfinite(held), held, 0.0)


def _words(features: Sequence[str], gres: Mapping[str, int]) -> set[str]:
    return {*features, *gres, *(kind.split(":")[0] for kind in gres)}


def _limits(tables: Sequence[Mapping[str, float]], tres: Sequence[str]) -> np.ndarray:
    """Return the limits in each table of limits, by TRES; if there are no tables, one row without limits."""
    return np.array([[min(t.get(name, FAR), FAR) for name in tres] for t in tables or [{}]], np.float64)


def amount(gres: Mapping[str, int], kind: str) -> int:
    """Return the number of GRES of one kind, summed over all types."""
    return sum(count for name, count in gres.items() if name.split(":")[0] == kind)


def or_none(value: float) -> float:
    """Return the value, with -1 in place of NaN."""
    return -1.0 if math.isnan(value) else value


def whole(rows: Sequence[Sequence[int]], height: int, width: int) -> np.ndarray:
    """Return rows as an int64 array of shape (height, width)."""
    return np.array(rows, np.int64).reshape(height, width)
