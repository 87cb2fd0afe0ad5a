"""Tests that the recorded clock yields messy real logs in one order of events, and hides the future."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.errors import UsageError
from batchcast.events.event import END, RANK, START, SUBMIT, WITHDRAW, Capacity, Change, End, Requeue, Start, Submit
from batchcast.events.recorded import events, irregular, replay, timeline
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.registry import available, make
from batchcast.table import Trace

NAN = float("nan")
NAMES = {SUBMIT: "submit", START: "start", END: "end", WITHDRAW: "withdraw"}


def log(rows):
    submit, wait, run = zip(*rows)
    n = len(rows)
    return Trace.from_arrays(
        {
            "submit_time": submit,
            "wait_time": wait,
            "run_time": run,
            "req_time": [100.0] * n,
            "req_procs": [1] * n,
            "user_id": [1] * n,
        }
    )


def story(trace, protocol="honest"):
    told = timeline(trace, protocol)
    return [(t, NAMES[k], i) for t, k, i in zip(told.time.tolist(), told.kind.tolist(), told.index.tolist())]


def test_an_instant_is_told_ends_first_then_submits_then_starts():
    assert story(log([(0, 0, 10), (10, 0, 5)])) == [
        (0, "submit", 0),
        (0, "start", 0),
        (10, "end", 0),
        (10, "submit", 1),
        (10, "start", 1),
        (15, "end", 1),
    ]


def test_a_zero_length_job_ends_after_its_start_and_after_submits_of_the_instant():
    told = story(log([(0, 5, 0), (5, 0, 1)]))
    assert told[1:5] == [(5, "submit", 1), (5, "start", 0), (5, "start", 1), (5, "end", 0)]


def test_a_job_that_never_ran_withdraws_when_it_left_and_not_before_it_came():
    assert story(log([(3, 4, NAN), (3, NAN, NAN), (7, -2, NAN)])) == [
        (3, "submit", 0),
        (3, "submit", 1),
        (3, "withdraw", 1),
        (7, "withdraw", 0),
        (7, "submit", 2),
        (7, "withdraw", 2),
    ]


def test_a_run_without_a_wait_starts_at_submit_and_is_counted():
    trace = log([(3, NAN, 4), (3, -1, 4), (4, 1, NAN)])
    assert (3.0, "start", 0) in story(trace)
    assert list(irregular(trace).values()) == [1, 1, 1]


def test_the_paper_protocol_tells_each_end_right_after_its_submit():
    assert [name for _, name, _ in story(log([(0, 50, 10), (1, 0, 5)]), "paper")] == ["submit", "start", "end"] * 2
    with pytest.raises(UsageError, match="honest, paper"):
        timeline(log([(0, 0, 1)]), "lax")


rows = st.lists(
    st.tuples(
        st.integers(0, 20), st.one_of(st.just(NAN), st.integers(-3, 20)), st.one_of(st.just(NAN), st.integers(0, 20))
    ),
    min_size=1,
    max_size=25,
)


@given(rows)
def test_every_job_is_told_once_and_the_state_ends_empty(jobs):
    trace = log(jobs)
    state = SystemState(4.0)
    told = []
    for event in events(trace):
        state.apply(event)
        told.append((RANK[type(event)], event.job.row))
        assert state.running_procs == len(state.running)
        assert state.queued_procs == len(state.queued)
        assert state.free == max(0.0, 4.0 - len(state.running))
    assert not state.running
    assert not state.queued
    assert len(told) == len(set(told))
    assert sum(kind == SUBMIT for kind, _ in told) == len(trace)
    assert sum(kind in (END, WITHDRAW) for kind, _ in told) == len(trace)


@pytest.mark.parametrize("name", [n for n in available("runtime") if n != "actual"])
@given(jobs=rows, cut=st.integers(0, 20))
def test_poisoning_every_later_outcome_changes_no_earlier_prediction(name, jobs, cut):
    """If everything that had not ended at an instant is changed, all predictions up to that instant stay the same."""
    trace = log(jobs)
    wait = np.nan_to_num(np.maximum(trace.wait_time, 0.0))
    unfinished = ~(trace.submit_time + wait + trace.run_time <= cut)
    poisoned = trace.with_columns({"run_time": np.where(unfinished, trace.run_time * 0 + 10**9, trace.run_time)})
    before = trace.submit_time <= cut
    said, again = (replay(t, {name: make("runtime", name)})[name].points[before] for t in (trace, poisoned))
    assert said.tolist() == again.tolist()


def test_refit_is_called_when_its_cadence_falls_due():
    class Counting:
        refit_every_jobs = 2

        def __init__(self):
            self.refits = []

        def predict(self, job, at):
            from batchcast.predict.protocol import Prediction

            return Prediction(1.0)

        def observe(self, event, at):
            pass

        def refit(self, now):
            self.refits.append(now)

    it = Counting()
    replay(log([(t, 0, 1) for t in range(6)]), {"it": it})
    assert it.refits == [2.0, 4.0]


def test_the_live_kinds_of_event_move_the_state():
    job = JobRequest(0, "7", 0.0, 2.0, 60.0, NAN)
    state = SystemState(8.0)
    for event in (Submit(0.0, job), Start(1.0, job, 1.0), Requeue(2.0, job)):
        state.apply(event)
    assert (state.free, list(state.queued)) == (8.0, [0])
    state.apply(Change(3.0, job._replace(req_time=30.0), {"req_time": 30.0}))
    assert state.queued[0].req_time == 30.0
    state.apply(Capacity(4.0, 1.0))
    state.apply(Start(5.0, job, 5.0))
    assert state.free == 0.0  # two processors run on a machine of one: the free count never falls below zero
    state.apply(End(6.0, job, 1.0, 5.0))
    assert (state.free, state.now) == (1.0, 6.0)


def test_the_state_is_read_only_by_its_interface():
    state = SystemState(8.0)
    with pytest.raises(TypeError):
        state.queued[0] = None
    with pytest.raises(AttributeError):
        state.free = 3.0
