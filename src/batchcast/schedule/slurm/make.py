"""A Machine and NodeRequests as the kernels' arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...cluster.machine import Machine
from ...cluster.request import NodeRequest
from ...errors import UsageError
from ...units import parse_duration
from .arrays import (
    ACTIVE_RECORD,
    AFTERANY,
    AFTERNOTOK,
    AFTEROK,
    ASSOC_RECORD,
    ASSOC_STATE,
    CYCLE,
    DECAY,
    DOWN_RECORD,
    FAR,
    FIRST_POLL,
    FREED,
    FULL,
    HEAP,
    HEAP_RECORD,
    JOB_RECORD,
    JOB_STATE,
    LAST,
    LIST_RECORD,
    NODE_RECORD,
    NODE_STATE,
    NONE,
    NOW,
    OUT_RECORD,
    PART_RECORD,
    PART_STATE,
    POOL_RECORD,
    PRIO_NOW,
    QOS_RECORD,
    QUEUE_RECORD,
    REGISTERS,
    RESERVATION_RECORD,
    SLOT_RECORD,
    WORD_RECORD,
    Jobs,
    Rules,
    Site,
    State,
)  # fmt: skip

KINDS = {"afterok": AFTEROK, "afterany": AFTERANY, "after": AFTERANY, "afternotok": AFTERNOTOK}
FIXED_LATER, CANCEL, RELEASE, BEGIN, FIXED, NODE = range(6)
MOST_SLOTS = 2048


def make_site(machine: Machine) -> tuple[Site, dict[str, Any]]:
    """The machine's arrays, and the names by which requests find their places in them."""
    names = {name: i for i, name in enumerate(machine.node_names())}
    groups = [group for group in machine.nodes for _ in group.names]
    kinds = sorted({kind.split(":")[0] for group in machine.nodes for kind in group.gres})
    words = {w for g in machine.nodes for w in (*g.features, *g.gres, *(k.split(":")[0] for k in g.gres))}
    if len(words) > 62 or len(machine.partitions) > 62:
        raise UsageError("more than 62 node features and gres types, or partitions, are not modelled")
    bits = {word: 1 << k for k, word in enumerate(sorted(words))}
    width = (len(names) + 63) // 64
    np.array([_mask(p.nodes, names, width) for p in machine.partitions], dtype=np.int64)
    members = [sorted(names[n] for n in p.nodes if n in names) for p in machine.partitions]
    most = max(p.priority_job_factor for p in machine.partitions) or 1
    tres = ["cpu", "node", *(f"gres/{kind}" for kind in kinds)]
    qos, assoc = machine.qos, machine.associations
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
        gres=_whole([[_amount(g.gres, kind) for kind in kinds] for g in groups], len(groups), len(kinds)),
        part=records(
            PART_RECORD,
            tier=[p.priority_tier for p in machine.partitions] + [0],
            first=np.concatenate([[0], np.cumsum([len(m) for m in members])]),
            factor=[p.priority_job_factor / most for p in machine.partitions] + [0.0],
            max_time=[min(p.max_time, FAR) for p in machine.partitions] + [0.0],
            default_time=[_or(p.default_time) for p in machine.partitions] + [0.0],
            mem_node=[_or(p.default_mem_per_node) for p in machine.partitions] + [0.0],
            mem_cpu=[_or(p.default_mem_per_cpu) for p in machine.partitions] + [0.0],
        ),
        inside=_whole([_mask(p.nodes, names, width) for p in machine.partitions], len(machine.partitions), width),
        members=np.array([i for m in members for i in m], np.int64),
        qos=records(
            QOS_RECORD,
            factor=[q.priority / best for q in qos] or [0.0],
            jobs=[min(q.limits.grp_jobs, FAR) for q in qos] or [FAR],
            user_jobs=[min(q.limits.max_jobs_per_user, FAR) for q in qos] or [FAR],
        ),
        qos_tres=_limits([q.limits.grp_tres for q in qos] or [{}], tres),
        qos_user_tres=_limits([q.limits.max_tres_per_user for q in qos] or [{}], tres),
        assoc=records(
            ASSOC_RECORD,
            parent=parent or [NONE],
            is_user=[bool(a.user) for a in assoc] or [1],
            share=[a.shares / peers[k] if peers[k] else 0.0 for k, a in enumerate(assoc)] or [1.0],
            jobs=[min(a.limits.grp_jobs, FAR) for a in assoc] or [FAR],
            own_jobs=[min(a.limits.max_jobs, FAR) for a in assoc] or [FAR],
        ),
        assoc_tres=_limits([a.limits.grp_tres for a in assoc] or [{}], tres),
        reservation=records(
            RESERVATION_RECORD,
            begin=[r.start for r in machine.reservations],
            end=[r.end for r in machine.reservations],
        ),
        reserved=_whole([_mask(r.nodes, names, width) for r in machine.reservations], len(machine.reservations), width),
    )
    index = {
        "node": names,
        "feature": bits,
        "gres": kinds,
        "partition": {p.name: k for k, p in enumerate(machine.partitions)},
        "default": sum(1 << k for k, p in enumerate(machine.partitions) if p.default) or 1,
        "exclusive": sum(1 << k for k, p in enumerate(machine.partitions) if p.exclusive),
        "qos": {q.name: k for k, q in enumerate(qos)},
        "assoc": places,
        "reservation": {r.name: k for k, r in enumerate(machine.reservations)},
    }
    return site, index


