# SPDX-License-Identifier: Apache-2.0
"""The live clock with its models, saved in a file beside the store: a restart need not replay all of history.

`start --test` reads it too. Whatever is wrong with the file (missing, damaged, of another version, another's) it is as
if it were not there: history is then replayed. It holds everybody's jobs, so it is its writer's alone, and read only
where it is the reader's own or root's: what is unpickled could otherwise be another's program, and even so nothing but
the classes of predictors and arrays is.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import pickle
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import EnumType
from operator import attrgetter
from pathlib import Path
from typing import Any

from ...cluster.machine import Machine
from ...compiled.place import LEARNED, fingerprint
from ...events.live import DELIVERED_GONE, LiveClock, LiveJob, live_events, live_stream
from ...job import JobRequest
from ...predict.peak_memory import LateMemory
from ...predict.recommend import LimitAdvice
from ...predict.registry import make, split_specs
from ...store.place import shown_url, sqlite_path
from ...trace.whole_file import whole_file
from ...version import __version__
from ..settings import default_store
from .advice import RISK

FORMAT = 4
ROOMS = (
    "batchcast.predict.",
    "batchcast.events.",
    "batchcast.job",
    "batchcast.schedule.",
    "batchcast.table",
    "batchcast.cluster.",
)
OTHERS = {
    "builtins": {"bytearray", "complex", "frozenset", "object", "set", "slice"},
    "collections": {"Counter", "OrderedDict", "defaultdict", "deque"},
    "copyreg": {"_reconstructor"},
    "lightgbm.basic": {"Booster"},
    "numpy": {"dtype", "ndarray"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "numpy.random._pickle": {"__bit_generator_ctor", "__generator_ctor"},
    "numpy.random._pcg64": {"PCG64"},
    "numpy.random.bit_generator": {"SeedSequence", "__pyx_unpickle_SeedSequence"},
}


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


def clock_path(store: str, cluster: str) -> Path:
    """The file of a cluster's clock: beside an SQLite store; of another store where one would lie.

    >>> clock_path("/var/lib/batchcast/store.db", "big one").name
    'store.db.big_one.clock'
    """
    path = sqlite_path(store)
    if path is None:
        name = hashlib.sha256(shown_url(store).encode()).hexdigest()[:12]
        path = default_store(os.environ).with_name(f"postgresql-{name}")
    return path.with_name(f"{path.name}.{re.sub(r'[^A-Za-z0-9-]', '_', cluster)}.clock")


def save(place: Path, saved: SavedClock) -> None:
    """Write it whole, for its owner alone. OSErrors pass."""
    body = pickle.dumps(saved, protocol=5)
    place.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(place) as part, open(part, "wb", opener=_owners_alone) as file:
        file.write(_header(list(saved.clock.predictors), body))
        file.write(body)


def _owners_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def load(place: Path, methods: Sequence[str]) -> SavedClock | None:
    """What is saved there of a clock that drives at least these predictors; None where nothing fit for use is."""
    try:
        with place.open("rb") as file:
            if not _is_safe(os.fstat(file.fileno())):
                return None
            head, body = file.readline(), file.read()
        driven = json.loads(head)["predictors"]
        if head != _header(driven, body) or not set(methods) <= set(driven):
            return None
        saved = _Reader(body).load()
    except Exception:  # a damaged file can fail in any way, and costs no more than hearing history again
        return None
    return saved if isinstance(saved, SavedClock) else None


def can_answer(clock: LiveClock) -> bool:
    """Whether what its models were fitted by can be loaded."""
    fitted = [one for one in clock.predictors.values() if getattr(one, "model", None) is not None]
    try:
        for name in {name for one in fitted for name in getattr(one, "needs", ())}:
            importlib.import_module(name)
    except Exception:  # not there, or a library of the system is not
        return False
    return True


def _header(predictors: Sequence[str], body: bytes) -> bytes:
    """The first line: what wrote the file, for which predictors, and what the rest must be."""
    written = {
        "format": FORMAT,
        "batchcast": __version__,
        "code": fingerprint(LEARNED),
        "predictors": list(predictors),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    return json.dumps(written).encode() + b"\n"


def _is_safe(stat: os.stat_result) -> bool:
    """Whether nobody but this user or root can have written it."""
    return stat.st_uid in (0, os.geteuid()) and not stat.st_mode & 0o022


def _fields_of_a_job(*names: str) -> Any:
    """What some predictors keep: an attrgetter, here for a job's own fields and for nothing that could be called."""
    if not set(names) <= set(JobRequest._fields):
        raise pickle.UnpicklingError(f"{names} are no fields of a job")
    return attrgetter(*names)


def _method_of(owner: Any, name: str) -> Any:
    """A method that some predictors keep, of a predictor or a part of one: those rooms open and start nothing.

    Or a member of an enumeration, which Python 3.11.0 to 3.11.3 pickle as an attribute of its class.
    """
    if isinstance(owner, EnumType) and owner.__module__.startswith(ROOMS):
        return owner[name]
    if not type(owner).__module__.startswith(ROOMS) or name.startswith("__"):
        raise pickle.UnpicklingError(f"{name} of a {type(owner).__name__} is no part of a clock")
    return getattr(owner, name)


class _Reader(pickle.Unpickler):
    """Unpickles predictors, states and arrays, and nothing else."""

    def __init__(self, body: bytes) -> None:
        from io import BytesIO

        super().__init__(BytesIO(body))

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name == SavedClock.__name__:
            return SavedClock
        if (module, name) == ("operator", "attrgetter"):
            return _fields_of_a_job
        if (module, name) == ("builtins", "getattr"):
            return _method_of
        if module.startswith(ROOMS):
            known = super().find_class(module, name)
            if isinstance(known, type):
                return known
        elif name in OTHERS.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a clock")


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


def machine_at(path: str) -> Machine | None:
    """The machine that the setting `machine` names; None where it is empty."""
    if not path:
        return None
    from ...trace.machine import open_machine

    return open_machine(path)


def same_predictors(saved: Mapping[str, Any], fresh: Mapping[str, Any]) -> bool:
    """Whether what was saved are the predictors that would be made now, on the same described machine."""
    machines = ({k: repr(getattr(one, "machine", None)) for k, one in each.items()} for each in (saved, fresh))
    return next(machines) == next(machines)
