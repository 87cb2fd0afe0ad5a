"""Tests that one user cannot block others: connections, slow requests, floods; and a proxy that may speak for users."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.formats.sighting import Sighting
from batchcast.service.answers.disclosure import Viewer
from batchcast.service.http import admission, api, connection, work_queue
from batchcast.service.http import server as service_server
from batchcast.service.http.admission import Admission, Peer
from batchcast.service.http.server import Server
from batchcast.service.settings import Settings, load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
NOBODY = __import__("pwd").getpwuid(65534).pw_name


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    """A private site with a waiting job of nobody and one of bob, and history."""
    now = time.time()
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        store = Path(place) / "s.db"
        opened = Store(str(store), create=True)
        jobs = [
            Sighting(str(100 + k), str(100 + k), now - 60, "PENDING", reason="Resources",
                     requested={"user_id": (NOBODY, "bob")[k], "partition_id": "main", "job_name": f"secret-{k}"})
            for k in range(2)
        ]  # fmt: skip
        with opened.begin() as connection:
            history.take_in(connection, "c", jobs, now)
            site = {"private": True, "partitions": {}}
            clock_jobs.write_meta(connection, "c", site=site, cycle_at=now, told_until=now)
        store.chmod(0o600)
        yield load({"store": str(store), "listen": str(Path(place) / "api.sock"), "private": "yes"}, {})


@pytest.fixture
def server(settings: Settings) -> Iterator[Server]:
    with Server(settings, settings["listen"], lambda _: None) as opened:
        yield opened


def connected(server: Server) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX)
    opened.settimeout(30)
    opened.connect(str(server.address))
    return opened


def rest(opened: socket.socket) -> bytes:
    """Return everything that arrives until the server closes the connection."""
    taken = b""
    while part := opened.recv(65536):
        taken += part
    return taken


def status(server: Server, target: str, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("localhost", timeout=30)
    connection.sock = connected(server)
    connection.request("GET", target, headers=headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read() or b"null")


def test_a_request_that_drips_in_is_ended_after_one_total_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REQUEST_S", 0.3)
    with connected(server) as slow:
        try:
            while True:  # a time limit that counts from the last byte would start again with each byte
                slow.sendall(b"X")
                if b"408" in _waiting(slow):
                    break
        except (BrokenPipeError, ConnectionResetError):
            pass
    with connected(server) as silent:
        assert b"408 Request Timeout" in rest(silent)
    assert status(server, "/v1/start?job=100")[0] == 404  # 404: the job has no prediction yet, but the server answers


def _waiting(slow: socket.socket) -> bytes:
    slow.settimeout(0.01)
    try:
        return slow.recv(4096)
    except TimeoutError:
        return b""


@pytest.mark.parametrize(
    "target",
    ["/v1/report?starttime=now-99999999999days&user=x", "http://[::1/v1/start", "/v1/start?job=%00",
     "/v1/report?user=%00", "/v1/accuracy?starttime=uts" + "9" * 400, "/v1/walltime?name=x&risk=nan",
     "/v1/accuracy?starttime=0001-01-01", "/v1/accuracy?endtime=9999-12-31T23:59:59&starttime=9999-12-31"],
)  # fmt: skip
def test_absurd_questions_are_4xx_with_what_is_accepted(settings: Settings, target: str) -> None:
    found = api.reply(settings, target, Viewer("root", sees_all=True))
    assert 400 <= found.status < 500, found.body
    assert json.loads(found.body)["error"]


VALUES = st.one_of(st.text(max_size=30), st.sampled_from(
    ["100", "101", "bob", NOBODY, "secret*", "*", "%", "_", "now", "now-1days", "uts0", "c",
     "main", "5%"]))  # fmt: skip
NAMES = st.sampled_from(["job", "user", "name", "risk", "account", "partition", "starttime", "endtime", "x"])


@given(
    st.sampled_from([*api.ENDPOINTS, "/v1", "/v1/start/"]),
    st.lists(st.tuples(NAMES, VALUES), max_size=4),
    st.sampled_from([NOBODY, "bob", "eve", None]),
)
def test_no_question_is_a_500_or_shows_anothers_job(
    settings: Settings, place: str, parts: list[tuple[str, str]], who: str | None
) -> None:
    from urllib.parse import urlencode

    found = api.reply(settings, f"{place}?{urlencode(parts, errors='replace')}", Viewer(who))
    assert found.status < 500, found.body
    others = {NOBODY: "secret-1", "bob": "secret-0"}.get(who or "", "secret-")
    assert others not in json.dumps(json.loads(found.body).get("results", []))


@as_root
def test_the_connections_of_one_user_leave_room_for_others(server: Server) -> None:
    hold = """
