"""Partitions as separate machines: each has its own queue, its own processors and its own schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ..errors import InputError, UsageError
from ..table import Trace
from .policy import Policy
from .schedule import Schedule
from .simulate import simulate


def simulate_split(
    trace: Trace,
    sizes: Mapping[Any, tuple[float, str]],
    policy: Policy | None = None,
    runtime: str = "requested",
    **options: Any,
) -> Schedule:
    """One schedule of a log whose partitions are separate machines; `options` are those of `simulate`.

    `sizes` gives processors and their source by partition id (`trace.machine.partition_sizes`). Records without a
    partition are left out. A predictor is made for each partition and learns from that one alone. Raises InputError
    when the log knows no partitions.
    """
    if not isinstance(runtime, str):
        raise UsageError("separate machines need a predictor each", hint="name it: NAME:key=value")
    partition = trace.nominal("partition_id")
    if not sizes:
        raise InputError(f"{trace.info.source}: no job has a partition", hint="--partitions together")
    parts, rows = [], []
    for name, (size, _) in sizes.items():
        inside = np.flatnonzero(partition.codes == partition.categories.index(name))
        made = simulate(trace.take(inside), policy, runtime, total=size, **options)
        rows.append(inside[made.rows])
        parts.append(made)
    notes = [f"partition {name}: {size:.0f} processors ({source})" for name, (size, source) in sizes.items()]
    notes += [f"partition {name}: {note}" for name, part in zip(sizes, parts) for note in part.notes]
    left_out = Counter({"no partition": int((partition.codes < 0).sum())})
    for part in parts:
        left_out.update(part.left_out)
    return _merged(parts, np.concatenate(rows), dict(left_out), tuple(notes))


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
