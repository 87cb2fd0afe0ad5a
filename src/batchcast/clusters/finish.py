# SPDX-License-Identifier: Apache-2.0
"""The distribution of the time until a job ends: file transfer, queue wait and run time, which depends on the cluster.

Queue wait and run time are assumed to be independent, because the wait mostly depends on other users' jobs. Under the
opposite assumption (comonotone), the longest wait comes with the longest run time, and the 90 % bound of the end is
later. `combined` computes both.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

INDEPENDENT, COMONOTONE = "independent", "comonotone"
LEVELS = {"likely_end_s": 0.5, "by_90_end_s": 0.9}
"""Levels of the predicted ends of an offer, by their names in the offer."""
FEWEST_ENDED, LAST_ENDED = 5, 30
"""Least number of ended submissions for a correction, and number of the latest submissions that it uses."""


def or_inf(value: float | None) -> float:
    """Convert a predicted time of a JSON document; null and NaN, which mean unknown, become infinity."""
    return math.inf if value is None or value != value else float(value)


class Finish(NamedTuple):
    """A distribution of the time from submission to end: equally likely values in seconds, sorted."""

    spans: Sequence[float]

    def quantile(self, level: float) -> float:
        """Return the quantile at a level. The k-th of n values (from k = 0) is the quantile at (k + 1/2) / n."""
        n = len(self.spans)
        if not n:
            return math.nan
        place = min(max(level * n - 0.5, 0.0), n - 1.0)
        below = int(place)
        low, high = self.spans[below], self.spans[min(below + 1, n - 1)]
        return low if low == high or place == below else low + (high - low) * (place - below)

    def chance(self, span: float) -> float:
        """Return the probability that the job ends within `span` seconds."""
        return bisect_right(self.spans, span) / len(self.spans) if self.spans else math.nan

    @property
    def expected(self) -> float:
        """Return the mean of the middle 90 % of the values, in seconds. The tails are left out, because predictors
        extrapolate the tails.
        """
        n = len(self.spans)
        middle = self.spans[n // 20 : n - n // 20]
        return sum(middle) / len(middle) if middle else math.nan


def correction(lateness: Sequence[float], level: float) -> float:
    """Return the factor, at least 1, that corrects a predicted quantile of the time until the end, from past
    submissions.

    The end predicted by the best of several offers is too early more often than the end predicted by a single offer,
    because the best offer is chosen for its early end.

    With the factor, a share `level` of the latest `LAST_ENDED` submissions would have ended by their predicted time.
    The factor is 1 with fewer than `FEWEST_ENDED` submissions.

    >>> correction([0.5, 0.8, 1.5, 2.0, 0.9], 0.5), correction([2.0, 2.0], 0.5)
    (1.0, 1.0)
    >>> correction([0.5, 0.8, 1.5, 2.0, 1.2], 0.9)
    2.0
    """
    # Split conformal prediction (Lei et al. 2018). `lateness` is the actual time until the end, divided by its
    # predicted quantile, the latest submission last.
    latest = sorted(lateness[-LAST_ENDED:])
    if len(latest) < FEWEST_ENDED:
        return 1.0
    return max(latest[min(math.ceil(level * (len(latest) + 1)), len(latest)) - 1], 1.0)


def combined(waits: Sequence[float], runs: Sequence[float], dependence: str = INDEPENDENT) -> Finish:
    """Return the distribution of wait + run time from equally likely values of each, in seconds.

    >>> combined([0.0, 60.0], [30.0, 90.0]).spans
    [30.0, 90.0, 90.0, 150.0]
    >>> combined([0.0, 60.0], [30.0, 90.0], dependence=COMONOTONE).spans
    [30.0, 150.0]
    """
    # INDEPENDENT combines every wait with every run time; COMONOTONE combines the k-th shortest wait with the k-th
    # shortest run time.
    if dependence == COMONOTONE:
        n, each = max(len(waits), len(runs)), (sorted(waits), sorted(runs))
        return Finish([sum(values[k * len(values) // n] for values in each) for k in range(n)])
    return Finish(sorted(wait + run for wait in waits for run in runs))


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
        quantile = NormalDist(self.log_mean, self.log_sd).inv_cdf
        return [math.exp(quantile((k + 0.5) / count)) for k in range(count)]


SAME = Ratio(0.0, 0.0, "the cluster's own jobs")


def ratio(base: Runs, target: Runs, base_speed: float = 0.0, target_speed: float = 0.0) -> Ratio:
    """Estimate the ratio of run times: from the setting `speed` if both clusters have it, else from the user's jobs,
    else 1.

    >>> r = ratio({"relax": [20, 5.0, 0.01]}, {"relax": [20, 5.0 - math.log(2), 0.01]})
    >>> round(r.value, 3), [round(x, 2) for x in r.interval], r.basis
    (0.5, [0.42, 0.59], 'your 40 jobs of 1 name on both')
    >>> [round(x, 2) for x in ratio({}, {}).interval]
    [0.5, 2.0]
    """
    # Each job name that ran on both clusters gives one estimate, the difference of its mean logarithms. The estimates
    # are combined by a random-effects model: the weight of a name is the inverse of its variance plus the variance
    # between names. So a single name with many jobs does not determine the result.
    #
    # DerSimonian, Laird, Meta-analysis in clinical trials, Controlled Clinical Trials 7(3), 1986.
    if base_speed > 0 and target_speed > 0:
        return Ratio(math.log(base_speed / target_speed), BENCHMARK_SD, "the figures `speed` of the settings")
    both = [n for n in base if n in target and min(base[n][0], target[n][0]) >= LEAST_RUNS]
    if not both:
        return Ratio(0.0, UNKNOWN_SD, "no job of yours ran on both: assumed equally fast, within a factor of 2")
    differences = [target[n][1] - base[n][1] for n in both]
    own = [INPUTS_SD**2 + sum(max(runs[2], 0.01) / runs[0] for runs in (base[n], target[n])) for n in both]
    between = _variance_between(differences, own)
    weights = [1.0 / (variance + between) for variance in own]
    mean = sum(w * d for w, d in zip(weights, differences)) / sum(weights)
    jobs = sum(int(base[n][0] + target[n][0]) for n in both)
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
