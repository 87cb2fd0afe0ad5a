# SPDX-License-Identifier: Apache-2.0
"""A log's jobs by the nodes that they share: partitions with nodes in common are one pool, and wait in one queue."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...cluster.machine import Machine, Partition
from ...events.recorded import outcome
from ...table import Trace


@dataclass(frozen=True, slots=True)
class Queue:
    """Jobs that ran and share a capacity: instants in seconds, sizes, limits (NaN: none), (n,) each; its processors."""

    submit: np.ndarray
    start: np.ndarray
    end: np.ndarray
    size: np.ndarray
    limit: np.ndarray
    capacity: float


@dataclass(frozen=True, slots=True)
class Pool:
    """Partitions that share nodes, as a machine of their own, and the rows of the log's jobs in them."""

    machine: Machine
    rows: np.ndarray

    @property
    def name(self) -> str:
        return ", ".join(part.name for part in self.machine.partitions)


def pools_of(trace: Trace, machine: Machine) -> list[Pool]:
    """The machine's pools; jobs that name no partition are in the default one, all are where there is but one.

    >>> from batchcast.cluster.machine import NodeGroup, Partition
    >>> nodes = NodeGroup(("a", "b", "c"), 4)
    >>> parts = (Partition("x", ("a",)), Partition("y", ("a", "b")), Partition("z", ("c",), default=True))
    >>> log = Trace.from_arrays({"submit_time": [0, 1, 2], "partition_id": ["x", "y", None]})
    >>> [(pool.name, pool.machine.cpus, pool.rows.tolist()) for pool in pools_of(log, Machine((nodes,), parts))]
    [('x, y', 8, [0, 1]), ('z', 4, [2])]
    """
    pools: list[tuple[set[str], set[str]]] = []
    for part in machine.partitions:
        nodes, names = set(part.nodes), {part.name}
        apart = []
        for pool in pools:
            if pool[0] & nodes:
                nodes, names = nodes | pool[0], names | pool[1]
            else:
                apart.append(pool)
        pools = [*apart, (nodes, names)]
    return [Pool(_only(machine, names, nodes), _rows(trace, machine, names)) for nodes, names in pools]


def partition_of(trace: Trace, machine: Machine, part: Partition) -> Pool:
    """One partition alone."""
    return Pool(_only(machine, (part.name,), part.nodes), _rows(trace, machine, (part.name,)))


def _rows(trace: Trace, machine: Machine, names: Collection[str]) -> np.ndarray:
    """The rows of the jobs in these partitions."""
    if len(machine.partitions) == 1:
        return np.arange(len(trace))
    default = next((p.name for p in machine.partitions if p.default), machine.partitions[0].name)
    own = trace.nominal("partition_id").decode()
    return np.array([k for k, name in enumerate(own) if (default if name is None else str(name)) in names], np.int64)


def _only(machine: Machine, names: Collection[str], nodes: Collection[str]) -> Machine:
    """The machine with some of its partitions, and their nodes."""
    groups = (replace(g, names=tuple(name for name in g.names if name in nodes)) for g in machine.nodes)
    return replace(
        machine,
        nodes=tuple(group for group in groups if group.names),
        partitions=tuple(part for part in machine.partitions if part.name in names),
        reservations=tuple(r for r in machine.reservations if set(r.nodes) & set(nodes)),
    )


def joined(machine: Machine, parts: Sequence[Machine]) -> Machine:
    """The machine made of its pools again."""
    return replace(
        machine,
        nodes=tuple(group for part in parts for group in part.nodes),
        partitions=tuple(each for part in parts for each in part.partitions),
        reservations=tuple(each for part in parts for each in part.reservations),
    )


def queue_of(trace: Trace, machine: Machine, rows: np.ndarray, procs: str) -> tuple[Queue, np.ndarray]:
    """Those of the jobs in `rows` that ran and whose size and wait are known, from when they were eligible; their rows.

    On a machine that gives whole nodes a job counts as what it held, else by the rule `procs`. The capacity is the
    machine's.
    """
    submit, wait, run = (column[rows] for column in outcome(trace))
    size = trace.procs("alloc" if machine.partitions[0].exclusive else procs)[rows]
    ran = (run > 0) & (size > 0) & (trace.wait_time[rows] >= 0)
    start = (submit + wait)[ran]
    eligible = np.minimum(np.fmax(submit, trace.number("eligible_time")[rows])[ran], start)
    limit = trace.req_time[rows][ran]
    return Queue(eligible, start, start + run[ran], size[ran], limit, float(machine.cpus)), rows[ran]


def steps(start: np.ndarray, end: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Instants at which something changes, in order, and what is held from each on; ends before starts."""
    time = np.concatenate([start, end])
    change = np.concatenate([size, -size])
    order = np.lexsort((change, time))
    return time[order], np.cumsum(change[order])
