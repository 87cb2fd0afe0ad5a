# SPDX-License-Identifier: Apache-2.0
"""Learns a machine from a log: size, caps, outages, held jobs and queue order, each with its evidence."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...errors import InputError
from ...events.machine_size import LEARNED, count_whole, machine_of_log, peak_procs, rows_of, with_gpus
from ...machines.machine import Machine, Partition, Qos, Reservation
from ...table import Trace
from ...units import span
from .caps import Cap, Queue, eligible, find_caps, find_held, limits_of, queue_of, with_releases
from .causes import Cause, partitions_of, pools_of
from .fit import WEEK_S, Closed, closed_hours, kept_until, nearest, outages, parts_of, size_of, with_intervals
from .order import LEAST_PAIRS, SIZE, USE, Factor, Order, learn_order, siblings, with_order

SHARE = 0.6
"""Share of the jobs from which the machine is learned; the other jobs test the machine."""
GROUPS = {"user": "user_id", "account": "account"}
UNITS = {"cpu": "processors", "jobs": "jobs", "gpu": "GPUs"}
CLASSES = ("qos", "queue_id", "partition_id")
LEAST_WHOLE = 20  # number of jobs
UNREAD = {"partition": "partition_id", "queue": "queue_id", "user": "user_id"}
"""Columns of a CSV from which a machine could be learned if a map declared them."""
WHOLE_SHARE = 0.95  # minimum share that must get whole nodes, of the jobs that request part of a node
SHARED = 0.9
"""Partitions share nodes if their total use never reached this share of the sum of their peaks."""


@dataclass(frozen=True, slots=True)
class Line:
    """One learned fact: its table and name in the machine's TOML file, its value, and its evidence."""

    table: str
    name: str
    says: str
    support: str

    def __str__(self) -> str:
        return f"{self.says}: {self.support}"


@dataclass(frozen=True, slots=True)
class Learned:
    """A learned machine, its evidence line by line, and a mask (n,) of jobs held for reasons not in the log."""

    machine: Machine
    lines: tuple[Line, ...]
    is_held: np.ndarray

    def sentences(self) -> list[str]:
        """Return the evidence, with all outages in one line, because the machine's file lists each outage."""
        lines = [str(line) for line in self.lines if not line.name.startswith("outage-")]
        return [*lines, *self._outages()]

    def in_short(self) -> str:
        """Return a short text about what was learned, without the evidence."""
        lines = [line.says for line in self.lines if not line.name.startswith("outage-")]
        return f"The machine was learned from the log's first part. {'; '.join([*lines, *self._outages()])}."

    def _outages(self) -> list[str]:
        spans = [r.end - r.start for r in self.machine.reservations if not r.every]
        return [f"{len(spans)} outages, {span(sum(spans))} in all, the longest {span(max(spans))}"] if spans else []


def learn_machine(trace: Trace, procs: str = "req") -> Learned:
    """Learn the machine on which a log was recorded.

    The function learns size and nodes as in `machine_of_log`; which partitions share nodes; whether jobs that request
    part of a node get the whole node; caps on all users or accounts of a partition (`caps`); outages (four hours or
    more without a start although several jobs waited and had room); and jobs held for reasons not in the log, which
    keep their recorded release. The result does not depend on the name of the log.

    Pairs of comparable jobs support a queue order (module `order`). Simulated waits then decide which share of the
    nodes is usable on a usual day, how often the queue is scheduled (`fit`), and whether the queue order is used. The
    defaults are the whole machine, Slurm's usual interval and arrival order; an alternative replaces a default if the
    distance of its simulated waits from the log is smaller by a twentieth.

    Raises InputError if no job has a number of processors or a wait. Learning takes O(n log n) time, plus a simulation
    of the latest 30,000 jobs per machine size and queue order.
    """
    if not (trace.wait_time >= 0).any():
        what = f"{trace.info.source}: no job has a recorded wait"
        raise InputError(what, hint="a log with start times, such as one from sacct")
    found = implied(trace, procs)
    rule = "alloc" if found.machine.partitions[0].exclusive else procs
    learned, fitted = _fitted(found.machine, with_releases(trace, found.is_held), rule, procs)
    return Learned(learned, (*found.lines, *fitted), found.is_held)


def implied(trace: Trace, procs: str = "req") -> Learned:
    """Return what the log itself shows about the machine: all but the usable size, the scheduling interval and the
    queue order."""
    whole, held = _whole_nodes(trace), find_held(trace)
    procs = "alloc" if whole else procs
    machine, lines = _sharing(trace, machine_of_log(trace, procs), procs)
    machine = with_gpus(machine, trace)
    lines += [*whole, *_gpu_lines(machine), *_unread(trace)]
    for p in machine.partitions:
        says = f"{p.name}: {len(p.nodes):,} nodes at most"
        lines.append(Line("partition", p.name, says, "the largest simultaneous use of its jobs"))
    classes, reservations = [Qos("learned")], list(machine.reservations)
    partitions = []
    for each in machine.partitions:
        each = replace(each, exclusive=bool(whole))
        queue, rows = _of_partition(trace, machine, each, procs)
        caps = find_caps(queue, _groups(trace, rows), held[rows]) if len(rows) else []
        everybody = [cap for cap in caps if not cap.name]
        if everybody:
            classes.append(Qos(f"cap-{each.name}", limits=limits_of(everybody)))
            each = replace(each, qos=f"cap-{each.name}")
        lines += [_cap_line(cap, each.name, trace) for cap in caps]
        for k, (begin, end, waiting) in enumerate(outages(queue, held[rows])):
            name = f"outage-{each.name}-{k + 1}"
            reservations.append(Reservation(name, each.nodes, begin, end, users=("nobody",)))
            says = f"{each.name}: nothing started for {span(end - begin)} from second {begin:.0f}"
            lines.append(Line("reservation", name, says, f"{waiting} waiting jobs had room"))
        partitions.append(each)
        closed = _closed(trace, queue, rows, each)
        reservations += [kept for kept, _ in closed]
        lines += [line for _, line in closed]
    if held.any():
        users = len(np.unique(trace.nominal("user_id").codes[held]))
        support = f"of {users} users; similar later jobs of these users overtook them"
        lines.append(Line("", "", f"{int(held.sum()):,} jobs were held", support))
    learned = replace(machine, name=LEARNED, partitions=tuple(partitions), reservations=tuple(reservations))
    if len(classes) > 1:
        settings = {**machine.settings, "AccountingStorageEnforce": "limits"}
        learned = replace(learned, qos=tuple(classes), settings=settings)
    return Learned(learned, tuple(lines), held)


def _closed(trace: Trace, queue: Queue, rows: np.ndarray, partition: Partition) -> list[tuple[Reservation, Line]]:
    """Return the weekly hours without long jobs on a partition, as reservations that short jobs may use."""
    if not len(rows):
        return []
    queue = eligible(trace, queue, rows)
    found = closed_hours(queue)
    until = kept_until(queue, found)
    first = math.floor(float(queue.submit.min()) / WEEK_S) * WEEK_S
    made = []
    for k, each in enumerate(found):
        name = f"closed-{partition.name}-{k + 1}"
        begin, end = first + each.begin - WEEK_S, first + each.end - WEEK_S
        kept = Reservation(name, partition.nodes, begin, end, ("nobody",), (), ("WEEKLY",), each.limit, until)
        says = f"{partition.name}: no job over {span(each.limit)} for {span(end - begin)} of each week"
        support = f"in {each.weeks:,} hours such jobs waited and none ran, in {each.against:,} one ran"
        made.append((kept, Line("reservation", name, says, support)))
    return made


def _fitted(machine: Machine, trace: Trace, procs: str, asked: str) -> tuple[Machine, list[Line]]:
    """Return the machine with the usable size, scheduling interval and queue order whose simulated waits are closest to
    the log."""
    sizes = parts_of(machine, trace, asked)
    size, by_size = nearest(sizes, trace, asked)
    intervals = with_intervals(sizes[size])
    interval, by_interval = nearest(intervals, trace, asked)
    machine = intervals[interval]
    lines = [
        Line("", "", f"{size} of the nodes are available on a usual day", by_size),
        Line("settings", "bf_interval", f"the scheduler checks the queue {interval}", by_interval),
    ]
    order, by = _order(trace, machine, procs)
    if not order.factors:
        known = f"{order.first_come:.0%} of {order.pairs:,} pairs start in this order, and no weight predicts more"
        nobody = (trace.nominal("user_id").codes < 0).all()
        why = "the log has no users, which comparing pairs of jobs requires" if nobody else "too few to decide"
        support = known if order.pairs >= LEAST_PAIRS else f"{order.pairs:,} pairs of comparable jobs: {why}"
        return machine, [*lines, Line("", "", "the queue is taken by arrival", support)]
    tried = {"by arrival": machine, "by these weights": with_order(machine, order, by, _people(trace))}
    chosen, why = nearest(tried, trace, asked)
    right = f"{order.right:.0%} of {order.pairs:,} pairs start by these weights, {order.first_come:.0%} by arrival"
    if chosen == "by arrival":
        return tried[chosen], [*lines, Line("", "", "the queue is taken by arrival", f"{right}, but {why}")]
    lines.append(Line("settings", "PriorityType", "the queue is not taken by arrival alone", f"{right}; {why}"))
    return tried[chosen], [*lines, *(_factor_line(factor, by) for factor in order.factors)]


def _order(trace: Trace, machine: Machine, procs: str) -> tuple[Order, str]:
    """Return the queue order of the partitions with the most pairs of comparable jobs, and the log's column with its
    classes."""
    codes, place = partitions_of(trace)
    orders = []
    for pool, capacity in pools_of(machine, codes):
        queue, rows = queue_of(trace, np.flatnonzero(np.isin(place, pool)), procs, capacity)
        by = next((name for name in CLASSES if len(np.unique(trace.nominal(name).codes[rows])) >= 2), CLASSES[-1])
        classes, users = trace.nominal(by), trace.nominal("user_id").codes[rows].astype(np.int64)
        codes_of = classes.codes[rows].astype(np.int64)
        if len(machine.qos) and by != "partition_id":  # a job has one QOS, and the QOS of its partition has the cap
            codes_of = np.full(len(rows), -1)
        if len(rows):
            queue = eligible(trace, queue, rows)
            orders.append((learn_order(queue, users, codes_of, [str(name) for name in classes.categories]), by))
    return max(orders, key=lambda found: found[0].pairs)


def _factor_line(factor: Factor, by: str) -> Line:
    """Return the evidence line of a priority factor, with the numbers of job pairs for and against the factor."""
    worth = span(factor.worth)
    support = f"{factor.pairs:,} pairs (won by {factor.users} users) support this, {factor.against:,} contradict it"
    table, name, who = "partition" if by == "partition_id" else "qos", factor.name, f"{factor.name}: a job"
    if name == SIZE:
        table, name, who = "settings", "PriorityWeightJobSize", "a job as large as the machine"
    elif name == USE:
        table, name, who = "settings", "PriorityWeightFairShare", "a job of the user with least past use"
    return Line(table, name, f"{who} counts as {worth} older", support)


def _people(trace: Trace) -> list[tuple[str, str]]:
    """Return accounts and users of a log, in order of their first jobs."""
    names = [trace.nominal(column).decode() for column in ("account", "user_id")]
    return list(dict.fromkeys(("" if a is None else str(a), "" if u is None else str(u)) for a, u in zip(*names)))


def split(trace: Trace, procs: str = "req", share: float = SHARE) -> tuple[Learned, Trace, np.ndarray]:
    """Learn from the first `share` of the jobs; return the machine, the log with release times of held jobs, and a mask
    of the other jobs.

    The releases of held jobs come from the whole log, so the later jobs use their recorded releases.
    """
    first = int(len(trace) * share)
    if not 0 < first < len(trace):
        raise InputError(f"{trace.info.source}: {len(trace)} jobs are too few to learn a machine and to test it")
    learned = learn_machine(trace.take(np.arange(first)), procs)
    if learned.machine.associations:  # users of later jobs begin without past use
        learned = replace(learned, machine=replace(learned.machine, associations=siblings(_people(trace))))
    released = with_releases(trace, find_held(trace))
    return _with_ends(learned, released, procs), released, np.arange(len(trace)) >= first


def _with_ends(learned: Learned, trace: Trace, procs: str) -> Learned:
    """Add the week in which closed hours were abolished, read from the whole log; the test uses this week as given, not
    as learned."""
    machine, lines = learned.machine, list(learned.lines)
    kept = [r for r in machine.reservations if r.every]
    if not kept:
        return learned
    untils: dict[str, float] = {}
    for part in {r.nodes: p for r in kept for p in machine.partitions if p.nodes == r.nodes}.values():
        mine = [r for r in kept if r.nodes == part.nodes]
        queue, rows = _of_partition(trace, machine, part, procs)
        until = kept_until(eligible(trace, queue, rows), [Closed(r.max_time, r.start, r.end, 0, 0) for r in mine])
        untils |= {r.name: until for r in mine}
        if math.isfinite(until):
            says = f"{part.name}: the closed hours end with second {until:.0f}"
            lines.append(Line("", "", says, "read from the whole log, in which such jobs run at all hours afterwards"))
    ends = tuple(replace(r, until=untils.get(r.name, r.until)) for r in machine.reservations)
    return replace(learned, machine=replace(machine, reservations=ends), lines=tuple(lines))


