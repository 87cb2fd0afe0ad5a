"""Tests peak memory through run-time methods: amounts instead of seconds, unknown before the end, and more for jobs out
of memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.memory import cheapest, expected, known_peaks, memory_log, namesakes
from tests.naive.memory import share_for_new as share_of_new
from tests.naive.memory import spent as slow_spent

from batchcast.errors import NoAnswer
from batchcast.evaluation.accuracy import figures, measured, memory_target, of_memory, score
from batchcast.evaluation.limits import find_memory_limits, limit_rows
from batchcast.events.event import End, Start, Submit
from batchcast.events.recorded import replay
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.namesakes import HISTORY, Namesakes, cheapest_at_risk, requests_over_log, share_for_new
from batchcast.predict.peak_memory import PeakMemory, least_waste
from batchcast.predict.protocol import Grounds
from batchcast.predict.recommend import rounded_request, spent
from batchcast.predict.registry import make
from batchcast.predict.runtime.baselines import Last2
from batchcast.predict.runtime.kernel import Kernel
from batchcast.table import Trace

MIB = 1024.0


def honest(log: Trace) -> Trace:
    """The same log, with no job out of memory."""
    return log.with_columns({"status": Trace.from_arrays({"status": ["completed"] * len(log)}).nominal("status")})


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 60), st.integers(0, 99))
def test_last_2_of_memory_is_the_mean_of_the_last_two_ended_and_measured(jobs, seed) -> None:
    log = honest(memory_log(jobs, seed))
    used = log.number("used_mem_kib").copy()
    used[::7] = 0.0
    log = log.with_columns({"used_mem_kib": used})
    points = replay(log, {"it": of_memory(Last2(), measured(log))})["it"].points
    for row in range(jobs):
        if known := known_peaks(log, row):
            assert points[row] == pytest.approx(np.mean(known[-2:]))


@settings(max_examples=10, deadline=None)
@given(st.integers(11, 60), st.integers(0, 99))
def test_largest_recent_is_the_largest_of_the_last_ten_and_a_quarter(jobs, seed) -> None:
    log = honest(memory_log(jobs, seed))
    asked = log.number("req_mem_kib") / 4 / MIB
    points = replay(log, {"it": of_memory(make("runtime", "largest_recent"), measured(log))})["it"].points
    for row in range(jobs):
        if known := known_peaks(log, row):
            assert points[row] <= 1.25 * max(known[-10:]) * (1 + 1e-12)
            assert points[row] == pytest.approx(1.25 * max(known[-10:])) or points[row] >= asked[row]


@pytest.mark.parametrize("name", ["kernel", "last_2", "recent_mean", "largest_recent", "calibrated", "requested"])
def test_a_forecast_sees_no_future(name) -> None:
    log = memory_log(150, 3)
    ends = log.submit_time + log.wait_time + log.run_time
    before = replay(log, {"it": of_memory(make("runtime", name), measured(log))})["it"]
    for cut in (40, 90):
        later = ends > log.submit_time[cut]
        poisoned = log.with_columns(
            {"used_mem_kib": np.where(later, 1e9 + np.arange(150.0), log.number("used_mem_kib"))}
        )
        after = replay(poisoned, {"it": of_memory(make("runtime", name), measured(poisoned))})["it"]
        assert np.array_equal(before.points[: cut + 1], after.points[: cut + 1])
        assert np.array_equal(before.quantiles[: cut + 1], after.quantiles[: cut + 1], equal_nan=True)


def test_the_use_of_a_job_is_asked_for_at_its_end_and_not_before() -> None:
    asked = []
    method = PeakMemory(Kernel(), lambda job: 4 * MIB, lambda end: asked.append(end.job.row) or 2 * MIB)
    job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, 4 * MIB, user_id="ada"), SystemState()
    method.predict(job, state)
    method.observe(Submit(0.0, job), state)
    method.observe(Start(1.0, job, 1.0), state)
    assert asked == []
    method.observe(End(9.0, job, 8.0, 1.0, "completed"), state)
    assert asked == [0]
    assert method.predict(job._replace(row=1), state).point == 2.0


def told(status: str, used: float, of: object = None) -> PeakMemory:
    """Return a method after ten jobs that requested 4 MiB: nine used 1, 2, 3 MiB in turn, the last as given."""
    amounts = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0, 8.0, used]
    method = PeakMemory(of or Kernel(), lambda job: 4 * MIB, lambda end: amounts[end.job.row] * MIB)
    state = SystemState()
    for row in range(10):
        job = JobRequest(row, row, 10.0 * row, 1.0, 600.0, 4 * MIB, user_id="ada")
        state.now = 10.0 * row
        method.observe(Submit(state.now, job), state)
        method.observe(End(state.now + 5.0, job, 5.0, 0.0, status if row == 9 else "completed"), state)
    return method


def ask(method: PeakMemory) -> float:
    state = SystemState()
    state.now = 200.0
    return method.predict(JobRequest(99, 99, 200.0, 1.0, 600.0, 4 * MIB, user_id="ada"), state).quantiles[-1]


def test_a_job_that_ran_out_teaches_that_it_needed_more_than_it_got() -> None:
    weights = [
        told(status, 3.9).distribution(JobRequest(99, 99, 200.0, 1.0, 600.0, 4 * MIB, user_id="ada"), SystemState())
        for status in ("completed", "out_of_memory")
    ]
    assert weights[1].chance(4.0) > weights[0].chance(4.0)
    assert ask(told("out_of_memory", 3.9)) >= 8.0


def test_a_job_that_nobody_measured_teaches_nothing() -> None:
    nobody = told("completed", math.nan)
    assert nobody.inner.memory.numbers[0] == 9
    assert told("completed", 3.0).inner.memory.numbers[0] == 10


def test_without_history_the_request_is_the_answer_and_without_one_the_largest_peak() -> None:
    state = SystemState()
    job = JobRequest(0, 1, 0.0, 1.0, 600.0, 4 * MIB, user_id="ada")
    method = PeakMemory(Last2(), lambda job: job.req_mem_kib, lambda end: 7 * MIB)
    assert (method.predict(job, state).point, method.predict(job, state).grounds) == (4.0, Grounds.LIMIT)
    method.observe(End(5.0, job, 5.0, 0.0), state)
    other = job._replace(user_id="bob", req_mem_kib=math.nan)
    assert (method.predict(other, state).point, method.predict(other, state).grounds) == (7.0, Grounds.NO_HISTORY)


def test_no_answer_is_above_the_node() -> None:
    log = memory_log(80, 1)
    answers = replay(log, {"it": of_memory(Kernel(), measured(log), most=200.0)})["it"]
    assert np.nanmax(answers.points) <= 200.0
    assert np.nanmax(answers.quantiles) <= 200.0
    assert np.nanmax(replay(log, {"it": of_memory(Kernel(), measured(log))})["it"].quantiles) > 200.0


def test_jobs_that_ran_out_or_were_not_measured_are_not_scored() -> None:
    log = memory_log(120, 2)
    out = np.array(log.nominal("status").decode()) == "out_of_memory"
    assert out.any()
    scores = score(log, ["kernel", "recent_mean"], target="memory")
    assert scores.per == "processor"
    assert scores.scored.sum() == (~out).sum()
    rows = {row["predictor"]: row for row in figures(scores)}
    assert {"mae_mib", "median_ae_mib", "coverage_90"} <= set(rows["kernel"])
    assert "mae_s" not in rows["kernel"]
    assert rows["kernel"]["differences"]["mae_mib"].value == pytest.approx(
        rows["kernel"]["mae_mib"] - rows["recent_mean"]["mae_mib"]
    )


def test_a_copy_of_the_request_is_refused_with_the_reason() -> None:
    log = memory_log(60, 4)
    with pytest.raises(NoAnswer, match=r"equals the request in 100\.0%"):
        memory_target(log.with_columns({"used_mem_kib": log.number("req_mem_kib")}))
    with pytest.raises(NoAnswer, match="60 have a use of 0"):
        memory_target(log.with_columns({"used_mem_kib": np.zeros(60)}))


AMOUNTS = st.floats(1.0, 1e6)


@given(AMOUNTS, AMOUNTS, st.one_of(st.just(math.nan), AMOUNTS))
def test_all_attempts_cost_what_the_slow_way_says(request_, peak, again) -> None:
    assert spent(request_, peak, again) == pytest.approx(slow_spent(request_, peak, again))


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=9), st.one_of(st.just(math.nan), AMOUNTS))
def test_the_request_of_least_waste_costs_no_more_than_any_other_bound(amounts, again) -> None:
    bounds = sorted(map(float, amounts))
    levels = [(k + 1) / (len(bounds) + 1) for k in range(len(bounds))]
    chosen = least_waste(levels, bounds, again)
    assert chosen in bounds
    cheapest = min(expected(bound, levels, bounds, again) for bound in bounds)
    assert expected(chosen, levels, bounds, again) == pytest.approx(cheapest)


@given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
def test_a_rounded_request_keeps_floor_and_node(amount, floor, step, most) -> None:
    given_ = rounded_request(amount, floor, step, most)
    assert given_ == most or max(amount, floor) * (1 - 1e-8) <= given_ <= max(amount, floor) + step * (1 + 1e-8)
    assert given_ <= most


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 1e4)), min_size=1, max_size=25),
    st.one_of(st.just(math.nan), st.floats(0.01, 1e7)),
    st.sampled_from([0.01, 0.05, 0.3, 1.0]),
)
def test_the_cheapest_request_at_a_risk_costs_what_the_slow_ways_costs(tasks, asked, risk) -> None:
    peaks, lengths = np.array(tasks).T
    found = cheapest_at_risk(peaks, lengths, asked, risk)
    assert found == pytest.approx(cheapest(peaks.tolist(), lengths.tolist(), asked, risk), rel=1e-6)
    assert not (asked == asked and found > max(peaks.max(), asked) * (1 + 1e-12))


def test_what_tasks_of_the_same_name_held_decides_where_three_have_ended() -> None:
    log = honest(memory_log(200, 3, per_node=True))
    limits = find_memory_limits(log, risk=0.05, floor=1.0, step=1.0)
    own, peak = log.number("req_mem_kib") / MIB, log.number("used_mem_kib") / MIB
    decided = 0
    for row in range(len(log)):
        ended = sorted(namesakes(log, row), key=lambda k: log.submit_time[k] + log.wait_time[k] + log.run_time[k])
        last = ended[-HISTORY:]
        expected_ = cheapest_at_risk(peak[last], log.run_time[last], own[row], 0.05) if len(last) > 2 else own[row]
        assert limits.limits["advice"][row] == math.ceil(expected_ - 1e-9)
        decided += len(last) > 2
    assert decided > 50


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([0.01, 0.1, 0.3, 0.7, 0.95, 1.0, 2.0]), max_size=60), st.sampled_from([0.01, 0.05, 1.0])
)
def test_the_share_for_a_new_kind_costs_what_the_slow_way_s_costs(shares, risk) -> None:
    found, slow = share_for_new(shares, risk), share_of_new(shares, risk)
    assert math.isnan(found) == math.isnan(slow)

    def cost(share: float) -> float:
        return share + (1 + sum(one > share for one in shares)) / (1 + len(shares))

    assert math.isnan(found) or cost(found) == pytest.approx(cost(slow))


def test_a_task_of_a_new_name_asks_the_share_that_the_user_s_other_names_held() -> None:
    count = 40
    log = Trace.from_arrays({
        "submit_time": np.arange(count) * 1000.0, "wait_time": np.zeros(count), "run_time": np.full(count, 500.0),
        "req_procs": np.ones(count), "user_id": ["ada"] * count,
        "job_name": [f"step{k if k < 20 else k // 2}" for k in range(count)],
    })  # fmt: skip
    asked = np.linspace(100.0, 200.0, count)
    held = asked * np.random.default_rng(3).uniform(0.05, 0.6, count)
    every = np.ones(count, bool)
    found = requests_over_log(log, Namesakes("memory", written=True), held, asked, [0.05], every)[0]
    names = log.nominal("job_name").decode()
    for row in range(count):
        others = {name: max(held[k] / asked[k] for k in range(row) if names[k] == name) for name in names[:row]}
        others.pop(names[row], None)
        own = [held[k] for k in range(row) if names[k] == names[row]]
        share = share_of_new(list(others.values()), 0.05)
        if len(own) < 3:
            expected_ = max(share * asked[row], *own) if own else share * asked[row]
            assert found[row] == pytest.approx(expected_ if share == share else math.nan, nan_ok=True)
    assert np.isnan(found[:9]).all()
    assert (found[9:20] < asked[9:20]).all()
    live = requests_over_log(log, Namesakes("memory"), held, asked, [0.05], every)[0]
    assert np.isnan(live[:20]).all(), "an advised request is not taken for a written one"


def test_advice_keeps_its_risk_where_habits_are_steady_and_costs_less_than_the_users() -> None:
    limits = find_memory_limits(memory_log(1500, 5, per_node=True), risk=0.05, floor=1.0, step=1.0)
    rows = {row["limits"]: row for row in limit_rows(limits)}
    assert limits.use.per == "node"
    assert rows["advice"]["killed_per_thousand"] < 80
    assert rows["own"]["killed_per_thousand"] > rows["advice"]["killed_per_thousand"]
    assert rows["least_waste"]["spent_over_used"] < rows["own"]["spent_over_used"]
    assert rows["least_waste"]["saved_gib_h"] > 0
    assert rows["own"]["saved_gib_h"] == 0


def test_a_synthetic_log_with_memory_is_the_same_log_and_asks_by_habit(tmp_path) -> None:
    from batchcast.trace.synth import CHOICES, Recipe, make_log, with_memory

    plain = make_log(np.random.default_rng(7), Recipe(jobs=2000, waits="none"))
    made, again = (with_memory(np.random.default_rng([7, 1]), plain) for _ in range(2))
    assert np.array_equal(made.run_time, plain.run_time, equal_nan=True)
    assert np.array_equal(made.number("used_mem_kib"), again.number("used_mem_kib"), equal_nan=True)
    use = measured(made)
    assert (use.per, use.is_measured) == ("processor", True)
    assert set(use.requested_kib.tolist()) <= set(CHOICES.tolist())
    assert 0.01 < use.ended.mean() < 0.3
    assert (use.used_kib[use.ended] == use.requested_kib[use.ended]).all()
