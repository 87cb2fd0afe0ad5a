"""Workload: the jobs of a trace that one machine can be asked to run, and what had to be left out or changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import InputError, UsageError, check_word
from ..table import Trace
from ..units import format_duration

WIDE = ("drop", "widen", "cut")


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs as arrays (n,) in log order: row in the trace, submit, processors, run and request, all known.

    `request` is what plans a job and where it is killed; `run` is what the schedule will see. `left_out` counts
    records by the rule that dropped them, `notes` are sentences for people.
    """

    rows: np.ndarray
    submit: np.ndarray
    procs: np.ndarray
    run: np.ndarray
    request: np.ndarray
    total: int
    left_out: Mapping[str, int]
    notes: tuple[str, ...]


def make_workload(
    trace: Trace,
    total: float | None = None,
    *,
    procs: str = "req",
    wide: str = "drop",
    kill: bool = True,
    default_request: float | None = None,
) -> Workload:
    """The trace as one machine's workload. O(n).

    Jobs with no run time or no processors are left out; run 0 stays. An unknown request (none, zero, unlimited) is
    planned with the log's largest known one, or `default_request`, and kills nobody. Jobs wider than the machine are
    dropped, or the machine is widened to the widest, or the job is cut to the machine. With `kill` the run is
    min(run, request), else the request is max(request, run). Raises InputError when the machine's size or every
    request is unknown, UsageError for a word or a number that is not accepted.
    """
    check_word("wide", wide, WIDE)
    if default_request is not None and not default_request > 0:
        raise UsageError(f"--default-request: {default_request!r} (accepted: seconds above 0)")
    if total is not None and not total >= 1:
        raise UsageError(f"total: {total!r} (accepted: processors, at least 1)")
    size = trace.info.max_procs if total is None else float(total)
    if not size >= 1:
        raise InputError(
            f"{trace.info.source}: the machine's size is unknown", hint="--procs-total N or --procs-total peak"
        )
    run, width, asked = trace.run_time, trace.procs(procs), trace.req_time
    no_run, no_procs = np.isnan(run), np.isnan(width)
    too_wide = width > np.floor(size)
    kept = ~no_run & ~no_procs
    left_out = {"no run time": int(no_run.sum()), "no processors": int((no_procs & ~no_run).sum())}
    notes: list[str] = []
    count = int((too_wide & kept).sum())
    if wide == "drop":
        kept &= ~too_wide
        left_out["wider than the machine"] = count
    elif wide == "widen" and count:
        size = float(width[kept].max())
        notes.append(f"machine widened to its widest job, {size:.0f} processors")
    elif count:
        notes.append(f"{count} jobs cut to the machine's {size:.0f} processors")
    rows = np.flatnonzero(kept)
    run, request, request_notes = _requests(run[rows], asked[rows], asked, kill, default_request, trace.info.source)
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
        notes.append(f"{int((~known).sum())} jobs without a request planned with {format_duration(default)}")
    over = known & (run > request)
    if kill:
        run = np.where(over, request, run)
        notes += [f"{int(over.sum()):,} jobs killed at their request"] if over.any() else []
    else:
        request = np.maximum(request, run)
        notes += [f"{int(over.sum())} jobs outlived their request and keep their run time"] if over.any() else []
    return run, request, notes
