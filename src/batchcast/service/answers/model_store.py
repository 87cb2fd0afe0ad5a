# SPDX-License-Identifier: Apache-2.0
"""Saves the live clock with its models in a file beside the store, so that a restart need not replay all history, and
the questions of `start --test` in a second file.

`start --test` reads the file too. If the file cannot be used (missing, damaged, of another version or user), history is
replayed instead. The file contains only plain values and arrays (`plain_state`) and names no code: every predictor is
created from the site's settings before its state is filled in. Compiled kernels use indices in those arrays without
checking them. So a file is accepted only with a digest made with this user's secret key; a file from elsewhere, for
example from an unpacked archive, is not read.

The collector compares each answer to `start --test` with the job that is submitted afterwards. Questions are added by
processes that may write beside the store: the service, and commands of the collector's own user. Each question is a
line of JSON in a file that only its owner can read. The collector removes the lines it reads, so the file stays short.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib
import json
import math
import os
import secrets
import stat
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
from ...job import DELIVERED_GONE, JobRequest
from ...machines.machine import Machine
from ...predict.peak_memory import LateMemory
from ...predict.protocol import Prediction
from ...predict.recommend import LimitAdvice
from ...predict.registry import make, split_specs
from ...store.rows import as_values
from ...trace.whole_file import whole_file
from ...version import __version__
from .advice import RISK
from .plain_state import NotPlain, Reader, Writer, decoded, in_place

FORMAT = 6
KEY_BYTES = 32


class Unusable(Exception):
    """A saved clock cannot be used; the text gives the reason."""


@dataclass(frozen=True)
class SavedClock:
    """A live clock that has processed all events until `told_until`.

    `heard` maps the row of each job that had not left the system to its events already processed (as bits). `late` is
    the number of late events, and `since` the beginning of the processed history.
    """

    clock: LiveClock
    told_until: float
    late: int
    since: float
    heard: Mapping[int, int]


def save(path: Path, saved: SavedClock) -> str:
    """Write the clock to a file that only its owner can read; return which predictors could not be saved."""
    clock = saved.clock
    encoded: dict[str, msgpack.Ext] = {}
    left_out = []
    for name, predictor in clock.predictors.items():
        try:  # each predictor is encoded separately, because an answer needs only some of them
            encoded[name] = in_place(msgpack.encode(Writer().plain(predictor)))
        except NotPlain as error:
            left_out.append(f"{name} must learn again after each start, because it cannot be saved: {error}")
    plain = {
        "state": Writer().plain(clock.state),
        "predictors": encoded,
        "cadences": {name: [each.count, each.last] for name, each in clock.cadences.items()},
        "machines": {name: _machine_of(clock.predictors[name]) for name in encoded},
        **{name: getattr(saved, name) for name in ("told_until", "late", "since")},
        "heard": list(saved.heard.items()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    head, body = _head(list(encoded)), msgpack.encode(plain)
    with whole_file(path, 0o600) as part, part.open("wb") as file:
        file.write(head + _digest(_secret_key(), head, body) + b"\n")
        file.write(body)
    return "; ".join(left_out)


def load(path: Path, fresh: Mapping[str, Any]) -> SavedClock:
    """Load a saved clock into the predictors `fresh` (by name), which must be newly created from the settings.

    Raises Unusable with the reason; the partly filled predictors must then be discarded.
    """
    try:
        return _filled(_trusted_body(path, fresh), fresh)
    except Unusable:
        raise
    except Exception as error:  # reading a damaged file can raise any exception
        raise Unusable(f"damaged ({type(error).__name__})") from error


def _trusted_body(path: Path, fresh: Mapping[str, Any]) -> bytes:
    """Return the bytes after the two header lines, if this user and this version of the code wrote them."""
    try:
        with open(path, "rb", opener=without_links) as file:
            if not _is_own(os.fstat(file.fileno())):
                raise Unusable("other users can write the file")
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
    """Return the saved clock, with its states in the predictors `fresh`; Unusable if the machine has changed."""
    plain = decoded(body)
    if any(plain["machines"][name] != _machine_of(one) for name, one in fresh.items()):
        raise Unusable("learned with a machine description that is now missing, or without the present one")
    predictors = plain["predictors"]
    clock = LiveClock({name: Reader().read(decoded(predictors[name]), one) for name, one in fresh.items()})
    clock.state = Reader().read(plain["state"], SystemState())
    for name, cadence in clock.cadences.items():
        cadence.count, cadence.last = plain["cadences"][name]
    return SavedClock(clock, plain["told_until"], plain["late"], plain["since"], dict(plain["heard"]))


def _machine_of(predictor: Any) -> bool:
    """Return whether a predictor simulates queue waits on a machine. The settings choose this machine."""
    return getattr(predictor, "machine", None) is not None


def can_answer(clock: LiveClock) -> bool:
    """Return whether the packages that the clock's models need can be loaded."""
    fitted = [type(one) for one in clock.predictors.values() if getattr(one, "model", None) is not None]
    needs = {name for kind in fitted for name in getattr(kind, "needs", ())}  # from the code, never from the file
    try:
        for name in needs:
            importlib.import_module(name)
    except Exception:  # the package, or a system library that it needs, is missing
        return False
    return True