def make_jobs(
    index: Mapping[str, Any], requests: Sequence[NodeRequest], fixed: Mapping[int, Any] | None = None
) -> Jobs:
    """Requests in order of submission as arrays; `fixed` gives (start, partition, ((node, processors), ...)) by place.

    Raises UsageError for a partition, feature or gres that the machine does not have.
    """
    fixed = fixed or {}
    row = np.zeros(len(requests) + 1, JOB_RECORD)
    for k, r in enumerate(requests):
        for name, value in _row(r, index).items():
            row[k][name] = value
    takes: list[Any] = [fixed.get(k, (FAR, 0, ())) for k in range(len(requests))]
    by_key: dict[str, list[int]] = {}
    for k, r in enumerate(requests):
        by_key.setdefault(r.key, []).append(k)
    needs, kinds, row["needs_from"] = _needs(requests, by_key)
    row["user"][:-1] = _codes([r.user for r in requests])
    row["array"][:-1] = _codes([r.array or None for r in requests])
    row["group"][:-1] = _codes([r.key for r in requests])
    row["earlier"][:-1] = _earlier(requests)
    row["fixed"][:-1] = [t[0] for t in takes]
    row["fixed_part"][:-1] = [t[1] for t in takes]
    row["fixed_from"] = np.concatenate([[0], np.cumsum([len(t[2]) for t in takes])])
    return Jobs(
        row,
        _whole(
            [[_amount(r.gres, kind) for kind in index["gres"]] for r in requests], len(requests), len(index["gres"])
        ),
        needs,
        kinds,
        np.array([n for t in takes for n, _ in t[2]], np.int64),
        np.array([c for t in takes for _, c in t[2]], np.int64),
    )


def make_rules(machine: Machine, **given: float) -> Rules:
    """slurm.conf's settings, in seconds; `given` overrides."""
    s = machine.settings

    def number(key: str, default: float) -> float:
        return float(str(s.get(key, default)).split()[0])

    def weight(key: str) -> float:
        return number(f"PriorityWeight{key}", 0)

    rules = Rules(
        fifo=int("builtin" in s.get("SchedulerType", "sched/backfill")),
        multifactor=int("multifactor" in s.get("PriorityType", "")),
        enforce=int(any(w in s.get("AccountingStorageEnforce", "") for w in ("limits", "safe"))),
        sched_interval=number("sched_interval", 60),
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
        lazy=0,
        since=-FAR,
        until=FAR,
    )
    return rules._replace(**{name: type(getattr(rules, name))(value) for name, value in given.items()})


