# SPDX-License-Identifier: Apache-2.0
"""Estimates the effects of planning: which jobs of a past week planning would have changed, whose waits the planned
order lengthens or shortens, and how the two arms of the trial of `plan_percent` differ.

Simulations use the prediction that was stored at each job's submission. Job properties that the store does not have
(`UNKNOWN`) are assumed to be absent. The trial compares jobs that were drawn for planning with jobs of the same
partitions and QOS that were not drawn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...errors import BatchcastError, NoAnswer
from ...formats.slurm.plannable import Plannable
from ...machines.machine import Machine, homogeneous, vary
from ...metrics.accuracy import SIZE_CLASSES, size_class
from ...metrics.bursts import bursts, user_weeks
from ...metrics.paired import arm_difference
from ...metrics.schedule import bounded_slowdown
from ...planning.decide import is_drawn, verdict
from ...planning.order import OrderRule
from ...planning.record import OrderBy, Terms, opted_in
from ...results.whatif import by_group
from ...simulation.on_nodes import Ordering, QueuePlan, simulate_on
from ...slurm import limits
from ...slurm.transport import Transport
from ...store.reader import Reader, Row
from ...table import Trace
from ..answers.disclosure import Site, is_of_several, rounded
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
    from ...store.database import Store  # needs SQLAlchemy, which the other functions of this module do not need
    from ...store.history import to_trace

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


def by_partition(jobs: Week) -> list[dict[str, Any]]:
    """Return a row per partition: numbers of jobs and of planned jobs, how much their limits shrink, and why other jobs
    are not planned.
    """
    names = np.array([name if isinstance(name, str) else "" for name in jobs.trace.nominal("partition_id").decode()])
    limit, rows = jobs.trace.number("req_time"), []
    for name in sorted(set(names.tolist())):
        here = names == name
        planned = here & ~np.isnan(jobs.planned)
        reasons = Counter(jobs.why[k] for k in np.flatnonzero(here & np.isnan(jobs.planned)))
        row = {"part": "partition", "partition": name, "jobs": int(here.sum()), "planned": int(planned.sum())}
        row["never_seen"] = float(jobs.unseen[planned].sum())
        row["mean_cut_s"] = _mean(limit[planned] - jobs.planned[planned])
        row["mean_share_of_limit"] = _mean(jobs.planned[planned] / limit[planned])
        rows.append({**row, "left_alone": dict(reasons.most_common())})
    return rows


def simulated(
    jobs: Week, machine: Machine, settings: Settings, seed: int = 0
) -> tuple[list[dict[str, Any]], Any, list[str]]:
    """Simulate the week with Slurm's two loops, under the users' limits and under the setting `plan` (every plan if it
    is off).

    Waiting jobs have planned limits, and running jobs have the users' limits again, so no job is killed by a planned
    limit. All jobs are ordered, even jobs that have not opted in. An order of the whole queue is also simulated with
    `RESERVE`, if Slurm does not set this parameter. Returns rows by size class and group, how close the first schedule
    is to the recorded starts, and notes.
    """
    from ...evaluation.differences import ResultRow, schedule_differences
    from ...evaluation.validity import Recorded, judged_on

    trace, everybody = jobs.trace, np.ones(len(jobs.trace), bool)
    order = _ordering(settings, jobs.forecast)
    schedules = {NOW: simulate_on(machine, trace, "requested")}
    arms = [settings["plan"]] if settings["plan"] in ARMS else list(ARMS)
    for word in arms:
        lengths = jobs.planned if word != "order" else None
        queue = QueuePlan(lengths=lengths, order=order if word != "limits" else None)
        schedules[ARMS[word]] = simulate_on(machine, trace, "requested", queue=queue)
    if "order" in arms and settings["plan_within"] == "queue" and RESERVE not in machine.settings:
        other = vary(machine, {RESERVE: str(settings["plan_band"])})
        schedules[f"order, {RESERVE}"] = simulate_on(other, trace, "requested", queue=QueuePlan(order=order))
    planned, rows = ~np.isnan(jobs.planned), list[dict[str, Any]]()
    for name, mask in _sizes(trace.procs("req")):
        if not mask.any():
            continue
        found = schedule_differences(trace, schedules, mask, NOW, seed=seed)
        rows += [
            ResultRow(
                {
                    "part": "simulated",
                    "size": name,
                    "jobs": int(mask[s.rows].sum()),
                    "policy": arm,
                    "planned": int((mask & planned).sum()) if arm in (ARMS["limits"], ARMS["both"]) else 0,
                    **s.measures(mask[s.rows]),
                },
                found[arm],
            )
            for arm, s in schedules.items()
            if mask[s.rows].any()
        ]
    burst = bursts(trace.nominal("user_id").codes, trace.submit_time)
    for arm in list(schedules)[1:]:
        groups = by_group(trace, schedules[NOW], schedules[arm], everybody, bursts=burst, seed=seed)
        rows += [{"part": "group", "policy": arm, **group} for group in groups]
    return rows, judged_on(machine, Recorded.of(trace), schedules[NOW]), schedules[NOW].remarks


def _ordering(settings: Settings, run_times: np.ndarray) -> Ordering:
    """Return the planned order by these run times (s), under the site's settings."""
    rule = OrderRule(settings["plan_within"], settings["plan_age_s"] or math.nan, settings["plan_band"])
    return Ordering(OrderBy.FORECAST, run_times, rule)


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


