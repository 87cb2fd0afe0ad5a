"""Tests the machine over time and the Gantt excerpt, and that a large log draws no more elements than a small one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.evaluation.evaluation import Evaluation, evaluate
from batchcast.metrics.curves import POINTS
from batchcast.report.blocks import Figure, Section, page
from batchcast.report.difference import CURVES
from batchcast.report.evaluation.gains import choices, slots_of
from batchcast.report.evaluation.machine import (
    MOST_BARS,
    MOST_SCHEDULES,
    Jobs,
    gantt,
    machine_blocks,
    owners,
    waiting,
    window,
)
from batchcast.report.evaluation.page import sections
from batchcast.simulation.schedule import Schedule
from batchcast.table import LogInfo, Nominal, Trace

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
    return evaluate(trace(2000, 90), predictor=["last_2"])


def figures(found: Evaluation) -> list[Figure]:
    return [block for block in machine_blocks(found, slots_of(found)) if isinstance(block, Figure)]


def test_queue_and_utilization_are_shown_per_policy_with_the_record(found: Evaluation) -> None:
    drawn = figures(found)
    assert [figure.policy for figure in drawn] == [*["easy"] * 2, *["easy-sjbf"] * 2, *["forecast"] * 2, ""]
    for figure in drawn[:-1]:
        own = [t["name"] for t in figure.data if t["meta"]["variant"] == CURVES]
        assert own == ["recorded", "users' limits", "last_2", "perfect knowledge"]
    queue = next(t for t in drawn[0].data if t["name"] == "users' limits")["y"]
    schedule = found.outcomes[0].schedule
    seconds = np.arange(0, 7 * 86400, 60.0)
    waiting = [((schedule.submit_time <= t) & (schedule.start_time > t)).sum() for t in seconds]
    first = schedule.submit_time[0]
    assert queue[0] == pytest.approx(sum(waiting) * 60 / (7 * 86400 - first), rel=0.02)


def test_the_excerpt_is_where_jobs_pass_others_and_bounded(found: Evaluation) -> None:
    figure = gantt(found)
    assert figure is not None
    assert figure.pick[0] == "EASY planned with users' limits"
    assert figure.pick[-1] == "as recorded"
    for name in figure.pick:
        bars = sum(len(t["x"]) for t in figure.data if t["meta"]["variant"] == name)
        assert 0 < bars <= MOST_BARS
    s = found.outcomes[0].schedule
    low, high = window(Jobs(s.rows, s.submit_time, s.start_time, s.end_time, s.procs, s.backfilled), s.total)
    passed = s.backfilled & (s.wait_time >= 1)
    inside = np.maximum(np.minimum(s.end_time, high) - np.maximum(s.start_time, low), 0)
    share = (inside * s.procs * passed).sum() / (high - low)
    everywhere = (s.run_time * s.procs * passed).sum() / (s.end_time.max() - s.submit_time[0])
    assert share > 2 * everywhere


def processor_time(schedule: Schedule, low: float, high: float) -> np.ndarray:
    inside = np.minimum(schedule.end_time, high) - np.maximum(schedule.start_time, low)
    return np.maximum(inside, 0) * schedule.procs


def seen(figure: Figure) -> float:
    low, high = figure.layout["xaxis"]["range"]
    return (high - low) / 1000


def test_the_users_colours_hold_all_processor_time_the_largest_first(found: Evaluation) -> None:
    figure = gantt(found)
    assert figure is not None
    how, whose = figure.colourings
    assert [one["name"] for one in how.series] == ["started at once", "waited", "passed a waiting job (backfilled)"]
    assert len(whose.series) == 8
    assert whose.series[-1]["name"] == "others (2 users)"
    assert len({(one["slot"], one["pattern"]) for one in whose.series}) == len({one["pattern"] for one in whose.series})
    bars = figure.data[0]
    time = np.zeros(8)
    for row, base, x, width in zip(bars["row"], bars["base"], bars["x"], bars["width"]):
        time[figure.rows["whose"][row]] += max(min(base + x, seen(figure)) - max(base, 0), 0) * width
    s = found.outcomes[0].schedule
    low, high = window(Jobs(s.rows, s.submit_time, s.start_time, s.end_time, s.procs, s.backfilled), s.total)
    own = processor_time(s, low, high)
    assert time.sum() == pytest.approx(own.sum(), abs=len(bars["x"]))
    users = np.array(found.trace.nominal("user_id").decode())[s.rows]
    for place, one in enumerate(whose.series[:-1]):
        assert time[place] == pytest.approx(own[users == int(one["name"].split()[1])].sum(), abs=len(bars["x"]))
    everywhere = dict.fromkeys(users.tolist(), 0.0)
    for name, bars in ((t["meta"]["variant"], t) for t in figure.data):
        assert name in figure.pick
        for row, base, x, width in zip(bars["row"], bars["base"], bars["x"], bars["width"]):
            user = int(figure.rows["job"][row].rsplit(" ", 1)[1])
            everywhere[user] += max(min(base + x, seen(figure)) - max(base, 0), 0) * width
    ranked = sorted(everywhere, key=lambda user: -everywhere[user])
    assert [one["name"] for one in whose.series[:-1]] == [f"user {user}" for user in ranked[:7]]


def test_a_log_that_names_no_user_offers_no_such_colours() -> None:
    rng = np.random.default_rng(1)
    ones = np.ones(200)
    columns = {"submit_time": np.sort(rng.integers(0, 9000, 200)), "wait_time": 0 * ones, "run_time": 300 * ones,
               "req_time": 600 * ones, "req_procs": rng.integers(1, 9, 200)}  # fmt: skip
    anonymous = Trace.from_arrays(columns, LogInfo(max_procs=16))
    figure = gantt(evaluate(anonymous, predictor=["requested"], policy=["easy"]))
    assert figure is not None
    assert [one.name for one in figure.colourings] == ["how it started"]
    assert "Colours" not in page("A log", [Section("All", [figure])], {})
    assert figure.rows["job"][0].startswith("job ")
    assert " of " not in figure.rows["job"][0]


def test_a_job_cut_to_the_machine_is_read_as_it_was_simulated() -> None:
    log = Trace.from_arrays(
        {"submit_time": [0, 5], "run_time": [600, 60], "req_time": [900, 90], "req_procs": [9, 2], "wait_time": [0, 0]},
        LogInfo(max_procs=4),
    )
    figure = gantt(evaluate(log, predictor=["requested"], policy=["easy"], wide="cut"))
    assert figure is not None
    simulated, recorded = figure.data[0], figure.data[-1]
    assert simulated["procs"] == [4, 2]
    assert "procs" not in recorded
    assert [figure.rows["procs"][row] for row in recorded["row"]] == [9, 2]


def test_users_keep_their_names_and_the_unknown_are_among_the_others() -> None:
    users = Nominal.encode(["carl", None, "ann", "carl"])
    colouring, places = owners(users, np.array([1.0, 9.0, 5.0, 2.0]))
    assert colouring is not None
    assert [one["name"] for one in colouring.series] == ["user ann", "user carl", "others"]
    assert places == [1, 2, 0, 1]


@given(st.integers(0, 2**32 - 1), st.integers(1, 700))
def test_the_queue_strip_counts_who_waits(seed: int, jobs: int) -> None:
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 500, jobs)).astype(float)
    start, procs = submit + rng.integers(0, 60, jobs), rng.integers(1, 9, jobs)
    low, high = 100.0, 400.0
    at, processors, many = waiting(submit, start, procs, low, high)
    assert (at[0], at[-1]) == (low, high)
    for t in range(100, 400):
        here = (submit <= t) & (start > t)
        place = np.searchsorted(at, t, side="right") - 1
        assert (processors[place], many[place]) == (procs[here].sum(), here.sum())


def test_a_queue_that_changes_often_is_shown_by_its_means() -> None:
    rng = np.random.default_rng(5)
    submit = np.sort(rng.uniform(0, 8000, 3000))
    start, procs = submit + rng.exponential(50, 3000), rng.integers(1, 9, 3000)
    at, processors, _ = waiting(submit, start, procs, 0.0, 8000.0)
    assert len(at) == POINTS + 1
    held = (np.minimum(start, 8000.0) - submit) * procs
    assert processors[:-1].mean() * 8000 == pytest.approx(held.sum())


def test_the_strips_show_the_same_time_under_the_same_schedules(found: Evaluation) -> None:
    figure = gantt(found)
    assert figure is not None
    for strip in figure.below:
        assert strip.layout["xaxis"]["range"] == figure.layout["xaxis"]["range"]
        assert [t["meta"]["variant"] for t in strip.data] == list(figure.pick)
    s = found.outcomes[0].schedule
    low, high = window(Jobs(s.rows, s.submit_time, s.start_time, s.end_time, s.procs, s.backfilled), s.total)
    busy = np.mean(figure.below[1].data[0]["y"][:-1])
    assert busy == pytest.approx(processor_time(s, low, high).sum() / (high - low) / s.total, abs=0.001)


def test_what_the_record_holds_beyond_the_machine_is_drawn_and_said() -> None:
    log = Trace.from_arrays(
        {"submit_time": [0, 0], "run_time": [9, 9], "req_time": [9, 9], "req_procs": [2, 2], "wait_time": [0, 0]},
        LogInfo(max_procs=2),
    )
    figure = gantt(evaluate(log, predictor=["requested"]))
    assert figure is not None
    assert figure.layout["yaxis"]["range"] == [0, 4]
    assert "up to 4 processors at once, more than the machine's 2" in figure.caption


def test_more_bars_than_fit_are_counted_in_the_caption() -> None:
    crowded = trace(4000, 0.08, procs=64)
    figure = gantt(evaluate(crowded, predictor=["requested"], policy=["easy"]))
    assert figure is not None
    assert "smallest bars" in figure.caption
    assert (
        max(sum(len(t["x"]) for t in figure.data if t["meta"]["variant"] == name) for name in figure.pick) == MOST_BARS
    )


def test_many_schedules_are_not_all_offered() -> None:
    policies = ["fcfs", "easy", "easy-sjbf", "conservative"]
    figure = gantt(evaluate(trace(300, 20), predictor=["last_2", "recent_mean"], policy=policies))
    assert figure is not None
    assert len(figure.pick) == MOST_SCHEDULES + 1
    assert "6 more schedules" in figure.caption


@pytest.mark.long
def test_a_page_stays_within_its_bound_however_many_jobs_there_are() -> None:
    big = evaluate(trace(60_000, 3 * 365), predictor=["requested"])
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
    found = evaluate(trace(60, 3), predictor=["recent_mean", "last_2", "last_2:need=2"])
    slots = slots_of(found)
    # the two additional colors are for perfect knowledge and for the recorded schedule
    assert len(set(slots.values())) == len(found.scores.points) + 2
    assert slots["users' limits"] == slots["requested"]
    assert json.loads(json.dumps(choices(found).predictors))["actual"] == "perfect knowledge"
