"""Tests the hint at a job's submission: from the user's last similar job, from memory, and only from own jobs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from sqlalchemy import insert, update

from batchcast.errors import NoAnswer
from batchcast.predict.protocol import Grounds, Prediction
from batchcast.predict.recommend import BY_NAME
from batchcast.service.answers.advice import Rules
from batchcast.service.answers.disclosure import Viewer
from batchcast.service.answers.questions import Hints, Like, hint
from batchcast.service.http import api
from batchcast.service.http.admission import Admission
from batchcast.service.settings import load
from batchcast.store import clock_jobs
from batchcast.store.database import Store
from batchcast.store.reader import Reader
from batchcast.store.schema import jobs

NOW = 20_000.0
MEMORY = {"limit_methods": ["calibrated"], "wait_methods": ["recent_wait"]}
LIKE = Like("ada", "main", "relax", 4.0, 7200.0)


def store(
    tmp_path: Path, *given: tuple[str, str, str, float, float], grounds: Grounds = Grounds.CLASS, basis: str = ""
) -> str:
    """Jobs of (user, partition, name, suggested limit, wait), with four processors each, in that order."""
    place = str(tmp_path / "s.db")
    opened = Store(place, create=True)
    with opened.begin() as connection:
        clock_jobs.write_meta(connection, "c", **MEMORY, site={"private": True, "partitions": {}})
        for row, (user, partition, name, limit, wait) in enumerate(given, 1):
            values = {
                "user_id": user,
                "partition_id": partition,
                "job_name": name,
                "req_procs": 4.0,
                "state": "pending",
            }
            key = {"row": row, "cluster": "c", "job_id": str(row), "submit_time": 100.0 * row, "first_seen": 0.0}
            connection.execute(insert(jobs).values(**values, **key, open=1))
            for kind, method, span in (("limit", "calibrated", limit), ("wait", "recent_wait", wait)):
                said = Prediction(span, (0.5, 0.9), (span, 2 * span), basis, grounds)
                shared = {"kind": kind, "moment": "submit", "method": method, "as_of": 1.0, "issued_at": 1.0}
                clock_jobs.issue(connection, [{"row": row, **shared, "prediction": said}])
    opened.close()
    return place


def learned(place: str) -> Hints:
    hints, reader = Hints(Rules()), Reader(place)
    hints.learn(reader, "c", MEMORY)
    reader.close()
    return hints


def test_the_last_job_of_the_same_name_speaks_before_others_of_the_user(tmp_path: Path) -> None:
    place = store(tmp_path, ("ada", "main", "relax", 900.0, 60.0), ("ada", "main", "bands", 3000.0, 600.0))
    told = learned(place).about(LIKE, NOW, {})
    assert (told["limit_s"], told["limit_like"], told["likely_start_s"]) == (900.0, "1", NOW + 60.0)
    told = learned(place).about(LIKE._replace(name="new"), NOW, {})
    assert (told["limit_s"], told["limit_like"]) == (3000.0, "2")


def test_a_limit_that_namesakes_decided_is_not_told_to_a_job_of_another_name(tmp_path: Path) -> None:
    given = ("ada", "main", "bands", 3000.0, 60.0), ("ada", "main", "relax", 900.0, 60.0)
    place = store(tmp_path, *given, basis=BY_NAME)
    hints = learned(place)
    assert hints.about(LIKE, NOW, {})["limit_s"] == 900.0
    assert hints.about(LIKE._replace(name="new"), NOW, {})["limit_s"] is None


def test_of_others_jobs_only_when_they_start_is_told(tmp_path: Path) -> None:
    told = learned(store(tmp_path, ("bob", "main", "relax", 900.0, 60.0))).about(LIKE, NOW, {})
    assert (told["limit_s"], told["likely_start_s"]) == (None, NOW + 60.0)
    with pytest.raises(NoAnswer):
        learned(store(tmp_path / "x", ("bob", "other", "relax", 900.0, 60.0))).about(LIKE, NOW, {})


def test_memory_is_what_the_last_one_of_that_name_was_advised(tmp_path: Path) -> None:
    place = store(tmp_path, ("ada", "main", "relax", 900.0, 60.0), ("ada", "main", "bands", 900.0, 60.0))
    opened = Store(place)
    with opened.begin() as connection:
        said = Prediction(4096.0, basis="", grounds=Grounds.CLASS)
        kept = {"kind": "request", "moment": "submit", "method": "peak", "as_of": 2.0, "issued_at": 2.0}
        clock_jobs.issue(connection, [{"row": 1, **kept, "prediction": said}])
    opened.close()
    hints, reader = Hints(Rules()), Reader(place)
    hints.learn(reader, "c", {**MEMORY, "memory_methods": ["peak"]})
    told = hints.about(LIKE, NOW, {})
    assert (told["memory_kib"], told["memory_like"]) == (4096.0, "1")
    assert hints.about(LIKE._replace(name="bands"), NOW, {})["memory_kib"] is None
    assert hints.about(LIKE._replace(user="bob"), NOW, {})["memory_kib"] is None, "another user's"


def new_names(tmp_path: Path, names: int = 9, **changed: float) -> Hints:
    """Ada's jobs with this many names used a tenth of the 4,000 MiB that each requested, except where `changed`."""
    place = store(tmp_path, *(("ada", "main", f"name{k}", 900.0, 60.0) for k in range(names)))
    opened = Store(place)
    with opened.begin() as connection:
        ended = {"open": 0, "status": "completed", "start_time": 5.0, "end_time": 9.0, "alloc_nodes": 1.0,
                 "req_nodes": 1.0, "used_mem_kib": 400.0 * 1024, "req_mem_kib": 4000.0 * 1024}  # fmt: skip
        connection.execute(update(jobs).values(**ended))
        if changed:
            connection.execute(update(jobs).where(jobs.c.row == 1).values(**changed))
    opened.close()
    return learned(place)


