# SPDX-License-Identifier: Apache-2.0
"""Converts node requests, slurm.conf's settings and an initial state to the kernels' arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import UsageError
from ...machines.machine import Machine
from ...machines.request import NodeRequest
from ...units import parse_duration
from .arrays import AFTERANY, AFTERNOTOK, AFTEROK, FAR, JOB_RECORD, NONE, Jobs, Rules
from .site import amount, enforces_limits, or_none, whole

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
    row = np.zeros(len(requests) + 1, JOB_RECORD)
    kind, kinds = _kinds(requests)
    alike = [_row(r, index) for r in kinds]
    for name in alike[0] if alike else ():
        row[name][:-1] = np.array([values[name] for values in alike])[kind]
    _own(row[:-1], requests, np.array([_wall(index, int(v["qos"]), int(v["assoc"])) for v in alike])[kind])
    gres = whole([[amount(r.gres, g) for g in index["gres"]] for r in kinds], len(kinds), len(index["gres"]))
    shapes = [(*(values[name] for name in SHAPE), *held) for values, held in zip(alike, gres.tolist())]
    row["form"][:-1] = _codes(shapes)[kind]
    licenses = np.array([[float(r.licenses.get(k, 0)) for k in index["licenses"]] for r in kinds])
    licenses = licenses.reshape(len(kinds), len(index["licenses"]))[kind]
    gres = gres[kind]
    row["licensed"][:-1], row["any_gres"][:-1] = licenses.sum(axis=1) > 0, gres.sum(axis=1) > 0
    for name, of in (("user", "user"), ("account", "account"), ("array", "array"), ("group", "key")):
        row[name][:-1] = _codes([getattr(r, of) for r in requests], without="" if name == "array" else None)
    row["earlier"][:-1] = _earlier(requests)
    needs, needs_kind, row["needs_from"] = _needs(requests)
    takes: list[Any] = [(fixed or {}).get(k, (FAR, 0, ())) for k in range(len(requests))]
    row["fixed"][:-1] = [t[0] for t in takes]
    row["fixed_part"][:-1] = [t[1] for t in takes]
    row["fixed_from"] = np.concatenate([[0], np.cumsum([len(t[2]) for t in takes])])
    nodes, cpus = (np.array([pair[k] for t in takes for pair in t[2]], np.int64) for k in (0, 1))
    return Jobs(row, gres, licenses, needs, needs_kind, nodes, cpus)


def _kinds(requests: Sequence[NodeRequest]) -> tuple[np.ndarray, list[NodeRequest]]:
    """Return a class (n,) for each request, and one request of each class; requests of one class differ only in
    times."""
    known: dict[Hashable, int] = {}
    kinds: list[NodeRequest] = []
    kind = np.empty(len(requests), np.int64)
    for k, r in enumerate(requests):
        asks = (
            r.partitions, r.qos, r.account, r.user, r.min_nodes, r.max_nodes, r.tasks, r.tasks_per_node,
            r.cpus_per_task, or_none(r.mem_per_node), or_none(r.mem_per_cpu), r.features, r.exclusive, r.reservation,
            tuple(r.gres.items()) if r.gres else (), tuple(r.licenses.items()) if r.licenses else (),
        )  # fmt: skip
        place = known.setdefault(asks, len(kinds))
        if place == len(kinds):
            kinds.append(r)
        kind[k] = place
    return kind, kinds


def _own(row: np.ndarray, requests: Sequence[NodeRequest], wall: np.ndarray) -> None:
    """Set the values that differ between the requests of a class: times, nice, job array and task. `wall` (n,) is
    MaxWall."""
    limit = np.array([r.limit for r in requests], np.float64)
    plan = np.where(np.isnan(limit) & np.isfinite(wall), wall, limit)
    row["plan"], row["barred"] = np.where(np.isnan(plan), -1.0, plan), limit > wall
    row["held"] = row["plan"]
    for name in ("submit", "run", "nice", "task", "throttle", "singleton", "fails", "begin", "release", "cancel"):
        values = [getattr(r, name) for r in requests]
        row[name] = np.clip(values, -FAR, FAR) if name in ("begin", "release", "cancel") else values


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
        "min_nodes": r.min_nodes,
        "max_nodes": r.max_nodes,
        "tasks": r.tasks,
        "per_node": r.tasks_per_node,
        "per_task": r.cpus_per_task,
        "cpus": r.cpus,
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
    by_key: dict[str, list[int]] = {}
    for k, r in enumerate(requests) if wanted else ():
        if r.key in wanted:
            by_key.setdefault(r.key, []).append(k)
    needs: list[int] = []
    kinds: list[int] = []
    first = [0]
    for r in requests:
        for kind, key in r.depends:
            others = by_key.get(key, [])
            needs += others
            kinds += [KINDS.get(kind, AFTERANY)] * len(others)
        first.append(len(needs))
    return np.array(needs, np.int64), np.array(kinds, np.int64), np.array(first, np.int64)


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


def _codes(values: Sequence[Any], without: Any = None) -> np.ndarray:
    """Number the values in order of occurrence; the value `without` has the number NONE."""
    known: dict[Any, int] = {}
    return np.array([NONE if v == without else known.setdefault(v, len(known)) for v in values], np.int64)


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
        "sched_interval": values["sched_interval"] if values["sched_interval"] > 0 else FAR,
        "bf_window": 60 * int(number("bf_window", 1440)),
        "machine_cpus": machine.cpus,
        "reorder_count": _inside(preemption, "reorder_count", number("preempt_reorder_count", 1)),
        "youngest": "youngest_first" in preemption or "preempt_youngest_first" in s,
        "requeue_delay": number("requeue_delay", _inside(s.get("AuthInfo", ""), "cred_expire", 120)),
        "preempt_wait": number("KillWait", 30) + number("MessageTimeout", 10),
    }
    values["sizes_matter"] = bool(values["multifactor"] and by_size) or values["enforce"]
    types = {name: type(default) for name, default in Rules._field_defaults.items()}
    return Rules(**{name: types[name](value) for name, value in (values | given).items()})


def _inside(text: str, name: str, default: float) -> float:
    """Return the number of an option in a setting with several options, such as `reorder_count=2,youngest_first`."""
    found = re.search(rf"\b{name}=(\d+)", text)
    return float(found[1]) if found else default