def make_state(
    site: Site,
    jobs: Jobs,
    rules: Rules,
    *,
    cycle: float | None = None,
    decay: float | None = None,
    second: float | None = None,
    down: Sequence[tuple[int, float, float]] = (),
    placements: int = 0,
) -> State:
    """A state before the first submission, its phases set, and room for `placements` rows of who had which node."""
    n, nodes, width = len(jobs.row) - 1, len(site.node), site.inside.shape[1]
    parts, kinds, assoc = len(site.part) - 1, site.gres.shape[1], len(site.assoc)
    row, qos, users = jobs.row[:-1], len(site.qos), int(jobs.row["user"].max()) + 1
    arrays, tres = int(row["array"].max(initial=-1)) + 1, 2 + kinds
    slots = min(2 * rules.bf_max_job_test + 2, MOST_SLOTS)
    first = float(int(row["submit"].min())) if n else 0.0
    changes = [*down, *((NONE, r["begin"], r["end"]) for r in site.reservation)]
    pairs = int(np.bitwise_count(row["partitions"]).sum()) + 64
    events = _events(row, changes, first)
    reg = np.zeros(REGISTERS)
    reg[FREED], reg[LAST], reg[FULL], reg[NOW], reg[PRIO_NOW] = NONE, -FAR, first, first - 1, first
    reg[FIRST_POLL] = first + ((0.5 if second is None else second) - first) % rules.poll
    reg[CYCLE] = _phase(cycle if cycle is not None else first, first, rules.bf_interval)
    reg[DECAY] = _phase(decay if decay is not None else first, first, rules.calc_period)
    reg[HEAP] = len(events)
    room = len(events) + n + 8
    job, word = np.zeros(n, JOB_STATE), np.zeros(width, WORD_RECORD)
    for name, value in (
        ("part", NONE),
        ("head", NONE),
        ("start", np.nan),
        ("ended", -1),
        ("eligible", -1),
        ("accrued", FAR),
    ):
        job[name] = value
    job["sized"] = row["cpus"]
    word["up"] = _mask(range(nodes), {i: i for i in range(nodes)}, width)
    heap, slot = np.zeros(room, HEAP_RECORD), np.zeros(slots, SLOT_RECORD)
    heap[: len(events)] = np.array([(kind, item, at) for at, kind, item in events], HEAP_RECORD)
    slot["order"] = np.arange(slots)
    state_of_assoc = np.zeros(2 * assoc + 2, ASSOC_STATE)
    state_of_assoc["fair"] = 1.0
    return State(
        reg, job, np.zeros(nodes + 1, NODE_STATE),
        np.zeros((nodes, kinds), np.int64), np.zeros((nodes, kinds), np.int64),
        np.zeros(int(site.node["cpus"].sum()) + n + 1, POOL_RECORD), word, np.zeros(pairs, QUEUE_RECORD),
        np.zeros(n + 1, ACTIVE_RECORD), np.full(n + 1, -1.0), np.zeros(arrays, np.int64),
        np.zeros((arrays, parts), np.int64), np.zeros(qos, ASSOC_STATE), np.zeros((qos, users), np.int64),
        np.zeros((qos, tres)), np.zeros((qos, users, tres)), state_of_assoc, np.zeros((assoc, tres)),
        np.zeros((assoc + 2, 2), np.int64), np.zeros(parts, PART_STATE), slot, np.zeros((slots, width), np.int64),
        np.zeros(users, np.int64), np.argsort(row["submit"], kind="stable"), heap,
        np.array([tuple(c) for c in changes], DOWN_RECORD), np.zeros(room, LIST_RECORD),
        np.zeros(placements, OUT_RECORD),
    )  # fmt: skip


def _events(row: np.ndarray, down: Sequence[tuple[int, float, float]], first: float) -> list[tuple[float, int, int]]:
    """Withdrawals, releases, begin times, recorded starts and node changes, in order of time."""
    events = []
    for name, kind in (("cancel", CANCEL), ("release", RELEASE), ("begin", BEGIN), ("fixed", FIXED)):
        places = np.flatnonzero((row[name] >= first) & (row[name] < FAR))
        events += [(float(row[name][j]), kind, int(j)) for j in places]
    for k, (_, a, b) in enumerate(down):
        events += [(float(at), NODE, k) for at in (a, b) if at < FAR]
    return sorted(events)


