"""Tests that advised columns exist in the log, are chosen on its earlier part, and help on the later part."""

from __future__ import annotations

import numpy as np

from batchcast.evaluation.evaluation import evaluate
from batchcast.report.evaluation.page import advised_columns
from batchcast.table import LogInfo, Trace


def log(jobs: int = 4000, *, until: float = 1.0, seed: int = 3, **columns: object) -> Trace:
    """Jobs whose run times depend on the account in the first `until` seconds of the log, and are random after it."""
    rng = np.random.default_rng(seed)
    account = rng.integers(0, 12, jobs)
    own = np.where(np.arange(jobs) < until * jobs, account, rng.integers(0, 12, jobs))
    return Trace.from_arrays(
        {
            "submit_time": np.sort(rng.uniform(0, 120 * 86400.0, jobs)),
            "wait_time": np.zeros(jobs),
            "run_time": 300.0 * (1 + own) + rng.uniform(0, 60, jobs),
            "req_time": np.full(jobs, 7200.0),
            "req_procs": rng.integers(1, 3, jobs),
            "account": [f"a{k}" for k in account],
            **columns,
        },
        LogInfo(max_procs=64.0),
    )


def words(trace: Trace, **options: object) -> str:
    return advised_columns(evaluate(trace, policy=["easy"], **options))


def test_a_log_without_users_but_with_accounts_is_told_what_helps() -> None:
    said = words(log(), predictor=["last_2", "recent_mean"])
    assert "A better prediction uses account, which the log contains: recent_mean:fields=account" in said
    assert "Try --predictor recent_mean:fields=account" in said


def test_the_advice_is_true_of_the_forecast_it_names() -> None:
    found = evaluate(log(), policy=["easy"])
    advice = found.advice
    assert advice is not None
    again = evaluate(log(), predictor=[advice.predictor], policy=["easy"])
    run, points = found.trace.run_time, again.scores.points[advice.predictor]
    assert np.abs(points - run)[advice.since :].mean() == advice.mae_s
    assert advice.difference.high < 0
    assert [row["predictor"] for row in found.results() if row["part"] == "advice"] == [advice.predictor]


def test_what_helped_once_and_no_longer_does_is_no_advice() -> None:
    """In the earlier half the account determines the run time, in the later half it does not, so it must not be
    advised."""
    users = np.random.default_rng(9).integers(0, 30, 4000)
    assert evaluate(log(user_id=users), policy=["easy"]).advice is not None
    assert evaluate(log(until=0.5, user_id=users), policy=["easy"]).advice is None


def test_the_choice_sees_nothing_of_the_jobs_scored() -> None:
    """Columns are chosen before a scored window, so changing the window's run times changes no choice."""
    trace = log(user_id=np.random.default_rng(9).integers(0, 30, 4000))
    mask = np.arange(4000) >= 3000
    advice = evaluate(trace, mask=mask, policy=["easy"]).advice
    assert advice is not None
    assert advice.since == 3000
    poisoned = trace.with_columns({"run_time": np.where(mask, 0.9 * trace.run_time + 77.0, trace.run_time)})
    again = evaluate(poisoned, mask=mask, policy=["easy"]).advice
    assert again is not None
    assert again.predictor == advice.predictor


def test_columns_that_tell_nothing_are_not_advised() -> None:
    rng = np.random.default_rng(5)
    noise = [f"q{k}" for k in rng.integers(0, 5, 4000)]
    advice = evaluate(log(queue_id=noise, user_id=rng.integers(0, 30, 4000)), policy=["easy"]).advice
    assert advice is not None
    assert "queue_id" not in advice.predictor


def test_a_laxer_protocol_is_no_ground_for_advice() -> None:
    assert evaluate(log(), policy=["easy"], protocol="paper").advice is None
