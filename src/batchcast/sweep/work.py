# SPDX-License-Identifier: Apache-2.0
"""A task performed: what a worker does, wherever it runs. Pure but for reading the log."""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import BatchcastError, InputError, NoAnswer
from ..evaluation.differences import burst_groups
from ..evaluation.resampling import replicate
from ..metrics.bursts import geometric_mean
from ..metrics.schedule import bounded_slowdown
from ..simulation import Schedule, simulate
from ..table import Trace
from ..trace import clean, read_trace
from ..trace.implied.machine import peak_procs
from ..trace.select import Selection, select
from .study import LogFile, Period
from .task import Task, code_of, words_of


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
    procs = _procs(task.log)
    schedule = simulate(trace, task.policy, task.predictor, procs=procs, **task.settings)
    if not len(schedule):
        raise NoAnswer("no job to simulate", hint="`batchcast info LOG` shows which fields the log knows")
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
    """A log, read, cleaned and selected as `batchcast simulate` does; InputError where it is not the file meant."""
    total = log.procs_total if isinstance(log.procs_total, float) else None
    trace = read_trace(log.path, format=log.format, timezone=log.timezone, procs_total=total, map=log.map)
    if trace.info.sha256 != digest:
        raise InputError(f"{log.path}: its content changed since the study began", hint="start the sweep again")
    if log.procs_total == "peak":
        peak = peak_procs(trace, _procs(log))
        trace = trace.with_info(replace(trace.info, max_procs=peak, max_procs_source="peak"))
    chosen = Selection(None, None, list(log.status), list(log.partition), list(log.queue))
    return select(clean(trace, list(log.clean)), chosen, log.first)


def _procs(log: LogFile) -> str:
    return "alloc" if "reference" in log.clean else log.procs or "req"
