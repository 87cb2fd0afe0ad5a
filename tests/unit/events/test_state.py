"""Tests the state of waiting and running jobs against its slow reference version, and what predictors read from it."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive.state import NaiveState

from batchcast.events.event import Capacity, Change, End, Overdue, Requeue, Start, Submit, Withdraw
from batchcast.events.record import GONE, NO_LIMIT, QUEUED
from batchcast.events.recorded import events, replay
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.table import Trace

NAN = math.nan
step = st.tuples(
    st.sampled_from(["submit", "submit", "submit", "start", "start", "end", "withdraw", "requeue", "change", "size"]),
    st.integers(0, 40),
    st.sampled_from([0.0, 0.0, 5.0, 700.0, 90000.0]),
    st.sampled_from([1.0, 2.0, 7.0, 30.0, NAN]),
    st.sampled_from([60.0, 3600.0, math.inf, NAN]),
)


def story(steps):
    """Draw a valid sequence of events from random steps."""
    now, rows, queued, running = 0.0, 0, {}, {}
    for what, which, later, procs, limit in steps:
        now += later
        if what == "submit":
            job = JobRequest(1000 - rows, f"{rows}", now, procs, limit, NAN, user_id=("ada", "bob", None)[which % 3])
            rows, queued[job.row] = rows + 1, job
            yield Submit(now, job)
        elif what in ("start", "withdraw") and queued:
            job = queued.pop(list(queued)[which % len(queued)])
            wait = (now - job.submit_time, -3.0, NAN)[which % 3]
            if what == "start":
                running[job.row] = job
                yield Start(now, job, wait)
            else:
                yield Withdraw(now, job, wait)
        elif what in ("end", "requeue") and running:
            job = running.pop(list(running)[which % len(running)])
            if what == "requeue":
                queued[job.row] = job
            yield Requeue(now, job) if what == "requeue" else End(now, job, 5.0, 0.0)
        elif what == "change" and (queued or running):
            kept = queued if queued else running
            job = kept[list(kept)[which % len(kept)]]._replace(req_time=7200.0)
            kept[job.row] = job
            yield Change(now, job, {"req_time": 7200.0})
        elif what == "size":
            yield Capacity(now, float(which))


@given(st.lists(step, max_size=60), st.sampled_from([8.0, NAN]), st.integers(1, 9))
def test_every_event_leaves_what_the_naive_twin_keeps(steps, total, looks_every):
    state, twin = SystemState(total), NaiveState(total)
    for count, event in enumerate(story(steps)):
        state.apply(event)
        twin.apply(event)
        # columns are read only now and then: updating them over many events must equal updating after each event
        if count % looks_every:
            continue
        assert list(state.queued) == list(twin.queued)
        assert list(state.queued.values()) == list(twin.queued.values())
        assert [(row, run.job, run.start_time) for row, run in state.running.items()] == [
            (row, job, start) for row, (job, start) in twin.running.items()
        ]
        assert state.queued_procs == twin.procs(twin.queued.values())
        assert state.running_procs == twin.procs(job for job, _ in twin.running.values())
        assert state.columns().record["queued_work"][0] == pytest.approx(
            sum(j.procs * j.req_time for j in twin.queued.values() if j.req_time < NO_LIMIT and j.procs == j.procs)
        )
        assert state.taught(event) == twin.taught
        if isinstance(event, Withdraw):
            assert state.taught(event, "skip") is None
        by_user = state.columns().users
        for user in ("ada", "bob", None):
            code = state.code("user_id", user)
            waiting = sum(job.user_id == user for job in twin.queued.values())
            assert (by_user[code]["queued"] if code >= 0 else 0) == waiting


@given(st.lists(step, max_size=40))
def test_a_stored_state_goes_on_as_if_nothing_had_happened(steps):
    kept, moved = SystemState(8.0), SystemState(8.0)
    for count, event in enumerate(story(steps)):
        if count == 12:
            moved = pickle.loads(pickle.dumps(moved))
        kept.apply(event)
        moved.apply(event)
    assert repr(list(moved.queued.values())) == repr(list(kept.queued.values()))  # NaN does not equal itself
    assert [(row, run.start_time) for row, run in moved.running.items()] == [
        (row, run.start_time) for row, run in kept.running.items()
    ]
    assert moved.queued_procs == kept.queued_procs


def test_an_entry_carries_what_placing_a_job_will_need():
    state = SystemState(64.0)
    wide = JobRequest(
        0, "7", 5.0, 8.0, 60.0, 2048.0, user_id="ada", account="lab", qos="long", partition_id="gpu",
        req_nodes=2.0, req_gpus=4.0,
    )  # fmt: skip
    plain = JobRequest(1, "8", 6.0, NAN, NAN, NAN, account="lab")
    for event in (Submit(5.0, wide), Submit(6.0, plain)):
        state.apply(event)
    jobs = state.columns().jobs[:2]
    assert [jobs[name][0] for name in ("nodes", "memory_kib", "gpus", "procs", "limit")] == [
        2.0,
        2048.0,
        4.0,
        8.0,
        60.0,
    ]
    assert (jobs["procs"][1], jobs["limit"][1]) == (0.0, NO_LIMIT)
    assert np.isnan([jobs[name][1] for name in ("nodes", "memory_kib", "gpus")]).all()
    assert jobs["account"].tolist() == [1, 1] == [state.code("account", "lab")] * 2
    assert (jobs["user"].tolist(), state.code("user_id", "eve")) == ([1, 0], -1)
    assert jobs["status"].tolist() == [QUEUED, QUEUED]


def test_a_plan_of_the_scheduler_is_kept_beside_the_start():
    state, job = SystemState(8.0), JobRequest(0, "7", 0.0, 8.0, 60.0, NAN)
    start = Start(4.0, job, 4.0)
    for event in (Submit(0.0, job), start):
        state.apply(event)
    state.plan(0, 50.0)
    assert state.taught(start) == 4.0
    assert state.running[0].planned_end == 50.0
    over = Overdue(50.0, job, 46.0)
    state.apply(over)
    state.plan(0, 64.0)
    assert state.running[0].planned_end == 64.0
    state.apply(End(55.0, job, 51.0, 4.0))
    assert (state.columns().jobs["status"][0], state.free) == (GONE, 8.0)


class Reader:
    """Reads the state at every event, and records its content."""

    def __init__(self):
        self.seen = []

    def predict(self, job, at):
        return None

    def observe(self, event, at):
        self.seen.append((at.now, at.free, tuple(at.queued), tuple(at.running), at.columns().record["entries"].item()))


@pytest.mark.parametrize("protocol", ["honest", "paper", "starts_first"])
def test_a_log_laid_out_beforehand_shows_nothing_before_its_time(protocol):
    """A state that receives events one by one must equal the recorded clock's state at every event."""
    log = Trace.from_arrays(
        {
            "submit_time": [0, 0, 5, 9, 9, 200000],
            "wait_time": [0, 7, 0, 1, 5, 0],
            "run_time": [7, 3, 0, np.nan, 5, 5],
            "req_time": [9, 9, 9, 9, 9, 9],
            "req_procs": [2, 4, 1, 1, 3, 2],
        }
    )
    laid_out = Reader()
    replay(log, {"it": laid_out}, protocol=protocol, total=4.0)
    one_by_one, state = Reader(), SystemState(4.0)
    for event in events(log, protocol):
        state.apply(event)
        one_by_one.observe(event, state)
    assert laid_out.seen == one_by_one.seen
