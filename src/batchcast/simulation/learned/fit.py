# SPDX-License-Identifier: Apache-2.0
"""Fits a learned machine's usable share of nodes and scheduling interval to the log; finds outages and closed hours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...events.machine_size import in_use, steps
from ...events.setup import RunSetup
from ...machines.machine import Machine
from ...metrics.curves import cdf_distance, rank_correlation
from ...table import Trace
from ..on_nodes import simulate_on
from ..schedule import Schedule
from .caps import OUTAGE_S, Queue, held_at

HOUR_S, WEEK_S = 3600.0, 7 * 86400.0
LIMITS_S = tuple(hours * HOUR_S for hours in (1, 2, 4, 6, 8, 12, 24, 48))
LEAST_HOURS, LEAST_WEEKS, LEAST_ROOMY = 4, 10, 4
CLOSED = 0.9  # minimum share of the weeks in which no long job runs at an hour although long jobs wait
ROOM = 0.8  # if less than this share of the capacity is in use, there is room
EDGE = 0.05  # share of the jobs near an edge that may be on the wrong side of it
BROKEN_WEEKS = 3
IDLE = 0.2  # maximum share of the processors in use at the end of an outage


@dataclass(frozen=True, slots=True)
class Closed:
    """A period of the week in which no job with a limit above `limit` runs, in seconds of the log's first week.

    `begin` may be negative. `weeks` is the number of hours in the period in which long jobs waited and no long job ran,
    `against` the number of hours in which a long job ran.
    """

    limit: float
    begin: float
    end: float
    weeks: int
    against: int


def closed_hours(queue: Queue) -> list[Closed]:
    """Return the periods of the week that are closed to long jobs, for the smallest time limit that has closed periods.

    An hour is closed if in nine of ten weeks in which jobs above the limit wait at this hour, no job above the limit
    runs, and if there was room for a job in several of these weeks. Periods of at least four closed hours count. A
    closed period begins when 95 % of the earlier jobs should have ended by their time limits, and ends before 95 % of
    the later jobs start. `tests/naive/implied.py` is a slow version. The search takes O(n log n) time per time limit.

    >>> day, two = np.arange(100) * 86400.0, np.full(100, 1.0)  # by night alone: submitted at eight, begun at eighteen
    >>> night = Queue(day + 8 * 3600, day + 18 * 3600, day + 30 * 3600, two, two * 12 * 3600, 9.0)
    >>> [(each.limit / 3600, each.begin / 3600, each.end / 3600) for each in closed_hours(night)][0]
    (1.0, 8.0, 18.0)
    """
    for limit in LIMITS_S:
        long = queue.limit > limit
        if not long.any():
            break
        count, closed, shut = shut_hours(queue, long)
        found = [
            Closed(limit, *_edges(queue, long, first, last), int(closed[k].sum()), int((count - closed)[k].sum()))
            for first, last in _stretches(shut)
            for k in [np.arange(first, last) % 168]
        ]
        if found:
            return found
    return []


def shut_hours(queue: Queue, long: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return per hour of the week: number of weeks in which long jobs wait, number of weeks in which no long job runs,
    and whether the hour is closed."""
    hours, waits, runs, roomy = _weeks(queue, long)
    count, closed = np.bincount(hours, waits, 168), np.bincount(hours, waits & ~runs, 168)
    room = np.bincount(hours, waits & ~runs & roomy, 168)
    return count, closed, (count >= LEAST_WEEKS) & (room >= LEAST_ROOMY) & (closed >= CLOSED * count)


def kept_until(queue: Queue, closed: Sequence[Closed]) -> float:
    """Return when closed hours were abolished: the first of three successive weeks in which long jobs ran in over
    half of these hours; infinity if never."""
    if not closed:
        return math.inf
    hours, waits, runs, _ = _weeks(queue, queue.limit > closed[0].limit)
    inside = np.zeros(168, bool)
    for each in closed:
        inside[np.arange(math.ceil(each.begin / HOUR_S), math.floor(each.end / HOUR_S)) % 168] = True
    week = np.arange(len(hours)) // 168
    looked = (waits | runs) & inside[hours]
    ran = np.bincount(week, looked & runs, week[-1] + 1) > 0.5 * np.bincount(week, looked, week[-1] + 1)
    for k in range(len(ran) - BROKEN_WEEKS + 1):
        if ran[k : k + BROKEN_WEEKS].all():
            return float(math.floor(queue.submit.min() / WEEK_S) + k) * WEEK_S
    return math.inf


