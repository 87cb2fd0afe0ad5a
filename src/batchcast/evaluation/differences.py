# SPDX-License-Identifier: Apache-2.0
"""Differences between methods, each with its confidence interval.

Methods are compared with a named reference method by resampling user-weeks, and the results are flat keys of result
rows; the module also gives the names of users, queues and accounts that results may show. `replicated` compares
schedules on many similar logs, which are resampled by weeks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError
from ..metrics.accuracy import size_class
from ..metrics.bursts import WEEK_S, geometric_mean, group_mean, top_share, user_weeks, users_better_and_worse
from ..metrics.measure import Measure, OverReplicates
from ..metrics.paired import PairedDifference, paired_differences
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
Keys = dict[str, dict[str, Any]]
"""The keys that the comparison adds to the row of each method."""
Columns = Mapping[str, np.ndarray]
Schedules = Mapping[str, "Schedule"]


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
) -> Keys:
    """Return the keys for each wait prediction's row: its difference from the reference in mean absolute error and
    CRPS.

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
) -> Keys:
    """Return the keys for each schedule's row: its difference from the reference in mean wait and mean bounded
    slowdown.

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


def against_limits(keys: Keys, limits: Keys) -> Keys:
    """Return the keys of each method's row, with the comparison with the users' limits added as `limit_differences`."""
    theirs = {name: row["differences"] for name, row in limits.items() if "differences" in row}
    return {name: row | ({"limit_differences": theirs[name]} if name in theirs else {}) for name, row in keys.items()}


def compared(
    trace: Trace,
    scored: np.ndarray,
    group: np.ndarray,
    values: Mapping[str, Columns],
    against: str,
    measures: Sequence[Measure],
    seed: int,
) -> Keys:
    """Return the keys of every method's row; `values` has the values of the scored jobs, by method and measure."""
    rows: Keys = {name: _even(trace, scored, group, values[name], values[against], measures[0].name) for name in values}
    of = groups_of(trace, scored)
    for measure in measures:
        of_measure = {name: each[measure.name] for name, each in values.items()}
        for name, pair in _paired(of_measure, against, group, seed).items():
            words = _decided_by(trace, scored, group, measure, pair) if pair.is_decided_by_one else ""
            row = rows[name]
            row |= {"against": against, "groups_of": of, "differences": row.get("differences", {})}
            row["differences"][measure.name] = pair.stated(lower_is_better=not measure.more_is_better, decided_by=words)
    return rows


def _even(
    trace: Trace, scored: np.ndarray, group: np.ndarray, mine: Columns, theirs: Columns, metric: str
) -> dict[str, Any]:
    """Return the mean over user-weeks, the shares of users who wait less and who wait more, and the share of the ten
    largest groups."""
    better, worse = users_better_and_worse(mine[metric] - theirs[metric], trace.nominal("user_id").codes[scored])
    keys = {
        "over_user_weeks": group_mean(mine[metric], group),
        "top_ten_share": top_share(mine[metric], group),
        "users_better": better,
        "users_worse": worse,
    }
    if MEAN_SLOWDOWN.name in mine:
        keys[GEOMETRIC_MEAN.name] = geometric_mean(mine[MEAN_SLOWDOWN.name])
    return keys


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


def replicated(
    trace: Trace,
    schedules: Mapping[str, Callable[[Trace], Schedule]],
    against: str,
    count: int,
    seed: int = 0,
    tick: Callable[[int], None] | None = None,
    workers: int = 1,
) -> dict[str, dict[str, Any]]:
    """Return keys for each schedule's row: the differences between its means and the reference's means over replicates
    of the log.

    `schedules` has a function per schedule that simulates one replicate. `replicated` has an `OverReplicates` of the
    difference of means for each measure. The cost is `count` simulations of every schedule.
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
    means = {name: [one[k] for one in every] for k, name in enumerate(schedules)}
    keys: dict[str, dict[str, Any]] = {}
    for name in schedules:
        keys[name] = {"replicates": count}
        if name != against:
            pairs = list(zip(means[name], means[against]))
            keys[name]["replicated"] = {
                each.name: OverReplicates.from_values(
                    np.array([mine[each.name] - its[each.name] for mine, its in pairs]), 0.0
                )
                for each in COMPARED_SCHEDULES
            }
    return keys
