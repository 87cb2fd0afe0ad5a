# SPDX-License-Identifier: Apache-2.0
"""Converts the description of a machine, slurm.conf's settings and the requests of jobs to the kernels' arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import UsageError
from ...machines.machine import Association, Machine, NodeGroup, Partition, Qos
from ...machines.request import NodeRequest
from ...units import parse_duration
from . import arrays
from .arrays import AFTERANY, AFTERNOTOK, AFTEROK, INFINITE, NONE, Jobs, Rules, Site, bit_sets, codes_of, records


def make_site(machine: Machine) -> tuple[Site, dict[str, Any]]:
    """Return the machine's arrays, and the tables by which the names in requests are converted."""
    at = _index(machine)
    groups, kinds, tres, parent = at["groups"], at["gres"], at["tres"], at["parent"]
    qos, assoc, partitions, reservations = machine.qos, machine.associations, machine.partitions, machine.reservations
    alike = _alike(machine)
    site = Site(
        node=np.array(
            [(g.cpus, g.weight, sum(at["feature"][w] for w in _words(g)), min(g.memory_mib, INFINITE)) for g in groups],
            arrays.NODE_RECORD,
        ),
        gres=int_rows([[amount(g.gres, kind) for kind in kinds] for g in groups], len(groups), len(kinds)),
        part=_partitions(machine, at["members"]),
        inside=bit_sets([p.nodes for p in partitions], at["node"]),
        members=np.array([i for m in at["members"] for i in m], np.int64),
        qos=_qos(machine),
        qos_tres=_limits([q.limits.grp_tres for q in qos], tres),
        qos_user_tres=_limits([q.limits.max_tres_per_user for q in qos], tres),
        qos_account_tres=_limits([q.limits.max_tres_per_account for q in qos], tres),
        qos_job_tres=_limits([q.limits.max_tres for q in qos], tres),
        assoc=_associations(assoc, parent),
        assoc_tres=_limits([a.limits.grp_tres for a in assoc], tres),
        assoc_job_tres=_limits(_inherited(assoc, parent, "max_tres", {}), tres),
        billing=np.array(
            [[float((p.billing_weights or {"cpu": 1.0}).get(name, 0.0)) for name in tres] for p in partitions]
        ),
        tres_weight=tres_weights(machine.settings, tres),
        part_tres=np.array([_tres_totals(p, machine, kinds) for p in partitions]),
        licenses=np.array(list(machine.licenses.values()), np.float64),
        reservation=np.array(
            [(r.start, r.end, r.every, r.max_time, min(r.until, INFINITE)) for r in reservations],
            arrays.RESERVATION_RECORD,
        ),
        reserved=bit_sets([r.nodes for r in reservations], at["node"]),
        alike=bit_sets(alike, at["node"]),
        sample=np.array([at["node"][names[0]] for names in alike], np.int64),
    )
    return site, at


