# SPDX-License-Identifier: Apache-2.0
"""Resample a log by weeks, to simulate a change on many similar logs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..metrics.bursts import WEEK_S
from ..metrics.measure import OverReplicates
from ..metrics.schedule import COMPARED
from ..processes import in_processes
from ..simulation import Schedule
from ..table import Nominal, Trace, Values

DROPPED = 0.01
Simulate = Callable[[Trace, str], Schedule]


def replicate(trace: Trace, rng: np.random.Generator, dropped: float = DROPPED) -> Trace:
    """Return a log with the same number of weeks, drawn from this log with replacement, and without a random share of
    the jobs.

    Parameters
    ----------
    trace
        The log. Weeks are counted from the log's first submission; jobs keep their time within the week and all columns
        except the job id. The last week may be shorter than seven days.
    rng
        Random generator that draws the weeks and the omitted jobs.
    dropped
        The share of jobs that are omitted. A schedule may depend strongly on a single job, and replicates show this.

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
    names: Sequence[str],
    simulate: Simulate,
    against: str,
    count: int,
    seed: int = 0,
    tick: Callable[[int], None] | None = None,
    workers: int = 1,
) -> dict[str, dict[str, Any]]:
    """Return keys for each schedule's row: the differences between its means and the reference's means over replicates
    of the log.

    `simulate(trace, name)` returns the schedule of one replicate. `replicated` has an `OverReplicates` of the
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
        return [simulate(again, name).measures() for name in names]

    every = in_processes([partial(measured, state) for state in states], workers, tick)
    means = {name: [one[k] for one in every] for k, name in enumerate(names)}
    keys: dict[str, dict[str, Any]] = {}
    for name in names:
        keys[name] = {"replicates": count}
        if name != against:
            pairs = list(zip(means[name], means[against]))
            keys[name]["replicated"] = {
                each.name: OverReplicates.of(np.array([mine[each.name] - its[each.name] for mine, its in pairs]), 0.0)
                for each in COMPARED
            }
    return keys
