# SPDX-License-Identifier: Apache-2.0
"""Updates the wait prediction of a job that is still waiting: the distribution predicted at submission, given that the
wait exceeds the wait so far.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from .protocol import Prediction

MINUTE = 60.0
LEAST_POWER, MOST_POWER = 0.3, 1.0


def given_waited(issued: Prediction, waited: float, levels: Sequence[float] = (0.5, 0.9)) -> Prediction:
    """Quantiles of the total wait at `levels`, given that the wait exceeds `waited` seconds; the first level is the
    point.

    The cumulative distribution F is linear between (0, 0) and the issued quantiles. If the prediction has no median,
    the point counts as the median, unless the point contradicts the quantiles. The result at a level is the x with F(x)
    = F(waited) + level (1 - F(waited)).

    Above the highest issued level, the share of jobs that still wait falls as a power of time (`_Tail`). The exponent
    is computed from the two highest levels and limited to 0.3 to 1. If the job has not waited yet, quantiles above the
    highest issued level are infinite, because the issued prediction does not cover them. A prediction without quantiles
    is returned unchanged as long as `waited` is below the predicted point; afterwards the result is infinite.
    O(levels).

    >>> issued = Prediction(100.0, (0.5, 0.9), (100.0, 500.0), "like jobs")
    >>> given_waited(issued, 0.0).quantiles, given_waited(issued, 100.0, (0.5,)).quantiles
    ((100.0, 500.0), (350.0,))
    """
    if not issued.levels:
        point = issued.point if waited < issued.point else math.inf
        return replace(issued, point=point)
    curve = _curve_of(issued.point, issued.levels, issued.quantiles, waited > 0)
    left = curve.left(max(waited, 0.0))
    answers = tuple(max(curve.when((1 - level) * left, (1 - left) + level * left), waited) for level in levels)
    return replace(issued, point=answers[0], levels=tuple(levels), quantiles=answers)


def quantile_of(issued: Prediction, level: float) -> float:
    """Return the predicted time (s) at a level: the point if there are no quantiles, infinite above the highest level.

    >>> issued = Prediction(100.0, (0.5, 0.9), (100.0, 500.0), "like jobs")
    >>> [quantile_of(issued, level) for level in (0.5, 0.9, 0.95)], quantile_of(Prediction(9.0, (), (), ""), 0.9)
    ([100.0, 500.0, inf], 9.0)
    """
    return given_waited(issued, 0.0, (level,)).point if issued.levels else issued.point


def chance_to_start(issued: Prediction, waited: float, span: float) -> float:
    """Return the probability that a job which has waited `waited` seconds starts within `span` seconds; NaN without
    quantiles.

    Uses the same distribution function F as `given_waited`. If the job has not waited yet and `span` lies above the
    highest issued quantile, the result is a lower bound of the probability.

    >>> issued = Prediction(100.0, (0.5, 0.9), (100.0, 500.0), "like jobs")
    >>> chance_to_start(issued, 0.0, 100.0), round(chance_to_start(issued, 100.0, 200.0), 3)
    (0.5, 0.4)
    """
    if not issued.levels:
        return math.nan
    curve = _curve_of(issued.point, issued.levels, issued.quantiles, waited > 0)
    return 1.0 - curve.left(max(waited, 0.0) + span) / curve.left(max(waited, 0.0))


class _Tail(NamedTuple):
    """Tail above the last finite quantile: the share of jobs that still wait at time x is `left` (x / `since`) **
    -`power`.

    Times are counted from one minute before submission, so that a predicted wait of zero has a tail too. The power is
    computed from the two highest levels and limited to 0.3 to 1. Waits of batch queues have heavy tails; with a lighter
    tail, the bounds fail for the jobs that have waited longest (docs/evidence/waits.md).
    """

    since: float
    left: float
    power: float

    @classmethod
    def beyond(cls, xs: Sequence[float], fs: Sequence[float]) -> _Tail | None:
        """Fit the tail to the points of the distribution function F; None if only the first point is finite."""
        known = [(x + MINUTE, 1.0 - f) for x, f in zip(xs, fs) if x < math.inf and f < 1.0]
        if len(known) < 2:
            return None
        (before, more), (since, left) = known[-2:]
        steep = math.log(more / left) / math.log(since / before) if since > before else math.inf
        return cls(since, left, min(max(steep, LEAST_POWER), MOST_POWER))

    def when(self, left: float) -> float:
        """Return the time at which the share `left` of the jobs still waits."""
        return self.since * float((self.left / left) ** (1.0 / self.power)) - MINUTE if left > 0 else math.inf


class _Curve(NamedTuple):
    """An issued distribution: the points (x, F(x)) of a piecewise linear curve, and its tail if the job has waited
    already.
    """

    xs: Sequence[float]
    fs: Sequence[float]
    tail: _Tail | None

    def left(self, x: float) -> float:
        """Return the share of jobs that still wait at time x."""
        xs, fs, tail = self
        if tail is not None and x + MINUTE >= tail.since:
            return tail.left * float(((x + MINUTE) / tail.since) ** -tail.power)
        k = bisect_right(xs, x)
        if k >= len(xs):
            return 1.0 - fs[-1]
        return 1.0 - (fs[k - 1] + (fs[k] - fs[k - 1]) * (x - xs[k - 1]) / (xs[k] - xs[k - 1]))

    def when(self, left: float, f: float) -> float:
        """Return the time at which the share `left` of the jobs still waits, and `f` = 1 - `left` have started."""
        xs, fs, tail = self
        if tail is not None and left < tail.left:
            return tail.when(left)
        if f > fs[-1] + 1e-12:
            return math.inf
        k = next(i for i in range(1, len(fs)) if fs[i] >= f - 1e-12)
        share = (f - fs[k - 1]) / (fs[k] - fs[k - 1]) if fs[k] > fs[k - 1] else 1.0
        return xs[k - 1] + (xs[k] - xs[k - 1]) * min(max(share, 0.0), 1.0)


@lru_cache(1024)  # one answer asks for several quantiles and probabilities of the same prediction
def _curve_of(point: float, levels: Sequence[float], quantiles: Sequence[float], has_waited: bool) -> _Curve:
    """Return the distribution of a prediction by its parts; the point is the median unless the quantiles forbid it."""
    known = dict(zip(levels, quantiles))
    fits = all((q <= point) if level < 0.5 else (q >= point) for level, q in known.items())
    if 0.5 not in known and fits:
        known[0.5] = point
    fs = 0.0, *sorted(known)
    xs = 0.0, *(known[level] for level in fs[1:])
    return _Curve(xs, fs, _Tail.beyond(xs, fs) if has_waited else None)
