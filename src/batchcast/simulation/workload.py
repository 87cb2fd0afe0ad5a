# SPDX-License-Identifier: Apache-2.0
"""`Workload`: a trace as arrays for a simulation.

A workload has the jobs that the machine can run, and notes about omitted and changed jobs. The module also has the
memory of the predictors that are compiled into the scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from ..errors import InputError, NoAnswer, UsageError
from ..events.setup import RunSetup
from ..job import JobRequest, Name
from ..predict.gate import class_codes
from ..predict.runtime.baselines import Last2, RecentMean
from ..schedule.orders import recent_memory
from ..schedule.state import Memory
from ..table import Nominal, Trace, Values
from ..units import counted, span


def left_out_words(left_out: Mapping[str, int]) -> list[str]:
    """Return one sentence for each reason for which jobs were left out of the simulation.

    >>> left_out_words({"no run time": 0, "no processors": 2})
    ['2 jobs not simulated (no processors)']
    """
    return [f"{counted(count)} not simulated ({reason})" for reason, count in left_out.items() if count]


def no_job(left_out: Mapping[str, int]) -> NoAnswer:
    """Return the error for a log without a job that can be simulated, with the reasons and their counts.

    >>> print(no_job({"no run time": 0, "no processors": 2}))
    no job to simulate: 2 jobs not simulated (no processors)
      try: `batchcast info LOG` shows which fields the log knows
    """
    why = "; ".join(left_out_words(left_out))
    return NoAnswer(f"no job to simulate: {why or 'the log has none'}",
                    hint="`batchcast info LOG` shows which fields the log knows")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs as arrays (n,) in log order: row in the trace, submit time, processors, run time and requested time, without
    unknown values.

    `request` is used to plan a job and to kill it; `run` is the run time in the simulation. `left_out` counts records
    by the rule that removed them; `notes` are sentences for reports.
    """

    rows: np.ndarray
    submit: np.ndarray
    procs: np.ndarray
    run: np.ndarray
    request: np.ndarray
    total: int
    left_out: Mapping[str, int]
    notes: tuple[str, ...]

    def lengths(self, is_actual: bool = False) -> np.ndarray:
        """Return the requested (or actual) run times as planned run times (n,), which are at least 1 s."""
        return np.asarray(np.maximum(np.minimum(self.run, self.request) if is_actual else self.request, 1.0))


def make_workload(trace: Trace, setup: RunSetup = RunSetup(), *, kill: bool = True) -> Workload:
    """Convert a trace to one machine's workload. O(n).

    Jobs without a run time or processors are left out; a run time of 0 is kept. An unknown requested time (missing,
    zero or unlimited) is replaced by the log's largest known requested time, or `default_request`, and then does not
    kill the job. `wide` decides what happens to jobs wider than the machine: `drop` leaves them out, `widen` enlarges
    the machine to the widest job, `cut` cuts the jobs to the machine's size. With `kill` the run time is min(run,
    request), else the request is max(request, run). Raises InputError if the machine's size or all requested times are
    unknown, and UsageError for a value that is not accepted.
    """
    total, wide = setup.total, setup.wide
    if total is not None and not (isinstance(total, Real) and total >= 1):
        raise UsageError(f"total: {total!r} (accepted: processors, at least 1)")
    size = trace.info.max_procs if total is None else float(total)
    if not size >= 1:
        what = f"{trace.info.source}: the machine's size is unknown"
        raise InputError(what, hint="--procs-total N or --procs-total peak")
    run, width, req_time = trace.run_time, trace.procs(setup.procs), trace.req_time
    no_run, no_procs = np.isnan(run), np.isnan(width)
    too_wide = width > np.floor(size)
    is_included = ~no_run & ~no_procs
    left_out = {"no run time": int(no_run.sum()), "no processors": int((no_procs & ~no_run).sum())}
    notes: list[str] = []
    count = int((too_wide & is_included).sum())
    if wide == "drop":
        is_included &= ~too_wide
        left_out["wider than the machine"] = count
    elif wide == "widen" and count:
        size = float(width[is_included].max())
        notes.append(f"machine widened to its widest job, {size:.0f} processors")
    elif count:
        notes.append(f"{count} jobs cut to the machine's {size:.0f} processors")
    rows = np.flatnonzero(is_included)
    asked = (run[rows], req_time[rows], req_time)
    run, request, request_notes = _requests(*asked, kill, setup.default_request, trace.info.source)
    cores = np.minimum(np.ceil(width[rows]), np.floor(size)).astype(np.int64)
    return Workload(rows, trace.submit_time[rows], cores, run, request, int(size), left_out, (*notes, *request_notes))


