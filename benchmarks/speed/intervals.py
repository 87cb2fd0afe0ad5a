"""Speed of paired intervals of ten methods on a million jobs: CPU seconds by the number of groups, minimum and median
of five."""

from __future__ import annotations

from statistics import median
from time import process_time

import numpy as np

from batchcast.metrics.paired import paired_differences

JOBS, METHODS, REPEATS = 1_000_000, 10, 5
GROUPS = (4_000, 100_000, 800_000)


def run() -> None:
    """Print the cost if users submit in bursts, and if nearly every job is a group of its own."""
    rng = np.random.default_rng(0)
    values, reference = rng.exponential(3600.0, (METHODS, JOBS)), rng.exponential(3600.0, JOBS)
    paired_differences(values[:, :1000], reference[:1000], np.arange(1000) // 10, rng)
    print(f"{'groups':>10}{'least, s':>12}{'median, s':>12}")
    for groups in GROUPS:
        group = np.sort(rng.integers(0, groups, JOBS))
        spent = []
        for _ in range(REPEATS):
            begun = process_time()
            paired_differences(values, reference, group, np.random.default_rng(0))
            spent.append(process_time() - begun)
        print(f"{len(np.unique(group)):>10,}{min(spent):>12.2f}{median(spent):>12.2f}", flush=True)
