# SPDX-License-Identifier: Apache-2.0
"""Logs made of a log's own weeks.

The whole effect of a change, simulated again and again, and how often an interval keeps its promise.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..metrics.bursts import WEEK_S, user_weeks
from ..metrics.paired import LEAST_GROUPS, paired_differences
from ..processes import in_processes
from ..simulation import Schedule
from ..table import Nominal, Trace, Values

DROPPED = 0.01
METRICS = ("mean_wait_s", "mean_bounded_slowdown")
Simulate = Callable[[Trace, str], Schedule]


def replicate(trace: Trace, rng: np.random.Generator, dropped: float = DROPPED) -> Trace:
    """A log of as many weeks, drawn from this one's with replacement, each in a place of its own, some jobs left out.

    Parameters
    ----------
    trace
        Weeks are counted from its first submission; jobs keep their place in the week and all that is known of them
        but their number. The last week may be short.
    rng
        Draws the weeks and the jobs left out.
    dropped
        The share of jobs left out: a schedule may hang on a single one, and a replicate shows it.

    >>> log = Trace.from_arrays({"submit_time": [0.0, 8 * 86400.0], "run_time": [5.0, 6.0]})
    >>> replicate(log, np.random.default_rng(0), dropped=0.0).submit_time.tolist()
    [86400.0, 691200.0]
    """
    rows, moved = _drawn(trace.submit_time, rng, dropped)
    columns: dict[str, Values] = {}
    for name in trace.names:
        values = trace.column(name)
        columns[name] = values.take(rows) if isinstance(values, Nominal) else values[rows]
        if name in ("submit_time", "eligible_time"):
            columns[name] = np.asarray(columns[name]) + moved
    columns["job_id"] = np.arange(1, len(rows) + 1)
    return Trace(columns, trace.info)


def _drawn(submit: np.ndarray, rng: np.random.Generator, dropped: float) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a replicate, and by how many seconds each job is moved."""
    week = ((submit - float(submit[0])) // WEEK_S).astype(int)
    edges = np.searchsorted(week, np.arange(week[-1] + 2))
    drawn = rng.integers(0, week[-1] + 1, size=week[-1] + 1)
    rows = np.concatenate([np.arange(edges[w], edges[w + 1]) for w in drawn])
    moved = np.concatenate([np.full(edges[w + 1] - edges[w], (place - w) * WEEK_S) for place, w in enumerate(drawn)])
    keep = rng.random(len(rows)) >= dropped
    return rows[keep], moved[keep]


def replicated(
    trace: Trace,
    names: Sequence[str],
    simulate: Simulate,
    against: str,
    count: int,
    seed: int = 0,
    tick: Callable[[int], None] | None = None,
    workers: int = 1,
) -> dict[str, dict[str, Any]]:
    """How each named schedule's means differ from the reference's over replicates: keys that its row gains.

    `simulate(trace, name)` makes a schedule. For each metric: the 5th and 95th percentile of the difference of means,
    and the share of replicates in which it was below the reference. Costs `count` times what the schedules cost.
    """
    rng = np.random.default_rng(seed)
    states = []  # what draws each replicate: it is made where it is simulated
    for _ in range(count):
        states.append(copy.deepcopy(rng))
        _drawn(trace.submit_time, rng, DROPPED)

    def measured(rng: np.random.Generator) -> list[Mapping[str, float]]:
        again = replicate(trace, rng)
        return [simulate(again, name).measures() for name in names]

    every = in_processes([partial(measured, state) for state in states], workers, tick)
    means = {name: [one[k] for one in every] for k, name in enumerate(names)}
    keys: dict[str, dict[str, Any]] = {}
    for name in names:
        keys[name] = {"replicates": count}
        if name == against:
            continue
        for metric in METRICS:
            difference = np.array([mine[metric] - its[metric] for mine, its in zip(means[name], means[against])])
            low, high = np.percentile(difference, [5, 95]).tolist()
            keys[name] |= {
                f"{metric}_replicates_low": low,
                f"{metric}_replicates_high": high,
                f"{metric}_replicates_ahead": float((difference < 0).mean()),
            }
    return keys


_LONGEST = 5000


@dataclass(frozen=True, slots=True)
class Bursts:
    """A kind of synthetic log: its users and weeks, the tail of burst sizes (Pareto: smaller is heavier), the errors.

    `lopsided` errors are most often a little better and now and then far worse, their mean alike; else the two methods
    differ by luck alone, the same way about zero.
    """

    users: int
    weeks: int
    tail: float
    lopsided: bool = False


SETTINGS = tuple(
    Bursts(users, weeks, tail, lopsided)
    for lopsided in (False, True)
    for tail in (1.2, 1.6, 2.5)
    for users, weeks in ((15, 8), (30, 26), (60, 52))
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of the logs' intervals held zero; `groups` and `jobs` are the medians over logs."""

    bursts: Bursts
    logs: int
    held: int
    groups: float
    jobs: float

    @property
    def share(self) -> float:
        """The share of intervals that held zero: the promise is 0.9."""
        return self.held / self.logs


def two_methods(bursts: Bursts, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """User, submit time and two methods' errors (n,) of a log on which neither is better in expectation.

    Every user is active in some weeks and submits one burst in each; a burst's jobs share one error of each method
    (all were forecast before the first had ended) and have half as much of their own.
    """
    active = rng.random((bursts.users, bursts.weeks)) < rng.beta(0.7, 1.5, bursts.users)[:, None]
    user, week = np.nonzero(active)
    groups = len(user)
    size = np.minimum(np.ceil(2.0 * (1.0 - rng.random(groups)) ** (-1.0 / bursts.tail)), _LONGEST).astype(int)
    scale = 600.0 * rng.lognormal(0.0, 1.2, groups)
    if bursts.lopsided:
        shared = np.array([rng.exponential(1.0, groups), np.ones(groups)])
    else:
        shared = np.abs(rng.normal(size=(2, groups)))
    of_job = np.repeat(np.arange(groups), size)
    own = 0.5 * rng.normal(size=(2, len(of_job)))
    errors = scale[of_job] * (shared[:, of_job] + own)
    submit = week[of_job] * WEEK_S + rng.random(groups)[of_job] * (WEEK_S - 3600.0)
    return user[of_job], submit, errors[0], errors[1]


def coverage(
    settings: Sequence[Bursts] = SETTINGS,
    logs: int = 1000,
    seed: int = 0,
    tick: Callable[[int], None] | None = None,
) -> Iterator[Coverage]:
    """One `Coverage` a setting; a log of fewer than `LEAST_GROUPS` groups is drawn anew. About 10 ms a log.

    >>> next(coverage([Bursts(15, 8, 1.6)], logs=10)).held >= 6
    True
    """
    for bursts in settings:
        rng = np.random.default_rng([seed, bursts.users, bursts.weeks, int(10 * bursts.tail), bursts.lopsided])
        held, groups, jobs = 0, list[int](), list[int]()
        while len(groups) < logs:
            user, submit, one, other = two_methods(bursts, rng)
            if not len(user):
                continue
            paired = paired_differences(one[None], other, user_weeks(user, submit), rng)[0]
            if paired.groups < LEAST_GROUPS:
                continue
            held += paired.low <= 0.0 <= paired.high
            groups.append(paired.groups)
            jobs.append(paired.jobs)
            if tick:
                tick(len(groups))
        yield Coverage(bursts, logs, held, float(np.median(groups)), float(np.median(jobs)))