MOST = 20_000
"""At most this many jobs are simulated; of a longer history, the latest jobs."""
FACTOR_SET = "order sets"
WHAT_IT_IS = (
    "both simulated on one pool of all processors by Slurm's loops: in order of arrival, and in the planned order with "
    "the predictions of that time, for all jobs; partitions, nodes and priorities are ignored"
)


def who_pays(site: Site, since: float, until: float) -> list[dict[str, Any]]:
    """Return the three users and accounts that gain most and the three that lose most, in mean wait (s).

    The result covers finished jobs submitted in [since, until), epoch seconds, after planning first set a priority. A
    job without a run-time prediction is ordered by its time limit. `now_s` is the simulated wait in order of arrival,
    `then_s` in the planned order, `recorded_s` the recorded wait; with intervals. Groups of fewer than 20 jobs are not
    shown. The list is empty if no priority was set, if the machine's size is unknown, or if jobs are private, because
    the rows name users.
    """
    total = float(site.memory.get("total_procs") or math.nan)
    if site.private or not total >= 1:
        return []
    steps = site.reader.ask("plan_changes", cluster=site.cluster, since=since)
    begun = min((step["at"] for step in steps if step["what"] == FACTOR_SET), default=math.inf)
    settings = site.settings
    trace, run_times = _jobs(site, begun, until)
    if not len(trace):
        return []
    machine = homogeneous(1, int(total))
    try:
        plain = simulate_on(machine, trace)
        ordered = simulate_on(machine, trace, queue=QueuePlan(order=_ordering(settings, run_times)))
    except BatchcastError:  # the past jobs do not fit the present machine
        return []
    burst = bursts(trace.nominal("user_id").codes, trace.submit_time)
    rows = by_group(trace, plain, ordered, np.ones(len(trace), bool), bursts=burst)
    names = {"user_id": "user", "account": "account"}
    return [{**row, "by": names[row["by"]], **_recorded(trace, row)} for row in rows if row["by"] in names]


def _jobs(site: Site, since: float, until: float) -> tuple[Trace, np.ndarray]:
    """Return the jobs that ran, in order of submission, and for each the run time (s) that the planned order uses."""
    chosen = {"cluster": site.cluster, "since": since, "until": until}
    if not since < math.inf:
        return Trace.from_arrays({"submit_time": []}), np.zeros(0)
    issued = site.reader.each("plan_week", **chosen, method=planned_by(site.settings))
    asked = {(r["job_id"], r["submit_time"]): r for r in issued}
    ran = [r for r in site.reader.each("arms", **chosen) if (r["job_id"], r["submit_time"]) in asked and r["req_procs"]]
    ran = sorted(ran, key=lambda r: r["submit_time"])[-MOST:]
    more = [asked[r["job_id"], r["submit_time"]] for r in ran]
    columns: dict[str, Any] = {
        "job_id": list(range(len(ran))),
        "submit_time": [r["submit_time"] for r in ran],
        "wait_time": [max(r["start_time"] - r["submit_time"], 0.0) for r in ran],
        "run_time": [max(r["end_time"] - r["start_time"], 0.0) for r in ran],
        "req_procs": [float(r["req_procs"]) for r in ran],
        "req_time": np.array([one["req_time"] for one in more], float),  # None becomes NaN
        "user_id": [r["user_id"] for r in ran],
        "account": [one["account"] for one in more],
    }
    return Trace.from_arrays(columns), np.array([order_time(one, site.settings) for one in more])


