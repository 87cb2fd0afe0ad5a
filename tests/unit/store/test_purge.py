"""Tests that jobs older than the retention time are deleted, after their predictions and outcomes were summed."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from batchcast.cli.main import cli
from batchcast.errors import BatchcastError
from batchcast.formats.sighting import Sighting
from batchcast.predict.protocol import Prediction
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store
from batchcast.store.history import due, remove_some
from batchcast.store.reader import Reader
from batchcast.store.schema import jobs, meta

DAY = 86400.0


def filled(url: str, now: float) -> Store:
    """Ten jobs that ended 0, 100, ... 900 days ago, a job of 950 days ago that still runs, and a job whose end the
    clock has not passed on."""
    store = Store(url, create=True)
    asked = {"user_id": "ada", "partition_id": "main"}
    seen = [
        Sighting(str(k), str(k), now - 100 * k * DAY - 500, "COMPLETED", requested=asked,
                 start_time=now - 100 * k * DAY - 400, end_time=now - 100 * k * DAY - 10)
        for k in range(10)
    ]  # fmt: skip
    seen += [Sighting("20", "20", now - 950 * DAY, "RUNNING", start_time=now - 940 * DAY, requested=asked)]
    seen += [Sighting("21", "21", now - 950 * DAY, "COMPLETED", start_time=now - 940 * DAY, end_time=now - 930 * DAY)]
    with store.begin() as connection:
        history.take_in(connection, "c", seen, now)
        rows = {job.request.job_id: job for job in clock_jobs.untold_jobs(connection, "c", now)}
        for job_id, job in rows.items():
            shared = {"row": job.request.row, "kind": "wait", "moment": "submit", "as_of": job.request.submit_time}
            bound = 50.0 if int(job_id) % 2 else 200.0
            prediction = Prediction(40.0, (0.9,), (bound,), "like jobs")
            one = {**shared, "method": "recent_wait", "issued_at": now, "prediction": prediction}
            clock_jobs.issue(connection, [one])
        connection.execute(jobs.update().where(jobs.c.job_id != "21", jobs.c.open == 0).values(told=7))
        clock_jobs.write_meta(connection, "c", told_until=now)
    return store


def test_what_is_old_finished_and_told_goes_and_its_promises_are_summed_up(url: str) -> None:
    now = time.time()
    store = filled(url, now)
    with store.begin() as connection:
        found = due(connection, "c", now - 450 * DAY)
        assert (found.jobs, found.forecasts) == (5, 5)
        before = clock_jobs.read_meta(connection, "c")
    went = []
    for _ in range(3):
        with store.begin() as connection:
            went.append(remove_some(connection, "c", now - 450 * DAY, most=3))
    assert went == [3, 2, 0]
    with store.begin() as connection:
        left = sorted(int(x) for x in connection.scalars(jobs.select().with_only_columns(jobs.c.job_id)))
        memory = clock_jobs.read_meta(connection, "c")
    assert left == [0, 1, 2, 3, 4, 20, 21], "what runs, and what the clock still has to tell, stays"
    assert "purged" not in before
    purged = memory["purged"].values()
    assert sum(one["forecasts"] for one in purged) == sum(one["came_out"] for one in purged) == 5
    assert sum(one["sum_error_s"] for one in purged) == -300.0  # predictions of 40 s for waits of 100 s
    assert (sum(one["judged_90"] for one in purged), sum(one["held_90"] for one in purged)) == (5, 2)


def test_a_store_gives_room_back_while_others_read_it(url: str) -> None:
    store = Store(url, create=True)
    with store.begin() as connection:
        for k in range(200):
            clock_jobs.write_meta(connection, "c", **{f"{k}": os.urandom(5_000).hex()})
    reader = Reader(url)
    assert len(reader.memory("c")) == 200
    with store.begin() as connection:
        connection.execute(meta.delete().where(meta.c.name != "7"))
    freed = store.give_back()
    assert freed > 900_000
    assert list(reader.memory("c")) == ["7"]
    with store.begin() as connection:
        clock_jobs.write_meta(connection, "c", still="writable")


def test_nothing_is_given_back_where_somebody_holds_the_store(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "postgres" not in url:
        pytest.skip("SQLite's writers wait for each other in begin()")
    from batchcast.store import database

    monkeypatch.setattr(database, "LOCK_S", 1.0)
    store, other = Store(url, create=True), Store(url)
    with other.begin() as connection:
        clock_jobs.write_meta(connection, "c", held=True)
        with pytest.raises(BatchcastError, match="lock"):
            store.give_back()
    assert store.give_back() >= 0


def test_without_room_for_the_file_once_more_nothing_is_tried(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nearly_full = shutil._ntuple_diskusage(10**9, 10**9, 100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: nearly_full)
    done = asked(path, "--keep-days", "450", "--delete")
    assert "deleted: 5 of 5 jobs" in done.output
    assert "the store has not shrunk; the freed space is reused" in done.output


@pytest.fixture
def path(tmp_path: Path) -> str:
    filled(str(tmp_path / "s.db"), time.time()).close()
    return str(tmp_path / "s.db")


def asked(path: str, *words: str) -> Result:
    return CliRunner().invoke(cli, ["site", "purge", "--store", path, *words], env={"BATCHCAST_CONFIG": "/dev/null"})


def test_the_verb_says_first_and_deletes_when_told(path: str) -> None:
    assert "nothing would be deleted" in asked(path).output
    assert "would be deleted: 5 jobs" in asked(path, "--keep-days", "450").output
    assert "would be deleted: 5 jobs" in asked(path, "--keep-days", "450").output, "nothing has gone"
    assert "the history that predictors learn from" in str(asked(path, "--keep-days", "10").exception)
    gone = asked(path, "--keep-days", "450", "--delete").output
    assert "deleted: 5 of 5 jobs" in gone
    assert "MB of disk space were freed" in gone
    again = asked(path, "--keep-days", "450", "--delete", "--json")
    document = json.loads(again.stdout)
    assert (document["settings"]["jobs"], document["settings"]["jobs_gone"]) == (0, 0)
    assert sum(result["forecasts"] for result in document["results"]) == 5
    assert {result["mae_s"] for result in document["results"]} == {60.0}
