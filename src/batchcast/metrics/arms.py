"""Two arms of a trial whose jobs were drawn one by one: the difference of their means with an interval over bursts."""

from __future__ import annotations

import numpy as np

from .paired import DRAWS, LEAST_GROUPS, LEVEL, PairedDifference


def arm_difference(
    values: np.ndarray,
    drawn: np.ndarray,
    group: np.ndarray,
    rng: np.random.Generator,
    *,
    level: float = LEVEL,
    draws: int = DRAWS,
) -> PairedDifference:
    """Mean of the jobs drawn less mean of the others, with an interval that resamples whole groups.

    Parameters
    ----------
    values
        Waits or slowdowns (n,); NaN, unknown, is left out.
    drawn
        The arm of each job (n,), true where it was drawn.
    group
        The group of each job (n,), whole numbers from 0 (`bursts.user_weeks`); jobs of both arms may share one.
    rng
        Draws the samples; the same state gives the same interval.
    level, draws
        Of the interval (0.9), and how many samples (1,000).

    Returns
    -------
    A `PairedDifference` (its largest group is not told); NaN where an arm has no job, without an interval where there
    are fewer groups than `LEAST_GROUPS`.

    Notes
    -----
    Jobs of one burst wait for each other, whatever their arm: groups are what is independent. The difference of two
    ratio means is linearised by groups (Cochran 1977, ch. 6) and its interval is the symmetric percentile-t one (Hall
    1988), as in `paired`. Groups are drawn with replacement; a sample that has no job of an arm is left out.
    O(n + draws groups).

    >>> long = np.tile([9.0, 11.0, 4.0], 30)
    >>> one = arm_difference(long, long < 5.0, np.arange(90) // 3, np.random.default_rng(0))
    >>> one.difference, one.low, one.high, one.word()
    (-6.0, -6.0, -6.0, 'ahead')
    """
    known = ~np.isnan(values)
    values, drawn, group = values[known], np.asarray(drawn, bool)[known], np.asarray(group, np.int64)[known]
    if not drawn.any() or drawn.all():
        return PairedDifference(np.nan, np.nan, np.nan, len(values), len(np.unique(group)))
    group = np.unique(group, return_inverse=True)[1]
    groups = int(group.max()) + 1
    sums = np.stack([_by_group(group, groups, np.where(arm, values, 0.0)) for arm in (drawn, ~drawn)], axis=1)
    counts = np.stack([_by_group(group, groups, arm.astype(float)) for arm in (drawn, ~drawn)], axis=1)
    difference, error = (float(x[0]) for x in _estimates(np.ones((1, groups)), sums, counts))
    half = np.nan
    if groups >= LEAST_GROUPS:
        weights = rng.multinomial(groups, np.full(groups, 1 / groups), size=draws).astype(float)
        weights = weights[(weights @ counts > 0).all(axis=1)]
        again, errors = _estimates(weights, sums, counts)
        t = np.abs(again - difference) / np.where(errors > 0, errors, np.inf)
        half = error * float(np.quantile(t, level))
    return PairedDifference(difference, difference - half, difference + half, len(values), groups)


def _by_group(group: np.ndarray, groups: int, values: np.ndarray) -> np.ndarray:
    return np.bincount(group, values, minlength=groups)


def _estimates(weights: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The difference of the arms' means and its linearised standard error, of each row of group weights."""
    jobs = weights @ counts
    means = (weights @ sums) / jobs
    parts = (sums[None] - means[:, None, :] * counts[None]) / jobs[:, None, :]
    influence = parts[:, :, 0] - parts[:, :, 1]
    return means[:, 0] - means[:, 1], np.sqrt((weights * influence**2).sum(axis=1))
