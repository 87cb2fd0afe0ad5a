# SPDX-License-Identifier: Apache-2.0
"""Explains differences of recorded and simulated waits: divides the time between a job's recorded and simulated start
by cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ...events.recorded import outcome
from ...machines.machine import Machine
from ...table import Trace
from ..schedule import Schedule
from .caps import Queue, eligible, held_at, queue_of

SHORTER: Mapping[str, str] = {
    "explained": "the simulation has this waiting time too",
    "room": "there was room for all waiting jobs",
    "order": "overtaken by a later job that is no smaller and no shorter",
    "capacity": "the learned machine had room for the first waiting job, so the real machine had less room",
    "behind": "there was room for the job, but not for the first waiting job",
    "full": "the learned machine had no room: unexplained",
    "left out": "not simulated: the learned machine cannot run it",
    "hold": "the job was held, equally long in the log and in the simulation",
}
"""Causes of recorded waiting time; their times sum to the whole recorded waiting time."""
LONGER: Mapping[str, str] = {
    "more": "simulated too long: more jobs ran than the learned machine can run",
    "turn": "simulated too long: the job started before an earlier job that is no larger and no longer",
    "later": "simulated too long: unexplained",
}
"""Causes of waiting time that only the simulation has."""
KINDS = (*SHORTER, *LONGER)
BLOCK = 512


@dataclass(frozen=True, slots=True)
class Cause:
    """The waiting time of one cause: hours, core-hours, and the two amounts as shares of the recorded waiting time."""

    kind: str
    says: str
    wait_hours: float
    core_hours: float
    share: float
    core_share: float
    jobs: int

    def __str__(self) -> str:
        much = f"{self.share:.1%} of the recorded waiting time ({self.wait_hours:,.0f} h)"
        return f"{much} of the jobs that were not used for learning: {self.says}"


def wait_hours(trace: Trace, machine: Machine, schedule: Schedule, rest: np.ndarray, procs: str = "req") -> list[Cause]:
    """Return the recorded waiting time of the jobs in the mask `rest` (n,) by cause, and the time by which simulated
    waits are longer.

    The time before a job was eligible has the cause *hold*; `by_cause` defines the other causes. Partitions that share
    nodes are one queue; a job can overtake only jobs of its own partition.
    """
    procs = "alloc" if any(part.exclusive for part in machine.partitions) else procs
    size, (submit, _, _) = trace.procs(procs), outcome(trace)
    simulated = np.full(len(trace), np.nan)
    simulated[schedule.rows] = schedule.start_time
    codes, partition = partitions_of(trace)
    seconds = np.zeros((len(trace), len(KINDS)))
    for pool, capacity in pools_of(machine, codes):
        queue, rows = queue_of(trace, np.flatnonzero(np.isin(partition, pool)), procs, capacity)
        queue = eligible(trace, queue, rows)
        seconds[rows] = by_cause(queue, partition[rows], simulated[rows], rest[rows])
        seconds[rows, KINDS.index("hold")] = np.where(rest[rows], queue.submit - submit[rows], 0.0)
    hours, cores = seconds / 3600.0, seconds * np.nan_to_num(size)[:, None] / 3600.0
    whole, whole_cores = (part[:, : len(SHORTER)].sum() or np.nan for part in (hours, cores))
    causes = []
    for k, (kind, says) in enumerate({**SHORTER, **LONGER}.items()):
        one, core, jobs = float(hours[:, k].sum()), float(cores[:, k].sum()), int((seconds[:, k] > 0).sum())
        causes.append(Cause(kind, says, one, core, float(one / whole), float(core / whole_cores), jobs))
    return causes


def by_cause(queue: Queue, partition: np.ndarray, simulated: np.ndarray, judged: np.ndarray) -> np.ndarray:
    """Return the waiting time (n, causes) of each job in the mask `judged`, in seconds per cause, in the order of
    `KINDS`."""
    n = len(partition)
    seconds = np.zeros((n, len(KINDS)))
    begun, left = np.maximum(simulated, queue.submit), np.isnan(simulated)
    seconds[~left, 0] = (np.minimum(begun, queue.start) - queue.submit)[~left]
    seconds[left, KINDS.index("left out")] = (queue.start - queue.submit)[left]
    state = _State(queue)
    late, early = (np.flatnonzero(mask) for mask in (judged & (begun < queue.start), judged & (begun > queue.start)))
    first = _first_passed(queue, partition, late, begun)
    room = state.running + state.waiting <= queue.capacity
    idle = ~room & (state.running + state.head <= queue.capacity)
    a, b = begun[late], queue.start[late]
    seconds[late, 1] = state.between(room, a, b)
    seconds[late, 2] = (b - first) - state.between(room, first, b)
    seconds[late, 3] = state.between(idle, a, first)
    for size in np.unique(queue.size[late]).tolist():
        some = queue.size[late] == size
        fits = ~room & ~idle & (state.running + size <= queue.capacity)
        seconds[late[some], 4] = state.between(fits, a[some], first[some])
    seconds[late, 5] = np.maximum((b - a) - seconds[late, 1:5].sum(axis=1), 0.0)
    over = state.values_at(state.running, queue.start[early]) > queue.capacity
    turn = ~over & _before_turn(queue, partition, early)
    for kind, some in (("more", over), ("turn", turn), ("later", ~over & ~turn)):
        seconds[early[some], KINDS.index(kind)] = (begun - queue.start)[early[some]]
    seconds[~judged] = 0.0
    return seconds


class _State:
    """The state of the partition after each instant (m,): processors in use, processors that waiting jobs request, size
    of the first waiting job."""

    def __init__(self, queue: Queue) -> None:
        self.time = time = np.unique(np.concatenate([queue.submit, queue.start, queue.end]))
        order = np.argsort(queue.submit, kind="stable")
        first = np.searchsorted(np.maximum.accumulate(queue.start[order]), time, side="right")
        first = np.minimum(first, len(order) - 1)
        waits = (queue.submit[order][first] <= time) & (queue.start[order][first] > time)
        self.head = np.where(waits, queue.size[order][first], 0.0)
        self.running = held_at(queue.start, queue.end, queue.size, time)
        self.waiting = held_at(queue.submit, queue.start, queue.size, time)

    def between(self, when: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Return the number of seconds between each `begin` and `end` at which the mask `when` (m,) is true."""
        upto = np.concatenate([[0.0], np.cumsum(np.diff(self.time) * when[:-1])])
        return np.asarray(np.interp(end, self.time, upto) - np.interp(begin, self.time, upto))

    def values_at(self, values: np.ndarray, when: np.ndarray) -> np.ndarray:
        """Return the values of a variable of the partition's state at the instants `when`."""
        return np.asarray(values[np.searchsorted(self.time, when, side="right") - 1])