import socket, sys
open_ones = []
for k in range(500):
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
    if k % 30 == 0: s.sendall(b"GET /v1/report HTT")
    open_ones.append(s)
last = open_ones[-1].recv(4096)
print(last.split()[1].decode(), flush=True)
sys.stdin.read()
"""
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", hold]
    with subprocess.Popen(
        [*command, str(server.address)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as bob:
        assert bob.stdout is not None
        assert bob.stdout.readline().strip() == "429"
        assert server.admission.open == admission.CONNECTIONS_EACH
        assert status(server, "/v1/start?job=100")[0] == 404
        bob.communicate("")


def test_a_flood_is_told_to_wait_and_others_are_not() -> None:
    at = [0.0]
    guard = Admission(load({}, {}), lambda: at[0])
    asked = [guard.wait_for(Viewer("bob")) for _ in range(200)]
    assert asked[: int(admission.BURST)] == [0.0] * int(admission.BURST)
    assert all(seconds > 0 for seconds in asked[int(admission.BURST) :])
    assert guard.wait_for(Viewer("alice")) == 0.0
    at[0] = 1.0
    assert guard.wait_for(Viewer("bob")) == 0.0


def test_only_the_named_proxy_may_say_for_whom_it_asks() -> None:
    guard = Admission(load({"proxy_header": "X-Forwarded-User", "proxy_from": "www-data"}, {}))
    proxy, bob = Peer(Viewer(None), True, "proxy"), Peer(Viewer("bob"), False, "bob")
    assert guard.spoken_for(proxy, "alice") == Viewer("alice")
    assert guard.spoken_for(bob, "alice") == Viewer("bob")
    for wrong in ("", "a" * 99, "alice, root", "../x", None):
        assert guard.spoken_for(proxy, wrong) == Viewer(None)
    assert not guard.spoken_for(proxy, "root").sees_all, "a header makes nobody an operator"


def test_a_request_with_two_names_of_a_user_is_refused(settings: Settings) -> None:
    """A proxy that appends its header to the client's would otherwise let the client choose the name."""
    named = settings.replaced(proxy_header="X-User", proxy_from="127.0.0.1")
    statuses = []
    with Server(named, "127.0.0.1:0", lambda _: None) as server:
        for names in (["alice"], ["bob", "alice"]):
            asking = http.client.HTTPConnection(*server.address[:2], timeout=60)
            asking.putrequest("GET", "/v1/health")
            for name in names:
                asking.putheader("X-User", name)
            asking.endheaders()
            statuses.append(asking.getresponse().status)
            asking.close()
    assert statuses == [200, 400]


@as_root
def test_a_header_from_somebody_else_means_nothing(settings: Settings) -> None:
    named = settings.replaced(proxy_header="X-Forwarded-User", proxy_from="www-data")
    code = (
        "import http.client,socket,sys\nc=http.client.HTTPConnection('localhost')\n"
        "c.sock=socket.socket(socket.AF_UNIX)\n"
        "c.sock.connect(sys.argv[1]);c.request('GET','/v1/start?user=bob',headers={'X-Forwarded-User':'bob'})\n"
        "print(c.getresponse().status)"
    )

    def as_user(name: str, path: str) -> str:
        import pwd

        uid = str(pwd.getpwnam(name).pw_uid)
        command = ["setpriv", f"--reuid={uid}", "--clear-groups", sys.executable, "-c", code, path]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.strip()

    with Server(named, named["listen"], lambda _: None) as server:
        assert as_user(NOBODY, str(server.address)) == "403"
        assert as_user("www-data", str(server.address)) == "404"  # bob may ask, but his job has no prediction yet


