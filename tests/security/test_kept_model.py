"""Tests a forged file of a saved model: loading it runs and imports nothing, and the collector does not continue from
it."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import msgpack

from batchcast.compiled.place import LEARNED, fingerprint
from batchcast.events.live import LiveClock
from batchcast.predict.registry import make
from batchcast.service.answers import model_store
from batchcast.service.answers.model_store import SavedClock, Unusable, load, save
from batchcast.version import __version__

ROOM = "batchcast.events.kernel"
CTYPES = "np._core._internal.ctypes"


def text(of: str) -> bytes:
    return b"\x8c" + bytes([len(of)]) + of.encode()


def named(name: str) -> bytes:
    """What protocol 4 of pickle calls a class: a module of ours, and a dotted name that leads out of the module."""
    return text(ROOM) + text(f"{CTYPES}.{name}") + b"\x93"


def pickled(command: str) -> bytes:
    """A pickle that runs a command despite a list of allowed modules: CDLL(None), then its function `system`."""
    library = named("CDLL") + b"N\x85R"
    function = named("pythonapi._FuncPtr") + text("system") + library + b"\x86\x85R"
    return b"\x80\x04" + function + b"C" + bytes([len(command)]) + command.encode() + b"\x85R."


def fresh() -> dict[str, Any]:
    return {"last_2": make("runtime", "last_2")}


def kept(place: Path) -> Path:
    """Write a file as this user's own batchcast does."""
    save(place, SavedClock(LiveClock(fresh(), 8.0), 0.0, 0, 0.0, {}))
    return place


def test_a_pickle_with_a_dotted_name_runs_nothing(tmp_path: Path) -> None:
    body = pickled(f"touch {tmp_path / 'ran'}")
    head = {"format": 4, "batchcast": __version__, "code": fingerprint(LEARNED), "predictors": ["last_2"]}
    place = tmp_path / "store.db.c.clock"
    place.write_bytes(json.dumps({**head, "sha256": hashlib.sha256(body).hexdigest()}).encode() + b"\n" + body)
    place.chmod(0o600)
    with pytest.raises(Unusable):
        load(place, fresh())
    assert not (tmp_path / "ran").exists()


def test_a_file_that_this_user_s_batchcast_did_not_write_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels use the numbers in the file as indices without checks, so a folder unpacked from an archive must not
    provide them."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(model_store, "_secret_key", lambda: b"of the one who made the folder")
        place = kept(tmp_path / "clock")
    read: list[object] = []
    monkeypatch.setattr(model_store, "_filled", lambda *given: read.append(given))
    with pytest.raises(Unusable, match="not written by this user's batchcast"):
        load(place, fresh())
    assert not read


@pytest.mark.parametrize(
    "state",
    [
        [model_store.OBJECT, 10**6, {}],
        [model_store.OBJECT, 0, {"needs": ["hostile_module"]}],
        [model_store.ARRAY, "|O", [1], False, b"\0" * 8],
        [model_store.OWN, ["hostile_module"]],
        [model_store.REFERENCE, 0],
        [99],
        ["hostile_module", "main"],
    ],
)
def test_nothing_that_stands_in_a_file_is_imported_or_called(state: list[Any], tmp_path: Path) -> None:
    """Even an attacker with the key must not run code: the only remaining protection is that the file's content names
    no code."""
    (tmp_path / "hostile_module.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    sys.path.insert(0, str(tmp_path))
    try:
        made = model_store.Reader().read(state, None)
    except Exception:
        made = None
    finally:
        sys.path.remove(str(tmp_path))
    assert "hostile_module" not in sys.modules
    assert not (tmp_path / "ran").exists()
    assert not callable(getattr(made, "predict", None))


def test_a_predictor_whose_instance_names_a_library_imports_none(tmp_path: Path) -> None:
    predictor = make("runtime", "last_2")
    predictor.model, predictor.needs = "fitted", ("hostile_module",)
    assert model_store.can_answer(LiveClock({"last_2": predictor})), "the class says what is needed, not its state"


def test_an_attribute_of_the_class_is_not_set_by_a_file() -> None:
    number = model_store.CLASSES.index("predict.runtime.baselines:Last2")
    other = model_store.CLASSES.index("papers.su.methods:Trip")
    made = model_store.Reader().read([model_store.OBJECT, number, {"__class__": [model_store.OBJECT, other, {}]}])
    assert type(made).__name__ == "Last2"


def test_the_key_is_made_once_and_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_store, "kernel_folder", lambda: str(tmp_path / "kernels"))
    key = model_store._secret_key()
    assert model_store._secret_key() == key
    assert (tmp_path / "clock.key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "clock.key").chmod(0o640)
    assert model_store._secret_key() != key, "a key that others can read proves nothing"
    (tmp_path / "clock.key").unlink()
    (tmp_path / "clock.key").symlink_to(tmp_path / "somebody's")
    assert model_store._secret_key() not in (b"", key)
    assert not (tmp_path / "somebody's").exists()


def test_a_list_of_numbers_of_classes_is_closed() -> None:
    """Each class is in the code's own list, and no class is looked up by a name from the file."""
    assert all(isinstance(model_store._class(number), type) for number in range(len(model_store.CLASSES)))
    plain = model_store.Writer().plain(make("runtime", "last_2"))
    assert b"batchcast" not in msgpack.encode(plain)
    assert b"Last2" not in msgpack.encode(plain)
