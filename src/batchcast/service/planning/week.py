# SPDX-License-Identifier: Apache-2.0
"""Replays a past week: which jobs planning would have changed, and how waits would have changed.

The replay uses the prediction that was stored at each job's submission. Job properties that the store does not have
(`UNKNOWN`) are assumed to be absent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...errors import NoAnswer
from ...formats.slurm.plannable import Plannable
from ...machines.machine import Machine, vary
from ...planning.decide import verdict
from ...planning.order import OrderRule
from ...planning.record import Terms
from ...slurm import limits
from ...slurm.transport import Transport
from ...store.database import Store
from ...store.history import to_trace
from ...store.reader import Reader, Row
from ...table import Trace
from ..settings import Settings, planned_by
from .terms import forecasts_by, order_time, terms_of

UNKNOWN = "--signal, --deadline, --time-min, dependencies, comments, reservations and users' own changes of limits"
SHORT = "it started before a cycle of the collector could plan it"
NOW = "own limits"
ARMS = {"limits": "planned limits", "order": "order by forecast", "both": "limits and order"}
"""The names of the simulated plans, by value of the setting `plan`. With `off`, all plans are simulated."""
RESERVE = "bf_min_prio_reserve"
"""If this parameter of Slurm is set to `plan_band`, backfill reserves processors only for jobs that have waited longer
than the age limit. The order is also simulated with this parameter.
"""


class Week(NamedTuple):
    """The finished jobs of a week in log order, with the planned limit of each job (s; NaN: not planned) and the
    reason.

    `unseen` (n,) is the probability that no cycle of the collector sees the job run, so that a planned limit stays in
    accounting. `forecast` (n,) is the predicted run time (s) by which a job is ordered; NaN means its time limit.
    """

    trace: Trace
    planned: np.ndarray
    forecast: np.ndarray
    why: tuple[str, ...]
    unseen: np.ndarray


def site_terms(transport: Transport, settings: Settings) -> Terms:
    """Return the present terms of the site, which the replay assumes for the past week. Outages are ignored."""
    now = transport.now()
    ground = limits.ground(transport, now)
    accounting = limits.walls(transport) if ground.enforced & {"limits", "safe"} else ({}, [])
    return terms_of(settings, ground, accounting, now, "")._replace(next_outage=math.inf)


def week(settings: Settings, reader: Reader, cluster: str, terms: Terms, since: float, until: float) -> Week:
    """Return the ended jobs submitted in [since, until), with planned limits. Raises NoAnswer if there are no such
    jobs.
    """
    with Store(settings["store"], read_only=True) as store, store.begin() as connection:
        trace = to_trace(connection, cluster, since, until)
    if not len(trace):
        what = f"no job of {cluster} that was submitted in that time has ended"
        raise NoAnswer(what, hint="an earlier -S, e.g. -S now-30days")
    asked = {"cluster": cluster, "since": since, "until": until, "method": planned_by(settings)}
    rows = {(row["job_id"], row["submit_time"]): row for row in reader.each("plan_week", **asked)}
    submit, waits = trace.submit_time.tolist(), trace.wait_time.tolist()
    found = [rows.get((str(name), at)) for name, at in zip(trace.job_id.tolist(), submit)]
    jobs = zip(found, submit, waits)
    planned, why = zip(*(_judged(row, wait, terms._replace(now=at), settings) for row, at, wait in jobs))
    forecast = np.array([order_time(row, settings) for row in found], float)
    return Week(trace, np.array(planned), forecast, why, never_seen(trace.run_time, settings["interval_s"]))


def never_seen(run: np.ndarray, interval: float) -> np.ndarray:
    """Return the probability that a job of each run time (n,) starts and ends between two cycles of the collector.

    For a job that never ran (NaN: cancelled in the queue) the probability is 0.

    >>> never_seen(np.array([0.0, 10.0, 30.0, 99.0, math.nan]), 30.0).round(2).tolist()
    [1.0, 0.67, 0.0, 0.0, 0.0]
    """
    return np.nan_to_num(np.clip(1.0 - run / interval, 0.0, 1.0))


def _judged(row: Row | None, wait: float, terms: Terms, settings: Settings) -> tuple[float, str]:
    """Return the planned limit of a finished job in seconds (NaN: not planned), and the reason."""
    if row is None:
        return math.nan, "it is not in the store"
    limit = math.inf if row["req_time"] is None else float(row["req_time"])
    job = Plannable(
        row["job_id"], row["job_id"], row["submit_time"], False, True, limit,
        tuple(filter(None, (row["partition_id"] or "").split(","))), row["qos"] or "", row["user_id"] or "",
        row["account"] or "",
    )  # fmt: skip
    known = {} if row["point_s"] is None else {(job.job_id, job.submit_time): row}
    planned, why = verdict(job, terms, forecasts_by(known, settings), lambda _: "")
    return (math.nan, SHORT) if planned == planned and wait < settings["interval_s"] else (planned, why)


def by_partition(one: Week) -> list[dict[str, Any]]:
    """Return a row per partition: numbers of jobs and of planned jobs, how much their limits shrink, and why other jobs
    are not planned.
    """
    names = np.array([name if isinstance(name, str) else "" for name in one.trace.nominal("partition_id").decode()])
    limit, rows = one.trace.number("req_time"), []
    for name in sorted(set(names.tolist())):
        here = names == name
        planned = here & ~np.isnan(one.planned)
        cut = limit[planned] - one.planned[planned]
        reasons = Counter(one.why[k] for k in np.flatnonzero(here & np.isnan(one.planned)))
        row = {"part": "partition", "partition": name, "jobs": int(here.sum()), "planned": int(planned.sum())}
        row["never_seen"] = float(one.unseen[planned].sum())
        row["mean_cut_s"] = float(cut.mean()) if len(cut) else math.nan
        row["mean_share_of_limit"] = float((one.planned[planned] / limit[planned]).mean()) if len(cut) else math.nan
        rows.append({**row, "left_alone": dict(reasons.most_common())})
    return rows


def simulated(
    one: Week, machine: Machine, settings: Settings, seed: int = 0
) -> tuple[list[dict[str, Any]], Any, list[str]]:
    """Simulate the week with Slurm's two loops, under the users' limits and under the setting `plan` (every plan if it
    is off).

    Waiting jobs have planned limits, and running jobs have the users' limits again, so no job is killed by a planned
    limit. All jobs are ordered, even jobs that have not opted in. An order of the whole queue is also simulated with
    `RESERVE`, if Slurm does not set this parameter. Returns rows by size class and group, how close the first schedule
    is to the recorded starts, and notes.
    """
    from ...evaluation.differences import schedule_differences
    from ...evaluation.validity import judged_on
    from ...metrics.accuracy import SIZE_CLASSES, size_class
    from ...metrics.bursts import bursts
    from ...results.whatif import by_group
    from ...simulation.on_nodes import Ordering, QueuePlan, simulate_on

    trace, everybody = one.trace, np.ones(len(one.trace), bool)
    age = settings["plan_age_s"] or math.nan
    order = Ordering("forecast", one.forecast, OrderRule(settings["plan_within"], age, settings["plan_band"]))
    schedules = {NOW: simulate_on(machine, trace, "requested")}
    arms = [settings["plan"]] if settings["plan"] in ARMS else list(ARMS)
    for word in arms:
        lengths = one.planned if word != "order" else None
        queue = QueuePlan(lengths=lengths, order=order if word != "limits" else None)
        schedules[ARMS[word]] = simulate_on(machine, trace, "requested", queue=queue)
    if "order" in arms and settings["plan_within"] == "queue" and RESERVE not in machine.settings:
        other = vary(machine, {RESERVE: str(settings["plan_band"])})
        schedules[f"order, {RESERVE}"] = simulate_on(other, trace, "requested", queue=QueuePlan(order=order))
    sizes, planned = size_class(trace.procs("req")), ~np.isnan(one.planned)
    rows: list[dict[str, Any]] = []
    for name, mask in (("all", everybody), *((n, sizes == k) for k, n in enumerate(SIZE_CLASSES))):
        if not mask.any():
            continue
        keys = schedule_differences(trace, schedules, mask, NOW, seed=seed)
        rows += [
            {"part": "simulated", "size": name, "jobs": int(mask[s.rows].sum()), "policy": arm}
            | {"planned": int((mask & planned).sum()) if arm in (ARMS["limits"], ARMS["both"]) else 0}
            | {**s.measures(mask[s.rows]), **keys[arm]}
            for arm, s in schedules.items()
            if mask[s.rows].any()
        ]
    burst = bursts(trace.nominal("user_id").codes, trace.submit_time)
    for arm in list(schedules)[1:]:
        groups = by_group(trace, schedules[NOW], schedules[arm], everybody, bursts=burst, seed=seed)
        rows += [{"part": "group", "policy": arm, **group} for group in groups]
    return rows, judged_on(machine, trace, schedules[NOW], None), schedules[NOW].remarks


def sentences(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences on the rows of partitions, and on the jobs that are not planned, the most frequent reasons
    first.
    """
    said = []
    for row in rows:
        share = f", shortened to {row['mean_share_of_limit']:.0%} of their limits on average" if row["planned"] else ""
        said.append(f"{row['partition'] or '(no partition)'}: {row['planned']} of {row['jobs']} jobs{share}")
        if (never := round(row["never_seen"])) > 0:
            said.append(f"  {never} of these jobs end before a cycle, so that the planned limit stays in accounting")
        said += [f"  {count} not planned: {why}" for why, count in row["left_alone"].items()]
    return said