def test_health_is_worked_out_once_for_all(server: Server, settings: Settings) -> None:
    """The second answer is what was computed before the store became unreachable."""
    found = status(server, "/v1/health")
    assert found[0] == 200
    there = Path(settings["store"])
    away = there.rename(there.with_name("away.db"))
    try:
        assert status(server, "/v1/health") == found
        assert any(one["state"] == "failed" for one in api_health(settings))
    finally:
        away.rename(there)


def api_health(settings: Settings) -> list[dict[str, Any]]:
    return json.loads(api.reply(settings, "/v1/health", Viewer("root", sees_all=True)).body)["results"]


def test_a_defect_costs_its_answer_and_is_said_even_when_quiet(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with Server(settings, settings["listen"], said.append, quiet=True) as server:
        monkeypatch.setattr(api, "reply", lambda *_, **__: 1 / 0)
        code, document = status(server, "/v1/start?job=7")
        assert (code, document["schema"]) == (500, "batchcast/error/1")
        monkeypatch.undo()
        assert status(server, "/v1/start?job=100")[0] == 404
    assert any("ZeroDivisionError" in line for line in said)
    assert not any("status=404" in line for line in said)


def test_one_user_has_so_many_questions_open_and_no_more(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from batchcast.service.http import work_queue

    monkeypatch.setattr(work_queue, "MOST_WAITING", 2)
    hold, answered = threading.Event(), []
    reply = api.reply
    monkeypatch.setattr(api, "reply", lambda *a, **k: (hold.wait(30), reply(*a, **k))[1])
    asking = [
        threading.Thread(target=lambda k=k: answered.append(status(server, f"/v1/start?job={1000 + k}")[0]))
        for k in range(6)
    ]
    for one in asking:
        one.start()
    try:
        while len(answered) < 4:
            asking[len(answered)].join(0.01)
        assert answered == [429] * 4
    finally:
        hold.set()
        for one in asking:
            one.join()
    assert len(answered) == 6


def test_who_waits_when_the_service_ends_is_told_to_ask_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression from make try-deb: after the time for last answers, such a client got a 500, and the log a
    traceback."""
    asked = threading.Event()

    async def never(answer: object, seconds: float) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(work_queue, "in_child", never)
    monkeypatch.setattr(service_server, "LAST_ANSWERS_S", 0.2)
    log: list[str] = []
    got: list[tuple[int, Any]] = []
    with Server(settings, settings["listen"], log.append) as server:
        waits = threading.Thread(target=lambda: got.append(status(server, "/v1/accuracy")))
        waits.start()
        assert asked.wait(30)
    waits.join()
    assert got[0][0] == 503
    assert got[0][1]["try"] == "ask again"
    assert not any("status=500" in line or line.startswith("error") for line in log)


def test_what_nobody_waits_for_any_more_ends(settings: Settings) -> None:
    """Reading stops when an answer's time is over, not when the whole history has been read."""
    from batchcast.store.reader import Reader, TooLong, time_to_read

    reader = Reader(settings["store"])
    assert len(list(reader.each("clusters"))) == 1
    with time_to_read(-1.0), pytest.raises(TooLong):
        list(reader.each("clusters"))
    assert len(list(reader.each("clusters"))) == 1


def test_an_answer_that_takes_too_long_is_503_and_leaves_the_lane(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from batchcast.service.http import work_queue

    monkeypatch.setattr(work_queue, "ANSWER_S", 0.0)
    assert status(server, "/v1/report?user=x")[0] == 503
    connection = http.client.HTTPConnection("localhost", timeout=30)
    connection.sock = connected(server)
    connection.request("GET", "/operators")
    assert connection.getresponse().status == 503
    monkeypatch.undo()
    assert status(server, "/v1/report?user=x")[0] == 404
