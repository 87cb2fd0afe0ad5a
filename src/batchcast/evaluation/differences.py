# SPDX-License-Identifier: Apache-2.0
"""Differences between methods, each with its confidence interval.

Methods are compared with a named reference method by resampling user-weeks, and the results are flat keys of result
rows; the module also gives the names of users, queues and accounts that results may show. `replicated` compares
schedules on many similar logs, which are resampled by weeks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import UsageError
from ..metrics.accuracy import size_class
from ..metrics.bursts import WEEK_S, geometric_mean, group_mean, top_share, user_weeks, users_better_and_worse
from ..metrics.measure import Measure, OverReplicates
from ..metrics.paired import Difference, PairedDifference, paired_differences
from ..metrics.schedule import COMPARED as COMPARED_SCHEDULES
from ..metrics.schedule import GEOMETRIC_MEAN, MEAN_SLOWDOWN, Waits
from ..metrics.wait import COMPARED as COMPARED_WAITS
from ..predict.registry import parse_spec
from ..processes import in_processes
from ..table import Nominal, Trace, Values
from ..trace.select import format_date, zone
from ..units import counted, format_memory, span

if TYPE_CHECKING:
    from ..simulation import Schedule


def shown_names(trace: Trace, column: str) -> list[str]:
    """Return the names of a nominal column's codes, as results may show them.

    If user names are private, users are numbered in the order of the log's categories, which reveals no name.

    >>> from dataclasses import replace
    >>> log = Trace.from_arrays({"submit_time": [0.0, 1.0], "run_time": [5.0, 5.0], "user_id": ["ada", "bo"]})
    >>> shown_names(log, "user_id"), shown_names(log.with_info(replace(log.info, private=True)), "user_id")
    (['ada', 'bo'], ['a user (1)', 'a user (2)'])
    """
    categories = trace.nominal(column).categories
    if column == "user_id" and trace.info.private:
        return [f"a user ({number})" for number in range(1, len(categories) + 1)]
    known = trace.info.names.get(column, {})
    return [str(known.get(value, value)) for value in categories]


RUN_TIME = ("recent_mean", "requested")
WAIT = ("recent_wait",)
Columns = Mapping[str, np.ndarray]
Schedules = Mapping[str, "Schedule"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a method compares with a reference method in each measure. The first measure is also summed up by groups of
    jobs.

    `over_user_weeks` is the mean over groups, each with the same weight, and `top_ten_share` the share of the ten
    largest groups in the sum over jobs. `users_better` and `users_worse` are shares of users. `geometric_mean` (of
    slowdowns) is None for other measures. `against` is empty for the reference itself. `limit_differences` are the
    differences from the users' limits, `rule_differences` from the usual rule, and `replicated` the differences over
    replicates of the log.
    """

    over_user_weeks: float
    top_ten_share: float
    users_better: float
    users_worse: float
    geometric_mean: float | None = None
    against: str = ""
    groups_of: str = ""
    differences: Mapping[str, Difference] = field(default_factory=dict)
    limit_differences: Mapping[str, Difference] = field(default_factory=dict)
    rule_differences: Mapping[str, Difference] = field(default_factory=dict)
    replicates: int | None = None
    replicated: Mapping[str, OverReplicates] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """Return the known values under their names in JSON."""
        values = {GEOMETRIC_MEAN.name if f.name == "geometric_mean" else f.name: getattr(self, f.name)
                  for f in fields(self)}  # fmt: skip
        return {name: value for name, value in values.items() if value is not None and value != "" and value != {}}


Comparisons = dict[str, Comparison]
"""Comparisons by the name of the method."""


class ResultRow(dict[str, Any]):
    """One row of results: its columns in JSON and tables, and its comparison with a reference as a typed value. The
    columns of the comparison follow the measures, and `more` follows the comparison."""

    def __init__(
        self, measures: Mapping[str, Any], comparison: Comparison | None = None, more: Mapping[str, Any] = {}
    ) -> None:
        super().__init__({**measures, **(comparison.row() if comparison else {}), **more})
        self.comparison = comparison

    @property
    def against(self) -> str:
        """The reference with which the row is compared; empty if there is none."""
        return self.comparison.against if self.comparison else ""

    def difference(self, measure: str) -> Difference | None:
        """Return the difference from the reference in a measure; None if there is none."""
        return self.comparison.differences.get(measure) if self.comparison else None

    def named(self, against: str = "", **names: Any) -> ResultRow:
        """Return the row with other values in the named columns, and with another name of its reference, if any."""
        one = self.comparison
        return ResultRow({**self, **names}, replace(one, against=against) if one and one.against and against else one)


def burst_groups(trace: Trace, procs: str = "req") -> np.ndarray:
    """Return the group of each job (n,): a group consists of the submissions of one user (if unknown, of one size
    class) in one week."""
    return user_weeks(trace.nominal("user_id").codes, trace.submit_time, size_class(trace.procs(procs)))


