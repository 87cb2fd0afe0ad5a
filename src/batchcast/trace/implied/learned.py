# SPDX-License-Identifier: Apache-2.0
"""A machine learned from a log: its size, caps, outages and holds, each with what speaks for it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...cluster.machine import Limits, Machine, Qos, Reservation
from ...errors import InputError
from ...events.recorded import outcome
from ...metrics.curves import cdf_distance, rank_correlation
from ...simulation.schedule import Schedule
from ...simulation.slurm_trace import simulate_on
from ...table import Trace
from ...units import span
from .caps import LEAST_JOBS, Cap, Queue, find_caps, steps
from .causes import Cause
from .holds import find_held, with_releases
from .machine import count_whole, machine_of_log, peak_procs

NAME = "learned from the log's record"
SHARE = 0.6
"""What is learned from; the rest judges."""
ARRIVAL = "arrival"
ORDERS = {
    ARRIVAL: {},
    "age and size": {
        "PriorityType": "priority/multifactor",
        "PriorityWeightAge": "10000",
        "PriorityWeightJobSize": "10000",
        "PriorityMaxAge": "7-00:00:00",
    },
}
SIZES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)
"""Of the most that ever ran at once: nodes are down, kept, or too few for what waits."""
WORTH = 0.05
FEW = 0.005
"""The share of jobs, the widest, that may be too wide for a usual day: they are left out, and counted."""
MOST_TRIED = 30_000
GROUPS = {"user": "user_id", "account": "account"}
OUTAGE_S = 4 * 3600.0
SOON_S = 3600.0
IDLE = 0.2  # share of the processors that may still run at the end of an outage
WHOLE_SHARE = 0.95  # of the jobs that ask for part of a node hold whole ones
SHARED = 0.9
"""Partitions share nodes where all together never held this share of what each held at its most."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that the record implies: where it stands in the machine's file, what, and what speaks for it."""

    table: str
    name: str
    says: str
    support: str

    def __str__(self) -> str:
        return f"{self.says}: {self.support}"


@dataclass(frozen=True, slots=True)
class Learned:
    """The machine, its evidence line by line, and which jobs (n,) were held for what the log does not say."""

    machine: Machine
    lines: tuple[Line, ...]
    held: np.ndarray

    def sentences(self) -> list[str]:
        """The evidence, all outages in one line: the machine's file has each."""
        told = [str(line) for line in self.lines if line.table != "reservation"]
        spans = [r.end - r.start for r in self.machine.reservations]
        outages = f"{len(spans)} outages, {span(sum(spans))} in all, the longest {span(max(spans))}" if spans else ""
        return [*told, *([outages] if outages else [])]


def learn_machine(trace: Trace, procs: str = "req") -> Learned:
    """What a log implies of the machine that it was recorded on.

    Size and nodes as `machine_of_log`; partitions that share nodes; whole nodes where jobs that ask for part of one
    hold all of it; caps for every user or account of a partition (`caps`); outages, four hours and more in which
    nothing started though several waited and had room; jobs held for what the log does not say (`holds`), which keep
    their recorded release. Nothing is fitted by a log's name.
    How much of the machine is there on a usual day (`SIZES`), then the order of the queue (`ORDERS`), are those whose
    simulated waits come nearest to the record: the whole machine by arrival unless another is nearer by a twentieth.
    InputError where no job tells its processors or its wait. O(n log n), and a simulation of the latest 30,000 jobs for
    each size and order.
    """
    if not (trace.wait_time >= 0).any():
        raise InputError(f"{trace.info.source}: no job tells how long it waited", hint="a log with starts, as sacct's")
    whole, held = _whole_nodes(trace), find_held(trace)
    asked, procs = procs, "alloc" if whole else procs
    machine, lines = _sharing(trace, machine_of_log(trace, procs), procs)
    lines += whole
    lines += [
        Line("partition", p.name, f"{p.name}: {len(p.nodes):,} nodes at its most", "what its jobs ever held at once")
        for p in machine.partitions
    ]
    names = trace.nominal("partition_id").decode()
    part = np.array([machine.partition("" if name is None else str(name)) is not None for name in names])
    classes, reservations = [Qos("learned")], list(machine.reservations)
    partitions = []
    for each in machine.partitions:
        each = replace(each, exclusive=bool(whole))
        alone = len(machine.partitions) == 1
        rows = np.flatnonzero(part & np.array([alone or str(name) == each.name for name in names]))
        queue, rows = _queue(trace, rows, procs, _size(machine, each.nodes))
        caps = find_caps(queue, _groups(trace, rows), held[rows]) if len(rows) else []
        everybody = [cap for cap in caps if not cap.name]
        if everybody:
            classes.append(Qos(f"cap-{each.name}", limits=_limits(everybody)))
            each = replace(each, qos=f"cap-{each.name}")
        lines += [_cap_line(cap, each.name, trace) for cap in caps]
        for k, (begin, end, waiting) in enumerate(outages(queue, held[rows])):
            name = f"outage-{each.name}-{k + 1}"
            reservations.append(Reservation(name, each.nodes, begin, end, users=("nobody",)))
            says = f"{each.name}: nothing started for {span(end - begin)} from second {begin:.0f}"
            lines.append(Line("reservation", name, says, f"{waiting} waiting jobs had room"))
        partitions.append(each)
    if held.any():
        users = len(np.unique(trace.nominal("user_id").codes[held]))
        lines.append(
            Line("", "", f"{int(held.sum()):,} jobs were held", f"of {users} users; like ones of theirs passed them")
        )
    settings = {**machine.settings, **({"AccountingStorageEnforce": "limits"} if len(classes) > 1 else {})}
    learned = replace(
        machine, name=NAME, partitions=tuple(partitions), qos=tuple(classes) if len(classes) > 1 else (),
        reservations=tuple(reservations), settings=settings,
    )  # fmt: skip
    learned, fitted = _fitted(learned, with_releases(trace, held), asked)
    return Learned(learned, (*lines, *fitted), held)


def split(trace: Trace, procs: str = "req", share: float = SHARE) -> tuple[Learned, Trace, np.ndarray]:
    """A machine learned from the first `share` of the jobs, the log with releases, and the other jobs (n,).

    Held jobs of the whole log keep their recorded release: the record of their own part tells it.
    """
    first = int(len(trace) * share)
    if not 0 < first < len(trace):
        raise InputError(f"{trace.info.source}: {len(trace)} jobs are too few to learn from and to judge by")
    return (
        learn_machine(trace.take(np.arange(first)), procs),
        with_releases(trace, find_held(trace)),
        np.arange(len(trace)) >= first,
    )


def _fitted(machine: Machine, trace: Trace, procs: str) -> tuple[Machine, list[Line]]:
    """The machine with the size, then the order, by which simulated waits come nearest to the record."""
    latest = trace.take(np.arange(max(len(trace) - MOST_TRIED, 0), len(trace)))

    def nearest(tried: dict[str, Machine], first: str) -> tuple[str, str]:
        apart = {name: _apart(latest, simulate_on(one, latest, procs=procs)) for name, one in tried.items()}
        best = min(apart, key=lambda name: apart[name] * (1.0 if name == first else 1.0 + WORTH))
        return best, ", ".join(f"{name} {value:.2f}" for name, value in apart.items())

    rule = "alloc" if machine.partitions[0].exclusive else procs
    widest = float(np.nanquantile(trace.procs(rule), 1.0 - FEW, method="higher"))
    sizes = {f"{share:.0%}": _part_of(machine, share, widest) for share in SIZES}
    size, by_size = nearest(sizes, f"{SIZES[0]:.0%}")
    machine = sizes[size]
    orders = {name: replace(machine, settings={**machine.settings, **words}) for name, words in ORDERS.items()}
    order, by_order = nearest(orders, ARRIVAL)
    apart = "simulated waits are this far from the record"
    lines = [
        Line("", "", f"{size} of the nodes are there on a usual day", f"{apart}: {by_size}"),
        Line("", "", f"the queue is taken by {order}", f"{apart}: {by_order}"),
    ]
    return orders[order], lines


def _part_of(machine: Machine, share: float, widest: float) -> Machine:
    """The machine with a share of each partition's nodes, and no fewer than a job of that width needs."""

    def kept(nodes: tuple[str, ...]) -> tuple[str, ...]:
        each = _size(machine, nodes) / len(nodes)
        return nodes[: min(max(round(share * len(nodes)), math.ceil(widest / each), 1), len(nodes))]

    partitions = tuple(replace(p, nodes=kept(p.nodes)) for p in machine.partitions)
    there = {name for p in partitions for name in p.nodes}
    left = [replace(g, names=tuple(name for name in g.names if name in there)) for g in machine.nodes]
    reservations = tuple(
        replace(r, nodes=tuple(name for name in r.nodes if name in there)) for r in machine.reservations
    )
    groups = tuple(group for group in left if group.names)
    return replace(machine, nodes=groups, partitions=partitions, reservations=reservations)


def _apart(trace: Trace, schedule: Schedule) -> float:
    """How far simulated waits are from the record: their distributions, means and ranks; 0 is equal."""
    recorded, simulated = trace.wait_time[schedule.rows], schedule.wait_time
    known = recorded >= 0
    one, two = recorded[known], simulated[known]
    ratio = abs(math.log((one.mean() + 60.0) / (two.mean() + 60.0)))
    rank = rank_correlation(one, two)
    return cdf_distance(one, two) + 0.5 * ratio + 0.5 * (1.0 - (rank if rank == rank else 0.0))


def outages(queue: Queue, held: np.ndarray) -> list[tuple[float, float, int]]:
    """Stretches of four hours and more without a start in which the machine ran empty though three jobs had room.

    They started within the hour after it: it was the machine that came back.

    Begin and end, seconds on the log's clock, and how many waited through it. Where much still runs at its end, nodes
    may have been kept free for a wide job.
    """
    starts = np.unique(queue.start)
    long = np.flatnonzero(np.diff(starts) >= OUTAGE_S)
    if not len(long):
        return []
    time, running = steps(queue.start, queue.end, queue.size)
    found = []
    for k in long.tolist():
        begin, end = float(starts[k]), float(starts[k + 1])
        through = (queue.submit <= begin) & (queue.start >= end) & ~held
        first = int(np.searchsorted(time, begin, side="right")) - 1
        most = float(running[first : int(np.searchsorted(time, end))].max(initial=0.0))
        left = float(running[int(np.searchsorted(time, end)) - 1])
        soon = queue.start <= end + SOON_S  # what goes on waiting is held for something else
        roomy = through & soon & (queue.size + most <= queue.capacity)
        if roomy.sum() >= 3 and left <= IDLE * queue.capacity:
            found.append((begin, end, int(roomy.sum())))
    return found


