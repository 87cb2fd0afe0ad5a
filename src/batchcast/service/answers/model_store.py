# SPDX-License-Identifier: Apache-2.0
"""Saves the live clock with its models in a file beside the store, so that a restart need not replay all history, and
the questions of `start --test` in a second file.

`start --test` reads the file too. If the file cannot be used (missing, damaged, of another version, store or user),
history is replayed instead. The file contains pickles of the predictors. A pickle can run code, so only the user who
can also write this process's compiled kernels may write a file that is read: the file begins with a digest (HMAC) made
with a secret key beside the kernels, and nothing in the file is parsed or unpickled before the digest is checked. A
file from elsewhere, for example from an unpacked archive, is refused.

The collector compares each answer to `start --test` with the job that is submitted afterwards. Questions are added by
processes that may write beside the store: the service, and commands of the collector's own user. Each question is a
line of JSON in a file that only its owner can read. The collector removes the lines it reads, so the file stays short.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import importlib
import json
import math
import os
import pickle
import secrets
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from glob import glob
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

from ...ceilings import without_links
from ...compiled.place import kernel_folder
from ...events.live import LiveClock, LiveJob, live_events, live_stream
from ...job import DELIVERED_GONE, JobRequest
from ...machines.machine import Machine
from ...predict.peak_memory import LateMemory
from ...predict.protocol import Prediction
from ...predict.recommend import LimitAdvice
from ...predict.registry import make, split_specs
from ...store.rows import as_values
from ...trace.whole_file import temporary_path, whole_file
from .answer import RISK

FORMAT = 9
PYTHON = sys.version.split()[0]
KEY_BYTES = 32
MOST_SAVED = 1 << 30
"""A larger file is neither written nor read: a file from elsewhere must not fill the memory before it is refused."""
CLOCK = "clock"
"""The name of the part of the file that is not a predictor: state, cadences, and what `SavedClock` has beside them."""
Key = tuple[str, str]
"""A predictor of the clock: what it predicts (wait, runtime, memory or limit), and its method."""


class Unusable(Exception):
    """A saved clock cannot be used; the text gives the reason."""


@dataclass(frozen=True)
class SavedClock:
    """A live clock that has processed all events until `told_until`.

    `heard` maps the row of each job that had not left the system to its events already processed (as bits). `late` is
    the number of late events, and `since` the beginning of the processed history. `store` identifies the store.
    """

    clock: LiveClock
    told_until: float
    late: int
    since: float
    heard: Mapping[int, int]
    store: str = ""


def save(path: Path, saved: SavedClock) -> str:
    """Write the clock to a file that only its owner can read; return which predictors could not be saved."""
    clock = saved.clock
    cadences = {key: (cadence.count, cadence.last) for key, cadence in clock.cadences.items()}
    rest = (clock.state, cadences, saved.told_until, saved.late, saved.since, dict(saved.heard), saved.store)
    parts, pickles, not_saved = {}, [], []
    for name, part in {CLOCK: rest, **{_in_file(key): each for key, each in clock.predictors.items()}}.items():
        pickled = BytesIO()
        pickler = _Pickler(pickled)
        try:  # each predictor is pickled separately, because an answer needs only some of them
            pickler.dump(part)
        except Exception as error:  # the methods of a predictor that pickle calls can raise any exception
            not_saved.append(f"{name} ({type(error).__name__}: {error})")
            continue
        pickles.append(pickled.getbuffer())
        parts[name] = {"bytes": pickled.tell(), "packages": pickler.versions(), "machine": _machine_of(part)}
    written = {"format": FORMAT, "python": PYTHON, "store": saved.store, "parts": parts}
    head, size = json.dumps(written).encode() + b"\n", sum(map(len, pickles))
    if size > MOST_SAVED:
        raise OSError(errno.EFBIG, f"the models need {size >> 20} MiB, and at most {MOST_SAVED >> 20} MiB are saved")
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, 0o600) as unfinished, unfinished.open("wb") as file:
        file.writelines([head, _digest(_secret_key(), head, *pickles), b"\n", *pickles])
    return "; ".join(not_saved)


class _Pickler(pickle.Pickler):
    """Pickles one object, and notes the packages of all classes and functions that the pickle refers to."""

    def __init__(self, file: BytesIO) -> None:
        super().__init__(file, 5)
        self._packages: set[str] = set()

    def reducer_override(self, value: Any) -> Any:
        """Note the package of a class, a function or an object, and let pickle do what it does without this method."""
        self._packages.add(str(getattr(value, "__module__", "")).partition(".")[0])
        return NotImplemented

    def versions(self) -> dict[str, str]:
        """Return the packages with their versions; not the standard library, which has Python's version."""
        versions = {name: _version_of(name) for name in sorted(self._packages - sys.stdlib_module_names - {"", "None"})}
        return {name: version for name, version in versions.items() if version}


