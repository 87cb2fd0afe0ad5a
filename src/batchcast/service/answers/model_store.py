# SPDX-License-Identifier: Apache-2.0
"""The live clock with its models, saved in a file beside the store: a restart need not replay all of history.

`start --test` reads it too. A file that cannot be used (missing, damaged, of another version, another user's) costs a
replay of history and nothing else. The file holds plain values and arrays (`plain_state`): it names no code, and every
predictor is made from the site's settings before its state is filled in. Compiled kernels follow the numbers in those
arrays without checking them, so a file counts only if it carries the digest that this user's secret key gives: a file
that came from elsewhere, in an unpacked folder for example, is not read.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib
import json
import math
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import msgpack

from ...ceilings import without_links
from ...compiled.place import LEARNED, fingerprint, kernel_folder
from ...events.live import LiveClock, LiveJob, live_events, live_stream
from ...events.state import SystemState
from ...job import DELIVERED_GONE
from ...machines.machine import Machine
from ...predict.peak_memory import LateMemory
from ...predict.recommend import LimitAdvice
from ...predict.registry import make, split_specs
from ...trace.whole_file import whole_file
from ...version import __version__
from .advice import RISK
from .plain_state import NotPlain, Reader, Writer, decoded, in_place

FORMAT = 5
KEY_BYTES = 32


class Unusable(Exception):
    """Why a file of a saved clock is not gone on from."""


@dataclass(frozen=True)
class SavedClock:
    """A clock as it was at `told_until`.

    `heard` says which events of the jobs that were not gone before it were heard (row: bits), `late` how many events
    had come late so far, `since` from when on history was heard.
    """

    clock: LiveClock
    told_until: float
    late: int
    since: float
    heard: Mapping[int, int]


def save(place: Path, saved: SavedClock) -> str:
    """Write the clock whole, for its owner alone; in words which predictors could not be written. OSErrors pass."""
    clock = saved.clock
    kept: dict[str, msgpack.Ext] = {}
    left_out = []
    for name, predictor in clock.predictors.items():
        try:
            kept[name] = in_place(msgpack.encode(Writer().plain(predictor)))  # by itself: a question needs few
        except NotPlain as error:
            left_out.append(f"{name} learns anew at every start, since it holds what cannot be kept: {error}")
    body = msgpack.encode(
        {
            "state": Writer().plain(clock.state),
            "predictors": kept,
            "cadences": {name: [each.count, each.last] for name, each in clock.cadences.items()},
            "machines": {name: _machine_of(clock.predictors[name]) for name in kept},
            "told_until": saved.told_until,
            "late": saved.late,
            "since": saved.since,
            "heard": list(saved.heard.items()),
        }
    )
    place.parent.mkdir(parents=True, exist_ok=True)
    head = _head(list(kept))
    with whole_file(place, 0o600) as part, part.open("wb") as file:
        file.write(head + _digest(_secret_key(), head, body) + b"\n")
        file.write(body)
    return "; ".join(left_out)


def load(place: Path, fresh: Mapping[str, Any]) -> SavedClock:
    """What is saved there, filled into `fresh`: predictors by name, made from the settings and used for nothing else.

    Unusable says why nothing is; what was filled by then is of no use.
    """
    try:
        return _filled(_trusted_body(place, fresh), fresh)
    except Unusable:
        raise
    except Exception as error:  # this user's own file, of the same code, and still damaged: it can fail in any way
        raise Unusable(f"damaged ({type(error).__name__})") from error


def _trusted_body(place: Path, fresh: Mapping[str, Any]) -> bytes:
    """The bytes after the two lines of the head, if this user's own batchcast of this very code wrote them."""
    try:
        with open(place, "rb", opener=without_links) as file:
            if not _is_safe(os.fstat(file.fileno())):
                raise Unusable("others than this user can write it")
            head, digest, body = file.readline(), file.readline().rstrip(b"\n"), file.read()
    except FileNotFoundError:
        raise Unusable("") from None
    except OSError as error:
        raise Unusable(str(error.strerror)) from None
    try:
        driven = json.loads(head)["predictors"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unusable("not a file of a saved clock") from None
    if head != _head(driven):
        raise Unusable("written by another version of batchcast")
    if not hmac.compare_digest(digest, _digest(_secret_key(), head, body)):
        raise Unusable("not written by this user's batchcast on this machine, or damaged")
    if missing := sorted(set(fresh) - set(driven)):
        raise Unusable(f"without {', '.join(missing)}")
    return body


def _filled(body: bytes, fresh: Mapping[str, Any]) -> SavedClock:
    plain = decoded(body)
    if any(plain["machines"][name] != _machine_of(one) for name, one in fresh.items()):
        raise Unusable("learned with a described machine where there is none now, or without one")
    kept = plain["predictors"]
    clock = LiveClock({name: Reader().read(decoded(kept[name]), one) for name, one in fresh.items()})
    clock.state = Reader().read(plain["state"], SystemState())
    for name, cadence in clock.cadences.items():
        cadence.count, cadence.last = plain["cadences"][name]
    return SavedClock(clock, plain["told_until"], plain["late"], plain["since"], dict(plain["heard"]))


def _machine_of(predictor: Any) -> bool:
    """Whether it simulates on a described machine: which one is the settings' affair, what was learned stays."""
    return getattr(predictor, "machine", None) is not None


def can_answer(clock: LiveClock) -> bool:
    """Whether what its models were fitted by can be loaded."""
    fitted = [one for one in clock.predictors.values() if getattr(one, "model", None) is not None]
    try:
        for name in {name for one in fitted for name in getattr(type(one), "needs", ())}:  # of the code, not the file
            importlib.import_module(name)
    except Exception:  # not there, or a library of the system is not
        return False
    return True


def _head(predictors: list[str]) -> bytes:
    """The first line: what wrote the file, and for which predictors."""
    written = {"format": FORMAT, "batchcast": __version__, "code": fingerprint(LEARNED), "predictors": predictors}
    return json.dumps(written).encode() + b"\n"


def _digest(key: bytes, head: bytes, body: bytes) -> bytes:
    return hmac.digest(key, hashlib.sha256(head).digest() + hashlib.sha256(body).digest(), "sha256").hex().encode()


def _secret_key() -> bytes:
    """This user's key, made where it is missing: beside the compiled kernels, where nobody else can write either.

    A key of the moment where none can be kept: what is saved with it then lasts as long as this process.
    """
    folder = kernel_folder()
    if not folder:
        return _KEY_OF_THE_MOMENT
    place = Path(folder).parent / "clock.key"
    with suppress(FileExistsError, PermissionError):
        made = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(made, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
    try:
        with open(place, "rb", opener=without_links) as file:
            stat, key = os.fstat(file.fileno()), file.read(KEY_BYTES + 1)
    except OSError:
        return _KEY_OF_THE_MOMENT
    is_ours = stat.st_uid == os.geteuid() and not stat.st_mode & 0o077 and len(key) == KEY_BYTES
    return key if is_ours else _KEY_OF_THE_MOMENT


_KEY_OF_THE_MOMENT = secrets.token_bytes(KEY_BYTES)


def _is_safe(stat: os.stat_result) -> bool:
    """Whether nobody but this user or root can have written it."""
    return stat.st_uid in (0, os.geteuid()) and not stat.st_mode & 0o022


def replay(
    jobs: Iterable[LiveJob], predictors: Mapping[str, Any], memory: Mapping[str, Any], until: float = -math.inf
) -> LiveClock:
    """A clock to which all past events of these jobs are replayed, then what is known of them up to `until`.

    Models are fitted in the background. The jobs come in the order of their submission, and none is stored: a long
    history takes no more memory than what the predictors make of it.
    Both the collector after a start and answers about jobs that were not submitted get their clock here.
    """
    total = memory.get("total_procs")
    clock = LiveClock(predictors, math.nan if total is None else total)
    clock.beside = in_background
    rest: list[LiveJob] = []

    def passing() -> Iterator[LiveJob]:
        for job in jobs:
            if not job.told & DELIVERED_GONE:
                rest.append(job)
            yield job

    for event in live_stream(passing(), math.inf, only=7):
        clock.tell(event, ask=False)
    for event in live_events(rest, until):
        clock.tell(event, ask=False)
    return clock


def resume(saved: SavedClock, jobs: Iterable[LiveJob], until: float = -math.inf) -> LiveClock:
    """A saved clock brought up to date: the events of these jobs since, then what is known of them up to `until`.

    The jobs are those that were not gone before the clock was saved.
    """
    clock = saved.clock
    clock.beside = in_background
    marked = [job._replace(heard=saved.heard.get(job.request.row, 0)) for job in jobs]
    for event in live_events(marked, math.inf, only=7):
        clock.tell(event, ask=False)
    for event in live_events(marked, until):
        clock.tell(event, ask=False)
    return clock


_last_fit = {"trouble": ""}


def fit_trouble() -> str:
    """What went wrong when a model was last fitted; empty where nothing did."""
    return _last_fit["trouble"]


def in_background(work: Callable[[], Any]) -> Future[Any]:
    """Run a fit in a thread that the process need not wait for when it ends.

    One that fails, whatever the reason, gives no model: the model before it goes on answering, or the simulation does.
    """
    future: Future[Any] = Future()

    def run() -> None:
        try:
            models, trouble = work(), ""
        except ModuleNotFoundError:  # `doctor` says so
            models, trouble = None, ""
        except Exception as error:
            models, trouble = None, f"no new model, the last one answers: {type(error).__name__}: {error}"
            if isinstance(error, OSError) and "cannot open shared object file" in str(error):
                trouble = ""  # a library of the system is missing: `doctor` says so too, and once is enough
        _last_fit["trouble"] = trouble
        future.set_result(models)

    threading.Thread(target=run, name="batchcast fit", daemon=True).start()
    return future


def make_predictors(
    runtime: str, wait: str, memory: str = "", limits: str = "", machine: Machine | None = None
) -> dict[tuple[str, str], Any]:
    """Fresh predictors by (kind, spec); those of waits that take a described machine get it."""
    specs = {"runtime": runtime, "memory": memory, "limit": limits, "wait": wait}
    keys = [
        (kind, spec)
        for kind, words in specs.items()
        for spec in split_specs(words, "wait" if kind == "wait" else "runtime")
    ]
    return {key: make_predictor(*key, machine if key[0] == "wait" else None) for key in keys}


def make_predictor(kind: str, spec: str, machine: Machine | None = None) -> Any:
    """A fresh predictor of a kind: runtime, wait, memory, limit."""
    if kind == "limit":
        return LimitAdvice(spec, RISK)
    return LateMemory(spec) if kind == "memory" else make(kind, spec, machine=machine)


def used(memory: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """What each (account, user) has used by what the store remembers of a cluster, in processor-seconds.

    >>> used({"shares": {"physics|ada": 60.0}})
    {('physics', 'ada'): 60.0}
    """
    known = ((who.partition("|"), seconds) for who, seconds in (memory.get("shares") or {}).items())
    return {(account, user): seconds for (account, _, user), seconds in known}


def use_machine(predictors: Iterable[Any], machine: Machine | None) -> None:
    """Let those that simulate on a described machine go on with this one; what they have learned stays."""
    for one in predictors:
        if hasattr(one, "use_machine"):
            one.use_machine(machine)
