"""Cost of the papers' run-time methods: one training, whole logs, a single live prediction, growth with history."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from batchcast.errors import InputError
from batchcast.evaluation.accuracy import fresh_predictor
from batchcast.events.driver import Cadence
from batchcast.events.event import Submit
from batchcast.events.recorded import events, replay
from batchcast.events.state import SystemState
from batchcast.predict.registry import available
from batchcast.table import Trace
from batchcast.trace import read_trace
from batchcast_papers.online_knn_ga.study import SETS, load
from batchcast_papers.shared import shared_folder

# these methods have a benchmark of their own
VASP_MODELS = ("irpa", "brbf", "forest", "svr", "bayesian_ridge", "boosted")


def run() -> None:
    """Print the tables."""
    try:
        traces = shared_folder() / "traces"
    except InputError as error:
        print(f"skipped: {error}")
        return
    _, hpc2n04 = load(SETS[0], traces)
    one_batch(hpc2n04)
    growth(hpc2n04)
    whole_log("HPC2N04", hpc2n04, "knn_ga", "paper")
    whole_log("HPC2N04", hpc2n04, "knn_ga", "honest")
    whole_log("CTC-SP2", read_trace(str(traces / "CTC-SP2-1996-3.1-cln.swf.gz")), "su", "honest")


def one_batch(trace: Trace, batches: int = 7) -> None:
    """Print training at the paper's settings (50 x 100 genomes, 1500 jobs): CPU seconds on one core, batch by batch."""
    for protocol in ("paper", "honest"):
        method = Trained(fresh_predictor("knn_ga", trace, 240.0, 0))
        replay(trace.take(np.arange(4500 + 1000 * batches)), {"it": method}, protocol=protocol)
        cost, found = method.refits[1:], method.inner.trained[1:]  # the first call loads compiled code
        evaluations = statistics.median(row["evaluations"] for row in found)
        print(
            f"knn_ga, one batch, {protocol} protocol: median {statistics.median(cost):.2f} s CPU, "
            f"most {max(cost):.2f}, {evaluations:.0f} of 5000 genomes new",
            flush=True,
        )


def growth(trace: Trace, sizes: tuple[int, ...] = (5000, 20000, 80000)) -> None:
    """Print a single prediction after this many jobs of history: median and 99th percentile in microseconds."""
    names = [name for name in available("runtime") if name not in VASP_MODELS]
    print(f"{'one prediction, CPU us (median / 99 %)':<40}" + "".join(f"{f'{size:,} jobs':>18}" for size in sizes))
    for name in names:
        spec = {"knn_ga": "knn_ga:generations=5", "minh_wolters": "minh_wolters:generations=2"}.get(name, name)
        cells = [
            f"{statistics.median(took):,.0f} / {np.percentile(took, 99):,.0f}" for took in asked(trace, spec, sizes)
        ]
        print(f"{name:<40}" + "".join(f"{cell:>18}" for cell in cells), flush=True)


def asked(trace: Trace, spec: str, sizes: tuple[int, ...], times: int = 200) -> list[list[float]]:
    """Run one replay; return microseconds of `times` predictions before each of `sizes` submissions."""
    method, state = fresh_predictor(spec, trace, 240.0, 0), SystemState(240.0)
    cadence = Cadence(method) if hasattr(method, "refit") else None
    took: list[list[float]] = [[] for _ in sizes]
    for event in events(trace.take(np.arange(min(max(sizes), len(trace))))):
        if isinstance(event, Submit):
            if cadence is not None:
                cadence.submitted(event.time)
            row = event.job.row
            for size, cell in zip(sizes, took):
                if size - times <= row < size:
                    begun = time.thread_time()
                    method.predict(event.job, state)
                    cell.append(1e6 * (time.thread_time() - begun))
        state.apply(event)
        method.observe(event, state)
    return took


def whole_log(name: str, trace: Trace, spec: str, protocol: str) -> None:
    """Measure wall and CPU seconds to predict every job of a log, replay included."""
    wall, cpu = time.perf_counter(), time.process_time()
    points = replay(trace, {"it": fresh_predictor(spec, trace, float("nan"), 0)}, protocol=protocol)["it"].points
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    error = float(np.nanmean(np.abs(points - trace.run_time)))
    took = f"{len(trace):,} jobs in {wall:.0f} s, {cpu:.0f} s CPU"
    print(f"{spec} on {name}, {protocol} protocol: {took}; MAE {error:,.0f} s", flush=True)


class Trained:
    """Wraps a predictor and records the CPU seconds of each refit that trained a model."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.refits = inner, []
        self.predict, self.observe, self.refit_every_jobs = inner.predict, inner.observe, inner.refit_every_jobs

    def refit(self, now: float) -> None:
        """Call the predictor's `refit` and record its CPU time."""
        before, begun = len(self.inner.trained), time.process_time()
        self.inner.refit(now)
        if len(self.inner.trained) > before:
            self.refits.append(time.process_time() - begun)
