# SPDX-License-Identifier: Apache-2.0
"""A task: one simulation, identified by everything that decides its result, the source code included.

And its performance: what a worker does, wherever it runs. Pure but for reading the log.
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
from typing import Any

import msgspec
import numpy as np

from ..ceilings import open_regular
from ..errors import BatchcastError, InputError
from ..evaluation.differences import burst_groups
from ..evaluation.resampling import replicate
from ..machines.models import Pool
from ..metrics.bursts import geometric_mean
from ..metrics.schedule import bounded_slowdown
from ..simulation import Schedule
from ..table import Trace
from ..trace.open import Opening
from ..trace.select import Selection, select
from ..version import __version__
from .study import LogFile, Period, Study, setting

DECIDING = (
    *("compiled", "events", "formats", "machines", "metrics", "papers", "predict", "schedule", "simulation", "table"),
    *("trace", "columns.py", "job.py", "units.py", "evaluation/differences.py", "evaluation/resampling.py"),
    "sweep/task.py",
)
"""What a task's result hangs on; an edit elsewhere (a page, the store, a verb) leaves finished results valid."""


@cache
def own_code(rooms: tuple[str, ...] = DECIDING) -> str:
    """The version and a digest of the deciding sources' bytes, in order of their names. About 20 ms, once a process.

    `rooms` are folders and files of the package.
    """
    root = Path(__file__).parent.parent
    content = hashlib.sha256()
    for room in rooms:
        place = root / room
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            content.update(f"{path.relative_to(root).as_posix()}\0".encode())
            content.update(path.read_bytes())
    return f"{__version__}+{content.hexdigest()[:16]}"


@cache
def code_of(predictor: str) -> str:
    """The same, with the source of a predictor of one's own (MODULE:CLASS) added.

    >>> code_of("requested") == own_code()
    True
    """
    module, colon, rest = predictor.partition(":")
    if not colon or not rest.partition(":")[0].isidentifier():
        return own_code()
    spec = importlib.util.find_spec(module)
    source = Path(spec.origin).read_bytes() if spec and spec.origin and spec.has_location else b""
    return f"{own_code()}+{hashlib.sha256(source).hexdigest()[:8]}"


@dataclass(frozen=True)
class Task:
    """One policy planned with one predictor on one replicate of one period of one log.

    `digest` is the SHA-256 of the log's file, `code` of what computes the result (`sweep.code`), `replicate` 0 the log
    as it is. Names of logs and periods, and where a file lies, are for people: they are not in the key.
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
        """32 hexadecimal digits of the task's content: who has a result under it needs no other."""
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
        """The task in words."""
        parts = (self.log.name, self.period.name, f"replicate {self.replicate}" if self.replicate else "", words_of(
            self.settings), f"{self.policy} with {self.predictor}")  # fmt: skip
        return ", ".join(filter(None, parts))


def words_of(settings: Mapping[str, Any]) -> str:
    """Settings in words, sorted by name; empty for none.

    >>> words_of({"wide": "cut", "total": 64.0})
    'total=64.0 wide=cut'
    """
    return " ".join(f"{key}={value}" for key, value in sorted(settings.items()))


