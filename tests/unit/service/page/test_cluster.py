# SPDX-License-Identifier: Apache-2.0
"""Tests *The cluster* and *For operators* on a site that has collected for a few hours."""

from __future__ import annotations

import math
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from batchcast.service.answers.disclosure import Viewer
from batchcast.service.page.cluster import cluster_figures, operator_figures
from batchcast.service.page.jobs import request_of_job
from batchcast.service.settings import Settings, load
from batchcast.store import clock_jobs
from batchcast.store.database import Store
from batchcast.store.schema import jobs

NOW, HOUR, DAY = 1_700_000_000.0, 3600.0, 86400.0
ROOT = Viewer("root", sees_all=True)


def store_with(place: Path, *seen: dict[str, Any]) -> Settings:
    """A store of one machine of four processors with these jobs."""
    store = Store(str(place / "s.db"), create=True)
    with store.begin() as connection:
        clock_jobs.write_meta(connection, "c", total_procs=4.0, cycle_at=NOW, snapshot_at=NOW, interval_s=30.0)
        for k, job in enumerate(seen):
            usual = {"cluster": "c", "job_id": str(k), "user_id": "ada", "account": "a", "partition_id": "main"}
            usual |= {"req_procs": 2.0, "alloc_procs": 2.0, "req_time": HOUR, "first_seen": NOW - 3 * HOUR}
            connection.execute(insert(jobs).values(**usual | job))
    store.close()
    return load({"store": str(place / "s.db"), "private": "no"}, {})


def ended(end: float) -> dict[str, Any]:
    return {
        "submit_time": end - 700.0,
        "start_time": end - 600.0,
        "end_time": end,
        "open": 0,
        "state": "completed",
        "status": "completed",
    }


def waits(submit: float) -> dict[str, Any]:
    return {"submit_time": submit, "open": 1, "state": "pending"}


def test_plots_of_a_young_site_begin_where_its_record_does(tmp_path: Path) -> None:
    few = [ended(NOW - hours * HOUR) for hours in (3.0, 2.0, 0.5)]
    held_for_weeks = waits(NOW - 40 * DAY)
    settings = store_with(tmp_path, *few, held_for_weeks)
    found = cluster_figures(settings, ROOT, NOW)
    at = found["series"]["at"]
    assert NOW - 3 * HOUR < at[0] < NOW - 2.9 * HOUR
    assert at[-1] < NOW
    assert found["days"] == 1
    assert sum(used > 0 for used in found["series"]["used"]) > len(at) / 20
    assert set(found["series"]["queued"]) >= {0.5}
    assert operator_figures(settings, ROOT, NOW)["days"] == 1


def test_where_nothing_has_ended_they_begin_with_the_first_submission(tmp_path: Path) -> None:
    at = cluster_figures(store_with(tmp_path, waits(NOW - 2 * HOUR)), ROOT, NOW)["series"]["at"]
    assert at[0] == pytest.approx(NOW - 2 * HOUR, abs=120.0)


def test_what_waiting_jobs_ask_for_is_rounded_on_a_private_site_alone(tmp_path: Path) -> None:
    """From a series of exact processor counts, two queries a moment apart reveal the size of the one job between
    them."""
    settings = store_with(tmp_path, *(waits(NOW - 2 * HOUR) | {"req_procs": procs} for procs in (389.0, 400.0, 1024.0)))
    shown = [
        max(
            cluster_figures(load({"store": settings["store"], "private": private}, {}), viewer, NOW)["series"]["queued"]
        )
        for private, viewer in (("yes", Viewer("ada")), ("yes", ROOT), ("no", Viewer("ada")))
    ]
    assert shown == [1800 / 4, 1813 / 4, 1813 / 4]


def test_an_old_site_shows_four_weeks(tmp_path: Path) -> None:
    settings = store_with(tmp_path, *(ended(NOW - days * DAY) for days in (60, 35, 28.0, 27.9, 1)))
    assert cluster_figures(settings, ROOT, NOW)["days"] == 28
    assert operator_figures(settings, ROOT, NOW)["days"] == 28


