"""Tests that a method of the papers uses the features that the collector stored."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.unit.service.collector.test_inputs import ME, PW, Batch

from batchcast.service.answers.disclosure import Viewer
from batchcast.service.answers.forecaster import read_request
from batchcast.service.answers.questions import accuracy, walltime
from batchcast.service.collector.cycle import Collector
from batchcast.service.collector.inputs import InputReader
from batchcast.service.settings import load
from batchcast.store.database import Store
from batchcast.store.history import to_trace
from batchcast.trace.input_files import Folder, features_at_submission


@pytest.mark.long
def test_walltime_and_accuracy_use_the_features_that_the_collector_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs of one name and size: only their input files distinguish short from long ones."""
    places = [tmp_path / name for name in ("long", "short", "next")]
    for place, cutoff in zip(places, (90, 30, 90)):
        place.mkdir()
        (place / "pw.in").write_text(PW.format(cutoff=cutoff))
        os.utime(place / "pw.in", (1e8, 1e8))
    batch = Batch(places)
    spec = "bayesian_ridge:features=core_num+qe_ecutwfc,min_jobs=20"
    given = {"store": str(tmp_path / "s.db"), "runtime": spec, "limits": spec, "wait": "recent_wait",
             "input_roots": str(tmp_path), "settle_s": 0.0, "memory": "", "machine": "none", "private": "no",
             "listen": str(tmp_path / "none.sock"), "history_days": 0.01, "history_every_s": 0.0}  # fmt: skip
    settings = load(given, {})
    reads: list[int] = []
    monkeypatch.setattr(InputReader, "read", lambda self, jobs: reads.append(len(jobs)) or _cheap(jobs))
    store = Store(settings["store"], create=True)
    collector = Collector(batch, store, settings)
    for _ in range(232):
        cycle = collector.cycle()
        assert cycle.problems == []
        batch.time += 100.0
    with store.begin() as connection:
        trace = to_trace(connection, "c")
    assert set(trace.number("qe_ecutwfc").tolist()) == {30.0, 90.0}
    assert sum(reads) == 160
    viewer = Viewer(ME)
    limits = {}
    for name in ("short", "next"):
        script = places[1 if name == "short" else 2] / "job.sh"
        script.write_text("#!/bin/sh\n#SBATCH -n 4 -p main -t 10:00:00 -J relax\n")
        request = read_request(str(script.parent))
        assert json.loads(request.options["inputs"])["qe_ecutwfc"] == (30.0 if name == "short" else 90.0)
        (row,) = walltime(settings, None, None, ME, viewer, 0.05, batch.time, request).results
        assert row["limit_by"] == spec
        limits[name] = row["limit_s"]
    assert limits["short"] < 1500 < 6000 <= limits["next"]
    (of_job,) = walltime(settings, "151", None, ME, viewer, 0.05, batch.time).results
    assert of_job["limit_s"] == limits["short"]
    rows = accuracy(settings, 0.0, batch.time, None, viewer, batch.time).results
    (row,) = [one for one in rows if one.get("kind") == "runtime" and one.get("predictor") == spec]
    assert 0.0 < row["fell_back_share"] < 0.6


def _cheap(jobs: list[tuple[int, str, str, float]]) -> dict[int, dict[str, float | str]]:
    """Read in this process what the reading process would read; other tests start that process."""
    return {row: features_at_submission(Folder(place), submit) for row, _, place, submit in jobs}
