"""Tests Slurm's compiled loops against the slow reference version, and that no resource, limit or reservation is
exceeded."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive.slurm import Twin

from batchcast.machines.machine import Association, Limits, Machine, NodeGroup, Partition, Qos, Reservation, homogeneous
from batchcast.machines.request import NodeRequest
from batchcast.schedule.slurm.arrays import Phases, make_state
from batchcast.schedule.slurm.loops import advance
from batchcast.schedule.slurm.priority import fair_tree
from batchcast.schedule.slurm.simulate import Recorded, simulate_slurm
from batchcast.schedule.slurm.site import make_jobs, make_rules, make_site

PHASES = Phases(cycle=7.3, decay=11.0, second=0.4)
NODES = ("a1", "a2", "a3", "b1", "b2")
GROUPS = (
    NodeGroup(("a1", "a2", "a3"), 4, memory_mib=400, features=("old",), weight=1),
    NodeGroup(("b1", "b2"), 8, memory_mib=800, gres={"gpu:x": 2}, weight=5),
)
PARTS = (
    Partition("all", NODES, max_time=2000, default_time=300, default_mem_per_cpu=50, default=True),
    Partition(
        "quick", ("a2", "a3", "b1"), max_time=300, priority_tier=2, priority_job_factor=9, default_mem_per_cpu=50
    ),
)
TIGHT = (
    Qos("normal", 1, limits=Limits(max_jobs_per_user=2, max_tres_per_user={"cpu": 10})),
    Qos("high", 10, limits=Limits(grp_tres={"cpu": 8, "gres/gpu": 2})),
)
USERS = (("one", "ann"), ("one", "bob"), ("two", "cid"))
TREE = (
    Association("root"),
    Association("one", parent="root", shares=3, limits=Limits(grp_jobs=3)),
    Association("two", parent="root", limits=Limits(grp_tres={"cpu": 9})),
    *(Association(account, user, shares=1 + k) for k, (account, user) in enumerate(USERS)),
)


EXTRA = ["", "", "", "array", "after", "begin", "hold", "nice", "cancel", "singleton", "license"]


@st.composite
def some_jobs(draw: st.DrawFn) -> list[NodeRequest]:
    jobs: list[NodeRequest] = []
    at = 0.0
    for k in range(draw(st.integers(2, 14))):
        at += draw(st.sampled_from([0, 0, 1, 5, 40])) + 0.25
        shape = draw(st.sampled_from(["tasks", "tasks", "one", "nodes", "exclusive", "gpu", "old", "memory"]))
        account, user = draw(st.sampled_from(USERS))
        asks: dict[str, object] = {
            "tasks": {"tasks": draw(st.integers(1, 14))},
            "one": {"tasks": draw(st.integers(1, 4)), "min_nodes": 1, "max_nodes": 1},
            "nodes": {"min_nodes": 2, "max_nodes": 2, "tasks_per_node": draw(st.integers(1, 4))},
            "exclusive": {"min_nodes": draw(st.integers(1, 2)), "exclusive": True, "mem_per_node": 0.0},
            "gpu": {"tasks": 1, "cpus_per_task": draw(st.integers(1, 4)), "gres": {"gpu": draw(st.integers(1, 2))}},
            "old": {"tasks": 3, "features": ("old",)},
            "memory": {
                "tasks": 2,
                "min_nodes": 1,
                "max_nodes": 1,
                "mem_per_node": float(draw(st.sampled_from([100, 300]))),
            },
        }[shape]
        if shape == "exclusive":
            asks["max_nodes"] = asks["min_nodes"]
        asks["partitions"] = draw(st.sampled_from([(), ("all",), ("all",), ("quick", "all")]))
        if shape in ("one", "memory"):
            asks["partitions"] = draw(st.sampled_from([("quick",), ("all",)]))
        extra = draw(st.sampled_from(EXTRA))
        if extra == "after" and jobs:
            asks["depends"] = ((draw(st.sampled_from(["afterok", "afterany"])), draw(st.sampled_from(jobs)).key),)
        elif extra == "begin":
            asks["begin"] = at + draw(st.integers(1, 200))
        elif extra == "hold":
            asks["release"] = at + draw(st.integers(1, 200))
        elif extra == "nice":
            asks["nice"] = draw(st.integers(1, 20))
        elif extra == "cancel":
            asks["cancel"] = at + draw(st.integers(1, 100))
        elif extra == "license":
            asks["licenses"] = {"lic": draw(st.integers(1, 2))}
        asks["singleton"] = extra == "singleton"
        run = float(draw(st.integers(1, 400)))
        limit = max(60.0, run * draw(st.sampled_from([1, 1, 2, 5])))
        count = draw(st.integers(2, 4)) if extra == "array" and shape != "exclusive" else 1
        qos = draw(st.sampled_from(["normal", "high"]))
        for task in range(count):
            jobs.append(
                NodeRequest(
                    f"k{k}", at, run, limit, user, account, qos=qos, name=draw(st.sampled_from("xy")),
                    array=f"k{k}" if count > 1 else "", task=task if count > 1 else -1,
                    throttle=2 if count > 1 else 0, **asks,
                )
            )  # fmt: skip
    return jobs


AMOUNTS = (
    Qos("normal", 1, limits=Limits(max_jobs_per_account=3, max_tres={"cpu": 9}, max_wall=900)),
    Qos("high", 10, limits=Limits(max_tres_per_account={"cpu": 10}, grp_tres={"mem": 900, "node": 3})),
)
OF_ROOT = Limits(max_jobs=3, max_tres={"cpu": 12, "gres/gpu": 1}, max_wall=1500)
CONF = {"bf_interval": "30", "bf_resolution": "60", "bf_window": "60"}
MULTI = {
    "PriorityType": "priority/multifactor", "PriorityDecayHalfLife": "00:10:00", "PriorityCalcPeriod": "00:01:00",
    "PriorityMaxAge": "00:10:00", "PriorityWeightAge": "1000", "PriorityWeightFairShare": "10000",
    "PriorityWeightJobSize": "1000", "PriorityWeightPartition": "1000", "PriorityWeightQOS": "3000",
}  # fmt: skip
BY_TIER = {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE", "PreemptExemptTime": "00:00:20"}
BY_QOS = {"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"}
POLICIES = {
    "fifo": {"SchedulerType": "sched/builtin"},
    "backfill": CONF,
    "multifactor": {**CONF, **MULTI},
    "tres": {**CONF, **MULTI, "PriorityWeightTRES": "CPU=5000,Mem=900,GRES/gpu=7000"},
    "limits": {**CONF, **MULTI, "AccountingStorageEnforce": "associations,limits,qos"},
    "amounts": {**CONF, **MULTI, "AccountingStorageEnforce": "associations,limits,qos"},
    "by tier": {**CONF, **BY_TIER},
    "reserving by age": {**CONF, "bf_min_age_reserve": "90"},
    "reserving by priority": {**CONF, "bf_min_prio_reserve": "-40"},
    "by qos": {**CONF, **MULTI, **BY_QOS},
    "fifo by tier": {"SchedulerType": "sched/builtin", **BY_TIER},
    "emptiest": {**CONF, **MULTI, "SelectTypeParameters": "CR_CORE_MEMORY,CR_LLN"},
}


DAY = 86400.0
KEPT = {
    "none": (),
    "once": (Reservation("maint", ("a1", "b1"), 200.0, 420.0),),
    "daily": (Reservation("short", ("a1", "b1"), 200.0 - DAY, 420.0 - DAY, flags=("DAILY",), max_time=100.0),),
    "daily until": (Reservation("short", ("b1",), 200.0 - DAY, 420.0 - DAY, flags=("DAILY",), until=150.0),),
}


def machine(policy: str, reserved: bool, turns: str = "once") -> Machine:
    kept = KEPT[turns] if reserved else ()
    site = Machine(GROUPS, PARTS, TIGHT, TREE, kept, POLICIES[policy], licenses={"lic": 2.0})
    if "by tier" in policy:
        site = replace(site, partitions=(replace(PARTS[0], preempt=True, grace_time=15.0 * reserved), PARTS[1]))
    if policy == "by qos":
        normal = replace(TIGHT[0], grace_time=15.0 * reserved)
        site = replace(site, qos=(normal, replace(TIGHT[1], preempts=("normal",))))
    if policy == "amounts":
        site = replace(site, qos=AMOUNTS, associations=(replace(TREE[0], limits=OF_ROOT), *TREE[1:]))
    if policy == "emptiest":
        site = replace(site, partitions=(replace(PARTS[0], billing_weights={"cpu": 0.5, "gres/gpu": 7.0}), PARTS[1]))
    return site


policies = st.sampled_from(sorted(POLICIES))


@given(some_jobs(), policies, st.sampled_from(sorted(KEPT)), st.booleans())
def test_the_kernels_are_the_naive_twin(jobs: list[NodeRequest], policy: str, kept: str, down: bool) -> None:
    site = machine(policy, kept != "none", kept)
    spans = (("a2", 100.0, 300.0),) if down else ()
    twin = Twin(site, jobs, cycle=7.3, decay=11.0, phase=0.4, poll=1.0, down=spans, until=20_000)
    expected = {(j.key, j.task): (t, sorted((n.index, c) for n, c in twin.where[j])) for j, t in twin.run().items()}
    made = simulate_slurm(
        site, jobs, recorded=Recorded(spans, phases=PHASES), poll=1.0, until=20_000, placements=10_000
    )
    held = defaultdict(list)
    for j, node, cpus in made.placement.tolist():
        held[j].append((node, cpus))
    found = {(r.key, r.task): (t, sorted(held[k])) for k, (r, t) in enumerate(zip(made.requests, made.start)) if t == t}
    assert found == expected


@pytest.mark.parametrize("policy", ["backfill", "reserving by age", "reserving by priority"])
def test_under_a_standing_queue_the_kernels_are_the_naive_twin(policy: str) -> None:
    """Many reservations at once, of one processor up to three nodes, so that most steps of the table are skipped."""
    draw = np.random.default_rng(5)
    jobs = [
        NodeRequest(
            str(k), 7.0 * k + 0.25, run := float(draw.integers(20, 400)), 60.0 * np.ceil(run * draw.uniform(1, 3) / 60),
            tasks=int(draw.choice([1, 2, 3, 6, 9, 14])),
        )
        for k in range(70)
    ]  # fmt: skip
    site = machine(policy, reserved=False)
    twin = Twin(site, jobs, cycle=7.3, decay=11.0, phase=0.4, poll=1.0, until=20_000)
    expected = {(j.key, j.task): t for j, t in twin.run().items()}
    made = simulate_slurm(site, jobs, recorded=Recorded(phases=PHASES), poll=1.0, until=20_000)
    assert made.starts() == expected
    assert np.sum(made.start > 490.0) > 40  # this many jobs waited when the last one arrived


@pytest.mark.parametrize(
    ("policy", "grace"), [("by tier", False), ("by tier", True), ("by qos", False), ("by qos", True)]
)
def test_where_jobs_give_way_the_kernels_are_the_naive_twin(policy: str, grace: bool) -> None:
    draw = np.random.default_rng(7)
    jobs = [
        NodeRequest(
            str(k), 9.0 * k + 0.25, run := float(draw.integers(20, 300)), 60.0 * np.ceil(run * draw.uniform(1, 3) / 60),
            *USERS[k % 3][::-1], qos=("normal", "high")[k % 5 == 0], tasks=int(draw.choice([1, 2, 3, 6, 8])),
            partitions=("quick",) if k % 5 == 0 and policy == "by tier" else ("all",),
        )
        for k in range(60)
    ]  # fmt: skip
    site = machine(policy, reserved=grace)
    twin = Twin(site, jobs, cycle=7.3, decay=11.0, phase=0.4, poll=1.0, until=30_000)
    expected = {(j.key, j.task): (t, sorted((n.index, c) for n, c in twin.where[j])) for j, t in twin.run().items()}
    made = simulate_slurm(site, jobs, recorded=Recorded(phases=PHASES), poll=1.0, until=30_000, placements=10_000)
    held = defaultdict(list)
    for j, node, cpus in made.placement.tolist():
        held[j].append((node, cpus))
    assert {k: (t, sorted(held[int(k[0])])) for k, t in made.starts().items()} == expected
    assert int(made.preempted.sum()) == len(twin.broken) > 0
    assert made.lost == pytest.approx(sum((end - a) * sum(c for _, c in where) for _, a, end, _, where in twin.broken))


@given(some_jobs(), policies, st.booleans())
def test_nothing_is_over_a_node_a_limit_or_a_reservation(jobs: list[NodeRequest], policy: str, reserved: bool) -> None:
    site = machine(policy, reserved)
    made = simulate_slurm(site, jobs, until=20_000, placements=10_000)
    groups = [g for g in GROUPS for _ in g.names]
    span = {k: (t, min(t + r.run, r.cancel)) for k, (r, t) in enumerate(zip(made.requests, made.began)) if t == t}
    rows = [(j, n, c) for j, n, c in made.placement.tolist()]
    for at in {t for t, _ in span.values()}:
        now = [(j, n, c) for j, n, c in rows if span[j][0] <= at < span[j][1]]
        for n, group in enumerate(groups):
            here = [(made.requests[j], c) for j, m, c in now if m == n]
            assert sum(c for _, c in here) <= group.cpus
            assert sum(sum(r.gres.values()) for r, _ in here) <= sum(group.gres.values())
            assert (
                sum(400 if r.exclusive else r.mem_per_node if r.mem_per_node > 0 else 50 * c for r, c in here)
                <= group.memory_mib
            )
            assert len(here) == 1 or not any(r.exclusive for r, _ in here)
        if policy == "limits":
            for q in TIGHT:
                mine = [(made.requests[j], c) for j, _, c in now if made.requests[j].qos == q.name]
                assert sum(c for _, c in mine) <= q.limits.grp_tres.get("cpu", np.inf)
                for _, user in USERS:
                    assert sum(c for r, c in mine if r.user == user) <= q.limits.max_tres_per_user.get("cpu", np.inf)
    ends = defaultdict(list)
    for k, r in enumerate(made.requests):
        ends[r.key].append(span[k][1] if k in span else np.inf if r.cancel == np.inf else r.cancel)
    for k, (start, _) in span.items():
        r = made.requests[k]
        assert start >= r.submit
        assert start >= max(r.begin, r.release)
        assert all(start >= end for _, key in r.depends for end in ends[key])
        if reserved:
            touches = int(start) < 420 and int(start) + min(r.limit, 300 if int(made.partition[k]) else 2000) > 200
            assert not touches or not {n for j, n, _ in rows if j == k} & {0, 3}


def test_priority_by_tres_is_that_of_a_real_slurm() -> None:
    """Four jobs behind one that uses everything, on 4 nodes of 4 processors and 4000 MiB: the output of squeue of Slurm
    24.11."""
    weights = {"PriorityWeightTRES": "CPU=100000,Mem=50000,node=7000", "PriorityWeightJobSize": "10000"}
    site = homogeneous(4, 4, 4000.0, **weights, PriorityType="priority/multifactor", SchedulerType="sched/builtin")
    jobs = [
        NodeRequest("1", 0, 300, tasks=16, min_nodes=4, max_nodes=4),
        NodeRequest("2", 1, 5, tasks=1, mem_per_node=100.0),
        NodeRequest("3", 1, 5, tasks=7),
        NodeRequest("4", 1, 5, tasks=2, cpus_per_task=3, min_nodes=2, max_nodes=2, mem_per_node=700.0),
        NodeRequest("5", 1, 5, min_nodes=3, max_nodes=3, exclusive=True, mem_per_node=0.0),
    ]
    arrays, index = make_site(site)
    asked, rules = make_jobs(index, jobs), make_rules(site, until=20.0)
    state = make_state(arrays, asked, rules)
    fair_tree(arrays, state)
    advance(arrays, asked, rules, state, 1000)
    queue = state.queue[int(state.reg["first"][0]) : int(state.reg["queue"][0])]
    found = {jobs[row["job"]].key: -row["order"] for row in queue}
    assert found == {"5": 66187, "3": 61437, "4": 49750, "2": 9875}


@pytest.mark.parametrize(("selects", "starts"), [("CR_CORE", [0.0, 0.0]), ("CR_CORE_MEMORY", [0.0, 600.0])])
def test_memory_is_held_only_where_slurm_hands_it_out(selects: str, starts: list[float]) -> None:
    """With CR_Core, a job without --mem shows its node's whole memory, and another job still starts beside it."""
    machine = homogeneous(1, 4, 4000.0, SelectTypeParameters=selects)
    pair = [NodeRequest(str(k), 0.0, 600.0, 600.0, tasks=2, mem_per_cpu=2000.0) for k in range(2)]
    began = simulate_slurm(machine, pair).starts()
    assert [began[str(k), -1] for k in range(2)] == pytest.approx(starts, abs=61.0)
