"""Tests bearer tokens on loopback, on the socket and behind a proxy: a token shows only its own user's jobs."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.errors import UsageError
from batchcast.formats.sighting import Sighting
from batchcast.service.http import admission
from batchcast.service.http.server import Server
from batchcast.service.settings import Settings, load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store

PEOPLE = ("ada", "bob")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A private site with one waiting job of each user."""
    monkeypatch.setattr(admission, "HELD_S", 0.0)
    now, path = time.time(), str(tmp_path / "s.db")
    store = Store(path, create=True)
    jobs = [
        Sighting(str(100 + k), str(100 + k), now - 60, "PENDING", reason="Resources",
                 requested={"user_id": user, "partition_id": "main", "job_name": f"secret-{user}"})
        for k, user in enumerate(PEOPLE)
    ]  # fmt: skip
    with store.begin() as connection:
        history.take_in(connection, "c", jobs, now)
        clock_jobs.write_meta(connection, "c", site={"private": True, "partitions": {}}, cycle_at=now, told_until=now)
    store.close()
    given = {"store": path, "private": "yes", "proxy_from": "127.0.0.1", "proxy_header": "X-User"}
    return load(given, {})


@pytest.fixture
def server(settings: Settings) -> Iterator[Server]:
    with Server(settings, "127.0.0.1:0", lambda _: None) as opened:
        yield opened


def token(settings: Settings, *words: str) -> str:
    done = CliRunner().invoke(cli, ["site", "token", *words, "--store", settings["store"], "--json"])
    assert done.exit_code == 0, done.output
    return str(json.loads(done.stdout)["results"][0].get("token", ""))


def asked(server: Server, target: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("localhost", timeout=30)
    connection.sock = socket.socket(server.socket.family)
    connection.sock.connect(server.address if not server.is_tcp else server.address[:2])
    connection.request("GET", target, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()}


def test_a_token_asks_for_its_user_and_for_nobody_else(settings: Settings, server: Server) -> None:
    ada = token(settings, "create", "ada")
    assert asked(server, "/?user=ada")[0] == 403, "on loopback nobody is known"
    status, text, _ = asked(server, "/", Authorization=f"Bearer {ada}")
    assert status == 200
    assert "secret-ada" in text
    assert "secret-bob" not in text
    assert asked(server, "/?user=bob", Authorization=f"bearer {ada}")[0] == 403
    assert asked(server, "/v1/start?job=101", Authorization=f"Bearer {ada}")[0] == 404


def test_a_token_that_does_not_count_is_401_whatever_is_asked(settings: Settings, server: Server) -> None:
    ada = token(settings, "create", "ada")
    for wrong in (f"{ada}0", "x", "", "\xe9", ada.replace("bct_", "bct_0")):
        status, text, headers = asked(server, "/v1/accuracy", Authorization=f"Bearer {wrong}")
        assert (status, json.loads(text)["exit_code"]) == (401, 1)
        assert headers["www-authenticate"].startswith("Bearer ")
    assert asked(server, "/", Authorization=f"Bearer {ada}")[0] == 200
    token(settings, "revoke", ada.split("_")[1])
    assert asked(server, "/", Authorization=f"Bearer {ada}")[0] == 401


def test_what_the_proxy_says_stands_above_a_token_it_passes_on(settings: Settings, server: Server) -> None:
    """A proxy may pass on tokens of its own login system; the service ignores them and trusts the proxy's header."""
    _, text, _ = asked(server, "/", X_User="bob", Authorization="Bearer of.another.kind")
    assert "secret-bob" in text
    _, text, _ = asked(server, "/", Authorization=f"Bearer {token(settings, 'create', 'ada')}")
    assert "secret-ada" in text, "and where it names nobody the token does"


def test_on_the_socket_a_token_gives_up_what_the_connection_could_see(settings: Settings, tmp_path: Path) -> None:
    ada = token(settings, "create", "ada")
    with Server(settings, str(tmp_path / "api.sock"), lambda _: None) as server:
        assert "secret-bob" in asked(server, "/?user=bob")[1], "whoever runs the service sees everything"
        assert asked(server, "/?user=bob", Authorization=f"Bearer {ada}")[0] == 403
        assert "secret-ada" in asked(server, "/", Authorization=f"Bearer {ada}")[1]


def test_a_store_that_cannot_be_read_is_no_word_about_the_token(
    settings: Settings, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = token(settings, "create", "ada")
    Path(settings["store"]).rename(f"{settings['store']}.away")
    status, text, _ = asked(server, "/v1/accuracy", Authorization=f"Bearer {ada}")
    assert status == 503
    assert "tokens cannot be looked up" in json.loads(text)["error"]


def test_the_list_shows_what_is_there_and_never_the_token(settings: Settings) -> None:
    def run(*words: str) -> Any:
        return CliRunner().invoke(cli, ["site", "token", *words, "--store", settings["store"]])

    made = run("create", "ada", "--label", "nightly", "--days", "3")
    assert made.stdout.startswith("bct_")
    assert made.stdout.count("\n") == 1, "stdout is the token alone: TOKEN=$(...)"
    listed = run("list", "-P").stdout
    assert "|ada|valid|" in listed
    assert listed.endswith("|nightly\n")
    assert made.stdout.strip() not in listed
    assert isinstance(run("create", "a b").exception, UsageError)
    assert isinstance(run("revoke", "00000000").exception, UsageError)
