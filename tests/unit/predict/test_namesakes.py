"""Tests limits from ended and running jobs of the same name, against the slow reference version, and their gain."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.memory import keeps_its_limit, limit_by_namesakes

from batchcast.evaluation.limits import find_limits, limit_rows
from batchcast.events.event import Submit
from batchcast.events.recorded import events
from batchcast.events.state import SystemState
from batchcast.predict.namesakes import Namesakes, needed_time, requests_over_log
from batchcast.predict.protocol import Grounds, Prediction
from batchcast.predict.recommend import NEW_NAME, RAISED, LimitAdvice
from batchcast.table import Trace


def named_log(jobs: int, seed: int, gap_s: int = 400) -> Trace:
    """Jobs of two users and two names, some ended by their limits; no two events happen at one instant."""
    rng = np.random.default_rng(seed)
    user, app = rng.integers(0, 2, jobs), rng.integers(0, 2, jobs)
    asked = np.where(user == 0, 2400.0, 1200.0)
    run = np.round(rng.lognormal(0, np.where(app == 0, 0.3, 0.75)) * (300.0 + 200.0 * app)) + 0.25
    cut = run >= asked
    return Trace.from_arrays(
        {
            "submit_time": np.cumsum(rng.integers(1, gap_s, jobs)) * 1.0,
            "wait_time": rng.integers(0, 900, jobs) + 0.5,
            "run_time": np.where(cut, asked + 0.25, run),
            "req_procs": np.full(jobs, 2.0),
            "req_time": asked,
            "user_id": [f"user{u}" for u in user],
            "job_name": [f"case_{a}" for a in app],
            "status": np.where(cut, "timeout", "completed").tolist(),
        }
    )


def workflow(runs: int, seed: int, name: str | None = "align") -> Trace:
    """A user's workflow runs of 200 tasks of four kinds on 8 processors; each requests 40 min, some need 2 min."""
    rng = np.random.default_rng(seed)
    took = [rng.lognormal(0, 0.25, 200) * np.tile([60.0, 150.0, 60.0, 120.0], 50) for _ in range(runs)]
    start = [4e5 * k + np.repeat(np.arange(25) * 400.0, 8) for k in range(runs)]
    tasks = {
        "submit_time": np.repeat(4e5 * np.arange(runs), 200),
        "wait_time": np.concatenate(start) - np.repeat(4e5 * np.arange(runs), 200),
        "run_time": np.concatenate(took),
        "req_procs": np.ones(200 * runs),
        "req_time": np.full(200 * runs, 2400.0),
        "user_id": ["ada"] * (200 * runs),
    }
    names = [f"{name}{k % 4}" for k in range(200 * runs)]
    return Trace.from_arrays(tasks | ({"job_name": names} if name else {}))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.1, 0.2]), st.sampled_from([20, 400]))
def test_limits_by_namesakes_are_those_of_the_slow_way(seed: int, risk: float, gap: int) -> None:
    log = named_log(120, seed, gap)
    every = np.ones(len(log), bool)
    needed = needed_time(log.run_time, log.req_time)
    found = requests_over_log(log, Namesakes("time"), needed, log.req_time, (risk,), every)[0]
    slow = [limit_by_namesakes(log, row, risk) for row in range(len(log))]
    assert found == pytest.approx(np.array(slow), nan_ok=True)


def of_new_names(jobs: int, seed: int) -> Trace:
    """Like `named_log`, but most names are new: one name for five jobs."""
    log = named_log(jobs, seed)
    names = Trace.from_arrays({"submit_time": log.submit_time, "job_name": [f"case_{k // 5}" for k in range(jobs)]})
    return log.with_columns({"job_name": names.nominal("job_name")})


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.1, 0.2]), st.sampled_from([0.5, 1.5]))
def test_which_new_names_keep_their_limit_is_what_the_slow_way_says(seed: int, risk: float, off: float) -> None:
    log = of_new_names(120, seed)
    bound = np.minimum(log.run_time * np.random.default_rng(seed).lognormal(off, 1.0, len(log)), log.req_time)
    needed, every = needed_time(log.run_time, log.req_time), np.ones(len(log), bool)
    found = requests_over_log(log, Namesakes("time"), needed, log.req_time, (risk,), every, "req", bound)[0]
    slow = np.array([keeps_its_limit(log, row, risk, bound) for row in range(len(log))])
    assert found[slow] == pytest.approx(log.req_time[slow])
    assert np.isnan(found[~slow]).all()  # no kind of job has enough ended jobs for a suggested limit


