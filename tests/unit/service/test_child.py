"""Tests that answers over a long history are computed in a separate process and block no other user."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from tests.until import until

from batchcast.errors import NoAnswer
from batchcast.formats.sighting import Sighting
from batchcast.service import child_process
from batchcast.service.http.server import Server
from batchcast.service.settings import Settings, load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store
from batchcast.store.reader import TooLong

HEAVY = ["/v1/report?partition=main&starttime=uts0", "/v1/accuracy?starttime=uts0", "/v1/health",
         "/cluster", "/accuracy", "/operators"]  # fmt: skip
COMPILED = ["/v1/test?partition=main&ntasks=4", "/script?job=100"]
"""Questions that may compile code first; their processes are stopped here."""


def run(answer: Callable[[], Any], seconds: float = 60.0) -> Any:
    return asyncio.run(child_process.in_child(answer, seconds))


def refuse() -> None:
    raise NoAnswer("nothing here", hint="look there")


def hold(megabytes: int) -> int:
    held = bytearray(megabytes * 10**6)
    Event().wait(60)
    return len(held)


def read_on(path: str) -> int:
    """A question without an end, like a report over an ever growing history."""
    from batchcast.store.reader import Reader

    reader = Reader(path)
    while True:
        list(reader.each("clusters"))


def children() -> list[int]:
    """Return the running answer processes that this process started; tests of commands leave others running."""
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split() if answers(int(pid))]


def answers(pid: int) -> bool:
    try:
        return b"batchcast.service.child_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def stopped() -> list[int]:
    """Child processes that are paused."""
    return [pid for pid in children() if is_stopped(pid)]


def is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def test_an_answer_is_worked_out_elsewhere_and_at_a_lower_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert child_process.NICE > 0
    assert run(os.getpid) not in (os.getpid(), *children())
    assert run(partial(os.nice, 0)) == min(os.nice(0) + child_process.NICE, 19)


def test_what_goes_wrong_is_said_as_if_it_were_here() -> None:
    with pytest.raises(NoAnswer, match="nothing here") as caught:
        run(refuse)
    assert caught.value.hint == "look there"
    with pytest.raises(RuntimeError, match="ValueError: invalid literal"):
        run(partial(int, "x"))
    with pytest.raises(TooLong, match="signal 11"):
        run(partial(signal.raise_signal, signal.SIGSEGV))
    assert not children()


def test_too_much_memory_ends_that_answer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "MOST_MB", 120)
    with pytest.raises(TooLong, match="more than 120 MB"):
        run(partial(hold, 200))
    assert run(partial(len, b"next")) == 4


def test_too_much_time_ends_it(store: Settings) -> None:
    with pytest.raises(TooLong, match="takes too long"):
        run(partial(read_on, store["store"]), 0.5)


def test_it_ends_with_whoever_asked() -> None:
    """After a server is killed with SIGKILL, no process continues to read."""
    code = (
        "import asyncio\nfrom functools import partial\nfrom batchcast.service.child_process import in_child\n"
        "from tests.unit.service.test_child import hold\nasyncio.run(in_child(partial(hold, 1), 60.0))"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3]) as server:
        started = Path(f"/proc/{server.pid}/task/{server.pid}/children")
        pid = int(until(lambda: started.read_text().split())[0])
        server.kill()
        until(lambda: is_gone(pid))


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A store with a waiting job, its prediction, and history."""
    from batchcast.predict.protocol import Prediction

    now, place = time.time(), tmp_path_factory.mktemp("s")
    opened = Store(str(place / "s.db"), create=True)
    asked: dict[str, float | str | None] = {"user_id": "alice", "partition_id": "main", "req_procs": 4.0}
    jobs = [Sighting("100", "100", now - 60, "PENDING", reason="Resources", requested=asked)]
    jobs += [
        Sighting(str(k), str(k), now - 9000, "COMPLETED", start_time=now - 8000, end_time=now - 7000, requested=asked)
        for k in range(30)
    ]
    with opened.begin() as connection:
        history.take_in(connection, "c", jobs, now)
        rows = connection.exec_driver_sql("SELECT row FROM jobs").scalars().all()
        said = {"kind": "wait", "moment": "submit", "method": "recent_wait", "as_of": now - 9000, "issued_at": now,
                "prediction": Prediction(500.0, (0.9,), (5000.0,))}  # fmt: skip
        clock_jobs.issue(connection, [{**said, "row": row} for row in rows])
        site = {"private": False, "partitions": {"main": {"is_default": True}}}
        clock_jobs.write_meta(connection, "c", site=site, cycle_at=now, told_until=now, wait_methods=["recent_wait"],
                              total_procs=64.0)  # fmt: skip
    opened.close()
    return load({"store": str(place / "s.db"), "listen": str(place / "api.sock"), "private": "no"}, {})