def groups_of(trace: Trace, scored: np.ndarray) -> str:
    """Return a description of the groups of the scored jobs: users and weeks, if the log names users.

    >>> print(groups_of(Trace.from_arrays({"submit_time": [0.0], "run_time": [5.0]}), np.array([True])))
    one week's submissions of one size class (the log names no users)
    """
    named = trace.nominal("user_id").codes[scored] >= 0
    if named.all():
        return "one user's submissions of one week"
    if not named.any():
        return "one week's submissions of one size class (the log names no users)"
    return "one user's submissions of one week (if the log names no user: of one size class)"


def reference_of(methods: Sequence[str], against: str | None, usual: Sequence[str]) -> str:
    """Return the reference method: `against`, else the first of the usual reference methods that was evaluated.

    `against` may be a method's spec or its name. Raises UsageError if `against` was not evaluated.

    >>> reference_of(["requested", "recent_mean:k=5"], None, RUN_TIME)
    'recent_mean:k=5'
    """
    for name in [against] if against else usual:
        for method in methods:
            if method == name or parse_spec(method)[0] == name:
                return method
    if against:
        raise UsageError(f"--against: no {against!r} among the methods (accepted: {', '.join(methods)})")
    return methods[0]


def wait_differences(
    trace: Trace, points: Columns, scored: np.ndarray, against: str, *, crps: Columns, procs: str = "req", seed: int = 0
) -> Comparisons:
    """Return each wait prediction's difference from the reference in mean absolute error and CRPS.

    `points` are seconds and `crps` is the CRPS of log(1 + wait), for the log's jobs up to the last scored job.
    """
    wait, group = trace.wait_time[scored], burst_groups(trace, procs)[scored]
    error, score = (measure.name for measure in COMPARED_WAITS)
    values = {}
    for spec, point in points.items():
        inside = scored[: len(point)]  # the predictions end at the last scored job
        values[spec] = {error: np.abs(point[inside] - wait), score: crps[spec][inside]}
    return compared(trace, scored, group, values, against, COMPARED_WAITS, seed)


def schedule_differences(
    trace: Trace, schedules: Schedules, scored: np.ndarray, against: str, *, procs: str = "req", seed: int = 0
) -> Comparisons:
    """Return each schedule's difference from the reference in mean wait and mean bounded slowdown.

    The differences pair the waits and slowdowns of one simulation of each schedule. The differences include how the
    change of schedule moves all other jobs of this log, but not how it would act on another log (see
    `replicated`).
    """
    group, values = burst_groups(trace, procs)[scored], {}
    for name, schedule in schedules.items():
        waits = Waits(schedule.wait_time, schedule.run_time)
        values[name] = {m.name: over_log(trace, schedule, m.compute(waits))[scored] for m in COMPARED_SCHEDULES}
    return compared(trace, scored, group, values, against, COMPARED_SCHEDULES, seed)


def over_log(trace: Trace, schedule: Schedule, values: np.ndarray) -> np.ndarray:
    """Return a schedule's values by the jobs of the log (n,); NaN for jobs that are not in the schedule."""
    whole = np.full(len(trace), np.nan)
    whole[schedule.rows] = values
    return whole


def wait_intervals(
    trace: Trace, schedules: Schedules, scored: np.ndarray, against: str, *, procs: str = "req", seed: int = 0
) -> dict[str, PairedDifference]:
    """Return each schedule's difference to the reference in mean wait only. Computing all differences takes more than
    twice as long."""
    group = burst_groups(trace, procs)[scored]
    waits = {name: over_log(trace, one, one.wait_time)[scored] for name, one in schedules.items()}
    return _paired(waits, against, group, seed)


def _paired(values: Columns, against: str, group: np.ndarray, seed: int) -> dict[str, PairedDifference]:
    """Return each method's values minus the reference method's values."""
    others = [name for name in values if name != against]
    stacked = np.array([values[name] for name in others]).reshape(len(others), len(group))
    return dict(zip(others, paired_differences(stacked, values[against], group, np.random.default_rng(seed))))


def compared(
    trace: Trace,
    scored: np.ndarray,
    group: np.ndarray,
    values: Mapping[str, Columns],
    against: str,
    measures: Sequence[Measure],
    seed: int,
) -> Comparisons:
    """Return every method's comparison; `values` has the values of the scored jobs, by method and measure."""
    stated: dict[str, dict[str, Difference]] = {name: {} for name in values}
    for measure in measures:
        of_measure = {name: each[measure.name] for name, each in values.items()}
        for name, pair in _paired(of_measure, against, group, seed).items():
            words = _decided_by(trace, scored, group, measure, pair) if pair.is_decided_by_one else ""
            stated[name][measure.name] = pair.stated(lower_is_better=not measure.more_is_better, decided_by=words)
    metric, users, of = measures[0].name, trace.nominal("user_id").codes[scored], groups_of(trace, scored)
    comparisons = {}
    for name, mine in values.items():
        better, worse = users_better_and_worse(mine[metric] - values[against][metric], users)
        slowdown = mine.get(MEAN_SLOWDOWN.name)
        comparisons[name] = Comparison(
            group_mean(mine[metric], group), top_share(mine[metric], group), better, worse,
            None if slowdown is None else geometric_mean(slowdown), against if stated[name] else "",
            of if stated[name] else "", stated[name],
        )  # fmt: skip
    return comparisons