def _index(machine: Machine) -> dict[str, Any]:
    """Return the positions of nodes, features, GRES, partitions, QOS and associations in the arrays, and the other
    tables by which requests are converted.

    `groups` (n,) has the node group of each node, `members` the nodes of each partition, `cpus` the node sizes of each
    partition, `feature` the bit of each feature and GRES, `gres` the kinds of GRES, `tres` the names of TRES, and
    `parent` the parent of each association.
    """
    qos, partitions, assoc = machine.qos, machine.partitions, machine.associations
    node = {name: i for i, name in enumerate(machine.node_names())}
    groups = [group for group in machine.nodes for _ in group.names]
    words = {w for g in machine.nodes for w in _words(g)}
    # Sets of features and of partitions are bits of one int64.
    if len(words) > 62 or len(partitions) > 62:
        raise UsageError("more than 62 node features and gres types, or partitions, are not modelled")
    kinds = sorted({kind.split(":")[0] for group in machine.nodes for kind in group.gres})
    members = [sorted(node[n] for n in p.nodes if n in node) for p in partitions]
    places = {(a.account, a.user): k for k, a in enumerate(assoc)}
    parent = [_parent(a, places) for a in assoc]
    modes = _modes(machine, "qos", qos)
    return {
        "node": node,
        "groups": groups,
        "members": members,
        "cpus": [{groups[i].cpus for i in m} for m in members],
        "feature": {word: 1 << k for k, word in enumerate(sorted(words))},
        "gres": kinds,
        "tres": ["cpu", "node", "mem", *(f"gres/{kind}" for kind in kinds)],
        "partition": {p.name: k for k, p in enumerate(partitions)},
        "default": sum(1 << k for k, p in enumerate(partitions) if p.default) or 1,
        "exclusive": sum(1 << k for k, p in enumerate(partitions) if p.exclusive),
        "memory": holds_memory(machine),
        "licenses": tuple(machine.licenses),
        "enforced": enforces_limits(machine),
        "wall": ([q.limits.max_wall for q in qos], _inherited(assoc, parent, "max_wall", math.inf)),
        "qos": {q.name: k for k, q in enumerate(qos)},
        "preempts": [
            sum(1 << k for k, other in enumerate(qos) if other.name in q.preempts and modes[k] != "OFF") for q in qos
        ]
        or [0],
        "assoc": places,
        "parent": parent,
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
    modes = _modes(machine, "partition_prio", partitions)
    most = max(p.priority_job_factor for p in partitions) or 1
    holds = holds_memory(machine)
    return records(
        arrays.PART_RECORD,
        tier=[p.priority_tier for p in partitions] + [0],
        loaded=[p.least_loaded or loaded for p in partitions] + [0],
        preempts=[_lower(partitions, modes, p.priority_tier) for p in partitions] + [0],
        cancels=[mode == "CANCEL" for mode in modes] + [0],
        grace=[p.grace_time if mode != "OFF" else 0.0 for p, mode in zip(partitions, modes)] + [0.0],
        first=np.cumsum([0, *map(len, members)]),
        factor=[p.priority_job_factor / most for p in partitions] + [0.0],
        max_time=[min(p.max_time, INFINITE) for p in partitions] + [0.0],
        default_time=[or_none(p.default_time) for p in partitions] + [0.0],
        mem_node=[or_none(p.default_mem_per_node if holds else math.nan) for p in partitions] + [0.0],
        mem_cpu=[or_none(p.default_mem_per_cpu if holds else math.nan) for p in partitions] + [0.0],
    )


def _qos(machine: Machine) -> np.ndarray:
    """Return the records of QOS; if the machine has none, one QOS without limits."""
    qos = machine.qos or (Qos(""),)
    modes, exempt = _modes(machine, "qos", qos), parse_duration(machine.settings.get("PreemptExemptTime", "00:00:00"))
    exempt = exempt if 0 <= exempt < math.inf else 0.0
    best = max(q.priority for q in qos) or 1.0
    return records(
        arrays.QOS_RECORD,
        factor=[q.priority / best for q in qos],
        # In Slurm's order of preemption, the priority of the QOS has 16 bits above the job's number of nodes
        # (`list_victims`).
        rank=[int(min(q.priority, 0xFFFF)) for q in qos],
        cancels=[mode == "CANCEL" for mode in modes],
        grace=[q.grace_time if mode != "OFF" else 0.0 for q, mode in zip(qos, modes)],
        exempt=[exempt if math.isnan(q.preempt_exempt_time) else q.preempt_exempt_time for q in qos],
        jobs=[min(q.limits.grp_jobs, INFINITE) for q in qos],
        user_jobs=[min(q.limits.max_jobs_per_user, INFINITE) for q in qos],
        account_jobs=[min(q.limits.max_jobs_per_account, INFINITE) for q in qos],
    )


def _associations(assoc: Sequence[Association], parent: Sequence[int]) -> np.ndarray:
    """Return the records of associations; if the machine has none, one user without limits."""
    peers = [sum(b.shares for b, p in zip(assoc, parent) if p == mine) for mine in parent]
    return records(
        arrays.ASSOC_RECORD,
        parent=parent or [NONE],
        is_user=[bool(a.user) for a in assoc] or [1],
        share=[a.shares / of if of else 0.0 for a, of in zip(assoc, peers)] or [1.0],
        jobs=[min(a.limits.grp_jobs, INFINITE) for a in assoc] or [INFINITE],
        own_jobs=[min(most, INFINITE) for most in _inherited(assoc, parent, "max_jobs", INFINITE)] or [INFINITE],
    )


def _modes(machine: Machine, kind: str, preempted: Sequence[Partition | Qos]) -> list[str]:
    """Return how the jobs of each partition or QOS are preempted: OFF, REQUEUE or CANCEL; OFF if PreemptType is not
    `kind`.

    A partition or QOS without a mode has the cluster's mode. With JobRequeue=0, REQUEUE means CANCEL.
    """
    settings, modes = machine.settings, []
    for each in preempted if settings.get("PreemptType", "").endswith(kind) else ():
        words = (each.preempt_mode or settings.get("PreemptMode", "OFF")).upper().split(",")
        mode = next((word for word in words if word in ("REQUEUE", "CANCEL")), "OFF")
        modes.append("CANCEL" if mode == "REQUEUE" and settings.get("JobRequeue", "1").split()[0] == "0" else mode)
    return modes or ["OFF"] * len(preempted)


def _lower(partitions: Sequence[Partition], modes: Sequence[str], tier: int) -> int:
    """Return as bits the partitions below `tier` whose jobs may be preempted (preempt/partition_prio)."""
    lower = (p.preempt and p.priority_tier < tier and mode != "OFF" for p, mode in zip(partitions, modes))
    return sum(1 << k for k, gives_way in enumerate(lower) if gives_way)


def _parent(of: Association, places: Mapping[tuple[str, str], int]) -> int:
    """Return the position of an association's parent, or NONE."""
    parent = of.parent or (of.account if of.user else "")
    return places.get((parent, ""), NONE) if parent or of.user else NONE


def _inherited(assoc: Sequence[Association], parent: Sequence[int], name: str, unset: Any) -> list[Any]:
    """Return each association's own limit, or the limit of the nearest account above that sets it."""

    def limit_of(k: int) -> Any:
        while k != NONE:
            value = getattr(assoc[k].limits, name)
            if value and value != math.inf:
                return value
            k = parent[k]
        return unset

    return [limit_of(k) for k in range(len(assoc))]


def tres_weights(settings: Mapping[str, str], tres: Sequence[str]) -> np.ndarray:
    """Return PriorityWeightTRES by TRES, for example `CPU=1000,Mem=2000,GRES/gpu=3000`."""
    pairs = (item.partition("=") for item in settings.get("PriorityWeightTRES", "").lower().split(",") if "=" in item)
    given = {name.strip(): float(value) for name, _, value in pairs}
    return np.array([given.get(name, 0.0) for name in tres])


def _tres_totals(partition: Partition, machine: Machine, kinds: Sequence[str]) -> np.ndarray:
    """Return the amount of each TRES on a partition's nodes; 0 if the nodes have none or an infinite amount."""
    inside, held = set(partition.nodes), np.zeros(3 + len(kinds))
    for group in machine.nodes:
        if nodes := sum(name in inside for name in group.names):
            each = (group.cpus, 1, group.memory_mib, *(amount(group.gres, kind) for kind in kinds))
            held += nodes * np.array(each, float)
    return np.where(np.isfinite(held), held, 0.0)


def _words(group: NodeGroup) -> set[str]:
    """Return the features and the GRES of a group of nodes, with and without their types."""
    return {*group.features, *group.gres, *(kind.split(":")[0] for kind in group.gres)}


def _limits(tables: Sequence[Mapping[str, float]], tres: Sequence[str]) -> np.ndarray:
    """Return the limits in each table of limits, by TRES; if there are no tables, one row without limits."""
    return np.array([[min(t.get(name, INFINITE), INFINITE) for name in tres] for t in tables or [{}]], np.float64)


def amount(gres: Mapping[str, int], kind: str) -> int:
    """Return the number of GRES of one kind, summed over all types."""
    return sum(count for name, count in gres.items() if name.split(":")[0] == kind)


def or_none(value: float) -> float:
    """Return the value, with -1 in place of NaN."""
    return -1.0 if math.isnan(value) else value


def int_rows(rows: Sequence[Sequence[int]], height: int, width: int) -> np.ndarray:
    """Return rows as an int64 array of shape (height, width)."""
    return np.array(rows, np.int64).reshape(height, width)


KINDS = {"afterok": AFTEROK, "afterany": AFTERANY, "after": AFTERANY, "afternotok": AFTERNOTOK}
SHAPE = (
    "min_nodes", "max_nodes", "tasks", "per_node", "per_task", "cpus", "features", "exclusive", "mem_node", "mem_cpu",
    "reservation",
)  # fmt: skip
Index = Mapping[str, Any]


def make_jobs(index: Index, requests: Sequence[NodeRequest], fixed: Mapping[int, Any] | None = None) -> Jobs:
    """Convert requests in order of submission to arrays.

    `fixed` maps positions in `requests` to recorded starts (start, partition, ((node, processors), ...)). Raises
    UsageError for a partition, feature, GRES or license that the machine does not have. Takes a few microseconds per
    request.
    """
    row = np.zeros(len(requests) + 1, arrays.JOB_RECORD)
    kind, kinds = _kinds(requests)
    alike = [_row(r, index) for r in kinds]
    for name in alike[0] if alike else ():
        row[name][:-1] = np.array([values[name] for values in alike])[kind]
    _own(row[:-1], requests, np.array([_wall(index, int(v["qos"]), int(v["assoc"])) for v in alike])[kind])
    gres = int_rows([[amount(r.gres, g) for g in index["gres"]] for r in kinds], len(kinds), len(index["gres"]))
    shapes = [(*(values[name] for name in SHAPE), *held) for values, held in zip(alike, gres.tolist())]
    row["form"][:-1] = codes_of(shapes)[kind]
    licenses = np.array([[float(r.licenses.get(k, 0)) for k in index["licenses"]] for r in kinds])
    licenses = licenses.reshape(len(kinds), len(index["licenses"]))[kind]
    gres = gres[kind]
    row["licensed"][:-1], row["any_gres"][:-1] = licenses.sum(axis=1) > 0, gres.sum(axis=1) > 0
    for name, of in (("user", "user"), ("account", "account"), ("array", "array"), ("group", "key")):
        row[name][:-1] = codes_of([getattr(r, of) for r in requests], without="" if name == "array" else None)
    row["earlier"][:-1] = _earlier(requests)
    needs, needs_kind, row["needs_from"] = _needs(requests)
    takes: list[Any] = [(fixed or {}).get(k, (INFINITE, 0, ())) for k in range(len(requests))]
    row["fixed"][:-1] = [t[0] for t in takes]
    row["fixed_part"][:-1] = [t[1] for t in takes]
    row["fixed_from"] = np.cumsum([0, *(len(t[2]) for t in takes)])
    nodes, cpus = (np.array([pair[k] for t in takes for pair in t[2]], np.int64) for k in (0, 1))
    return Jobs(row, gres, licenses, needs, needs_kind, nodes, cpus)


def _kinds(requests: Sequence[NodeRequest]) -> tuple[np.ndarray, list[NodeRequest]]:
    """Return a class (n,) for each request, and one request of each class; requests of one class differ only in
    times."""
    kind = codes_of(
        (
            r.partitions, r.qos, r.account, r.user, r.min_nodes, r.max_nodes, r.tasks, r.tasks_per_node,
            r.cpus_per_task, or_none(r.mem_per_node), or_none(r.mem_per_cpu), r.features, r.exclusive, r.reservation,
            tuple(r.gres.items()) if r.gres else (), tuple(r.licenses.items()) if r.licenses else (),
        )
        for r in requests
    )  # fmt: skip
    return kind, [requests[k] for k in np.unique(kind, return_index=True)[1].tolist()]


def _own(row: np.ndarray, requests: Sequence[NodeRequest], wall: np.ndarray) -> None:
    """Set the values that differ between the requests of a class: times, nice, job array and task. `wall` (n,) is
    MaxWall."""
    limit = np.array([r.limit for r in requests], np.float64)
    # A job that requests no time limit gets MaxWall.
    plan = np.where(np.isnan(limit) & np.isfinite(wall), wall, limit)
    row["plan"], row["barred"] = np.where(np.isnan(plan), -1.0, plan), limit > wall
    row["held"] = row["plan"]
    for name in ("submit", "run", "nice", "task", "throttle", "singleton", "fails", "begin", "release", "cancel"):
        values = [getattr(r, name) for r in requests]
        row[name] = np.clip(values, -INFINITE, INFINITE) if name in ("begin", "release", "cancel") else values


def _row(r: NodeRequest, index: Index) -> dict[str, float]:
    """Return the values that are equal for all requests of one class."""
    wanted = [index["partition"].get(p, NONE) for p in r.partitions]
    if NONE in wanted:
        raise UsageError(f"job {r.key}: no partition {r.partitions} on this machine ({', '.join(index['partition'])})")
    lacking = [name for name in r.licenses if name not in index["licenses"]]
    if lacking:
        raise UsageError(f"job {r.key}: this machine has no license {lacking[0]!r}")
    missing = [w for w in (*r.features, *r.gres) if w not in index["feature"]]
    if missing:
        raise UsageError(f"job {r.key}: no node of this machine has {missing[0]!r}")
    parts = sum(1 << p for p in set(wanted)) or index["default"]
    return {
        **{name: getattr(r, name) for name in ("min_nodes", "max_nodes", "tasks", "cpus")},
        "per_node": r.tasks_per_node,
        "per_task": r.cpus_per_task,
        "then": _then(r, parts, index["cpus"]),
        "mem_node": float(or_none(r.mem_per_node if index["memory"] else math.nan)),
        "mem_cpu": float(or_none(r.mem_per_cpu if index["memory"] else math.nan)),
        "features": sum(index["feature"][w] for w in {*r.features, *r.gres}),
        "exclusive": int(r.exclusive or bool(parts & index["exclusive"])),
        "partitions": parts,
        "qos": index["qos"].get(r.qos, 0),
        "preempts": index["preempts"][index["qos"].get(r.qos, 0)],
        "assoc": index["assoc"].get((r.account, r.user), NONE),
        "reservation": index["reservation"].get(r.reservation, NONE),
    }


def _wall(index: Index, qos: int, assoc: int) -> float:
    """Return MaxWall, the maximum time limit, of QOS or association; infinity if limits are not enforced."""
    by_qos, by_assoc = index["wall"]
    own = by_qos[qos] if by_qos and index["enforced"] else math.inf
    return float(own if own < math.inf or assoc == NONE or not index["enforced"] else by_assoc[assoc])


def _then(r: NodeRequest, parts: int, cpus: Sequence[set[int]]) -> int:
    """Return the number of processors that the job gets, or -1 if the number depends on the chosen nodes."""
    exact, each = r.max_nodes in (0, r.min_nodes), max(r.tasks_per_node, 1)
    if r.exclusive:
        sizes = set().union(*(sizes for p, sizes in enumerate(cpus) if parts >> p & 1))
        return r.min_nodes * min(sizes) if r.max_nodes == r.min_nodes and len(sizes) == 1 else NONE
    if not r.tasks or r.tasks_per_node:
        return r.min_nodes * each * r.cpus_per_task if exact and r.tasks <= r.min_nodes * each else NONE
    return r.cpus if exact and (r.cpus_per_task == 1 or r.min_nodes == 1) else NONE


def _needs(requests: Sequence[NodeRequest]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the positions of all dependencies in one array, their kinds, and the index at which each job's
    dependencies begin."""
    wanted = {key for r in requests for _, key in r.depends}
    by_key: dict[str, list[int]] = {key: [] for key in wanted}
    for k, r in enumerate(requests) if wanted else ():
        if r.key in wanted:
            by_key[r.key].append(k)
    pairs = [[(k, KINDS.get(kind, AFTERANY)) for kind, key in r.depends for k in by_key[key]] for r in requests]
    needs, kinds = (np.array([pair[k] for job in pairs for pair in job], np.int64) for k in (0, 1))
    return needs, kinds, np.cumsum([0, *map(len, pairs)])


def _earlier(requests: Sequence[NodeRequest]) -> np.ndarray:
    """Return each job's previous job of the same user and name, if the name occurs with a singleton dependency."""
    names = {(r.user, r.name) for r in requests if r.singleton}
    last: dict[tuple[str, str], int] = {}
    earlier = np.full(len(requests), NONE)
    for k, r in enumerate(requests):
        if (r.user, r.name) in names:
            earlier[k] = last.get((r.user, r.name), NONE)
            last[r.user, r.name] = k
    return earlier


SPANS = {"half_life": "DecayHalfLife", "calc_period": "CalcPeriod", "max_age": "MaxAge"}
WEIGHTS = ("Age", "FairShare", "JobSize", "Partition", "QOS")


def make_rules(machine: Machine, **given: float) -> Rules:
    """Convert slurm.conf's settings, in seconds; values in `given` override those settings."""
    s, preemption = machine.settings, machine.settings.get("PreemptParameters", "")

    def number(key: str, default: float) -> float:
        return float(str(s.get(key, default)).split()[0])

    values: dict[str, Any] = {name: number(name, default) for name, default in Rules._field_defaults.items()}
    values |= {f"w_{name.lower()}": number(f"PriorityWeight{name}", 0) for name in WEIGHTS}
    for name, key in SPANS.items():
        span = parse_duration(s.get(f"Priority{key}", "UNLIMITED"))
        values[name] = span if 0 < span < math.inf else values[name]
    by_size = values["w_jobsize"] or s.get("PriorityWeightTRES", "(null)") != "(null)"
    values |= {
        "fifo": "builtin" in s.get("SchedulerType", "sched/backfill"),
        "multifactor": "multifactor" in s.get("PriorityType", ""),
        "enforce": enforces_limits(machine),
        "sched_interval": values["sched_interval"] if values["sched_interval"] > 0 else INFINITE,
        "bf_window": 60 * int(number("bf_window", 1440)),
        "machine_cpus": machine.cpus,
        "reorder_count": _inside(preemption, "reorder_count", number("preempt_reorder_count", 1)),
        "youngest": "youngest_first" in preemption or "preempt_youngest_first" in s,
        # A requeued job must wait until the credential of its earlier run has expired (cred_expire of AuthInfo).
        "requeue_delay": number("requeue_delay", _inside(s.get("AuthInfo", ""), "cred_expire", 120)),
        "preempt_wait": number("KillWait", 30) + number("MessageTimeout", 10),
    }
    # The number of processors that a job gets has an effect only if priorities or limits depend on it.
    values["sizes_matter"] = bool(values["multifactor"] and by_size) or values["enforce"]
    types = {name: type(default) for name, default in Rules._field_defaults.items()}
    return Rules(**{name: types[name](value) for name, value in (values | given).items()})


def _inside(text: str, name: str, default: float) -> float:
    """Return the number of an option in a setting with several options, such as `reorder_count=2,youngest_first`."""
    found = re.search(rf"\b{name}=(\d+)", text)
    return float(found[1]) if found else default
