"""Schedules that predictions make possible: `python benchmarks/policy/study.py LOG [--replicates 20] [--seed 1] [--age
24h]`.

Replicates of a log (its weeks resampled, 1 % of the jobs omitted) run under EASY with limits, EASY-SJBF with perfect
knowledge and the policy `forecast` planned by `kernel` in closed loop, each replicate under all of them: one line per
replicate on stderr, then the study's targets and results, as 5th to 95th percentile over replicates.
"""

from __future__ import annotations

import argparse
import sys
from typing import NamedTuple

import numpy as np

from batchcast.evaluation.differences import replicate
from batchcast.metrics.schedule import bounded_slowdown
from batchcast.simulation import Schedule, simulate
from batchcast.table import Trace
from batchcast.trace import clean, read_trace

FEW_JOBS = 50
EASY, PERFECT = ("easy", "requested"), ("easy-sjbf", "actual")


class Figures(NamedTuple):
    """The figures that the targets use; `users` is the mean wait of each user by number, NaN below FEW_JOBS jobs."""

    slowdown: float
    geometric: float
    wait: float
    p99: float
    maximum: float
    utilization: float
    users: np.ndarray


def figures(trace: Trace, schedule: Schedule) -> Figures:
    """A schedule's figures."""
    wait, slowdown = schedule.wait_time, bounded_slowdown(schedule.wait_time, schedule.run_time)
    users = trace.nominal("user_id").codes[schedule.rows] + 1
    count, waited = np.bincount(users), np.bincount(users, weights=wait)
    return Figures(
        float(slowdown.mean()),
        float(np.exp(np.log(slowdown).mean())),
        float(wait.mean()),
        float(np.percentile(wait, 99)),
        float(wait.max()),
        schedule.measures()["utilization"],
        np.where(count >= FEW_JOBS, waited / np.maximum(count, 1), np.nan),
    )


def compared(mine: Figures, easy: Figures, perfect: Figures) -> dict[str, float]:
    """Print one replicate's line: each figure compared with the schedule that its target names."""
    longer = mine.users / np.maximum(easy.users, 1.0)
    return {
        "mean": mine.slowdown,
        "mean - perfect": mine.slowdown - perfect.slowdown,
        "below perfect": float(mine.slowdown < perfect.slowdown),
        "geometric / perfect": mine.geometric / perfect.geometric,
        "mean - easy": mine.slowdown - easy.slowdown,
        "wait / easy": mine.wait / easy.wait,
        "p99 / easy": mine.p99 / easy.p99,
        "maximum / easy": mine.maximum / easy.maximum,
        "worst user / easy": float(np.nanmax(longer)),
        "users above 1.10": float((longer > 1.1).sum() / np.isfinite(longer).sum()),
        "utilization - easy": mine.utilization - easy.utilization,
    }


TARGETS = {
    "mean - perfect": "below 0",
    "p99 / easy": "at most 1.10",
    "maximum / easy": "at most 1.25",
    "worst user / easy": "at most 1.10",
    "utilization - easy": "not below 0",
}


def study(path: str, replicates: int, seed: int, ages: list[str]) -> None:
    """Print a log's table."""
    trace = clean(read_trace(path), ["reference"])
    rng = np.random.default_rng(seed)
    specs = {f"forecast, {age}": f"forecast:first_after={age}" for age in ages}
    lines: dict[str, list[dict[str, float]]] = {name: [] for name in ["easy, limits", *specs]}
    bases = []
    for done in range(replicates):
        log = replicate(trace, rng)
        easy, perfect = (figures(log, simulate(log, policy, spec, procs="alloc")) for policy, spec in (EASY, PERFECT))
        bases.append((easy.slowdown, perfect.slowdown))
        lines["easy, limits"].append(compared(easy, easy, perfect))
        for name, spec in specs.items():
            line = compared(figures(log, simulate(log, spec, "kernel", procs="alloc")), easy, perfect)
            lines[name].append(line)
            words = "  ".join(f"{key} {value:.3f}" for key, value in line.items())
            print(f"{done + 1}/{replicates} {name}: {words}", file=sys.stderr, flush=True)
    easy_mean, perfect_mean = np.mean(bases, axis=0)
    print(
        f"{path.rsplit('/', 1)[-1]}: {len(trace):,} jobs, {replicates} replicates, seed {seed}; mean bounded slowdown "
    )
    print(f"(tau 10 s), means over replicates: EASY with limits {easy_mean:.1f}, EASY-SJBF with perfect knowledge"
          f" {perfect_mean:.1f}")  # fmt: skip
    for name, rows in lines.items():
        print(f"  {name}")
        for key in rows[0]:
            values = np.array([row[key] for row in rows])
            low, high = np.percentile(values, [5, 95])
            target = f"   target {TARGETS[key]}" if key in TARGETS and name != "easy, limits" else ""
            print(f"    {key:20} {values.mean():9.3f}   5 to 95 %: {low:9.3f} to {high:9.3f}{target}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log", nargs="+")
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--age", action="append", help="first_after, 48h by default; repeatable")
    given = parser.parse_args()
    for path in given.log:
        study(path, given.replicates, given.seed, given.age or ["48h"])


if __name__ == "__main__":
    main()