def tasks_of(study: Study, folder: str | Path = ".") -> list[Task]:
    """The tasks of a study, in order: those that share a replicate stand together.

    `folder` is where relative paths of logs begin. Reads every log once, for its digest. InputError for one that is
    not there.
    """
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
    """SHA-256 of a file's bytes in hexadecimal digits; InputError where it cannot be read."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror or error})",
            hint="a log's path is meant from the folder of the study's file",
        ) from None


@dataclass(frozen=True, slots=True)
class Failed:
    """A task that gave no result, and why; `again` holds what shows it on one machine."""

    key: str
    label: str
    why: str


def attempt(task: Task) -> dict[str, Any] | Failed:
    """The task's row (`dataset.SCHEMA`), or why there is none: an error of one task is that task's alone."""
    try:
        return perform(task)
    except BatchcastError as error:
        return Failed(task.key, task.label, str(error))
    except Exception as error:
        return Failed(task.key, task.label, f"unexpected {type(error).__name__}: {error}")


def perform(task: Task) -> dict[str, Any]:
    """Simulate, and measure: one row, by the names of `dataset.SCHEMA`.

    The same task gives the same row, but for `task_s`, CPU seconds, and `host`. Users stand in it as numbers, in the
    log's order.
    """
    begun = time.thread_time()
    if task.code != code_of(task.predictor):
        raise InputError(
            f"this worker ({platform.node()}) runs other code than the study was started with",
            hint="one installation for all workers, e.g. the same venv on a shared file system",
        )
    trace = _drawn(task.log, task.digest, task.period, task.replicate, task.seed if task.replicate else 0)
    procs = opening_of(task.log).rule
    schedule = Pool(procs, options=task.settings).run(trace, task.policy, task.predictor)
    row = {
        "key": task.key,
        "log": task.log.name,
        "period": task.period.name,
        "settings": words_of(task.settings),
        "replicate": task.replicate,
        "policy": task.policy,
        "predictor": task.predictor,
        "digest": task.digest,
        "code": task.code,
        "seed": task.seed,
        "machine_procs": schedule.total,
        "left_out": int(sum(schedule.left_out.values())),
        **schedule.measures(),
        **_measured(trace, schedule, procs, with_jobs=not task.replicate),
        "host": platform.node(),
    }
    return {**row, "task_s": time.thread_time() - begun}


def _measured(trace: Trace, schedule: Schedule, procs: str, *, with_jobs: bool) -> dict[str, Any]:
    """The geometric mean, each user's jobs and waits, and for the log itself each job's, with its group."""
    wait = schedule.wait_time
    slowdown = bounded_slowdown(wait, schedule.run_time)
    user = trace.nominal("user_id").codes[schedule.rows]
    known = user[user >= 0]
    count = np.bincount(known)
    there = np.flatnonzero(count)
    jobs: dict[str, Any] = {"job_wait_s": None, "job_bounded_slowdown": None, "job_group": None}
    if with_jobs:
        group = np.unique(burst_groups(trace, procs)[schedule.rows], return_inverse=True)[1]
        jobs = {"job_wait_s": wait, "job_bounded_slowdown": slowdown, "job_group": group}
    return {
        "geometric_mean_bounded_slowdown": geometric_mean(slowdown),
        "user": there,
        "user_jobs": count[there],
        "user_wait_s": np.bincount(known, wait[user >= 0])[there],
        **jobs,
    }


@lru_cache(maxsize=2)
def _drawn(log: LogFile, digest: str, period: Period, number: int, seed: int) -> Trace:
    """A replicate of a period of a log; number 0 is the period itself. Its draws hang on the seed and its number."""
    trace = _opened(log, digest)
    if period.since is not None or period.until is not None:
        trace = select(trace, Selection(period.since, period.until))
    return replicate(trace, np.random.default_rng([seed, number])) if number else trace


@lru_cache(maxsize=2)
def _opened(log: LogFile, digest: str) -> Trace:
    """A log, opened as `batchcast simulate` does; InputError if it is not the file that the study began with."""
    trace = opening_of(log).open(log.path)
    if trace.info.sha256 != digest:
        raise InputError(f"{log.path}: its content changed since the study began", hint="start the sweep again")
    return trace


def opening_of(log: LogFile) -> Opening:
    """How a study's log is opened, in the words of the command line."""
    return Opening(
        format=log.format,
        timezone=log.timezone,
        procs_total=log.procs_total,
        map=log.map,
        cluster=log.cluster,
        procs=log.procs,
        clean=log.clean,
        selection=Selection(status=log.status, partition=log.partition, queue=log.queue),
        first=log.first,
    )
