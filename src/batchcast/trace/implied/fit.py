# SPDX-License-Identifier: Apache-2.0
"""How much of a learned machine is there on a usual day, and whether its order holds: by what the simulation says."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ...cluster.machine import Machine
from ...events.recorded import outcome
from ...metrics.curves import cdf_distance, rank_correlation
from ...simulation.schedule import Schedule
from ...simulation.slurm_trace import simulate_on
from ...table import Trace
from .hours import WEEK_S
from .pools import joined, pools_of, steps

SIZES = tuple(round(1.0 - 0.05 * k, 2) for k in range(12))
"""Of the most that ever ran at once: nodes are down, kept, or too few for what waits."""
LOOKS_S = (60, 120, 240)
"""How often a scheduler may look at its queue that does not look at every submission and end."""
WORTH = 0.05
WORSE = 2  # in turn that are no nearer than the best before them end a search
FEW = 0.005
"""The share of jobs, the widest, that may be too wide for a usual day: they are left out, and counted."""
MOST_TRIED = 30_000


def nearest(tried: Iterable[tuple[str, Machine]], trace: Trace, procs: str) -> tuple[Machine, str, str]:
    """The machine whose simulated waits come nearest to the record, its name, and how far each is, in words.

    The first unless another is nearer by a twentieth; where two in turn are no nearer, none after them is tried. The
    latest 30,000 jobs are simulated on each.
    """
    latest = trace.take(np.arange(max(len(trace) - MOST_TRIED, 0), len(trace)))
    apart: dict[str, float] = {}
    (best, machine), least, worse = next(iter(tried)), math.inf, 0
    for name, one in tried:
        apart[name] = _apart(latest, simulate_on(one, latest, procs=procs))
        value = apart[name] * (1.0 + WORTH if len(apart) > 1 else 1.0)
        worse += 1
        if value < least:
            best, machine, least, worse = name, one, value, 0
        if worse == WORSE:
            break
    far = ", ".join(f"{name} {value:.2f}" for name, value in apart.items())
    return machine, best, f"simulated waits are this far from the record: {far}"


def sized(machine: Machine, trace: Trace, procs: str) -> tuple[Machine, list[tuple[str, str, str]]]:
    """The machine with what is there of each pool on a usual day; the pool's name, the share, and how far each is."""
    parts, found = [], []
    for pool in pools_of(trace, machine):
        part = pool.machine
        if len(pool.rows):
            jobs = trace.take(pool.rows)
            part, share, far = nearest(parts_of(part, jobs, procs).items(), jobs, procs)
            found.append((pool.name, share, far))
        parts.append(part)
    return joined(machine, parts), found


def parts_of(machine: Machine, trace: Trace, procs: str) -> dict[str, Machine]:
    """The machine with each of the shares of its nodes that may be there, by name; the whole of it first.

    None is smaller than what ran on average in the busiest week.
    """
    rule = "alloc" if machine.partitions[0].exclusive else procs
    widest = float(np.nanquantile(trace.procs(rule), 1.0 - FEW, method="higher"))
    least = _busiest(trace, rule) / machine.cpus
    parts = {f"{share:.0%}": _part_of(machine, share, widest) for share in SIZES if share >= min(least, 1.0)}
    sizes = [part.cpus for part in parts.values()]
    return {name: part for k, (name, part) in enumerate(parts.items()) if part.cpus not in sizes[:k]}


def looks_of(machine: Machine) -> dict[str, Machine]:
    """The machine with each way to look at the queue, by name: as Slurm does unless it is told otherwise first."""

    def every(seconds: int) -> Machine:
        words = {"sched_interval": "-1", "default_queue_depth": "-1", "bf_interval": str(seconds)}
        return replace(machine, settings={**machine.settings, **words})

    return {"at every event": machine, **{f"every {seconds} s": every(seconds) for seconds in LOOKS_S}}


def _busiest(trace: Trace, rule: str) -> float:
    """The processors that ran on average in the busiest week of the record."""
    submit, wait, run = outcome(trace)
    size = trace.procs(rule)
    ran = (run > 0) & (size > 0)
    time, running = steps((submit + wait)[ran], (submit + wait + run)[ran], size[ran])
    if not len(time):
        return 0.0
    work = np.concatenate([[0.0], np.cumsum(np.diff(time) * running[:-1])])
    weeks = np.arange(time[0], time[-1], WEEK_S)
    done = np.diff(np.interp(weeks, time, work))
    return float(done.max(initial=0.0)) / WEEK_S


def _part_of(machine: Machine, share: float, widest: float) -> Machine:
    """The machine with a share of each partition's nodes, and no fewer than a job of that width needs."""

    cpus = {name: group.cpus for group in machine.nodes for name in group.names}

    def kept(nodes: tuple[str, ...]) -> tuple[str, ...]:
        each = sum(cpus[name] for name in nodes) / len(nodes)
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
    """How far simulated waits are from the record: their distributions, means and ranks; 0 is equal.

    Waits count from when a job was eligible, and below a minute as none, as where a simulation is judged: a log's clock
    is in them.
    """
    known = trace.wait_time[schedule.rows] >= 0
    held = np.fmax(trace.number("eligible_time") - trace.submit_time, 0.0)[schedule.rows]
    one, two = (waits - held for waits in (trace.wait_time[schedule.rows], schedule.wait_time))
    one, two = (np.where(waits[known] < 60.0, 0.0, waits[known]) for waits in (one, two))
    ratio = abs(math.log((one.mean() + 60.0) / (two.mean() + 60.0)))
    rank = rank_correlation(one, two)
    return cdf_distance(one, two) + 0.5 * ratio + 0.5 * (1.0 - (rank if rank == rank else 0.0))