@cache  # what this process has loaded does not change when somebody installs another version
def _version_of(package: str) -> str:
    """Return the version of an importable package and a checksum of its files; empty if there is no such package."""
    try:
        module = importlib.import_module(package)
        paths = list(getattr(module, "__path__", ()))
        # an installed package is replaced as a whole; only files elsewhere are edited one by one
        edited = [path for path in paths if not Path(path).parent.name.endswith("-packages")]
        files = [file for path in edited for file in glob(f"{path}/**/*.py", recursive=True)]
        files = files or [module.__file__ or paths[0]]
        states = sorted((os.path.basename(file), os.stat(file).st_mtime_ns, os.stat(file).st_size) for file in files)
    except Exception:  # not installed, without a file, or a library that it needs is missing
        return ""
    return f"{getattr(module, '__version__', '')} (code {crc32(repr(states).encode()):08x})".strip()


def _in_file(key: Key) -> str:
    """Return the name of a predictor in the file: what it predicts, and its method."""
    return " ".join(key)


def load(path: Path, fresh: Mapping[Key, Any], store: str = "") -> SavedClock:
    """Load the saved clock of a store with the predictors that `fresh` has, and with the machine of each of these
    predictors. `fresh` must be newly created from the settings.

    Raises Unusable with the reason.
    """
    head, body = _trusted(path)
    wanted = {CLOCK: None, **{_in_file(key): each for key, each in fresh.items()}}
    _check(head, wanted, store)
    loaded, begin = {}, 0
    for name, part in head["parts"].items():
        if name in wanted:
            try:
                loaded[name] = pickle.loads(body[begin : begin + part["bytes"]])
            except Exception as error:  # the methods of a predictor that pickle calls can raise any exception
                raise Unusable(f"{name} cannot be loaded ({type(error).__name__}: {error})") from error
        begin += part["bytes"]
    state, cadences, *rest = loaded[CLOCK]
    clock = LiveClock({key: loaded[_in_file(key)] for key in fresh})
    clock.state = state
    for key, cadence in clock.cadences.items():
        cadence.count, cadence.last = cadences[key]
    for key, each in fresh.items():
        if _machine_of(each):  # the settings choose the machine, not the file
            use_machine([clock.predictors[key]], each.machine)
    _check_libraries(clock)
    return SavedClock(clock, *rest)


def _trusted(path: Path) -> tuple[dict[str, Any], memoryview]:
    """Return the head and the body of a file that this user's batchcast wrote. The file is read once, so that its bytes
    cannot change between the check and their use.
    """
    try:
        with open(path, "rb", opener=without_links) as file:
            status = os.fstat(file.fileno())
            if not _is_own(status):
                raise Unusable("other users can write the file")
            if status.st_size > MOST_SAVED:
                raise Unusable(f"larger than {MOST_SAVED >> 20} MiB")
            data = file.read()
    except FileNotFoundError:
        raise Unusable("") from None
    except OSError as error:
        raise Unusable(str(error.strerror)) from None
    end = data.find(b"\n") + 1
    head, digest, body = data[:end], data[end : end + 64], memoryview(data)[end + 65 :]
    try:
        key = _secret_key()
    except OSError as error:
        raise Unusable(f"this user's key cannot be read: {error.strerror}") from None
    if not hmac.compare_digest(digest, _digest(key, head, body)):
        raise Unusable("not written by this user's batchcast on this machine, or damaged")
    return json.loads(head), body


def _check(head: Mapping[str, Any], wanted: Mapping[str, Any], store: str) -> None:
    """Raise Unusable if a file was written for another store, or with other code, other predictors or a machine where
    there is none now, before anything in the file is unpickled.
    """
    if head["format"] != FORMAT:
        raise Unusable("written by another version of batchcast")
    if head["python"] != PYTHON:
        raise Unusable(f"written with Python {head['python']}, and this is Python {PYTHON}")
    if head["store"] != store:
        raise Unusable("written for another store")
    if missing := sorted(set(wanted) - set(head["parts"])):
        raise Unusable(f"without {', '.join(missing)}")
    for name, each in wanted.items():
        part = head["parts"][name]
        for package, version in part["packages"].items():
            if version != (now := _version_of(package)):
                is_now = f"{now} is installed" if now else "it cannot be imported now"
                raise Unusable(f"{name} was saved with {package} {version}, and {is_now}")
        if part["machine"] != _machine_of(each):
            raise Unusable("learned with a machine description that is now missing, or without the present one")


