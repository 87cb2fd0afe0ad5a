"""Tests renewed predictions of waiting jobs: they use the current state, and are stored to be scored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from batchcast.cli.users.accuracy import _print
from batchcast.service.answers import track_record
from batchcast.service.answers.accuracy import accuracy, calibration
from batchcast.service.answers.disclosure import Site, Viewer
from batchcast.service.answers.start import start_answer
from batchcast.service.collector.clock import as_at_submission
from batchcast.service.page.jobs import of_forecast
from batchcast.service.settings import Settings, load
from batchcast.store.reader import Reader
from batchcast.store.rows import newest

from .test_collector import Job, Script, collect, step

WAIT = "forecast:window=80,first=20,every=20,step=10"
FULL = 16  # processors, one a job


@pytest.fixture
def queue(url: str) -> tuple[Settings, Script]:
    """Sixteen jobs that occupy the machine for 50 minutes, and behind them a queue that starts when they end."""
    settings = load({"store": url, "history_days": 0.1, "runtime": "recent_mean", "wait": WAIT, "limits": ""}, {})
    first = [Job(str(k), 1005.0, 1006.0, 4000.0 + k) for k in range(FULL)]
    behind = [Job(str(100 + k), 1100.0 + k, 4001.0 + k, 4600.0 + k) for k in range(8)]
    return settings, Script([*first, *behind], keeps=1e6)


def rows_of(settings: Settings) -> list[dict[str, Any]]:
    reader = Reader(settings["store"])
    try:
        return reader.waiting("c", WAIT)
    finally:
        reader.close()


@pytest.mark.lightgbm
def test_whoever_waits_has_a_forecast_of_the_last_look_and_is_answered_with_it(queue: tuple[Settings, Script]) -> None:
    settings, script = queue
    collector = collect(script, settings)
    cycle = step(script, collector, 1000.0, *(1000.0 + 60 * k for k in range(1, 20)))
    assert not cycle.problems
    assert cycle.step.renewed == 8
    rows = rows_of(settings)
    assert len(rows) == 8
    for row in rows:
        assert row["as_of"] == row["submit_time"]
        assert row["renewed_as_of"] > row["submit_time"] + 900.0
        answer = start_answer(row, script.time)
        assert answer["forecast_as_of_s"] == row["renewed_as_of"]
        assert answer["likely_start_s"] >= script.time
        assert answer["by_10_start_s"] <= answer["likely_start_s"] <= answer["by_90_start_s"]
        assert 0.0 <= answer["chance_within_10_min"] <= answer["chance_within_1_day"] <= 1.0
        bar = of_forecast(row, row["submit_time"], script.time)
        assert bar.by_50 == pytest.approx(answer["likely_start_s"])
        whole = json.loads(row["renewed_quantiles_s"])
        assert whole == sorted(whole)
        assert whole[0] == row["renewed_as_of"] - row["submit_time"], "what has passed is certain"
    last = start_answer(rows[-1], script.time)
    old = start_answer({**rows[-1], "renewed_point_s": None}, script.time)
    assert old["forecast_as_of_s"] == rows[-1]["submit_time"]
    assert (last["likely_start_s"], last["basis"]) != (old["likely_start_s"], old["basis"])


@pytest.mark.lightgbm
def test_a_predictor_that_fails_leaves_the_time_of_the_clock_at_its_last_event(
    queue: tuple[Settings, Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, script = queue
    collector = collect(script, settings)
    step(script, collector, 1000.0, *(1000.0 + 60 * k for k in range(1, 10)))
    stored = collector._clock
    assert stored is not None
    clock = stored.clock
    before = clock.state.now

    def fail(state: Any) -> None:
        assert state.now > before
        raise RuntimeError("no model")

    for predictor in clock.predictors.values():
        if hasattr(predictor, "of_waiting"):
            monkeypatch.setattr(type(predictor), "of_waiting", lambda self, state: fail(state))
    with collector.store.begin() as connection, pytest.raises(RuntimeError):
        stored.renew(connection, before + 60.0, 0.0)  # a time before the last renewal, so that one is due
    assert clock.state.now == before


def test_after_a_clock_that_was_ahead_waiting_jobs_are_renewed_at_once(queue: tuple[Settings, Script]) -> None:
    settings, script = queue
    collector = collect(script, settings)
    step(script, collector, 1000.0, *(1000.0 + 60 * k for k in range(1, 10)))
    script.ahead = 86400.0
    step(script, collector, 1600.0)
    script.ahead = 0.0
    assert step(script, collector, 1660.0).step.renewed == 8
    assert {row["renewed_as_of"] for row in rows_of(settings)} == {1657.0}


def test_who_has_started_is_forecast_no_more_and_a_method_without_renewals_leaves_none(
    queue: tuple[Settings, Script],
) -> None:
    settings, script = queue
    step(script, collect(script, settings), 1000.0, *(1000.0 + 60 * k for k in range(1, 20)))
    assert rows_of(settings)[0]["renewed_as_of"] is not None
    other = load({"store": settings["store"], "history_days": 0.1, "wait": "recent_wait:need=1", "limits": ""}, {})
    script.time = 2300.0
    step(script, collect(script, other), 2300.0)
    assert Reader(settings["store"]).rows("SELECT * FROM renewed") == []
    step(script, collect(script, settings), *(4100.0 + 60 * k for k in range(5)))
    assert Reader(settings["store"]).rows("SELECT * FROM renewed") == []


@pytest.mark.long
def test_what_was_renewed_after_ten_minutes_is_judged_beside_the_forecast_of_the_submission(
    queue: tuple[Settings, Script],
) -> None:
    settings, script = queue
    collector = collect(script, settings)
    step(script, collector, 1000.0, *(1000.0 + 60 * k for k in range(1, 80)))
    reader = Reader(settings["store"])
    kept = reader.rows("SELECT method, as_of, point_s, levels FROM forecasts WHERE moment = 'waited_10min' ORDER BY id")
    assert {row["method"] for row in kept} == {WAIT, f"{WAIT}, as at submission"}
    assert len([row for row in kept if row["method"] == WAIT]) == 8, "each once"
    for row in kept:
        assert 1700.0 <= row["as_of"] <= 1107.0 + 2 * 600.0
        assert row["point_s"] >= 600.0, "of the whole wait"
    site = Site(reader, "c", {}, False, settings, Viewer(None), 1e9)
    judged = {(r["moment"], r["predictor"]): r for r in accuracy(site, 0.0, 1e9)}
    assert judged["waited_10min", WAIT]["came_out"] == 8
    moments = list(dict.fromkeys(moment for moment, _ in judged))
    assert moments == ["submit", "waited_10min"], "none had waited an hour"
    assert track_record.track_record(reader, "c", None, WAIT, 0.0)["forecasts"] == FULL + 8, "that of submissions alone"
    reader.close()
    shown = calibration(settings, Viewer(None, sees_all=True), script.time)["renewed"]
    assert [(one["age_s"], one["method"], one["at_submission"]) for one in shown] == [
        (600.0, WAIT, False),
        (600.0, WAIT, True),
    ]
    assert shown[0]["came_out"] == shown[1]["came_out"] == 8, "the submission's have an answer at every age"


def test_the_newest_forecast_is_the_renewed_one_unless_it_rests_on_nothing() -> None:
    fields: dict[str, object] = {"as_of": 5.0, "point_s": 60.0, "levels": "[0.9]", "quantiles_s": "[90.0]"}
    fields |= {"basis": "b", "grounds": "model"}
    row = {**fields, **{f"renewed_{name}": value for name, value in {**fields, "point_s": 70.0}.items()}}
    assert newest(row)["point_s"] == 70.0
    assert newest({**row, "renewed_grounds": "no_history"})["point_s"] == 60.0
    now = as_at_submission(fields, 80.0)
    assert now is not None
    assert now.point > 80.0
    assert now.levels == (0.9,)
    assert 90.0 < now.quantiles[0] < 1e9, "beyond what was issued: by the tail"
    later = as_at_submission(fields, 100.0)
    assert later is not None
    assert 100.0 < later.point < later.quantiles[0], "waited longer than it reached: still an answer"


@pytest.mark.parametrize("method", ["forecast", WAIT])
def test_the_printed_table_names_the_forecast_of_the_submission_once(
    capsys: pytest.CaptureFixture[str], method: str
) -> None:
    figures = dict.fromkeys(("median_ae_s", "mae_s", "underestimate_rate", "coverage_50", "coverage_90"), 0.5)
    row = {"kind": "wait", "moment": "waited_10min", "came_out": 8, **figures}
    _print([{**row, "predictor": f"{method}, as at submission"}])
    (line,) = (line for line in capsys.readouterr().out.splitlines() if " wait " in line)
    assert " forecast, as at submission  " in line
