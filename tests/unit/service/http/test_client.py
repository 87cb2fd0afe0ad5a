"""Tests the client that programs copy: answers of a real server, and unchanged requests without a server."""

from __future__ import annotations

import logging
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import batchcast.client
from batchcast.client import Client, Start
from batchcast.formats.slurm.sbatch import Request
from batchcast.service.answers.disclosure import Viewer
from batchcast.service.answers.script import answer_options
from batchcast.service.http import server as service
from batchcast.service.http.admission import Peer
from batchcast.service.settings import Settings

Made = Callable[[bool], Settings]


@pytest.mark.parametrize("listen", ["unix", "127.0.0.1:0"])
def test_a_request_is_shortened_and_never_made_longer(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listen: str
) -> None:
    place = str(tmp_path / "api.sock") if listen == "unix" else listen
    with service.Server(made(False), place, lambda _: None) as server:
        monkeypatch.setattr(server.admission, "peer", lambda _: Peer(Viewer("user1"), False, "user1"))
        address = str(server.address) if listen == "unix" else f"http://127.0.0.1:{server.address[1]}"
        client = Client(address, patience_s=10.0)
        advised = client.limit_s(7200.0, "relax", procs=4, partition="main")
        assert 100.0 <= advised < 7200.0
        assert client.limit_s(150.0, "relax", procs=4, partition="main") <= 150.0
        assert client.limit_s(7200.0, "relax", attempt=2, procs=4, partition="main") == 7200.0
        assert client.memory_mib(4000.0, "relax") == 4000.0, "nobody measures memory there"
        assert client.memory_mib(4000.0, "relax", attempt=2, held_mib=1000.0) == 1500.0
        assert client.ask("hint", {"name": "relax", "ntasks": 4, "partition": "main", "mem": "4000M"}) is not None
        assert client.ask("hint", {"name": "relax", "mem": "much"}) is None
        assert client.ask("hint", {"ntasks": "many"}) is None, "a question that is refused has no answer"


def asked_until_loaded(client: Client, choices: list[Any], user: str) -> list[Start | None]:
    """Return the service's answer once its answering process has loaded, which takes one to ten seconds."""
    until = time.monotonic() + 120.0
    while not any(found := client.starts(choices, user)) and time.monotonic() < until:
        assert client.not_before == 0.0, "who asks too early is told so: the service is not left alone"
    return found


@pytest.mark.long
def test_a_portal_is_told_the_start_of_each_choice_as_start_test_tells_it(made: Made, tmp_path: Path) -> None:
    choices: list[Any] = [1, {"ntasks": 4, "time": "1:00:00"}, {"partition": "none"}, {"colour": "red"}, 4]
    settings = made(False)
    with service.Server(settings, str(tmp_path / "api.sock"), lambda _: None) as server:
        client = Client(str(server.address), patience_s=20.0)
        found = asked_until_loaded(client, choices, "user1")
        asked_at = time.time()
    assert [one is None for one in found] == [False, False, True, True, False]
    alone = answer_options(settings, Request({"ntasks": "4"}), Viewer("user1"), asked_at).results[0]
    assert found[4] is not None
    assert found[4].likely_s - asked_at == pytest.approx(alone["likely_wait_s"], abs=2.0)


@pytest.mark.long
def test_where_jobs_are_private_a_portal_asks_in_the_name_of_its_user(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = made(True).replaced(proxy_from="portal", proxy_header="X-Remote-User")
    with service.Server(settings, str(tmp_path / "api.sock"), lambda _: None) as server:
        monkeypatch.setattr(server.admission, "peer", lambda _: Peer(Viewer(None), True, "proxy"))
        named = Client(str(server.address), patience_s=20.0, user_header="X-Remote-User")
        assert asked_until_loaded(named, [4], "user1")[0] is not None
        assert Client(str(server.address), patience_s=20.0).starts([4], "user1") == [None], "nobody may just say so"
        assert named.starts([4], "user1\r\nX-Remote-User: user2") == [None]


@pytest.mark.parametrize(("likely", "by_90", "words"), [
    (0.0, 50.0, "starts at once"),
    (0.0, 3600.0, "likely at once, 9 in 10 by 13:00"),
    (1801.0, 86400.0, "likely 12:31, 9 in 10 by Wed 02 Jan 12:00"),
])  # fmt: skip
def test_a_start_as_people_read_it(likely: float, by_90: float, words: str) -> None:
    noon = time.mktime((2030, 1, 1, 12, 0, 0, 0, 0, -1))
    assert Start(noon + likely, noon + by_90).words(noon) == words


def test_a_service_that_hangs_costs_its_patience_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path / "hangs.sock")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(path)
        silent.listen()
        calls = []
        threading.Thread(target=lambda: calls.append(silent.accept()), daemon=True).start()
        client = Client(path)
        with caplog.at_level(logging.WARNING, "batchcast"):
            assert client.limit_s(3600.0, "relax") == 3600.0
            assert client.limit_s(3600.0, "relax") == 3600.0
        assert len(caplog.records) == 1, "the second question is not asked"