def test_the_machine_is_all_its_nodes_as_the_collector_saw_them_last(tmp_path: Path) -> None:
    runs = {"submit_time": NOW - 60.0, "start_time": NOW - 60.0, "open": 1, "state": "running", "alloc_procs": 6.0}
    settings = store_with(tmp_path, runs)
    assert cluster_figures(settings, ROOT, NOW)["busy"] == 1.5
    store = Store(settings["store"])
    with store.begin() as connection:
        clock_jobs.write_meta(connection, "c", site={"total_procs": 8.0, "partitions": {}})
    store.close()
    found = cluster_figures(settings, ROOT, NOW)
    assert (found["procs"], found["busy"]) == (8.0, 0.75)


def test_waits_by_size_are_shown_for_each_partition_apart(tmp_path: Path) -> None:
    quick = [ended(NOW - k * HOUR) | {"partition_id": "quick"} for k in range(1, 8)]
    slow = [ended(NOW - k * HOUR) | {"submit_time": NOW - (k + 9) * HOUR, "partition_id": "slow"} for k in range(1, 7)]
    found = cluster_figures(store_with(tmp_path, *quick, *slow), ROOT, NOW)
    parts = {part["name"]: [cell for row in part["rows"] for cell in row if cell] for part in found["by_partition"]}
    assert list(parts) == ["quick", "slow"], "the partition with the most jobs first"
    assert [(cell["jobs"], cell["wait"] < HOUR) for cells in parts.values() for cell in cells] == [
        (7, True),
        (6, False),
    ]
    assert "now" not in parts["quick"][0], "no forecast exists"


def test_a_cell_says_how_long_such_a_job_would_wait_now(tmp_path: Path) -> None:
    from tests.cli.test_live import _store

    now = time.time()
    for private in (False, True):
        place = _store(str(tmp_path / f"{private}.db"), private, now)
        found = cluster_figures(load({"store": place}, {}), Viewer("ada"), now)
        cells = [cell for row in found["by_size"]["rows"] for cell in row if cell]
        assert [math.isfinite(cell["now"]) and cell["now"] >= 0 for cell in cells if "now" in cell] == [True] * (
            not private
        )


def test_a_cell_of_jobs_with_gpus_asks_for_their_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the cell would show the predicted wait of a job without GPUs."""
    from batchcast.predict.protocol import Prediction
    from batchcast.service.answers import forecaster

    asked = []

    class Known:
        machine = None

        def wait(self, job: Any) -> Prediction:
            asked.append((job.procs, job.req_gpus, job.extra.get("gpu_type")))
            return Prediction(60.0)

    monkeypatch.setattr(forecaster, "forecaster", lambda site, kinds: Known())
    cards = [ended(NOW - k * HOUR) | {"req_gpus": 2.0, "gpu_type": "a100", "partition_id": "gpu"} for k in range(1, 8)]
    plain = [ended(NOW - k * HOUR) for k in range(1, 8)]
    cluster_figures(store_with(tmp_path, *cards, *plain), ROOT, NOW)
    assert sorted(asked, key=str) == [(2.0, 0.0, None), (2.0, 2.0, "a100")]


@pytest.mark.parametrize("name", ["operators.html.j2", "cluster.html.j2"])
def test_pages_claim_no_idle_processors_and_name_the_waits_that_they_count(name: str) -> None:
    source = (files("batchcast.service.page") / "templates" / name).read_text(encoding="utf-8")
    assert "for nothing" not in source
    assert (
        ("a limit is not idle time" in source) if name.startswith("operators") else ("waits that have ended" in source)
    )


def test_what_would_start_sooner_keeps_nodes_features_and_whole_nodes(tmp_path: Path) -> None:
    asked = {"req_nodes": 2.0, "constraint": "ib", "exclusive": 1.0, "job_name": "x"}
    settings = store_with(tmp_path, waits(NOW - HOUR) | asked)
    options = request_of_job(settings, "0", ROOT).options
    assert {name: options.get(name) for name in ("nodes", "constraint", "exclusive", "time")} == {
        "nodes": "2",
        "constraint": "ib",
        "exclusive": "",
        "time": "01:00:00",
    }
