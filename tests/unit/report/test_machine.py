"""The machine over time and the Gantt excerpt: what they show, and that a big log draws no more than a small one."""

from __future__ import annotations

import json

import numpy as np
import pytest

from batchcast.evaluation.evaluation import Evaluation, evaluate
from batchcast.report.blocks import Figure
from batchcast.report.choose import choices, slots_of
from batchcast.report.evaluation import sections
from batchcast.report.gantt import MOST_BARS, MOST_SCHEDULES, Jobs, gantt, window
from batchcast.report.html import page
from batchcast.report.machine import machine_blocks
from batchcast.report.minus import CURVES
from batchcast.table import LogInfo, Trace

MOST_BYTES = 1_500_000


def trace(jobs: int, days: float, procs: int = 64, seed: int = 3) -> Trace:
    rng = np.random.default_rng(seed)
    run = rng.lognormal(7, 1.5, jobs).round()
    width = rng.integers(1, 9, jobs)
    run *= 0.9 * procs * days * 86400 / (run * width).sum()
    submit = np.sort(rng.uniform(0, days * 86400, jobs)).round()
    columns = {"submit_time": submit, "wait_time": rng.exponential(600, jobs), "run_time": np.ceil(run),
               "req_time": np.ceil(run) * 2, "req_procs": width, "user_id": rng.integers(0, 9, jobs)}  # fmt: skip
    return Trace.from_arrays(columns, LogInfo(max_procs=procs, max_procs_source="header"))


@pytest.fixture(scope="module")
def found() -> Evaluation:
    return evaluate(trace(2000, 90), predictors=["last_2"])


def figures(found: Evaluation) -> list[Figure]:
    return [block for block in machine_blocks(found, slots_of(found)) if isinstance(block, Figure)]


def test_queue_and_utilization_are_shown_per_policy_with_the_record(found: Evaluation) -> None:
    drawn = figures(found)
    assert [figure.policy for figure in drawn] == ["easy", "easy", "easy-sjbf", "easy-sjbf", ""]
    for figure in drawn[:-1]:
        own = [t["name"] for t in figure.data if t["meta"]["variant"] == CURVES]
        assert own == ["recorded", "requested", "last_2", "actual"]
    queue = next(t for t in drawn[0].data if t["name"] == "requested")["y"]
    schedule = found.outcomes[0].schedule
    seconds = np.arange(0, 7 * 86400, 60.0)
    waiting = [((schedule.submit_time <= t) & (schedule.start_time > t)).sum() for t in seconds]
    first = schedule.submit_time[0]
    assert queue[0] == pytest.approx(sum(waiting) * 60 / (7 * 86400 - first), rel=0.02)


def test_the_excerpt_is_where_jobs_pass_others_and_bounded(found: Evaluation) -> None:
    figure = gantt(found)
    assert figure is not None
    assert figure.pick[0] == "EASY planned with requested"
    assert figure.pick[-1] == "as recorded"
    for name in figure.pick:
        bars = sum(len(t["x"]) for t in figure.data if t["meta"]["variant"] == name)
        assert 0 < bars <= MOST_BARS
    s = found.outcomes[0].schedule
    low, high = window(Jobs(s.job_id, s.submit_time, s.start_time, s.end_time, s.procs, s.backfilled), s.total)
    passed = s.backfilled & (s.wait_time >= 1)
    inside = np.maximum(np.minimum(s.end_time, high) - np.maximum(s.start_time, low), 0)
    share = (inside * s.procs * passed).sum() / (high - low)
    everywhere = (s.run_time * s.procs * passed).sum() / (s.end_time.max() - s.submit_time[0])
    assert share > 2 * everywhere


def test_what_the_record_holds_beyond_the_machine_is_drawn_and_said() -> None:
    log = Trace.from_arrays(
        {"submit_time": [0, 0], "run_time": [9, 9], "req_time": [9, 9], "req_procs": [2, 2], "wait_time": [0, 0]},
        LogInfo(max_procs=2),
    )
    figure = gantt(evaluate(log, predictors=["requested"]))
    assert figure is not None
    assert figure.layout["yaxis"]["range"] == [0, 4]
    assert "up to 4 processors in use at once, more than the 2 of the machine" in figure.caption


def test_more_bars_than_fit_are_counted_in_the_caption() -> None:
    crowded = trace(4000, 0.08, procs=64)
    figure = gantt(evaluate(crowded, predictors=["requested"], policies=["easy"]))
    assert figure is not None
    assert "smallest bars" in figure.caption
    assert (
        max(sum(len(t["x"]) for t in figure.data if t["meta"]["variant"] == name) for name in figure.pick) == MOST_BARS
    )


def test_many_schedules_are_not_all_offered() -> None:
    policies = ["fcfs", "easy", "easy-sjbf", "conservative"]
    figure = gantt(evaluate(trace(300, 20), predictors=["last_2", "recent_mean"], policies=policies))
    assert figure is not None
    assert len(figure.pick) == MOST_SCHEDULES + 1
    assert "6 more schedules" in figure.caption


@pytest.mark.long
def test_a_page_stays_within_its_bound_however_many_jobs_there_are() -> None:
    big = evaluate(trace(60_000, 3 * 365), predictors=["requested"])
    html = page("big", sections(big, {}), {})
    assert len(html.encode()) < MOST_BYTES


def test_a_log_of_an_hour_has_no_empty_pictures_over_time() -> None:
    log = Trace.from_arrays(
        {"submit_time": [0, 60, 90], "run_time": [600, 300, 120], "req_time": [900, 900, 900], "req_procs": [3, 2, 1],
         "wait_time": [0, 540, 10]}, LogInfo(max_procs=4)
    )  # fmt: skip
    drawn = figures(evaluate(log))
    assert [figure.title.partition(":")[0] for figure in drawn] == ["A Gantt excerpt"]
    assert sum(len(t["x"]) for t in drawn[0].data if t["meta"]["variant"] == "EASY planned with last_2") == 3


def test_every_predictor_has_a_colour_of_its_own() -> None:
    found = evaluate(trace(60, 3), predictors=["recent_mean", "last_2", "last_2:need=2"])
    slots = slots_of(found)
    assert len(set(slots.values())) == len(slots) == 6
    assert json.loads(json.dumps(choices(found).predictors))["actual"] == "actual (oracle)"
