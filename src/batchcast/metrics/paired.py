# SPDX-License-Identifier: Apache-2.0
"""Paired intervals: which differences between methods are real.

Paired differences to a reference with an interval over bursts, what decides them, and two arms of a trial whose jobs
were drawn one by one. Their passes over all jobs are compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiled import kernel


@kernel
def sum_by_group(
    values: np.ndarray, reference: np.ndarray, group: np.ndarray, total: np.ndarray, size: np.ndarray, count: np.ndarray
) -> None:  # pragma: no cover - compiled
    """Adds value - reference and its absolute value to each job's group: total, size (groups, methods); jobs: count.

    `values` (methods, n), `reference` and `group` (n,), all known. One pass, O(methods n).
    """
    methods, n = values.shape
    for i in range(n):
        g, base = group[i], reference[i]
        count[g] += 1.0
        for k in range(methods):
            one = values[k, i] - base
            total[g, k] += one
            size[g, k] += abs(one)


@kernel
def deal(
    total: np.ndarray, count: np.ndarray, mean: np.ndarray, cell: np.ndarray, rest: np.ndarray, jobs: np.ndarray
) -> None:  # pragma: no cover - compiled
    """Adds each group's sum less mean x count to its cell: rest (cells, methods), jobs (cells,). O(methods groups)."""
    groups, methods = total.shape
    for g in range(groups):
        c = cell[g]
        jobs[c] += count[g]
        for k in range(methods):
            rest[c, k] += total[g, k] - mean[k] * count[g]


@kernel
def sum_samples(
    weight: np.ndarray, columns: np.ndarray, sums: np.ndarray, times: np.ndarray
) -> None:  # pragma: no cover - compiled
    """Sums of the columns over each sample's cells: sums (columns, samples); a cell counts `weight` (cells, samples).

    `times` is room for as many samples as go abreast. O(samples cells columns).
    """
    cells, samples = weight.shape
    for begin in range(0, samples, len(times)):
        some = min(len(times), samples - begin)
        for c in range(cells):
            drawn = weight[c, begin : begin + some]
            for s in range(some):
                times[s] = float(drawn[s])
            for k in range(columns.shape[1]):
                one, into = columns[c, k], sums[k, begin : begin + some]
                for s in range(some):
                    into[s] += times[s] * one


@kernel
def over_groups(
    total: np.ndarray, size: np.ndarray, whole_total: np.ndarray, whole_size: np.ndarray, largest: np.ndarray
) -> None:  # pragma: no cover - compiled
    """Sums of both (groups, methods) over all groups, and the first group with the largest size: (methods,) each.

    The outputs begin as zeros. O(methods groups).
    """
    groups, methods = total.shape
    for g in range(groups):
        for k in range(methods):
            whole_total[k] += total[g, k]
            whole_size[k] += size[g, k]
            if size[g, k] > size[largest[k], k]:
                largest[k] = g


LEVEL = 0.9
DRAWS = 1000
LEAST_GROUPS = 20
DECIDES = 0.2
_MOST_CELLS = 8192
_KEPT: dict[tuple[int, int, str], tuple[np.ndarray, Any]] = {}
_MOST_KEPT = 3
_ABREAST = 256  # samples: their sums stay in the processor's cache
_OWN = 2 / 3
"""The part of a sample's own variance in its t."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean of value - reference over the pairs known, with its interval, and the group that decides it most.

    Attributes
    ----------
    difference, low, high
        In the unit of the values. The ends are NaN where there are fewer than `LEAST_GROUPS` groups (`why_not` says
        so), `difference` where there are no pairs.
    jobs, groups
        How many pairs there are, in how many groups.
    largest
        The group with the largest part of the sum of absolute differences, -1 where that sum is 0.
    largest_share, largest_jobs, without
        Its part of that sum (a fraction), its pairs, and the mean difference of all others (NaN where there are none).
    """

    difference: float
    low: float
    high: float
    jobs: int
    groups: int
    largest: int = -1
    largest_share: float = 0.0
    largest_jobs: int = 0
    without: float = float("nan")

    @property
    def why_not(self) -> str:
        """Why there is no interval; empty where there is one."""
        if self.groups >= LEAST_GROUPS:
            return ""
        return f"no interval: {self.groups} groups of one user's submissions of one week, {LEAST_GROUPS} are needed"

    @property
    def is_decided_by_one(self) -> bool:
        """Whether one group owns more than a fifth of the sum of absolute differences."""
        return self.largest_share > DECIDES

    def word(self, *, lower_is_better: bool = True) -> str:
        """`ahead` or `behind` where the interval holds no zero, else `level`; `unknown` where there is no interval.

        >>> PairedDifference(-5.0, -8.0, -2.0, 900, 40).word(), PairedDifference(-5.0, -9.0, 1.0, 900, 40).word()
        ('ahead', 'level')
        """
        if np.isnan(self.low):
            return "unknown"
        if self.low <= 0.0 <= self.high:
            return "level"
        return "ahead" if (self.high < 0.0) == lower_is_better else "behind"


