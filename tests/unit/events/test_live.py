"""Tests that the live clock yields the recorded clock's events, at whatever instants the collector looks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from batchcast.events.event import Start, Submit
from batchcast.events.live import (
    LiveClock,
    LiveJob,
    live_events,
    live_stream,
)
from batchcast.events.recorded import events, replay
from batchcast.job import DELIVERED_GONE, DELIVERED_START, TOLD_SUBMIT, JobRequest
from batchcast.predict.registry import make
from batchcast.table import Trace

jobs = st.lists(
    st.tuples(
        st.integers(0, 20),  # submit
        st.integers(0, 10),  # wait
        st.one_of(st.none(), st.integers(0, 10)),  # run time; None if the job was withdrawn
        st.sampled_from([1.0, 2.0, 4.0]),
        st.sampled_from(["ada", "bob"]),
    ),
    min_size=1,
    max_size=25,
)
METHODS = {"runtime": "recent_mean", "wait": "recent_wait:need=1"}


def as_trace(rows: list[tuple]) -> Trace:
    ids = [f"{10 + k // 3}_{k % 3}" for k in range(len(rows))]
    return Trace.from_arrays(
        {
            "job_id": ids,
            "submit_time": [float(r[0]) for r in rows],
            "wait_time": [float(r[1]) for r in rows],
            "run_time": [math.nan if r[2] is None else float(r[2]) for r in rows],
            "req_procs": [r[3] for r in rows],
            "req_time": [100.0] * len(rows),
            "req_mem_kib": [1.0] * len(rows),
            "user_id": [r[4] for r in rows],
        }
    )


def as_live(trace: Trace) -> list[LiveJob]:
    found = []
    for record in trace.records():
        start = record.request.submit_time + record.wait_time
        ran = record.run_time == record.run_time
        end = start + (record.run_time if ran else 0.0)
        found.append(LiveJob(record.request, start if ran else math.nan, end, record.status))
    return found


@given(jobs, st.lists(st.integers(-1, 45), max_size=6))
def test_events_come_in_the_recorded_order_wherever_the_looks_fall(rows: list[tuple], looks: list[int]) -> None:
    trace = as_trace(rows)
    live, told = as_live(trace), []
    marks = [0] * len(live)
    for until in [*sorted(looks), 100]:
        fresh = live_events([job._replace(told=m) for job, m in zip(live, marks)], float(until))
        for event in fresh:
            marks[event.job.row] |= {Submit: TOLD_SUBMIT, Start: DELIVERED_START}.get(type(event), DELIVERED_GONE)
        told += fresh
    assert [tuple(map(str, e)) for e in told] == [tuple(map(str, e)) for e in events(trace)]


@given(jobs, st.lists(st.integers(-1, 45), max_size=6), st.booleans())
def test_predictions_are_those_of_the_recorded_clock_also_after_restarts(
    rows: list[tuple], looks: list[int], restart: bool
) -> None:
    trace = as_trace(rows)
    live, marks, said = as_live(trace), [0] * len(rows), {}
    clock = LiveClock({name: make(name, spec) for name, spec in METHODS.items()}, 8.0)
    for until in [*sorted(looks), 100]:
        known = [job._replace(told=m) for job, m in zip(live, marks)]
        if restart:
            clock = LiveClock({name: make(name, spec) for name, spec in METHODS.items()}, 8.0)
            for event in live_events(known, math.inf, only=7):
                clock.tell(event, ask=False)
        for event in live_events(known, float(until)):
            row = event.job.row
            marks[row] |= {Submit: TOLD_SUBMIT, Start: DELIVERED_START}.get(type(event), DELIVERED_GONE)
            for name, prediction in clock.tell(event).items():
                said[name, row] = prediction
    wanted = replay(trace, {name: make(name, spec) for name, spec in METHODS.items()}, total=8.0)
    for (name, row), prediction in said.items():
        assert prediction.point == wanted[name].points[row]
        assert prediction.basis == wanted[name].basis[row]
    assert len(said) == 2 * len(rows)


@given(jobs, st.lists(st.integers(0, 7), min_size=25, max_size=25), st.integers(-1, 45), st.sampled_from([None, 7]))
def test_a_long_history_passes_by_in_the_same_order_as_when_it_is_sorted_whole(
    rows: list[tuple], told: list[int], until: int, only: int | None
) -> None:
    live = [job._replace(told=bits) for job, bits in zip(as_live(as_trace(rows)), told)]
    by_submission = sorted(live, key=lambda job: job.request.submit_time)
    assert list(live_stream(by_submission, float(until), only)) == live_events(live, float(until), only)


def test_a_long_history_is_not_held() -> None:
    """Each job ends before the next one arrives, so at most one is in the queue or running."""
    taken = 0

    def coming() -> Iterator[LiveJob]:
        nonlocal taken
        for k in range(1000):
            taken += 1
            yield LiveJob(JobRequest(k, str(k), 100.0 * k, 1.0, 60.0, math.nan), 100.0 * k + 5, 100.0 * k + 50)

    for told, _ in enumerate(live_stream(coming(), math.inf)):
        assert taken - told / 3 <= 2


def test_a_job_told_as_withdrawn_stays_so_whatever_is_learned_later() -> None:
    job = JobRequest(0, "1", 10.0, 1.0, 60.0, math.nan)
    known = LiveJob(job, 12.0, 20.0, "completed", TOLD_SUBMIT | DELIVERED_GONE)
    again = live_events([known], math.inf, only=7)
    clock = LiveClock({})
    for event in again:
        clock.tell(event)
    assert not clock.state.queued
    assert not clock.state.running


def test_no_event_is_told_before_it_is_due() -> None:
    job = LiveJob(JobRequest(0, "1", 10.0, 1.0, 60.0, math.nan), 12.0, 20.0)
    times = [event.time for event in live_events([job], 15.0)]
    assert times == [10.0, 12.0]
    assert all(a <= b for a, b in pairwise(times))
