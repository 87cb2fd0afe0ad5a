"""Jobs placed by other memory than they asked for: what each attempt asks, and who runs out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..cluster.machine import Machine
from ..cluster.request import NodeRequest

SECOND = "+"
"""What marks the key of a second attempt."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """MiB a processor of the first attempt (n,), NaN as the log has it; of the second, NaN where the first suffices.

    Jobs of which no peak was measured are placed as they asked, since nobody knows what they need.
    """

    first: np.ndarray
    second: np.ndarray

    def out_of_memory(self, rows: np.ndarray) -> int:
        """How many first attempts of these jobs end by their memory."""
        return int((~np.isnan(self.second[rows])).sum())

    def unmeasured(self, rows: np.ndarray) -> int:
        """How many of these jobs are placed as they asked."""
        return int(np.isnan(self.first[rows]).sum())


def plan_of(
    advised: np.ndarray, peak: np.ndarray, asked: np.ndarray, undecided: np.ndarray, share: np.ndarray
) -> MemoryPlan:
    """The plan of advised amounts (n,), MiB per node or processor; `share` (n,) makes of them MiB a processor.

    A job whose `peak` is known and above what was advised runs out and asks for its own request, where that suffices,
    else twice as much as often as it takes. One of unknown peak asks what it asked. One that ran out in the log
    (`undecided`) runs as it was recorded.

    >>> plan_of(*map(np.array, ([2.0, 2.0, 8.0], [3.0, 1.0, np.nan], [16.0, 16.0, 16.0], [False] * 3, [1.0] * 3)))
    MemoryPlan(first=array([ 2.,  2., nan]), second=array([16., nan, nan]))
    """
    measured = ~np.isnan(peak) & ~np.isnan(advised)
    short = measured & ~undecided & (peak > advised)
    doublings = np.ceil(np.log2(np.where(short, peak / advised, 2.0)) - 1e-12)
    again = np.where(asked >= peak, asked, advised * 2.0**doublings)
    first = np.where(measured, advised, np.nan) * share
    return MemoryPlan(first, np.where(short, again, np.nan) * share)


def with_second_attempts(requests: Sequence[NodeRequest], plan: MemoryPlan) -> list[NodeRequest]:
    """Requests keyed by their rows as the plan places them: an attempt that runs out fails, and another waits for that.

    The first attempt holds its nodes for the whole run time, which is the most it can cost.
    """
    first, second = plan.first.tolist(), plan.second.tolist()
    attempts = []
    for r in requests:
        row = int(r.key)
        if first[row] != first[row]:
            attempts.append(r)
            continue
        runs_out = second[row] == second[row]
        attempts.append(replace(r, mem_per_cpu=first[row], fails=r.fails or runs_out))
        if runs_out:
            again = (("afternotok", r.key),)
            attempts.append(replace(r, key=f"{r.key}{SECOND}", mem_per_cpu=second[row], depends=(*r.depends, *again)))
    return attempts


def has_room(machine: Machine, request: NodeRequest) -> bool:
    """Whether an empty partition has the memory that a request asks a processor, on as many processors.

    >>> from batchcast.cluster.machine import homogeneous
    >>> machine = homogeneous(2, 4, 1000.0)
    >>> [has_room(machine, NodeRequest("0", 0, 1, tasks=tasks, mem_per_cpu=500.0)) for tasks in (4, 5)]
    [True, False]
    """
    if not request.mem_per_cpu > 0:
        return True
    wanted = [machine.partition(name) for name in request.partitions or ("",)]
    return any(
        sum(
            min(float(group.cpus), group.memory_mib // request.mem_per_cpu) * len(set(group.names) & set(part.nodes))
            for group in machine.nodes
        )
        >= request.cpus
        for part in wanted
        if part is not None
    )


def row_of(request: NodeRequest) -> int:
    """The row in the log that an attempt belongs to."""
    return int(request.key.removesuffix(SECOND))


def is_superseded(requests: Sequence[NodeRequest], plan: MemoryPlan) -> np.ndarray:
    """Which attempts (n,) are first ones that ran out: their jobs' starts and ends are those of the second."""
    second = ~np.isnan(plan.second)
    return np.array([not r.key.endswith(SECOND) and bool(second[int(r.key)]) for r in requests], bool)
