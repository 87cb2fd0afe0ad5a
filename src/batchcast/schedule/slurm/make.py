"""Settings and a state before the first submission as the kernels' arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from ...cluster.machine import Machine
from ...units import parse_duration
from .arrays import (
    ACTIVE_RECORD,
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
    IDLE,
    JOB_STATE,
    LAST,
    LIST_RECORD,
    NODE_STATE,
    NONE,
    NOW,
    OUT_RECORD,
    PART_STATE,
    POOL_RECORD,
    PRIO_NOW,
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
)  # fmt: skip
from .heap import BEGIN, CANCEL, FIXED, NODE, RELEASE
from .site import mask

MOST_SLOTS = 2048


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
    arrays, tres = int(row["array"].max(initial=-1)) + 1, 3 + kinds
    accounts = int(jobs.row["account"].max()) + 1
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
    gives_way = site.part["preempts"].any() or row["preempts"].any()  # then a job may begin and end more than once
    room = len(events) + (4 if gives_way else 1) * n + 8
    job, sets = np.zeros(n, JOB_STATE), np.zeros((SETS, width), np.int64)
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
    sets[IDLE] = sets[UP] = mask(range(nodes), {i: i for i in range(nodes)}, width)
    node = np.zeros(nodes + 1, NODE_STATE)
    node["head"], node["booked"] = NONE, FAR
    heap, slot = np.zeros(room, HEAP_RECORD), np.zeros(slots, SLOT_RECORD)
    heap[: len(events)] = np.array([(kind, item, at) for at, kind, item in events], HEAP_RECORD)
    shape = np.full((int(row["form"].max(initial=0)) + 1, parts), np.array((-1, -1, -1, 0.0), SHAPE_RECORD))
    state_of_assoc = np.zeros(2 * assoc + 2, ASSOC_STATE)
    state_of_assoc["fair"] = 1.0
    return State(
        reg, job, node,
        np.zeros((nodes, kinds), np.int64), np.zeros((nodes, kinds), np.int64),
        np.zeros(int(site.node["cpus"].sum()) + n + 1, POOL_RECORD), sets, np.zeros(pairs, QUEUE_RECORD),
        np.zeros(pairs, QUEUE_RECORD),
        np.zeros(n + 1, ACTIVE_RECORD), np.full(n + 1, -1.0), np.zeros(arrays, np.int64),
        np.zeros((arrays, parts), np.int64), np.zeros((arrays, parts), np.int64), shape,
        np.zeros(qos, ASSOC_STATE), np.zeros((qos, users), np.int64), np.zeros((qos, accounts), np.int64),
        np.zeros((qos, tres)), np.zeros((qos, users, tres)), np.zeros((qos, accounts, tres)),
        np.zeros(len(site.licenses)), state_of_assoc, np.zeros((assoc, tres)),
        np.zeros((assoc + 2, 2), np.int64), np.zeros(parts, PART_STATE), slot,
        np.zeros((slots, width), np.int64), np.zeros((slots, width), np.int64), np.zeros(n // 64 + 2, np.int64),
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


def _phase(at: float, first: float, period: float) -> float:
    """The first instant of a periodic thing that is not before `first`."""
    return (
        at + max(math.ceil((first - at) / period), 0) * period
        if at < first
        else at - int((at - first) / period) * period
    )


def _inside(settings: Mapping[str, str], key: str, name: str, default: float) -> float:
    """A number among the words of one setting: `reorder_count=2,youngest_first`."""
    found = re.search(rf"\b{name}=(\d+)", settings.get(key, ""))
    return float(found[1]) if found else default


def _span(text: str, otherwise: float) -> float:
    value = parse_duration(text)
    return value if 0 < value < math.inf else otherwise