def _recorded(trace: Trace, row: dict[str, Any]) -> dict[str, float]:
    """Return the mean recorded wait (s) of a group's jobs."""
    names = np.array([str(name or "") for name in trace.nominal(row["by"]).decode()])
    return {"recorded_s": float(trace.wait_time[names == row["group"]].mean())}


ALL = "all"
LEAST = 20
"""Arms with fewer jobs of a size class are not shown, because single jobs would decide their figures."""


def arms(site: Site, since: float, until: float) -> list[dict[str, Any]]:
    """Return mean waits and bounded slowdowns of both arms of the planning trial by size class, with intervals for
    their differences.

    The result covers finished jobs submitted after the first job was planned. Jobs count in the arm to which they were
    drawn, even if they could not be planned in the end, because it is unknown which jobs of the other arm could have
    been planned. The list is empty without a trial. Jobs that opted in by comment are left out, because the store has
    no comments. If jobs are hidden, figures are rounded, and figures of too few users are left out.
    """
    reader, cluster = site.reader, site.cluster
    steps = [s for s in reader.ask("plan_changes", cluster=cluster, since=since) if s["what"] == "planned"]
    terms = opted_in(site.settings, 0.0, "")
    if not steps or not 0 < terms.percent < 100 or not (terms.partitions or terms.qos):
        return []
    begun = min(step["at"] for step in steps)
    planned = {(step["job_id"], step["submit_time"]) for step in steps}
    rows = [
        row
        for row in reader.each("arms", cluster=cluster, since=begun, until=until)
        if row["submit_time"] >= begun and (row["partition_id"] in terms.partitions or row["qos"] in terms.qos)
    ]
    if not rows:
        return []
    drawn = np.array([is_drawn(str(row["job_id"]).partition("_")[0], terms) for row in rows])
    reached = np.array([(row["job_id"], row["submit_time"]) in planned for row in rows])
    return _by_size(rows, drawn, reached, site.settings["plan_seed"], site.least)


def _sizes(procs: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Return all jobs and each size class: its name, and which of the jobs with these processors it has."""
    classes = size_class(procs)
    return [(ALL, np.ones(len(procs), bool)), *((name, classes == k) for k, name in enumerate(SIZE_CLASSES))]


def _by_size(
    rows: Sequence[Row], drawn: np.ndarray, reached: np.ndarray, seed: int, least: int
) -> list[dict[str, Any]]:
    """Return the figures of both arms for all jobs and for each size class (`arms`)."""
    names = ("submit_time", "start_time", "end_time", "req_procs")
    submit, start, end, procs = (np.array([row[name] for row in rows], float) for name in names)  # None becomes NaN
    wait, run = np.maximum(start - submit, 0.0), np.maximum(end - start, 0.0)
    users = np.unique([row["user_id"] or "" for row in rows], return_inverse=True)[1]
    group, slowdown = user_weeks(users, submit), bounded_slowdown(wait, run)
    results = []
    for name, mask in _sizes(procs):
        both = [mask & drawn, mask & ~drawn]
        few_users = not all(is_of_several(Counter(users[arm].tolist()), least) for arm in both)
        if (min(int(arm.sum()) for arm in both) < LEAST and name != ALL) or few_users:
            continue
        row: dict[str, Any] = {"size": name}
        for who, arm in zip(("drawn", "others"), both):
            row |= {f"{who}_jobs": int(arm.sum()), f"{who}_planned": int((arm & reached).sum())}
            row |= {f"{who}_mean_wait_s": _mean(wait[arm]), f"{who}_mean_bounded_slowdown": _mean(slowdown[arm])}
        for key, values in (("mean_wait_s", wait), ("mean_bounded_slowdown", slowdown)):
            one = arm_difference(values[mask], drawn[mask], group[mask], np.random.default_rng(seed))
            row["differences"] = {**row.get("differences", {}), key: one.stated()}
            row |= {"groups": one.groups, "why_no_interval": one.why_not}
        results.append(rounded(row, least))
    return results


def _mean(values: np.ndarray) -> float:
    """Return the mean; NaN if there are no values."""
    return float(values.mean()) if len(values) else math.nan
