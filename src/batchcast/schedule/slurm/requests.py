# SPDX-License-Identifier: Apache-2.0
"""Converts node requests, slurm.conf's settings and an initial state to the kernels' arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import UsageError
from ...machines.machine import Machine
from ...machines.request import NodeRequest
from ...units import parse_duration
from .arrays import (
    ACTIVE_RECORD,
    AFTERANY,
    AFTERNOTOK,
    AFTEROK,
    ASSOC_STATE,
    DOWN_RECORD,
    FAR,
    HEAP_RECORD,
    IDLE,
    JOB_RECORD,
    JOB_STATE,
    LIST_RECORD,
    NODE_STATE,
    NONE,
    OUT_RECORD,
    PART_STATE,
    POOL_RECORD,
    QUEUE_RECORD,
    REGISTERS,
    SETS,
    SHAPE_RECORD,
    SLOT_RECORD,
    UP,
    Jobs,
    Rules,
    Site,
    State,
)
from .site import amount, mask, or_none, turns, whole
from .start import BEGIN, CANCEL, FIXED, NODE, RELEASE

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


def _codes(values: Sequence[Any]) -> np.ndarray:
    known: dict[Any, int] = {}
    return np.array([NONE if v is None else known.setdefault(v, len(known)) for v in values], np.int64)


MOST_SLOTS = 2048


def make_rules(machine: Machine, **given: float) -> Rules:
    """Convert slurm.conf's settings, in seconds; values in `given` override those settings."""
    s = machine.settings

    def number(key: str, default: float) -> float:
        return float(str(s.get(key, default)).split()[0])

    def weight(key: str) -> float:
        return number(f"PriorityWeight{key}", 0)

    rules = Rules(
        fifo=int("builtin" in s.get("SchedulerType", "sched/backfill")),
        multifactor=int("multifactor" in s.get("PriorityType", "")),
        enforce=int(any(w in s.get("AccountingStorageEnforce", "") for w in ("limits", "safe"))),
        sched_interval=number("sched_interval", 60) if number("sched_interval", 60) > 0 else FAR,
        batch_sched_delay=number("batch_sched_delay", 3),
        queue_depth=int(number("default_queue_depth", 100)),
        poll=1.0,
        bf_interval=number("bf_interval", 30),
        bf_resolution=int(number("bf_resolution", 60)),
        bf_window=60 * int(number("bf_window", 1440)),
        bf_max_job_test=int(number("bf_max_job_test", 500)),
        bf_max_job_user=int(number("bf_max_job_user", 0)),
        bf_max_job_part=int(number("bf_max_job_part", 0)),
        bf_max_job_array_resv=int(number("bf_max_job_array_resv", 20)),
        bf_min_prio_reserve=number("bf_min_prio_reserve", -FAR),
        bf_min_age_reserve=number("bf_min_age_reserve", 0),
        test_length=0.0,
        half_life=_span(s.get("PriorityDecayHalfLife", "7-00"), 7 * 86400.0),
        calc_period=_span(s.get("PriorityCalcPeriod", "00:05:00"), 300.0),
        max_age=_span(s.get("PriorityMaxAge", "7-00"), 7 * 86400.0),
        w_age=weight("Age"),
        w_fairshare=weight("FairShare"),
        w_size=weight("JobSize"),
        w_partition=weight("Partition"),
        w_qos=weight("QOS"),
        machine_cpus=float(machine.cpus),
        sizes_matter=0,
        reorder_count=int(_inside(s, "PreemptParameters", "reorder_count", number("preempt_reorder_count", 1))),
        youngest=int("youngest_first" in s.get("PreemptParameters", "") or "preempt_youngest_first" in s),
        requeue_delay=number("requeue_delay", _inside(s, "AuthInfo", "cred_expire", 120)),
        preempt_wait=number("KillWait", 30) + number("MessageTimeout", 10),
        lazy=0,
        since=-FAR,
        until=FAR,
    )
    by_size = rules.w_size or s.get("PriorityWeightTRES", "(null)") != "(null)"
    rules = rules._replace(sizes_matter=int(bool(rules.multifactor and by_size) or rules.enforce))
    return rules._replace(**{name: type(getattr(rules, name))(value) for name, value in given.items()})


@dataclass(frozen=True, slots=True)
class Phases:
    """Observed times of a backfill cycle, a priority update and a controller's poll; None if unknown."""

    cycle: float | None = None
    decay: float | None = None
    second: float | None = None


