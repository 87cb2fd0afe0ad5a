"""Attacks the file of a saved model. The file is a pickle, so whoever can make batchcast read another file runs code.

`canary` is a pickle that creates a file when it is read. Each attack is also tried as a control, without the check of
the digest: then the canary must run, or the attack would prove nothing.
"""

from __future__ import annotations

import errno
import hmac
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batchcast.events.live import LiveClock
from batchcast.predict.registry import make
from batchcast.service.answers import model_store
from batchcast.service.answers.model_store import SavedClock, Unusable, load, save

METHOD = ("runtime", "last_2")
STORE = "the store"


class Canary:
    """An object whose pickle creates a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


def fresh() -> dict[tuple[str, str], Any]:
    return {METHOD: make(*METHOD)}


def kept(place: Path, store: str = STORE) -> Path:
    """Write a file as this user's own batchcast does."""
    save(place, SavedClock(LiveClock(fresh(), 8.0), 0.0, 0, 0.0, {}, store))
    return place


def forged(place: Path, ran: Path, key: bytes = b"of somebody else", **changed: Any) -> Path:
    """Write a file that reads like a genuine file of the same batchcast, with a canary instead of the clock."""
    head = json.loads(kept(place).read_bytes().partition(b"\n")[0])
    body = pickle.dumps(Canary(ran))
    head["parts"][model_store.CLOCK]["bytes"] = len(body)
    first = json.dumps(head | changed).encode() + b"\n"
    place.write_bytes(first + model_store._digest(key, first, body) + b"\n" + body)
    return place


def with_genuine_digest(place: Path, ran: Path) -> None:
    """Put a canary behind the genuine head and digest of this user's own file."""
    head, digest, body = kept(place).read_bytes().split(b"\n", 2)
    size = json.loads(head)["parts"][model_store.CLOCK]["bytes"]
    body = pickle.dumps(Canary(ran)).ljust(size, b"\0") + body[size:]
    place.write_bytes(b"\n".join([head, digest, body]))


def without_digest(place: Path, ran: Path) -> None:
    head, _, body = forged(place, ran).read_bytes().split(b"\n", 2)
    place.write_bytes(b"\n".join([head, b"0" * 64, body]))


