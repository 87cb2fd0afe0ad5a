"""Speed of Slurm's loops: jobs per second by nodes, load and length of the log.

`python -m benchmarks.speed.slurm [NODES JOBS LOAD]`; without arguments it prints a table. CPU time, without
compilation.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator

import numpy as np

from batchcast.machines.machine import Machine, homogeneous
from batchcast.machines.request import NodeRequest
from batchcast.schedule.slurm.simulate import simulate_slurm

CORES = 32
TABLE = ((200, 20_000, 0.7), (200, 100_000, 0.7), (200, 20_000, 1.0), (200, 5_000, 1.3), (200, 20_000, 1.3),
         (1000, 100_000, 0.9), (5000, 50_000, 0.7), (5000, 20_000, 1.3), (1000, 1_000_000, 0.7))  # fmt: skip


def jobs(nodes: int, count: int, load: float, seed: int = 1) -> Iterator[NodeRequest]:
    """Poisson arrivals; sizes of 1 to 8 nodes' processors, powers of two mostly; run times of minutes to a day."""
    draw = np.random.default_rng(seed)
    size = np.minimum(2.0 ** draw.integers(0, 9, count), 8 * CORES)
    size = np.where(draw.random(count) < 0.2, np.ceil(size * draw.random(count)), size)
    run = np.clip(np.exp(draw.normal(7.5, 1.5, count)), 10, 86400)
    limit = np.minimum(np.ceil(run * (1 + 4 * draw.random(count)) / 900) * 900, 86400)
    gap = (size * run).mean() / (nodes * CORES * load)
    at = np.cumsum(draw.exponential(gap, count))
    for k in range(count):
        user = f"u{draw.integers(50)}"
        yield NodeRequest(str(k), float(at[k]), float(run[k]), float(limit[k]), user, tasks=int(size[k]))


def machine(nodes: int) -> Machine:
    return homogeneous(nodes, CORES, 4000.0 * CORES, SchedulerType="sched/backfill")


def once(nodes: int, count: int, load: float) -> tuple[float, float]:
    """Return jobs per second, and the mean wait in hours."""
    asked = list(jobs(nodes, count, load))
    begun = time.process_time()
    made = simulate_slurm(machine(nodes), asked, lazy=1)
    return count / (time.process_time() - begun), float(np.nanmean(made.wait)) / 3600


def run(table: tuple[tuple[int, int, float], ...] = TABLE) -> None:
    """Print a line for each (nodes, jobs, load)."""
    simulate_slurm(machine(4), list(jobs(4, 50, 1.0)), lazy=1)
    for nodes, count, load in table:
        rate, wait = once(nodes, count, load)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{nodes} nodes, {count} jobs, load {load}: {rate:,.0f} jobs/s, mean wait {wait:.2f} h, {peak:.0f} MiB")


if __name__ == "__main__":
    run(((int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])),) if len(sys.argv) > 3 else TABLE)
