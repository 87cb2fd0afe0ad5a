"""Tests the randomized trial of planning from a store: which jobs are in which arm, whether planning respected it, and
the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import insert

from batchcast.planning.decide import is_drawn
from batchcast.planning.record import Entry, State, opted_in
from batchcast.service.answers.disclosure import Site, Viewer
from batchcast.service.planning.effects import arms
from batchcast.service.settings import Settings, load
from batchcast.store import planned
from batchcast.store.database import Store
from batchcast.store.reader import Reader
from batchcast.store.schema import jobs

DAY = 86400.0
SETTINGS = load({"plan": "plan", "plan_partitions": "main", "plan_percent": 50, "plan_seed": 3}, {})


def trial(tmp_path: Path, count: int = 600, partition: str = "main") -> Reader:
    """Jobs of 30 users over three weeks; jobs drawn for planning wait ten minutes, the others an hour."""
    place = str(tmp_path / "s.db")
    store, terms = Store(place, create=True), opted_in(SETTINGS, 0.0, "")
    with store.begin() as connection:
        for k in range(count):
            drawn, submit = is_drawn(str(k), terms), 1000.0 + k * 3 * 7 * DAY / count
            start = submit + (600.0 if drawn else 3600.0)
            values = {"cluster": "c", "job_id": str(k), "submit_time": submit, "first_seen": submit, "open": 0}
            more = {"user_id": f"u{k % 30}", "partition_id": partition, "qos": "normal", "req_procs": 4.0}
            ended = {"state": "completed", "status": "completed", "start_time": start, "end_time": start + 1800.0}
            connection.execute(insert(jobs).values(**values, **more, **ended))
            if drawn and k % 5:
                entry = Entry(str(k), submit, 7200.0, 3600.0, State.PLANNED, submit + 1.0)
                planned.write(connection, "c", [(entry, 7200.0, 3600.0, "read back")])
    store.close()
    return Reader(place)


def arms_of(
    reader: Reader, settings: Settings = SETTINGS, since: float = 0.0, private: bool = False
) -> list[dict[str, Any]]:
    return arms(Site(reader, "c", {}, private, settings, Viewer(None), 1e12), since, 1e12)


def test_the_arms_are_as_drawn_and_their_difference_has_an_interval(tmp_path: Path) -> None:
    whole, *sizes = arms_of(trial(tmp_path))
    assert (whole["drawn_mean_wait_s"], whole["others_mean_wait_s"]) == (600.0, 3600.0)
    # jobs count in the arm that was drawn, whether they were planned or not
    assert whole["drawn_planned"] < whole["drawn_jobs"]
    assert whole["others_planned"] == 0
    assert {stated.verdict for stated in whole["differences"].values()} == {"ahead"}
    assert whole["differences"]["mean_wait_s"].low <= -3000.0 <= whole["differences"]["mean_wait_s"].high
    assert [row["size"] for row in sizes] == ["2-4"]


def test_without_a_trial_there_is_nothing_to_compare(tmp_path: Path) -> None:
    reader = trial(tmp_path, count=100)
    everybody = SETTINGS.replaced(plan_percent=100.0)
    assert arms_of(reader, everybody) == []
    assert arms_of(reader, SETTINGS.replaced(plan_partitions="other")) == []
    assert arms_of(reader, since=9e11) == []


def test_where_jobs_are_private_few_users_are_not_told_of(tmp_path: Path) -> None:
    reader = trial(tmp_path, count=100)
    assert arms_of(reader, SETTINGS.replaced(least_users=31), private=True) == []
    (row, *_) = arms_of(reader, SETTINGS.replaced(least_users=5), private=True)
    assert row["drawn_mean_wait_s"] == 600.0
