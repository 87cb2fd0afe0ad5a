"""Tests that predictions made period by period equal the predictions on the whole log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.periods import cut

from batchcast import Trace
from batchcast.errors import UsageError
from batchcast.evaluation.replay import forecast_periods, replay
from batchcast.evaluation.wait import RecordedClock, run_wait
from batchcast.events.recorded import PROTOCOLS, events, stretches
from batchcast.events.setup import RunSetup
from batchcast.metrics.accuracy import accuracy
from batchcast.metrics.schedule import ForecastTotals, ScheduleTotals, measures
from batchcast.simulation import simulate
from batchcast.simulation.periods import simulate_periods
from batchcast.trace import demo_path, read_trace, write_trace
from batchcast.trace.parquet import write_folder
from batchcast.trace.read import read_pieces
from batchcast.trace.synth import Recipe, make_log

LOG = read_trace(demo_path())
number = st.one_of(st.none(), st.integers(0, 40))
job = st.tuples(st.integers(0, 9), number, number, st.integers(0, 2))


def points(parts: list[Any], spec: str) -> np.ndarray:
    return np.concatenate([said[spec].points for _, _, said in parts])


@given(st.lists(job, min_size=1, max_size=40), st.integers(1, 7), st.sampled_from(PROTOCOLS))
@settings(max_examples=100)
def test_the_events_are_those_of_the_whole_log(jobs: list[tuple[Any, ...]], pieces: int, protocol: str) -> None:
    gaps, wait, run, user = zip(*jobs)
    submit = np.cumsum(np.maximum(np.array(gaps) - 5, 0))
    log = Trace.from_arrays({"submit_time": submit, "wait_time": wait, "run_time": run, "user_id": user})
    told = [repr(event) for stretch in stretches(cut(log, pieces), protocol) for event in stretch.events]
    assert told == [repr(event) for event in events(log, protocol)]


@pytest.mark.parametrize("protocol", ["honest", "paper"])
def test_run_times(protocol: str) -> None:
    specs = ["requested", "last_2", "recent_mean", "kernel"]
    log = LOG[:2000]
    parts = list(forecast_periods("runtime", cut(log, 6), specs, RecordedClock(protocol)))
    whole = replay(log, specs, protocol=protocol)
    for spec in specs:
        assert np.array_equal(points(parts, spec), whole[spec].points), spec
    quantiles = np.concatenate([said["kernel"].quantiles for _, _, said in parts if said["kernel"].levels])
    assert np.array_equal(quantiles, whole["kernel"].quantiles[-len(quantiles) :], equal_nan=True)
    assert [first for _, first, _ in parts] == np.cumsum([0, *(len(p) for p, _, _ in parts)])[:-1].tolist()


FITTED = "forecast:first=150,every=200,step=10"


@pytest.mark.parametrize("spec", ["recent_wait", "scheduler_replay", pytest.param(FITTED, marks=pytest.mark.long)])
def test_waits(spec: str) -> None:
    log = LOG[: 500 if spec.startswith("forecast") else 1500]
    parts = list(forecast_periods("wait", cut(log, 6), [spec]))
    whole = run_wait(log, spec, np.ones(len(log), bool))
    assert np.array_equal(points(parts, spec), whole.forecasts.points)


@pytest.mark.parametrize(
    ("kind", "spec", "why"),
    [("runtime", "actual", "knows"), ("wait", "tests.quick_marks:SmallJobsFirst", "searches")],
)
def test_what_needs_the_whole_log_is_refused_by_name(kind: str, spec: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"{spec} .*{why}"):
        list(forecast_periods(kind, [LOG], [spec]))


def test_an_instant_in_two_periods_is_refused() -> None:
    log = Trace.from_arrays({"submit_time": [0, 5, 5], "run_time": [1, 1, 1]})
    with pytest.raises(UsageError, match="must not overlap"):
        list(forecast_periods("runtime", [log[:2], log[2:]], ["requested"]))


def test_totals_are_the_figures_of_all_pieces_together() -> None:
    rng = np.random.default_rng(3)
    actual, predicted = rng.lognormal(5, 2, (2, 900))
    actual[::7] = np.nan
    totals = ForecastTotals()
    for part in np.array_split(np.arange(900), 5):
        totals.add(predicted[part], actual[part], {0.9: 2 * predicted[part]})
    figures, whole = totals.figures(), accuracy(predicted, actual)
    for name in ("jobs", "mae_s", "apa", "underestimate_rate", "mean_shortfall_s"):
        assert figures[name] == pytest.approx(whole[name], rel=1e-12)
    assert figures["coverage_90"] == pytest.approx(np.mean((actual <= 2 * predicted + 1.0)[~np.isnan(actual)]))

    submit = np.sort(rng.uniform(0, 1e5, 900))
    start, run, procs = submit + rng.exponential(99, 900), rng.exponential(999, 900), rng.integers(1, 9, 900)
    passed = rng.random(900) < 0.3
    of_schedule = ScheduleTotals(16)
    for part in np.array_split(rng.permutation(900), 4):
        of_schedule.add(submit[part], start[part], run[part], procs[part], passed[part])
    whole = measures(submit, start, run, procs, 16, passed)
    assert of_schedule.figures() == pytest.approx({name: whole[name] for name in of_schedule.figures()}, rel=1e-12)


@pytest.mark.slow
def test_a_million_jobs_from_a_folder_are_those_of_the_log_at_once(tmp_path: Path) -> None:
    """SWF converted as a stream to a folder and read month by month: three verbs against the file read at once."""
    recipe = Recipe(jobs=1_000_000, procs=1024, kinds="apart", longest=600.0)
    write_trace(make_log(np.random.default_rng(1), recipe), tmp_path / "log.swf")
    folder = write_folder(read_pieces(tmp_path / "log.swf"), tmp_path / "log")
    log = read_trace(tmp_path / "log.swf")
    assert len(folder.parts) > 6
    for policy, runtime in (("easy-sjbf", "last_2"), ("conservative", "requested")):
        whole = simulate(log, policy, runtime)
        setup = RunSetup(default_request=folder.largest_request)
        parts = list(simulate_periods(folder.periods(), policy, runtime, setup))
        rows = np.concatenate([part.rows for part in parts])
        for name in ("start_time", "planned_run_time", "backfilled"):
            values = np.concatenate([getattr(part, name) for part in parts])[np.argsort(rows)]
            assert np.array_equal(values, getattr(whole, name)), (policy, name)
    specs = ["last_2", "recent_mean"]
    whole = replay(log, specs)
    parts = list(forecast_periods("runtime", folder.periods(), specs))
    assert all(np.array_equal(points(parts, spec), whole[spec].points) for spec in specs)
    parts = list(forecast_periods("wait", folder.periods(), ["recent_wait"]))
    run = run_wait(log, "recent_wait", np.ones(len(log), bool))
    assert np.array_equal(points(parts, "recent_wait"), run.forecasts.points)