def _requests(
    run: np.ndarray, asked: np.ndarray, everyone: np.ndarray, kill: bool, default: float | None, source: str
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    notes = []
    known = np.isfinite(asked) & (asked > 0)
    request = asked.copy()
    if not known.all():
        finite = everyone[np.isfinite(everyone) & (everyone > 0)]
        if default is None and not len(finite):
            raise InputError(f"{source}: no job has a requested time", hint="--default-request, e.g. 1-00:00:00")
        default = float(finite.max()) if default is None else default
        request[~known] = default
        notes.append(f"{counted(int((~known).sum()))} without a request planned with {span(default)}")
    over = known & (run > request)
    if over.any():
        what = "killed at their requested time" if kill else "exceeded the requested time and kept running"
        notes.append(f"{counted(int(over.sum()))} {what}")
    return (np.where(over, request, run), request, notes) if kill else (run, np.maximum(request, run), notes)


def requests_of(
    trace: Trace, work: Workload, procs: str, numbers: np.ndarray | None = None
) -> tuple[list[JobRequest], list[Name]]:
    """Return the simulated jobs' requests, with the planning request, and statuses; `numbers` (n,) become the
    requests' rows, by default the numbers of the kernel."""
    everyone, statuses = list(trace.requests(procs)), trace.nominal("status").decode()
    rows = work.rows.tolist()
    of_kernel = range(len(rows)) if numbers is None else numbers.tolist()
    plain = zip(rows, of_kernel, work.procs.tolist(), work.request.tolist())
    requests = [everyone[row]._replace(row=k, procs=float(p), req_time=q) for row, k, p, q in plain]
    return requests, [statuses[row] for row in rows]


class Rings:
    """The memory of a predictor that is compiled into the kernel; it grows with the users and classes of further
    jobs."""

    def __init__(self, predictor: Last2 | RecentMean) -> None:
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.fields: tuple[str, ...] | None = None  # similar jobs agree in these fields; None: jobs are not compared
        self.settings: dict[str, Any] = {}
        if isinstance(predictor, Last2):
            self.settings = {"length": 2, "need": predictor.need, "whole_seconds": predictor.round == "down"}
        else:
            self.fields, self.settings = predictor.fields, {"length": predictor.k}
        self.memory = recent_memory(64, **self.settings)

    @classmethod
    def of(cls, predictor: Any) -> Rings | None:
        """Return the memory of a predictor that has a compiled form, else None; a subclass may predict differently."""
        return cls(predictor) if type(predictor) in (Last2, RecentMean) else None

    def assign(self, trace: Trace, work: Workload, jobs: np.ndarray) -> Memory:
        """Write into the job records the ring buffers of each job's user and class; return the memory in the
        kernel."""
        seen, n = submitted(trace, work), len(work.rows)
        jobs["user_ring"] = self._rings("user", seen, ("user_id",), n)
        if self.fields is not None:
            jobs["alike_ring"] = self._rings("alike", seen, self.fields, n)
        if len(self.numbers) > len(self.memory.arrays["counts"]):
            old = self.memory.arrays
            self.memory = recent_memory(2 * len(self.numbers), **self.settings)
            for name, values in old.items():
                self.memory.arrays[name][: len(values)] = values
        return self.memory

    def _rings(self, kind: str, seen: dict[str, Values], fields: tuple[str, ...], n: int) -> np.ndarray:
        """Return the index of each job's ring buffer (n,), one buffer per class of jobs, -1 for no class; new classes
        get new buffers. Kinds share no buffer, also if both have the same fields, since the kernel writes to both."""
        codes, classes = class_codes(seen, fields, n)
        if not classes:  # also if the log lacks one of the columns
            return codes
        known = np.flatnonzero(codes >= 0)
        first = np.zeros(classes, np.int64)
        first[codes[known[::-1]]] = known[::-1]
        columns = [_plain(seen["procs" if name == "procs_log2" else name], name, first) for name in fields]
        keys = zip(*columns) if columns else [()]  # without fields, all jobs are alike
        rings = [self.numbers.setdefault((kind, *key), len(self.numbers)) for key in keys]
        return np.asarray(np.array([*rings, -1], np.int64)[codes])


def _plain(values: Values, name: str, rows: np.ndarray) -> list[Any]:
    """Return a column's values in the given rows, in the form that `gate.class_codes` compares."""
    if isinstance(values, Nominal):
        return values.take(rows).decode()
    numbers = values[rows]
    return list((np.ceil(np.log2(numbers)) if name == "procs_log2" else numbers).tolist())


def submitted(trace: Trace, work: Workload) -> dict[str, Values]:
    """Return the simulated jobs' columns that are known at submission, with the processors and the requested time used
    for planning."""
    seen: dict[str, Values] = {name: values.take(work.rows) for name, values in trace.at_submission().items()}
    return {**seen, "procs": work.procs.astype(float), "req_time": work.request}