def _head(predictors: list[str]) -> bytes:
    """Return the first header line: file format, version and fingerprint of the code, and names of the predictors."""
    written = {"format": FORMAT, "batchcast": __version__, "code": fingerprint(LEARNED), "predictors": predictors}
    return json.dumps(written).encode() + b"\n"


def _digest(key: bytes, head: bytes, body: bytes) -> bytes:
    """Return the keyed digest (HMAC-SHA256, in hexadecimal) of a file's first header line and body."""
    return hmac.digest(key, hashlib.sha256(head).digest() + hashlib.sha256(body).digest(), "sha256").hex().encode()


def _secret_key() -> bytes:
    """Return this user's secret key, created if missing, in the cache of compiled kernels: no other user can write
    there.

    If no key can be stored, a temporary key is used. With a temporary key, only this process accepts the files that it
    saves.
    """
    folder = kernel_folder()
    if not folder:
        return _KEY_OF_THE_MOMENT
    path = Path(folder).parent / "clock.key"
    with suppress(FileExistsError, PermissionError):
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(made, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
    try:
        with open(path, "rb", opener=without_links) as file:
            status, key = os.fstat(file.fileno()), file.read(KEY_BYTES + 1)
    except OSError:
        return _KEY_OF_THE_MOMENT
    is_ours = status.st_uid == os.geteuid() and not status.st_mode & 0o077 and len(key) == KEY_BYTES
    return key if is_ours else _KEY_OF_THE_MOMENT


_KEY_OF_THE_MOMENT = secrets.token_bytes(KEY_BYTES)


def _is_own(status: os.stat_result) -> bool:
    """Return whether the open file is a regular file without further hard links that only this user or root can have
    written.
    """
    is_ours = status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022
    return is_ours and stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def replay(
    jobs: Iterable[LiveJob], predictors: Mapping[str, Any], memory: Mapping[str, Any], until: float = -math.inf
) -> LiveClock:
    """Replay all past events of these jobs into a new clock, then bring it up to date until `until`.

    Models are fitted in the background. The jobs must be in order of submission. The jobs are read one by one and not
    stored, so a long history needs no more memory than the predictors do. The collector replays after a start if no
    saved clock is usable; answers about jobs that are not submitted replay in the same case.
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
    """Bring a saved clock up to date with the events of these jobs since it was saved, until `until`.

    `jobs` are the jobs that had not left the system when the clock was saved.
    """
    clock = saved.clock
    clock.beside = in_background
    marked = [job._replace(heard=saved.heard.get(job.request.row, 0)) for job in jobs]
    for event in (*live_events(marked, math.inf, only=7), *live_events(marked, until)):
        clock.tell(event, ask=False)
    return clock


_last_fit = {"trouble": ""}


def fit_trouble() -> str:
    """Return the error of the last fit of a model; empty if it succeeded."""
    return _last_fit["trouble"]


def in_background(work: Callable[[], Any]) -> Future[Any]:
    """Fit a model in a daemon thread, so that the process can exit during the fit.

    If the fit fails, the previous model continues to answer; without a previous model, the queue simulation answers.
    """
    future: Future[Any] = Future()

    def run() -> None:
        try:
            models, trouble = work(), ""
        except Exception as error:
            why = f"no new model could be loaded, so the previous model answers: {type(error).__name__}: {error}"
            is_library = isinstance(error, OSError) and "cannot open shared object file" in str(error)
            # `doctor` already reports a missing package or system library, so no second message is needed
            models, trouble = None, "" if is_library or isinstance(error, ModuleNotFoundError) else why
        _last_fit["trouble"] = trouble
        future.set_result(models)

    threading.Thread(target=run, name="batchcast fit", daemon=True).start()
    return future


def make_predictors(
    runtime: str, wait: str, memory: str = "", limits: str = "", machine: Machine | None = None
) -> dict[tuple[str, str], Any]:
    """Return untrained predictors by (kind, spec). Wait predictors that simulate on a machine get `machine`."""
    specs = {"runtime": runtime, "memory": memory, "limit": limits, "wait": wait}
    return {
        (kind, spec): make_predictor(kind, spec, machine)
        for kind, words in specs.items()
        for spec in split_specs(words, "wait" if kind == "wait" else "runtime")
    }


def make_predictor(kind: str, spec: str, machine: Machine | None = None) -> Any:
    """Return an untrained predictor of a kind: `runtime`, `wait`, `memory` or `limit`. Only `wait` uses the machine."""
    if kind == "limit":
        return LimitAdvice(spec, RISK)
    return LateMemory(spec) if kind == "memory" else make(kind, spec, machine=machine if kind == "wait" else None)


def used(memory: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """Return the usage of each (account, user) in processor-seconds, from the stored values of a cluster.

    >>> used({"shares": {"physics|ada": 60.0}})
    {('physics', 'ada'): 60.0}
    """
    known = ((who.partition("|"), seconds) for who, seconds in (memory.get("shares") or {}).items())
    return {(account, user): seconds for (account, _, user), seconds in known}


def use_machine(predictors: Iterable[Any], machine: Machine | None) -> None:
    """Replace the machine of all predictors that simulate queue waits. The predictors keep what they have learned."""
    for one in predictors:
        if hasattr(one, "use_machine"):
            one.use_machine(machine)


MOST_BYTES = 1_000_000
"""No line is added to a file of this size, because a file grows so long only if no collector reads it."""
SUBMITTED_WITHIN_S = 900.0
"""A job of the same user, partition, size and limit counts as the job asked about if it is submitted within
this time.
"""


def keep_asked(place: Path, job: JobRequest, said: Prediction, method: str, now: float) -> None:
    """Add one question and its answer, if this process may write beside the store. If writing fails, the line
    is lost.
    """
    if not os.access(place.parent, os.W_OK) or not all(map(math.isfinite, (said.point, *said.quantiles))):
        return
    like = {"user": job.user_id, "partition": job.partition_id, "procs": job.procs, "limit": job.req_time}
    line = json.dumps({"at": now, "method": method, "like": like, "said": as_values(said)})
    with suppress(OSError), open(place, "a", encoding="utf-8", opener=without_links) as file:
        status = os.fstat(file.fileno())
        if _is_own(status) and status.st_size < MOST_BYTES:
            file.write(line + "\n")


def take_asked(place: Path) -> Iterator[Mapping[str, Any]]:
    """Yield every question that was added since the last call, and remove the questions from the file.

    Incomplete lines, and files that another user may have written, are ignored.
    """
    taken = place.with_name(place.name + ".taken")
    try:
        place.replace(taken)
        with open(taken, "rb", opener=without_links) as file:
            lines = file.read(2 * MOST_BYTES).splitlines() if _is_own(os.fstat(file.fileno())) else []
    except OSError:
        return
    finally:
        with suppress(OSError):
            taken.unlink()
    for line in lines:
        with suppress(ValueError, RecursionError):
            yield json.loads(line)