def _machine_of(predictor: Any) -> bool:
    """Return whether a predictor simulates queue waits on a machine. The settings choose this machine."""
    return getattr(predictor, "machine", None) is not None


def _check_libraries(clock: LiveClock) -> None:
    """Raise Unusable if a library that the clock's fitted models need cannot be loaded."""
    fitted = [type(each) for each in clock.predictors.values() if getattr(each, "model", None) is not None]
    try:
        for name in {name for kind in fitted for name in getattr(kind, "needs", ())}:
            importlib.import_module(name)
    except Exception as error:  # the package, or a system library that it needs, is missing
        raise Unusable("a library that its models need cannot be loaded") from error


def _digest(key: bytes, head: bytes, *body: memoryview) -> bytes:
    """Return the keyed digest (HMAC-SHA256, in hexadecimal) of a file's first line and of its body in pieces."""
    of_body = hashlib.sha256()
    for piece in body:
        of_body.update(piece)
    return hmac.digest(key, hashlib.sha256(head).digest() + of_body.digest(), "sha256").hex().encode()


def _secret_key() -> bytes:
    """Return this user's secret key, created if needed, beside the compiled kernels: no other user can write there.

    A key that is damaged, or that others could read or write, is replaced. Raises OSError if no key can be stored.
    """
    folder = kernel_folder()
    if not folder:
        raise PermissionError(errno.EACCES, "there is no folder for it that only this user can write to")
    path = Path(folder).parent / "clock.key"
    with suppress(OSError):
        return _read_key(path)
    with temporary_path(path) as unfinished:
        made = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(made, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        unfinished.replace(path)  # in one step, so that no process finds half a key
    return _read_key(path)


def _read_key(path: Path) -> bytes:
    """Return the key in a file that belongs to this user alone; OSError if there is none."""
    with open(path, "rb", opener=without_links) as file:
        status, key = os.fstat(file.fileno()), file.read(KEY_BYTES + 1)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077 or not _is_own(status) or len(key) != KEY_BYTES:
        raise PermissionError(errno.EACCES, "not a key of this user alone", str(path))
    return key


def _is_own(status: os.stat_result) -> bool:
    """Return whether the open file is a regular file without further hard links that only this user or root can have
    written.
    """
    is_ours = status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022
    return is_ours and stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def replay(
    jobs: Iterable[LiveJob], predictors: Mapping[Key, Any], memory: Mapping[str, Any], until: float = -math.inf
) -> LiveClock:
    """Replay all past events of these jobs into a new clock, then bring it up to date until `until`.

    Models are fitted in the background. The jobs must be in order of submission. The jobs are read one by one and not
    stored, so a long history needs no more memory than the predictors do. The collector replays after a start if no
    saved clock is usable; answers about jobs that are not submitted replay in the same case.
    """
    total = memory.get("total_procs")
    clock = LiveClock(predictors, math.nan if total is None else total)
    clock.fit_in_background = in_background
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
    clock.fit_in_background = in_background
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
) -> dict[Key, Any]:
    """Return untrained predictors. Wait predictors that simulate on a machine get `machine`."""
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


def keep_asked(path: Path, job: JobRequest, prediction: Prediction, method: str, now: float) -> None:
    """Add one question and its answer, if this process may write beside the store. If writing fails, the line
    is lost.
    """
    if not os.access(path.parent, os.W_OK) or not all(map(math.isfinite, (prediction.point, *prediction.quantiles))):
        return
    like = {"user": job.user_id, "partition": job.partition_id, "procs": job.procs, "limit": job.req_time}
    line = json.dumps({"at": now, "method": method, "like": like, "said": as_values(prediction)})
    with suppress(OSError), open(path, "a", encoding="utf-8", opener=without_links) as file:
        status = os.fstat(file.fileno())
        if _is_own(status) and status.st_size < MOST_BYTES:
            file.write(line + "\n")


def take_asked(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield every question that was added since the last call, and remove the questions from the file.

    Incomplete lines, and files that another user may have written, are ignored.
    """
    taken = path.with_name(path.name + ".taken")
    try:
        path.replace(taken)
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
