"""What a budget of risk is spent on: `python benchmarks/policy/risk.py LOG [--budget 0.25 --budget 1]`.

On the log itself under `forecast:risk_budget=B`: how many jobs passed a reserved one though their limits did not fit,
what chances of running on past its start they were charged with in all, how many did, and how many reserved missed it.
"""

from __future__ import annotations

import argparse

import numpy as np
from rollout import asked

from batchcast.predict.runtime.kernel import Kernel
from batchcast.simulation.clock import drive
from batchcast.trace import clean, read_trace


def main() -> None:
    """A line a log and budget."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log", nargs="+")
    parser.add_argument("--budget", type=float, action="append", help="default: 0.25 and 1")
    given = parser.parse_args()
    for path in given.log:
        trace = clean(read_trace(path), ["reference"])
        for budget in given.budget or [0.25, 1.0]:
            log = asked(trace, f"forecast:risk_budget={budget}")
            drive(log.state, log.requests, log.statuses, Kernel(point="geometric"), log.work.total)
            jobs, asides = log.state.jobs, log.state.arrays["asides"]
            passed = asides["passed"] >= 0
            late = passed & (jobs["start"] + jobs["run"] > asides["until"])
            held = late & (jobs["start"][np.maximum(asides["passed"], 0)] > asides["until"])
            missed = len(np.unique(asides["passed"][held]))
            print(
                f"{path.rsplit('/', 1)[-1]}, budget {budget:g}: {passed.sum():,} of {len(jobs):,} jobs passed"
                f" {(asides['spent'] > 0).sum():,} reserved ones, charged with {asides['spent'].sum():.0f} in all;"
                f" {late.sum():,} ran on past the start, which {missed:,} reserved jobs missed",
                flush=True,
            )


if __name__ == "__main__":
    main()
