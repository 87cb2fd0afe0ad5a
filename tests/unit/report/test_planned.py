"""Tests tables and pictures of the choice of a planning quantile, and of the coverage of bounds."""

import numpy as np

from batchcast.evaluation.accuracy import figures, score
from batchcast.evaluation.limits import find_limits
from batchcast.report.accuracy import bound_figures, planned_figure, planned_table
from batchcast.table import Trace


def log(n: int = 3000) -> Trace:
    rng = np.random.default_rng(3)
    run = np.ceil(rng.lognormal(6.0, 1.0, n))
    return Trace.from_arrays(
        {
            "submit_time": 400.0 * np.arange(n),
            "wait_time": np.zeros(n),
            "run_time": run,
            "req_time": np.full(n, run.max() + 600.0),
            "req_procs": np.ones(n),
            "user_id": [f"u{k % 5}" for k in range(n)],
        }
    )


def test_a_higher_quantile_buys_fewer_underestimates_in_the_table_the_rows_and_the_picture():
    scores = score(log(), ["recent_mean", "kernel"])
    rows = planned_table(scores.rows)[0].rows
    shares = [row["underestimate_rate"] for row in rows]
    assert [row["level"] for row in rows] == ["30 %", "40 %", "50 %", "60 %", "70 %", "80 %", "90 %", "95 %"]
    assert shares == sorted(shares, reverse=True)
    assert abs(shares[2] - 0.5) < 0.05
    flat = {row["predictor"]: row for row in figures(scores)}
    assert flat["kernel"]["mae_s_at_50"] == rows[2]["mae_s"]
    assert "mae_s_at_50" not in flat["recent_mean"]
    figure = planned_figure(scores.rows, figures(scores), {})[0]
    curve, *points = figure.data
    assert curve["name"] == "kernel, its quantiles"
    assert len(curve["x"]) == len(rows)
    assert {point["name"] for point in points} == set(flat)
    assert all(abs(point["y"][0] - flat[point["name"]]["mae_s"]) < 0.01 for point in points)


def test_methods_without_quantiles_have_nothing_to_choose():
    scores = score(log(50), ["requested"])
    assert planned_table(scores.rows) == planned_figure(scores.rows, figures(scores), {}) == []


def test_the_picture_of_bounds_stands_at_what_they_promise():
    [held] = bound_figures(find_limits(log()))
    assert [line["name"] for line in held.data] == ["80 %", "90 %", "95 %"]
    for line, promised in zip(held.data, (0.8, 0.9, 0.95)):
        assert np.abs(np.array(line["y"]) - promised).max() < 0.06


def test_too_few_jobs_draw_no_windows():
    assert bound_figures(find_limits(log(300))) == []
