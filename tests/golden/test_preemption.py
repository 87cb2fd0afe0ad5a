"""Tests preemption by requeue on examples worked out by hand: which job is preempted, when, and when it runs again
(unit 10 s)."""

from __future__ import annotations

from typing import Any

from batchcast.machines.machine import Machine, NodeGroup, Partition, Qos
from batchcast.machines.request import NodeRequest
from batchcast.schedule.slurm.simulate import simulate_slurm
from tests.golden.test_slurm_rules import AT_ZERO, BACKFILL, agrees, machine

BY_TIER = {**BACKFILL, "PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE", "requeue_delay": "9"}
BY_QOS = {**BACKFILL, "PreemptType": "preempt/qos", "PreemptMode": "REQUEUE", "requeue_delay": "9"}
HIGH = {"partitions": ("high",)}


def tiers(nodes: int = 1, **low: Any) -> tuple[Partition, ...]:
    names = tuple(f"n{k}" for k in range(nodes))
    return (
        Partition("low", names, default=True, preempt=True, **low),
        Partition("high", names, priority_tier=2),
    )


def test_a_job_of_a_lower_tier_gives_way_and_runs_again_before_those_that_came_later():
    agrees(
        machine(BY_TIER, partitions=tiers()),
        """
        a 0 4 4 6 |...####
        b 0 1 1 1 |.......#
        h 1 4 2 2 | ~~
        """,
        h=HIGH,
    )


def test_only_the_job_that_makes_room_gives_way():
    """jobs a and c together would make room for h; c alone does so too, and Slurm tries that next"""
    agrees(
        machine(BY_TIER, 2, partitions=tiers(2)),
        """
        a 0 2 9 9 |#########
        b 0 2 9 9 |#########
        c 0 4 5 5 |....#####
        h 2 4 2 2 |  ~~
        """,
        b=HIGH,
        h=HIGH,
    )


def test_a_job_ends_its_grace_time_where_it_can():
    """job a may run until 30 and ends at 20; b may run until 70, and slurmctld looks every 30 seconds"""
    agrees(
        machine(BY_TIER, partitions=tiers(grace_time=20.0)),
        """
        a 0 4 2 6 |##
        h 1 4 2 2 | .##
        b 4 4 9 9 |    .......#########
        i 5 4 2 2 |     ....##
        """,
        h=HIGH,
        i=HIGH,
    )


def test_nobody_gives_way_before_its_exempt_time():
    agrees(
        machine({**BY_TIER, "PreemptExemptTime": "00:00:40"}, partitions=tiers()),
        """
        a 0 4 6 6 |......######
        h 1 4 2 2 | ...##
        """,
        h=HIGH,
    )


def test_a_qos_preempts_those_that_it_names():
    ranks = (Qos("normal", 1), Qos("scavenger"), Qos("urgent", 9, preempts=("scavenger",)))
    agrees(
        machine(BY_QOS, 2, qos=ranks),
        """
        a 0 4 5 5 |#####
        b 0 4 4 4 |......####
        h 2 4 2 2 |  ~~
        i 3 8 1 1 |   ..#
        """,
        a={"qos": "normal"},
        b={"qos": "scavenger"},
        h={"qos": "urgent"},
        i={"qos": "urgent"},
    )


def test_a_job_that_is_cancelled_instead_does_not_run_again():
    site = machine({**BY_TIER, "PreemptMode": "CANCEL"}, partitions=tiers())
    jobs = [
        NodeRequest("a", 0, 40, 60, tasks=4),
        NodeRequest("h", 10, 20, 60, tasks=4, partitions=("high",)),
    ]
    made = simulate_slurm(site, jobs, recorded=AT_ZERO, batch_sched_delay=0.0)
    assert made.start.tolist() == [0.0, 10.0]
    assert made.run.tolist() == [10.0, 20.0]
    assert made.preempted.tolist() == [1, 0]
    assert made.lost == 40.0


RECORDED = """
a   0    low  -n4 -N1 60 1501 | 1702 3
b   0    low  -n2 -N1 60 1501 | 1702 1
c   0    low  -n2 -N1 60 1201 |    1 0
d   1    low  -n8 -N2 60 1501 | 1702 2
e   20   low  -n4 -N1 30  601 | 3203 0
h1  200  high -n4 -N1 20  501 |  201 0
f   210  low  -n1 -N1 10  301 |  501 0
h2  500  high -n6 -N0 20  601 |  500 0
m1  900  mid  -n4 -N1 20  401 |  901 0
h3  1500 high -n16 -N4 10 201 | 1501 0
g   1600 low  -n4 -N1 30  301 | 3203 0
"""  # name, submission, partition, tasks, nodes, limit (min), run time | last start, number of preemptions


def test_the_starts_and_broken_runs_are_those_of_a_real_slurm():
    """Slurm 22.05 on four nodes of four processors, recorded by tests/slurm/lab/record_preemption.py; partition mid has
    2 nodes."""
    names = tuple(f"n{k}" for k in range(1, 5))
    parts = (
        Partition("low", names, 4 * 3600, preempt=True),
        Partition("mid", names[:2], 4 * 3600, priority_tier=5, preempt=True),
        Partition("high", names, 4 * 3600, priority_tier=10),
    )
    settings = {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE", "bf_interval": "30"}
    jobs, wanted = [], {}
    for line in RECORDED.strip().splitlines():
        asked, became = (side.split() for side in line.split("|"))
        name, submit, partition, tasks, nodes, limit, run = asked
        count = int(nodes[2:])
        jobs.append(
            NodeRequest(
                name, float(submit), float(run), 60.0 * float(limit), partitions=(partition,), tasks=int(tasks[2:]),
                min_nodes=max(count, 1), max_nodes=count,
            )
        )  # fmt: skip
        wanted[name] = (float(became[0]), int(became[1]))
    made = simulate_slurm(Machine((NodeGroup(names, 4),), parts, settings=settings), jobs)
    for r, start, often in zip(made.requests, made.start, made.preempted):
        assert abs(start - wanted[r.key][0]) <= 10, r.key
        assert often == wanted[r.key][1], r.key
