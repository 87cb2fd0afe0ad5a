# SPDX-License-Identifier: Apache-2.0
"""The distribution of the time until a job ends: file transfer, queue wait and run time.

Queue wait and run time are assumed to be independent, because the wait mostly depends on other users' jobs. Under the
opposite assumption (comonotone), the longest wait comes with the longest run time, and the 90 % bound of the end is
later. `combined` computes both.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

INDEPENDENT, COMONOTONE = "independent", "comonotone"
FEWEST_ENDED, LAST_ENDED = 5, 30
"""Least number of ended submissions for a correction, and number of the latest submissions that it uses."""


class Finish(NamedTuple):
    """A distribution of the time from submission to end: equally likely values in seconds, sorted."""

    spans: Sequence[float]

    def at(self, level: float) -> float:
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

    Parameters
    ----------
    lateness
        Actual time until the end, divided by its predicted quantile, for past submissions; the latest submission comes
        last.
    level
        Level of the quantile: 0.9 for the time by which 90 % of the jobs should have ended.

    Returns
    -------
    float
        With this factor, a share `level` of the latest `LAST_ENDED` submissions would have ended by their predicted
        time (split conformal prediction, Lei et al. 2018). The factor is 1 with fewer than `FEWEST_ENDED` submissions.

    Examples
    --------
    >>> correction([0.5, 0.8, 1.5, 2.0, 0.9], 0.5), correction([2.0, 2.0], 0.5)
    (1.0, 1.0)
    >>> correction([0.5, 0.8, 1.5, 2.0, 1.2], 0.9)
    2.0
    """
    latest = sorted(lateness[-LAST_ENDED:])
    if len(latest) < FEWEST_ENDED:
        return 1.0
    return max(latest[min(math.ceil(level * (len(latest) + 1)), len(latest)) - 1], 1.0)


def combined(
    waits: Sequence[float], runs: Sequence[float], factors: Sequence[float] = (1.0,), dependence: str = INDEPENDENT
) -> Finish:
    """Return the distribution of wait + factor x run time from equally likely values of each.

    Parameters
    ----------
    waits, runs
        Equally likely queue waits and run times in seconds.
    factors
        Equally likely ratios of the run time on this cluster to `runs`. An uncertain ratio has several values.
    dependence
        `INDEPENDENT`: every wait is combined with every run time. `COMONOTONE`: the k-th shortest wait is combined with
        the k-th shortest run time.

    Returns
    -------
    Finish

    Examples
    --------
    >>> combined([0.0, 60.0], [30.0, 90.0]).spans
    [30.0, 90.0, 90.0, 150.0]
    >>> combined([0.0, 60.0], [30.0, 90.0], dependence=COMONOTONE).spans
    [30.0, 150.0]
    """
    if dependence == COMONOTONE:
        scaled = sorted(run * factor for run in runs for factor in factors)
        n = max(len(waits), len(scaled))
        ordered = sorted(waits)
        return Finish([ordered[k * len(ordered) // n] + scaled[k * len(scaled) // n] for k in range(n)])
    return Finish(sorted(wait + run * factor for wait in waits for run in runs for factor in factors))
