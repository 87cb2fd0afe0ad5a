"""`scheduler_replay` on a described machine: what Slurm's own loops would do with the queue of now."""

from __future__ import annotations

import math
from dataclasses import replace

from batchcast.cluster.machine import Machine, NodeGroup, Partition, homogeneous
from batchcast.events.event import Event, Start, Submit
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.wait.scheduler_replay import SchedulerReplay


def job(row: int, at: float, procs: float, limit: float, **more: object) -> JobRequest:
    return JobRequest(row, row, at, procs, limit, math.nan, **more)  # type: ignore[arg-type]


def state_of(*events: Event) -> SystemState:
    state = SystemState(math.nan)
    for event in events:
        state.apply(event)
        state.now = event.time
    return state


def running(row: int, procs: float, limit: float, **more: object) -> tuple[Event, Event]:
    held = job(row, 0.0, procs, limit, **more)
    return Submit(0.0, held), Start(0.0, held, 0.0)


def test_a_job_of_two_whole_nodes_waits_for_the_second_one() -> None:
    state = state_of(*running(0, 16, 3600), *running(1, 1, 7200))
    asked = job(9, 0.0, 32, 600, req_nodes=2.0)
    wait = SchedulerReplay(machine=homogeneous(2, 16)).predict(asked, state).point
    assert 7200 <= wait <= 7290  # free processors alone would be enough after 3600 s
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
    from batchcast.cluster.machine import Qos

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
