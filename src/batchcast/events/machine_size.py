# SPDX-License-Identifier: Apache-2.0
"""Estimates the machine of a log from the jobs that ran at the same time: the number of processors, or a full machine
description."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import InputError
from ..table import Trace
from ..table.memory import units_of
from .recorded import outcome

if TYPE_CHECKING:
    from ..machines.machine import Machine, NodeGroup, Partition


def peak_procs(trace: Trace, rule: str = "alloc") -> float:
    """Return the largest number of processors that recorded jobs used at the same time; NaN if no job has run time and
    processors.

    Starts and ends are computed as in a replay (a job without a wait starts at its submission). At one instant, ends
    are counted before starts, so that two jobs which use the same processors one after the other do not overlap. O(n
    log n).

    >>> log = Trace.from_arrays({"submit_time": [0, 5, 10], "run_time": [10, 10, 5], "alloc_procs": [4, 2, 4]})
    >>> peak_procs(log)
    6.0
    """
    return in_use(trace, trace.procs(rule)).peak


class InUse(NamedTuple):
    """An amount that recorded jobs used: the instants at which jobs start or end, ascending, and the amount in use from
    each instant on.

    >>> log = Trace.from_arrays({"submit_time": [0, 5, 10], "run_time": [10, 10, 5], "alloc_procs": [4, 2, 4]})
    >>> used = in_use(log, log.procs("alloc")); used.share_over(4.0), used.share_over(6.0)
    (0.25, 0.0)
    """

    time: np.ndarray
    held: np.ndarray

    @property
    def peak(self) -> float:
        """The largest amount in use at one instant; NaN if there are no jobs."""
        return float(self.held.max()) if len(self.held) else float("nan")

    def share_over(self, size: float) -> float:
        """Return the share of the use that exceeds `size`; 0 if there are no jobs."""
        held, length = self.held[:-1], np.diff(self.time)
        whole = float((held * length).sum())
        return float((np.maximum(held - size, 0.0) * length).sum()) / whole if whole > 0 else 0.0


def in_use(trace: Trace, size: np.ndarray) -> InUse:
    """Return the amount in use over the time of a log; each job uses its amount in `size` (n,)."""
    submit, wait, run = outcome(trace)
    ran = (run > 0) & (size > 0)
    start = (submit + wait)[ran]
    return InUse(*steps(start, start + run[ran], size[ran]))


def steps(start: np.ndarray, end: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the instants of starts and ends in order, and the use after each instant; at equal instants, ends come
    before starts."""
    time = np.concatenate([start, end])
    change = np.concatenate([size, -size])
    order = np.lexsort((change, time))
    return time[order], np.cumsum(change[order])


def partition_sizes(trace: Trace, rule: str = "req") -> dict[int | str, tuple[float, str]]:
    """Return the number of processors of each partition of a log and the source of the number, by partition id.

    A log header's MaxProcs may list the processors of the partitions in parentheses, in the order of its Partition
    lines (`1664 (72, 1368, 224)`). Without this header line, a partition has the largest number of processors that its
    jobs used at the same time. A partition is at least as large as its widest job.

    >>> ran = {"submit_time": [0, 5], "run_time": [9, 9], "alloc_procs": [4, 2]}
    >>> partition_sizes(Trace.from_arrays({**ran, "partition_id": [1, 2]}))
    {1: (4.0, 'most used at once'), 2: (2.0, 'most used at once')}
    """
    partition, width = trace.nominal("partition_id"), np.nan_to_num(trace.procs(rule))
    listed = re.search(r"\(([\d,\s]+)\)", trace.info.header.get("MaxProcs", ""))
    listed_sizes = [float(word) for word in listed[1].split(",") if word.strip()] if listed else []
    named = list(trace.info.names.get("partition_id", {}))
    header = dict(zip(named, listed_sizes)) if len(named) == len(listed_sizes) else {}
    sizes: dict[int | str, tuple[float, str]] = {}
    for code, name in enumerate(partition.categories):
        rows = np.flatnonzero(partition.codes == code)
        if not len(rows):
            continue
        known = (header[name], "header") if name in header else (peak_procs(trace.take(rows)), "most used at once")
        widest = float(width[rows].max())
        sizes[name] = known if known[0] >= widest else (widest, "widest job")
    return sizes