def _weeks(queue: Queue, long: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return for the middle of each hour: the hour of the week, whether long jobs wait, whether long jobs run, and
    whether there is room.
    """
    first = math.floor(queue.submit.min() / WEEK_S) * WEEK_S
    when = np.arange(first, queue.start.max(), HOUR_S) + HOUR_S / 2
    submit, start, end, one = queue.submit[long], queue.start[long], queue.end[long], np.ones(int(long.sum()))
    waits, runs = held_at(submit, start, one, when) > 0, held_at(start, end, one, when) > 0
    roomy = held_at(queue.start, queue.end, queue.size, when) < ROOM * queue.capacity
    return np.arange(len(when)) % 168, waits, runs, roomy


def _stretches(shut: np.ndarray) -> list[tuple[int, int]]:
    """Return the half-open range of hours of each period; a period across the week's end begins at a negative hour."""
    if shut.all() or not shut.any():
        return []
    turn = int(np.flatnonzero(~shut)[-1]) + 1 - 168  # the hour that follows the last open hour
    around = shut[np.arange(turn, turn + 168) % 168]
    change = np.flatnonzero(np.diff(np.concatenate([[False], around, [False]])))
    pairs = ((turn + int(a), turn + int(b)) for a, b in change.reshape(-1, 2))
    return [(a, b) for a, b in pairs if b - a >= LEAST_HOURS]


def _edges(queue: Queue, long: np.ndarray, first: int, last: int) -> tuple[float, float]:
    """Return begin and end of a closed period to the second, from planned ends and starts of long jobs."""
    begin, end = first * HOUR_S + HOUR_S / 2, last * HOUR_S - HOUR_S / 2
    ends = (queue.start[long] + queue.limit[long] - begin + WEEK_S / 2) % WEEK_S - WEEK_S / 2
    starts = (queue.start[long] - end + WEEK_S / 2) % WEEK_S - WEEK_S / 2
    ends, starts = ends[np.abs(ends) <= HOUR_S], starts[(starts > 0) & (starts <= HOUR_S)]
    early = float(np.quantile(ends, 1 - EDGE, method="lower")) if len(ends) else -HOUR_S / 2
    late = float(np.quantile(starts, EDGE, method="higher")) if len(starts) else HOUR_S / 2
    return begin + early, end + late


def outages(queue: Queue, is_held: np.ndarray) -> list[tuple[float, float, int]]:
    """Return periods of four hours or more without a start although three jobs had room: outages.

    The three jobs must have started within an hour after the period, so the machine was in service again. A period does
    not count if many processors are in use at its end, because nodes may have been kept free for a wide job. Returns
    begin and end in seconds on the log's clock, and the number of waiting jobs that had room.
    """
    starts = np.unique(queue.start)
    long = np.flatnonzero(np.diff(starts) >= OUTAGE_S)
    if not len(long):
        return []
    time, running = steps(queue.start, queue.end, queue.size)
    found = []
    for k in long.tolist():
        begin, end = float(starts[k]), float(starts[k + 1])
        through = (queue.submit <= begin) & (queue.start >= end) & ~is_held
        first = int(np.searchsorted(time, begin, side="right")) - 1
        most = float(running[first : int(np.searchsorted(time, end))].max(initial=0.0))
        left = float(running[int(np.searchsorted(time, end)) - 1])
        soon = queue.start <= end + HOUR_S  # jobs that wait longer have other reasons to wait
        roomy = through & soon & (queue.size + most <= queue.capacity)
        if roomy.sum() >= 3 and left <= IDLE * queue.capacity:
            found.append((begin, end, int(roomy.sum())))
    return found


SIZES = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)
"""Tried shares of the machine's nodes; the other nodes may be down, reserved, or too few for the waiting jobs."""
LOOKS_S = (60, 120, 240)
"""Tried intervals (s) of a scheduler that does not run after every submission and end."""
WORTH = 0.05
FEW = 0.005
"""Share of the jobs, the widest jobs, that may not fit on the usable nodes; they are left out and counted."""
MOST_TRIED = 30_000


