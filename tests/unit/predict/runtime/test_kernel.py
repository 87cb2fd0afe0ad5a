"""Tests `kernel` against its slow reference version, and what a user would notice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.kernel import NAMES, kernel_twin

from batchcast.events.event import End, Requeue, Start, Submit, Withdraw
from batchcast.events.recorded import replay
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.runtime.calibrated import Calibrated
from batchcast.predict.runtime.kernel import LEVELS, Kernel, RunTimes
from batchcast.predict.similarity.coding import Coder, coded
from batchcast.predict.similarity.memory import CLASSES, FIELDS, OWN
from batchcast.table import Trace
from batchcast.testing.logs import odd_logs, small_log

NAN = float("nan")


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["honest", "paper"]))
def test_every_quantile_is_one_of_the_twins_distribution(seed, protocol):
    log = small_log(70, seed)
    expected, theta = kernel_twin(log, protocol)
    method, median, accurate = Kernel(), Kernel(point="median"), Kernel(point="accuracy")
    several = replay(log, {"it": method, "median": median, "accurate": accurate}, protocol=protocol)
    told = several["it"]
    for row, pairs in enumerate(expected):
        if pairs is None:
            assert np.isnan(told.quantiles[row]).all()
            continue
        limit = log.req_time[row]
        values = np.array([max(min(v, limit), 1.0) if limit == limit else v for v, _ in pairs])
        shares = np.array([w for _, w in pairs])
        for level, quantile in zip(LEVELS, told.quantiles[row]):
            assert shares[values <= quantile * (1 + 1e-9)].sum() >= level - 1e-6
            assert shares[values < quantile * (1 - 1e-9)].sum() <= level + 1e-6
        assert several["median"].points[row] == told.quantiles[row][LEVELS.index(0.5)]
        low, high = told.quantiles[row][LEVELS.index(0.4)], told.quantiles[row][LEVELS.index(0.6)]
        assert low <= told.points[row] <= high
        likely = {p: expected_accuracy(p, values, shares) for p in values}
        most = max(a for p, a in likely.items() if low * (1 - 1e-9) <= p <= high * (1 + 1e-9))
        assert expected_accuracy(told.points[row], values, shares) == pytest.approx(most, abs=1e-6)
        best = expected_accuracy(several["accurate"].points[row], values, shares)
        assert best == pytest.approx(max(likely.values()), abs=1e-6)
    learned = method.memory.theta[0]
    assert learned[:OWN] == pytest.approx([theta[name] for name in NAMES], rel=1e-6, abs=1e-6)
    for f, name in enumerate(FIELDS):
        if method.memory.weight_index[f] >= 0:
            assert learned[OWN + method.memory.weight_index[f]] == pytest.approx(theta[name], rel=1e-6, abs=1e-6)


def expected_accuracy(point, values, shares):
    return (shares * np.minimum(point, values) / np.maximum(point, values)).sum()


def test_the_answer_is_the_run_time_that_comes_back_near_the_middle():
    runs = [100.0, 100.0, 100.0, 2000.0, 2000.0, 2000.0, 3000.0, 900.0]
    answers = {}
    for point in ("between", "median", "accuracy"):
        method = Kernel(point=point, learn=False)
        state = taught(method, *runs)
        answers[point] = method.predict(job(9, at=state.now), state).point
    assert answers["between"] == answers["accuracy"] == 2000.0
    assert answers["median"] == 900.0


def test_the_geometric_mean_is_that_of_the_twins_distribution():
    log = small_log(70, 5)
    expected, _ = kernel_twin(log)
    told = replay(log, {"it": Kernel(point="geometric")})["it"]
    batch = Kernel(point="geometric").predict_trace(log)
    np.testing.assert_array_equal(told.points, batch.points)
    for row, pairs in enumerate(expected):
        if pairs is not None:
            mean = np.exp(sum(w * np.log(max(v, 1.0)) for v, w in pairs) / sum(w for _, w in pairs))
            assert told.points[row] == pytest.approx(max(min(mean, log.req_time[row]), 1.0), rel=1e-6)


@pytest.mark.parametrize("name", odd_logs())
@pytest.mark.parametrize("protocol", ["honest", "paper", "starts_first"])
def test_one_pass_over_a_log_says_what_one_by_one_says(name, protocol):
    log = odd_logs()[name]
    one, batch = replay(log, {"it": Kernel()}, protocol=protocol)["it"], Kernel().predict_trace(log, protocol)
    np.testing.assert_array_equal(one.points, batch.points)
    if one.levels:
        np.testing.assert_array_equal(one.quantiles, batch.quantiles)
    assert list(one.basis) == list(batch.basis)


def test_a_short_memory_forgets_alike_on_both_paths():
    log = small_log(160)
    one, batch = replay(log, {"it": Kernel(memory=20)})["it"], Kernel(memory=20).predict_trace(log)
    np.testing.assert_array_equal(one.quantiles, batch.quantiles)
    assert (one.points != Kernel().predict_trace(log).points).any()


def job(row, user="ada", limit=3600.0, procs=4.0, at=0.0, **more):
    return JobRequest(row, row, at, procs, limit, NAN, user_id=user, **more)


def taught(method, *runs, user="ada", limit=3600.0, **more):
    state = SystemState()
    for k, run in enumerate(runs):
        method.observe(End(1000.0 * k + run, job(-1 - k, user, limit, at=1000.0 * k, **more), run, 0.0), state)
    state.now = 1000.0 * len(runs)
    return state


def test_who_never_ran_gets_the_answer_of_others_with_the_same_limit():
    method = Kernel()
    state = taught(method, 100.0, 110.0, 120.0)
    answer = method.predict(job(9, user="eve"), state)
    assert 100.0 <= answer.point <= 120.0
    assert "other users with this limit" in answer.basis


def test_half_the_limit_halves_what_is_expected_once_that_was_learned():
    log = Trace.from_arrays(
        {
            "submit_time": np.arange(400) * 5000.0,
            "wait_time": np.zeros(400),
            "run_time": np.where(np.arange(400) % 2, 1000.0, 500.0) * np.tile([1.0, 1.0, 1.5, 1.5], 100),
            "req_time": np.where(np.arange(400) % 2, 4000.0, 2000.0) * np.tile([1.0, 1.0, 1.5, 1.5], 100),
            "req_procs": np.ones(400),
            "user_id": ["ada"] * 400,
        }
    )
    method = Kernel()
    replay(log, {"it": method})
    assert method.predict(job(999, limit=8000.0, procs=1.0, at=3e6), SystemState()).point == pytest.approx(2000.0)


def test_running_jobs_that_outlive_the_usual_move_the_forecast_up():
    quiet, busy = Kernel(), Kernel()
    for method in (quiet, busy):
        state = taught(method, *[60.0, 3000.0, 60.0] * 4)
        if method is busy:
            for row in range(20):
                method.observe(Submit(state.now, job(row, at=state.now)), state)
                method.observe(Start(state.now, job(row, at=state.now), 0.0), state)
        state.now += 1000.0
    assert quiet.predict(job(50, at=state.now), state).point == 60.0
    assert busy.predict(job(50, at=state.now), state).point == 3000.0


def test_a_job_that_outlived_the_usual_is_planned_with_what_is_left():
    method = Kernel()
    state = taught(method, *[60.0, 3000.0, 60.0] * 4)
    assert method.revise(job(50), 100.0, state) == 3000.0
    assert method.revise(job(50), 3500.0, state) == 3600.0
    assert method.revise(job(50, limit=NAN), 3500.0, state) == 7000.0


def test_jobs_that_leave_in_any_way_leave_no_trace_among_the_running():
    method, state = Kernel(), SystemState()
    for row in range(200):
        method.observe(Submit(float(row), job(row, at=float(row))), state)
        if row % 3:
            method.observe(Start(float(row), job(row), 0.0), state)
        if row % 3 == 1:
            method.observe(Requeue(float(row), job(row)), state)
        method.observe(Withdraw(row + 0.5, job(row), 0.5), state)
    assert not method.slots
    assert (method.memory.running == -1).all()
    assert len(method.free) == len(method.memory.unfinished) - 1


def test_the_distribution_answers_chances_and_what_is_left_of_a_job_that_runs():
    method = Kernel()
    state = taught(method, *[60.0] * 9, 3000.0)
    runs = method.distribution(job(50), state)
    assert 0.0 < runs.chance(60.0) < 0.5
    assert runs.given(60.0).quantile(0.5) == 3000.0
    assert np.isnan(runs.given(3000.0).chance(1.0))
    assert isinstance(runs, RunTimes)


def test_a_name_seen_before_counts_for_more_than_another():
    method, state = Kernel(), SystemState()
    asked = {"mesh_01": 50.0, "wing_01": 900.0}
    for row in range(200):
        name, run = list(asked.items())[row // 3 % 2]
        known = job(row, at=1e4 * row, job_name=name)
        method.observe(Submit(1e4 * row, known), state)
        method.observe(End(1e4 * row + run, known, run, 0.0), state)
    state.now = 1e4 * 200
    for name, run in {"mesh_02": 50.0, "wing_07": 900.0}.items():
        assert method.predict(job(999, job_name=name, at=state.now), state).point == run


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="memory"):
        Kernel(memory=0)


@pytest.mark.parametrize("name", odd_logs())
def test_a_log_read_by_columns_has_the_codes_of_jobs_read_one_by_one(name):
    log, coder = odd_logs()[name], Coder()
    whole = coded(log.at_submission("req"), len(log))
    single = np.array([coder.row(job) for job in log.requests("req")], np.int64).reshape(len(log), -1)
    np.testing.assert_array_equal(whole.codes[:, 1 + CLASSES :], single[:, 1 + CLASSES :])
    for column in range(1 + CLASSES):
        pairs = set(zip(whole.codes[:, column].tolist(), single[:, column].tolist()))
        assert len(pairs) == len(set(single[:, column].tolist())) == len(set(whole.codes[:, column].tolist()))


@pytest.mark.parametrize("others", [50, 700])
@pytest.mark.parametrize("method", [Kernel, Calibrated])
def test_seven_hundred_short_jobs_leave_next_to_nothing_beyond_eight_hours(method, others):
    method, state, day = method(), SystemState(), 86400.0
    told = [(600.0 * k, "ada", 5.0) for k in range(700)]
    told += [(600.0 * k + 300.0, f"other{k % 7}", (5 + 7 * (k % 3)) * 3600.0) for k in range(others)]
    lives = []
    for row, (at, user, run) in enumerate(told):
        known = job(row, user, day, at=at)
        lives += [
            (at, 1, Submit(at, known)),
            (at, 2, Start(at, known, 0.0)),
            (at + run, 0, End(at + run, known, run, 0.0)),
        ]
    for at, _, event in sorted(lives, key=lambda life: life[:2]):
        if at < 700 * 600.0:
            state.now = at
            method.observe(event, state)
    asked = job(9999, "ada", day, at=state.now)
    assert method.distribution(asked, state).chance(8 * 3600.0) < 0.005
    answer = method.predict(asked, state)
    assert dict(zip(answer.levels, answer.quantiles))[0.995] < 8 * 3600.0
