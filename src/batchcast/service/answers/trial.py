# SPDX-License-Identifier: Apache-2.0
"""The trial of `plan_percent`: jobs drawn to be planned against those of the same partitions and QOS that were not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...metrics.accuracy import SIZE_CLASSES, size_class
from ...metrics.bursts import user_weeks
from ...metrics.paired import arm_difference
from ...metrics.schedule import bounded_slowdown
from ...planning.decide import is_drawn
from ...planning.record import opted_in
from ...store.reader import Reader, Row
from ..settings import Settings
from .disclosure import rounded

ALL = "all"
LEAST = 20
"""An arm of fewer jobs of a size is not shown: one job's luck would speak for it."""


def arms(
    reader: Reader, cluster: str, settings: Settings, since: float, until: float, least: int
) -> list[dict[str, Any]]:
    """Waits and bounded slowdowns of the two arms by class of sizes, drawn less others, with intervals over bursts.

    Of jobs submitted since the first was planned, and over: as drawn, whether a job could be planned in the end or not,
    since of the others nobody knows. Empty where there is no trial. Jobs that opted in by their comment are left out:
    the store keeps no comments. Above one `least` user figures are rounded, and those of fewer users left out.
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
    submit, start, end = (
        np.array([row[name] for row in rows], float) for name in ("submit_time", "start_time", "end_time")
    )
    wait, run = np.maximum(start - submit, 0.0), np.maximum(end - start, 0.0)
    procs = np.array([math.nan if row["req_procs"] is None else row["req_procs"] for row in rows])
    sizes = size_class(procs)
    users = np.unique([row["user_id"] or "" for row in rows], return_inverse=True)[1]
    group, slowdown = user_weeks(users, submit), bounded_slowdown(wait, run)
    results = []
    for name, mask in ((ALL, np.ones(len(rows), bool)), *((n, sizes == k) for k, n in enumerate(SIZE_CLASSES))):
        both = [mask & drawn, mask & ~drawn]
        few_users = min(len(set(users[arm].tolist())) for arm in both) < least
        if (min(int(arm.sum()) for arm in both) < LEAST and name != ALL) or few_users:
            continue
        row: dict[str, Any] = {"size": name}
        for who, arm in zip(("drawn", "others"), both):
            row |= {f"{who}_jobs": int(arm.sum()), f"{who}_planned": int((arm & reached).sum())}
            row |= {f"{who}_mean_wait_s": _mean(wait[arm]), f"{who}_mean_bsld": _mean(slowdown[arm])}
        for key, values in (("mean_wait_s", wait), ("mean_bsld", slowdown)):
            one = arm_difference(values[mask], drawn[mask], group[mask], np.random.default_rng(seed))
            row |= {f"{key}_difference": one.difference, f"{key}_difference_low": one.low}
            row |= {f"{key}_difference_high": one.high, f"{key}_word": one.word()}
            row |= {"groups": one.groups, "why_no_interval": one.why_not}
        results.append(rounded(row) if least > 1 else row)
    return results


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan
