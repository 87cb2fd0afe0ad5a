# SPDX-License-Identifier: Apache-2.0
"""How much of a learned machine is there on a usual day, and whether its order holds: by what the simulation says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...cluster.machine import Machine
from ...events.recorded import outcome
from ...metrics.curves import cdf_distance, rank_correlation
from ...simulation.schedule import Schedule
from ...simulation.slurm_trace import simulate_on
from ...table import Trace
from .caps import steps
from .hours import WEEK_S

SIZES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)
"""Of the most that ever ran at once: nodes are down, kept, or too few for what waits."""
LOOKS_S = (60, 120, 240)
"""How often a scheduler may look at its queue that does not look at every submission and end."""
WORTH = 0.05
FEW = 0.005
"""The share of jobs, the widest, that may be too wide for a usual day: they are left out, and counted."""
MOST_TRIED = 30_000


def nearest(tried: Mapping[str, Machine], trace: Trace, procs: str) -> tuple[str, str]:
    """The name of the machine whose simulated waits come nearest to the record, and how far each is, in words.

    The first unless another is nearer by a twentieth. The latest 30,000 jobs are simulated on each.
    """
    latest = trace.take(np.arange(max(len(trace) - MOST_TRIED, 0), len(trace)))
    apart = {name: _apart(latest, simulate_on(one, latest, procs=procs)) for name, one in tried.items()}
    first = next(iter(tried))
    best = min(apart, key=lambda name: apart[name] * (1.0 if name == first else 1.0 + WORTH))
    return best, "simulated waits are this far from the record: " + ", ".join(
        f"{name} {value:.2f}" for name, value in apart.items()
    )


def parts_of(machine: Machine, trace: Trace, procs: str) -> dict[str, Machine]:
    """The machine with each of the shares of its nodes that may be there, by name; the whole of it first.

    None is smaller than what ran on average in the busiest week.
    """
    rule = "alloc" if machine.partitions[0].exclusive else procs
    widest = float(np.nanquantile(trace.procs(rule), 1.0 - FEW, method="higher"))
    least = _busiest(trace, rule) / machine.cpus
    return {f"{share:.0%}": _part_of(machine, share, widest) for share in SIZES if share >= min(least, 1.0)}


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

    def kept(nodes: tuple[str, ...]) -> tuple[str, ...]:
        each = size_of(machine, nodes) / len(nodes)
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

    Waits below a minute count as none, as where a simulation is judged: a log's clock is in them.
    """
    recorded, simulated = trace.wait_time[schedule.rows], schedule.wait_time
    known = recorded >= 0
    one, two = (np.where(waits[known] < 60.0, 0.0, waits[known]) for waits in (recorded, simulated))
    ratio = abs(math.log((one.mean() + 60.0) / (two.mean() + 60.0)))
    rank = rank_correlation(one, two)
    return cdf_distance(one, two) + 0.5 * ratio + 0.5 * (1.0 - (rank if rank == rank else 0.0))


def size_of(machine: Machine, nodes: Sequence[str]) -> float:
    """Processors of some of a machine's nodes."""
    inside = set(nodes)
    return float(sum(group.cpus * sum(name in inside for name in group.names) for group in machine.nodes))
