"""Wait predictors: whole-log batch paths, and one live prediction beside 10,000 queued and 10,000 running jobs."""

from __future__ import annotations

from statistics import median
from time import perf_counter

import numpy as np

from batchcast.events.event import Start, Submit
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.registry import available, make
from batchcast.table import LogInfo, Trace

JOBS = 50_000
LIVE = 10_000
PROCS = 256.0


def run() -> None:
    """Print seconds for 40,000 predictions in a log of 50,000 jobs, and milliseconds of one live prediction."""
    log = busy_log(JOBS)
    ask = np.arange(JOBS) >= JOBS - 40_000
    print(f"{'40,000 predictions, history of 10,000 to 50,000 jobs':<60} seconds")
    for spec in ("pqstar:fallback=none", "pqstar:fallback=ibl", "ibl"):
        print(f"{spec:<60} {batch_seconds(log, spec, ask):7.2f}")
    print(f"{f'one live prediction, {LIVE:,} queued and {LIVE:,} running jobs':<60} milliseconds (median of 50)")
    for name in available("wait"):
        print(f"{name:<60} {live_milliseconds(name):7.3f}")


def batch_seconds(log: Trace, spec: str, ask: np.ndarray) -> float:
    """Seconds of the batch path, kernels compiled, a search of settings done beforehand and left out."""
    make("wait", spec).predict_trace(log.take(np.arange(50)), total=PROCS)
    method = make("wait", spec)
    clock = getattr(method, "protocol", "honest")
    searching = getattr(method, "fallback", None) or method
    if hasattr(searching, "prepare_trace"):
        searching.prepare_trace(log, clock)
    began = perf_counter()
    method.predict_trace(log, clock, ask=ask)
    return perf_counter() - began


def live_milliseconds(spec: str) -> float:
    """Median milliseconds of `predict` on a full state that `observe` has followed."""
    method, state = make("wait", spec), SystemState(2.0 * LIVE)
    rng = np.random.default_rng(1)
    for row, job in enumerate(crowd(2 * LIVE, rng)):
        events = [Submit(float(row), job)]
        if row < LIVE:
            events.append(Start(float(row), job, float(row) - job.submit_time))
        for event in events:
            state.apply(event)
            method.observe(event, state)
    times = []
    for job in crowd(51, rng, first=2 * LIVE):
        state.now = 2.0 * LIVE + 5000.0
        began = perf_counter()
        method.predict(job, state)
        times.append(1e3 * (perf_counter() - began))
    return median(times[1:])


def crowd(n: int, rng: np.random.Generator, first: int = 0) -> list[JobRequest]:
    """Jobs of 300 users and some dozens of shapes."""
    procs, limit = rng.choice([1.0, 2.0, 4.0, 8.0], n), rng.choice(np.arange(1, 49) * 1800.0, n)
    users = rng.integers(0, 300, n)
    return [
        JobRequest(first + k, first + k, float(first + k), procs[k], limit[k], float("nan"), user_id=int(users[k]))
        for k in range(n)
    ]


def busy_log(n: int) -> Trace:
    """A log with a queue of hundreds, in which long waits come in waves."""
    rng = np.random.default_rng(0)
    submit = np.cumsum(rng.exponential(300.0, n).round())
    wave = 6 * 3600.0 * np.maximum(np.sin(submit / 2e5), 0.0)
    user = rng.integers(0, 250, n)
    return Trace.from_arrays(
        {
            "submit_time": submit,
            "wait_time": (rng.lognormal(0.0, 1.5, n) * wave * rng.random(n)).round(),
            "run_time": rng.lognormal(7.0, 1.8, n).round(),
            "req_procs": 2.0 ** rng.integers(0, 6, n),
            "req_time": rng.choice(np.arange(1, 97) * 1800.0, n),
            "user_id": user,
            "group_id": user % 12,
            "queue_id": rng.integers(0, 3, n),
        },
        LogInfo(max_procs=PROCS),
    )


if __name__ == "__main__":
    run()
