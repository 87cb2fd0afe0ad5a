"""The paired interval over groups, computed sample by sample in plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def mean_and_error(jobs: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the mean over all jobs of these groups, and its standard error (a ratio of sums over groups)."""
    count = sum(len(group) for group in jobs)
    mean = sum(sum(group) for group in jobs) / count
    error = math.sqrt(sum((sum(group) - mean * len(group)) ** 2 for group in jobs)) / count
    return mean, error


def interval(
    difference: Sequence[float], group: Sequence[int], rng: np.random.Generator, level: float, draws: int
) -> tuple[float, float, float]:
    """Return mean, low and high of paired differences, with the same random draws as the fast version."""
    there = sorted(set(group))
    jobs = [[d for d, g in zip(difference, group) if g == one] for one in there]
    mean, error = mean_and_error(jobs)
    drawn = [rng.integers(0, len(there), size=len(there)) for _ in range(draws)]
    ts, shifts = [], []
    for sample in drawn:
        again, its_error = mean_and_error([jobs[k] for k in sample])
        shift = abs(again - mean)
        shifts.append(shift)
        spread = math.sqrt(2 / 3 * its_error**2 + 1 / 3 * error**2)
        ts.append(shift / spread if spread > 0 else 0.0)
    place = math.ceil(level * (draws - 1) - 1e-9)
    wide = sorted(ts)[place] * error if error > 0 else 0.0
    half = min(wide, max(shifts))
    return mean, mean - half, mean + half
