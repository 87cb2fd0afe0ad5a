"""Speed of wait predictors: over a whole log, and one live prediction beside 10,000 queued and 10,000 running jobs."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from batchcast.errors import InputError
from batchcast.evaluation.wait import run_wait
from batchcast.events.event import End, Event, Start, Submit
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.registry import available, make
from batchcast.table import LogInfo, Trace
from batchcast.trace.read import read_trace
from batchcast_papers.shared import shared_folder

JOBS = 50_000
LIVE = 10_000
PROCS = 256.0
REAL = "HPC2N-2002-2.2-cln.swf.gz"
REPEATS = 5
POLICIES = ("fcfs", "easy", "easy-sjbf")


def run() -> None:
    """Print CPU seconds for 40,000 predictions, and milliseconds of one live prediction: minimum and median."""
    for name, log in logs():
        ask = np.arange(len(log)) >= len(log) - 40_000
        print(f"{f'40,000 predictions, history of 10,000 to 50,000 jobs: {name}':<72} CPU s, least and median of 5")
        for spec in ("pqstar:fallback=none", "pqstar", "ibl"):
            print(f"{spec:<72} {batch_seconds(log, spec, ask)}")
    print(f"{f'one live prediction, {LIVE:,} queued and {LIVE:,} running jobs':<72} CPU ms, least and median of 50")
    for spec in available("wait"):
        if spec not in ("scheduler_replay", "forecast"):
            print(f"{spec:<72} {live_milliseconds(spec)}")
    for policy in POLICIES:
        spec = f"scheduler_replay:policy={policy}"
        print(f"{spec + ', each job then joins the queue':<72} {live_milliseconds(spec)}")
        print(f"{spec + ', after a job has ended early':<72} {live_milliseconds(spec, fresh=True)}")


def logs() -> Iterator[tuple[str, Trace]]:
    """Yield a synthetic log, and the first jobs of HPC2N if the papers' logs are available."""
    yield "a made-up log", busy_log(JOBS)
    try:
        yield "HPC2N", read_trace(shared_folder() / "traces" / REAL).take(np.arange(JOBS))
    except (InputError, OSError) as error:
        print(f"HPC2N is left out: {error}")


def batch_seconds(log: Trace, spec: str, ask: np.ndarray) -> str:
    """Return CPU seconds of the forecasts and their replay, with compiled kernels, without the search of settings."""
    run_wait(log.take(np.arange(50)), spec, ask[:50])
    times = [run_wait(log, spec, ask).seconds for _ in range(REPEATS)]
    return f"{min(times):7.2f} {median(times):7.2f}"


def live_milliseconds(spec: str, fresh: bool = False) -> str:
    """Return CPU milliseconds of `predict` on a full state that `observe` has followed; `fresh`: an end comes before
    each."""
    method, state = make("wait", spec), SystemState(8.0 * LIVE)
    rng = np.random.default_rng(1)
    for row, job in enumerate(crowd(2 * LIVE, rng)):
        tell(method, state, Submit(float(row), job))
        if row < LIVE:
            tell(method, state, Start(float(row), job, float(row) - job.submit_time))
    state.total = state.running_procs
    times, now = [], 2.0 * LIVE
    for count, job in enumerate(crowd(51, rng, first=2 * LIVE)):
        now += 0.01
        if fresh:
            leaving = state.running[count].job
            tell(method, state, End(now, leaving, now - state.running[count].start_time, 0.0))
        state.now = now
        began = process_time()
        method.predict(job, state)
        times.append(1e3 * (process_time() - began))
        if not fresh:
            tell(method, state, Submit(now, job._replace(submit_time=now)))
    return f"{min(times[1:]):7.3f} {median(times[1:]):7.3f}"


def tell(method: Any, state: SystemState, event: Event) -> None:
    """Pass one event to the state and to the method, as a clock does."""
    state.apply(event)
    method.observe(event, state)


def crowd(n: int, rng: np.random.Generator, first: int = 0) -> list[JobRequest]:
    """Return jobs of 300 users and a few dozen shapes."""
    procs, limit = rng.choice([1.0, 2.0, 4.0, 8.0], n), rng.choice(np.arange(17, 65) * 1800.0, n)
    users = rng.integers(0, 300, n)
    return [
        JobRequest(first + k, first + k, float(first + k), procs[k], limit[k], float("nan"), user_id=int(users[k]))
        for k in range(n)
    ]


def busy_log(n: int) -> Trace:
    """Return a log with a queue of hundreds, in which long waits come in waves."""
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