SOURCE = "made from the log: sizes from its header, else the most processors held at once"
LEARNED = "learned from the log's record"
STATED = "--procs-total"
"""Value of `LogInfo.max_procs_source` if the caller has given the machine's size."""
WIDER = 0.01
"""Largest share of core-hours in jobs that use more processors per node than the estimated size of a node."""
WHOLE_SHARE = 0.9
"""Smallest share of core-hours in jobs that use a whole number of nodes, if the log has no nodes."""
LARGEST_NODE = 256


def machine_of_log(trace: Trace, rule: str = "req") -> Machine:
    """Return a machine with equal nodes in each partition, with as many processors as the partition's jobs used at the
    same time.

    A machine with one partition has the known number of processors (`trace.info.max_procs`). Partitions do not share
    nodes, unless the number of processors given by the caller is smaller than the sum over the partitions.

    The processors per node follow from the log header (SWF's MaxProcs and MaxNodes) if it has them. Without this
    header, the processors per node are the largest number of processors per node that a job used, apart from the widest
    jobs (at most the share `WIDER` of the core-hours). If the log has no node counts, they are the largest number of
    which jobs with the share `WHOLE_SHARE` of the core-hours request a multiple.

    Memory, GPUs and limits are unknown and do not restrict jobs; the settings are Slurm's defaults with backfill.
    Raises InputError if no job has a known number of processors. O(n log n).

    >>> log = Trace.from_arrays({"submit_time": [0, 1], "run_time": [9, 9], "req_procs": [32, 16], "req_nodes": [2, 1]})
    >>> machine = machine_of_log(log)
    >>> machine.cpus, machine.nodes[0].cpus
    (48, 16)
    """
    from ..machines.machine import Machine, NodeGroup, Partition

    sizes = {str(name): size for name, (size, _) in partition_sizes(trace, rule).items() if size > 0}
    if len(sizes) <= 1:
        known = trace.info.max_procs if trace.info.max_procs > 0 else peak_procs(trace, rule)
        if not known > 0:
            raise InputError(
                f"{trace.info.source}: no job has a number of processors",
                hint="batchcast machine capture -o machine.toml",
            )
        sizes = {next(iter(sizes), "all"): known}
    names = trace.nominal("partition_id").decode()
    own = np.array(["all" if name is None else str(name) for name in names], dtype=object)
    if len(sizes) == 1:
        own[:] = next(iter(sizes))
    groups, partitions = [], []
    largest = max(sizes, key=lambda name: sizes[name])
    for name, size in sizes.items():
        cpus = _of_header(trace) or _node_size(trace.take(np.flatnonzero(own == name)), rule)
        nodes = tuple(f"{name}-{k + 1}" for k in range(math.ceil(size / cpus)))
        groups.append(NodeGroup(nodes, cpus))
        partitions.append(Partition(name, nodes, default=name == largest))
    stated = trace.info.max_procs if trace.info.max_procs_source == STATED else math.inf
    if len(sizes) > 1 and sum(sizes.values()) > stated:
        return _on_shared_nodes(groups, partitions, stated)
    return Machine(tuple(groups), tuple(partitions), settings={"SchedulerType": "sched/backfill"}, name=SOURCE)


def _on_shared_nodes(groups: list[NodeGroup], partitions: list[Partition], total: float) -> Machine:
    """Return a machine of `total` processors; each partition has as many of the first nodes as the partition needs."""
    from ..machines.machine import Machine, NodeGroup

    cpus = max(group.cpus for group in groups)
    names = tuple(f"node-{k + 1}" for k in range(math.ceil(total / cpus)))
    own = [math.ceil(len(group.names) * group.cpus / cpus) for group in groups]
    shared = tuple(replace(part, nodes=names[:count]) for part, count in zip(partitions, own))
    return Machine((NodeGroup(names, cpus),), shared, settings={"SchedulerType": "sched/backfill"}, name=SOURCE)


