# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals for the difference between prediction or scheduling methods.

`paired_differences` compares methods on the same jobs and resamples whole groups (bursts) of jobs. `arm_difference`
compares the two arms of a trial in which each job was assigned to an arm at random. Loops over all jobs are compiled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..compiled import kernel


@kernel
def sum_by_group(
    values: np.ndarray, reference: np.ndarray, group: np.ndarray, total: np.ndarray, size: np.ndarray, count: np.ndarray
) -> None:  # pragma: no cover - compiled
    """Add each job's value - reference to its group: to `total` and, as absolute value, to `size`, both of shape
    (groups, methods), and count the jobs, shape (groups,)."""
    methods, n = values.shape
    for i in range(n):
        g, base = group[i], reference[i]
        count[g] += 1.0
        for k in range(methods):
            difference = values[k, i] - base
            total[g, k] += difference
            size[g, k] += abs(difference)


@kernel
def sum_samples(
    weight: np.ndarray, columns: np.ndarray, sums: np.ndarray, times: np.ndarray
) -> None:  # pragma: no cover - compiled
    """Sum `columns` (cells, columns) over the cells of each bootstrap sample, which has each cell `weight` (cells,
    samples) times, into `sums` (columns, samples)."""
    # `times` is work space; its length is the number of samples that are summed in one pass.
    cells, samples = weight.shape
    for begin in range(0, samples, len(times)):
        some = min(len(times), samples - begin)
        for c in range(cells):
            drawn = weight[c, begin : begin + some]
            for s in range(some):
                times[s] = float(drawn[s])
            for k in range(columns.shape[1]):
                value, into = columns[c, k], sums[k, begin : begin + some]
                for s in range(some):
                    into[s] += times[s] * value


