"""Broken and malicious HTTP clients: the service rejects them, and still answers the next request."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from batchcast.formats.sighting import Sighting
from batchcast.service.http import connection
from batchcast.service.http.admission import CONNECTIONS_EACH
from batchcast.service.http.server import Server
from batchcast.service.settings import Settings, load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store

HOST = b"Host: localhost\r\n"
LAST = HOST + b"Connection: close\r\n"
SCRIPT = b"POST /script HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n" + LAST
ORDINARY = b"GET /v1/start?job=100 HTTP/1.1\r\n"
FORM = b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\nb\r\n"


PARTS = SCRIPT.replace(b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=x")
FILE = b"--x\r\nContent-Disposition: form-data; name=script; filename=a\r\n\r\n" + b"a" * 10**6


def chunked(body: bytes, head: bytes = SCRIPT) -> bytes:
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + body


BROKEN: dict[str, tuple[bytes, int]] = {
    "words": (b"HELLO\r\n\r\n", 400),
    "no version": (b"GET /\r\n\r\n", 400),
    "a version to come": (b"GET / HTTP/9.9\r\n" + HOST + b"\r\n", 400),
    "no target": (b"GET  HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    "a space before the colon": (b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
    "a control character in a header": (ORDINARY + LAST + b"Authorization: Bearer \x01\r\n\r\n", 400),
    "headers after the body": (chunked(b"5\r\nhello\r\n0\r\na: b\r\n\r\n"), 400),
    "NUL in the line": (b"GET /\x00 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "NUL in a header": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n", 400),
    "nothing but NUL": (b"\x00" * 100_000, 400),
    "nothing but ends of lines": (b"\r\n" * 100_000, 400),
    "bytes that are no text": ("GET /ä HTTP/1.1\r\n".encode() + LAST + b"\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a target that is no address": (b"GET http://[::1/v1/start HTTP/1.1\r\n" + LAST + b"\r\n", 400),
    "percent signs": (b"GET /%ff%00%zz HTTP/1.1\r\n" + LAST + b"\r\n", 404),
    "a token that is no text": (ORDINARY + LAST + b"Authorization: Bearer \xff\r\n\r\n", 401),
    "1,000 languages": (
        b"GET /x HTTP/1.1\r\n" + LAST + b"Accept-Language: " + b"de;q=x," * 1000 + b"\r\n\r\n", 404),
    "a header of 1 MB": (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 10**6 + b"\r\n\r\n", 400),
    "100,000 headers": (b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 10**5 + b"\r\n", 400),
    "a line of 1 MB": (b"GET /" + b"a" * 10**6 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a head just too large": (b"GET / HTTP/1.1\r\n" + LAST + b"X: " + b"a" * 17_000 + b"\r\n\r\n", 431),
    "less than nothing": (SCRIPT + b"Content-Length: -5\r\n\r\nhello", 400),
    "a length in hex": (SCRIPT + b"Content-Length: 0x5\r\n\r\nhello", 400),
    "two lengths": (SCRIPT + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400),
    "a length of 30 digits": (SCRIPT + b"Content-Length: " + b"9" * 30 + b"\r\n\r\nhello", 400),
    "a length of 5,000 digits": (SCRIPT + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\nhello", 400),
    "a length of 19 digits": (SCRIPT + b"Content-Length: " + b"9" * 19 + b"\r\n\r\nhello", 413),
    "a body over the limit": (SCRIPT + b"Content-Length: 1000000\r\n\r\n" + b"a" * 10**6, 413),
    "chunks and a length": (chunked(b"5\r\nhello\r\n0\r\n\r\n", SCRIPT + b"Content-Length: 2\r\n"), 400),
    "a chunk over the limit": (chunked(b"F4240\r\n" + b"a" * 10**6 + b"\r\n0\r\n\r\n"), 413),
    "chunks of another coding": (SCRIPT + b"Transfer-Encoding: gzip\r\n\r\n", 400),
    "a chunk that is no number": (chunked(b"zz\r\n"), 400),
    "a chunk of 40 digits": (chunked(b"f" * 40 + b"\r\n"), 400),
    "chunks with 50,000 trailers": (chunked(b"5\r\nhello\r\n0\r\n" + b"a: b\r\n" * 50_000 + b"\r\n"), 400),
    "a form of 30,000 fields": (SCRIPT + b"Content-Length: 119999\r\n\r\n" + b"&".join([b"a=b"] * 30_000), 400),
    "a form in 5,000 parts": (PARTS + b"Content-Length: %d\r\n\r\n" % (len(FORM) * 5000) + FORM * 5000, 400),
    "a form without a boundary": (PARTS + b"Content-Length: 5\r\n\r\nhello", 400),
    "a file over the limit": (chunked(b"%x\r\n" % len(FILE) + FILE + b"\r\n0\r\n\r\n", PARTS), 413),
    "a body that never comes": (SCRIPT + b"Content-Length: 100\r\n\r\nscript=", 408),
    "a head that never comes": (ORDINARY + HOST, 408),
}  # fmt: skip


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    """An open site with one waiting job, at a location that every user may reach."""
    now = time.time()
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        store = Store(str(Path(place) / "s.db"), create=True)
        asked: dict[str, Any] = {"user_id": "ada", "partition_id": "main", "job_name": "relax"}
        with store.begin() as connection:
            history.take_in(connection, "c", [Sighting("100", "100", now - 60, "PENDING", requested=asked)], now)
            site = {"private": False, "partitions": {}}
            clock_jobs.write_meta(connection, "c", site=site, cycle_at=now, told_until=now)
        store.close()
        yield load({"store": str(Path(place) / "s.db"), "listen": str(Path(place) / "api.sock")}, {})


@pytest.fixture(scope="module", params=["unix", "loopback"])
def serves(request: pytest.FixtureRequest, settings: Settings) -> Iterator[tuple[Server, list[str]]]:
    """Start a server with short time limits for requests; return it with its log."""
    log: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "REQUEST_S", 0.5)
        patch.setattr(connection, "LAST_WORD_S", 0.1)
        listen = settings["listen"] if request.param == "unix" else "127.0.0.1:0"
        with Server(settings, listen, log.append) as server:
            yield server, log


def connected(address: Any) -> socket.socket:
    opened = socket.socket(socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX)
    opened.settimeout(60)
    opened.connect(address)
    return opened


def rest(opened: socket.socket) -> bytes:
    """Return all bytes that the server sends until it closes the connection."""
    taken = b""
    with contextlib.suppress(ConnectionResetError):  # a server that closes with unread input causes a TCP reset
        while part := opened.recv(65536):
            taken += part
    return taken


def told(address: Any, words: bytes) -> bytes:
    """Send these bytes, as far as the server accepts them; return the whole answer."""
    with connected(address) as rude:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            rude.sendall(words)
        return rest(rude)


def answers(address: Any) -> bool:
    """Return whether an ordinary request is answered: the job is known and has no prediction yet."""
    return told(address, ORDINARY + LAST + b"\r\n").startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_refused_once_with_a_document(serves: tuple[Server, list[str]], name: str) -> None:
    server, log = serves
    words, status = BROKEN[name]
    heard = told(server.address, words)
    answered = json.loads(heard.partition(b"\r\n\r\n")[2])["status"]
    assert heard.startswith(b"HTTP/1.1 %d " % answered), heard[:200]
    # a body that is too long is also a field that is too long: its first pieces decide which limit is met first
    assert answered == status or (name, answered) == ("a chunk over the limit", 400)
    assert heard.count(b"HTTP/1.1 ") == 1
    assert answers(server.address)
    assert not [line for line in log if "status=5" in line or line.startswith("error")]


def test_questions_in_a_row_are_answered_in_order_and_noise_after_them_refused(
    serves: tuple[Server, list[str]],
) -> None:
    address = serves[0].address
    heard = told(address, (ORDINARY + HOST + b"\r\n") * 300 + b"\x00\x00\r\n\r\n")
    assert heard.count(b"HTTP/1.1 404 ") == 300
    assert heard.count(b"HTTP/1.1 400 ") == 1
    assert heard.rindex(b"HTTP/1.1 404 ") < heard.index(b"HTTP/1.1 400 ")
    assert answers(address)


def test_who_hangs_up_anywhere_in_a_request_is_forgotten_and_no_defect(serves: tuple[Server, list[str]]) -> None:
    server, log = serves
    whole = SCRIPT.replace(b"Connection: close\r\n", b"") + b"Content-Length: 300\r\n\r\nscript=" + b"x" * 293
    for cut in range(1, len(whole) + 1, 5):
        with connected(server.address) as hasty:
            hasty.sendall(whole[:cut])
            if cut % 2:  # close at once, so that bytes on their way are lost
                hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert answers(server.address)
    assert not [line for line in log if "status=5" in line or line.startswith("error")]


@pytest.mark.parametrize("left", [1000, 30_000])
def test_answers_that_nobody_takes_are_given_up_however_little_is_left(
    settings: Settings, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that does not read its answers is dropped, also if the unread rest fits into asyncio's write buffer."""
    monkeypatch.setattr(connection, "TAKEN_S", 0.3)
    with Server(settings, settings["listen"], lambda _: None) as server:
        one = told(server.address, ORDINARY + LAST + b"\r\n")
        head = len(one.partition(b"\r\n\r\n")[0]) + 4
        held = _held_by_the_kernel(head, len(one) - head)
        with connected(str(server.address)) as greedy:
            greedy.sendall((ORDINARY + HOST + b"Accept-Encoding: identity\r\n\r\n") * (held + left // len(one)))
            ended = select.poll()
            ended.register(greedy, 0)  # report only that the connection was closed
            assert ended.poll(60_000), "the connection stays"
        assert answers(server.address)


def _held_by_the_kernel(head: int, body: int) -> int:
    """Return how many answers, written as head and body, fit into a unix socket from which nobody reads."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        ours.setblocking(False)
        for count in range(100_000):
            try:
                ours.send(b"x" * head)
                ours.send(b"x" * body)
            except BlockingIOError:
                return count
    raise AssertionError("a socket without an end")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a service without a time limit for silent clients, so that a slow machine cannot fail the test."""
    monkeypatch.setattr(connection, "REQUEST_S", 600.0)


@pytest.mark.usefixtures("patient")
def test_500_silent_connections_on_loopback_keep_nobody_from_asking(settings: Settings) -> None:
    with Server(settings, "127.0.0.1:0", lambda _: None) as server:
        silent = [connected(server.address) for _ in range(500)]
        for one in silent[::3]:
            one.sendall(ORDINARY + b"Host: loc")
        assert answers(server.address)
        assert server.admission.open >= 500
        silent[0].sendall(b"alhost\r\nConnection: close\r\n\r\n")
        assert rest(silent[0]).startswith(b"HTTP/1.1 404 "), "and they may still ask"
        for one in silent:
            one.close()
        assert answers(server.address)


HOLD = """
import os, socket, sys
def opened():
    one = socket.socket(socket.AF_UNIX); one.settimeout(60); one.connect(sys.argv[1]); return one
held = []
for uid in range(60001, 60010):
    os.seteuid(uid)
    held += [opened() for _ in range(56)]
    with opened() as asks:
        asks.sendall(b"GET /v1/start?job=100 HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
        print(len(held), asks.recv(65536).split()[1].decode(), flush=True)
    os.seteuid(0)
sys.stdin.read()
"""


@pytest.mark.usefixtures("patient")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become other users")
def test_500_silent_connections_of_nine_users_keep_nobody_from_asking(settings: Settings) -> None:
    assert CONNECTIONS_EACH > 56
    with (
        Server(settings, settings["listen"], lambda _: None) as server,
        subprocess.Popen([sys.executable, "-c", HOLD, str(server.address)], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, cwd="/") as users,
    ):  # fmt: skip
        assert users.stdout is not None
        said = [users.stdout.readline().split() for _ in range(9)]
        assert said == [[str(56 * (k + 1)), "404"] for k in range(9)], "each of them is answered, too"
        assert server.admission.open >= 500
        assert answers(str(server.address))
        users.communicate("")


class Process:
    """`batchcast serve` in a separate process."""

    def __init__(self, settings: Settings, files: int, listen: str = "127.0.0.1:0") -> None:
        command = [sys.executable, "-m", "batchcast", "serve", "--store", settings["store"], "--listen",
                   listen, "--json", "--quiet"]  # fmt: skip
        limits = resource.RLIMIT_NOFILE, (min(files, 256), files)
        limit = partial(resource.setrlimit, *limits)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit)
        assert self.process.stdout is not None
        text = b""
        while not text.endswith(b"\n}\n"):
            text += self.process.stdout.readline()
        host, _, port = json.loads(text)["results"][0]["listening_on"].removeprefix("http://").partition(":")
        self.address: Any = listen if "/" in listen else (host, int(port))

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.log = self.process.communicate()[1]

    def most_mb(self) -> float:
        """Return the largest memory of the process so far, in MB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


@pytest.mark.long
def test_memory_does_not_grow_with_what_is_sent(settings: Settings) -> None:
    flood = [words for words, status in BROKEN.values() if status != 408]
    flood += [chunked((b"10000\r\n" + b"a" * 65536 + b"\r\n") * 500),  # 32 MB of a body
              b"GET /" + b"a" * 32_000_000,
              (ORDINARY + HOST + b"\r\n") * 500 + b"\x00\r\n\r\n"]  # fmt: skip

    def one_round(address: Any) -> None:
        for words in flood:
            told(address, words)

    with Process(settings, 1024) as server:
        one_round(server.address)
        assert answers(server.address)
        before = server.most_mb()
        for _ in range(4):
            one_round(server.address)
        assert answers(server.address)
        assert server.most_mb() - before < 16.0, "four rounds send 300 MB; what is cyclic goes by hundreds of thousands"
        assert server.most_mb() < 110.0
    assert server.log.decode().count("\n") <= 2, "broken forms are no lines of the log"


def test_where_no_file_is_left_those_inside_are_answered_and_others_told_to_ask_again(settings: Settings) -> None:
    with Process(settings, 300) as server:
        inside = [connected(server.address) for _ in range(100)]
        assert told(server.address, b"").startswith(b"HTTP/1.1 503 ")
        inside[0].sendall(b"GET /v1/health HTTP/1.1\r\n" + LAST + b"\r\n")
        assert rest(inside[0]).startswith(b"HTTP/1.1 200 "), "the store is still read"
        for one in inside:
            one.close()
        while not answers(server.address):
            pass