NEW = LIKE._replace(name="new", written_kib=16000.0 * 1024)


def test_memory_of_a_new_name_is_the_share_that_the_users_other_names_held(tmp_path: Path) -> None:
    hints = new_names(tmp_path)
    assert hints.about(NEW, NOW, {})["memory_kib"] == 1800 * 1024, "a tenth, a tenth added to it, in steps of 100 MiB"
    assert hints.about(NEW._replace(written_kib=80.0 * 1024), NOW, {})["memory_kib"] == 80 * 1024, "never above"
    assert hints.about(NEW._replace(written_kib=math.nan), NOW, {})["memory_kib"] is None, "nobody says what he wrote"
    assert new_names(tmp_path / "few", 8).about(NEW, NOW, {})["memory_kib"] is None, "eight cannot tell one in ten"


def test_nobody_elses_names_speak_for_a_new_one(tmp_path: Path) -> None:
    hints = new_names(tmp_path)
    assert hints.about(NEW._replace(user="bob"), NOW, {})["memory_kib"] is None


def test_a_name_that_asked_as_advised_never_makes_the_next_request_smaller(tmp_path: Path) -> None:
    """The suggestion uses the request that the user wrote, if the service received it; else it assumes a higher request
    than the true one."""
    first = new_names(tmp_path / "a").about(NEW, NOW, {})["memory_kib"]
    advised = new_names(tmp_path / "b", req_mem_kib=450.0 * 1024)
    assert advised.about(NEW, NOW, {})["memory_kib"] >= first
    wrote = NEW._replace(name="name0", written_kib=4000.0 * 1024)
    settings = load({"private": "no"}, {})
    hint(settings, "c", MEMORY, advised, wrote._replace(written_kib=1e12), Viewer("bob"), NOW)
    assert advised.about(NEW, NOW, {})["memory_kib"] >= first, "nobody else says what she wrote"
    hint(settings, "c", MEMORY, advised, wrote, Viewer("ada"), NOW)
    assert advised.about(NEW, NOW, {})["memory_kib"] == first


