# SPDX-License-Identifier: Apache-2.0
"""Partitions as separate machines: each has its own queue, its own processors and its own schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ..errors import InputError
from ..moved import older_names
from ..predict.registry import fresh, made, makes
from ..table import Trace
from .policy import Policy
from .schedule import Schedule
from .simulate import simulate


@older_names(runtime="predictor")
def simulate_split(
    trace: Trace,
    sizes: Mapping[Any, tuple[float, str]],
    policy: Policy | None = None,
    predictor: Any = None,
    *,
    default_request: float | None = None,
    **options: Any,
) -> Schedule:
    """One schedule of a log whose partitions are separate machines; `options` are those of `simulate`.

    `sizes` gives processors and their source by partition id (`trace.implied.machine.partition_sizes`). Records
    without a partition are left out, and so is a partition of which nothing is known to run. Each partition has a
    predictor of its own, by name, class or a function of the partition's jobs and processors, of an object a copy, and
    it learns from that partition alone. A job without a request is planned with the log's largest, or
    `default_request`. Raises InputError when the log knows no partitions.

    >>> log = Trace.from_arrays({"submit_time": [0, 0, 1], "run_time": [9, 9, 2], "req_time": [10, 10, 3],
    ...                          "req_procs": [2, 2, 2], "partition_id": ["a", "b", "a"]})
    >>> simulate_split(log, {"a": (2.0, "header"), "b": (2.0, "header")}).start_time.tolist()
    [0.0, 0.0, 9.0]
    """
    given = (policy or Policy()).predictor if predictor is None else predictor
    partition = trace.nominal("partition_id")
    if not sizes:
        raise InputError(f"{trace.info.source}: no job has a partition", hint="--partitions together")
    default = _largest_request(trace) if default_request is None else default_request
    parts, rows, notes = [], [], []
    left_out = Counter({"no partition": int((partition.codes < 0).sum())})
    for name, (size, source) in sizes.items():
        inside = np.flatnonzero(partition.codes == partition.categories.index(name))
        if not size >= 1:
            left_out["in a partition of which no job is known to run"] += len(inside)
            continue
        jobs = trace.take(inside)
        plans = made(given, trace=jobs, max_procs=size) if makes(given) else fresh(given)
        part = simulate(jobs, policy, plans, total=size, default_request=default, **options)
        rows.append(inside[part.rows])
        parts.append(part)
        left_out.update(part.left_out)
        notes += [f"partition {name}: {size:.0f} processors ({source})"]
        notes += [f"partition {name}: {note}" for note in part.notes]
    if not parts:
        raise InputError(f"{trace.info.source}: no partition's size is known", hint="--partitions together")
    oversized = _oversized(sum(part.total for part in parts), trace.info.max_procs)
    return _merged(parts, np.concatenate(rows), dict(left_out), (*oversized, *notes))


def _largest_request(trace: Trace) -> float | None:
    known = trace.req_time[np.isfinite(trace.req_time) & (trace.req_time > 0)]
    return float(known.max()) if len(known) else None


def _oversized(together: float, machine: float) -> list[str]:
    """A caution where the partitions have more processors than the machine: one shares, follows or overlaps another."""
    if not together > machine:
        return []
    return [
        f"the partitions have {together:.0f} processors together, the machine {machine:.0f}: they overlap or followed "
        f"one another, and this simulation has {together / machine - 1:.0%} too many (--partitions together has not)"
    ]


def _merged(parts: list[Schedule], rows: np.ndarray, left_out: Mapping[str, int], notes: tuple[str, ...]) -> Schedule:
    """The schedules of all machines as one, in log order."""
    order = np.argsort(rows, kind="stable")
    arrays: dict[str, Any] = {}
    for field in fields(Schedule):
        columns = [getattr(part, field.name) for part in parts]
        if isinstance(columns[0], np.ndarray):
            arrays[field.name] = np.concatenate(columns)[order]
    arrays["rows"] = rows[order]
    return Schedule(
        **arrays,
        total=sum(part.total for part in parts),
        corrections=sum(part.corrections for part in parts),
        left_out=left_out,
        notes=notes,
        kernel_s=sum(part.kernel_s for part in parts),
    )