@contextmanager
def answering(path: Path, said: bytes) -> Iterator[str]:
    """A socket that sends this answer to its first client."""

    def answer() -> None:
        connection = server.accept()[0]
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(said)

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        threading.Thread(target=answer, daemon=True).start()
        yield str(path)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.0 200 OK\r\n\r\n{", b"\xff\xfe\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n[1]"])
def test_what_is_no_answer_changes_nothing(tmp_path: Path, said: bytes) -> None:
    with answering(tmp_path / "odd.sock", said) as path:
        assert Client(path, patience_s=10.0).memory_mib(2000.0, "relax") == 2000.0


@pytest.mark.parametrize("address", ["/nowhere.sock", "http://127.0.0.1:9", "ftp://there", "http://[::1"])
def test_no_service_changes_nothing(address: str) -> None:
    assert Client(address).limit_s(3600.0, "relax") == 3600.0


HEAD = b"HTTP/1.0 200 OK\r\n\r\n"
ODD = [f'{HEAD.decode()}{{"results": [{{"limit_s": {value}}}]}}'.encode()
       for value in ("0", "-5", "true", "NaN", "Infinity", "1" + "0" * 400, '"9"', "[]")]  # fmt: skip


@pytest.mark.parametrize("said", [*ODD, HEAD + b" " * (2 << 20) + b'{"results": [{"limit_s": 60}]}'])
def test_only_an_amount_becomes_a_request(tmp_path: Path, said: bytes) -> None:
    with answering(tmp_path / "odd.sock", said) as path:
        assert Client(path, patience_s=10.0).limit_s(7200.0, "relax") == 7200.0


def test_a_wrong_token_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    said = b'HTTP/1.0 401 Unauthorized\r\n\r\n{"error": "no"}'
    with answering(tmp_path / "a.sock", said) as path, caplog.at_level(logging.WARNING, "batchcast"):
        assert Client(path, "wrong", patience_s=10.0).limit_s(7200.0, "relax") == 7200.0
    assert "the token is missing or not valid" in caplog.text


def test_a_log_that_cannot_be_written_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(batchcast.client.LOG, "warning", full)
    client: Any = Client("/nowhere.sock")
    assert client.limit_s(7200.0, "relax") == 7200.0
    assert client.limit_s("2h", "relax") == "2h"


def test_a_name_that_is_not_resolved_in_time_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked, over = threading.Event(), threading.Event()

    def hangs(*_: object, **__: object) -> list[object]:
        asked.set()
        over.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    with caplog.at_level(logging.WARNING, "batchcast"):
        assert Client("http://host.example", patience_s=0.05).limit_s(7200.0, "relax") == 7200.0
    assert asked.is_set()
    assert "host.example is not resolved in time" in caplog.text
    over.set()


def test_a_host_s_next_address_is_tried(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    with service.Server(made(False), "127.0.0.1:0", lambda _: None) as server:
        monkeypatch.setattr(server.admission, "peer", lambda _: Peer(Viewer("user1"), False, "user1"))
        port = server.address[1]
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        places = [(*kind, ("127.0.0.1", 9)), (*kind, ("127.0.0.1", port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
        client = Client(f"http://localhost:{port}", patience_s=10.0)
        assert client.limit_s(7200.0, "relax", procs=4, partition="main") < 7200.0


def test_the_file_alone_is_enough(tmp_path: Path) -> None:
    shutil.copy(batchcast.client.__file__, tmp_path / "batchcast_client.py")
    code = "from batchcast_client import Client; print(Client('/nowhere.sock').limit_s(60.0, 'x'))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = ['.']; {code}"],
                          cwd=tmp_path, capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout == "60.0\n"
    asked = ["limit", "7200", "align", "--procs", "8"], ["memory", "16000", "align", "--attempt", "2", "--held", "1000"]
    for words, number in zip(asked, ("7200\n", "1500\n")):
        command = [sys.executable, "-I", "-S", "batchcast_client.py", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == number


def test_a_wrong_call_is_a_line_in_the_log_and_the_request_stays(caplog: pytest.LogCaptureFixture) -> None:
    client: Any = Client("/nowhere.sock")
    assert client.limit_s("2h", "align") == "2h"
    assert client.limit_s(7200, "align", attempt="2") == 7200
    assert client.memory_mib(16000, "align", attempt=2, held_mib="much") == 16000
    assert client.starts(None) == []
    assert client.starts(["four"]) == [None]
    assert caplog.text.count("wrong arguments") == 5


def test_the_command_prints_what_was_written_where_an_option_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        batchcast.client.main(["limit", "7200", "align", "--procs", "x"])
    assert stop.value.code == 2
    said = capsys.readouterr()
    assert said.out == "7200\n"
    assert "--procs" in said.err


def test_a_workflow_stays_at_home_without_an_answer_about_clusters(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """If the program is missing or fails, or an option contains a line end, the job goes to its usual cluster."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Client().best_cluster({"ntasks": 4}, "home") == "home"
    program = tmp_path / "batchcast"
    program.write_text("#!/bin/sh\necho 'batchcast: the settings have no [[cluster]]' >&2\nexit 2\n")
    program.chmod(0o755)
    assert Client().best_cluster({"ntasks": 4}, "home") == "home"
    program.write_text('#!/bin/sh\necho "{\\"results\\": [{\\"cluster\\": \\"beta\\"}]}"\n')
    assert Client().best_cluster({"ntasks": 4}, "home", inputs=["20G@archive"], done_by="18:00") == "beta"
    assert Client().best_cluster({"ntasks": "4\n#SBATCH --mail-user=x"}, "home") == "home"
    told = [record.getMessage() for record in caplog.records]
    assert "no [[cluster]]" in told[1]
    assert "must not contain line breaks" in told[2]
