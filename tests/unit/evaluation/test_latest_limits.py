"""Tests the page's suggested limits: for the latest jobs, among the scored jobs, and only if there are enough."""

from typing import Any

import numpy as np
import pytest

from batchcast.evaluation.evaluation import evaluate
from batchcast.evaluation.limits import LEAST_SCORED, find_limits, latest_limits, limit_rows
from batchcast.predict.runtime.kernel import Kernel
from batchcast.report.limits import limit_blocks
from batchcast.table import Trace


def steady(jobs: int) -> Trace:
    """Jobs that run ten to twenty minutes and request ten hours."""
    k = np.arange(jobs)
    return Trace.from_arrays(
        {
            "submit_time": 3000.0 * k,
            "wait_time": np.zeros(jobs),
            "run_time": 600.0 + 60.0 * (7 * k % 10),
            "req_time": np.full(jobs, 36_000.0),
            "req_procs": np.full(jobs, 4.0),
            "user_id": k % 3,
        }
    )


def test_the_page_says_which_limits_to_advise_and_what_they_save():
    found = evaluate(steady(500), predictor=["recent_mean"], policy=["easy"])
    words, table, folded = limit_blocks(found)
    real, *rest = folded.blocks
    assert "20 min instead of 10 h" in words
    assert "core-hours less" in words
    assert [row["limits"] for row in table.rows] == ["advice", "1.25 x longest of 10", "users' limits"]
    assert real.rows[0]["mean_unused_core_h_words"].startswith(("ahead", "-"))
    assert "Advice against 1.25 x longest of 10" in rest[-1]
    assert {row["limits"] for row in found.results() if row["part"] == "limits"} == {"advice", "rule_of_thumb", "own"}


def test_few_jobs_give_no_advice():
    found = evaluate(steady(LEAST_SCORED - 1), predictor=["recent_mean"], policy=["easy"])
    assert found.limits is None
    assert limit_blocks(found) == []


def test_only_the_latest_and_the_scored_jobs_count():
    log = steady(600)
    mask = np.arange(600) >= 250
    found = latest_limits(log, mask, most=400)
    assert found is not None
    assert [row["jobs"] for row in limit_rows(found)] == [350] * 3
    np.testing.assert_array_equal(found.limits["advice"], find_limits(log.take(np.arange(200, 600))).limits["advice"])


def test_an_evaluation_predicts_the_log_once_for_scores_and_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []
    predict_trace = Kernel.predict_trace

    def counted(method: Kernel, *arguments: Any) -> Any:
        passes.append(arguments)
        return predict_trace(method, *arguments)

    log = steady(500)
    mask = np.arange(500) >= 150
    alone = latest_limits(log, mask)
    monkeypatch.setattr(Kernel, "predict_trace", counted)
    found = evaluate(log, predictor="kernel", policy="easy", scheduler="policy", mask=mask)
    assert len(passes) == 1
    assert alone is not None
    assert found.limits is not None
    for rule, limits in alone.limits.items():
        np.testing.assert_array_equal(found.limits.limits[rule], limits)