def make_state(
    site: Site,
    jobs: Jobs,
    rules: Rules,
    phases: Phases = Phases(),
    *,
    down: Sequence[tuple[int, float, float]] = (),
    placements: int = 0,
) -> State:
    """Create a state before the first submission, with room for `placements` rows of allocated nodes."""
    n, nodes, width = len(jobs.row) - 1, len(site.node), site.inside.shape[1]
    parts, kinds, assoc = len(site.part) - 1, site.gres.shape[1], len(site.assoc)
    row, qos, users = jobs.row[:-1], len(site.qos), int(jobs.row["user"].max()) + 1
    arrays, tres = int(row["array"].max(initial=-1)) + 1, 3 + kinds
    accounts = int(jobs.row["account"].max()) + 1
    slots = min(2 * rules.bf_max_job_test + 2, MOST_SLOTS)
    first = float(int(row["submit"].min())) if n else 0.0
    changes = [*down, *turns(site.reservation, float(row["submit"].max(initial=0.0)))]
    pairs = int(np.bitwise_count(row["partitions"]).sum()) + 64
    events = _events(row, changes, first)
    gives_way = site.part["preempts"].any() or row["preempts"].any()  # a preempted job can run several times
    room = len(events) + (4 if gives_way else 1) * n + 8
    heap = np.zeros(room, HEAP_RECORD)
    heap[: len(events)] = np.array([(kind, item, at) for at, kind, item in events], HEAP_RECORD)
    shape = np.full((int(row["form"].max(initial=0)) + 1, parts), np.array((-1, -1, -1, 0.0), SHAPE_RECORD))
    node, sets = _empty_nodes(nodes, width)
    use = np.zeros(2 * assoc + 2, ASSOC_STATE)
    use["fair"] = 1.0
    return State(
        _registers(rules, phases, first, len(events)), _unsubmitted(row), node,
        np.zeros((nodes, kinds), np.int64), np.zeros((nodes, kinds), np.int64),
        np.zeros(int(site.node["cpus"].sum()) + n + 1, POOL_RECORD), sets, np.zeros(pairs, QUEUE_RECORD),
        np.zeros(pairs, QUEUE_RECORD),
        np.zeros(n + 1, ACTIVE_RECORD), np.full(n + 1, -1.0), np.zeros(arrays, np.int64),
        np.zeros((arrays, parts), np.int64), np.zeros((arrays, parts), np.int64), shape,
        np.zeros(qos, ASSOC_STATE), np.zeros((qos, users), np.int64), np.zeros((qos, accounts), np.int64),
        np.zeros((qos, tres)), np.zeros((qos, users, tres)), np.zeros((qos, accounts, tres)),
        np.zeros(len(site.licenses)), use, np.zeros((assoc, tres)),
        np.zeros((assoc + 2, 2), np.int64), np.zeros(parts, PART_STATE), np.zeros(slots, SLOT_RECORD),
        np.zeros((slots, width), np.int64), np.zeros((slots, width), np.int64), np.zeros(n // 64 + 2, np.int64),
        np.zeros(users, np.int64), np.argsort(row["submit"], kind="stable"), heap,
        np.array([tuple(c) for c in changes], DOWN_RECORD), np.zeros(room, LIST_RECORD),
        np.zeros(placements, OUT_RECORD),
    )  # fmt: skip


def _registers(rules: Rules, phases: Phases, first: float, events: int) -> np.ndarray:
    """Return the initial registers; the first submission is at `first`, and periodic events of unknown phase begin at
    that time."""
    cycle, decay, second = phases.cycle, phases.decay, phases.second
    reg = np.zeros(1, REGISTERS)
    reg["freed"], reg["last"], reg["full"], reg["now"], reg["prio_now"] = NONE, -FAR, first, first - 1, first
    reg["first_poll"] = first + ((0.5 if second is None else second) - first) % rules.poll
    reg["cycle"] = _phase(cycle if cycle is not None else first, first, rules.bf_interval)
    reg["decay"] = _phase(decay if decay is not None else first, first, rules.calc_period)
    reg["heap"] = events
    return reg


def _unsubmitted(row: np.ndarray) -> np.ndarray:
    """Return the initial states of all jobs."""
    job = np.zeros(len(row), JOB_STATE)
    for name, value in (
        ("part", NONE),
        ("head", NONE),
        ("start", np.nan),
        ("ended", -1),
        ("eligible", -1),
        ("accrued", FAR),
        ("leaves_at", FAR),
        ("preempted", -FAR),
    ):
        job[name] = value
    job["sized"] = row["cpus"]
    return job


def _empty_nodes(nodes: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the initial states of the nodes, and the node sets: all nodes are up and idle."""
    node, sets = np.zeros(nodes + 1, NODE_STATE), np.zeros((SETS, width), np.int64)
    node["head"], node["booked"] = NONE, FAR
    sets[IDLE] = sets[UP] = mask(range(nodes), {i: i for i in range(nodes)}, width)
    return node, sets


def _events(row: np.ndarray, down: Sequence[tuple[int, float, float]], first: float) -> list[tuple[float, int, int]]:
    """Return cancellations, releases, begin times, recorded starts and node changes, as events sorted by time."""
    events = []
    for name, kind in (("cancel", CANCEL), ("release", RELEASE), ("begin", BEGIN), ("fixed", FIXED)):
        places = np.flatnonzero((row[name] >= first) & (row[name] < FAR))
        events += [(float(row[name][j]), kind, int(j)) for j in places]
    for k, (_, a, b) in enumerate(down):
        events += [(float(at), NODE, k) for at in (a, b) if at < FAR]
    return sorted(events)


def _phase(at: float, first: float, period: float) -> float:
    """Return the first instant of a periodic event that is not before `first`."""
    return (
        at + max(math.ceil((first - at) / period), 0) * period
        if at < first
        else at - int((at - first) / period) * period
    )


def _inside(settings: Mapping[str, str], key: str, name: str, default: float) -> float:
    """Return the number of an option in a setting with several options, such as `reorder_count=2,youngest_first`."""
    found = re.search(rf"\b{name}=(\d+)", settings.get(key, ""))
    return float(found[1]) if found else default


def _span(text: str, otherwise: float) -> float:
    value = parse_duration(text)
    return value if 0 < value < math.inf else otherwise
