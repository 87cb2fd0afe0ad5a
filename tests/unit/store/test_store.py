"""Tests that the store has each job once, tolerates repetition, and gives the same on SQLite and PostgreSQL."""

from __future__ import annotations

import math
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from batchcast.errors import BatchcastError, InputError, NoStore, Unreachable
from batchcast.events.live import live_events
from batchcast.events.recorded import events
from batchcast.formats.sighting import Sighting
from batchcast.predict.protocol import Prediction
from batchcast.service.answers.accuracy import accuracy
from batchcast.service.answers.disclosure import Site, Viewer
from batchcast.service.settings import load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store
from batchcast.store.history import to_trace
from batchcast.store.place import normal_url, shown_url, without_secrets
from batchcast.store.reader import Reader

WILD = ["a|b", "quo\"te'", "new\nline", "😀 Straße", "nul\0byte", "x" * 500, "'; DROP TABLE jobs; --"]


def job(job_id: str = "1", submit: float = 100.0, state: str = "PENDING", **more: Any) -> Sighting:
    asked = {"user_id": "ada", "partition_id": "main", "req_procs": 4.0, "req_time": 600.0}
    return Sighting(job_id, job_id, submit, state, requested=asked, allocated={"alloc_procs": 4.0}, **more)


def asks(seen: Sighting, **changed: Any) -> Sighting:
    """Return the same job with another request."""
    return seen._replace(requested={**seen.requested, **changed})


def running(job_id: str = "1", submit: float = 100.0, start: float = 110.0) -> Sighting:
    return job(job_id, submit, "RUNNING", start_time=start)


def ended(
    job_id: str = "1", submit: float = 100.0, start: float = 110.0, end: float = 150.0, state: str = "COMPLETED"
) -> Sighting:
    return job(job_id, submit, state, start_time=start, end_time=end)


@pytest.fixture
def store(url: str) -> Store:
    return Store(url, create=True)


def take(store: Store, *seen: Sighting, at: float = 200.0) -> history.Taken:
    with store.begin() as connection:
        return history.take_in(connection, "c", seen, at)


def rows(
    store: Store, columns: str = "job_id, submit_time, restarts, state, start_time, end_time, status, open"
) -> list[tuple]:
    with store.begin() as connection:
        return [tuple(r) for r in connection.execute(text(f"SELECT {columns} FROM jobs ORDER BY submit_time, row"))]


def test_a_job_goes_through_its_life_in_one_row(store: Store) -> None:
    for seen in (job(), running(), ended()):
        take(store, seen)
    assert rows(store) == [("1", 100.0, 0, "completed", 110.0, 150.0, "completed", 0)]


def test_taking_the_same_in_again_changes_nothing(store: Store) -> None:
    take(store, ended(), ended("2"))
    again = take(store, ended(), ended("2"))
    assert (again.new, again.changed, again.same) == (0, 0, 2)


def test_a_wrapped_job_id_is_another_job(store: Store) -> None:
    take(store, ended(submit=100.0), ended(submit=9000.0, start=9001.0, end=9002.0))
    assert [r[1] for r in rows(store)] == [100.0, 9000.0]


def test_a_requeued_job_is_two_runs(store: Store) -> None:
    take(store, running())
    take(store, job(submit=150.0, reason="BeginTime"))
    take(store, ended(state="REQUEUED", end=150.0))
    take(store, ended(submit=150.0, start=270.0, end=300.0))
    assert [(r[1], r[6]) for r in rows(store)] == [(100.0, "requeued"), (150.0, "completed")]


def test_two_runs_within_one_second_of_submission_are_told_apart(store: Store) -> None:
    both = (ended(start=100.0, end=100.0, state="REQUEUED"), ended(start=130.0, end=140.0))
    take(store, *both)
    take(store, *both)
    assert [(r[2], r[4], r[6]) for r in rows(store)] == [(0, 100.0, "requeued"), (1, 130.0, "completed")]


def test_both_nights_of_a_clock_change(store: Store) -> None:
    """Local times repeat or are missing at clock changes; the store only sees seconds since the epoch."""
    autumn, spring = 1792890000.0, 1774746000.0  # 2026-10-25T01:00Z and 2026-03-29T01:00Z
    for k, instant in enumerate((autumn, autumn + 3600, spring, spring + 3600)):
        take(store, ended("7", instant - 1800, instant - 1799, instant + k))
    assert sorted(r[1] for r in rows(store)) == sorted(i - 1800 for i in (autumn, autumn + 3600, spring, spring + 3600))