def paired_differences(
    values: np.ndarray,
    reference: np.ndarray,
    group: np.ndarray,
    rng: np.random.Generator,
    *,
    level: float = LEVEL,
    draws: int = DRAWS,
) -> list[PairedDifference]:
    """The difference of each method's mean to the reference's, with an interval that resamples whole groups.

    Parameters
    ----------
    values
        One row a method (methods, n): errors, waits, slowdowns; NaN where unknown.
    reference
        The same of the reference (n,); a job counts for a method where both are known.
    group
        The group of each job (n,), whole numbers from 0 (`bursts.user_weeks`): what is drawn together.
    rng
        Draws the samples; the same state gives the same intervals.
    level, draws
        Of the interval (0.9), and how many samples (1,000).

    Returns
    -------
    One `PairedDifference` a method, in order.

    Notes
    -----
    Groups are drawn with replacement, as many as there are; a sample's figure is the sum of its differences over the
    number of its jobs (a ratio: Cochran 1977, ch. 6). The interval is the symmetric percentile-t one (Hall 1988): the
    estimate give or take its linearised standard error times the `level` quantile of |t| over the samples. Departure:
    a sample's variance in t is two parts its own and one part that of all groups; a sample without the largest burst
    has next to none of its own, and its t would be as large as one likes. How often such intervals hold zero where
    nothing differs is in docs/evidence/differences.md. The half width is cut at the farthest sample, which matters
    only where one group is all there is to say. Where there are more than 8,192 groups they are dealt at random into
    as many cells, which changes no expectation of the variance.
    O(methods n + draws cells (methods + 1)), a few compiled passes: under half a second of an idle core for ten
    methods on 10**6 jobs in 8 * 10**5 groups (`python -m benchmarks intervals`).

    References
    ----------
    P. Hall, "On symmetric bootstrap confidence intervals", J. R. Stat. Soc. B 50(1), 1988.
    W. G. Cochran, Sampling Techniques, 3rd ed., 1977, ch. 6.

    >>> late = np.tile([9.0, 11.0], 30)
    >>> one = paired_differences(late[None], np.zeros(60), np.arange(60) // 2, np.random.default_rng(0))[0]
    >>> one.difference, one.low, one.high, one.groups, one.word()
    (10.0, 10.0, 10.0, 30, 'behind')
    """
    values, reference = np.atleast_2d(np.asarray(values, float)), np.asarray(reference, float)
    group = np.asarray(group, dtype=np.int64)
    results: list[PairedDifference | None] = [None] * len(values)
    for rows, mask in _alike(values, reference):
        paired = values if len(rows) == len(values) else values[rows]
        whole = mask is None
        parts = (paired, reference, group) if whole else (paired[:, mask], reference[mask], group[mask])
        for row, one in zip(rows, _of_pairs(*parts, rng, level, draws)):
            results[row] = one
    return [one for one in results if one is not None]


def _alike(values: np.ndarray, reference: np.ndarray) -> list[tuple[list[int], np.ndarray | None]]:
    """Methods known of the same jobs, with the mask of those (None: all of them): they share their samples."""
    if not np.isnan(values.sum()) and not np.isnan(reference.sum()):  # a sum with an unknown part is unknown
        return [(list(range(len(values))), None)]
    known = ~np.isnan(values) & ~np.isnan(reference)
    same: dict[bytes, list[int]] = {}
    for row, mask in enumerate(known):
        same.setdefault(np.packbits(mask).tobytes(), []).append(row)
    return [(rows, known[rows[0]]) for rows in same.values()]


