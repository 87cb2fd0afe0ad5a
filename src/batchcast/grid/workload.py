"""The published experiment's jobs and resources, drawn from a generator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .model import Jobs, Resources

BANDWIDTHS = (1.1, 1.2, 1.3, 1.4, 1.5)


@dataclass(frozen=True, slots=True)
class Setting:
    """One cell of the experiment: jobs a time unit, share of data jobs p, share of large files among them q."""

    rate: float
    data_share: float
    large_share: float


def draw(
    setting: Setting, rng: np.random.Generator, *, jobs: int = 10_000, resources: int = 50
) -> tuple[Jobs, Resources]:
    """Jobs and resources of one run (Hao et al. 2014, section 4.1); every job takes the same draws in every setting.

    Uniform whole numbers: instructions 500..3000 MI, large files 1500..3000 MB, small ones 500..1500 MB, speed 5..15,
    deadline 1..5 time units after arrival; bandwidth one of 1.1..1.5 Gb/s. Arrivals are Poisson (the paper prints
    a rate only). The draws do not depend on the setting, so two settings with one seed differ by the setting
    alone: the same job is a data job under every p above its own number, large under every q above it.
    """
    speed = rng.integers(5, 16, resources).astype(np.float64)
    bandwidth = rng.choice(BANDWIDTHS, resources)
    gaps = rng.standard_exponential(jobs)
    ini = rng.integers(500, 3001, jobs).astype(np.float64)
    is_data, is_large = rng.random(jobs), rng.random(jobs)
    small, large = rng.integers(500, 1501, jobs), rng.integers(1500, 3001, jobs)
    allowed = rng.integers(1, 6, jobs)
    fsize = np.where(is_data < setting.data_share, np.where(is_large < setting.large_share, large, small), 0)
    arrival = np.cumsum(gaps) / setting.rate
    names = [f"r{k}" for k in range(resources)]
    jobs_drawn = Jobs([f"j{k}" for k in range(jobs)], ini, fsize.astype(np.float64), arrival, arrival + allowed)
    return jobs_drawn, Resources(names, speed, bandwidth, np.zeros(resources))
