"""Tests the saved learned state beside the store: a collector and `start --test` continue from it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from msgspec.structs import asdict

from batchcast.formats.slurm.sbatch import Request
from batchcast.predict.registry import available
from batchcast.predict.registry import load as registered
from batchcast.predict.wait.forecast import Forecast
from batchcast.service.answers import model_store as files
from batchcast.service.answers.disclosure import Viewer
from batchcast.service.answers.model_store import SavedClock, Unusable, load, make_predictors
from batchcast.service.answers.script import answer_options
from batchcast.service.settings import Settings
from batchcast.service.settings import load as load_settings
from batchcast.store.place import clock_path, sqlite_path
from batchcast.store.reader import Reader

from .test_collector import Job, Script, collect, step

WAIT = "forecast:window=80,first=20,every=20,step=10,recent_wait:need=1"
DAY = 86400.0


@pytest.fixture
def learning(tmp_path: Path) -> Settings:
    return learning_in(tmp_path)


def learning_in(place: Path) -> Settings:
    """An SQLite store in that folder, and methods that fit models within a hundred jobs."""
    given = {"store": str(place / "store.db"), "history_days": 0.1, "runtime": "recent_mean", "wait": WAIT}
    return load_settings({**given, "history_every_s": 100}, {})


def jobs(count: int) -> list[Job]:
    """Return jobs that run one after the other with growing waits, so that predictions differ from job to job."""
    return [
        Job(str(k), 1000.0 + 40 * k, 1000.0 + 40 * k + 7 * (k % 13), 1000.0 + 40 * k + 7 * (k % 13) + 20 + 30 * (k % 5))
        for k in range(1, count)
    ]


def issued(settings: Settings) -> list[tuple[object, ...]]:
    rows = Reader(settings["store"]).rows(
        "SELECT j.job_id, f.kind, f.method, f.moment, f.as_of, f.point_s, f.quantiles_s, f.basis FROM forecasts f"
        " JOIN jobs j ON j.row = f.row WHERE f.moment != 'next' ORDER BY f.row, f.kind, f.method, f.moment"
    )
    return [tuple(row.values()) for row in rows]


def path_of(settings: Settings) -> Path:
    return clock_path(settings["store"], "c")


@pytest.mark.long
def test_a_collector_started_anew_goes_on_from_the_file_and_says_the_same(
    learning: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = load_settings({**asdict(learning.values), "store": str(tmp_path / "other.db")}, {})
    whole, parts = Script(jobs(120)), Script(jobs(120))
    one, several = collect(whole, other), collect(parts, learning)
    times = [1000.0 + 60 * k for k in range(1, 90)]
    step(whole, one, *times)
    for k, time in enumerate(times):
        if k % 20 == 15:
            several.store.close()
            several = collect(parts, learning)
        step(parts, several, time)
    assert issued(learning) == issued(other)
    assert any("model" in str(row[-1]) for row in issued(learning)), "and a model was among those who answered"
    heard: list[float] = []
    monkeypatch.setattr("batchcast.service.answers.model_store.replay", lambda *a, **k: heard.append(1.0))
    several.store.close()
    step(parts, collect(parts, learning), times[-1] + 60)
    assert not heard, "history was heard again although it was kept"


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a collector after 29 cycles; each test uses a copy."""
    place = tmp_path_factory.mktemp("learned")
    script, settings = Script(jobs(60)), learning_in(place)
    collector = collect(script, settings)
    step(script, collector, *(1000.0 + 60 * k for k in range(1, 30)))
    collector.store.close()
    return place


def fresh(settings: Settings) -> dict[tuple[str, str], Any]:
    """Return the settings' methods before any learning, without memory, which this site does not measure."""
    return make_predictors(settings["runtime"], settings["wait"], limits=settings["limits"])


@pytest.mark.lightgbm
def test_a_file_that_cannot_be_used_is_as_if_not_there(learned: Path, tmp_path: Path) -> None:
    learning = learning_in(copytree(learned, tmp_path / "copy"))
    script, place = Script(jobs(60)), path_of(learning)
    store = Reader(learning["store"]).memory("c")["store_id"]
    assert load(place, fresh(learning), store).clock.predictors
    place.write_bytes(place.read_bytes()[:-10])
    before = issued(learning)
    cycle = step(script, collect(script, learning), 1000.0 + 60 * 31)
    assert not cycle.problems
    assert cycle.step.rebuilt == (
        f"{place}: not written by this user's batchcast on this machine, or damaged: history is replayed instead"
    )
    assert len(issued(learning)) > len(before)


@pytest.mark.long
def test_a_fit_that_fails_costs_no_forecast_and_is_said(learning: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual case is that LightGBM is installed and cannot be loaded, because a system library is missing."""

    def broken(*_: object) -> None:
        raise OSError("no memory for a tree")

    monkeypatch.setattr("batchcast.predict.hazard.model.fit", broken)
    script = Script(jobs(120))
    collector = collect(script, learning)
    cycles = [step(script, collector, 1000.0 + 60 * k) for k in range(1, 80)]
    said = cycles[-1].problems
    assert said == ["no new model could be loaded, so the previous model answers: OSError: no memory for a tree"]
    assert sum(cycle.step.issued for cycle in cycles[-30:]) > 0, "the simulation goes on answering"
    monkeypatch.undo()
    assert files.in_background(lambda: "a model").result() == "a model"
    assert files.fit_trouble() == "", "and a fit that succeeds ends it"


@pytest.mark.lightgbm
def test_a_kept_model_whose_library_is_gone_is_not_gone_on_from(learned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = learning_in(learned)
    store = Reader(settings["store"]).memory("c")["store_id"]
    kept = load(path_of(settings), fresh(settings), store)
    assert any(getattr(one, "model", None) is not None for one in kept.clock.predictors.values())
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(Unusable, match="a library that its models need cannot be loaded"):
        load(path_of(settings), fresh(settings), store)


def test_it_is_its_owners_alone(learned: Path) -> None:
    assert path_of(learning_in(learned)).stat().st_mode & 0o777 == 0o600


@pytest.mark.long
def test_what_if_goes_on_from_the_file_and_says_what_hearing_everything_says(
    learning: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(jobs(120))
    step(script, collect(script, learning), *(1000.0 + 60 * k for k in range(1, 60)))
    now = script.time

    def ask() -> dict[str, object]:
        request = Request({"ntasks": "2", "time": "0:20:00"})
        return dict(answer_options(learning, request, Viewer("ada", True), now).results[0])

    kept = ask()
    monkeypatch.setattr(Forecast, "refit", lambda self, now: (_ for _ in ()).throw(AssertionError("refitted")))
    assert ask() == kept, "no model is fitted while somebody waits for an answer"
    monkeypatch.undo()
    path_of(learning).unlink()
    assert ask() == kept
    assert sqlite_path(learning["store"]) is not None


def test_a_full_disk_costs_nothing_but_the_file(learning: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(place: Path, kept: SavedClock) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("batchcast.service.answers.model_store.save", full)
    script = Script(jobs(30))
    cycle = step(script, collect(script, learning), *(1000.0 + 60 * k for k in range(1, 15)))
    assert not cycle.problems
    assert "No space left" in Reader(learning["store"]).memory("c")["not_kept"]


@pytest.mark.long
def test_every_method_answers_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`start --test` and the suggested limit, with each registered method as the first of its kind."""
    methods = {
        kind: [name for name in available(kind) if "answers" not in signature(registered(kind, name)).parameters]
        for kind in ("runtime", "wait")
    }
    words = {kind: ",".join(names) for kind, names in methods.items()}
    settings = load_settings({**asdict(learning_in(tmp_path).values), **words, "limits": words["runtime"]}, {})
    script = Script(jobs(40))
    collector = collect(script, settings)
    step(script, collector, *(1000.0 + 60 * k for k in range(1, 20)))

    def asked(**first: object) -> Mapping[str, object]:
        collector._write(answers_by=None, **first)
        return answer_options(
            settings, Request({"ntasks": "2", "time": "0:20:00"}), Viewer("ada", True), script.time
        ).results[0]

    monkeypatch.setattr(files, "replay", lambda *_: pytest.fail("history was replayed"))
    for name in methods["runtime"]:
        assert asked(runtime_methods=[name], limit_methods=[name])["likely_wait_s"] is not None
    for name in methods["wait"]:
        assert asked(wait_methods=[name])["method"] == name
    memory = Reader(settings["store"]).memory("c")
    assert (memory["not_kept"], memory["methods_not_kept"]) == (None, None)