def test_the_request_stays_as_first_seen(store: Store) -> None:
    take(store, job())
    take(store, asks(ended(), req_time=120.0, req_procs=16.0, job_name="renamed"))
    assert rows(store, "req_time, req_procs, job_name") == [(600.0, 4.0, None)]


@pytest.mark.parametrize("name", WILD)
def test_names_come_back_as_they_were(store: Store, name: str) -> None:
    take(store, asks(job(), job_name=name))
    assert rows(store, "job_name") == [(name.replace("\0", "\ufffd"),)]


def test_unlimited_and_unknown_limits(store: Store) -> None:
    take(store, asks(job("1"), req_time=math.inf), asks(job("2"), req_time=math.nan))
    assert rows(store, "req_time") == [(math.inf,), (None,)]


def test_a_failed_transaction_leaves_nothing(store: Store) -> None:
    def killed() -> None:
        with store.begin() as connection:
            history.take_in(connection, "c", [job()], 1.0)
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        killed()
    assert rows(store) == []


def test_late_news_about_told_jobs_are_counted(store: Store) -> None:
    take(store, ended())
    with store.begin() as connection:
        connection.execute(text("UPDATE jobs SET told = 7"))
    assert take(store, ended(end=170.0)).late == 1


def forecast(store: Store, kind: str, point: float = 5.0) -> None:
    with store.begin() as connection:
        row = connection.scalar(text("SELECT row FROM jobs"))
        one = {"row": row, "kind": kind, "moment": "submit", "method": "m", "as_of": 100.0, "issued_at": 101.0}
        clock_jobs.issue(connection, [{**one, "prediction": Prediction(point, (0.5, 0.9), (5.0, 9.0), "why")}])


def outcomes(store: Store) -> list[tuple]:
    with store.begin() as connection:
        query = text("SELECT kind, outcome_s, resolution FROM forecast_outcomes ORDER BY kind")
        return [tuple(row) for row in connection.execute(query)]


def test_a_forecast_has_its_outcome_as_soon_as_the_job_has_it(store: Store) -> None:
    for seen, wanted in (
        (job(), [("runtime", None, None), ("wait", None, None)]),
        (running(), [("runtime", None, None), ("wait", 10.0, "started")]),
        (ended(), [("runtime", 40.0, "ended"), ("wait", 10.0, "started")]),
    ):
        take(store, seen)
        if seen.state == "PENDING":
            forecast(store, "runtime")
            forecast(store, "wait")
        assert outcomes(store) == wanted
    with pytest.raises(BatchcastError):
        forecast(store, "wait")


def test_what_accounting_corrects_later_corrects_the_outcome_and_the_track_record(store: Store, url: str) -> None:
    take(store, ended(end=624.0))
    forecast(store, "runtime", 41.0)
    forecast(store, "wait", 5.0)
    with store.begin() as connection:
        connection.execute(text("UPDATE jobs SET told = 7"))
    take(store, ended(start=104.0, end=145.0))
    assert outcomes(store) == [("runtime", 41.0, "ended"), ("wait", 4.0, "started")]
    site = Site(Reader(url), "c", {}, False, load({}, {}), Viewer(None), 1e9)
    scores = {s["kind"]: s["median_ae_s"] for s in accuracy(site, 0.0, 1e9)}
    assert scores == {"runtime": 0.0, "wait": 1.0}


def test_what_was_told_is_told_again_whatever_accounting_says_later(store: Store) -> None:
    """A finished run that is requeued: Slurm then extends it until the requeue."""
    take(store, ended())
    with store.begin() as connection:
        events = live_events(clock_jobs.untold_jobs(connection, "c", 1e9), 1e9)
        clock_jobs.mark_told(connection, events)
    take(store, ended(end=624.0, state="REQUEUED"))
    with store.begin() as connection:
        assert live_events(clock_jobs.told_jobs(connection, "c"), math.inf, only=7) == events
        corrected, as_told = to_trace(connection, "c"), to_trace(connection, "c", as_told=True)
    assert (corrected.run_time.tolist(), as_told.run_time.tolist()) == ([514.0], [40.0])
    assert as_told.nominal("status").decode() == ["completed"]
    assert "1 jobs: accounting changed" in corrected.info.notes[0]


