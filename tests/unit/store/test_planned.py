"""Tests the record of planning, on SQLite and PostgreSQL."""

from __future__ import annotations

from sqlalchemy import insert

from batchcast.planning.record import Entry, State
from batchcast.store import planned
from batchcast.store.database import Store
from batchcast.store.history import remove_some
from batchcast.store.reader import Reader
from batchcast.store.schema import jobs

ONE = Entry("7_1", 100.0, 7200.0, 3600.0, State.INTENDED, 200.0)


def test_an_entry_is_what_was_written_last_and_the_audit_is_all_of_it(url: str) -> None:
    store = Store(url, create=True)
    later = ONE._replace(state=State.PLANNED, at=201.0)
    for entry in (ONE, later):
        with store.begin() as connection:
            planned.write(connection, "c", [(entry, 7200.0, 3600.0, "forecast")])
    with store.begin() as connection:
        planned.refuse(connection, "c", [(later, 7200.0, 3600.0, "it was not carried out")])
        assert planned.entries(connection, "c") == {"7_1": later}
        assert planned.entries(connection, "another") == {}
    steps = Reader(url).ask("plan_changes", cluster="c", since=0.0)
    assert [(s["what"], s["at"]) for s in steps] == [("intended", 200.0), ("planned", 201.0), ("refused", 201.0)]


def test_an_entry_goes_when_no_run_of_its_job_is_open_and_its_audit_when_it_is_old(url: str) -> None:
    store = Store(url, create=True)
    values = {"cluster": "c", "submit_time": 100.0, "state": "completed", "first_seen": 100.0}
    with store.begin() as connection:
        planned.write(connection, "c", [(ONE._replace(job_id=i), 7200.0, 3600.0, "") for i in ("1", "2", "3")])
        connection.execute(insert(jobs).values(**values, job_id="1", open=0, end_time=300.0, told=7))
        connection.execute(insert(jobs).values(**values, job_id="2", open=0))
        connection.execute(insert(jobs).values(**values | {"submit_time": 500.0}, job_id="2", open=1))
        assert list(planned.closed(connection, "c")) == ["1"]  # job 2 was requeued, and job 3 is unknown
        planned.forget(connection, "c", [(ONE._replace(job_id="1", at=9000.0), "it is over")])
        assert sorted(planned.entries(connection, "c")) == ["2", "3"]
        assert remove_some(connection, "c", 5000.0) == 1
    assert [s["what"] for s in Reader(url).ask("plan_changes", cluster="c", since=0.0)] == ["forget"]


def test_people_are_shown_their_own_limit_while_slurm_plans_with_another(url: str) -> None:
    store = Store(url, create=True)
    values = {"cluster": "c", "submit_time": 100.0, "state": "running", "first_seen": 100.0, "open": 1}
    standing = {
        "1": (3600.0, State.PLANNED),
        "2": (3600.0, State.FOREIGN),
        "3": (7200.0, State.RESTORED),
        "4": (900.0, State.PLANNED),
    }
    with store.begin() as connection:
        for job_id, (now, state) in standing.items():
            for start in (None, 200.0):
                row = {**values, "job_id": job_id, "limit_now": now, "start_time": start, "submit_time": start or 100.0}
                connection.execute(insert(jobs).values(**row))
            planned.write(connection, "c", [(ONE._replace(job_id=job_id, state=state), 7200.0, 3600.0, "")])
    store.close()
    expected = {"1": 7200.0, "2": 3600.0, "3": 7200.0, "4": 900.0}
    reader = Reader(url)
    asked = [reader.ask("running_now", cluster="c", user=None, method="m"), reader.waiting("c", "m")]
    asked += [reader.ask("open_with", cluster="c", user=None, account=None, qos=None, tasks=None, license=None)]
    for rows in asked:
        assert {row["job_id"]: row["limit_now"] for row in rows} == expected