def _decided_by(trace: Trace, scored: np.ndarray, group: np.ndarray, measure: Measure, one: PairedDifference) -> str:
    """Return a sentence that names the user and week of the jobs that decide a difference, and the difference without
    these jobs."""
    rows = np.flatnonzero(scored)[group == one.largest]
    submit = trace.submit_time[rows] + trace.info.unix_start
    who = [*shown_names(trace, "user_id"), ""][trace.nominal("user_id").codes[rows[0]]]  # -1: unknown user
    named = "one user" if trace.info.private else f"user {who}"
    since = format_date(float(submit.min()), zone(trace.info.timezone))
    return (
        f"{100 * one.largest_share:.0f} % of the sum of absolute differences comes from {counted(one.largest_jobs)} of "
        f"{named if who else 'an unknown user'}, submitted within {span(float(np.ptp(submit)))} from {since} on; "
        f"without them the difference is {_amount(measure, one.without)} instead of {_amount(measure, one.difference)}"
    )


def _amount(measure: Measure, value: float) -> str:
    """Return a difference as text with its sign and unit."""
    if np.isnan(value):
        return "unknown"
    sign = "-" if value < 0 else "+"
    if measure.unit == "memory":
        return f"{sign}{format_memory(1024.0 * abs(value))}"
    return f"{sign}{span(abs(value))}" if measure.unit == "seconds" else f"{sign}{abs(value):.3g}"


DROPPED = 0.01


def replicate(trace: Trace, rng: np.random.Generator, dropped: float = DROPPED) -> Trace:
    """Return a log with the same number of weeks, drawn from this log with replacement, and without a random share of
    the jobs.

    >>> log = Trace.from_arrays({"submit_time": [0.0, 8 * 86400.0], "run_time": [5.0, 6.0]})
    >>> replicate(log, np.random.default_rng(0), dropped=0.0).submit_time.tolist()
    [86400.0, 691200.0]
    """
    return moved_jobs(trace, *_drawn(trace.submit_time, rng, dropped))


def moved_jobs(trace: Trace, rows: np.ndarray, seconds: np.ndarray) -> Trace:
    """Return the rows of a log, each job moved in time by a number of seconds, with new job ids."""
    columns: dict[str, Values] = {}
    for name in trace.names:
        values = trace.column(name)
        columns[name] = values.take(rows) if isinstance(values, Nominal) else values[rows]
        if name in ("submit_time", "eligible_time"):
            columns[name] = np.asarray(columns[name]) + seconds
    columns["job_id"] = np.arange(1, len(rows) + 1)
    return Trace(columns, trace.info)


def _drawn(submit: np.ndarray, rng: np.random.Generator, dropped: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a replicate, and by how many seconds each job is moved."""
    week = ((submit - float(submit[0])) // WEEK_S).astype(int)
    edges = np.searchsorted(week, np.arange(week[-1] + 2))
    drawn = rng.integers(0, week[-1] + 1, size=week[-1] + 1)
    rows = np.concatenate([np.arange(edges[w], edges[w + 1]) for w in drawn])
    moved = np.concatenate([np.full(edges[w + 1] - edges[w], (place - w) * WEEK_S) for place, w in enumerate(drawn)])
    keep = rng.random(len(rows)) >= dropped
    return rows[keep], moved[keep]


class Replicates(NamedTuple):
    """The number of replicates of a log, and the differences over them by schedule and measure."""

    logs: int
    changes: Mapping[str, Mapping[str, OverReplicates]]

    def added(self, comparisons: Comparisons) -> Comparisons:
        """Return the schedules' comparisons with the differences over replicates."""
        return {name: replace(one, replicates=self.logs, replicated=self.changes.get(name, {}))
                for name, one in comparisons.items()}  # fmt: skip


def replicated(
    trace: Trace,
    schedules: Mapping[str, Callable[[Trace], Schedule]],
    against: str,
    count: int,
    seed: int = 0,
    tick: Callable[[int], None] | None = None,
    workers: int = 1,
) -> Replicates:
    """Return the differences between each schedule's means and the reference's means over replicates of the log.

    `schedules` has a function per schedule that simulates one replicate. The cost is `count` simulations of every
    schedule.
    """
    rng = np.random.default_rng(seed)
    # the state of the random generator before each replicate, because the process that simulates a replicate also draws
    # it
    states = []
    for _ in range(count):
        states.append(copy.deepcopy(rng))
        _drawn(trace.submit_time, rng, DROPPED)

    def measured(rng: np.random.Generator) -> list[Mapping[str, float]]:
        again = replicate(trace, rng)
        return [simulate(again).measures() for simulate in schedules.values()]

    every = in_processes([partial(measured, state) for state in states], workers, tick)
    means = {name: {m.name: np.array([one[k][m.name] for one in every]) for m in COMPARED_SCHEDULES}
             for k, name in enumerate(schedules)}  # fmt: skip
    changes = {
        name: {m: OverReplicates.from_values(values - means[against][m], 0.0) for m, values in mine.items()}
        for name, mine in means.items() if name != against
    }  # fmt: skip
    return Replicates(count, changes)
