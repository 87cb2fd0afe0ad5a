"""Tests that an evaluation scores wait predictions on the latest jobs, and says so if it cannot."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from batchcast.evaluation import wait
from batchcast.evaluation.evaluation import evaluate
from batchcast.evaluation.wait import LEAST_JUDGED, judge_waits
from batchcast.report.evaluation.first_screen import first_screen
from batchcast.table import LogInfo, Trace


def log(jobs: int = 700, wait: float = 900.0) -> Trace:
    rng = np.random.default_rng(2)
    run = np.ceil(rng.lognormal(6, 1, jobs))
    return Trace.from_arrays(
        {
            "submit_time": np.sort(rng.uniform(0, 6e5, jobs)).round(), "wait_time": np.full(jobs, wait),
            "run_time": run, "req_time": 4 * run, "req_procs": rng.integers(1, 9, jobs),
            "user_id": rng.integers(0, 9, jobs),
        },
        LogInfo(max_procs=64, max_procs_source="header"),
    )  # fmt: skip


@pytest.mark.lightgbm
def test_constant_waits_are_covered_and_the_figures_reach_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "JUDGED", 200)
    monkeypatch.setattr(wait, "HISTORY", 300)
    found = evaluate(log(), predictor=["last_2"], policy=["easy"], waits=True)
    assert found.waits is not None
    assert (found.waits.jobs, found.waits.history) == (200, 300)
    assert found.waits.coverage > 0.7
    assert found.waits.simplest_median_error_s < 60
    assert [row["coverage_90"] for row in found.results() if row["part"] == "wait"] == [found.waits.coverage]
    screen = first_screen(found)
    assert "of the latest 200 jobs started by their 90 % time" in screen.tiles[2].note
    assert "It waited 15 min" in screen.example


@pytest.mark.lightgbm
def test_too_few_waits_are_not_judged_and_the_tile_says_why() -> None:
    few = log(2 * LEAST_JUDGED - 2)
    assert "fewer than 100" in str(judge_waits(few, np.ones(len(few), bool)))
    found = evaluate(few, predictor=["last_2"], policy=["easy"], waits=True)
    assert first_screen(found).tiles[2].value == "not measured"
    assert "fewer than 100 scored jobs" in first_screen(found).tiles[2].note


@pytest.mark.lightgbm
def test_a_single_array_at_the_end_of_a_log_does_not_judge_the_waits() -> None:
    """Otherwise one array whose tasks all wait long would decide the coverage."""
    whole = log()
    submit, user = whole.submit_time.copy(), np.asarray(whole.nominal("user_id").decode(), int)
    submit[-360:], user[-360:] = np.ceil(submit[-1]), 3
    burst = Trace.from_arrays(
        {"submit_time": submit, "wait_time": whole.wait_time, "run_time": whole.run_time, "user_id": user}
    )
    found = judge_waits(burst, np.ones(len(burst), bool))
    assert found == "the latest 350 jobs came in fewer than 50 separate submissions"


def test_without_lightgbm_the_tile_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)  # importing the package then raises ImportError
    found = evaluate(log(), predictor=["last_2"], policy=["easy"], waits=True)
    assert found.waits is None
    assert "pip install 'batchcast[learn]'" in first_screen(found).tiles[2].note
