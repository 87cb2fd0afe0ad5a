# SPDX-License-Identifier: Apache-2.0
"""Find the columns of a log that would improve a prediction: the columns are chosen on earlier jobs and tested on later
jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..columns import DECLARED, KNOWN_AT_SUBMISSION
from ..events.recorded import outcome
from ..metrics.paired import PairedDifference, paired_differences
from ..predict.batched import replay
from ..predict.registry import make
from ..predict.runtime.baselines import FIELDS
from ..table import Nominal, Trace
from ..table.columns import is_known
from .differences import burst_groups

MOST_PAST = 20_000
"""Maximum number of past jobs on which columns are chosen: the latest ones."""
LEAST_PAST = 300
MOST_ADDED = 3
LEAST_GAIN = 0.05
"""Least reduction of the past mean error by a set of columns; each further column must reduce it by a fifth of this."""
SIZE = ("req_time", "procs")
NOT_A_CLASS = {"job_id", "submit_time", "req_procs"}


@dataclass(frozen=True, slots=True)
class Advice:
    """A prediction from columns of the log that is better than all evaluated methods."""

    predictor: str  # The predictor with its settings, as `--predictor` accepts it
    columns: tuple[str, ...]  # The predictor's columns that `recent_mean` does not use by default
    # Index of the first job that was not used to choose the columns; the errors are measured from this job on.
    since: int
    # Number of jobs on which the columns were chosen, and number of jobs on which the errors are measured.
    past_jobs: int
    jobs: int
    # Mean absolute error of the advised predictor, name of the best evaluated method, and that method's error; in
    # seconds.
    mae_s: float
    against: str
    against_mae_s: float
    difference: PairedDifference  # mae_s - against_mae_s with its confidence interval, which resamples user-weeks

    def row(self) -> dict[str, Any]:
        """Return the advice as one flat object for JSON."""
        names = ("predictor", "past_jobs", "jobs", "mae_s", "against", "against_mae_s")
        values = {name: getattr(self, name) for name in names}
        return {"part": "advice", **values, "differences": {"mae_s": self.difference.stated()}}


def advise(
    trace: Trace, points: Mapping[str, np.ndarray], scored: np.ndarray, *, procs: str = "req", seed: int = 0
) -> Advice | None:
    """Return columns with which `recent_mean` predicts better than all evaluated methods; None if no columns do.

    >>> log = Trace.from_arrays({"submit_time": [0.0, 1.0], "run_time": [5.0, 5.0], "user_id": ["ada", "ada"]})
    >>> advise(log, {"requested": np.full(2, 60.0)}, np.ones(2, bool)) is None
    True
    """
    # The past consists of the jobs before the first scored job; if there are fewer than `LEAST_PAST`, it ends in the
    # middle of the scored jobs. Forward selection on the last `MOST_PAST` jobs of the past starts with time limit and
    # processors. Each step adds the column that reduces the mean error most, as long as it reduces the error by at
    # least 1 %, and adds at most `MOST_ADDED` columns. Only run times that were known at the end of the past count. On
    # the past, the error with the chosen columns must be smaller, by the share `LEAST_GAIN`, than the errors of the
    # time limits and of `recent_mean` with its default columns. On the later jobs, it must be smaller by this share
    # than the error of the best evaluated method, with a confidence interval over user-weeks that excludes zero. If the
    # log has no column that `recent_mean` does not use by default, the function returns None at once. The cost is
    # O(columns) replays of the past for each added column, and one replay of the whole log.
    cut = _cut(scored)
    columns = _columns(trace, cut)
    if "user_id" in columns and not set(columns) - set(FIELDS):
        return None
    chosen, past_jobs = _choose(trace, cut, columns, procs)
    if not chosen:
        return None
    window = scored & (np.arange(len(trace)) >= cut)
    ((spec, ours),) = _replayed(trace, [chosen], window, procs).items()
    errors = {name: np.abs(values - trace.run_time)[window] for name, values in {**points, spec: ours}.items()}
    tried = {name: float(np.nanmean(error)) for name, error in errors.items() if name in points and error.size}
    if not tried:
        return None
    best = min(tried, key=lambda name: tried[name])
    group = burst_groups(trace, procs)[window]
    difference = paired_differences(errors[spec], errors[best], group, np.random.default_rng(seed))[0]
    if difference.verdict() != "ahead" or -difference.difference < LEAST_GAIN * tried[best]:
        return None
    new = tuple(name for name in chosen if name not in FIELDS)
    mae_s = float(np.nanmean(errors[spec]))
    return Advice(spec, new, cut, past_jobs, int(window.sum()), mae_s, best, tried[best], difference)


def _cut(scored: np.ndarray) -> int:
    """Return the index of the first job that is not used to choose the columns."""
    rows = np.flatnonzero(scored)
    if not len(rows):
        return 0
    return int(rows[0]) if rows[0] >= LEAST_PAST else int(rows[len(rows) // 2])


def _columns(trace: Trace, cut: int) -> list[str]:
    """Return columns known at submission that divide the past jobs into classes."""
    vouched = set(trace.info.known_at_submit)
    names = [name for name in (*DECLARED, *sorted(vouched)) if name in KNOWN_AT_SUBMISSION | vouched]
    return [name for name in names if name in trace.names and name not in NOT_A_CLASS and _parts(trace, name, cut)]


def _parts(trace: Trace, name: str, cut: int) -> bool:
    values = trace.at_submission().get(name)
    if values is None:
        return False
    known = (values.codes if isinstance(values, Nominal) else values)[:cut][is_known(values)[:cut]]
    return len(known) >= 0.1 * cut and 2 <= len(np.unique(known)) <= len(known) / 2


def _choose(trace: Trace, cut: int, columns: Sequence[str], procs: str) -> tuple[tuple[str, ...], int]:
    """Return the columns that forward selection chooses on the past jobs, and the number of past jobs; no columns if
    none reduces the error enough."""
    past = trace.take(np.arange(max(0, cut - MOST_PAST), cut))
    submit, wait, run = outcome(past)
    has_ended = submit + wait + run <= float(trace.submit_time[cut])
    if int(has_ended.sum()) < LEAST_PAST:
        return (), 0

    def errors(sets: Sequence[tuple[str, ...]]) -> list[float]:
        forecasts = _replayed(past, sets, has_ended, procs)
        return [float(np.nanmean(np.abs(points - run)[has_ended])) for points in forecasts.values()]

    size = tuple(name for name in SIZE if name == "procs" or name in columns)
    rest = [name for name in columns if name not in size]
    limits = np.abs(past.req_time - run)[has_ended]
    limits = limits[np.isfinite(limits)]
    usual = min([*errors([FIELDS]), float(limits.mean()) if len(limits) else float("inf")])
    chosen, best = size, errors([size])[0]
    while rest and len(chosen) < len(size) + MOST_ADDED:
        tried = errors([(name, *chosen) for name in rest])
        least = min(range(len(rest)), key=lambda place: tried[place])
        if not tried[least] < best * (1 - LEAST_GAIN / 5):
            break
        best, chosen = tried[least], (rest.pop(least), *chosen)
    return chosen if best <= (1 - LEAST_GAIN) * usual else (), int(has_ended.sum())


def _replayed(trace: Trace, sets: Sequence[tuple[str, ...]], ask: np.ndarray, procs: str) -> dict[str, np.ndarray]:
    """Return the predictions of `recent_mean` with each set of columns for the jobs in `ask`, each from the jobs that
    ended before its submission, by the method's name with its columns."""
    specs = [f"recent_mean:fields={'+'.join(fields)}" for fields in sets]
    methods = {spec: make("runtime", spec, known_at_submit=trace.info.known_at_submit) for spec in specs}
    forecasts = replay(trace, methods, procs=procs, total=trace.info.max_procs, ask=ask)
    return {name: forecast.points for name, forecast in forecasts.items()}
