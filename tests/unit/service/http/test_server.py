"""Tests the real server on a real socket: it returns the documents of --json to users who may see them."""

from __future__ import annotations

import http.client
import json
import os
import socket
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.until import until

from batchcast.errors import BatchcastError, InputError, UsageError
from batchcast.service.answers.disclosure import Viewer
from batchcast.service.http import api, app, snapshot
from batchcast.service.http import server as service
from batchcast.service.http.admission import Peer
from batchcast.service.http.server import Server
from batchcast.service.settings import Settings

from .past import USERS


def get(server: Server, target: str, method: str = "GET", **headers: str) -> tuple[int, Any]:
    if server.is_tcp:
        connection = http.client.HTTPConnection(*server.address[:2], timeout=10)
    else:
        connection = http.client.HTTPConnection("localhost", timeout=10)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(server.address))
    connection.request(method, target, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    assert "Traceback" not in body
    return answer.status, json.loads(body) if body else None


TARGETS = ["/v1/start?job=200", "/v1/start?user=user1", "/v1/walltime?job=200", "/v1/walltime?name=rel*&user=user2",
           "/v1/report?user=user0&starttime=uts0", "/v1/accuracy?starttime=uts0", "/v1/health"]  # fmt: skip


@pytest.mark.parametrize("listen", ["unix", "127.0.0.1:0", "[::1]:0"])
def test_every_question_has_the_document_of_json(made: Callable[[bool], Settings], listen: str, tmp_path: Path) -> None:
    if listen.startswith("[") and not socket.has_ipv6:
        pytest.skip("no IPv6 on this machine")
    with service.Server(made(False), str(tmp_path / "api.sock") if listen == "unix" else listen, print) as server:
        for target in TARGETS if listen == "unix" else TARGETS[:1]:
            status, document = get(server, target)
            if target.startswith("/v1/walltime"):  # the store's clock is in 1970, so no job is recent enough
                assert status == 404
                continue
            assert status == 200, document
            assert set(document) == {"schema", "log", "settings", "warnings", "results"}
            assert document["results"]
        assert get(server, "/v1/start?job=200")[1]["results"][0]["job_id"] == "200"


def test_the_socket_says_who_asks_and_goes_with_the_server(
    made: Callable[[bool], Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "api.sock"
    with service.Server(made(True), str(path), print) as server:
        assert stat.S_ISSOCK(path.stat().st_mode)
        seen: list[Peer] = []
        peer = server.admission.peer
        monkeypatch.setattr(server.admission, "peer", lambda c: seen.append(peer(c)) or seen[-1])
        assert get(server, "/v1/start?user=user1")[0] == 200  # the user who runs the service may see everything
        assert seen[0].viewer == Viewer(__import__("pwd").getpwuid(os.getuid()).pw_name, sees_all=True)
        with pytest.raises(BatchcastError, match="another server answers"):
            Server(made(True), str(path), print)
    assert not path.exists()
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    with service.Server(made(True), str(path), print) as server:
        assert get(server, "/v1/health")[0] == 200


def asked(settings: Settings, target: str, who: Viewer) -> tuple[int, Any]:
    found = api.reply(settings, target, who, now=2710.0 + 86400)  # the day of these jobs is complete
    return found.status, json.loads(found.body)


@pytest.mark.parametrize(
    ("target", "own", "other", "nobody"),
    [
        ("/v1/start?job=201", 200, 404, 403),
        ("/v1/start?user=user1", 200, 403, 403),
        ("/v1/start", 200, 404, 400),
        ("/v1/walltime?job=101", 200, 403, 403),
        ("/v1/walltime?name=rel*&user=user1", 200, 403, 403),
        ("/v1/walltime?job=4242", 403, 403, 403),
        ("/v1/report?user=user1&starttime=uts0", 200, 403, 403),
        ("/v1/report?partition=main&starttime=uts0", 200, 200, 200),
        ("/v1/report?user=user1&partition=main&starttime=uts0", 200, 403, 403),
        ("/v1/accuracy?starttime=uts0", 200, 200, 200),
        ("/v1/health", 200, 200, 200),
    ],
)
def test_a_private_site(made: Callable[[bool], Settings], target: str, own: int, other: int, nobody: int) -> None:
    for who, wanted in ((Viewer("user1"), own), (Viewer("eve"), other), (Viewer(None), nobody)):
        status, document = asked(made(True), target, who)
        assert status == wanted, document
        if who.name != "user1":
            assert not any(user in json.dumps(document.get("results", [])) for user in USERS)
    assert asked(made(True), target, Viewer("root", sees_all=True))[0] in (200, 404)


def test_figures_over_too_few_users_stay_hidden(made: Callable[[bool], Settings]) -> None:
    few = made(True).replaced(least_users=7)
    assert asked(few, "/v1/accuracy?starttime=uts0", Viewer("eve"))[0] == 404
    assert asked(few, "/v1/report?partition=main&starttime=uts0", Viewer("eve"))[0] == 404


@pytest.mark.parametrize(
    ("target", "status", "said"),
    [
        ("/", 404, "accepted: /v1/start"),
        ("/v1/start?jobs=1", 400, "accepted: job, user"),
        ("/v1/start?job=/etc/passwd", 400, "not a job id"),
        ("/v1/walltime?job=../x", 400, "not a job id"),
        ("/v1/walltime", 400, "job=ID, name=GLOB"),
        ("/v1/walltime?name=x&risk=2", 400, "not a share"),
        ("/v1/start?user=a&user=b", 400, "accepted: once"),
        ("/v1/accuracy?starttime=yesteryear", 400, "not a time"),
        ("/v1/start?job=999", 404, "not waiting"),
        ("/v1/start?job=" + "1" * 7000, 400, "longer than"),
    ],
)
def test_errors_teach(made: Callable[[bool], Settings], target: str, status: int, said: str) -> None:
    found, document = asked(made(False), target, Viewer("user1"))
    assert found == status
    assert said in document["error"] + document["try"]


def test_what_is_not_a_get_and_what_comes_from_elsewhere_is_refused(made: Callable[[bool], Settings]) -> None:
    with service.Server(made(False), "127.0.0.1:0", print) as server:
        assert get(server, "/v1/health", "POST")[0] == 405
        assert get(server, "/v1/health", "HEAD") == (200, None)
        assert get(server, "/v1/health", Host="evil.example")[0] == 403
        assert get(server, "/v1/health", Host="localhost:8000")[0] == 200
        with socket.create_connection(server.address[:2]) as rude:
            rude.sendall(b"\x00\xff junk\r\n\r\n")
            answer = b""
            while piece := rude.recv(4096):  # the head may arrive before the body
                answer += piece
            assert b"batchcast/error/1" in answer
        assert get(server, "/v1/health")[0] == 200


@pytest.mark.parametrize("listen", ["0.0.0.0:80", "192.0.2.1:80", "somewhere:80", "127.0.0.1", "127.0.0.1:99999"])
def test_only_this_machine_may_ask(made: Callable[[bool], Settings], listen: str) -> None:
    with pytest.raises(UsageError, match="accepted: a path"):
        Server(made(False), listen, print)


def test_a_place_that_cannot_be_had(made: Callable[[bool], Settings], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in ("file", "no/such/api.sock"):
        with pytest.raises(InputError, match="listen"):
            Server(made(False), str(tmp_path / place), print)
    assert (tmp_path / "file").exists()


HEAD = "GET {} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def raw(server: Server, target: str) -> tuple[int, Any]:
    """Send the request that `batchcast.lua` sends; return everything until the connection ends."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(10)
        one.connect(str(server.address))
        one.sendall(HEAD.format(target).encode())
        received = b""
        while piece := one.recv(65536):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def told(document: Any) -> Any:
    """Return the document without the values that change between questions."""
    return {**document, "results": [{**r, "likely_start_s": 0, "by_90_start_s": 0} for r in document["results"]]}


def test_the_short_way_says_what_the_usual_way_says(
    made: Callable[[bool], Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short: list[str] = []
    answer = app._Frame._reply_from_memory

    def noted(self: Any, scope: Any, endpoint: Any) -> Any:
        if replied := answer(self, scope, endpoint):
            short.append(scope["path"])
        return replied

    monkeypatch.setattr(app._Frame, "_reply_from_memory", noted)
    own_header = {"X-Own": "1"}  # with this header, the service does not use the fast path
    log: list[str] = []
    with service.Server(made(False), str(tmp_path / "api.sock"), log.append) as server:
        target = "/v1/hint?user=user1&partition=main&name=relax&ntasks=4&time=120"
        usual = get(server, target, **own_header)
        assert usual[0] == 200
        assert not short
        until(lambda: raw(server, target)[0] == 200 and short)  # the first questions may come before the queue is read
        before = len(short)
        assert raw(server, target)[0] == 200
        assert told(raw(server, target)[1]) == told(usual[1])
        assert len(short) == before + 2
        for wrong in ("/v1/hint?user=user1&ntasks=many", "/v1/hint?partition=none&user=nobody", "/v1/hint?x=1&user=a"):
            assert raw(server, wrong) == get(server, wrong, **own_header)
        told_short = len(short)
        assert raw(server, "/v1/report?user=user0&starttime=uts0")[0] == 200  # any other question takes the usual path
        assert len(short) == told_short
    assert sum("path='/v1/hint' status=200" in line for line in log) >= before + 3  # each request is in the log


def test_when_a_job_starts_is_said_the_short_way_too_question_after_question(
    made: Callable[[bool], Settings], tmp_path: Path
) -> None:
    with (
        service.Server(made(False), str(tmp_path / "api.sock"), print) as server,
        socket.socket(socket.AF_UNIX) as one,
    ):
        get(server, "/v1/start?job=200")
        one.settimeout(10)
        one.connect(str(server.address))
        answers = one.makefile("rb")
        plain, other = "Host: localhost\r\n", "Host: localhost\r\nX-Own: 1\r\n"
        seen = []
        for job, head in ((200, plain), (201, plain), (200, other), (999, plain), (201, plain)):
            one.sendall(f"GET /v1/start?job={job} HTTP/1.1\r\n{head}\r\n".encode())
            status = int(answers.readline().split()[1])
            fields = dict(line.decode().lower().split(": ", 1) for line in iter(answers.readline, b"\r\n"))
            document = json.loads(answers.read(int(fields["content-length"])))
            seen.append((status, fields.get("etag"), document.get("results", [{}])[0].get("job_id")))
        short, other_job, usual, unknown, last = seen
        assert short == usual, "the same answer with the same mark"
        assert (other_job[0], other_job[2]) == (200, "201")
        assert unknown[0] == 404
        assert last == other_job


def test_an_answer_is_kept_until_the_queue_changes(made: Callable[[bool], Settings], tmp_path: Path) -> None:
    settings = made(False)
    with service.Server(settings, str(tmp_path / "api.sock"), print) as server:
        until(lambda: raw(server, "/v1/start?job=200") == raw(server, "/v1/start?job=200"))  # also states equal times
        first = raw(server, "/v1/start?job=200")[1]["settings"]["now_s"]
        assert raw(server, "/v1/start?job=201")[1]["settings"]["now_s"] > first
        os.utime(settings["store"])
        until(lambda: raw(server, "/v1/start?job=200")[1]["settings"]["now_s"] > first)


def test_kept_answers_end_by_time_and_are_few_and_short(monkeypatch: pytest.MonkeyPatch) -> None:
    now, queue = 100.0, object()
    monkeypatch.setattr(snapshot.time, "monotonic", lambda: now)
    kept = snapshot.AnswerCache[str]()
    for question in range(snapshot.MOST_KEPT + 1):
        assert kept.get(queue, question) is None
        kept.keep(question, "answer", size=6)
    assert kept.get(queue, snapshot.MOST_KEPT) == "answer"
    assert kept.get(queue, 0) is None, "it was forgotten when there were too many"
    kept.keep("long", "answer", size=snapshot.LONGEST_KEPT + 1)
    assert kept.get(queue, "long") is None
    now += snapshot.KEPT_S
    assert kept.get(queue, snapshot.MOST_KEPT) is None


def _as_user(name: str, _: object) -> Peer:
    return Peer(Viewer(name), False, name)


def test_the_short_way_shows_nobody_elses(
    made: Callable[[bool], Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service.Server(made(True), str(tmp_path / "api.sock"), print) as server:
        get(server, "/v1/start?user=user1")
        for name, status in (("user1", 200), ("user2", 403), ("slurm", 200)):
            monkeypatch.setattr(server.admission, "peer", partial(_as_user, name))
            target = "/v1/hint?user=user1&partition=main&name=relax&ntasks=4&time=120"
            assert raw(server, target)[0] == get(server, target)[0] == status
            target = "/v1/start?user=user1"
            assert raw(server, target)[0] == get(server, target)[0] == (200 if name == "user1" else 403)
