# SPDX-License-Identifier: Apache-2.0
"""Batsim's workloads (JSON): jobs with a profile each, read where the profile tells a run time, and written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import InputError, input_error
from ..table import LogInfo, Trace

SHAPE = '{"nb_res": 100, "jobs": [{"id": 1, "subtime": 0, "res": 4, "profile": "p"}], "profiles": {"p": ...}}'


def looks_like_batsim(sample: bytes) -> bool:
    """Whether a file's beginning is that of such a workload.

    >>> looks_like_batsim(b' {"nb_res": 4, "jobs": []'), looks_like_batsim(b'{"results": []}')
    (True, False)
    """
    head = sample.lstrip()
    return head.startswith(b"{") and any(f'"{word}"'.encode() in head for word in ("nb_res", "jobs", "profiles"))


def read_batsim(text: str, source: str = "(memory)", *, strict: bool = False) -> Trace:
    """The trace of a workload; its clock is the workload's seconds, its machine `nb_res` processors.

    `delay` profiles tell a run time, and sequences of them (`composed`, its `repeat` too); what others last depends on
    a platform, so it is unknown, and a note says of how many jobs. `walltime` is the request. Jobs without a
    profile, submission or number of processors are dropped and counted; `strict` stops at the first. InputError where
    the file is no such workload.

    >>> job = '{"id": "w!7", "subtime": 3, "res": 2, "profile": "p", "walltime": 60}'
    >>> trace = read_batsim('{"nb_res": 4, "jobs": [%s], "profiles": {"p": {"type": "delay", "delay": 20.5}}}' % job)
    >>> trace.job_id.tolist(), trace.run_time.tolist(), trace.req_time.tolist(), trace.info.max_procs
    (['w!7'], [20.5], [60.0], 4.0)
    """
    try:
        told = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{source}:{error.lineno}: not JSON: {error.msg}", hint=f"a workload is {SHAPE}") from None
    if not isinstance(told, dict) or not isinstance(told.get("jobs"), list):
        raise input_error(source, "is no workload of Batsim's: it has no list of jobs", accepted=SHAPE)
    profiles: dict[str, Any] = told["profiles"] if isinstance(told.get("profiles"), dict) else {}
    rows, dropped = [], 0
    for number, job in enumerate(told["jobs"], 1):
        row = _row(job, profiles)
        if row is None:
            if strict:
                raise input_error(source, f"job {number} has no id, subtime, res or profile", value=job, accepted=SHAPE)
            dropped += 1
        else:
            rows.append(row)
    if not rows:
        raise input_error(source, "no job in it", accepted=SHAPE)
    unknown = sum(math.isnan(row["run_time"]) for row in rows)
    note = f"{unknown} jobs have a profile whose length a platform decides: their run time is unknown"
    size = told.get("nb_res", 0)
    known = isinstance(size, int | float) and size > 0
    info = LogInfo(
        source=source,
        format="batsim",
        max_procs=float(size) if known else math.nan,
        max_procs_source="header" if known else "unknown",
        dropped={"job that cannot be read": dropped} if dropped else {},
        notes=(note,) if unknown else (),
    )
    return Trace.from_arrays({name: [row[name] for row in rows] for name in rows[0]}, info)


def _row(job: Any, profiles: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        submit, procs, profile = float(job["subtime"]), float(job["res"]), str(job["profile"])
        limit = float(job.get("walltime", -1))
        ident = job["id"] if isinstance(job["id"], int) else str(job["id"])
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    if not (math.isfinite(submit) and procs > 0):
        return None
    run = _seconds(profiles.get(profile), profiles, 0)
    return {
        "job_id": ident, "submit_time": submit, "run_time": run, "alloc_procs": procs, "req_procs": procs,
        "req_time": limit if limit > 0 else math.nan,
    }  # fmt: skip


def _seconds(profile: Any, profiles: Mapping[str, Any], depth: int) -> float:
    """How long a profile lasts wherever it runs; NaN where a platform decides."""
    if not isinstance(profile, dict) or depth > 8:
        return math.nan
    try:
        if profile.get("type") == "delay":
            return float(profile["delay"])
        if profile.get("type") in ("composed", "composition"):
            parts = [_seconds(profiles.get(str(name)), profiles, depth + 1) for name in profile["seq"]]
            return math.fsum(parts) * float(profile["repeat"] if "repeat" in profile else profile.get("nb", 1))
    except (KeyError, TypeError, ValueError):
        pass
    return math.nan


def write_batsim_workload(trace: Trace) -> Iterator[str]:
    """The text of a workload, piece by piece: a `delay` profile for each run time, processors of the log's machine.

    Jobs without processors or a run time have no place in it. Submissions begin at 0. O(jobs).
    """
    procs = trace.procs()
    keep = [k for k in range(len(trace)) if procs[k] > 0 and trace.run_time[k] >= 0]
    first = float(trace.submit_time.min()) if len(trace) else 0.0
    size = trace.info.max_procs if trace.info.max_procs > 0 else max((procs[k] for k in keep), default=0)
    lengths = dict.fromkeys(_plain(trace.run_time[k]) for k in keep)
    yield f'{{"nb_res": {_plain(size)}, "jobs": [\n'
    for at, k in enumerate(keep):
        run, limit = _plain(trace.run_time[k]), trace.req_time[k]
        job = {"id": trace.job_id[k].item(), "subtime": _plain(trace.submit_time[k] - first), "res": _plain(procs[k])}
        job |= {"walltime": _plain(limit)} if limit > 0 and math.isfinite(limit) else {}
        yield json.dumps({**job, "profile": f"delay_{run}"}) + ("\n" if at == len(keep) - 1 else ",\n")
    yield '], "profiles": {\n'
    yield ",\n".join(f'"delay_{run}": {{"type": "delay", "delay": {run}}}' for run in lengths)
    yield "\n}}\n"


def _plain(value: float) -> int | float:
    return int(value) if float(value).is_integer() else float(value)