def _row(r: NodeRequest, index: Mapping[str, Any]) -> dict[str, float]:
    wanted = [index["partition"].get(p, NONE) for p in r.partitions]
    if NONE in wanted:
        raise UsageError(f"job {r.key}: no partition {r.partitions} on this machine ({', '.join(index['partition'])})")
    missing = [w for w in (*r.features, *r.gres) if w not in index["feature"]]
    if missing:
        raise UsageError(f"job {r.key}: no node of this machine has {missing[0]!r}")
    parts = sum(1 << p for p in set(wanted)) or index["default"]
    return {
        "submit": r.submit,
        "run": r.run,
        "plan": _or(r.limit),
        "min_nodes": r.min_nodes,
        "max_nodes": r.max_nodes,
        "tasks": r.tasks,
        "per_node": r.tasks_per_node,
        "per_task": r.cpus_per_task,
        "cpus": r.cpus,
        "mem_node": float(_or(r.mem_per_node)),
        "mem_cpu": float(_or(r.mem_per_cpu)),
        "features": sum(index["feature"][w] for w in {*r.features, *r.gres}),
        "exclusive": int(r.exclusive or bool(parts & index["exclusive"])),
        "nice": r.nice,
        "begin": max(r.begin, -FAR),
        "release": min(max(r.release, -FAR), FAR),
        "cancel": min(r.cancel, FAR),
        "task": r.task,
        "throttle": r.throttle,
        "partitions": parts,
        "qos": index["qos"].get(r.qos, 0),
        "assoc": index["assoc"].get((r.account, r.user), NONE),
        "singleton": int(r.singleton),
        "reservation": index["reservation"].get(r.reservation, NONE),
        "fails": int(r.fails),
    }


def _needs(
    requests: Sequence[NodeRequest], by_key: Mapping[str, list[int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def _parent(account: str, user: str, parent: str, places: Mapping[tuple[str, str], int]) -> int:
    return places.get((account if user else parent, ""), NONE) if user or parent else NONE


def _phase(at: float, first: float, period: float) -> float:
    """The first instant of a periodic thing that is not before `first`."""
    return (
        at + max(math.ceil((first - at) / period), 0) * period
        if at < first
        else at - int((at - first) / period) * period
    )


def _mask(nodes: Sequence[Any], names: Mapping[Any, int], width: int) -> list[int]:
    words = [0] * width
    for name in nodes:
        if name in names:
            words[names[name] >> 6] |= 1 << (names[name] & 63)
    return [w - (1 << 64) if w >> 63 else w for w in words]


def _words(features: Sequence[str], gres: Mapping[str, int]) -> set[str]:
    return {*features, *gres, *(kind.split(":")[0] for kind in gres)}


def _amount(gres: Mapping[str, int], kind: str) -> int:
    return sum(count for name, count in gres.items() if name.split(":")[0] == kind)


def _limits(tables: Sequence[Mapping[str, float]], tres: Sequence[str]) -> np.ndarray:
    return np.array([[min(t.get(name, FAR), FAR) for name in tres] for t in tables])


def _codes(values: Sequence[str | None]) -> np.ndarray:
    known: dict[str, int] = {}
    return np.array([NONE if v is None else known.setdefault(v, len(known)) for v in values], np.int64)


def _span(text: str, otherwise: float) -> float:
    value = parse_duration(text)
    return value if 0 < value < math.inf else otherwise


def _or(value: float) -> float:
    return -1.0 if math.isnan(value) else value


def _whole(rows: Sequence[Sequence[int]], height: int, width: int) -> np.ndarray:
    return np.array(rows, np.int64).reshape(height, width)


def records(kind: Any, **columns: Any) -> np.ndarray:
    """A record array from columns."""
    table = np.zeros(len(next(iter(columns.values()))), kind)
    for name, values in columns.items():
        table[name] = values
    return table
