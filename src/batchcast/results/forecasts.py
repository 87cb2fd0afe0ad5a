# SPDX-License-Identifier: Apache-2.0
"""Accuracy of predictions, and effects of suggested limits and memory requests, as rows and pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .. import plots
from ..errors import says_arguments
from ..evaluation import limits as requests
from ..evaluation.accuracy import Scores, error_pictures, figures, score
from ..evaluation.differences import WAIT, ResultRow, reference_of, wait_differences
from ..evaluation.limits import Limits, MemoryLimits, limit_rows
from ..evaluation.replay import jobs_mask
from ..evaluation.wait import RecordedClock, WaitRun, compare, crps, last_needed, recorded_wait, scored_rows
from ..evaluation.wait import figures as wait_figures
from ..events.setup import RunSetup
from ..metrics.measure import coverage_by_level
from ..predict.registry import named_methods
from ..table import Trace, check_log
from ..table.result import Picture, Rows


@dataclass(frozen=True, slots=True, repr=False)
class RunTimes(Rows):
    """Accuracy of run-time predictions: a row per method with errors, coverage, and the difference to a reference."""

    scores: Scores

    _printed: ClassVar[tuple[str, ...]] = (
        "predictor", "group", "jobs", "mae_s", "mae_s_difference", "median_ae_s", "apa", "coverage_90",
    )  # fmt: skip

    def __repr__(self) -> str:
        return f"<RunTimes of {int(self.scores.scored.sum())} jobs: {', '.join(self.scores.rows)}>"

    def _pictures(self) -> Mapping[str, Picture]:
        return error_pictures(self.scores)


@says_arguments
def evaluate_run_times(
    trace: Trace,
    predictor: Any = ("requested", "kernel", "last_2", "recent_mean"),
    *,
    mask: np.ndarray | None = None,
    by: str | None = None,
    procs: str = "req",
    protocol: str = "honest",
    against: str | None = None,
    seed: int = 0,
) -> RunTimes:
    """Measure the accuracy of run-time predictions on a log, as `batchcast runtime` prints it.

    Parameters
    ----------
    trace
        The log.
    predictor
        One or several predictors, as in `replay`: names, classes, objects or factories.
    mask
        Which jobs are scored, booleans of shape (n,); predictors learn from all jobs.
    by
        Also return rows by `user`, `queue`, `size` or `month`.
    procs, protocol
        Processor rule and event order, as in `replay`.
    against
        The reference method of comparisons. Default: `recent_mean`, else `requested`, else the first method.
    seed
        Random seed of methods and intervals.

    Returns
    -------
    RunTimes
        The measured accuracy, with `rows`, `plot()` (`errors`, `coverage`, `error_differences`) and frames.

    Raises
    ------
    UsageError
        If an argument is wrong; the message has the accepted values.

    Examples
    --------
    >>> import batchcast
    >>> log = batchcast.read_trace(batchcast.demo_path())
    >>> found = evaluate_run_times(log, ["requested", "last_2"])
    >>> found.to_polars()["predictor"].to_list(), found.plot("error_differences").get_xlabel()
    (['requested', 'last_2'], 'mean absolute error less that of requested (min)')
    """
    check_log(trace)
    inside = jobs_mask("mask", mask, trace)
    scores = score(trace, named_methods(predictor), RunSetup(procs, protocol), mask=inside, seed=seed)
    scores = scores.held_against(against)
    return RunTimes([*figures(scores), *(figures(scores, by) if by else [])], scores)


@dataclass(frozen=True, slots=True, repr=False)
class Waits(Rows):
    """Accuracy of wait predictions: a row per method with error, CRPS, coverage, and the difference to a reference."""

    runs: Sequence[WaitRun]
    outcome: np.ndarray
    """The recorded waits (n,) of scored jobs; NaN for other jobs."""

    _printed: ClassVar[tuple[str, ...]] = (
        "predictor", "jobs", "median_abs_error_s", "mean_abs_error_s", "mean_abs_error_s_difference", "interval_80",
        "interval_90", "crps_log",
    )  # fmt: skip

    def __repr__(self) -> str:
        jobs = int((~np.isnan(self.outcome)).sum())
        return f"<Waits of {jobs} jobs: {', '.join(run.predictor for run in self.runs)}>"

    def _pictures(self) -> Mapping[str, Picture]:
        said = {run.predictor: run.forecasts for run in self.runs}
        return {
            "errors": partial(plots.errors, self.outcome, said),
            "coverage": partial(plots.coverage, {
                name: coverage_by_level(self.outcome, one.levels, one.quantiles) for name, one in said.items()
            }),
            "differences": partial(plots.differences, self.rows, "mean_abs_error_s", ("predictor",)),
        }  # fmt: skip


@says_arguments
def evaluate_waits(
    trace: Trace,
    predictor: Any = "recent_wait",
    *,
    mask: np.ndarray | None = None,
    quick_s: float = 3600.0,
    procs: str = "req",
    cancelled: str = "count",
    against: str | None = None,
    seed: int = 0,
) -> Waits:
    """Measure the accuracy of wait predictions on a log, as `batchcast wait` prints it.

    Parameters
    ----------
    trace
        The log, with recorded waits.
    predictor
        One or several predictors, as in `replay`: names, classes, objects or factories.
    mask
        Which jobs are scored, booleans of shape (n,); predictors learn from all earlier jobs.
    quick_s
        Maximum wait of a quick starter, in seconds.
    procs
        Which processor count of a job is used: `req` (requested, else allocated) or `alloc`.
    cancelled
        How jobs that never ran are used: `count` counts their time in the queue as a wait, `skip` ignores them.
    against
        The reference method of comparisons. Default: `recent_wait`, else the first method.
    seed
        Random seed of the intervals.

    Returns
    -------
    Waits
        The measured accuracy, with `rows`, `plot()` (`errors`, `coverage`, `differences`) and frames.

    Raises
    ------
    NoAnswer
        If no job has a recorded wait.

    Examples
    --------
    >>> import batchcast
    >>> log = batchcast.read_trace(batchcast.demo_path())[:1500]
    >>> found = evaluate_waits(log, "recent_wait,recent_wait:k=9")
    >>> found.to_polars()["predictor"].to_list(), found.pictures
    (['recent_wait', 'recent_wait:k=9'], ('errors', 'coverage', 'differences'))
    """
    check_log(trace)
    scored = scored_rows(trace, cancelled=cancelled) & jobs_mask("mask", mask, trace)
    head = trace.take(np.arange(last_needed(scored)))
    rows = scored[: len(head)]
    made = compare(trace, predictor, scored, [quick_s], cancelled=cancelled, on=RecordedClock(procs=procs))
    runs = {run.predictor: run for _, run in made}
    points = {name: run.forecasts.points for name, run in runs.items()}
    scores = {name: crps(run, head) for name, run in runs.items()}
    reference = reference_of(list(runs), against, WAIT)
    changes = wait_differences(trace, points, scored, reference, crps=scores, procs=procs, seed=seed)
    rows_of_methods = [ResultRow(wait_figures(run, head, rows, quick_s), changes[name]) for name, run in runs.items()]
    return Waits(rows_of_methods, list(runs.values()), np.where(rows, recorded_wait(head), np.nan))


@dataclass(frozen=True, slots=True, repr=False)
class LimitAdvice(Rows):
    """Effect of suggested requests, of the usual rule and of the users' own requests: one row per rule, with kills and
    unused resources.

    `words` is a sentence about the suggestion; `advice.limits` has the request (n,) of every job under each rule.
    """

    rows: Sequence[ResultRow]
    advice: Limits | MemoryLimits
    words: str

    _printed: ClassVar[tuple[str, ...]] = (
        "limits", "group", "jobs", "killed_per_thousand", "over_request_core_h", "median_limit_s", "spent_over_used",
        "median_limit_mib",
    )  # fmt: skip

    def __repr__(self) -> str:
        return f"<LimitAdvice for {int(self.advice.scored.sum())} jobs: {', '.join(self.advice.limits)}>"

    def _pictures(self) -> Mapping[str, Picture]:
        whole = [row for row in self.rows if "by" not in row]
        cost, killed = (each.name for each in self.advice.measures)
        unit = "core-hours unused a job" if cost == requests.MEAN_UNUSED else "GiB-hours held a job"
        points = {str(row["limits"]): (float(row[cost]), float(row[killed])) for row in whole}
        return {
            "tradeoff": partial(plots.tradeoff, points, unit, "cut off, of 1,000 jobs"),
            "differences": partial(plots.differences, whole, cost, ("limits",)),
        }


@says_arguments
def limits(
    trace: Trace, *, risk: float = 0.05, floor: float = 300.0, step: float = 300.0, by: str | None = None,
    procs: str = "req",
) -> LimitAdvice:  # fmt: skip
    """Suggest the shortest time limits with a given risk of a kill, and compute their cost on the log.

    Parameters
    ----------
    trace
        The log.
    risk
        Largest share of jobs that may be killed at the suggested limit.
    floor, step
        Shortest suggested limit, and the multiple to which limits are rounded up, in seconds.
    by
        Also return rows by `user`, `account`, `queue` or `application`.
    procs
        Which processor count of a job is used: `req` (requested, else allocated) or `alloc`.

    Returns
    -------
    LimitAdvice
        The effect of each rule, with `rows`, `words`, `plot()` (`tradeoff`, `differences`) and frames.

    Raises
    ------
    NoAnswer
        If no job that ran had a limit.

    Examples
    --------
    >>> import batchcast
    >>> found = limits(batchcast.read_trace(batchcast.demo_path())[:2000])
    >>> found.to_polars()["limits"].to_list(), found.plot().get_ylabel()
    (['advice', 'rule_of_thumb', 'own'], 'cut off, of 1,000 jobs')
    """
    return advised(trace, risk=risk, floor=floor, step=step, by=by, procs=procs)


@says_arguments
def memory_limits(
    trace: Trace, *, risk: float = 0.05, floor: float = 64.0, step: float = 64.0, most: float = math.inf,
    by: str | None = None, procs: str = "req",
) -> LimitAdvice:  # fmt: skip
    """Suggest memory requests with a given risk, or with the least waste, and compute their cost on the log, including
    second attempts.

    Parameters
    ----------
    trace
        The log, with measured peak memory.
    risk
        Largest share of jobs that may run out of memory.
    floor, step, most
        Smallest suggested request, the multiple to which requests are rounded up, and a node's memory, in MiB.
    by
        Also return rows by `user`, `account`, `queue` or `application`.
    procs
        Which processor count of a job is used: `req` (requested, else allocated) or `alloc`.

    Returns
    -------
    LimitAdvice
        The effect of each rule, with `rows`, `words`, `plot()` (`tradeoff`, `differences`) and frames.

    Raises
    ------
    NoAnswer
        If the log has no measured peak.

    Examples
    --------
    >>> from batchcast import Trace
    >>> log = Trace.from_arrays({
    ...     "submit_time": [100.0 * k for k in range(30)], "wait_time": [0.0] * 30, "run_time": [50.0] * 30,
    ...     "req_procs": [1] * 30, "user_id": ["ada"] * 30, "req_mem_kib": [2**20] * 30, "used_mem_kib": [2**18] * 30})
    >>> found = memory_limits(log)
    >>> found.to_polars()["limits"].to_list()
    ['advice', 'least_waste', 'rule_of_thumb', 'own']
    """
    return advised(trace, memory=True, risk=risk, floor=floor, step=step, most=most, by=by, procs=procs)


def advised(
    trace: Trace, *, memory: bool = False, risk: float, most: float = math.inf, by: str | None = None, **given: Any
) -> LimitAdvice:
    """Return the result of `limits` in seconds, or of `memory_limits` in MiB if `memory` is true.

    `given` has the other arguments of `find_limits` or `find_memory_limits`.
    """
    check_log(trace)
    find = partial(requests.find_memory_limits, most=most) if memory else requests.find_limits
    advice = find(trace, risk=risk, **given)
    rows, groups = limit_rows(advice), limit_rows(advice, by) if by else []
    words = requests.memory_words(rows, risk, most) if memory else requests.advice_words(rows, risk)
    return LimitAdvice([*rows, *groups], advice, words)