LEVEL = 0.9
DRAWS = 1000
LEAST_GROUPS = 20
DECIDES = 0.2
_MOST_CELLS = 8192
_CACHED_SAMPLES: dict[tuple[int, int, str], tuple[np.ndarray, Any]] = {}
_MOST_CACHED = 3
_ABREAST = 256  # samples per pass; this many sums fit into the processor's cache
_OWN = 2 / 3
"""Weight of a bootstrap sample's own variance in its t statistic; the rest is the variance of the whole data."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean of value - reference, its confidence interval, and the group of jobs that contributes most."""

    # Mean difference and the ends of its interval, in the unit of the values. `difference` is NaN if no job has both
    # values. The ends of the interval are NaN if there are fewer than `LEAST_GROUPS` groups; `why_not` then gives the
    # reason.
    difference: float
    low: float
    high: float
    jobs: int  # Number of jobs with both values, and number of groups
    groups: int
    largest: int = -1  # The group with the largest share of the sum of absolute differences; -1 if that sum is 0
    # The largest group's share of the sum of absolute differences, as a fraction, and the number of jobs in this group.
    largest_share: float = 0.0
    largest_jobs: int = 0
    # Mean difference over all jobs outside the largest group. NaN if there are no jobs outside the largest group.
    without: float = float("nan")

    @property
    def why_not(self) -> str:
        """The reason why the difference has no confidence interval; empty if it has an interval."""
        if self.groups >= LEAST_GROUPS:
            return ""
        return (
            f"no interval: the jobs form {self.groups} groups (one user's submissions in one week), "
            f"{LEAST_GROUPS} are needed"
        )

    @property
    def is_decided_by_one(self) -> bool:
        """Whether one group contributes more than a fifth of the sum of absolute differences."""
        return self.largest_share > DECIDES

    def verdict(self, *, lower_is_better: bool = True) -> str:
        """Return the confidence interval in one word: `ahead` or `behind` if it excludes zero, `level` if it contains
        zero, `unknown` if there is none.

        >>> PairedDifference(-5.0, -8.0, -2.0, 900, 40).verdict(), PairedDifference(-5.0, -9.0, 1.0, 900, 40).verdict()
        ('ahead', 'level')
        """
        if np.isnan(self.low):
            return "unknown"
        if self.low <= 0.0 <= self.high:
            return "level"
        return "ahead" if (self.high < 0.0) == lower_is_better else "behind"

    def stated(self, *, lower_is_better: bool = True, decided_by: str = "") -> Difference:
        """Return the difference as an object for result rows.

        >>> PairedDifference(-5.0, -8.0, -2.0, 900, 40).stated().verdict
        'ahead'
        """
        verdict = self.verdict(lower_is_better=lower_is_better)
        return Difference(
            self.difference, self.low, self.high, verdict, self.groups, self.largest_share, self.without, decided_by
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference to a reference in one measure, as it appears in result rows and JSON."""

    # The difference and the ends of its 90 % interval, in the unit of the measure. The ends are NaN if there is no
    # interval.
    value: float
    low: float = math.nan
    high: float = math.nan
    verdict: str = "unknown"  # `ahead`, `behind`, `level` or `unknown`, see `PairedDifference.verdict`
    groups: int | None = None  # The number of groups of jobs; None if the groups were not counted
    # The largest group's share of the sum of absolute differences, and the difference without the largest group.
    largest_share: float = 0.0
    without_largest: float = math.nan
    decided_by: str = ""  # A sentence if one group decides the difference, else empty

    @classmethod
    def get(cls, row: Mapping[str, Any], measure: str, key: str = "differences") -> Difference | None:
        """Return a row's difference in a measure; None if the row has no difference in this measure.

        >>> Difference.get({"mean_wait_s": 60.0}, "mean_wait_s") is None
        True
        """
        stated = row.get(key, {}).get(measure)
        if stated is None or isinstance(stated, cls):
            return stated
        # a row read from a report's JSON has null in place of NaN
        parts: dict[str, Any] = {
            name: math.nan if part is None and name != "groups" else part for name, part in stated.items()
        }
        return cls(**parts)

    @property
    def is_known(self) -> bool:
        """Whether the difference is known."""
        return not math.isnan(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether the ends of the interval are known."""
        return not math.isnan(self.low)


def paired_differences(
    values: np.ndarray,
    reference: np.ndarray,
    group: np.ndarray,
    rng: np.random.Generator,
    *,
    level: float = LEVEL,
    draws: int = DRAWS,
) -> list[PairedDifference]:
    """Compare the mean of each method (methods, n) with the mean of a reference (n,), with intervals that resample
    whole groups; a job counts for a method if both values are known.

    >>> late = np.tile([9.0, 11.0], 30)
    >>> one = paired_differences(late[None], np.zeros(60), np.arange(60) // 2, np.random.default_rng(0))[0]
    >>> one.difference, one.low, one.high, one.groups, one.verdict()
    (10.0, 10.0, 10.0, 30, 'behind')
    """
    # Groups are drawn with replacement, as many draws as there are groups. A sample's mean is the sum of its
    # differences divided by its number of jobs (a ratio estimate, Cochran 1977, ch. 6). The interval is the symmetric
    # percentile-t interval (Hall 1988): the estimate plus or minus its linearised standard error times the `level`
    # quantile of abs(t) over the samples.
    #
    # The variance in t differs from Hall's. The variance used here is the weighted mean of the sample's variance (two
    # thirds) and the variance of all groups (one third). Without the variance of all groups, a sample without the
    # largest burst would have almost no variance and an arbitrarily large t. docs/evidence/differences.md reports how
    # often these intervals contain zero when two methods do not differ. The half width is limited to the largest
    # deviation of a sample mean; the limit matters only if one group dominates. If there are more than 8,192 groups,
    # they are assigned at random to 8,192 cells; this does not change the expectation of the variance.
    #
    # Costs O(methods n + draws cells (methods + 1)), in a few compiled passes: under half a second of an idle core for
    # ten methods on 10**6 jobs in 8 * 10**5 groups (`python -m benchmarks intervals`).
    #
    # P. Hall, "On symmetric bootstrap confidence intervals", J. R. Stat. Soc. B 50(1), 1988. W. G. Cochran, Sampling
    # Techniques, 3rd ed., 1977, ch. 6.
    values, reference = np.atleast_2d(np.asarray(values, float)), np.asarray(reference, float)
    group = np.asarray(group, dtype=np.int64)
    results: list[PairedDifference | None] = [None] * len(values)
    for rows, mask in _alike(values, reference):
        paired = values if len(rows) == len(values) else values[rows]
        whole = mask is None
        parts = (paired, reference, group) if whole else (paired[:, mask], reference[mask], group[mask])
        for row, result in zip(rows, _of_pairs(*parts, rng, level, draws)):
            results[row] = result
    return [result for result in results if result is not None]


def _alike(values: np.ndarray, reference: np.ndarray) -> list[tuple[list[int], np.ndarray | None]]:
    """Return the methods grouped by their mask of jobs with known values, and the masks (None if all are known).

    Methods with the same mask can share their bootstrap samples.
    """
    if not np.isnan(values.sum()) and not np.isnan(reference.sum()):  # a sum is NaN if any value is NaN
        return [(list(range(len(values))), None)]
    known = ~np.isnan(values) & ~np.isnan(reference)
    same: dict[bytes, list[int]] = {}
    for row, mask in enumerate(known):
        same.setdefault(np.packbits(mask).tobytes(), []).append(row)
    return [(rows, known[rows[0]]) for rows in same.values()]


def _of_pairs(
    values: np.ndarray, reference: np.ndarray, group: np.ndarray, rng: np.random.Generator, level: float, draws: int
) -> list[PairedDifference]:
    """Return the result of `paired_differences` for values without NaN, shape (methods, n)."""
    methods, jobs = values.shape
    if not jobs:
        return [PairedDifference(np.nan, np.nan, np.nan, 0, 0) for _ in values]
    groups = int(group.max()) + 1
    total, size, count = np.zeros((groups, methods)), np.zeros((groups, methods)), np.zeros(groups)
    sum_by_group(values, reference, group, total, size, count)
    present = np.flatnonzero(count)
    if len(present) < groups:
        total, size, count = total[present], size[present], count[present]
    mean = _sum(total) / jobs
    half = np.full(methods, np.nan)
    if len(present) >= LEAST_GROUPS:
        half = _half_width(total, count, mean, rng, level, draws)
    results = []
    for k, (middle, width) in enumerate(zip(mean.tolist(), half.tolist())):
        largest_part = _largest(present, count, total[:, k], size[:, k])
        results.append(PairedDifference(middle, middle - width, middle + width, jobs, len(present), *largest_part))
    return results


def _sum(values: np.ndarray) -> Any:
    """Return the sums over the first axis. The values are added one after the other, for any number of methods."""
    return values.cumsum(axis=0)[-1]


def _largest(
    present: np.ndarray, count: np.ndarray, total: np.ndarray, size: np.ndarray
) -> tuple[int, float, int, float]:
    """Return the number of the group with the largest absolute differences, its share of their sum, its number of
    jobs, and the mean difference without this group."""
    k, whole = int(size.argmax()), float(_sum(size))
    if whole == 0.0:
        return -1, 0.0, 0, float("nan")
    others = float(count.sum() - count[k])
    without = float(_sum(total) - total[k]) / others if others else float("nan")
    return int(present[k]), float(size[k]) / whole, int(count[k]), without


def _half_width(
    total: np.ndarray, count: np.ndarray, mean: np.ndarray, rng: np.random.Generator, level: float, draws: int
) -> np.ndarray:
    """Return half the width of each method's interval, shape (methods,), from sums and job counts of groups."""
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
    """Return how often each cell is in each bootstrap sample, uint16, shape (cells, draws).

    The last few results are cached, because one evaluation needs the samples for the same cells and seed about 20
    times.
    """
    global _CACHED_SAMPLES
    before = rng.bit_generator.state
    key = (cells, draws, repr(before))
    if cached := _CACHED_SAMPLES.get(key):
        weight, rng.bit_generator.state = cached
        return weight
    weight = np.empty((draws, cells), dtype=np.uint16)
    for row in weight:
        row[:] = np.bincount(rng.integers(0, cells, size=cells), minlength=cells)
    weight = np.ascontiguousarray(weight.T)
    # The dictionary is replaced and not changed, so that other threads can read it at the same time.
    _CACHED_SAMPLES = dict([*_CACHED_SAMPLES.items()][1 - _MOST_CACHED :]) | {key: (weight, rng.bit_generator.state)}
    return weight


def _in_cells(
    total: np.ndarray, count: np.ndarray, mean: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return each cell's residuals, shape (cells, methods), and number of jobs, shape (cells,); many groups are
    assigned to cells at random."""
    residuals = total - mean * count[:, None]
    if len(count) <= _MOST_CELLS:
        return residuals, count
    cell, rest = rng.permutation(len(count)) % _MOST_CELLS, np.zeros((_MOST_CELLS, len(mean)))
    np.add.at(rest, cell, residuals)
    return rest, np.bincount(cell, count)


def arm_difference(
    values: np.ndarray, drawn: np.ndarray, group: np.ndarray, rng: np.random.Generator, *, draws: int = DRAWS
) -> PairedDifference:
    """Compare the mean of the jobs in one arm of a trial with the mean of the other jobs; NaN if an arm has no jobs.

    >>> long = np.tile([9.0, 11.0, 4.0], 30)
    >>> one = arm_difference(long, long < 5.0, np.arange(90) // 3, np.random.default_rng(0))
    >>> one.difference, one.low, one.high, one.verdict()
    (-6.0, -6.0, -6.0, 'ahead')
    """
    # Jobs of one burst delay each other, also across arms, so only groups are independent. The difference of the two
    # ratio means is linearised by groups (Cochran 1977, ch. 6), and its interval is the symmetric percentile-t interval
    # (Hall 1988), as in `paired_differences`. Groups are drawn with replacement. Samples without jobs of one arm are
    # ignored. Costs O(n + draws groups).
    known = ~np.isnan(values)
    values, drawn, group = values[known], np.asarray(drawn, bool)[known], np.asarray(group, np.int64)[known]
    if not drawn.any() or drawn.all():
        return PairedDifference(np.nan, np.nan, np.nan, len(values), len(np.unique(group)))
    group = np.unique(group, return_inverse=True)[1]
    groups = int(group.max()) + 1
    sums = np.stack([np.bincount(group, np.where(arm, values, 0.0), groups) for arm in (drawn, ~drawn)], axis=1)
    counts = np.stack([np.bincount(group, arm, groups) for arm in (drawn, ~drawn)], axis=1)
    difference, error = (float(x[0]) for x in _estimates(np.ones((1, groups)), sums, counts))
    half = np.nan
    if groups >= LEAST_GROUPS:
        weights = rng.multinomial(groups, np.full(groups, 1 / groups), size=draws).astype(float)
        weights = weights[(weights @ counts > 0).all(axis=1)]
        again, errors = _estimates(weights, sums, counts)
        t = np.abs(again - difference) / np.where(errors > 0, errors, np.inf)
        half = error * float(np.quantile(t, LEVEL))
    return PairedDifference(difference, difference - half, difference + half, len(values), groups)


def _estimates(weights: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the difference of the two arms' means and its linearised standard error, per row of weights."""
    jobs = weights @ counts
    means = (weights @ sums) / jobs
    parts = (sums[None] - means[:, None, :] * counts[None]) / jobs[:, None, :]
    return means[:, 0] - means[:, 1], np.sqrt((weights * (parts[:, :, 0] - parts[:, :, 1]) ** 2).sum(axis=1))
