# SPDX-License-Identifier: Apache-2.0
"""The ratio of run times between two clusters, estimated from a user's jobs of the same name on both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Runs = Mapping[str, Sequence[float]]
"""By job name: how many completed jobs, mean and variance of the log of their run times."""

LEAST_RUNS = 2
"""Fewer jobs of a name on one cluster tell nothing of their spread."""
UNKNOWN_SD = math.log(2.0) / 1.645
"""Without evidence the ratio is 1, and with 90 % probability between one half and two."""
BENCHMARK_SD = math.log(1.25) / 1.645
"""An operator's figure holds for the operator's benchmark: a user's program may be 25 % away from it."""
INPUTS_SD = 0.1
"""Jobs of one name differ in their inputs between clusters, however many there are."""


class Ratio(NamedTuple):
    """Run time on another cluster divided by run time here: a log-normal distribution, and its basis."""

    log_mean: float
    log_sd: float
    basis: str

    @property
    def value(self) -> float:
        """Return the median of the ratio."""
        return math.exp(self.log_mean)

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 90 % interval of the ratio."""
        return math.exp(self.log_mean - 1.645 * self.log_sd), math.exp(self.log_mean + 1.645 * self.log_sd)

    def draws(self, count: int = 5) -> list[float]:
        """Return equally likely values of the ratio."""
        from statistics import NormalDist

        if self.log_sd == 0.0:
            return [self.value]
        at = NormalDist(self.log_mean, self.log_sd).inv_cdf
        return [math.exp(at((k + 0.5) / count)) for k in range(count)]


SAME = Ratio(0.0, 0.0, "the cluster's own jobs")


def ratio(here: Runs, there: Runs, speed_here: float = 0.0, speed_there: float = 0.0) -> Ratio:
    """Return the ratio of run times: from the operator's figures if both are set, else from the user's jobs, else 1.

    Each name that ran on both clusters gives the difference of its mean logs. Names are weighted by their variance
    plus the variance between names (DerSimonian and Laird 1986): one name with many jobs does not decide alone.

    >>> r = ratio({"relax": [20, 5.0, 0.01]}, {"relax": [20, 5.0 - math.log(2), 0.01]})
    >>> round(r.value, 3), [round(x, 2) for x in r.interval], r.basis
    (0.5, [0.42, 0.59], 'your 40 jobs of 1 name on both')
    >>> [round(x, 2) for x in ratio({}, {}).interval]
    [0.5, 2.0]
    """
    if speed_here > 0 and speed_there > 0:
        return Ratio(math.log(speed_here / speed_there), BENCHMARK_SD, "the figures `speed` of the settings")
    both = [n for n in here if n in there and min(here[n][0], there[n][0]) >= LEAST_RUNS]
    if not both:
        return Ratio(0.0, UNKNOWN_SD, "no job of yours ran on both: taken as equally fast, within a factor of 2")
    differences = [there[n][1] - here[n][1] for n in both]
    own = [INPUTS_SD**2 + sum(max(runs[2], 0.01) / runs[0] for runs in (here[n], there[n])) for n in both]
    between = _variance_between(differences, own)
    weights = [1.0 / (variance + between) for variance in own]
    mean = sum(w * d for w, d in zip(weights, differences)) / sum(weights)
    jobs = sum(int(here[n][0] + there[n][0]) for n in both)
    names = f"{len(both)} name{'s' * (len(both) > 1)}"
    return Ratio(mean, math.sqrt(1.0 / sum(weights)), f"your {jobs} jobs of {names} on both")


def _variance_between(differences: Sequence[float], own: Sequence[float]) -> float:
    """Return the variance between job names beyond their own variances, by the method of moments."""
    weights = [1.0 / variance for variance in own]
    total = sum(weights)
    mean = sum(w * d for w, d in zip(weights, differences)) / total
    spread = sum(w * (d - mean) ** 2 for w, d in zip(weights, differences))
    scale = total - sum(w * w for w in weights) / total
    return max((spread - (len(own) - 1)) / scale, 0.0) if scale > 0 else 0.0
