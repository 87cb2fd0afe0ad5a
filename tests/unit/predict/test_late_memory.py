"""Tests peak memory on a live clock: what the predictor learns of a job, and when."""

from __future__ import annotations

import math

from batchcast.events.event import End, Event, Start, Submit, Withdraw
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.peak_memory import LATE_S, LateMemory, asked_a_node


class Heard:
    """Replaces the method, and records what it receives."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def observe(self, event: Event, at: SystemState) -> None:
        self.events.append(event)


def job(row: int = 0, asked: float = 2000.0) -> JobRequest:
    return JobRequest(row, row, 0.0, 4.0, 600.0, asked, user_id="ada", req_nodes=2.0)


def end(row: int, time: float = 10.0, peak: float = math.nan) -> End:
    return End(time, job(row), 10.0, 0.0, "completed", peak)


def listening() -> tuple[LateMemory, Heard, SystemState]:
    method, heard = LateMemory("recent_mean"), Heard()
    method.inner = heard
    return method, heard, SystemState()


def test_a_running_job_says_nothing() -> None:
    method, heard, state = listening()
    method.observe(Submit(0.0, job()), state)
    method.observe(Start(5.0, job(), 5.0), state)
    assert [type(event) for event in heard.events] == [Submit]


def test_a_peak_known_with_the_end_is_learned_at_once_and_a_later_one_when_it_is_told() -> None:
    method, heard, state = listening()
    method.observe(end(0, peak=300.0), state)
    method.observe(end(1), state)
    assert [event.peak_mem_kib for event in heard.events if isinstance(event, End)] == [300.0]
    state.now = 200.0
    method.measured(1, 400.0, "out_of_memory", state)
    method.measured(1, 900.0, "completed", state)  # once
    last = heard.events[-1]
    assert isinstance(last, End)
    assert (last.peak_mem_kib, last.time, last.status, len(heard.events)) == (400.0, 200.0, "out_of_memory", 2)


def test_memory_that_nobody_measures_is_waited_for_an_hour_and_no_longer() -> None:
    method, heard, state = listening()
    method.observe(end(0), state)
    method.observe(end(1, LATE_S, 5.0), state)
    assert list(method.pending) == [0]
    method.observe(end(2, LATE_S + 10.0, 5.0), state)
    assert method.pending == {}
    assert [event.job.row for event in heard.events if isinstance(event, Withdraw)] == [0]


def test_answers_are_in_kib_a_node_and_the_request_stands_where_nothing_is_known() -> None:
    method, state = LateMemory("recent_mean"), SystemState()
    assert method.predict(job(asked=8192.0), state).point == 4096.0
    method.observe(end(0, peak=3072.0), state)
    assert method.predict(job(asked=8192.0), state).point == 3072.0


def test_without_a_request_what_is_asked_for_is_unknown() -> None:
    assert math.isnan(asked_a_node(job(asked=math.nan)))
