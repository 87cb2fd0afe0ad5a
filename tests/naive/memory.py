"""Memory the slow, obvious way: who knew what at a submission, and what all attempts of a job ask for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from batchcast.table import Trace


def known_peaks(log: Trace, row: int) -> list[float]:
    """MiB a processor of the user's jobs that had ended when `row` was submitted and were measured, in order of end.

    Logs here know no nodes; none of their jobs ran out of memory, and no two things happen at one instant.
    """
    now, user = log.submit_time[row], log.nominal("user_id").decode()
    ends = log.submit_time + log.wait_time + log.run_time
    used = log.number("used_mem_kib") / log.number("alloc_procs") / 1024.0
    before = [k for k in range(len(log)) if user[k] == user[row] and ends[k] < now and used[k] > 0]
    return [max(float(used[k]), 1.0) for k in sorted(before, key=lambda k: float(ends[k]))]


def spent(request: float, peak: float, again: float) -> float:
    """All that a job's attempts ask for."""
    attempts = [request]
    if peak > request and again >= peak:
        attempts.append(again)
    while attempts[-1] < peak:
        attempts.append(2.0 * attempts[-1])
    return sum(attempts)


def expected(request: float, levels: Sequence[float], bounds: Sequence[float], again: float) -> float:
    """Expected memory of all attempts where the peak is a bound with the chance between its level and the one before,
    and twice the last bound above the last level."""
    peaks, edges = [*bounds, 2.0 * bounds[-1]], [0.0, *levels, 1.0]
    return math.fsum((edges[k + 1] - edges[k]) * spent(request, peak, again) for k, peak in enumerate(peaks))


def memory_log(jobs: int, seed: int, per_node: bool = False) -> Trace:
    """A log of users with habits that knows what was asked and used; asked far too much, some far too little."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 6, jobs)
    app = rng.integers(0, 3, jobs)
    usual = 2.0 ** (7 + (3 * user + app) % 7)
    used = np.maximum(usual * rng.lognormal(0.0, 0.15, jobs), 1.0) * 1024.0
    asked = 1024.0 * usual * np.where(user == 0, 0.9, 4.0)
    out = (used > asked) & (rng.random(jobs) < 0.8)
    run = np.round(rng.uniform(600, 7200, jobs)) + 0.25
    columns = {
        "submit_time": np.cumsum(rng.integers(60, 1200, jobs)) * 1.0,
        "wait_time": rng.integers(0, 600, jobs) + 0.5,
        "run_time": run,
        "req_procs": np.full(jobs, 4.0),
        "alloc_procs": np.full(jobs, 4.0),
        "req_time": np.full(jobs, 7200.0) + 3600.0 * app,
        "user_id": [f"user{u}" for u in user],
        "job_name": [f"case_{a}" for a in app],
        "req_mem_kib": asked,
        "used_mem_kib": np.where(out, np.minimum(used, asked), used),
        "status": np.where(out, "out_of_memory", "completed").tolist(),
    }
    if per_node:
        columns |= {"req_nodes": np.ones(jobs), "alloc_nodes": np.ones(jobs)}
    return Trace.from_arrays(columns)