def commented(text: str, lines: Sequence[Line | Cause]) -> str:
    """The machine's file with each line's evidence above what it speaks for, what is of no line above all."""
    rows, head = text.splitlines(), []
    for line in lines:
        if isinstance(line, Cause):
            head.append(f"# {line}")
            continue
        at = [f"[[{line.table}]]", f"name = {json.dumps(line.name)}"]
        place = next((k for k in range(len(rows) - 1) if rows[k : k + 2] == at), None)
        if place is None:
            head.append(f"# {line}")
        else:
            rows.insert(place, f"# {line}")
    return "\n".join([*head, *rows]) + "\n"


def _whole_nodes(trace: Trace) -> list[Line]:
    """What says that a job gets whole nodes however few processors it asks for; empty where the record does not."""
    yes, no = count_whole(trace)
    if yes < LEAST_JOBS or yes < WHOLE_SHARE * (yes + no):
        return []
    return [
        Line("", "", "jobs get whole nodes", f"{yes:,} jobs that ask for part of a node hold all of it, {no:,} do not")
    ]


def _sharing(trace: Trace, machine: Machine, procs: str) -> tuple[Machine, list[Line]]:
    """Partitions on the same nodes where together they never held what each held alone."""
    if len(machine.partitions) < 2 or len({group.cpus for group in machine.nodes}) > 1:
        return machine, []
    peak, apart = peak_procs(trace, procs), float(machine.cpus)
    if not peak < SHARED * apart:
        return machine, []
    cpus = machine.nodes[0].cpus
    count = max(int(np.ceil(peak / cpus)), max(len(p.nodes) for p in machine.partitions))
    names = tuple(f"node-{k + 1}" for k in range(count))
    partitions = tuple(replace(p, nodes=names[: len(p.nodes)]) for p in machine.partitions)
    says = f"partitions share {count:,} nodes of {cpus} processors"
    support = f"all jobs together held {peak:,.0f} processors at most, the partitions' own peaks add up to {apart:,.0f}"
    shared = replace(machine, nodes=(replace(machine.nodes[0], names=names),), partitions=partitions)
    return shared, [Line("nodes", "", says, support)]


def _size(machine: Machine, nodes: Sequence[str]) -> float:
    inside = set(nodes)
    return float(sum(group.cpus * sum(name in inside for name in group.names) for group in machine.nodes))


def _queue(trace: Trace, rows: np.ndarray, procs: str, capacity: float) -> tuple[Queue, np.ndarray]:
    """The jobs of `rows` that ran and whose size and wait are known, and their rows."""
    submit, wait, run = (column[rows] for column in outcome(trace))
    size = trace.procs(procs)[rows]
    ran = (run > 0) & (size > 0) & (trace.wait_time[rows] >= 0)
    submit, start = submit[ran], (submit + wait)[ran]
    return Queue(submit, start, start + run[ran], size[ran], trace.req_time[rows][ran], capacity), rows[ran]


def _groups(trace: Trace, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Codes of the users and accounts of the jobs, where the log has them."""
    found = {}
    for name, column in GROUPS.items():
        codes = trace.nominal(column).codes[rows].astype(np.int64)
        if len(np.unique(codes[codes >= 0])) >= 2:
            found[name] = codes
    return found


def _limits(caps: Sequence[Cap]) -> Limits:
    """The caps for everybody as a QOS has them."""
    by = {(cap.of, cap.what): cap.value for cap in caps}
    cpus = {of: {"cpu": by[of, "cpu"]} for of in GROUPS if (of, "cpu") in by}
    return Limits(
        max_jobs_per_user=by.get(("user", "jobs"), math.inf),
        max_jobs_per_account=by.get(("account", "jobs"), math.inf),
        max_tres_per_user=cpus.get("user", {}),
        max_tres_per_account=cpus.get("account", {}),
    )


def _cap_line(cap: Cap, partition: str, trace: Trace) -> Line:
    unit = "processors" if cap.what == "cpu" else "jobs"
    above = f", {cap.above} held more" if cap.above else ""
    support = f"{cap.jobs:,} jobs of {cap.groups} {cap.of}s waited above it with room, {cap.against:,} below it{above}"
    if cap.name:
        category = trace.nominal(GROUPS[cap.of]).categories[int(cap.name)]
        return Line("", "", f"{cap.of} {category} alone stands at {cap.value:g} {unit} in {partition}", support)
    return Line("qos", f"cap-{partition}", f"at most {cap.value:g} {unit} a {cap.of} in {partition}", support)
