"""A wait forecast for a job that has waited already: the same distribution, given that it was longer than that."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

from msgspec.structs import replace

from .protocol import Prediction


def given_waited(issued: Prediction, waited: float, levels: Sequence[float] = (0.5, 0.9)) -> Prediction:
    """The forecast of the whole wait at `levels`, given that it exceeds `waited` seconds; the first level is the point.

    F is linear between (0, 0) and the issued quantiles; the point counts as the median where no median was issued and
    the quantiles leave room for it. The wanted quantile x solves
    F(x) = F(waited) + level (1 - F(waited)). Where that lies beyond the highest issued level the answer is infinite:
    the issued forecast says nothing there. A forecast without quantiles stays as it is while `waited` is below its
    point and is infinite afterwards. O(levels).

    >>> issued = Prediction(100.0, (0.5, 0.9), (100.0, 500.0), "like jobs")
    >>> given_waited(issued, 0.0).quantiles, given_waited(issued, 100.0, (0.5,)).quantiles
    ((100.0, 500.0), (350.0,))
    """
    if not issued.levels:
        point = issued.point if waited < issued.point else math.inf
        return replace(issued, point=point)
    xs, fs = _curve(issued)
    below = _cdf(xs, fs, max(waited, 0.0))
    answers = tuple(max(_inverse(xs, fs, below + level * (1 - below)), waited) for level in levels)
    return replace(issued, point=answers[0], levels=tuple(levels), quantiles=answers)


def chance_to_start(issued: Prediction, waited: float, span: float) -> float:
    """The chance that a job which has waited `waited` seconds starts within `span` more; NaN without quantiles.

    By the same F as `given_waited`. Where `waited + span` lies beyond the highest issued level, it is at least what is
    answered. NaN too where the job has waited longer than the forecast reached.

    >>> issued = Prediction(100.0, (0.5, 0.9), (100.0, 500.0), "like jobs")
    >>> chance_to_start(issued, 0.0, 100.0), round(chance_to_start(issued, 100.0, 200.0), 3)
    (0.5, 0.4)
    """
    if not issued.levels:
        return math.nan
    xs, fs = _curve(issued)
    if waited > xs[-1]:
        return math.nan
    gone = _cdf(xs, fs, max(waited, 0.0))
    return (_cdf(xs, fs, max(waited, 0.0) + span) - gone) / (1.0 - gone)


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