def test_live_a_new_name_keeps_its_limit_as_on_the_recorded_clock_and_says_why() -> None:
    log = of_new_names(150, 4)
    unnamed = Trace({name: log.column(name) for name in log.names if name != "job_name"}, log.info)
    bound = np.array([said.point for said in advised(unnamed, 0.2)])
    slow = [keeps_its_limit(log, row, 0.2, bound) for row in range(len(log))]
    found = advised(log, 0.2)
    assert [said.basis == NEW_NAME for said in found] == slow
    # also after the first four jobs, because some ended jobs ran longer than their bounds
    assert 10 < sum(slow) < len(log) - 10
    for row, said in enumerate(found):
        assert said.point == (log.req_time[row] if slow[row] else bound[row])


def advised(log: Trace, risk: float) -> list[Prediction]:
    """Return the live method's prediction for each job at its submission."""
    method, state, found = LimitAdvice("recent_mean", risk), SystemState(), []
    for event in events(log):
        state.now = event.time
        if isinstance(event, Submit):
            found.append(method.predict(event.job, state))
        method.observe(event, state)
        state.apply(event)
    return found


def test_the_live_clock_advises_what_the_recorded_one_does() -> None:
    log = named_log(150, 4)
    every = np.ones(len(log), bool)
    needed = needed_time(log.run_time, log.req_time)
    recorded = requests_over_log(log, Namesakes("time"), needed, log.req_time, (0.1,), every)[0]
    method, state, decided = LimitAdvice("recent_mean", 0.1), SystemState(), 0
    for event in events(log):
        state.now = event.time
        if isinstance(event, Submit):
            said, own = method.predict(event.job, state), recorded[event.job.row]
            if own == own:
                assert said.point == pytest.approx(min(own, RAISED * event.job.req_time))
                assert (said.grounds, said.levels) == (Grounds.CLASS, (0.9,))
                decided += 1
        method.observe(event, state)
        state.apply(event)
    assert decided > 50


def test_a_second_run_asks_for_less_than_half_and_at_most_one_task_in_a_hundred_is_cut_off() -> None:
    log = workflow(3, 1)
    limits = find_limits(log, floor=60.0, step=60.0)
    for number in (1, 2):
        inside = (log.submit_time == 4e5 * number) & limits.scored
        assert limits.limits["advice"][inside].sum() < 0.5 * limits.limits["own"][inside].sum()
        assert (log.run_time > limits.limits["advice"])[inside].mean() <= 0.01


def test_where_no_job_has_a_name_nothing_is_said_by_names() -> None:
    log = workflow(2, 1, name=None)
    needed = needed_time(log.run_time, log.req_time)
    every = np.ones(len(log), bool)
    assert np.isnan(requests_over_log(log, Namesakes("time"), needed, log.req_time, (0.05,), every)).all()
    assert limit_rows(find_limits(log))[0]["killed_per_thousand"] <= 50.0


def test_a_kind_speaks_once_so_many_have_ended_as_its_risk_needs_and_never_above_what_was_asked() -> None:
    log = workflow(1, 2)
    job, known = next(log.requests()), Namesakes("time")
    for ended in range(60):
        said = [known.request(job, 2400.0, risk, 0.0) for risk in (0.05, 0.02)]
        assert [math.isnan(one) for one in said] == [ended < 19, ended < 49]
        known.learn(job, 100.0 + ended)
    assert known.request(job, 130.0, 0.05, 0.0) <= 160.0
    known.begin(job._replace(row=10**6), 0.0)
    assert known.request(job, 2400.0, 0.05, 2000.0) <= 2400.0
