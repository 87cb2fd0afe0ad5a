"""`kernel` beside every other registered method, on the last jobs of each shared log with users: paired intervals."""

from __future__ import annotations

import time

import numpy as np

from batchcast.evaluation.replay import replay
from batchcast.predict.registry import make
from batchcast.table import Trace
from batchcast.trace import read_trace
from benchmarks.bench_kernel import PAPERS, SHARED, WHOLE, difference, interval, measures, opened

LAST = 6_000
OTHERS = ("requested", "recent_mean", "last_2", "parzen", "user_clusters", "trip")
TRAINED = ("knn_ga", "minh_wolters", "smith_templates", "plain_regression", "su")
ON = "features=user_id+req_time+procs"  # their own features are those of VASP's inputs, which no log has
MODELS = tuple(f"{name}:{ON},window=3000" for name in ("forest", "svr", "bayesian_ridge", "boosted", "irpa", "brbf"))


def run() -> None:
    """Print the table; the real logs are not in the repository."""
    if not SHARED.is_dir():
        print("skipped: the real logs are not in the repository (BATCHCAST_SHARED names their folder)")
        return
    parts = {name: PAPERS[name] for name in ("HPC2N05", "SDSC04")} | WHOLE
    logs = [(name, trace) for name, trace in opened(parts)]
    logs.append(("NREL", read_trace(str(SHARED / "traces" / "NREL-eagle-sample1000.csv.gz"), map="nrel")))
    print(f"the last {LAST:,} jobs, learned from alone: MAE in s, accuracy; kernel minus it (90 %); CPU s")
    for name, trace in logs:
        beside(name, trace.take(np.arange(max(len(trace) - LAST, 0), len(trace))), OTHERS + TRAINED + MODELS)


def beside(name: str, trace: Trace, specs: tuple[str, ...]) -> None:
    """A line a method."""
    whole = make("runtime", "kernel").predict_trace(trace).points
    error, accuracy = measures(whole, trace)
    print(f"{name:10}{'kernel':42}{np.nanmean(error):8.0f}{np.nanmean(accuracy):6.3f}", flush=True)
    for spec in specs:
        begun = time.process_time()
        points = replay(trace, [spec])[spec].points
        took = time.process_time() - begun
        error, accuracy = measures(points, trace)
        late, near = difference(whole, points, trace)
        largest = f"  {late.largest_share:.0%} one group's" if late.is_decided_by_one else ""
        print(
            f"{'':10}{spec.replace(ON + ',', ''):42}{np.nanmean(error):8.0f}{np.nanmean(accuracy):6.3f}"
            f"{interval(late, 0):>26}{interval(near, 3):>26}  {late.word()}, {near.word(lower_is_better=False)}"
            f"{largest}  ({took:.0f} s)",
            flush=True,
        )
