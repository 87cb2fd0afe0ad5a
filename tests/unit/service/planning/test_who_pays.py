"""Tests who pays for the order: users with long jobs wait longer, users with short jobs shorter, and a private site
shows no names."""

from __future__ import annotations

import http.client
import socket
import time
from pathlib import Path

import pytest
from sqlalchemy import insert

from batchcast.service.answers.disclosure import Site, Viewer
from batchcast.service.http.server import Server
from batchcast.service.planning.effects import who_pays
from batchcast.service.settings import load
from batchcast.store import clock_jobs, planned
from batchcast.store.database import Store
from batchcast.store.planned import Standing, Step
from batchcast.store.reader import Reader
from batchcast.store.schema import jobs

SETTINGS = load({"plan": "order", "plan_age_s": 86400.0}, {})


def site_of(
    place: Path, ordered: bool = True, private: bool = False, procs: float = 4.0, begin: float = 1000.0
) -> Site:
    """Every hour three one-hour jobs of `long`, then three five-minute jobs of `short`, on a machine of four
    processors."""
    store = Store(str(place / "s.db"), create=True)
    with store.begin() as connection:
        clock_jobs.write_meta(connection, "c", total_procs=procs)
        if ordered:
            planned.write_order(
                connection, "c", {"0": Standing(7, 0)}, [Step("0", 0.0, "sets", 0, 7, "its place")], begin - 500.0
            )
        for k in range(240):
            name, run = ("long", 5400.0) if k % 6 < 3 else ("short", 300.0)
            submit = begin + k // 6 * 3600.0 + k % 6
            values = {"cluster": "c", "job_id": str(k), "submit_time": submit, "first_seen": submit, "open": 0}
            more = {"user_id": name, "account": f"of_{name}", "partition_id": "main", "req_procs": 3.0}
            more |= {"req_time": 2.0 * run, "state": "completed", "status": "completed"}
            connection.execute(
                insert(jobs).values(**values, **more, start_time=submit + 60.0, end_time=submit + 60.0 + run)
            )
    store.close()
    return Site(Reader(str(place / "s.db")), "c", {"total_procs": procs}, private, SETTINGS, Viewer(None), 1e12)


def get(server: Server, target: str) -> str:
    """Return what the service answers on its socket."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(server.address))
    connection.request("GET", target)
    return connection.getresponse().read().decode()


def test_short_jobs_gain_and_long_ones_pay(tmp_path: Path) -> None:
    rows = {(r["by"], r["group"]): r for r in who_pays(site_of(tmp_path), 0.0, 1e12)}
    assert set(rows) == {("user", "long"), ("user", "short"), ("account", "of_long"), ("account", "of_short")}
    short, long = rows["user", "short"], rows["user", "long"]
    assert short["then_s"] < short["now_s"]
    assert long["then_s"] >= long["now_s"]
    assert short["differences"]["wait_s"].value == pytest.approx(short["then_s"] - short["now_s"])
    assert short["recorded_s"] == 60.0
    assert short["jobs"] == 120


def test_nothing_is_told_without_an_order_or_of_private_jobs_or_an_unknown_machine(tmp_path: Path) -> None:
    for k, case in enumerate(({"ordered": False}, {"private": True}, {"procs": 0.0})):
        place = tmp_path / str(k)
        place.mkdir()
        assert who_pays(site_of(place, **case), 0.0, 1e12) == []


def test_accuracy_prints_the_table_and_the_page_for_operators_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from batchcast.cli.users.accuracy import _print_who_pays
    from batchcast.service.page.cluster import operator_figures

    now = time.time()
    site_of(tmp_path, begin=now - 2 * 86_400.0).reader.close()
    there = SETTINGS.replaced(store=str(tmp_path / "s.db"), private="no")
    rows = operator_figures(there, Viewer("root", sees_all=True), now)["pays"]
    assert {row["group"] for row in rows} == {"long", "short", "of_long", "of_short"}
    assert not operator_figures(there.replaced(plan="limits"), Viewer("root", sees_all=True), now)["pays"]
    with Server(there, str(tmp_path / "api.sock"), lambda _: None) as server:
        page = get(server, "/operators")
    [short] = [row for row in rows if row["group"] == "short"]
    assert f"{short['differences']['wait_s'].value / 60:,.1f}" in page
    _print_who_pays(rows)
    text = capsys.readouterr().out
    assert "BY ARRIVAL" in text
    assert [line.split()[:2] for line in text.splitlines() if " short " in line] == [["user", "short"]]
