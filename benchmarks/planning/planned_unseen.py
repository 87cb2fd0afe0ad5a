"""Counts planned jobs that no planning cycle would have seen running, with and without planned limits for short jobs.

    python benchmarks/planning/planned_unseen.py LOG ... [--jobs 10000]

Each job of the log's second half that waited for a cycle or longer is planned with the 0.9 quantile of `kernel`'s
prediction at submission, if that is below its limit. Cycles take 30 s, and OverTimeLimit is unlimited. A job that ends
before the next cycle keeps its planned limit in accounting.
"""

from __future__ import annotations

import argparse

import numpy as np

from batchcast.events.recorded import replay
from batchcast.predict.registry import make
from batchcast.service.planning.effects import never_seen
from batchcast.trace import read_trace

LEVEL, INTERVAL = 0.9, 30.0
RULES = (("all", 0.5, 0.0), ("median 30 s or more", 0.5, 30.0), ("nine in ten 60 s or more", 0.1, 60.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--jobs", type=int, default=10_000)
    given = parser.parse_args()
    print("| log | jobs that waited | which | planned | never seen running | of the planned | median run, s |")
    print("|---|---|---|---|---|---|---|")
    for path in given.logs:
        trace = read_trace(path)
        trace = trace.take(np.arange(min(given.jobs, len(trace))))
        told = replay(trace, {"it": make("runtime", "kernel")}, total=float(np.nanmax(trace.procs("req"))))["it"]
        needs = told.quantiles[:, told.levels.index(LEVEL)]
        limit, run = trace.number("req_time"), trace.run_time
        half = np.arange(len(trace)) >= len(trace) // 2
        waited = half & (trace.wait_time >= INTERVAL) & (run > 0)
        may = waited & (np.ceil(np.maximum(needs, 3 * INTERVAL) / 60) * 60 < limit)
        for rule, soon, shortest in RULES:
            planned = may & (told.quantiles[:, told.levels.index(soon)] >= shortest)
            never = float(never_seen(run[planned], INTERVAL).sum())
            print(f"| {path.rpartition('/')[2].partition('.')[0]} | {waited.sum()} | {rule} | {planned.sum()} |"
                  f" {never:.0f} | {never / max(planned.sum(), 1):.1%} | {np.median(run[planned]):.0f} |")  # fmt: skip


if __name__ == "__main__":
    main()