def test_a_name_that_ran_out_needed_twice_what_it_got(tmp_path: Path) -> None:
    hints = new_names(tmp_path, status="out_of_memory", used_mem_kib=None)
    assert hints.about(NEW, NOW, {})["memory_kib"] == 16000 * 1024


def test_advice_that_rests_on_the_limit_alone_is_none(tmp_path: Path) -> None:
    place = store(tmp_path, ("ada", "main", "relax", 900.0, math.inf), grounds=Grounds.LIMIT)
    assert learned(place).about(LIKE, NOW, {})["limit_s"] is None


def test_what_came_since_is_taken_in_and_nothing_twice(tmp_path: Path) -> None:
    place = store(tmp_path, ("ada", "main", "relax", 900.0, 60.0))
    hints = learned(place)
    before = hints.last_id
    opened = Store(place)
    with opened.begin() as connection:
        said = Prediction(1800.0, (0.5,), (1800.0,), "", Grounds.CLASS)
        again = {"kind": "limit", "moment": "submit", "method": "calibrated", "as_of": 2.0, "issued_at": 2.0}
        connection.execute(insert(jobs).values(
            row=9, cluster="c", job_id="9", submit_time=900.0, first_seen=0.0, state="pending", open=1, user_id="ada",
            partition_id="main", job_name="relax", req_procs=4.0,
        ))  # fmt: skip
        clock_jobs.issue(connection, [{"row": 9, **again, "prediction": said}])
    opened.close()
    reader = Reader(place)
    hints.learn(reader, "c", MEMORY)
    assert hints.last_id > before
    assert hints.about(LIKE, NOW, {})["limit_s"] == 1800.0
    assert (
        reader.ask(
            "issued_since",
            cluster="c",
            after=hints.last_id,
            limit_method="calibrated",
            memory_method="",
            wait_method="",
            most=9,
        )
        == []
    )


def test_where_jobs_are_private_slurmctlds_user_asks_for_anybody_and_others_for_themselves(tmp_path: Path) -> None:
    settings = load({"store": store(tmp_path, ("ada", "main", "relax", 900.0, 60.0)), "submit_from": "slurm"}, {})
    target = "/v1/hint?user=ada&partition=main&name=relax&ntasks=4&time=120"
    assert [api.reply(settings, target, Viewer(name)).status for name in ("ada", "slurm", "bob", None)] == [
        200,
        200,
        403,
        403,
    ]
    (told,) = json.loads(api.reply(settings, target, Viewer("slurm")).body)["results"]
    assert told["limit_s"] == 900.0
    for wrong in ("ntasks=many", "time=soon", "ntasks=-1"):
        assert api.reply(settings, f"/v1/hint?user=ada&{wrong}", Viewer("ada")).status == 400


def test_slurmctld_may_ask_as_often_as_jobs_are_submitted(tmp_path: Path) -> None:
    door = Admission(load({"store": str(tmp_path / "s.db")}, {}), now=lambda: 0.0)
    assert all(door.wait_for(Viewer("slurm")) == 0.0 for _ in range(2000))
    assert any(door.wait_for(Viewer("ada")) > 0.0 for _ in range(2000))


def test_at_a_private_site_another_users_sizes_do_not_change_the_start(tmp_path: Path) -> None:
    """Asks one size after the other: two sites that differ in another user's job of four processors answer alike."""
    answers = []
    for folder, others in (("one", ()), ("other", (("bob", "main", "secret", 900.0, 5000.0),))):
        (tmp_path / folder).mkdir()
        hints = learned(store(tmp_path / folder, ("ada", "main", "relax", 900.0, 60.0), *others))
        asked = [LIKE._replace(name="new", procs=float(procs)) for procs in range(1, 9)]
        answers.append([hints.about(job, NOW, {}, hidden=True)["likely_start_s"] for job in asked])
    assert answers[0] == answers[1] == [NOW + 60.0] * 8