def with_gpus(machine: Machine, trace: Trace) -> Machine:
    """Return the machine with the GPUs that each partition's jobs used at the same time, if the log has GPU requests.

    The number of GPUs per node is the largest number that jobs use per node, apart from the jobs with the most GPUs per
    node (at most the share `WIDER` of the GPU-hours). As many nodes have GPUs as are needed for the largest number in
    use. If the log has no node counts, all nodes of the partition have the same number of GPUs. Partitions that share
    nodes share GPUs. O(n log n).

    >>> log = Trace.from_arrays({"submit_time": [0, 0, 9], "run_time": [9, 9, 9], "req_procs": [16] * 3,
    ...                          "req_nodes": [1] * 3, "req_gpus": [0, 4, 2]})
    >>> [(len(group.names), dict(group.gres)) for group in with_gpus(machine_of_log(log), log).nodes]
    [(1, {'gpu': 4}), (1, {})]
    """
    gpus = np.nan_to_num(trace.number("req_gpus"))
    has: dict[str, int] = {}
    for part in machine.partitions:
        rows = rows_of(trace, machine, part)
        rows = rows[gpus[rows] > 0]
        if len(rows):
            held = in_use(trace.take(rows), gpus[rows]).held.max(initial=0.0)
            each = max(_most_each(trace.take(rows), gpus[rows]), math.ceil(held / len(part.nodes)))
            for k, name in enumerate(part.nodes):
                has[name] = max(has.get(name, 0), min(each, math.ceil(held) - k * each), 0)
    if not has:
        return machine
    groups = []
    for group in machine.nodes:
        for count in sorted({has.get(name, 0) for name in group.names}, reverse=True):
            some = tuple(name for name in group.names if has.get(name, 0) == count)
            mixed = count > 0 and len(some) < len(group.names)
            groups.append(replace(group, names=some, gres={"gpu": count} if count else {}, weight=2 if mixed else 1))
    return replace(machine, nodes=tuple(groups))


def rows_of(trace: Trace, machine: Machine, part: Partition) -> np.ndarray:
    """Return the rows of the jobs of a partition; a machine with one partition runs all jobs."""
    if len(machine.partitions) == 1:
        return np.arange(len(trace))
    partition = trace.nominal("partition_id")
    codes = [code for code, name in enumerate(partition.categories) if str(name) == part.name]
    return np.flatnonzero(np.isin(partition.codes, codes))


def _most_each(trace: Trace, amount: np.ndarray) -> int:
    """Return the largest amount per node of jobs that use `amount` (n,), apart from the jobs with the largest amounts
    per node (at most the share `WIDER` of the total work); 0 if too few jobs have known nodes."""
    nodes = units_of(trace, "node", "alloc")
    work = np.nan_to_num(amount * trace.run_time)
    known = (nodes >= 1) & (amount > 0)
    if not work[known].sum() > 0.5 * work.sum():
        return 0
    each, work = np.ceil(amount[known] / nodes[known]), work[known]
    order = np.argsort(-each, kind="stable")
    beyond = np.cumsum(work[order]) > WIDER * work.sum()
    return max(int(each[order][np.flatnonzero(beyond)[0]]), 1)


def count_whole(trace: Trace) -> tuple[int, int]:
    """Of the jobs that request part of a node, count the jobs that get whole nodes and the other jobs; (0, 0) if
    unknown.

    The size of a node is estimated from the allocated processors (`machine_of_log`). O(n log n).

    >>> log = Trace.from_arrays({"submit_time": [0, 9, 9], "run_time": [9] * 3, "req_procs": [1, 2, 40],
    ...                          "alloc_procs": [40] * 3, "req_nodes": [1] * 3})
    >>> count_whole(log)
    (2, 0)
    """
    asked, got = trace.number("req_procs"), trace.number("alloc_procs")
    if not ((asked >= 1) & (got >= 1)).any():
        return 0, 0
    cpus = max(group.cpus for group in machine_of_log(trace, "alloc").nodes)
    part = (asked >= 1) & (got >= 1) & (asked % cpus > 0) & (cpus > 1)
    whole = part & (got % cpus == 0)
    return int(whole.sum()), int((part & ~whole).sum())


def _of_header(trace: Trace) -> int:
    """Return the processors per node, MaxProcs / MaxNodes of the log header; 0 if the quotient is not a whole
    number."""
    found = [re.match(r"\s*(\d+)", trace.info.header.get(name, "")) for name in ("MaxProcs", "MaxNodes")]
    procs, nodes = (int(match[1]) if match else 0 for match in found)
    return procs // nodes if nodes > 0 and procs % nodes == 0 else 0


def _node_size(trace: Trace, rule: str) -> int:
    """Return the processors per node, estimated from the jobs of a partition (see `machine_of_log`)."""
    procs = trace.procs(rule)
    if each := _most_each(trace, procs):
        return each
    sized = procs >= 1
    procs, work = procs[sized], np.nan_to_num(procs * trace.run_time)[sized]
    least = WHOLE_SHARE * work.sum()
    return next((cpus for cpus in range(LARGEST_NODE, 1, -1) if work[procs % cpus == 0].sum() >= least > 0), 1)
