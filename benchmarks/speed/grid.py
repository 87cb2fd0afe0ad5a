"""Speed of the grid: one mapping of 10,000 jobs on 50 resources, of 100,000 on 1,000, and the published experiment."""

from __future__ import annotations

import resource
import statistics
import time

import numpy as np

from batchcast.broker.model import Batch, Model, Setting, draw_jobs
from batchcast.predict.registry import make
from batchcast_papers.grid.study import Study, one_run

SMALL = ("min_min", "emin_min", "ebest", "esufferage", "max_min", "sufferage", "asjs", "mct")
LARGE = ("min_min", "emin_min", "mct")
EXPERIMENT = ("min_min", "asjs", "emin_min", "ebest", "esufferage", "sufferage", "deadline_search")


def run() -> None:
    """Print medians of processor time: of a mapping (with a given matrix of times), and of a simulated run of 10,000
    jobs."""
    print(f"{'jobs x resources':<18}{'heuristic':<18}{'median CPU s':>14}{'peak MiB':>10}")
    for jobs, resources, names, repeats in ((10_000, 50, SMALL, 3), (100_000, 1_000, LARGE, 1)):
        batch = _batch(jobs, resources)
        for name in names:
            heuristic = make("heuristic", name)
            heuristic.assign(_batch(40, 5))  # compiles
            print(
                f"{f'{jobs:,} x {resources:,}':<18}{name:<18}"
                f"{_median(lambda h=heuristic, b=batch: h.assign(b), repeats):>14.3f}"
                f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:>10,.0f}"
            )
    print(f"\n{'simulated, 10,000 jobs at rate 26, T = 0.25':<44}{'CPU s a run':>12}")
    made, grid = draw_jobs(Setting(26.0, 0.5, 0.5), np.random.default_rng(1))
    total = 0.0
    for name in EXPERIMENT:
        took = _median(lambda name=name: one_run(made, grid, name, Study((), EXPERIMENT)), 3)
        total += took if name != "deadline_search" else 0.0
        print(f"{name:<44}{took:>12.3f}")
    print(f"the paper's 6 x 9 x 10 runs of its six heuristics on two cores, from these: {total * 540 / 2 / 60:.1f} min")


def _batch(jobs: int, resources: int) -> Batch:
    made, grid = draw_jobs(Setting(26.0, 0.5, 0.5), np.random.default_rng(1), jobs=jobs, resources=resources)
    times = Model(made, grid).rows(np.arange(jobs))
    return Batch.of_times(times, deadline=(made.deadline - made.arrival) * jobs / resources / 4)


def _median(work, repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken)
