"""NodeRequests as the kernels' arrays: what many jobs ask alike is worked out once."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ...cluster.request import NodeRequest
from ...errors import UsageError
from .arrays import AFTERANY, AFTERNOTOK, AFTEROK, FAR, JOB_RECORD, NONE, Jobs
from .site import amount, or_none, whole

KINDS = {"afterok": AFTEROK, "afterany": AFTERANY, "after": AFTERANY, "afternotok": AFTERNOTOK}
SHAPE = (
    "min_nodes", "max_nodes", "tasks", "per_node", "per_task", "cpus", "features", "exclusive", "mem_node", "mem_cpu",
    "reservation",
)  # fmt: skip
Index = Mapping[str, Any]


def make_jobs(index: Index, requests: Sequence[NodeRequest], fixed: Mapping[int, Any] | None = None) -> Jobs:
    """Requests in order of submission as arrays; `fixed` gives (start, partition, ((node, processors), ...)) by place.

    Raises UsageError for a partition, feature, gres or license that the machine does not have. A few microseconds a
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
    row["user"][:-1] = _codes([r.user for r in requests])
    row["account"][:-1] = _codes([r.account for r in requests])
    row["array"][:-1] = _codes([r.array or None for r in requests])
    row["group"][:-1] = _codes([r.key for r in requests])
    row["earlier"][:-1] = _earlier(requests)
    needs, needs_kind, row["needs_from"] = _needs(requests)
    takes: list[Any] = [(fixed or {}).get(k, (FAR, 0, ())) for k in range(len(requests))]
    row["fixed"][:-1] = [t[0] for t in takes]
    row["fixed_part"][:-1] = [t[1] for t in takes]
    row["fixed_from"] = np.concatenate([[0], np.cumsum([len(t[2]) for t in takes])])
    nodes, cpus = (np.array([pair[k] for t in takes for pair in t[2]], np.int64) for k in (0, 1))
    return Jobs(row, gres, licenses, needs, needs_kind, nodes, cpus)


def _kinds(requests: Sequence[NodeRequest]) -> tuple[np.ndarray, list[NodeRequest]]:
    """Which requests ask alike (n,), times apart, and one of each kind."""
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
    """What each request has for itself: times, priority, its place in an array. `wall` (n,) is MaxWall."""
    limit = np.array([r.limit for r in requests], np.float64)
    plan = np.where(np.isnan(limit) & np.isfinite(wall), wall, limit)
    row["plan"], row["barred"] = np.where(np.isnan(plan), -1.0, plan), limit > wall
    row["held"] = row["plan"]
    for name, values in (
        ("submit", [r.submit for r in requests]), ("run", [r.run for r in requests]),
        ("nice", [r.nice for r in requests]), ("task", [r.task for r in requests]),
        ("throttle", [r.throttle for r in requests]), ("singleton", [r.singleton for r in requests]),
        ("fails", [r.fails for r in requests]), ("begin", [max(r.begin, -FAR) for r in requests]),
        ("release", [min(max(r.release, -FAR), FAR) for r in requests]),
        ("cancel", [min(r.cancel, FAR) for r in requests]),
    ):  # fmt: skip
        row[name] = values


def _row(r: NodeRequest, index: Index) -> dict[str, float]:
    """What all requests of its kind have in common."""
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
        "mem_node": float(or_none(r.mem_per_node)),
        "mem_cpu": float(or_none(r.mem_per_cpu)),
        "features": sum(index["feature"][w] for w in {*r.features, *r.gres}),
        "exclusive": int(r.exclusive or bool(parts & index["exclusive"])),
        "partitions": parts,
        "qos": index["qos"].get(r.qos, 0),
        "preempts": index["preempts"][index["qos"].get(r.qos, 0)],
        "assoc": index["assoc"].get((r.account, r.user), NONE),
        "reservation": index["reservation"].get(r.reservation, NONE),
    }


def _wall(index: Index, qos: int, assoc: int) -> float:
    """MaxWall of the QOS, or else of the association, where limits are enforced."""
    by_qos, by_assoc = index["wall"]
    own = by_qos[qos] if by_qos and index["enforced"] else math.inf
    return float(own if own < math.inf or assoc == NONE or not index["enforced"] else by_assoc[assoc])


def _then(r: NodeRequest, parts: int, cpus: Sequence[set[int]]) -> int:
    """Processors that the job will have wherever it is placed, or -1 where that depends on the place."""
    exact, each = r.max_nodes in (0, r.min_nodes), max(r.tasks_per_node, 1)
    if r.exclusive:
        sizes = set().union(*(sizes for p, sizes in enumerate(cpus) if parts >> p & 1))
        return r.min_nodes * min(sizes) if r.max_nodes == r.min_nodes and len(sizes) == 1 else NONE
    if not r.tasks or r.tasks_per_node:
        return r.min_nodes * each * r.cpus_per_task if exact and r.tasks <= r.min_nodes * each else NONE
    return r.cpus if exact and (r.cpus_per_task == 1 or r.min_nodes == 1) else NONE


def _needs(requests: Sequence[NodeRequest]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places of what each request depends on, one after the other, how it does, and where each one's begin."""
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
    """The job before with the same user and name, for those names that a singleton has."""
    names = {(r.user, r.name) for r in requests if r.singleton}
    last: dict[tuple[str, str], int] = {}
    earlier = np.full(len(requests), NONE)
    for k, r in enumerate(requests):
        if (r.user, r.name) in names:
            earlier[k] = last.get((r.user, r.name), NONE)
            last[r.user, r.name] = k
    return earlier


def _codes(values: Sequence[Any]) -> np.ndarray:
    known: dict[Any, int] = {}
    return np.array([NONE if v is None else known.setdefault(v, len(known)) for v in values], np.int64)