def _of_partition(trace: Trace, machine: Machine, part: Partition, procs: str) -> tuple[Queue, np.ndarray]:
    """Return the jobs of a partition as a queue, and their rows in the log."""
    rows, size = rows_of(trace, machine, part), size_of(machine, part.nodes)
    queue, rows = queue_of(trace, rows, "alloc" if part.exclusive else procs, size)
    alone = not any(set(part.nodes) & set(other.nodes) for other in machine.partitions if other.name != part.name)
    gpus = size_of(machine, part.nodes, "gpu")
    return replace(queue, alone=alone, gpus_there=gpus, nodes_there=float(len(part.nodes))), rows


def commented(text: str, lines: Sequence[Line | Cause]) -> str:
    """Return the text of the machine's file with the evidence for each entry above the entry, and other evidence at the
    top."""
    rows, head = text.splitlines(), []
    for line in lines:
        if isinstance(line, Cause):
            head.append(f"# {line}")
            continue
        at = [f"[[{line.table}]]", f"name = {json.dumps(line.name)}"]
        place = next((k for k in range(len(rows) - 1) if rows[k : k + 2] == at), None)
        if line.table == "settings":
            place = next((k for k, row in enumerate(rows) if row.startswith(f"{json.dumps(line.name)} = ")), None)
        if place is None:
            head.append(f"# {line}")
        else:
            rows.insert(place, f"# {line}")
    return "\n".join([*head, *rows]) + "\n"


def _whole_nodes(trace: Trace) -> list[Line]:
    """Return the evidence that jobs get whole nodes for any number of processors; an empty list without evidence."""
    yes, no = count_whole(trace)
    if yes < LEAST_WHOLE or yes < WHOLE_SHARE * (yes + no):
        return []
    support = f"{yes:,} jobs that requested part of a node got the whole node, {no:,} did not"
    return [Line("", "", "jobs get whole nodes", support)]


def _sharing(trace: Trace, machine: Machine, procs: str) -> tuple[Machine, list[Line]]:
    """Let partitions share nodes if their total use never came near the sum of the partitions' separate peaks."""
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
    support = f"all jobs together used at most {peak:,.0f} processors, the partitions' peaks add up to {apart:,.0f}"
    shared = replace(machine, nodes=(replace(machine.nodes[0], names=names),), partitions=partitions)
    return shared, [Line("nodes", "", says, support)]


def _unread(trace: Trace) -> list[Line]:
    """Return lines about the log's columns that were not read, with the field to which each could be mapped."""
    names = [name for name, ours in UNREAD.items() if name in trace.names and ours not in trace.names]
    remedy = "a map (--map FILE.toml) can declare it as"
    return [Line("", "", f"the column {name} was not learned from", f"{remedy} {UNREAD[name]}") for name in names]


def _gpu_lines(machine: Machine) -> list[Line]:
    """Return the evidence lines about the GPUs of a learned machine."""
    groups = [(len(group.names), group.gres["gpu"]) for group in machine.nodes if group.gres]
    return [Line("nodes", "", f"{n:,} nodes have {g} GPUs each", "the largest use of its jobs") for n, g in groups]


def _groups(trace: Trace, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return codes of the jobs' users and accounts, if the log has them."""
    found = {}
    for name, column in GROUPS.items():
        codes = trace.nominal(column).codes[rows].astype(np.int64)
        if len(np.unique(codes[codes >= 0])) >= 2:
            found[name] = codes
    return found


def _cap_line(cap: Cap, partition: str, trace: Trace) -> Line:
    unit = UNITS[cap.resource]
    above = f"; {cap.above} used more" if cap.above else ""
    evidence = f"{cap.jobs:,} jobs of {cap.groups} {cap.kind}s waited above it despite room"
    support = f"{evidence}, {cap.against:,} below it{above}"
    if cap.name:
        category = trace.nominal(GROUPS[cap.kind]).categories[int(cap.name)]
        return Line("", "", f"{cap.kind} {category} alone: at most {cap.value:g} {unit} in {partition}", support)
    return Line("qos", f"cap-{partition}", f"at most {cap.value:g} {unit} per {cap.kind} in {partition}", support)
