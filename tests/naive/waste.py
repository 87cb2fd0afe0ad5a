"""A slow reference version of core-hours used, requested, unused, failed and cut by group, and of the limit that jobs
need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from batchcast.table import Trace

UNDONE = {
    "failed", "partial_failed", "cancelled", "node_fail", "out_of_memory", "boot_fail", "deadline", "launch_failed",
    "reconfig_fail", "preempted", "revoked",
}  # fmt: skip


def sums(trace: Trace, inside: list[bool], column: str | None) -> dict[Any, dict[str, float]]:
    """Return the sums of each group of a column (None: all jobs together), by the group's name; None if the name is
    unknown."""
    groups: dict[Any, dict[str, float]] = {}
    names = [None] * len(trace) if column is None else trace.nominal(column).decode()
    for row, status in enumerate(trace.nominal("status").decode()):
        run, limit, procs = (float(v[row]) for v in (trace.run_time, trace.req_time, trace.procs("req")))
        if not inside[row] or run != run:
            continue
        group = groups.setdefault(names[row], dict.fromkeys(
            ("jobs", "jobs_without_limit", "used", "asked", "unused", "failed", "at_limit"), 0.0))  # fmt: skip
        hours = (1.0 if procs != procs else procs) / 3600.0
        limited = limit > 0 and limit != float("inf")
        group["jobs"] += 1
        group["used"] += hours * run
        if limited:
            group["asked"] += hours * limit
            group["unused"] += hours * max(limit - run, 0.0)
        else:
            group["jobs_without_limit"] += 1
        if status == "timeout" or (limited and run >= limit and (status is None or status in UNDONE)):
            group["at_limit"] += hours * run
        elif status in UNDONE:
            group["failed"] += hours * run
    return groups


def limit_kept(run_times: Sequence[float], was_cut: Sequence[bool], risk: float) -> float | None:
    """Return the smallest run time within which enough jobs ended by themselves; None if there is no such run time.

    Enough means: with one more job (n + 1 in all), at most the share `risk` exceeds it, even if that one job and every
    job that was cut would have run for ever.
    """
    n = len(run_times)
    for limit in sorted(run_times):
        ended_within = sum(run <= limit and not cut for run, cut in zip(run_times, was_cut))
        if (n + 1 - ended_within) <= risk * (n + 1) + 1e-9:
            return limit
    return None
