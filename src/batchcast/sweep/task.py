# SPDX-License-Identifier: Apache-2.0
"""A task of a study: one simulation, identified by everything that determines its result, including the source code.

`perform` runs a task in a worker. `perform` has no side effects and only reads the log.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..ceilings import open_regular
from ..compiled.place import sources_of
from ..errors import BatchcastError, InputError
from ..evaluation.differences import burst_groups, replicate
from ..events.setup import RunSetup
from ..metrics.bursts import geometric_mean
from ..metrics.schedule import GEOMETRIC_MEAN, bounded_slowdown
from ..predict.registry import available
from ..simulation import Schedule
from ..simulation.models import Pool
from ..table import Trace
from ..trace.read import Opening
from ..trace.select import Selection, select
from ..version import __version__
from .study import LogFile, Period, Study, setting

DECIDING = (
    *("compiled", "events", "formats", "machines", "metrics", "predict", "schedule", "simulation", "table"),
    *("trace", "columns.py", "job.py", "units.py", "evaluation/differences.py"),
    "sweep/task.py",
)
"""The code that determines a task's result. Changes in other code (pages, store, commands) keep results valid."""


@cache
def own_code(rooms: tuple[str, ...] = DECIDING, package: str = "") -> str:
    """Return batchcast's version and a digest of the source files that determine results.

    The first call of the function takes about 20 ms.
    """
    root = Path(__file__).parent.parent
    content = hashlib.sha256()
    for room in rooms:
        place = root / room
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            content.update(f"{path.relative_to(root).as_posix()}\0".encode())
            content.update(path.read_bytes())
    for path in sources_of(package) if package else ():
        content.update(path.read_bytes())
    return f"{__version__}+{content.hexdigest()[:16]}"


@cache
def code_of(predictor: str) -> str:
    """Return `own_code`; for a method of another package, with this package's code; for a user's own predictor
    (MODULE:CLASS), extended by a digest of its source.

    >>> code_of("requested") == own_code()
    True
    """
    module, colon, rest = predictor.partition(":")
    if not colon or not rest.partition(":")[0].isidentifier():
        package = available("runtime").get(module, "").partition(".")[0]
        return own_code() if package in ("", "batchcast") else own_code(package=package)
    spec = importlib.util.find_spec(module)
    source = Path(spec.origin).read_bytes() if spec and spec.origin and spec.has_location else b""
    return f"{own_code()}+{hashlib.sha256(source).hexdigest()[:8]}"


@dataclass(frozen=True)
class Task:
    """The simulation of one policy with one predictor, on one replicate of one period of one log.

    `digest` is the SHA-256 of the log's file, `code` identifies the source code, and replicate 0 is the log itself.
    Names of logs and periods and paths of files are not part of the key.
    """

    log: LogFile
    digest: str
    period: Period
    replicate: int
    seed: int
    policy: str
    predictor: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""

    @cached_property
    def key(self) -> str:
        """A digest of the task's content, 32 hexadecimal digits. A stored result with the same key is the result of
        this task."""
        log = {k: v for k, v in msgspec.to_builtins(self.log).items() if k not in ("path", "name")}
        content = {
            "log": log,
            "digest": self.digest,
            "period": [self.period.since, self.period.until],
            "draw": [self.seed, self.replicate] if self.replicate else None,
            "plan": [self.policy, self.predictor],
            "settings": dict(self.settings),
            "code": self.code,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def label(self) -> str:
        """A description of the task for people."""
        parts = (self.log.name, self.period.name, f"replicate {self.replicate}" if self.replicate else "", words_of(
            self.settings), f"{self.policy} with {self.predictor}")  # fmt: skip
        return ", ".join(filter(None, parts))


def words_of(settings: Mapping[str, Any]) -> str:
    """Return settings as text, sorted by name; empty if there are none.

    >>> words_of({"wide": "cut", "total": 64.0})
    'total=64.0 wide=cut'
    """
    return " ".join(f"{key}={value}" for key, value in sorted(settings.items()))


def tasks_of(study: Study, folder: str | Path = ".") -> list[Task]:
    """Return the tasks of a study in order; tasks with the same replicate follow each other."""
    every = []
    chosen = [{k: setting(k, v) for k, v in {**study.settings, **dict(zip(study.vary, values))}.items()}
              for values in product(*study.vary.values())]  # fmt: skip
    draws = range(0 if study.itself else 1, study.replicates + 1)
    for log in study.log:
        place = str((Path(folder) / log.path).resolve())
        digest, here = digest_of(place), msgspec.structs.replace(log, path=place)
        codes = {predictor: code_of(predictor) for _, predictor in study.pairs}
        every += [
            Task(here, digest, period, replicate, study.seed, policy, predictor, settings, codes[predictor])
            for period, settings, replicate, (policy, predictor) in product(study.period, chosen, draws, study.pairs)
        ]
    return list({task.key: task for task in every}.values())


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file in hexadecimal; InputError if the file cannot be read."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error})",
            hint="paths of logs are relative to the folder of the study's file",
        ) from None