ATTACKS: dict[str, Callable[[Path, Path], object]] = {
    "a digest with another key": forged,
    "a digest with an empty key": lambda place, ran: forged(place, ran, b""),
    "no digest": without_digest,
    "another body behind a genuine digest": with_genuine_digest,
}


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """This user's key in a folder of the test."""
    monkeypatch.setattr(model_store, "kernel_folder", lambda: str(tmp_path / "cache" / "kernels"))
    (tmp_path / "cache" / "kernels").mkdir(parents=True)
    model_store._version_of.cache_clear()
    yield tmp_path / "cache" / "clock.key"
    model_store._version_of.cache_clear()


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Everything that was unpickled from a file."""
    read: list[object] = []
    monkeypatch.setattr(model_store.pickle, "loads", read.append)
    return read


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_file_that_this_user_s_batchcast_did_not_write_is_not_read(
    attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, ran = tmp_path / "clock", tmp_path / "ran"
    ATTACKS[attack](place, ran)
    with pytest.raises(Unusable, match="not written by this user's batchcast"):
        load(place, fresh(), STORE)
    assert not ran.exists()
    monkeypatch.setattr(hmac, "compare_digest", lambda *_: True)
    with pytest.raises(Exception):  # noqa: B017  (the canary is no clock)
        load(place, fresh(), STORE)
    assert ran.exists(), "the control: without the check the canary runs"


@pytest.mark.parametrize("part", ["store", "python", "the method", "the sizes"])
def test_the_digest_covers_all_that_is_said_about_the_pickles(part: str, tmp_path: Path, unread: list[object]) -> None:
    """Store, versions, methods and sizes are in the first line, which nobody can change without the key."""
    place = kept(tmp_path / "clock", "another store" if part == "store" else STORE)
    said, rest = place.read_bytes().split(b"\n", 1)
    head = json.loads(said)
    if part == "the method":
        head["parts"]["runtime recent_mean"] = head["parts"].pop("runtime last_2")
    elif part == "the sizes":
        head["parts"][model_store.CLOCK]["bytes"] += 1
    else:
        head[part] = STORE if part == "store" else "2.7.18"
    place.write_bytes(json.dumps(head).encode() + b"\n" + rest)
    with pytest.raises(Unusable, match="not written by this user's batchcast"):
        load(place, fresh(), STORE)
    assert not unread


def test_a_genuine_file_of_another_store_is_not_read(tmp_path: Path, unread: list[object]) -> None:
    place = kept(tmp_path / "clock", "another store")
    with pytest.raises(Unusable, match=r"^written for another store$"):
        load(place, fresh(), STORE)
    assert not unread


@pytest.mark.parametrize(
    ("what", "where", "value", "said"),
    [
        ("batchcast", "batchcast.__version__", "0.0.9", r"saved with batchcast 0\.0\.9 .*, and .* is installed"),
        ("numpy", "numpy.__version__", "1.0.0", r"saved with numpy 1\.0\.0 .*, and .* is installed"),
        (
            "Python",
            "batchcast.service.answers.model_store.PYTHON",
            "3.1.0",
            r"written with Python 3\.1\.0, and this is",
        ),
        ("the file's form", "batchcast.service.answers.model_store.FORMAT", 8, "written by another version"),
    ],
)
def test_a_file_of_other_code_is_refused_before_it_is_unpickled(
    what: str, where: str, value: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unread: list[object]
) -> None:
    with monkeypatch.context() as before:
        before.setattr(where, value)
        log = LiveClock(fresh(), 8.0)
        log.state.now = np.float64(1.0)  # so that the state surely refers to numpy
        save(tmp_path / "clock", SavedClock(log, 0.0, 0, 0.0, {}, STORE))
    model_store._version_of.cache_clear()
    with pytest.raises(Unusable, match=said):
        load(tmp_path / "clock", fresh(), STORE)
    assert not unread


def test_no_part_and_no_change_of_a_genuine_file_is_read(tmp_path: Path, unread: list[object]) -> None:
    place = kept(tmp_path / "clock")
    whole = place.read_bytes()
    for at in {0, 1, *range(7, len(whole), max(len(whole) // 97, 1)), len(whole) - 1}:
        for text in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            place.write_bytes(text)
            with pytest.raises(Unusable):
                load(place, fresh(), STORE)
    place.write_bytes(whole + b"\0")
    with pytest.raises(Unusable):
        load(place, fresh(), STORE)
    assert not unread


def _link(place: Path) -> None:
    place.rename(place.with_name("elsewhere"))
    place.symlink_to(place.with_name("elsewhere"))


OPEN: dict[str, Callable[[Path], object]] = {
    "a symbolic link": _link,
    "a hard link": lambda place: os.link(place, place.with_name("elsewhere")),
    "writable by the group": lambda place: place.chmod(0o620),
    "writable by others": lambda place: place.chmod(0o602),
    "a pipe": lambda place: (place.unlink(), os.mkfifo(place)),
    "a folder": lambda place: (place.unlink(), place.mkdir()),
    "too large": lambda place: os.truncate(place, model_store.MOST_SAVED + 1),
}


@pytest.mark.parametrize("way", OPEN)
def test_a_file_that_another_user_may_have_put_there_is_not_read(
    way: str, tmp_path: Path, unread: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a genuine digest: a link may lead to this user's own file of another time."""
    OPEN[way](kept(tmp_path / "clock"))
    monkeypatch.setattr(model_store, "_digest", lambda *_: pytest.fail("the file was read"))
    with pytest.raises(Unusable):
        load(tmp_path / "clock", fresh(), STORE)
    assert not unread


def _linked_key(key: Path, planted: bytes) -> None:
    key.with_name("theirs").write_bytes(planted)
    key.with_name("theirs").chmod(0o600)
    key.unlink()
    key.symlink_to(key.with_name("theirs"))


KEYS: dict[str, Callable[[Path, bytes], object]] = {
    "readable by the group": lambda key, planted: key.chmod(0o640),
    "readable by others": lambda key, planted: key.chmod(0o604),
    "writable by others": lambda key, planted: key.chmod(0o602),
    "a symbolic link": _linked_key,
    "a hard link": lambda key, planted: os.link(key, key.with_name("theirs")),
    "empty": lambda key, planted: key.write_bytes(b""),
    "short": lambda key, planted: key.write_bytes(planted[:16]),
    "long": lambda key, planted: key.write_bytes(planted * 2),
    "a pipe": lambda key, planted: (key.unlink(), os.mkfifo(key)),
    "of another user": lambda key, planted: os.chown(key, 4321, -1),
}


@pytest.mark.parametrize("way", KEYS)
def test_a_key_that_another_user_may_know_is_replaced(way: str, own_key: Path, tmp_path: Path) -> None:
    """The canary has the digest of a key that lies where this user's key should be, but that others can know."""
    if way == "of another user" and os.geteuid() != 0:
        pytest.skip("only root can make files of another user")
    place, ran, planted = tmp_path / "clock", tmp_path / "ran", b"k" * model_store.KEY_BYTES
    forged(place, ran, planted)
    own_key.write_bytes(planted)
    own_key.chmod(0o600)
    with pytest.raises(Unusable, match="cannot be loaded"):
        load(place, fresh(), STORE)
    assert ran.exists(), "the control: with the user's own key the canary runs"
    ran.unlink()
    KEYS[way](own_key, planted)
    with pytest.raises(Unusable, match="not written by this user's batchcast"):
        load(place, fresh(), STORE)
    assert not ran.exists()
    assert own_key.stat(follow_symlinks=False).st_mode & 0o177777 == 0o100600, "a file of mode 0600, and no link"
    assert load(kept(place), fresh(), STORE).clock.predictors, "and the new key is used from now on"