@pytest.fixture
def server(store: Settings) -> Iterator[Server]:
    with Server(store, store["listen"], lambda _: None) as opened:
        asked(opened, "/v1/start?job=100")
        until(lambda: not children())  # the first track record has been computed
        yield opened


@pytest.fixture
def halted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every child process pauses before it begins its work, until the test lets it continue."""
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP); "
    monkeypatch.setattr(child_process, "_CODE", code + child_process._CODE)


def connected(server: Server) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX)
    opened.settimeout(60)
    opened.connect(str(server.address))
    return opened


def asked(server: Server, target: str) -> int:
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = connected(server)
    connection.request("GET", target)
    answer = connection.getresponse()
    answer.read()
    return answer.status


@pytest.mark.parametrize("target", [*HEAVY, *COMPILED])
def test_start_is_answered_while_long_work_stands_still(server: Server, halted: None, target: str) -> None:
    """No part of a long answer is computed in the server's process: there is no answer while the child is paused."""
    codes: list[int] = []
    long = Thread(target=lambda: codes.append(asked(server, target)))
    long.start()
    try:
        pid = until(stopped)[0]
        assert [asked(server, "/v1/start?job=100") for _ in range(30)] == [200] * 30
        assert [asked(server, "/") for _ in range(3)] == [200] * 3
        assert not codes
        assert stopped() == [pid]
    finally:
        for one in stopped():
            os.kill(one, signal.SIGKILL if target in COMPILED else signal.SIGCONT)
        long.join()
    assert codes == [503 if target in COMPILED else 200]


def test_one_report_at_a_time_and_who_watches_does_not_wait_for_it(server: Server, halted: None) -> None:
    codes: dict[str, int] = {}
    reports = [Thread(target=lambda: codes.update(report=asked(server, HEAVY[0]))) for _ in range(3)]
    for one in reports:
        one.start()
    pid = until(stopped)[0]
    assert [asked(server, "/v1/start?job=100") for _ in range(30)] == [200] * 30
    assert stopped() == [pid], "the other two wait for the first"
    watching = Thread(target=lambda: codes.update(health=asked(server, "/v1/health")))
    watching.start()
    os.kill(until(lambda: [one for one in stopped() if one != pid])[0], signal.SIGCONT)
    watching.join()
    assert codes == {"health": 200}

    def all_go_on() -> bool:
        for one in stopped():
            os.kill(one, signal.SIGCONT)
        return not any(one.is_alive() for one in reports)

    until(all_go_on)
    assert codes == {"health": 200, "report": 200}


def test_metrics_do_not_wait_for_how_forecasts_came_out(server: Server, halted: None) -> None:
    """Children are not abandoned when a scrape ends: the next scrape uses them."""
    assert asked(server, "/metrics") == 200
    pid = until(stopped)[0]
    assert "forecasts_30d" not in page(server)
    os.kill(pid, signal.SIGCONT)
    until(lambda: "forecasts_30d" in page(server))


def page(server: Server) -> str:
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = connected(server)
    connection.request("GET", "/metrics")
    return connection.getresponse().read().decode()


def test_whoever_hangs_up_is_worked_for_no_longer(server: Server, halted: None) -> None:
    with connected(server) as bob:
        bob.sendall(b"GET /v1/report?partition=main HTTP/1.1\r\nHost: localhost\r\n\r\n")
        pid = until(stopped)[0]
    until(lambda: is_gone(pid))
    assert asked(server, "/v1/start?job=100") == 200


def test_no_child_outlives_the_service(store: Settings, halted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from batchcast.service.http import server as service

    monkeypatch.setattr(service, "LAST_ANSWERS_S", 0)
    with Server(store, store["listen"], lambda _: None) as opened:
        bob = connected(opened)
        bob.sendall(b"GET /v1/report?partition=main HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(stopped)
    assert not children()
    bob.close()


def test_a_child_is_waited_for_however_often_its_question_is_cancelled() -> None:
    """As when a service is asked twice to stop: first the answer is cancelled, then everything."""

    async def asked_and_cancelled_twice() -> None:
        question = asyncio.ensure_future(child_process.in_child(partial(hold, 1), 60))
        while not children():
            await asyncio.sleep(0)
        for _ in range(5):
            question.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await question

    asyncio.run(asked_and_cancelled_twice())
    assert not children()


def test_each_store_is_opened_by_the_child_itself(url: str) -> None:
    """With PostgreSQL too, no connection is shared, and no password is among the child's arguments."""
    from batchcast.service.answers.disclosure import Viewer
    from batchcast.service.http import api

    opened = Store(url, create=True)
    with opened.begin() as connection:
        clock_jobs.write_meta(connection, "c", cycle_at=time.time())
        reply = run(partial(api.reply, load({"store": url}, {}), "/v1/health", Viewer("root", sees_all=True)))
    assert reply.status == 200
    assert "schema" in reply.body
    opened.close()
