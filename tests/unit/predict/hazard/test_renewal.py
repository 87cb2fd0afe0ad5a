"""Tests new predictions for a whole queue: each equals the prediction job by job, and nothing is learned from it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.waits import forward_start

from batchcast.events.event import End, Start, Submit, Withdraw
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.conditional import given_waited
from batchcast.predict.hazard.bins import WaitCurve
from batchcast.predict.hazard.features import AT_DRAWS, NAMES, describe_now
from batchcast.predict.wait.forecast import Forecast, renewed

TOTAL = 8.0
JOBS = st.lists(
    st.tuples(
        st.integers(0, 300), st.integers(1, 8), st.sampled_from([60, 600, 3600, 7200]), st.sampled_from("ab"),
        st.sampled_from(["waits", "runs", "ended"]),
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


def story(drawn):
    """Events of jobs that are submitted one after the other; some start at once if there is room, and some end."""
    now, free, events, running = 0.0, TOTAL, [], []
    for row, (gap, procs, limit, user, fate) in enumerate(drawn):
        now += gap
        job = JobRequest(row, row, now, float(procs), float(limit), math.nan, user_id=user)
        events.append(Submit(now, job))
        if fate != "waits" and procs <= free:
            events.append(Start(now, job, 0.0))
            free -= procs
            running.append((fate, job))
        for one in [one for one in running if one[0] == "ended"][:1]:
            running.remove(one)
            events.append(End(now, one[1], 1.0, 0.0))
            free += one[1].procs
    return events, now


def told(events):
    method, state = Forecast(), SystemState(TOTAL)
    for event in events:
        state.apply(event)
        method.observe(event, state)
    return method, state


def one_by_one(method, state, row):
    """Return the features of one queued job, as a job with that entry that arrives last would see them."""
    columns, entry, features = state.columns(), state.entry_of_row(row), np.zeros(len(NAMES), np.float32)
    method.room_beside(columns)
    job, runs = columns.jobs[entry : entry + 1], method.runs
    describe_now(columns.record, method.history, job, entry, state.now, runs, runs[entry], method.room, features)
    return features


@settings(max_examples=25, deadline=None)
@given(JOBS, st.integers(0, 2000))
def test_each_sees_what_it_would_if_those_behind_were_not_there_but_for_their_runs(drawn, later):
    events, now = story(drawn)
    method, state = told(events)
    state.now = now + later
    said = renewed(method, state)
    rows = list(state.queued)
    assert said.row.tolist() == rows
    assert said.waited.tolist() == [state.now - state.queued[row].submit_time for row in rows]
    ends = {row: (held.job, held.start_time) for row, held in state.running.items()}
    for place, row in enumerate(rows):
        alone = told(events)[1]
        for behind in rows[place + 1 :]:
            alone.apply(Withdraw(now, state.queued[behind], now - state.queued[behind].submit_time))
        alone.now = state.now
        np.testing.assert_array_equal(said.features[place, :AT_DRAWS], one_by_one(method, alone, row)[:AT_DRAWS])
        if place == len(rows) - 1:
            np.testing.assert_array_equal(said.features[place], one_by_one(method, state, row))
        running = [(job.procs, max(job.req_time - (state.now - start), 1.0)) for job, start in ends.values()]
        queued = [(state.queued[one].procs, state.queued[one].req_time) for one in rows]
        start = forward_start(TOTAL, running, queued, "easy", of=place)
        by_limits = said.features[place, NAMES.index("planned by limits")]
        assert math.isclose(by_limits, math.log1p(start), rel_tol=1e-5, abs_tol=1e-5)


def test_a_renewal_teaches_nothing_and_gives_whole_distributions():
    random = np.random.default_rng(5)
    drawn = [(int(g), int(p), 600, "a", f) for g, p, f in zip(random.integers(0, 90, 60), random.integers(1, 9, 60),
             random.choice(["waits", "runs", "ended"], 60))]  # fmt: skip
    events, now = story(drawn)
    method, state = told(events)
    asked = JobRequest(99, 99, state.now, 2.0, 600.0, math.nan, user_id="a")
    before = method.predict(asked, state)
    said = [renewed(method, state) for _ in range(2)]
    assert method.predict(asked, state) == before
    np.testing.assert_array_equal(said[0].chances, said[1].chances)
    assert (np.diff(said[0].chances, axis=1) >= 0).all()
    assert len(said[0].chances) == len(state.queued) > 5
    state.now = now + 5000.0
    later = renewed(method, state)
    promised = method.at_submission(later.row)
    for place, row in enumerate(later.row.tolist()):
        waited = state.now - state.queued[row].submit_time
        assert later.waited[place] == waited
        prediction = later.prediction(place)
        assert prediction.quantiles[0] == waited <= prediction.quantiles[1], "the whole wait, what has passed included"
        assert prediction.point == prediction.quantiles[prediction.levels.index(0.5)] >= waited
        of_start = given_waited(prediction, waited, (0.1, 0.9))
        assert of_start.quantiles[1] == pytest.approx(waited + WaitCurve(later.chances[place]).quantile(0.9), rel=1e-4)
        if later.component[place] == 0:  # the prediction at submission, given the time since then
            alone = WaitCurve(promised[place], waited)
            raw = method.renewal.expected(method.look(state), promised).other_curves[place, 0]
            ends = [0.0, 600.0, 86400.0]
            kept = [alone.chance(waited + end) for end in ends]
            np.testing.assert_allclose([WaitCurve(raw).chance(end) for end in ends], kept, atol=1e-9)
    assert later.words(5).startswith("behind 5 jobs")
