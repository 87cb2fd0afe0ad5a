# SPDX-License-Identifier: Apache-2.0
"""Saves the live clock with its models in a file beside the store, so that a restart need not replay all history, and
the questions of `start --test` in a second file.

`start --test` reads the file too. If the file cannot be used (missing, damaged, of another version or user), history is
replayed instead. The file contains only plain values and arrays, and no code: every predictor is created
from the site's settings before its state is filled in. Of an object's class only its index in `CLASSES` is stored. A
predictor that contains other objects, such as a scikit-learn model or an object of another package, raises `NotPlain`
and is not saved. Compiled kernels use indices in those arrays without
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
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import msgspec
import numpy as np
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
from .answer import RISK

FORMAT = 8
KEY_BYTES = 32
Key = tuple[str, str]
"""A predictor of the clock: what it predicts (wait, runtime, memory or limit), and its method."""


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
    for key, predictor in clock.predictors.items():
        name = _in_file(key)
        try:  # each predictor is encoded separately, because an answer needs only some of them
            encoded[name] = in_place(msgpack.encode(Writer().plain(predictor)))
        except NotPlain as error:
            left_out.append(f"{name} must learn again after each start, because it cannot be saved: {error}")
    plain = {
        "state": Writer().plain(clock.state),
        "predictors": encoded,
        "cadences": {_in_file(key): [each.count, each.last] for key, each in clock.cadences.items()},
        "machines": {_in_file(key): _machine_of(of) for key, of in clock.predictors.items()},
        **{name: getattr(saved, name) for name in ("told_until", "late", "since")},
        "heard": list(saved.heard.items()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    head, body = _head(list(encoded)), msgpack.encode(plain)
    with whole_file(path, 0o600) as part, part.open("wb") as file:
        file.write(head + _digest(_secret_key(), head, body) + b"\n")
        file.write(body)
    return "; ".join(left_out)


def _in_file(key: Key) -> str:
    """Return the name of a predictor in the file: what it predicts, and its method."""
    return " ".join(key)


def load(path: Path, fresh: Mapping[Key, Any]) -> SavedClock:
    """Load a saved clock into the predictors `fresh`, which must be newly created from the settings.

    Raises Unusable with the reason; the partly filled predictors must then be discarded.
    """
    try:
        return _filled(_trusted_body(path, fresh), fresh)
    except Unusable:
        raise
    except Exception as error:  # reading a damaged file can raise any exception
        raise Unusable(f"damaged ({type(error).__name__})") from error


def _trusted_body(path: Path, fresh: Mapping[Key, Any]) -> bytes:
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
    if missing := sorted({_in_file(key) for key in fresh} - set(driven)):
        raise Unusable(f"without {', '.join(missing)}")
    return body


def _filled(body: bytes, fresh: Mapping[Key, Any]) -> SavedClock:
    """Return the saved clock, with its states in the predictors `fresh`; Unusable if the machine has changed."""
    plain = decoded(body)
    if any(plain["machines"][_in_file(key)] != _machine_of(one) for key, one in fresh.items()):
        raise Unusable("learned with a machine description that is now missing, or without the present one")
    predictors = plain["predictors"]
    clock = LiveClock({key: Reader().read(decoded(predictors[_in_file(key)]), one) for key, one in fresh.items()})
    clock.state = Reader().read(plain["state"], SystemState())
    for key, cadence in clock.cadences.items():
        cadence.count, cadence.last = plain["cadences"][_in_file(key)]
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


_CLASSES = {
    "events.event": "Capacity Change End Overdue Requeue Start Submit Withdraw",
    "events.record": "Columns",
    "events.state": "Running SystemState",
    "job": "JobRequest",
    "predict.calibration.keeper": "OnlineCalibration Open _Bounds _Issued",
    "predict.conditional": "_Curve _Tail",
    "predict.fallback": "LargestLimit",
    "predict.gate": "Warming",
    "predict.hazard.bins": "WaitCurve",
    "predict.hazard.calibrated_waits": "Bursts CalibratedWaits LevelsBySpan Pool",
    "predict.hazard.components": "Lag RecentWaits",
    "predict.hazard.features": "Room",
    "predict.hazard.history_features": "WaitHistory",
    "predict.hazard.model": "Fitting Hazard Submissions Taught Trees Waits",
    "predict.hazard.renewal": "Expected Renewal Renewed Snapshot _Look",
    "papers.online_knn_ga.genetic": "Batches Evolved Gene Rows Store",
    "papers.online_knn_ga.nearest": "Linear Orders Scaled",
    "predict.namesakes": "Namesakes",
    "predict.peak_memory": "LateMemory PeakMemory",
    "predict.protocol": "Grounds Prediction",
    "predict.recommend": "Advice LimitAdvice",
    "predict.runtime.calibrated": "Calibrated",
    "predict.runtime.kernel": "Kernel RunTimes",
    "papers.online_knn_ga.methods": "Groups KnnGa MinhWolters Parameters SmithTemplates Template Trial",
    "predict.runtime.baselines": "LargestRecent Last2 RecentMean Requested SoftWalltime",
    "papers.su.methods": "Su TextClusters Tobit Trip",
    "papers.vasp.methods": "Behaviour Parzen UserClusters",
    "predict.similarity.coding": "Coded Coder",
    "predict.similarity.candidates": "Memory Options",
    "predict.wait.forecast": "Forecast Burst Components Log NodesComponent Inputs",
    "predict.wait.forward": "ForwardPlans",
    "papers.quick_starters.ibl": "Ibl",
    "papers.quick_starters.ibl_kernel": "Attributes How Instances Room TrainingPart",
    "papers.quick_starters.pqstar": "PQStar",
    "papers.quick_starters.pqstar_kernel": "Histories Rules",
    "papers.quick_starters.bounds": "Group Learned LogUniform Qbets",
    "predict.wait.recent_wait": "QueuedByGroup RecentWait",
    "predict.wait.scheduler_replay": "MachineJobs SchedulerReplay",
    "schedule.forward": "Forward",
}
CLASSES = tuple(f"{module}:{name}" for module, names in _CLASSES.items() for name in names.split())
"""All classes that saved predictors consist of; a file cannot name another class."""
_NUMBERS = {name: number for number, name in enumerate(CLASSES)}
CODE = (FunctionType, MethodType, BuiltinFunctionType, partial, attrgetter, type, Machine)
"""Attributes of these types are never stored, because a predictor that is created from the settings already has them.
"""
SCALARS = frozenset({type(None), bool, int, float, str, bytes})
REFERENCE, LIST, TUPLE, DICT, SET, FROZEN, DEQUE, BYTES, INTEGER, NUMBER, ARRAY, OBJECT, OWN = range(13)
FACTORIES: tuple[Any, ...] = (None, int, float, list, dict, set)  # of a defaultdict
DICTS: tuple[type, ...] = (dict, defaultdict, Counter, OrderedDict)


_DECODER = msgpack.Decoder(ext_hook=lambda _code, data: data)


def in_place(data: bytes) -> msgpack.Ext:
    """Wrap bytes so that `decoded` returns a view into its input, which avoids copying a large array twice."""
    return msgpack.Ext(0, data)


def decoded(body: bytes | memoryview) -> Any:
    """Return the plain values that msgpack encoded in these bytes."""
    return _DECODER.decode(body)


class NotPlain(TypeError):
    """A predictor contains something that cannot be stored as plain values."""


@cache
def _class(number: int) -> Any:
    """Return the class with this index in `CLASSES`."""
    module, _, name = CLASSES[number].partition(":")
    return getattr(importlib.import_module(f"batchcast.{module}"), name)


class Writer:
    """Converts objects to plain values. An object with several references is stored once, so reading restores the
    sharing.
    """

    def __init__(self) -> None:
        self._met: list[Any] = []  # keeps objects alive, so that no other object gets the same id
        self._numbers: dict[int, int] = {}

    def plain(self, value: Any) -> Any:
        """Return the plain form of a value: itself, or a list that begins with its type."""
        kind = type(value)
        if kind in SCALARS:
            return value if kind is not int or -(2**63) <= value < 2**63 else [INTEGER, str(value)]
        if isinstance(value, np.generic):
            return [NUMBER, _plain_dtype(value.dtype), value.tobytes()]
        if id(value) in self._numbers:
            return [REFERENCE, self._numbers[id(value)]]
        self._numbers[id(value)] = len(self._met)
        self._met.append(value)
        return WRITERS.get(kind, Writer._object)(self, value)

    def _all(self, values: Iterable[Any]) -> list[Any]:
        """Return a flag and the plain forms of values. The flag is True if all values are already plain."""
        given = list(values)
        if all(type(one) in SCALARS and (type(one) is not int or -(2**63) <= one < 2**63) for one in given):
            return [True, given]
        return [False, [self.plain(one) for one in given]]

    def _dict(self, value: Any) -> list[Any]:
        made = FACTORIES.index(getattr(value, "default_factory", None))
        return [DICT, DICTS.index(type(value)), made, *self._all(value.keys()), *self._all(value.values())]

    def _array(self, value: np.ndarray) -> list[Any]:
        turned = value.flags.f_contiguous and not value.flags.c_contiguous
        whole = np.ascontiguousarray(value.T if turned else value)
        if value.dtype.hasobject:
            raise NotPlain("an array of objects")
        return [ARRAY, _plain_dtype(value.dtype), list(value.shape), turned, in_place(whole.tobytes())]

    def _object(self, value: Any) -> list[Any]:
        kind = type(value)
        number = _NUMBERS.get(f"{kind.__module__.removeprefix('batchcast.')}:{kind.__qualname__}")
        if number is None or _class(number) is not kind:
            if callable(getattr(kind, "state", None)) and callable(getattr(kind, "restore", None)):
                return [OWN, self.plain(value.state())]
            raise NotPlain(f"{kind.__module__}.{kind.__qualname__}")
        if isinstance(value, Enum):
            return [OBJECT, number, value.value]
        if isinstance(value, tuple):
            return [OBJECT, number, *self._all(value)]
        if isinstance(value, msgspec.Struct):
            return [OBJECT, number, *self._all(getattr(value, name) for name in kind.__struct_fields__)]
        state = value.__getstate__()
        if hasattr(kind, "__setstate__") and not isinstance(state, dict):
            return [OBJECT, number, self.plain(state)]
        return [OBJECT, number, {name: self.plain(of) for name, of in _attributes(state) if not isinstance(of, CODE)}]


def _attributes(state: Any) -> list[tuple[str, Any]]:
    """Return names and values of all attributes of an object, from its `__dict__` and its slots."""
    parts = state if isinstance(state, tuple) else (state,)
    return [item for part in parts if part for item in part.items()]


def _plain_dtype(dtype: np.dtype[Any]) -> Any:
    """Return a plain form of a dtype. Structured types keep their field offsets, because compiled kernels
    expect them.
    """
    if dtype.fields is None:
        return dtype.str
    fields = list(dtype.fields.values())
    formats = [[of[0].base.str, list(of[0].shape)] for of in fields]
    return [list(dtype.fields), formats, [of[1] for of in fields], dtype.itemsize, dtype.isalignedstruct]


def _read_dtype(plain: Any) -> np.dtype[Any]:
    """Return the dtype that `_plain_dtype` converted; ValueError if it contains objects."""
    if isinstance(plain, str):
        dtype: np.dtype[Any] = np.dtype(plain)
    else:
        names, formats, offsets, size, aligned = plain
        shaped = [(of, tuple(shape)) if shape else of for of, shape in formats]
        dtype = np.dtype({"names": names, "formats": shaped, "offsets": offsets, "itemsize": size}, align=aligned)
    if dtype.hasobject:
        raise ValueError("an array of objects")
    return dtype


WRITERS: dict[type, Callable[[Writer, Any], list[Any]]] = {
    tuple: lambda w, v: [TUPLE, *w._all(v)],
    list: lambda w, v: [LIST, *w._all(v)],
    **dict.fromkeys(DICTS, Writer._dict),
    deque: lambda w, v: [DEQUE, v.maxlen, *w._all(v)],
    np.ndarray: Writer._array,
    set: lambda w, v: [SET, *w._all(v)],
    frozenset: lambda w, v: [FROZEN, *w._all(v)],
    bytearray: lambda w, v: [BYTES, bytes(v)],
}


class Reader:
    """Creates objects from plain values; raises ValueError, TypeError or the like for values that no `Writer` wrote."""

    def __init__(self) -> None:
        self._objects: list[Any] = []
        self._filled: set[int] = set()  # ids of objects created from the settings, whose attributes are set only once

    def read(self, plain: Any, fresh: Any = None) -> Any:
        """Return the object that a plain value stands for. If `fresh` is an object of the same class, created from the
        settings, its attributes are set in place.
        """
        if type(plain) is not list:
            return plain
        kind = plain[0]
        # TUPLE comes first because it is the most frequent type and takes half of the reading time
        if kind == TUPLE and plain[1]:
            values = tuple(plain[2])
            self._objects.append(values)
            return values
        if kind == REFERENCE:
            return self._objects[plain[1]]
        if kind == INTEGER:
            return int(plain[1])
        if kind == NUMBER:
            return np.frombuffer(plain[2], _read_dtype(plain[1]))[0]
        place = len(self._objects)
        self._objects.append(None)
        made = READERS[kind](self, plain, place, fresh)
        self._objects[place] = made
        return made

    def _all(self, is_plain: bool, values: list[Any], fresh: Any = None) -> list[Any]:
        """Return values from a flag and their plain forms. `fresh` may be a list or tuple with the fresh objects."""
        if is_plain:
            return values
        if isinstance(fresh, list | tuple) and len(fresh) == len(values):
            return [self.read(one, old) for one, old in zip(values, fresh)]
        return [self.read(one) for one in values]

    def _grown(self, place: int, made: Any, add: Callable[[Any, list[Any]], None], *parts: Any) -> Any:
        """Fill an empty container. The container is registered first, because its values can refer to it."""
        self._objects[place] = made
        add(made, self._all(*parts))
        return made

    def _dict(self, plain: list[Any], place: int, fresh: Any) -> Any:
        _, number, factory, keys_plain, keys, plain_values, values = plain
        kind = DICTS[number]
        made: Any = defaultdict(FACTORIES[factory]) if kind is defaultdict else kind()
        self._objects[place] = made
        old = fresh if isinstance(fresh, dict) else {}
        for name, one in zip(self._all(keys_plain, keys), values):
            made[name] = one if plain_values else self.read(one, old.get(name))
        return made

    def _array(self, plain: list[Any], _place: int, _fresh: Any) -> np.ndarray:
        _, dtype, shape, turned, data = plain
        flat = np.frombuffer(data, _read_dtype(dtype)).copy()
        return flat.reshape(shape[::-1]).T if turned else flat.reshape(shape)

    def _object(self, plain: list[Any], place: int, fresh: Any) -> Any:
        kind, state = _class(plain[1]), plain[2:]
        if issubclass(kind, Enum):
            return kind(state[0])
        if issubclass(kind, tuple):
            return kind._make(self._all(*state))
        if issubclass(kind, msgspec.Struct):
            return kind(**dict(zip(kind.__struct_fields__, self._all(*state), strict=True)))
        made = fresh if type(fresh) is kind and id(fresh) not in self._filled else kind.__new__(kind)
        self._filled.add(id(fresh))
        self._objects[place] = made
        if not isinstance(state[0], dict):
            made.__setstate__(self.read(state[0]))
            return made
        values = {name: self.read(of, getattr(made, name, None)) for name, of in state[0].items() if name[:2] != "__"}
        if hasattr(kind, "__setstate__"):
            code = {name: of for name, of in made.__dict__.items() if isinstance(of, CODE)}
            made.__setstate__(code | values)
            return made
        for name, of in values.items():
            object.__setattr__(made, name, of)
        return made

    def _own(self, plain: list[Any], _place: int, fresh: Any) -> Any:
        """Restore a predictor of another package by its own method `restore`."""
        fresh.restore(self.read(plain[1]))
        return fresh


READERS: dict[int, Callable[[Reader, list[Any], int, Any], Any]] = {
    LIST: lambda reader, plain, place, fresh: reader._grown(place, [], list.extend, *plain[1:], fresh),
    TUPLE: lambda reader, plain, place, fresh: tuple(reader._all(plain[1], plain[2], fresh)),
    DICT: Reader._dict,
    SET: lambda reader, plain, place, fresh: reader._grown(place, set(), set.update, *plain[1:]),
    FROZEN: lambda reader, plain, place, fresh: frozenset(reader._all(*plain[1:])),
    DEQUE: lambda reader, plain, place, fresh: reader._grown(place, deque(maxlen=plain[1]), deque.extend, *plain[2:]),
    BYTES: lambda reader, plain, place, fresh: bytearray(plain[1]),
    ARRAY: Reader._array,
    OBJECT: Reader._object,
    OWN: Reader._own,
}
"""The functions that read each type of plain value, except the types that `Reader.read` handles itself."""