class Failed(NamedTuple):
    """A task without a result, and the reason."""

    key: str
    label: str
    why: str


def attempt(task: Task) -> dict[str, Any] | Failed:
    """Return the result row of a task, or the task's failure. The error of one task does not affect other tasks."""
    try:
        return perform(task)
    except Exception as error:
        why = str(error) if isinstance(error, BatchcastError) else f"unexpected {type(error).__name__}: {error}"
        return Failed(task.key, task.label, why)


def perform(task: Task) -> dict[str, Any]:
    """Run a simulation and return its measures as a row of the dataset.

    The same task always gives the same row, except `task_s` (CPU seconds) and `host`. Users are numbers, in the order
    of the log.
    """
    begun = time.thread_time()
    if task.code != code_of(task.predictor):
        raise InputError(
            f"this worker ({platform.node()}) runs another version of the code than the one that started the study",
            hint="use one installation for all workers, e.g. the same venv on a shared file system",
        )
    trace = _drawn(task.log, task.digest, task.period, task.replicate, task.seed if task.replicate else 0)
    procs = opening_of(task.log).rule
    schedule = Pool(RunSetup(procs, **task.settings)).run(trace, task.policy, task.predictor)
    row = {
        **{name: getattr(task, name) for name in ("key", "replicate", "policy", "predictor", "digest", "code", "seed")},
        "log": task.log.name,
        "period": task.period.name,
        "settings": words_of(task.settings),
        "machine_procs": schedule.total,
        "left_out": int(sum(schedule.left_out.values())),
        **schedule.measures(),
        **_measured(trace, schedule, procs, with_jobs=not task.replicate),
        "host": platform.node(),
    }
    return {**row, "task_s": time.thread_time() - begun}


def _measured(trace: Trace, schedule: Schedule, procs: str, *, with_jobs: bool) -> dict[str, Any]:
    """Return the geometric mean slowdown, each user's number of jobs and waits, and for replicate 0 each job's
    measures and group.
    """
    wait = schedule.wait_time
    slowdown = bounded_slowdown(wait, schedule.run_time)
    user = trace.nominal("user_id").codes[schedule.rows]
    known_users = user[user >= 0]
    count = np.bincount(known_users)
    there = np.flatnonzero(count)
    jobs: dict[str, Any] = {"job_wait_s": None, "job_bounded_slowdown": None, "job_group": None}
    if with_jobs:
        group = np.unique(burst_groups(trace, procs)[schedule.rows], return_inverse=True)[1]
        jobs = {"job_wait_s": wait, "job_bounded_slowdown": slowdown, "job_group": group}
    return {
        GEOMETRIC_MEAN.name: geometric_mean(slowdown),
        "user": there,
        "user_jobs": count[there],
        "user_wait_s": np.bincount(known_users, wait[user >= 0])[there],
        **jobs,
    }


@lru_cache(maxsize=2)
def _drawn(log: LogFile, digest: str, period: Period, number: int, seed: int) -> Trace:
    """Return a replicate of a period of a log; replicate 0 is the period itself. The random draws depend on the seed
    and the replicate's number.
    """
    trace = _opened(log, digest)
    if period.since is not None or period.until is not None:
        trace = select(trace, Selection(period.since, period.until))
    return replicate(trace, np.random.default_rng([seed, number])) if number else trace


@lru_cache(maxsize=2)
def _opened(log: LogFile, digest: str) -> Trace:
    """Return a log as `batchcast simulate` opens it; InputError if the file has changed since the study began."""
    trace = opening_of(log).open(log.path)
    if trace.info.sha256 != digest:
        raise InputError(f"{log.path}: its content changed since the study began", hint="start the sweep again")
    return trace


def opening_of(log: LogFile) -> Opening:
    """Return how to open a log of a study, as options of the command line."""
    selection = Selection(status=log.status, partition=log.partition, queue=log.queue)
    return Opening(format=log.format, timezone=log.timezone, procs_total=log.procs_total, map=log.map,
                   cluster=log.cluster, procs=log.procs, clean=log.clean, selection=selection,
                   first=log.first)  # fmt: skip
