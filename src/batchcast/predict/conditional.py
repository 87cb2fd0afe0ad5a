# SPDX-License-Identifier: Apache-2.0
"""A wait forecast for a job that has waited already: the same distribution, given that it was longer than that."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from .protocol import Prediction

MINUTE = 60.0
LEAST_POWER, MOST_POWER = 0.3, 1.0


def given_waited(issued: Prediction, waited: float, levels: Sequence[float] = (0.5, 0.9)) -> Prediction:
    """The forecast of the whole wait at `levels`, given that it exceeds `waited` seconds; the first level is the point.

    F is linear between (0, 0) and the issued quantiles; the point counts as the median where no median was issued and
    the quantiles leave room for it. The wanted quantile x solves
    F(x) = F(waited) + level (1 - F(waited)). Once a job has waited, what lies beyond the highest issued level is not
    empty: the share that still waits falls there as a power of time, as between the two highest levels, the power being
    .3 to 1 (`_Tail`). Of a job that has not waited the answer is infinite there: the issued forecast says nothing. A
    forecast without quantiles stays as it is while `waited` is below its point and is infinite afterwards. O(levels).

    >>> issued = Prediction(100.0, (0.5, 0.9), (100.0, 500.0), "like jobs")
    >>> given_waited(issued, 0.0).quantiles, given_waited(issued, 100.0, (0.5,)).quantiles
    ((100.0, 500.0), (350.0,))
    """
    if not issued.levels:
        point = issued.point if waited < issued.point else math.inf
        return replace(issued, point=point)
    xs, fs = _curve(issued)
    tail = _Tail.beyond(xs, fs) if waited > 0 else None
    left = _still_waits(xs, fs, tail, max(waited, 0.0))

    def start(level: float) -> float:
        if tail is not None and (1 - level) * left < tail.left:
            return tail.when((1 - level) * left)
        return _inverse(xs, fs, (1 - left) + level * left)

    answers = tuple(max(start(level), waited) for level in levels)
    return replace(issued, point=answers[0], levels=tuple(levels), quantiles=answers)


def quantile_of(issued: Prediction, level: float) -> float:
    """The predicted time (s) at a level: its point if it has no quantiles, infinite beyond its highest level.

    >>> issued = Prediction(100.0, (0.5, 0.9), (100.0, 500.0), "like jobs")
    >>> [quantile_of(issued, level) for level in (0.5, 0.9, 0.95)], quantile_of(Prediction(9.0, (), (), ""), 0.9)
    ([100.0, 500.0, inf], 9.0)
    """
    return given_waited(issued, 0.0, (level,)).point if issued.levels else issued.point


def chance_to_start(issued: Prediction, waited: float, span: float) -> float:
    """The chance that a job which has waited `waited` seconds starts within `span` more; NaN without quantiles.

    By the same F as `given_waited`. Of a job that has not waited, where `span` lies beyond the highest issued level, it
    is at least what is answered.

    >>> issued = Prediction(100.0, (0.5, 0.9), (100.0, 500.0), "like jobs")
    >>> chance_to_start(issued, 0.0, 100.0), round(chance_to_start(issued, 100.0, 200.0), 3)
    (0.5, 0.4)
    """
    if not issued.levels:
        return math.nan
    xs, fs = _curve(issued)
    tail = _Tail.beyond(xs, fs) if waited > 0 else None
    left = _still_waits(xs, fs, tail, max(waited, 0.0))
    return 1.0 - _still_waits(xs, fs, tail, max(waited, 0.0) + span) / left


class _Tail(NamedTuple):
    """Beyond the last finite quantile: at time x a share `left` (x / since) ** -power of the jobs still waits.

    Times are counted from a minute before the submission, so that a forecast of no wait has a tail too. The power is
    that between the two highest levels, .3 to 1: waits of batch queues have heavy tails, and a lighter one breaks the
    promise for those who have waited longest (docs/evidence/waits.md).
    """

    since: float
    left: float
    power: float

    @classmethod
    def beyond(cls, xs: Sequence[float], fs: Sequence[float]) -> _Tail | None:
        """Of the points of F; None where none is finite but the first."""
        known = [(x + MINUTE, 1.0 - f) for x, f in zip(xs, fs) if x < math.inf and f < 1.0]
        if len(known) < 2:
            return None
        (before, more), (since, left) = known[-2:]
        steep = math.log(more / left) / math.log(since / before) if since > before else math.inf
        return cls(since, left, min(max(steep, LEAST_POWER), MOST_POWER))

    def still_waits(self, x: float) -> float:
        """The share of the jobs that still waits at x."""
        return self.left * float(((x + MINUTE) / self.since) ** -self.power)

    def when(self, left: float) -> float:
        """The time at which this share still waits."""
        return self.since * float((self.left / left) ** (1.0 / self.power)) - MINUTE if left > 0 else math.inf


def _still_waits(xs: Sequence[float], fs: Sequence[float], tail: _Tail | None, x: float) -> float:
    return tail.still_waits(x) if tail is not None and x + MINUTE >= tail.since else 1.0 - _cdf(xs, fs, x)


def _curve(issued: Prediction) -> tuple[list[float], list[float]]:
    """The issued distribution as points of F."""
    known = dict(zip(issued.levels, issued.quantiles))
    fits = all((q <= issued.point) if level < 0.5 else (q >= issued.point) for level, q in known.items())
    if 0.5 not in known and fits:
        known[0.5] = issued.point
    levels = sorted(known)
    return [0.0, *(known[level] for level in levels)], [0.0, *levels]


def _cdf(xs: Sequence[float], fs: Sequence[float], x: float) -> float:
    k = bisect_right(xs, x)
    if k >= len(xs):
        return fs[-1]
    low, high = xs[k - 1], xs[k]
    return fs[k - 1] + (fs[k] - fs[k - 1]) * (x - low) / (high - low)


def _inverse(xs: Sequence[float], fs: Sequence[float], f: float) -> float:
    if f > fs[-1] + 1e-12:
        return math.inf
    k = next(i for i in range(1, len(fs)) if fs[i] >= f - 1e-12)
    share = (f - fs[k - 1]) / (fs[k] - fs[k - 1]) if fs[k] > fs[k - 1] else 1.0
    return xs[k - 1] + (xs[k] - xs[k - 1]) * min(max(share, 0.0), 1.0)
