# SPDX-License-Identifier: Apache-2.0
"""Who gains and who pays when a machine changes: two schedules of one log, by user, account, QOS, partition, size."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..metrics.accuracy import SIZE_CLASSES, size_class
from ..metrics.paired import paired_differences
from ..simulation.schedule import Schedule
from ..table import Trace
from .differences import shown_names

BY = ("user_id", "account", "qos", "partition_id")
LEAST = 20
"""Groups of fewer jobs are not shown apart: one job's luck would speak for them."""


def by_group(
    trace: Trace,
    now: Schedule,
    then: Schedule,
    mask: np.ndarray,
    procs: str = "req",
    most: int = 3,
    bursts: np.ndarray | None = None,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """For each kind of group those that gain most and those that pay most, in mean wait of the jobs in both schedules.

    Rows of kind, group, jobs, mean wait in s now and then, and the difference; at most `most` of either side. With
    `bursts`, the burst of each job (n,), also the difference with its 90 % interval over them (NaN below 20), its
    word, and their count.
    """
    before, after = (np.full(len(trace), np.nan) for _ in range(2))
    before[now.rows], after[then.rows] = now.wait_time, then.wait_time
    both = mask & ~np.isnan(before) & ~np.isnan(after)
    rows: list[dict[str, Any]] = []
    for kind, labels in _labels(trace, procs).items():
        groups: list[dict[str, Any]] = []
        for label in np.unique(labels[both]):
            here = both & (labels == label)
            if label != "" and here.sum() >= LEAST:
                a, b = float(before[here].mean()), float(after[here].mean())
                groups.append(
                    {
                        "by": kind,
                        "group": str(label),
                        "jobs": int(here.sum()),
                        "now_s": a,
                        "then_s": b,
                        "change_s": b - a,
                    }
                )
        groups.sort(key=lambda row: row["change_s"])
        groups = groups if len(groups) <= 2 * most else [*groups[:most], *groups[-most:]]
        if bursts is not None:
            for row in groups:
                here = both & (labels == row["group"])
                row |= _interval(after[here], before[here], bursts[here], seed)
        rows += groups
    return rows


def _interval(after: np.ndarray, before: np.ndarray, burst: np.ndarray, seed: int) -> dict[str, Any]:
    group = np.unique(burst, return_inverse=True)[1]
    pair = paired_differences(after[None], before, group, np.random.default_rng(seed))[0]
    ends = {"wait_s_difference_low": pair.low, "wait_s_difference_high": pair.high, "wait_s_verdict": pair.word()}
    return {"wait_s_difference": pair.difference, **ends, "bursts": pair.groups}


def _labels(trace: Trace, procs: str) -> dict[str, np.ndarray]:
    labels = {}
    for name in BY:
        labels[name] = np.array([*shown_names(trace, name), ""])[trace.nominal(name).codes]  # unknown is -1, the last
    sizes = size_class(trace.procs(procs))
    labels["size class"] = np.array([SIZE_CLASSES[k] if k >= 0 else "" for k in sizes])
    return {kind: values for kind, values in labels.items() if len(set(values.tolist()) - {""}) > 1}
