"""Tests `start --test --chunks`: which length of chunk finishes a long computation first."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from batchcast.predict.protocol import Prediction
from batchcast.service.answers import script as scripts
from batchcast.service.answers.forecaster import Forecaster

from .test_live import _store
from .test_start_where import SCRIPT, run

HOUR = 3600.0


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _store(str(tmp_path_factory.mktemp("chunks") / "s.db"), False, time.time())


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    return str(path)


def results(store: str, script: str, spans: str) -> list[dict]:
    return json.loads(run("start", "--test", script, "--chunks", spans, "--json", store=store).stdout)["results"]


def test_where_every_length_waits_as_long_the_longest_that_is_allowed_is_first(store: str, script: str) -> None:
    """The partition allows one day at most, and this store's method predicts from earlier waits alone."""
    rows = results(store, script, "3d,30m")
    assert max(row["length_s"] for row in rows) == 24 * HOUR, "a chunk of three days is refused by the partition"
    assert (rows[0]["length_s"], rows[0]["chunks"], rows[0]["chance_first"]) == (24 * HOUR, 4, 1.0)
    assert [row["likely_end_s"] for row in rows] == sorted(row["likely_end_s"] for row in rows)
    hourly = next(row for row in rows if row["length_s"] == HOUR)
    assert hourly["chunks"] == 143, "an hour in two goes to checkpoints: 71 hours of work in halves, and the last hour"
    text = run("start", "--test", script, "--chunks", "3d,30m", store=store).stdout
    assert "earliest likely end: 4 x --time=1-00:00:00 (probability 100%)" in text


def test_where_long_jobs_wait_much_longer_short_chunks_are_first(
    store: str, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(self: Forecaster, job: object) -> Prediction:
        most = 20 * HOUR if job.req_time > 4 * HOUR else 60.0
        return Prediction(most / 2, (0.5, 0.95), (most / 2, most))

    monkeypatch.setattr(Forecaster, "wait", wait)
    rows = results(store, script, "24h,10m")
    assert (rows[0]["length_s"], rows[0]["chunks"]) == (4 * HOUR, 7)
    assert 0.5 < rows[0]["chance_first"] < 1, "a long job may be lucky"
    assert sum(row["chance_first"] for row in rows) == pytest.approx(1)


@pytest.mark.parametrize("spans", ["3d", "10m,3d", "0,0", "3d,600"])
def test_chunks_that_cannot_be_read_say_what_is_accepted(store: str, script: str, spans: str) -> None:
    refused = str(run("start", "--test", script, "--chunks", spans, store=store, code=2).exception)
    assert "--chunks: " in refused
    assert "accepted: " in refused


def test_work_and_checkpoints_of_all_chunks_reach_the_total() -> None:
    for length in (600.0, 3600.0, 7200.0, 10_000.0):
        count = scripts.count_chunks(50_000.0, 500.0, length)
        assert (count - 1) * (length - 500.0) + length >= 50_000.0 > (count - 2) * (length - 500.0) + length
