# SPDX-License-Identifier: Apache-2.0
"""Who waits longer and who shorter by the order of `batchcast plan`: two simulations of the jobs in the store."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...cluster.machine import homogeneous
from ...errors import BatchcastError
from ...evaluation.whatif import by_group
from ...metrics.bursts import bursts
from ...planning.order import OrderRule
from ...simulation.slurm_order import Ordering
from ...simulation.slurm_trace import QueuePlan, simulate_on
from ...table import Trace
from ..settings import Settings
from .disclosure import Site

MOST = 20_000
"""So many jobs at most are simulated, the latest."""
FACTOR_SET = "order sets"
WHAT_IT_IS = (
    "both simulated on one pool of all processors, by Slurm's loops: in order of arrival, and with the order by the"
    " forecasts of then, whoever opted in; partitions, nodes and priorities are left out"
)


def who_pays(site: Site, settings: Settings, since: float, until: float, method: str) -> list[dict[str, Any]]:
    """The three users and accounts that gain most and the three that pay most, in mean wait (s), with intervals.

    Of finished jobs submitted in [since, until), epoch seconds, since the first factor was set; `method` is whose
    run-time forecasts order, without one a job goes by its limit. `now_s` is the simulated wait in arrival's order,
    `then_s` with the order, `recorded_s` what was recorded. Groups of fewer than 20 jobs are not shown. Empty where no
    factor was set, where the machine's size is unknown, and where jobs are private: the rows name users.
    """
    total = float(site.memory.get("total_procs") or math.nan)
    if site.private or not total >= 1:
        return []
    steps = site.reader.ask("plan_changes", cluster=site.cluster, since=since)
    begun = min((step["at"] for step in steps if step["what"] == FACTOR_SET), default=math.inf)
    trace, points = _jobs(site, begun, until, method)
    if not len(trace):
        return []
    machine = homogeneous(1, int(total))
    rule = OrderRule(settings["plan_within"], settings["plan_age_s"] or math.nan, settings["plan_band"])
    try:
        plain = simulate_on(machine, trace)
        ordered = simulate_on(machine, trace, queue=QueuePlan(order=Ordering("forecast", points, rule)))
    except BatchcastError:  # no job of that time fits the machine as it is now
        return []
    everybody = np.ones(len(trace), bool)
    burst = bursts(trace.nominal("user_id").codes, trace.submit_time)
    rows = by_group(trace, plain, ordered, everybody, bursts=burst)
    names = {"user_id": "user", "account": "account"}
    return [{**row, "by": names[row["by"]], **_recorded(trace, row)} for row in rows if row["by"] in names]


def _jobs(site: Site, since: float, until: float, method: str) -> tuple[Trace, np.ndarray]:
    """The jobs that ran, in log order, and the run time forecast for each at its submission (s; NaN: none)."""
    chosen = {"cluster": site.cluster, "since": since, "until": until}
    if not since < math.inf:
        return Trace.from_arrays({"submit_time": []}), np.zeros(0)
    asked = {(r["job_id"], r["submit_time"]): r for r in site.reader.each("plan_week", **chosen, method=method)}
    ran = [r for r in site.reader.each("arms", **chosen) if (r["job_id"], r["submit_time"]) in asked and r["req_procs"]]
    ran = sorted(ran, key=lambda r: r["submit_time"])[-MOST:]
    more = [asked[r["job_id"], r["submit_time"]] for r in ran]
    columns = {
        "job_id": list(range(len(ran))),
        "submit_time": [r["submit_time"] for r in ran],
        "wait_time": [max(r["start_time"] - r["submit_time"], 0.0) for r in ran],
        "run_time": [max(r["end_time"] - r["start_time"], 0.0) for r in ran],
        "req_procs": [float(r["req_procs"]) for r in ran],
        "req_time": [_number(one["req_time"]) for one in more],
        "user_id": [r["user_id"] for r in ran],
        "account": [one["account"] for one in more],
    }
    return Trace.from_arrays(columns), np.array([_number(one["point_s"]) for one in more])


def _recorded(trace: Trace, row: dict[str, Any]) -> dict[str, float]:
    """The mean recorded wait (s) of a group's jobs."""
    names = np.array([str(name or "") for name in trace.nominal(row["by"]).decode()])
    return {"recorded_s": float(trace.wait_time[names == row["group"]].mean())}


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