def _first_passed(queue: Queue, place: np.ndarray, rows: np.ndarray, begun: np.ndarray) -> np.ndarray:
    """Return when each job was first overtaken between its simulated and recorded start; else the recorded start."""

    def is_passing(later_jobs: np.ndarray, row: int) -> np.ndarray:
        return np.asarray(_comparable(queue, place, later_jobs, row) & (queue.submit[later_jobs] > queue.submit[row]))

    order = np.argsort(queue.start, kind="stable")
    starts = queue.start[order]
    first: np.ndarray = queue.start[rows].copy()
    low, high = np.searchsorted(starts, begun[rows]), np.searchsorted(starts, queue.start[rows])
    later = (order[a:b] for a, b in zip(low.tolist(), high.tolist()))
    for k, other in _first_matches(rows, later, is_passing):
        first[k] = queue.start[other]
    return first


def _first_matches(
    rows: np.ndarray, others: Iterable[np.ndarray], is_match: Callable[[np.ndarray, int], np.ndarray]
) -> Iterator[tuple[int, int]]:
    """Yield the position in `rows` of each job that matches one of its `others`, and the first of these."""
    for k, (row, some) in enumerate(zip(rows.tolist(), others, strict=True)):
        for begin in range(0, len(some), BLOCK):
            block = some[begin : begin + BLOCK]
            if len(found := np.flatnonzero(is_match(block, row))):
                yield k, int(block[found[0]])
                break


def _comparable(queue: Queue, place: np.ndarray, large: np.ndarray | int, small: np.ndarray | int) -> np.ndarray:
    """Return whether jobs `large` are in the same partition as jobs `small`, and are no smaller or shorter by their
    known limits."""
    longer = ~(queue.limit[large] < queue.limit[small])
    found: np.ndarray = (place[large] == place[small]) & (queue.size[large] >= queue.size[small]) & longer
    return found


def _before_turn(queue: Queue, place: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return whether each job started while an earlier job that was no larger or longer still waited."""

    def is_passed(earlier_jobs: np.ndarray, row: int) -> np.ndarray:
        return np.asarray(_comparable(queue, place, row, earlier_jobs) & (queue.start[earlier_jobs] > queue.start[row]))

    order = np.argsort(queue.submit, kind="stable")
    submits = queue.submit[order]
    low = np.searchsorted(np.maximum.accumulate(queue.start[order]), queue.start[rows], side="right")
    high = np.searchsorted(submits, queue.submit[rows])
    found = np.zeros(len(rows), bool)
    earlier = (order[a:b][::-1] for a, b in zip(low.tolist(), high.tolist()))
    found[[k for k, _ in _first_matches(rows, earlier, is_passed)]] = True
    return found


def partitions_of(trace: Trace) -> tuple[dict[str, int], np.ndarray]:
    """Return the codes of the log's partition names (empty: no partition), and the code of each job's partition
    (n,)."""
    names = ["" if name is None else str(name) for name in trace.nominal("partition_id").decode()]
    codes = {name: k for k, name in enumerate(dict.fromkeys(names))}
    return codes, np.array([codes[name] for name in names])


def pools_of(machine: Machine, codes: Mapping[str, int]) -> list[tuple[list[int], float]]:
    """Return groups of partitions that share nodes, as codes of the log's partition names, with their sizes."""
    cpus = {name: group.cpus for group in machine.nodes for name in group.names}
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
    default = next((p.name for p in machine.partitions if p.default), machine.partitions[0].name)
    alone, found = len(machine.partitions) == 1, []
    for nodes, names in pools:
        inside = [code for name, code in codes.items() if alone or (name or default) in names]
        found.append((inside, float(sum(cpus[name] for name in nodes))))
    return found