def nearest(tried: Mapping[str, Machine], trace: Trace, procs: str) -> tuple[str, str]:
    """Return the name of the machine whose simulated waits are closest to the log, and a text with all distances.

    The result is the first machine unless another machine's distance is smaller by a twentieth. The latest 30,000 jobs
    are simulated on each machine.
    """
    latest = trace.take(np.arange(max(len(trace) - MOST_TRIED, 0), len(trace)))
    apart = {name: _apart(latest, simulate_on(one, latest, setup=RunSetup(procs))) for name, one in tried.items()}
    first = next(iter(tried))
    best = min(apart, key=lambda name: apart[name] * (1.0 if name == first else 1.0 + WORTH))
    distances = ", ".join(f"{name} {value:.2f}" for name, value in apart.items())
    return best, f"distances of simulated waits from recorded waits: {distances}"


def parts_of(machine: Machine, trace: Trace, procs: str) -> dict[str, Machine]:
    """Map the name of each possible usable share of the nodes to a machine with that share of nodes; the whole machine
    comes first.

    No usable share is below the mean use in the busiest week.
    """
    rule = "alloc" if machine.partitions[0].exclusive else procs
    widest = float(np.nanquantile(trace.procs(rule), 1.0 - FEW, method="higher"))
    least = _busiest(trace, rule) / machine.cpus
    return {f"{share:.0%}": _part_of(machine, share, widest) for share in SIZES if share >= min(least, 1.0)}


def with_intervals(machine: Machine) -> dict[str, Machine]:
    """Map the name of each scheduling interval to a machine with that interval; Slurm's usual interval comes first."""
    tried, alone = {"after each submission and end": machine}, {"sched_interval": "-1", "default_queue_depth": "-1"}
    for seconds in LOOKS_S:
        settings = {**machine.settings, **alone, "bf_interval": str(seconds)}
        tried[f"every {seconds} s"] = replace(machine, settings=settings)
    return tried


def _busiest(trace: Trace, rule: str) -> float:
    """Return the mean number of processors in use during the busiest week."""
    time, running = in_use(trace, trace.procs(rule))
    if not len(time):
        return 0.0
    work = np.concatenate([[0.0], np.cumsum(np.diff(time) * running[:-1])])
    weeks = np.arange(time[0], time[-1], WEEK_S)
    done = np.diff(np.interp(weeks, time, work))
    return float(done.max(initial=0.0)) / WEEK_S


def _part_of(machine: Machine, share: float, widest: float) -> Machine:
    """Return the machine with a share of each partition's nodes, but with enough nodes for a job of width `widest`."""

    def kept_nodes(nodes: tuple[str, ...]) -> tuple[str, ...]:
        each = size_of(machine, nodes) / len(nodes)
        return nodes[: min(max(round(share * len(nodes)), math.ceil(widest / each), 1), len(nodes))]

    partitions = tuple(replace(p, nodes=kept_nodes(p.nodes)) for p in machine.partitions)
    there = {name for p in partitions for name in p.nodes}
    left = [replace(g, names=tuple(name for name in g.names if name in there)) for g in machine.nodes]
    reserved = ((r, tuple(name for name in r.nodes if name in there)) for r in machine.reservations)
    reservations = tuple(replace(r, nodes=nodes) for r, nodes in reserved)
    groups = tuple(group for group in left if group.names)
    return replace(machine, nodes=groups, partitions=partitions, reservations=reservations)


def _apart(trace: Trace, schedule: Schedule) -> float:
    """Return the distance of simulated waits from recorded waits, by distributions, means and ranks; 0 if equal.

    Waits below a minute count as zero, as in validity checks, because they depend on the log's clock.
    """
    recorded, simulated = trace.wait_time[schedule.rows], schedule.wait_time
    known = recorded >= 0
    one, two = (np.where(waits[known] < 60.0, 0.0, waits[known]) for waits in (recorded, simulated))
    ratio = abs(math.log((one.mean() + 60.0) / (two.mean() + 60.0)))
    rank = rank_correlation(one, two)
    return cdf_distance(one, two) + 0.5 * ratio + 0.5 * (1.0 - (rank if rank == rank else 0.0))


def size_of(machine: Machine, nodes: Sequence[str], resource: str = "cpu") -> float:
    """Return the number of processors, or of one kind of GRES, on the given nodes of a machine."""
    inside = set(nodes)
    each = [group.cpus if resource == "cpu" else group.gres.get(resource, 0) for group in machine.nodes]
    return float(sum(n * sum(name in inside for name in group.names) for n, group in zip(each, machine.nodes)))