def test_a_correction_between_start_and_end_leaves_the_start_as_told(store: Store) -> None:
    take(store, running())
    with store.begin() as connection:
        clock_jobs.mark_told(connection, live_events(clock_jobs.untold_jobs(connection, "c", 1e9), 1e9))
    take(store, ended(start=120.0))
    with store.begin() as connection:
        (end,) = live_events(clock_jobs.untold_jobs(connection, "c", 1e9), 1e9)
        clock_jobs.mark_told(connection, [end])
        again = live_events(clock_jobs.told_jobs(connection, "c"), math.inf, only=7)
    assert (end.time, end.run_time, end.wait_time) == (150.0, 40.0, 10.0)
    assert again[-1] == end


def test_a_withdrawn_job_and_a_lost_one_have_no_outcome(store: Store) -> None:
    take(store, job())
    forecast(store, "wait")
    take(store, job(state="CANCELLED", end_time=130.0))
    assert outcomes(store) == [("wait", None, "withdrawn")]


def test_how_long_a_lost_job_ran_is_nobodys_outcome(store: Store) -> None:
    take(store, running())
    forecast(store, "runtime")
    forecast(store, "wait")
    with store.begin() as connection:
        row = connection.scalar(text("SELECT row FROM jobs"))
        history.mark_vanished(connection, [row], 140.0)
        history.give_up(connection, [row])
    assert outcomes(store) == [("runtime", None, "lost"), ("wait", 10.0, "started")]


def test_export_is_a_log_of_the_finished(store: Store, url: str) -> None:
    take(store, ended("1"), job("2", 120.0, "CANCELLED", end_time=130.0), job("3"))
    with store.begin() as connection:
        trace = to_trace(connection, "c")
    assert trace.job_id.tolist() == [1, 2]
    assert trace.wait_time.tolist() == [10.0, 10.0]
    assert trace.run_time[0] == 40.0
    assert math.isnan(trace.run_time[1])
    assert trace.info.dropped["still open at export"] == 1


def test_reading_needs_no_writer(store: Store, url: str) -> None:
    take(store, job())
    reader = Reader(url)
    assert reader.rows("SELECT job_id FROM jobs WHERE submit_time = :at", at=100.0) == [{"job_id": "1"}]
    assert reader.memory("c") == {}


def test_that_a_job_ran_out_of_memory_is_not_forgotten_when_the_queue_says_failed(store: Store) -> None:
    take(store, ended(state="FAILED"))
    done = ended(state="OUT_OF_MEMORY")
    take(store, done._replace(allocated={**done.allocated, "used_mem_kib": 9.0}))
    again = take(store, ended(state="FAILED"))
    assert rows(store, "status, used_mem_kib") == [("out_of_memory", 9.0)]
    assert (again.changed, again.same) == (0, 1)


def test_no_question_of_a_user_goes_over_every_job(tmp_path: Path) -> None:
    """Each question uses an index, so a hundred unknown ids cost little."""
    from batchcast.store.statements import TEXTS

    url = str(tmp_path / "s.db")
    Store(url, create=True).close()
    for name in (
        "waiting",
        "latest",
        "latest_run",
        "usual_of",
        "qos_of",
        "running_now",
        "open_with",
        "late_forecasts",
    ):
        unset = dict.fromkeys(re.findall(r":(\w+)", TEXTS[name]))
        plan = [str(row["detail"]) for row in Reader(url).rows(f"EXPLAIN QUERY PLAN {TEXTS[name]}", **unset)]
        over_all = [step for step in plan if "jobs_submit" in step or step.startswith("SCAN jobs")]
        assert not over_all, (name, plan)
        if name in ("waiting", "running_now", "open_with"):  # these questions read only the few open jobs
            assert "INDEX jobs_open" in plan[0], (name, plan)


def test_a_newer_schema_is_left_alone(url: str) -> None:
    store = Store(url, create=True)
    with store.begin() as connection:
        connection.execute(text("UPDATE meta SET value = '99' WHERE name = 'schema_version'"))
    with pytest.raises(BatchcastError, match="schema version 99"):
        Store(url)


def test_a_store_of_before_the_oldest_is_refused_and_kept(url: str) -> None:
    store = Store(url, create=True)
    take(store, job())
    with store.begin() as connection:
        connection.execute(text("UPDATE meta SET value = '8' WHERE name = 'schema_version'"))
    with pytest.raises(BatchcastError, match=r"schema version 8.*only versions from 9") as refused:
        Store(url)
    assert "move the store away and start batchcast collect" in (refused.value.hint or "")
    assert Reader(url).rows("SELECT job_id FROM jobs") == [{"job_id": "1"}]


