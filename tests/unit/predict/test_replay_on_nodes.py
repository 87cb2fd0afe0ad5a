"""Tests `scheduler_replay` on a described machine: what Slurm's own loops would do with the current queue."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from batchcast.events.event import Event, Start, Submit
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.machines.machine import Machine, NodeGroup, Partition, homogeneous
from batchcast.predict.wait.scheduler_replay import SchedulerReplay


def job(row: int, at: float, procs: float, limit: float, **more: Any) -> JobRequest:
    return JobRequest(row, row, at, procs, limit, math.nan, **more)


def state_of(*events: Event) -> SystemState:
    state = SystemState(math.nan)
    for event in events:
        state.apply(event)
        state.now = event.time
    return state


def running(row: int, procs: float, limit: float, **more: Any) -> tuple[Event, Event]:
    held = job(row, 0.0, procs, limit, **more)
    return Submit(0.0, held), Start(0.0, held, 0.0)


def test_a_job_of_two_whole_nodes_waits_for_the_second_one() -> None:
    state = state_of(*running(0, 16, 3600), *running(1, 1, 7200))
    asked = job(9, 0.0, 32, 600, req_nodes=2.0)
    wait = SchedulerReplay(machine=homogeneous(2, 16)).predict(asked, state).point
    assert 7200 <= wait <= 7290  # free processors alone would suffice after 3600 s
    small = job(9, 0.0, 8, 600)
    assert SchedulerReplay(machine=homogeneous(2, 16)).predict(small, state).point <= 60


def test_a_full_partition_does_not_hold_up_another() -> None:
    names = ("a1", "b1")
    machine = Machine(
        (NodeGroup(names, 8),), (Partition("a", names[:1], default=True), Partition("b", names[1:])),
        settings={"SchedulerType": "sched/backfill"},
    )  # fmt: skip
    state = state_of(*running(0, 8, 5000, partition_id="a"))
    replay = SchedulerReplay(machine=machine)
    assert replay.predict(job(9, 0.0, 8, 60, partition_id="b"), state).point <= 60
    assert replay.predict(job(9, 0.0, 8, 60, partition_id="a"), state).point >= 5000


def test_a_higher_priority_goes_first_and_the_queue_ahead_counts() -> None:
    ahead = Submit(1.0, job(1, 1.0, 8, 1000, user_id="ann", qos="low"))
    state = state_of(*running(0, 8, 500), ahead)
    fcfs = homogeneous(1, 8)
    first = SchedulerReplay(machine=fcfs).predict(job(9, 1.0, 8, 60, qos="low"), state).point
    assert first >= 1490
    from batchcast.machines.machine import Qos

    ranked = replace(
        fcfs,
        qos=(Qos("low", 0), Qos("high", 10)),
        settings={"PriorityType": "priority/multifactor", "PriorityWeightQOS": "1000"},
    )
    sooner = SchedulerReplay(machine=ranked).predict(job(9, 1.0, 8, 60, qos="high"), state).point
    assert 495 <= sooner <= 600


def test_a_job_that_the_machine_cannot_have_is_told_so() -> None:
    said = SchedulerReplay(machine=homogeneous(2, 16)).predict(job(9, 0.0, 64, 600), state_of(*running(0, 1, 60)))
    assert "larger than its partition" in said.basis


def test_a_job_waits_for_another_that_it_depends_on_though_there_is_room() -> None:
    asked = job(9, 0.0, 1, 60, extra={"dependency": "afterany:1"})
    state = state_of(*running(0, 8, 5000), *running(1, 1, 3000))
    said = SchedulerReplay(machine=homogeneous(2, 8)).predict(asked, state).point
    assert 3000 <= said <= 3090
    over = asked._replace(extra={"dependency": "afterany:77"})  # which has left
    assert SchedulerReplay(machine=homogeneous(2, 8)).predict(over, state).point <= 60


def test_jobs_that_run_hold_the_nodes_that_they_were_given() -> None:
    apart = [(submit, start._replace(nodes=f"n{k}")) for k in (1, 2) for submit, start in [running(k, 4, 900.0 * k)]]
    asked = job(9, 0.0, 8, 60, req_nodes=1.0)
    machine = homogeneous(2, 8)
    assert machine.node_names() == ("n1", "n2")
    told = state_of(*(event for pair in apart for event in pair))
    assert 900 <= SchedulerReplay(machine=machine).predict(asked, told).point <= 990
    untold = state_of(*(event for submit, start in apart for event in (submit, start._replace(nodes=None))))
    assert SchedulerReplay(machine=machine).predict(asked, untold).point <= 60, "the model would have packed them"
    strange = state_of(*(event for submit, start in apart for event in (submit, start._replace(nodes="x[1-"))))
    assert SchedulerReplay(machine=machine).predict(asked, strange).point <= 60, "nodes of another machine say nothing"


def test_a_job_of_whole_nodes_shares_them_with_nobody() -> None:
    alone = running(0, 1, 2000, req_nodes=1.0, extra={"exclusive": 1.0})
    asked = job(9, 0.0, 1, 60)
    assert 2000 <= SchedulerReplay(machine=homogeneous(1, 8)).predict(asked, state_of(*alone)).point <= 2090


def test_a_node_that_is_away_runs_nothing() -> None:
    state, machine = state_of(*running(0, 8, 2000)), homogeneous(2, 8)
    asked = job(9, 0.0, 8, 60)
    assert SchedulerReplay(machine=machine).predict(asked, state).point <= 60
    state.nodes_away = frozenset({"n2", "of another machine"})
    assert 2000 <= SchedulerReplay(machine=machine).predict(asked, state).point <= 2090


@pytest.mark.parametrize("said", [
    {"reservation": "none such"}, {"constraint": "[a*2&b]"}, {"licenses": "matlab:x,,:"}, {"partition_list": ",,"},
    {"dependency": ":::,?"}, {"dependency": "afterok:9(unfulfilled)"}, {"cpus_per_task": 1e9}, {"array_throttle": 1e12},
], ids=str)  # fmt: skip
def test_what_the_machine_does_not_have_is_passed_over(said: dict[str, object]) -> None:
    state = state_of(*running(0, 8, 2000, extra=said), Submit(1.0, job(1, 1.0, 4, 600, extra=said)))
    asked = job(9, 1.0, 4, 60, extra=said)
    assert SchedulerReplay(machine=homogeneous(2, 8)).predict(asked, state).point <= 660
