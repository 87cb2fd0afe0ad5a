# SPDX-License-Identifier: Apache-2.0
"""Simulates which jobs and how much work a planned outage would delay on a log, for the requested start and for other
starts of that week."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from batchcast import plots

from ..errors import NoAnswer, UsageError
from ..evaluation.differences import burst_groups, over_log
from ..machines.machine import Machine
from ..metrics.paired import PairedDifference, paired_differences
from ..processes import in_processes
from ..simulation.on_nodes import simulate_on
from ..simulation.outage import HOUR_S, WEEK_S, Outage
from ..simulation.schedule import Schedule
from ..simulation.workload import left_out_words
from ..table import Trace
from ..table.result import Picture, Rows
from ..trace.select import format_date, zone
from ..units import counted
from .whatif import by_group

LEAD_S = 14 * 86400.0
"""The simulation begins this long before the outage, so that the machine is full and a queue exists."""
TAIL_S = 2 * 86400.0
"""The log must continue for this long after an outage, because jobs that arrive then are delayed too."""
DELAYED_S = 60.0
"""A job counts as delayed if it starts later by more than a minute."""
SEED = 0


@dataclass(frozen=True, slots=True, repr=False)
class OutageResult(Rows):
    """Result with one row per start of the outage: the requested start first, then the other starts, ordered by
    increasing delayed work.

    `groups` are the users, accounts and partitions that an outage at the requested start delays most. `notes` state
    what the simulation assumes.
    """

    groups: Sequence[Mapping[str, Any]]
    notes: Sequence[str]

    _printed: ClassVar[tuple[str, ...]] = ("start", "delayed_jobs", "delayed_users", "mean_delay_s", "delayed_hours")

    def __repr__(self) -> str:
        return f"<OutageResult of {len(self.rows)} starts>"

    def _pictures(self) -> Mapping[str, Picture]:
        keys = ("delayed_hours", "delayed_hours_low", "delayed_hours_high")
        each = {str(row["start"]): tuple(float(row[key]) for key in keys) for row in self.rows}
        return {"starts": partial(plots.intervals, each, "delayed work (processor-hours)")}


def outage(
    trace: Trace,
    machine: Machine,
    planned: Outage,
    *,
    procs: str = "req",
    workers: int = 1,
    tick: Callable[[int], None] | None = None,
) -> OutageResult:
    """Simulate a log under Slurm's loops without and with a planned outage, at its requested start and at other starts
    of that week.

    Parameters
    ----------
    trace
        The log. Jobs from two weeks before the outage to a week after the last start are simulated.
    machine
        The machine. The scheduler knows the outage's reservation from the beginning, so no job starts that would run
        into the outage.
    planned
        The planned outage, with times on the log's clock.
    procs
        Which processor count of a job is used: `req` (requested, else allocated) or `alloc`.
    workers
        Number of parallel processes; it does not change the results.
    tick
        Function that is called with the number of finished schedules.

    Returns
    -------
    OutageResult

    Raises
    ------
    NoAnswer
        If the log has no job near the outage.

    Notes
    -----
    The work that an outage delays is the sum over jobs of processors times the change of the start, in
    processor-hours; jobs that start earlier reduce the sum. The intervals of the delayed work and of the difference to
    the best start resample user-weeks (`metrics.paired_differences`).

    Examples
    --------
    >>> from batchcast.machines.machine import homogeneous
    >>> log = Trace.from_arrays({"submit_time": [0.0, 10.0, 9000.0], "run_time": [60.0] * 3, "req_time": [90.0] * 3,
    ...                          "req_procs": [4] * 3})
    >>> found = outage(log, homogeneous(1, 4), Outage("ALL", 100.0, 3600.0, 7 * 86400.0))
    >>> found.rows[0]["delayed_jobs"], found.rows[0]["mean_delay_s"] > 3500
    (1, True)
    """
    first = planned.start - LEAD_S
    near = (trace.submit_time >= first) & (trace.submit_time < planned.start + 2 * WEEK_S + planned.length)
    last = float(trace.submit_time[-1]) if len(trace) else -np.inf
    week = planned.starts()
    starts = [planned.start, *(start for start in week[1:] if start + planned.length + TAIL_S <= last)]
    if not near.any() or planned.start > last:
        begin, end = (format_date(trace.info.unix_start + t, zone(trace.info.timezone))
                      for t in (trace.submit_time[0], trace.submit_time[-1]))  # fmt: skip
        raise NoAnswer(f"the outage is not within the log, whose jobs were submitted from {begin} to {end}",
                       hint="a start within the log")  # fmt: skip
    part = trace if near.all() else trace.take(near, replace(trace.info))
    machines = [machine, *(planned.on(machine, start) for start in starts)]
    simulate = [partial(simulate_on, each, part, procs=procs) for each in machines]
    now, *held = in_processes(simulate, workers, tick)
    rows = _rows(part, now, held, starts, procs)
    groups = by_group(part, now, held[0], np.ones(len(part), bool), procs)
    asked, others = rows[0], sorted(rows[1:], key=lambda row: float(row["delayed_hours"]))
    notes = left_out_words(now.left_out)
    if cut := len(week) - len(starts):
        notes.append(f"{counted(cut, 'start')} of that week left out, because the log ends within two days after it")
    if planned.start + planned.length + TAIL_S > last:
        notes.append("the log ends within two days after the outage, so less work is delayed than would be")
    return OutageResult([asked, *others], [row for row in groups if row["change_s"] > 0], [*notes, *now.notes])


def _rows(
    trace: Trace, now: Schedule, held: Sequence[Schedule], starts: Sequence[float], procs: str
) -> list[dict[str, Any]]:
    """Return the work that an outage delays at each start, with intervals, and each start's difference from the best
    start."""
    begins = np.array([over_log(trace, schedule, schedule.start_time) for schedule in (now, *held)])
    both = ~np.isnan(begins).any(axis=0)
    if not both.any():
        raise UsageError("--reserve: with the outage no job would ever start (accepted: fewer hours or nodes)")
    delay = begins[1:, both] - begins[0, both]
    hours = delay * trace.procs(procs)[both] / HOUR_S
    group = burst_groups(trace, procs)[both]
    users = trace.nominal("user_id").codes[both]
    best = int(np.argmin(hours.sum(axis=1)))
    none = np.zeros(hours.shape[1])
    rng = np.random.default_rng(SEED)
    alone = paired_differences(hours, none, group, rng)
    to_best = paired_differences(hours, hours[best], group, rng)
    there = zone(trace.info.timezone)
    rows = []
    for k, start in enumerate(starts):
        late = delay[k] > DELAYED_S
        rows.append({
            "start": format_date(trace.info.unix_start + start, there), "start_s": trace.info.unix_start + start,
            "part": "asked" if k == 0 else "other", "jobs": int(both.sum()), "delayed_jobs": int(late.sum()),
            "delayed_users": len(np.unique(users[late & (users >= 0)])),
            "mean_delay_s": float(delay[k, late].mean()) if late.any() else 0.0,
            "most_delay_s": float(delay[k].max(initial=0.0)),
            **_total("delayed_hours", alone[k]),
            **_total("more_than_best_hours", to_best[k]),
            "verdict": "best" if k == best else to_best[k].word(),
        })  # fmt: skip
    return rows


def _total(name: str, pair: PairedDifference) -> dict[str, float]:
    """Return a sum over jobs and its interval, from the difference of means."""
    values = {name: pair.difference, f"{name}_low": pair.low, f"{name}_high": pair.high}
    return {key: value * pair.jobs for key, value in values.items()}