def _of_pairs(
    values: np.ndarray, reference: np.ndarray, group: np.ndarray, rng: np.random.Generator, level: float, draws: int
) -> list[PairedDifference]:
    """As `paired_differences`, of values (methods, n) that are all known."""
    methods, jobs = values.shape
    if not jobs:
        nothing = float("nan")
        return [PairedDifference(nothing, nothing, nothing, 0, 0) for _ in values]
    groups = int(group.max()) + 1
    total, size, count = np.zeros((groups, methods)), np.zeros((groups, methods)), np.zeros(groups)
    sum_by_group(values, reference, group, total, size, count)
    there = np.flatnonzero(count)
    if len(there) < groups:
        total, size, count = total[there], size[there], count[there]
    sums, whole, largest = np.zeros(methods), np.zeros(methods), np.zeros(methods, dtype=np.int64)
    over_groups(total, size, sums, whole, largest)
    mean = sums / jobs
    half = np.full(methods, np.nan)
    if len(there) >= LEAST_GROUPS:
        half = _half_width(total, count, mean, rng, level, draws)
    results = []
    for k, (middle, width) in enumerate(zip(mean.tolist(), half.tolist())):
        own = _largest(there, count, total[:, k], size[:, k], int(largest[k]), float(whole[k]), float(sums[k]))
        results.append(PairedDifference(middle, middle - width, middle + width, jobs, len(there), *own))
    return results


def _largest(
    there: np.ndarray, count: np.ndarray, total: np.ndarray, size: np.ndarray, k: int, whole: float, sum_of_all: float
) -> tuple[int, float, int, float]:
    """The group `k` that owns most of the absolute differences: its number, share, jobs, and the mean without it."""
    if whole == 0.0:
        return -1, 0.0, 0, float("nan")
    others = float(count.sum() - count[k])
    without = (sum_of_all - float(total[k])) / others if others else float("nan")
    return int(there[k]), float(size[k]) / whole, int(count[k]), without


def _half_width(
    total: np.ndarray, count: np.ndarray, mean: np.ndarray, rng: np.random.Generator, level: float, draws: int
) -> np.ndarray:
    """Half the length of each interval, from the sums of groups (groups, methods) and how many jobs each has."""
    rest, jobs_of = _in_cells(total, count, mean, rng)
    cells, methods = rest.shape
    columns = np.concatenate([rest, rest**2, rest * jobs_of[:, None], jobs_of[:, None], jobs_of[:, None] ** 2], axis=1)
    sums = np.zeros((columns.shape[1], draws))
    sum_samples(_drawn(cells, draws, rng), columns, sums, np.empty(_ABREAST))
    sums = np.ascontiguousarray(sums.T)
    first, square, cross = (sums[:, k * methods : (k + 1) * methods] for k in range(3))
    jobs, jobs_square = sums[:, -2, None], sums[:, -1, None]
    shift = first / jobs
    own = np.maximum(square - 2 * shift * cross + shift**2 * jobs_square, 0.0) / jobs**2
    whole = (rest**2).sum(axis=0) / jobs_of.sum() ** 2
    spread = np.sqrt(_OWN * own + (1.0 - _OWN) * whole)
    t = np.divide(np.abs(shift), spread, out=np.zeros_like(shift), where=spread > 0)
    wide = np.quantile(t, level, axis=0, method="higher") * np.sqrt(whole)
    half: np.ndarray = np.minimum(wide, np.abs(shift).max(axis=0))
    return half


def _drawn(cells: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """How often each cell is in each sample (cells, draws).

    The last few are kept: one evaluation asks twenty times for the samples of the same cells by the same seed.
    """
    global _KEPT
    before = rng.bit_generator.state
    key = (cells, draws, repr(before))
    if kept := _KEPT.get(key):
        weight, rng.bit_generator.state = kept
        return weight
    weight = np.empty((draws, cells), dtype=np.uint16)
    for row in weight:
        row[:] = np.bincount(rng.integers(0, cells, size=cells), minlength=cells)
    weight = np.ascontiguousarray(weight.T)
    _KEPT = dict([*_KEPT.items()][1 - _MOST_KEPT :]) | {key: (weight, rng.bit_generator.state)}  # whole, for threads
    return weight


def _in_cells(
    total: np.ndarray, count: np.ndarray, mean: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Residual sums about the mean (cells, methods) and jobs (cells,): groups dealt at random where there are many."""
    groups, methods = total.shape
    cell = np.arange(groups) if groups <= _MOST_CELLS else rng.permutation(groups) % _MOST_CELLS
    cells = min(groups, _MOST_CELLS)
    rest, jobs = np.zeros((cells, methods)), np.zeros(cells)
    deal(total, count, mean, cell, rest, jobs)
    return rest, jobs


def arm_difference(
    values: np.ndarray,
    drawn: np.ndarray,
    group: np.ndarray,
    rng: np.random.Generator,
    *,
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
    draws
        How many samples (1,000).

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
        half = error * float(np.quantile(t, LEVEL))
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