def test_without_a_place_for_the_key_no_model_is_saved(own_key: Path, tmp_path: Path) -> None:
    """A folder has the key's name, so that no key can be stored."""
    own_key.mkdir()
    with pytest.raises(OSError, match="directory"):
        kept(tmp_path / "clock")
    assert not (tmp_path / "clock").exists()
    (tmp_path / "clock").write_bytes(b"{}\n")
    with pytest.raises(Unusable, match="this user's key cannot be read"):
        load(tmp_path / "clock", fresh(), STORE)


def test_a_file_that_changes_while_it_is_checked_is_read_as_it_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, ran = kept(tmp_path / "clock"), tmp_path / "ran"
    compare = hmac.compare_digest

    def swap(*digests: bytes) -> bool:
        forged(tmp_path / "theirs", ran)
        place.write_bytes((tmp_path / "theirs").read_bytes())
        (tmp_path / "theirs").replace(place)
        return compare(*digests)

    monkeypatch.setattr(hmac, "compare_digest", swap)
    assert load(place, fresh(), STORE).clock.predictors
    assert not ran.exists()


def test_a_save_that_fails_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = kept(tmp_path / "clock")
    with monkeypatch.context() as full:
        full.setattr(model_store, "_digest", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
        with pytest.raises(OSError, match="No space left"):
            kept(place)
    assert load(place, fresh(), STORE).clock.predictors
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]
    with monkeypatch.context() as large:
        large.setattr(model_store, "MOST_SAVED", 100)
        with pytest.raises(OSError, match="the models need"):
            kept(place)
    assert load(place, fresh(), STORE).clock.predictors


METHODS = """
import {helper}
class Mean:
    target, uses = "run_time", ()
    def __init__(self): self.helper = {helper}.Helper()
    def predict(self, job, at): return 60.0
    def observe(self, event, at): pass
"""


def with_plug_in(place: Path, helper: str, text: str) -> dict[tuple[str, str], Any]:
    """Return a method of a module outside batchcast, which uses a class of the module `helper`."""
    (place / f"of_{helper}.py").write_text(METHODS.format(helper=helper))
    (place / f"{helper}.py").write_text(text)
    key = ("runtime", f"of_{helper}:Mean")
    return {key: make(*key)}


def test_a_plug_in_whose_code_has_changed_or_is_gone_is_named_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another method of the same file is not affected."""
    monkeypatch.syspath_prepend(str(tmp_path))
    both = {**fresh(), **with_plug_in(tmp_path, "changing", "class Helper: pass")}
    place, helper = tmp_path / "clock", tmp_path / "changing.py"
    assert save(place, SavedClock(LiveClock(both), 0.0, 0, 0.0, {}, STORE)) == ""
    assert list(load(place, both, STORE).clock.predictors) == list(both)
    for change, said in (
        (lambda: helper.write_text("class Helper:\n    more = 1\n"), "and .* is installed"),
        (helper.unlink, "and it cannot be imported now"),
    ):
        change()
        monkeypatch.delitem(sys.modules, "changing")
        model_store._version_of.cache_clear()
        with pytest.raises(Unusable, match=rf"^runtime of_changing:Mean was saved with changing \(code \w+\), {said}$"):
            load(place, both, STORE)
    assert load(place, fresh(), STORE).clock.predictors


def test_a_plug_in_that_cannot_be_saved_or_loaded_is_named_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "class Helper:\n    more = 1\n    def __setstate__(self, state): 1 / 0\n"
    method = with_plug_in(tmp_path, "failing", text)
    (made,) = method.values()
    made.helper.state = 1
    save(tmp_path / "clock", SavedClock(LiveClock(method), 0.0, 0, 0.0, {}, STORE))
    failure = r"^runtime of_failing:Mean cannot be loaded \(ZeroDivisionError: division by zero\)$"
    with pytest.raises(Unusable, match=failure):
        load(tmp_path / "clock", method, STORE)
    made.helper.state = lambda: 1
    said = save(tmp_path / "clock", SavedClock(LiveClock({**fresh(), **method}), 0.0, 0, 0.0, {}, STORE))
    assert "runtime of_failing:Mean (" in said
    with pytest.raises(Unusable, match=r"^without runtime of_failing:Mean$"):
        load(tmp_path / "clock", method, STORE)
    assert load(tmp_path / "clock", fresh(), STORE).clock.predictors, "which costs no other method what it has learned"
