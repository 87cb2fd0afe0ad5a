"""Speed of `forecast`: an answer beside 1,000 queued and 1,000 running jobs, a fit, a replay, and the state saved for a
restart."""

from __future__ import annotations

import pickle
import resource
import tracemalloc
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from batchcast.errors import InputError
from batchcast.events.event import Start, Submit
from batchcast.events.live import LiveClock
from batchcast.events.recorded import events
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.machines.machine import homogeneous
from batchcast.predict.hazard.bins import BINS
from batchcast.predict.hazard.features import NAMES
from batchcast.predict.hazard.model import Hazard, Waits, fit
from batchcast.predict.hazard.renewal import EVERY, MODELS, MOST
from batchcast.predict.wait.forecast import NO_SIMULATION, Forecast, NodesComponent, renewed, seen_in
from batchcast.predict.wait.scheduler_replay import SchedulerReplay
from batchcast.trace.read import read_trace
from batchcast_papers.shared import shared_folder

from .wait import PROCS, REAL, busy_log

WINDOW = 20_000
REPLAYED = 4000
LIVE = 1000


def run() -> None:
    """Print CPU times, minimum and median, beside their targets, and memory."""
    random = np.random.default_rng(1)
    features = random.random((WINDOW, len(NAMES)), np.float32)
    waits = Waits(random.lognormal(6.0, 2.5, WINDOW).round(), np.ones(WINDOW, bool), np.ones(WINDOW))
    models: list[Hazard | None] = []
    seconds = least_and_median(lambda: models.append(fit(features, waits)), 1, 1.0)
    show(f"a fit on {WINDOW:,} submissions, figures without order, s (target 15)", seconds)
    show(f"a fit on {WINDOW:,} submissions of HPC2N, s", fit_on_a_log())
    looks = WINDOW * MOST // EVERY
    starts = np.sort(random.random((looks, BINS)), axis=1)
    rests = Waits(*(of[:looks] for of in waits))
    seconds = least_and_median(lambda: models.append(fit(features[:looks], rests, prior_curves=starts)), 1, 1.0)
    show(f"and on {looks:,} looks, figures without order, s", seconds)
    method, state = crowded(*models[-2:])
    job = JobRequest(2000, 2000, 600.0, 8.0, 3600.0, float("nan"))
    answer = least_and_median(lambda: method.predict(job, state), 20, 1000.0)
    show("one answer, 1,000 queued and 1,000 running, ms (target 50)", answer)
    show("all 1,000 queued anew, s", least_and_median(lambda: renewed(method, state), 5, 1.0))
    many, their_state = crowded(*models[-2:], queued=10_000)
    show("all of 10,000 queued anew and in words, s (target 2)",
         least_and_median(lambda: many.of_waiting(their_state), 3, 1.0))  # fmt: skip
    tracemalloc.start()  # this process had a larger peak before, so its own peak would not change
    many.of_waiting(their_state)
    show("the most memory that takes beside, MB (target 200)", f"{tracemalloc.get_traced_memory()[1] / 1e6:7.0f}")
    tracemalloc.stop()
    machine = homogeneous(500, 2)
    one, three = SchedulerReplay(machine=machine), NodesComponent(machine)
    show("the simulation on 500 nodes, as many jobs, one answer, ms (target 300)",
         least_and_median(lambda: one.predict(job, state), 5, 1000.0))  # fmt: skip
    show("the three futures of it that `forecast` draws, ms (target 300)",
         least_and_median(lambda: three.predict(job, state), 5, 1000.0))  # fmt: skip
    log = busy_log(REPLAYED)
    Forecast().predict_trace(log.take(np.arange(50)), total=PROCS)
    began = process_time()
    Forecast().predict_trace(log, total=PROCS)
    spent = process_time() - began
    show(f"a replay of {REPLAYED:,} jobs, fits included, s (target for 40,000: 240)", f"{spent:7.1f}")
    clock = LiveClock({"forecast": Forecast()}, PROCS)
    few = list(events(log.take(np.arange(LIVE))))
    began = process_time()
    for event in few:
        clock.tell(event)
    show(
        f"live, a submission asked and learned from, ms (mean of {LIVE:,})",
        f"{1e3 * (process_time() - began) / LIVE:7.2f}",
    )
    began = process_time()
    kept = pickle.dumps(clock, protocol=5)
    show("kept between starts, MB, and ms to pack", f"{len(kept) / 1e6:7.1f} {1e3 * (process_time() - began):7.0f}")
    began = process_time()
    pickle.loads(kept)
    show("and to unpack, ms", f"{1e3 * (process_time() - began):7.0f}")
    ring = 4 * WINDOW * len(NAMES) / 1e6
    show("figures of the last 20,000 submissions, MB", f"{ring:7.1f}")
    show("figures of as many looks as come with them at most, MB", f"{4 * looks * (len(NAMES) + BINS) / 1e6:7.1f}")
    show("the process at most, MB", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:7.0f}")


def fit_on_a_log() -> str:
    """Return the minimum and median CPU seconds of a fit on a real log's features, if the papers' logs are
    available."""
    try:
        log = read_trace(shared_folder() / "traces" / REAL).take(np.arange(WINDOW))
    except (InputError, OSError) as error:
        return f"left out: {error}"
    told = seen_in(log, "honest", "req", log.info.max_procs)
    known = ~np.isnan(log.wait_time)
    waits = Waits(log.wait_time[known], np.ones(known.sum(), bool), np.ones(known.sum()))
    return least_and_median(lambda: fit(told.rows[known], waits), 1, 1.0)


def crowded(model: Hazard | None, of_rests: Hazard | None, queued: int = 1000) -> tuple[Forecast, SystemState]:
    """Return a method with its models, and the state for questions, whose queue the method has observed."""
    method, state = Forecast(), SystemState(total=1000.0)
    random = np.random.default_rng(1)
    for row in range(1000 + queued):
        job = JobRequest(row, row, 0.0, 1.0 if row < 1000 else float(random.integers(1, 64)), 3600.0, float("nan"))
        state.apply(Submit(0.0, job))
        if row < 1000:
            state.apply(Start(0.0, job, 0.0))
        method.numbers[row] = (row, (0, 0, 0), (0.0, NO_SIMULATION), np.linspace(0.01, 1.0, BINS))
    state.now, method.model = 600.0, model
    for _ in range(MODELS):
        method.renewal.fitted(of_rests)
    return method, state


def show(words: str, figures: str) -> None:
    """Print one line of the table."""
    print(f"{words:<72} {figures}", flush=True)


def least_and_median(work: Callable[[], Any], times: int, unit: float) -> str:
    """Return CPU time of this many repetitions after one more, minimum and median, in seconds times `unit`."""
    spent = []
    if times > 1:
        work()
    for _ in range(times):
        began = process_time()
        work()
        spent.append(unit * (process_time() - began))
    return f"{min(spent):7.2f} {median(spent):7.2f}"


if __name__ == "__main__":
    run()
