# SPDX-License-Identifier: Apache-2.0
"""Measures of schedule quality: waits, bounded slowdowns and utilization, for a whole log or for pieces of a log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .accuracy import FORECAST, Errors
from .bursts import geometric_mean
from .coverage import is_covered
from .measure import Measure, measured

TAU = 10.0


def bounded_slowdown(wait: np.ndarray, run: np.ndarray, tau: float = TAU) -> np.ndarray:
    """Compute max(1, (wait + run) / max(run, tau)) for each job, with times in seconds.

    >>> bounded_slowdown(np.array([90.0, 0.0]), np.array([1.0, 50.0])).tolist()
    [9.1, 1.0]
    """
    # Feitelson & Rudolph, JSSPP 1998.
    return np.asarray(np.maximum(1.0, (wait + run) / np.maximum(run, tau)))


def per_processor_bounded_slowdown(
    wait: np.ndarray, run: np.ndarray, procs: np.ndarray, tau: float = TAU
) -> np.ndarray:
    """Compute max(1, (wait + run) / (procs * max(run, tau))) for each job.

    >>> per_processor_bounded_slowdown(np.array([90.0]), np.array([10.0]), np.array([2.0])).tolist()
    [5.0]
    """
    # Zotkin & Keleher, HPDC 1999.
    return np.asarray(np.maximum(1.0, (wait + run) / (procs * np.maximum(run, tau))))


def measures(
    submit: np.ndarray,
    start: np.ndarray,
    run: np.ndarray,
    procs: np.ndarray,
    total: float,
    backfilled: np.ndarray | None = None,
    tau: float = TAU,
) -> dict[str, float]:
    """Return the measures of one schedule by name: times in seconds, shares as fractions, NaN without jobs.

    >>> one = np.array([1.0])
    >>> measures(0.0 * one, 5.0 * one, 15.0 * one, 2.0 * one, total=4.0)["utilization"]
    0.375
    """
    # The makespan is the time from the first submission to the last end. Utilization is sum(procs * run) / (total *
    # makespan). Percentiles use linear interpolation. O(n log n).
    span = float((start + run).max() - submit.min()) if len(submit) else float("nan")
    return measured(SCHEDULE, Waits(start - submit, run, procs, span, total, backfilled, tau))


@dataclass(frozen=True)
class Waits:
    """Waits, run times and processors of the jobs of one schedule, arrays of shape (n,); input of the schedule measures
    in `SCHEDULE`.

    `makespan` is the time from the first submission to the last end, `total` the machine's processors.
    """

    wait: np.ndarray
    run: np.ndarray
    procs: np.ndarray | float = 1.0
    makespan: float = math.nan
    total: float = math.nan
    backfilled: np.ndarray | None = None
    tau: float = TAU

    @property
    def jobs(self) -> int:
        """The number of jobs in the schedule."""
        return len(self.wait)

    @cached_property
    def percentiles(self) -> list[float]:
        """The median, the 95th and the 99th percentile of the waits, with linear interpolation."""
        return [float(wait) for wait in np.percentile(self.wait, [50, 95, 99])]

    @cached_property
    def slowdown(self) -> np.ndarray:
        """The bounded slowdown of each job."""
        return bounded_slowdown(self.wait, self.run, self.tau)

    @property
    def utilization(self) -> float:
        """The share of the machine's processor time that jobs used, between the first submission and the last end."""
        used = float((self.procs * self.run).sum())
        return used / (self.total * self.makespan) if self.makespan > 0 else float("nan")


SCHEDULE = (
    Measure("mean_wait_s", "seconds", "mean wait", lambda s: s.wait, True, meaning="start - submission"),
    Measure("median_wait_s", "seconds", "median wait", lambda s: s.percentiles[0], heading="median",
            meaning="median wait"),
    Measure("p95_wait_s", "seconds", "95 % wait", lambda s: s.percentiles[1], heading="p95",
            meaning="95th percentile of the wait", table="more"),
    Measure("p99_wait_s", "seconds", "99 % wait", lambda s: s.percentiles[2], heading="p99", table=""),
    Measure("max_wait_s", "seconds", "longest wait", lambda s: s.wait.max(), heading="max"),
    Measure("mean_bounded_slowdown", "number", "mean slowdown", lambda s: s.slowdown, True,
            heading="mean bounded slowdown", meaning="bounded: max(1, (wait + run) / max(run, 10 s)), tau = 10 s"),
    Measure("median_bounded_slowdown", "number", "median slowdown", lambda s: np.median(s.slowdown),
            heading="median bounded slowdown", meaning="bounded, median", table="more"),
    Measure("mean_per_processor_bounded_slowdown", "number", "mean slowdown per processor",
            lambda s: per_processor_bounded_slowdown(s.wait, s.run, s.procs, s.tau), True, table=""),
    Measure("utilization", "share", "utilization", lambda s: s.utilization, more_is_better=True, heading="util.",
            meaning="processor time used / (processors x time from first submission to last end)", table="more"),
    Measure("makespan_s", "seconds", "makespan", lambda s: s.makespan, table=""),
    Measure("backfilled_share", "share", "backfilled", lambda s: np.nan if s.backfilled is None else s.backfilled,
            True, meaning="jobs that started before a job ahead of them in the queue", table="more"),
)  # fmt: skip
"""The measures of a schedule, from `Waits`."""
MEAN_WAIT, P99_WAIT, LONGEST_WAIT, MEAN_SLOWDOWN, UTILIZATION = (SCHEDULE[place] for place in (0, 3, 4, 5, 8))
GEOMETRIC_MEAN = Measure("geometric_mean_bounded_slowdown", "number", "geometric mean slowdown",
                         lambda s: geometric_mean(s.slowdown), heading="geometric mean", table="")  # fmt: skip
