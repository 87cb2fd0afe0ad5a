"""Tests that other users of the machine gain nothing through files, streams and limits of the service."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import stat
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from batchcast.errors import UsageError
from batchcast.job import JobRequest
from batchcast.predict.protocol import Prediction
from batchcast.service.answers.disclosure import Viewer
from batchcast.service.answers.model_store import keep_asked, take_asked
from batchcast.service.http.admission import Peer, Tokens
from batchcast.service.http.work_queue import MOST_WAITING, Asker, TooManyWaiting, WorkQueue, asker_of
from batchcast.store import tokens
from batchcast.store.database import Store, single_writer
from batchcast.sweep.dataset import Dataset
from batchcast.trace import whole_file as files
from batchcast.trace.whole_file import whole_file
from batchcast.units import parse_duration, parse_memory


def test_a_link_in_the_place_of_the_unfinished_file_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shared folder, an attacker creates links where the next file will be written, if its name can be
    predicted."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in (f".out.csv.{os.getpid()}.part", f".out.csv.{files._machine()}-{os.getpid()}-00.part"):
        (tmp_path / name).symlink_to(precious)
    monkeypatch.setattr(secrets, "token_hex", lambda _: "00")  # even the name that an attacker cannot predict
    with pytest.raises(FileExistsError), whole_file(tmp_path / "out.csv") as part:
        part.write_text("theirs")
    assert precious.read_text() == "mine"
    monkeypatch.undo()
    with whole_file(tmp_path / "out.csv") as part:
        part.write_text("whole")
    assert (precious.read_text(), (tmp_path / "out.csv").read_text()) == ("mine", "whole")
    assert not files.UNFINISHED


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link of another user")
def test_a_link_of_another_user_in_the_place_of_an_output_file_is_not_followed(tmp_path: Path) -> None:
    """In /tmp the kernel does not follow such a link either when a shell writes to it; a user's own link is
    followed."""
    precious, shared = tmp_path / "precious", tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    os.chown(shared, 4322, -1)
    for owner, text in ((4321, "mine"), (os.geteuid(), "figures")):
        precious.write_text("mine")
        (shared / "out.csv").unlink(missing_ok=True)
        (shared / "out.csv").symlink_to(precious)
        os.lchown(shared / "out.csv", owner, -1)
        with contextlib.suppress(PermissionError), whole_file(shared / "out.csv") as part:
            part.write_text("figures")
        assert precious.read_text() == text


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
def test_a_file_has_the_mode_that_the_umask_leaves(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        for name, mode in (("usual", 0o666), ("closed", 0o600)):
            with whole_file(tmp_path / name, mode) as part:
                part.write_text("")
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode & ~umask
    finally:
        os.umask(before)


def test_the_lock_of_a_store_is_closed_to_those_who_may_only_read_it(tmp_path: Path) -> None:
    """A user who can open a file for reading can also lock it, so a readable file of an earlier version must be
    closed."""
    with Store(str(tmp_path / "store.db"), create=True) as store:
        lock = tmp_path / "store.db.lock"
        lock.touch(0o644)
        with single_writer(store):
            assert stat.S_IMODE(lock.stat().st_mode) == 0o600
        lock.unlink()
        lock.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(Exception, match="cannot be written"), single_writer(store):
            pass
        assert not (tmp_path / "elsewhere").exists()
        lock.unlink()
        with single_writer(store), lock.open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)


QUESTION = JobRequest(0, "(test)", 1000.0, 4.0, 600.0, float("nan"), user_id="ada")


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "link to an endless file"])
def test_what_stands_in_the_place_of_the_questions_is_neither_written_nor_read(kind: str, tmp_path: Path) -> None:
    """The service appends each question to a file beside the store, and the collector reads that file."""
    precious, place = tmp_path / "precious", tmp_path / "store.db.c.asked.jsonl"
    precious.write_text('{"at": 1}\n')
    precious.chmod(0o666 if kind == "hard link" else 0o600)

    def lay() -> None:
        if kind == "hard link":
            os.link(precious, place)
        elif kind == "pipe":
            os.mkfifo(place)
        else:
            place.symlink_to(precious if kind == "link" else "/dev/zero")

    lay()
    keep_asked(place, QUESTION, Prediction(60.0), "recent_wait", 1000.0)
    assert precious.read_text() == '{"at": 1}\n'
    assert list(take_asked(place)) == []
    lay()
    assert list(take_asked(place)) == []
    assert not place.exists()
    keep_asked(place, QUESTION, Prediction(60.0), "recent_wait", 1000.0)
    assert [one["like"]["user"] for one in take_asked(place)] == ["ada"], "an ordinary file is read afterwards"


def test_a_link_in_the_place_of_a_sweep_s_lock_empties_no_file(tmp_path: Path) -> None:
    precious, folder = tmp_path / "precious", tmp_path / "sweep"
    precious.write_text("mine")
    folder.mkdir()
    (folder / ".lock").symlink_to(precious)
    with pytest.raises(UsageError, match="cannot be written"), Dataset(folder).alone():
        pass
    assert precious.read_text() == "mine"
    (folder / ".lock").unlink()
    with Dataset(folder).alone():
        assert stat.S_IMODE((folder / ".lock").stat().st_mode) == 0o600


@pytest.mark.parametrize("digits", [1000, 4301, 5000, 100_000])
@pytest.mark.parametrize("form", ["{}", "1:{}", "{}-1", "{}h", "1.{}", "{}:00:00"])
def test_a_number_of_thousands_of_digits_is_refused_in_words(digits: int, form: str) -> None:
    with pytest.raises(UsageError, match="not a time"):
        parse_duration(form.format("9" * digits))


routes = import_module("batchcast.service.page.routes")  # the package exports a function with the same name


class Service:
    """The parts of a service that a stream needs, with a queue that has changed whenever it is read."""

    def __init__(self, bearers: Tokens, token: str) -> None:
        self.bearers, self.token, self.looks = bearers, token, 0
        self.streams: Counter[str] = Counter()
        self.admission = SimpleNamespace(closing=False)
        self.queue_cache = self
        self.queues = SimpleNamespace(quick=self)

    async def is_still(self, request: Any) -> bool:
        try:
            return await self.bearers.viewer(self.token) == Viewer("ada")
        except Exception:
            return False

    async def queue(self) -> Any:
        self.looks += 1
        return SimpleNamespace(version=self.looks)

    async def run(self, asker: Asker, answer: Any) -> dict[str, Any]:
        return {"shown": self.looks}


@pytest.mark.parametrize("ends", ["revoked", "expired"])
def test_a_stream_ends_with_its_token(ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts that a stream uses: the tokens of a store, and the served stream."""
    with Store(str(tmp_path / "store.db"), create=True) as store:
        at = time.time()
        with store.begin() as connection:
            token = tokens.issue(connection, bytes(36), "ada", "", at, at + 3600)
        known = Tokens(lambda: store.url, now=iter(float(10 * k) for k in range(1000)).__next__)
        service: Any = Service(known, token)
        request: Any = SimpleNamespace(state=SimpleNamespace(service=service), is_disconnected=_never)
        monkeypatch.setattr(routes, "text_of", lambda *_, **data: f"jobs {data['shown']}")
        monkeypatch.setattr(routes, "words", lambda _: None)
        monkeypatch.setattr(routes, "LOOK_S", 0.0)
        monkeypatch.setattr("batchcast.service.http.admission.time.time", lambda: at)

        async def followed() -> list[str]:
            said = []
            async for one in routes._events(request, dict, Asker("ada", "ada")):
                said.append(one)
                if len(said) == 3 and ends == "revoked":
                    with store.begin() as connection:
                        tokens.revoke(connection, ["00000000"], at)
                elif len(said) == 3:
                    monkeypatch.setattr("batchcast.service.http.admission.time.time", lambda: at + 7200)
                assert len(said) < 20, "it goes on"
            return said

        assert len(asyncio.run(followed())) == 3


async def _never() -> bool:
    return False


def test_one_connection_of_nobody_locks_out_no_other_and_no_user() -> None:
    """Over TCP the user is unknown: all clients share one turn, and each connection has its own number of questions."""

    async def asked() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def work(answer: Any, _: float) -> Any:
            begun.set()
            if answer == "slow":
                await go.wait()
            return answer

        queue = WorkQueue(2, 1, work)
        one, other = Asker("", "connection 1"), Asker("", "connection 2")
        flood = [asyncio.create_task(queue.run(one, "slow")) for _ in range(MOST_WAITING)]
        await begun.wait()
        with pytest.raises(TooManyWaiting, match="this connection"):
            await queue.run(one, "one more")
        assert await queue.run(asker_of(Viewer("ada"), Peer(Viewer("ada"), False, "ada")), "a user's") == "a user's"
        waits = asyncio.create_task(queue.run(other, "another's"))
        go.set()
        assert await waits == "another's"
        await asyncio.gather(*flood)
        assert not queue._inside
        assert not queue._turns

    asyncio.run(asked())
    peers = [Peer(Viewer(None), False, "") for _ in range(2)]
    assert len({asker_of(Viewer(None), peer) for peer in peers}) == 2


@pytest.mark.parametrize("digits", [41, 5000])
def test_a_memory_size_of_too_many_digits_is_refused_in_words(digits: int) -> None:
    with pytest.raises(UsageError, match="not a memory size"):
        parse_memory("9" * digits)
