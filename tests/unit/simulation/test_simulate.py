"""Tests the simulated clock: predictors in the loop, omitted jobs, and the notes about them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchcast.errors import BatchcastError, InputError, NoAnswer, UsageError
from batchcast.events.event import END, OVERDUE, RANK, START, SUBMIT
from batchcast.predict.protocol import Prediction
from batchcast.predict.registry import make
from batchcast.simulation import Policy, RunSetup, make_workload, simulate
from batchcast.table import Trace

NAN = float("nan")

jobs = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(1, 8),
        st.integers(0, 200),
        st.sampled_from([50.0, 120.0, 300.0, NAN]),
        st.sampled_from([1, 2, None]),
    ),
    min_size=1,
    max_size=60,
)
policies = st.builds(
    Policy,
    backfill_order=st.sampled_from(["fcfs", "sjf"]),
    correct=st.sampled_from(["requested", "incremental", "doubling"]),
    kill=st.booleans(),
    event_order=st.sampled_from(["instant", "pyss"]),
)


def log(rows) -> Trace:
    gaps, procs, run, request, user = zip(*rows)
    columns = {
        "submit_time": np.cumsum(gaps),
        "req_procs": procs,
        "run_time": run,
        "req_time": request,
        "user_id": user,
    }
    return Trace.from_arrays(columns)


@pytest.mark.parametrize(
    "spec", ["last_2", "last_2:need=2,round=down", "recent_mean", "recent_mean:k=2,fields=user_id"]
)
@given(rows=jobs, policy=policies)
@settings(max_examples=40)
def test_a_native_planner_is_its_python_twin_start_by_start(spec, rows, policy):
    trace = log(rows)
    if not np.isfinite(trace.req_time).any():
        return
    native, python = (simulate(trace, policy, spec, total=8, native=flag) for flag in (True, False))
    assert native.start_time.tolist() == python.start_time.tolist()
    assert native.planned_run_time.tolist() == python.planned_run_time.tolist()
    assert native.corrections == python.corrections


class Recorder:
    """Uses nothing of the future, and records the events that it receives."""

    def __init__(self):
        self.told = []

    def predict(self, job, at):
        assert job.row not in at.queued
        self.told.append(("ask", at.now, job.row, at.free))
        return Prediction(30.0)

    def observe(self, event, at):
        assert at.now == event.time
        self.told.append((RANK[type(event)], event.time, event.job.row, at.free))


def test_a_predictor_in_the_loop_sees_the_simulated_ends_in_order():
    trace = log([(0, 4, 50, 120.0, 1), (0, 8, 50, 120.0, 1), (10, 2, 10, 50.0, 1)])
    it = Recorder()
    schedule = simulate(trace, Policy(correct="incremental"), it, total=8)
    assert schedule.start_time.tolist() == [0.0, 50.0, 30.0]
    assert [entry[:3] for entry in it.told] == [
        ("ask", 0.0, 0),
        (SUBMIT, 0.0, 0),
        ("ask", 0.0, 1),
        (SUBMIT, 0.0, 1),
        (START, 0.0, 0),
        ("ask", 10.0, 2),
        (SUBMIT, 10.0, 2),
        (OVERDUE, 30.0, 0),  # the plan now extends to 90, so the third job, planned with 30, fits before the head
        (START, 30.0, 2),
        (END, 40.0, 2),
        (END, 50.0, 0),
        (START, 50.0, 1),
        (OVERDUE, 80.0, 1),
        (END, 100.0, 1),
    ]


class Reviser(Recorder):
    def revise(self, job, elapsed, at):
        assert at.running[job.row].start_time + elapsed == at.now
        return elapsed + 7.0


def test_a_predictor_may_revise_the_plan_of_an_overdue_job():
    trace = log([(0, 8, 50, 120.0, 1), (0, 8, 5, 50.0, 1)])
    it = Reviser()
    assert simulate(trace, Policy(), it, total=8).corrections == 3  # planned end: 30 -> 37 -> 44 -> 51
    assert [t for kind, t, *_ in it.told if kind == OVERDUE] == [30.0, 37.0, 44.0]


@pytest.mark.parametrize(("seconds", "said"), [(NAN, "NaN"), (-1.0, "-1 s"), (-0.5, "-0.5 s")])
@pytest.mark.parametrize("loop", ["closed", "open"])
def test_an_impossible_forecast_is_refused_in_a_sentence(seconds, said, loop):
    class Wrong(Recorder):
        def predict(self, job, at):
            return Prediction(seconds)

    with pytest.raises(BatchcastError, match=f"^job 1: the predictor Wrong answered {said} .accepted: a finite time"):
        simulate(log([(0, 1, 5, 50.0, 1)]), Policy(), Wrong(), total=8, loop=loop)


def test_an_impossible_revision_is_refused_too():
    class Wrong(Reviser):
        def revise(self, job, elapsed, at):
            return -7.0

    with pytest.raises(BatchcastError, match="answered -7 s"):
        simulate(log([(0, 8, 50, 120.0, 1)]), Policy(), Wrong(), total=8)


def test_open_loop_plans_with_what_was_said_on_the_recorded_clock():
    trace = log([(0, 8, 50, 120.0, 1), (60, 8, 40, 120.0, 1), (100, 1, 5, 120.0, 1)])
    recorded = Trace.from_arrays(
        {
            **{n: trace.number(n) for n in ("submit_time", "run_time", "req_time", "req_procs")},
            "wait_time": [0, 500, 0],
            "user_id": [1, 1, 1],
        }
    )
    planned = simulate(recorded, Policy(), "last_2", total=8, loop="open").planned_run_time
    assert planned.tolist() == [120.0, 50.0, 50.0]
    paper = simulate(recorded, Policy(), "last_2", total=8, loop="open", protocol="paper").planned_run_time
    assert paper.tolist() == [120.0, 50.0, 45.0]
    closed = simulate(recorded, Policy(), "last_2", total=8).planned_run_time
    assert closed.tolist() == [120.0, 50.0, 45.0]


def test_a_plan_level_takes_the_quantile_and_not_the_point():
    class Spread(Recorder):
        def predict(self, job, at):
            return Prediction(30.0, (0.5, 0.9), (30.0, 70.0))

    trace = log([(0, 1, 5, 100.0, 1)])
    assert simulate(trace, Policy(), Spread(), total=8).planned_run_time.tolist() == [30.0]
    assert simulate(trace, Policy(), Spread(), total=8, plan_level=0.7).planned_run_time.tolist() == [50.0]


def test_what_cannot_be_simulated_is_left_out_and_counted():
    trace = Trace.from_arrays(
        {
            "submit_time": [0, 1, 2, 3, 4],
            "run_time": [NAN, 5, 5, 0, 5],
            "req_time": [9, 9, NAN, 9, 3],
            "req_procs": [1, NAN, 1, 1, 99],
        }
    )
    work = make_workload(trace, RunSetup(total=10))
    assert work.left_out == {"no run time": 1, "no processors": 1, "wider than the machine": 1}
    assert work.run.tolist() == [5.0, 0.0]
    # the job of unknown run time counts with the largest known one of the log
    assert work.request.tolist() == [9.0, 9.0]
    assert make_workload(trace, RunSetup(total=10, default_request=60.0)).request.tolist() == [60.0, 9.0]
    cut, widened = (make_workload(trace, RunSetup(total=10, wide=wide)) for wide in ("cut", "widen"))
    assert (cut.procs.tolist(), cut.total) == ([1, 1, 10], 10)
    assert (widened.procs.tolist(), widened.total) == ([1, 1, 99], 99)
    assert work.run.tolist() == [5.0, 0.0]
    assert make_workload(trace, RunSetup(total=99)).run.tolist() == [5.0, 0.0, 3.0]  # killed at its request
    assert make_workload(trace, RunSetup(total=99), kill=False).request.tolist() == [9.0, 9.0, 5.0]


def test_bad_questions_name_the_accepted_forms():
    trace = log([(0, 1, 5, NAN, 1)])
    with pytest.raises(InputError, match="machine's size is unknown"):
        simulate(trace)
    with pytest.raises(InputError, match="default_request"):
        simulate(trace, total=8)
    with pytest.raises(UsageError, match="none, easy"):
        Policy(backfill="lazy")
    with pytest.raises(UsageError, match="did you mean last_2"):
        simulate(log([(0, 1, 5, 50.0, 1)]), predictor="last2", total=8)
    with pytest.raises(UsageError, match="no parameter 'needs'"):
        make("runtime", "last_2:needs=2")


def test_a_log_without_a_job_to_simulate_says_why():
    trace = Trace.from_arrays({"submit_time": [0.0], "run_time": [NAN], "req_time": [5.0], "req_procs": [1.0]})
    with pytest.raises(NoAnswer, match=r"no job to simulate: 1 job not simulated \(no run time\)"):
        simulate(trace, total=4)


def test_a_policy_goes_by_its_name_and_a_wrong_one_names_the_right_ones() -> None:
    log = Trace.from_arrays(
        {"submit_time": [0, 0, 1], "run_time": [9, 9, 2], "req_time": [10, 10, 3], "req_procs": [2, 4, 2]}
    )
    named = simulate(log, "easy-sjbf", total=4)
    assert named.start_time.tolist() == simulate(log, Policy(backfill_order="sjf"), total=4).start_time.tolist()
    with pytest.raises(UsageError, match="conservative"):
        simulate(log, "easiest", total=4)
