# SPDX-License-Identifier: Apache-2.0
"""Estimates whose waits the queue order of `batchcast plan` lengthens or shortens, by two simulations of stored jobs.

The module also evaluates the randomized trial of the setting `plan_percent`: it compares jobs that were drawn for
planning with jobs of the same partitions and QOS that were not drawn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import BatchcastError
from ...machines.machine import homogeneous
from ...metrics.accuracy import SIZE_CLASSES, size_class
from ...metrics.bursts import bursts, user_weeks
from ...metrics.paired import arm_difference
from ...metrics.schedule import bounded_slowdown
from ...planning.decide import is_drawn
from ...planning.order import OrderRule
from ...planning.record import opted_in
from ...results.whatif import by_group
from ...simulation.on_nodes import Ordering, QueuePlan, simulate_on
from ...store.reader import Reader, Row
from ...table import Trace
from ..planning.terms import order_time
from ..settings import Settings, planned_by
from .disclosure import Site, is_of_several, rounded

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
    rule = OrderRule(settings["plan_within"], settings["plan_age_s"] or math.nan, settings["plan_band"])
    try:
        plain = simulate_on(machine, trace)
        ordered = simulate_on(machine, trace, queue=QueuePlan(order=Ordering("forecast", run_times, rule)))
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


def arms(
    reader: Reader, cluster: str, settings: Settings, since: float, until: float, least: int
) -> list[dict[str, Any]]:
    """Return mean waits and bounded slowdowns of both arms of the planning trial by size class, with intervals for
    their differences.

    The result covers finished jobs submitted after the first job was planned. Jobs count in the arm to which they were
    drawn, even if they could not be planned in the end, because it is unknown which jobs of the other arm could have
    been planned. The list is empty without a trial. Jobs that opted in by comment are left out, because the store has
    no comments. With `least` above 1, figures are rounded, and figures of fewer users are left out.
    """
    steps = [s for s in reader.ask("plan_changes", cluster=cluster, since=since) if s["what"] == "planned"]
    terms = opted_in(settings, 0.0, "")
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
    return _by_size(rows, drawn, reached, settings["plan_seed"], least)


def _by_size(
    rows: Sequence[Row], drawn: np.ndarray, reached: np.ndarray, seed: int, least: int
) -> list[dict[str, Any]]:
    """Return the figures of both arms for all jobs and for each size class (`arms`)."""
    names = ("submit_time", "start_time", "end_time", "req_procs")
    submit, start, end, procs = (np.array([row[name] for row in rows], float) for name in names)  # None becomes NaN
    wait, run, sizes = np.maximum(start - submit, 0.0), np.maximum(end - start, 0.0), size_class(procs)
    users = np.unique([row["user_id"] or "" for row in rows], return_inverse=True)[1]
    group, slowdown = user_weeks(users, submit), bounded_slowdown(wait, run)
    results = []
    for name, mask in ((ALL, np.ones(len(rows), bool)), *((n, sizes == k) for k, n in enumerate(SIZE_CLASSES))):
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
