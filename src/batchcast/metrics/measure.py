# SPDX-License-Identifier: Apache-2.0
"""The declaration of a measure: its key, unit and direction, how it is computed, and its names in tables and pages.

`metrics.schedule`, `metrics.accuracy` and `metrics.wait` declare the measures. Result rows, tables, comparisons,
pictures and studies use the declarations of measures. `OverReplicates` summarizes a value over replicates of a log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .coverage import RESOLUTION, is_covered

Unit = Literal["seconds", "memory", "share", "number", "ratio"]


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of schedules or of predictions: how it is computed, its unit and its names."""

    name: str  # The measure's key in result rows, such as `mean_wait_s`
    unit: Unit  # The unit of the measure, which decides how a value is shown
    title: str  # The measure's name in sentences, pictures and pages
    # Function that computes the measure from an object such as `metrics.schedule.Waits`. If `is_mean`, the function
    # returns one value per job.
    compute: Callable[[Any], Any] = float
    # Whether the measure is the mean of one value per job. Only measures that are means have confidence intervals.
    is_mean: bool = False
    more_is_better: bool = False  # Whether a larger value of the measure is better
    heading: str = ""  # The measure's column heading in terminal tables. Default: `title`.
    meaning: str = ""  # An explanation of the measure for readers of a page
    # Whether tables of schedules or forecasts show the measure: always, only with all columns (`more`), or never.
    table: Literal["always", "more", ""] = "always"


def measured(measures: Sequence[Measure], sample: Any) -> dict[str, float]:
    """Return the number of jobs as `jobs` and each measure by name; all measures are NaN if the sample has no jobs.

    >>> from batchcast.metrics.accuracy import FORECAST, Errors
    >>> measured(FORECAST[:1], Errors(np.array([10.0, 30.0]), np.array([20.0, 30.0])))
    {'jobs': 2, 'mae_s': 5.0}
    """
    if not sample.jobs:
        return {"jobs": 0, **{each.name: float("nan") for each in measures}}
    return {"jobs": sample.jobs, **{each.name: float(np.mean(each.compute(sample))) for each in measures}}


def coverage_by_level(
    actual: np.ndarray, levels: Sequence[float], quantiles: np.ndarray, tolerance: float = RESOLUTION
) -> dict[float, float]:
    """Return the share of actual values (n,) within their quantiles (n, m), by level; pairs with a NaN are ignored, and
    levels without any pair are left out.

    >>> coverage_by_level(np.array([4.0, 9.0]), (0.5, 0.9), np.array([[3.0, np.nan], [5.0, np.nan]]))
    {0.5: 0.5}
    """
    given = ~np.isnan(quantiles) & ~np.isnan(actual)[:, None]
    within, jobs = (is_covered(actual[:, None], quantiles, tolerance) & given).sum(axis=0), given.sum(axis=0)
    return {level: float(within[k] / jobs[k]) for k, level in enumerate(levels) if jobs[k]}


def mean(values: np.ndarray) -> float:
    """Compute the mean of values; NaN if there are no values.

    >>> mean(np.array([1.0, 2.0])), mean(np.zeros(0))
    (1.5, nan)
    """
    return float(values.mean()) if len(values) else math.nan


@dataclass(frozen=True, slots=True)
class OverReplicates:
    """A value, such as a difference of mean waits, summarized over replicates of a log."""

    value: float  # The value's mean over the replicates
    low: float = math.nan  # The 5th and the 95th percentile over the replicates; NaN with fewer than two replicates
    high: float = math.nan
    # The share of replicates whose value is below `level`, the value that means no change; NaN with fewer than two
    # replicates.
    ahead: float = math.nan

    @classmethod
    def from_values(cls, values: np.ndarray, level: float) -> OverReplicates:
        """Summarize one value per replicate; NaN is ignored.

        >>> OverReplicates.from_values(np.array([-1.0, 3.0]), 0.0).ahead
        0.5
        """
        values = values[~np.isnan(values)]
        if len(values) < 2:
            return cls(float(values[0]) if len(values) else math.nan)
        low, high = np.percentile(values, [5, 95]).tolist()
        return cls(float(values.mean()), low, high, float((values < level).mean()))