def test_a_store_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoStore, match="no store at"):
        Reader(str(tmp_path / "nowhere.db"))
    (tmp_path / "junk.db").write_bytes(b"not a database at all, but long enough to be read as one" * 50)
    with pytest.raises(InputError, match="not a store"):
        Reader(str(tmp_path / "junk.db"))
    sqlite3.connect(tmp_path / "empty.db").close()
    with pytest.raises((InputError, Unreachable)):
        Reader(str(tmp_path / "empty.db"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://bob:secret@db/batchcast",
        "postgresql://db/batchcast?password=secret&user=bob",
        "postgresql://bob@db/batchcast?sslpassword=secret",
        "postgresql://bob:s%40ecret@db/batchcast?passfile=/home/secret",
    ],
)
def test_neither_users_nor_secrets_are_shown(url: str) -> None:
    shown = [shown_url(normal_url(url)), load({"store": url}, {}).shown("store")]
    shown.append(without_secrets('FATAL: password "secret" of user "bob" failed: s@ecret', url))
    assert not [text for text in shown[:2] if "secret" in text or "ecret" in text or "bob" in text]
    assert "bob" not in shown[2]


def test_a_password_is_never_shown() -> None:
    assert "secret" not in shown_url(normal_url("postgresql://bob:secret@db/batchcast"))


def without(url: str, *names: str) -> None:
    """A store as written by a batchcast that did not know these columns."""
    with Store(url, create=True) as store, store.begin() as connection:
        for name in names:
            connection.execute(text(f'ALTER TABLE jobs DROP COLUMN "{name}"'))


def test_a_store_of_before_a_field_was_known_gets_its_column(url: str) -> None:
    """As when `columns.py` has one line more than the batchcast that created the store."""
    without(url, "nice", "constraint", "partition_list")
    with Store(url) as store:
        seen = ended()
        take(store, seen._replace(requested={**seen.requested, "nice": 5.0, "constraint": "intel"}))
        assert rows(store, 'nice, "constraint"') == [(5.0, "intel")]


def test_several_open_a_store_of_before_at_once(url: str) -> None:
    without(url, "nice", "constraint")
    with ThreadPoolExecutor(8) as pool:
        for store in pool.map(Store, [url] * 16):
            assert rows(store, 'nice, "constraint"') == []
            store.close()


def test_a_store_of_before_a_field_was_known_can_be_read(url: str) -> None:
    """A reader changes nothing and need not wait for a restart of the collector: the new field is unknown."""
    without(url, "nice", "constraint")
    with Store(url, read_only=True) as before, before.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO jobs (cluster, job_id, submit_time, state, open, first_seen, user_id) "
                "VALUES ('c', '7', 100.0, 'PENDING', 1, 100.0, 'ada')"
            )
        )
    with Reader(url) as reader:
        (row,) = reader.waiting("c", "forecast")
        assert (row["job_id"], row["nice"], row["constraint"], row["user_id"]) == ("7", None, None, "ada")
        assert [one["job_id"] for one in reader.ask("latest", cluster="c", job_id="7")] == ["7"]
    with Store(url) as newer:
        take(newer, ended("8"))
    without(url, "nice", "constraint")
    with Store(url, read_only=True) as store, store.begin() as connection:
        assert to_trace(connection, "c").job_id.tolist() == [8]


def test_jobs_that_wait_are_exported_as_far_as_they_waited(store: Store) -> None:
    """Without these jobs, the log of a growing queue looks calmer than it was."""
    take(store, ended("1"), job("2", submit=120.0), running("3"), at=200.0)
    with store.begin() as connection:
        clock_jobs.write_meta(connection, "c", snapshot_at=200.0)
        trace = to_trace(connection, "c", waiting=True)
        assert len(to_trace(connection, "c")) == 1
    assert trace.job_id.tolist() == [1, 2]
    assert trace.nominal("status").decode() == ["completed", "pending"]
    assert trace.wait_time.tolist() == [10.0, 80.0]
    assert np.isnan(trace.run_time).tolist() == [False, True]
    assert trace.info.dropped["still open at export"] == 1
    kinds = [type(event).__name__ for event in events(trace)]
    assert kinds == ["Submit", "Start", "Submit", "End", "Withdraw"]
