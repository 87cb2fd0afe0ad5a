# SPDX-License-Identifier: Apache-2.0
"""Estimates the ratio of run times between two clusters from a user's jobs of the same name on both clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Runs = Mapping[str, Sequence[float]]
"""For each job name: number of completed jobs, and mean and variance of the logarithm of their run times (s)."""

LEAST_RUNS = 2
"""Least number of jobs of a name on each cluster, because a single run time does not show its spread."""
UNKNOWN_SD = math.log(2.0) / 1.645
"""Standard deviation of the log ratio without any evidence: with 90 % probability the ratio is between 0.5 and 2."""
BENCHMARK_SD = math.log(1.25) / 1.645
"""Standard deviation of the log ratio from the setting `speed`: a program may differ by 25 % from a benchmark."""
INPUTS_SD = 0.1
"""Standard deviation of the log ratio of a name even with very many jobs, because inputs may differ between clusters.
"""


class Ratio(NamedTuple):
    """Run time on another cluster divided by the run time on this cluster, as a log-normal distribution, and a text
    that states the basis of the estimate.
    """

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
    """Estimate the ratio of run times: from the setting `speed` if both clusters have it, else from the user's jobs,
    else 1.

    Parameters
    ----------
    here, there
        Statistics of the user's run times on this cluster and on the other cluster.
    speed_here, speed_there
        The setting `speed` of both clusters; 0 if it is not set.

    Returns
    -------
    Ratio

    Notes
    -----
    Each job name that ran on both clusters gives one estimate, the difference of its mean logarithms. The estimates are
    combined by a random-effects model: the weight of a name is the inverse of its variance plus the variance between
    names. So a single name with many jobs does not determine the result.

    References
    ----------
    DerSimonian, Laird, Meta-analysis in clinical trials, Controlled Clinical Trials 7(3), 1986.

    Examples
    --------
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
        return Ratio(0.0, UNKNOWN_SD, "no job of yours ran on both: assumed equally fast, within a factor of 2")
    differences = [there[n][1] - here[n][1] for n in both]
    own = [INPUTS_SD**2 + sum(max(runs[2], 0.01) / runs[0] for runs in (here[n], there[n])) for n in both]
    between = _variance_between(differences, own)
    weights = [1.0 / (variance + between) for variance in own]
    mean = sum(w * d for w, d in zip(weights, differences)) / sum(weights)
    jobs = sum(int(here[n][0] + there[n][0]) for n in both)
    names = f"{len(both)} name{'s' * (len(both) > 1)}"
    return Ratio(mean, math.sqrt(1.0 / sum(weights)), f"your {jobs} jobs of {names} on both")


def _variance_between(differences: Sequence[float], own: Sequence[float]) -> float:
    """Return the variance between job names, by the method of moments. The variances `own` within the names are
    subtracted.
    """
    weights = [1.0 / variance for variance in own]
    total = sum(weights)
    mean = sum(w * d for w, d in zip(weights, differences)) / total
    spread = sum(w * (d - mean) ** 2 for w, d in zip(weights, differences))
    scale = total - sum(w * w for w in weights) / total
    return max((spread - (len(own) - 1)) / scale, 0.0) if scale > 0 else 0.0