COMPARED = (MEAN_WAIT, MEAN_SLOWDOWN)
"""The measures in which schedules of the same jobs are compared."""
DIFFERENCES, RATIOS = (MEAN_SLOWDOWN, MEAN_WAIT, UTILIZATION), (GEOMETRIC_MEAN, P99_WAIT, LONGEST_WAIT)
"""The measures in which a study compares plans over replicates: by their difference, and by their ratio."""


class ForecastTotals:
    """Accumulate prediction errors and quantile coverage over pieces of a log.

    >>> totals = ForecastTotals()
    >>> totals.add(np.array([10.0, 30.0]), np.array([20.0, 30.0])); totals.add(np.array([5.0]), np.array([np.nan]))
    >>> totals.figures()["mae_s"], totals.figures()["jobs"]
    (5.0, 2)
    """

    def __init__(self) -> None:
        self.jobs, self.shortfall = 0, 0.0
        self.sums = {each.name: 0.0 for each in FORECAST if each.is_mean}
        self.covered: dict[float, list[int]] = {}

    def add(
        self, predicted: np.ndarray, actual: np.ndarray, quantiles: Mapping[float, np.ndarray] | None = None
    ) -> None:
        """Add predicted and actual values (seconds) of one piece, and quantiles by level; jobs with NaN are ignored."""
        known = ~(np.isnan(predicted) | np.isnan(actual))
        p, r = predicted[known], actual[known]
        self.jobs += len(p)
        _add_means(self.sums, FORECAST, Errors(p, r))
        self.shortfall += math.fsum((r - p)[p < r])
        for level, bound in (quantiles or {}).items():
            given = ~np.isnan(bound) & ~np.isnan(actual)
            counts = self.covered.setdefault(level, [0, 0])
            counts[0] += int(is_covered(actual[given], bound[given]).sum())
            counts[1] += int(given.sum())

    def figures(self) -> dict[str, float]:
        """Return the measures by name, as `accuracy.accuracy` does, and the coverage of each quantile."""
        return {
            "jobs": self.jobs,
            **{name: _ratio(total, self.jobs) for name, total in self.sums.items()},
            "mean_shortfall_s": _ratio(self.shortfall, self.sums["underestimate_rate"]),
            **{f"coverage_{100 * level:g}": _ratio(*counts) for level, counts in sorted(self.covered.items())},
        }


class ScheduleTotals:
    """Accumulate measures of one schedule over pieces of a log, in any order: all measures that are means, and a few
    others (see `figures`). Percentiles are left out, because they need all jobs at once.

    >>> totals = ScheduleTotals(4)
    >>> for submit, start in ((0.0, 0.0), (0.0, 9.0)):
    ...     totals.add(*(np.array([x]) for x in (submit, start, 9.0, 4)), np.array([False]))
    >>> totals.figures()["mean_wait_s"], totals.figures()["utilization"]
    (4.5, 1.0)
    """

    def __init__(self, total: float) -> None:
        self.total = total
        self.jobs, self.work = 0, 0.0
        self.sums = {each.name: 0.0 for each in SCHEDULE if each.is_mean}
        self.longest, self.first, self.last = math.nan, math.inf, -math.inf

    def add(
        self, submit: np.ndarray, start: np.ndarray, run: np.ndarray, procs: np.ndarray, backfilled: np.ndarray
    ) -> None:
        """Add the jobs of one piece of the log; the parameters have the same meaning as in `measures`."""
        if not len(submit):
            return
        wait = start - submit
        self.jobs += len(submit)
        self.work += math.fsum(procs * run)
        _add_means(self.sums, SCHEDULE, Waits(wait, run, procs, backfilled=backfilled))
        self.longest = float(np.fmax(self.longest, wait.max()))
        self.first, self.last = min(self.first, float(submit.min())), max(self.last, float((start + run).max()))

    def figures(self) -> dict[str, float]:
        """Return the measures by name, as `measures` does. All measures are NaN if there are no jobs."""
        makespan = self.last - self.first if self.jobs else math.nan
        values = {name: _ratio(total, self.jobs) for name, total in self.sums.items()}
        utilization = _ratio(self.work, self.total * makespan)
        values |= {"max_wait_s": self.longest, "utilization": utilization, "makespan_s": makespan}
        return {"jobs": self.jobs, **{each.name: values[each.name] for each in SCHEDULE if each.name in values}}


def _add_means(sums: dict[str, float], measures: Sequence[Measure], sample: Any) -> None:
    """Add the values of a sample's jobs to the sum of each measure that is a mean."""
    for each in measures:
        if each.is_mean:
            sums[each.name] += math.fsum(each.compute(sample))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan
