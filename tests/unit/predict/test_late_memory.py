"""Memory forecast by a method made for run times: what it hears of a job, and when."""

from __future__ import annotations

import math

from batchcast.events.event import End, Start, Submit, Withdraw
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.late_memory import LATE_S, LateMemory


class Heard:
    """Stands in for the method: writes down what it hears."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def observe(self, event: object, at: SystemState) -> None:
        self.events.append(event)


def job(row: int = 0, asked: float = 2000.0) -> JobRequest:
    return JobRequest(row, row, 0.0, 4.0, 600.0, asked, user_id="ada", req_nodes=2.0)


def listening() -> tuple[LateMemory, Heard, SystemState]:
    method, heard = LateMemory("recent_mean"), Heard()
    method.inner = heard
    return method, heard, SystemState()


def test_the_request_a_node_stands_for_the_limit_and_a_running_job_says_nothing() -> None:
    method, heard, state = listening()
    method.observe(Submit(0.0, job()), state)
    method.observe(Start(5.0, job(), 5.0), state)
    (event,) = heard.events
    assert isinstance(event, Submit)
    assert event.job.req_time == 1000.0


def test_a_peak_known_with_the_end_is_learned_at_once_and_a_later_one_when_it_is_told() -> None:
    method, heard, state = listening()
    method.observe(End(10.0, job(0), 10.0, 0.0, "completed", 300.0), state)
    method.observe(End(11.0, job(1), 10.0, 0.0, "completed"), state)
    assert [event.run_time for event in heard.events if isinstance(event, End)] == [300.0]
    state.now = 200.0
    method.measured(1, 400.0, "completed", state)
    method.measured(1, 900.0, "completed", state)  # once
    last = heard.events[-1]
    assert isinstance(last, End)
    assert (last.run_time, last.time, len(heard.events)) == (400.0, 200.0, 2)


def test_what_ran_out_counts_as_much_as_it_had_asked_for_at_least() -> None:
    method, heard, state = listening()
    for row, (peak, status) in enumerate([(700.0, "out_of_memory"), (1700.0, "out_of_memory"), (700.0, "failed")]):
        method.observe(End(10.0, job(row), 10.0, 0.0, status, peak), state)
    assert [event.run_time for event in heard.events if isinstance(event, End)] == [1000.0, 1700.0, 700.0]


def test_memory_that_nobody_measures_is_waited_for_an_hour_and_no_longer() -> None:
    method, heard, state = listening()
    method.observe(End(10.0, job(0), 10.0, 0.0, "completed"), state)
    method.observe(End(LATE_S, job(1), 10.0, 0.0, "completed", 5.0), state)
    assert list(method.pending) == [0]
    method.observe(End(LATE_S + 10.0, job(2), 10.0, 0.0, "completed", 5.0), state)
    assert method.pending == {}
    assert [event.job.row for event in heard.events if isinstance(event, Withdraw)] == [0]


def test_without_a_request_the_limit_is_unknown() -> None:
    method, heard, state = listening()
    method.observe(Submit(0.0, job(asked=math.nan)), state)
    (event,) = heard.events
    assert isinstance(event, Submit)
    assert math.isnan(event.job.req_time)
