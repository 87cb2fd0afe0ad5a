# SPDX-License-Identifier: Apache-2.0
"""Captures the machine for simulations from Slurm, and computes the latest starts that time limits imply on it.

Every few minutes three short queries find changes of nodes, partitions, QOS, weights or reservations. The machine is
saved beside the store. The file contains accounts and users with their limits, so only the collector's user can read
it.

For the latest starts, running jobs and jobs in front are assumed to run to their time limits. In each partition jobs
start strictly in order of priority, on nodes with enough free processors. No job runs on nodes that are down or
drained, and no job overlaps a reservation. Slurm's backfill would start jobs earlier. Later submissions with a higher
priority and changing priorities are unknown, and memory and GPUs are ignored. The margin of answers (`answers.start`)
allows for all these simplifications.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...errors import BatchcastError, UsageError
from ...formats.slurm.reasons import Rule, rule
from ...formats.slurm.resources import expand
from ...machines.machine import Machine, Partition
from ...schedule.slurm.site import make_site
from ...store.place import machine_path
from ...trace.machine_files import open_machine, toml_of
from ...trace.whole_file import whole_file
from ..answers.start import Job, end_of, own_queue, queue_place, time_limit
from ..settings import Settings, machine_at

WHOLE_EVERY_S = 3600.0
"""Accounts and their limits are queried only this often, because this answer is the longest and rarely changes."""


def in_service(machine: Machine) -> Machine:
    """Return the machine with every node in service, because the clock knows which nodes are down."""
    return replace(machine, nodes=tuple(replace(group, down=()) for group in machine.nodes))


class MachineWatch:
    """Keeps the captured machine of one cluster up to date. If `machine` is None, no machine is known, and `trouble`
    gives the reason.
    """

    def __init__(self, settings: Settings, cluster: str) -> None:
        self.settings = settings
        self.machine: Machine | None = None
        self.trouble = ""
        self.captured_at: float | None = None
        self._looked_at = self._whole_at = self._shares_at = -math.inf
        self._digest = ""
        self._partitions_seen: frozenset[str] = frozenset()
        self.path = machine_path(settings["store"], cluster)
        # the setting `machine` may name a file or be `none`; then the machine is not captured from Slurm
        if settings["machine"]:
            self.machine = machine_at(settings["machine"])
        else:
            with contextlib.suppress(BatchcastError):
                self.machine = open_machine(self.path)

    def look(self, scheduler: Any, now: float, partitions: Iterable[str]) -> bool:
        """Capture the machine again if it changed, and return whether it did.

        The machine is checked as often as accounting is queried, and at once if a job is in an unknown partition. If a
        query fails, the last machine stays in use.
        """
        unknown = frozenset(partitions) - self._partitions_seen
        due = unknown or not 0 <= now - self._looked_at < self.settings["history_every_s"]
        if self.settings["machine"] or not due or not hasattr(scheduler, "machine"):
            return False
        # The time is set before the queries, so that a failing batch system is not queried again in each cycle.
        self._looked_at, self._partitions_seen = now, self._partitions_seen | unknown
        try:
            digest = hashlib.sha256(scheduler.shape().encode()).hexdigest()
            if digest == self._digest and 0 <= now - self._whole_at < WHOLE_EVERY_S:
                return False
            fresh = in_service(scheduler.machine())
            make_site(fresh)  # find unsupported features of the machine once, here, and not at each prediction
        except BatchcastError as error:
            self.trouble = error.message
            return False
        changed = self.machine is None or repr(fresh) != repr(self.machine)
        self.machine, self._digest, self._whole_at, self.captured_at = fresh, digest, now, now
        self.trouble = self._keep(fresh) if changed else ""
        return changed

    def stored_values(self, scheduler: Any, now: float) -> dict[str, Any]:
        """Return values for the store: `machine` with the capture time (epoch seconds; None: not yet) and the last
        error, and `shares`, the usage of each "account|user", if fair share ranks jobs here and the query is due.
        """
        weight = self.machine.settings.get("PriorityWeightFairShare", "0") if self.machine is not None else "0"
        due = not 0 <= now - self._shares_at < self.settings["history_every_s"]
        shares: dict[str, Any] = {}
        if due and weight.isdigit() and int(weight) and hasattr(scheduler, "shares"):
            self._shares_at = now
            try:
                shares = {"shares": dict(scheduler.shares())}
            except BatchcastError as error:
                self.trouble = error.message
        return {"machine": {"at": self.captured_at, "trouble": self.trouble}, **shares}

    def _keep(self, machine: Machine) -> str:
        """Write the machine to a file that only its owner can read; return the error, if any."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(self.path, 0o600) as part:
                part.write_text(toml_of(machine), encoding="utf-8")
        except OSError as error:
            return f"{self.path}: {error.strerror}"
        return ""


@dataclass(frozen=True, slots=True)
class LatestStarts:
    """The latest starts of waiting jobs by row (`jobs`), and of a job submitted now by partition, with the partition's
    usable processors (`new`). The partition "" stands for partitions that the batch system does not describe.
    """

    jobs: dict[int, float] = field(default_factory=dict)
    new: dict[str, tuple[float, float]] = field(default_factory=dict)

    def stored(self, at: float) -> dict[str, Any]:
        """Return the bounds as the collector stores them; jobs without a bound are left out."""
        known = {str(row): round(latest) for row, latest in self.jobs.items() if math.isfinite(latest)}
        return {"at": at, "jobs": known, "new": {name: of for name, of in self.new.items() if math.isfinite(of[0])}}


def latest_starts(
    jobs: Sequence[Job], site: Mapping[str, Any], machine: Machine | None, away: Iterable[str], now: float
) -> LatestStarts:
    """Return the latest starts of all waiting jobs among all open jobs (the query `open_with`), in epoch seconds."""
    # Without a captured machine, every job is assumed to start after all other jobs, on a pool of the partition's
    # processors.
    running = [job for job in jobs if job["start_time"] is not None]
    # a job that an administrator holds, or that can never start, cannot delay other jobs
    held = (Rule.NEVER, Rule.ADMIN)
    waiting = [job for job in jobs if job["start_time"] is None and rule(job["reason"] or "") not in held]
    bounds = LatestStarts()
    if machine is None:
        for name, known in ((site.get("partitions") or {}) | {"": {}}).items():
            if (procs := float(known.get("procs") or site.get("total_procs") or 0.0)) > 0:
                bounds.new[name] = _after_all(running, waiting, procs, now), procs
        return bounds
    tiers = {part.name: part.priority_tier for part in machine.partitions}
    # Slurm starts jobs of a higher partition tier before all others, whatever their priorities.
    waiting.sort(key=lambda job: (-tiers.get(_partition(job), 1), *queue_place(job)))
    # Without priorities the order is unknown, so every job may be the last to start.
    ordered = all(job["priority"] is not None for job in waiting)
    for part in machine.partitions:
        nodes = _Nodes(machine, part, frozenset(away), now)
        if not nodes.cpus.size:
            continue
        for job in running:
            nodes.run(job)
        starts = {job["row"]: nodes.start(job) for job in waiting if nodes.may_take(job)}
        last = nodes.all_free()
        mine = (job["row"] for job in waiting if _partition(job) == part.name)
        bounds.new[part.name] = last, float(nodes.cpus.sum())
        bounds.jobs.update({row: starts[row] if ordered else max(last, starts[row]) for row in mine})
    return bounds


def _after_all(running: Sequence[Job], waiting: Sequence[Job], procs: float, now: float) -> float:
    """Return when all jobs have run to their limits, if they start in order on a pool of processors.

    If running jobs seem to use more processors than the pool has, only the jobs with the latest ends count.
    """
    free, holders = procs, []
    for end, amount in sorted(((end_of(job, now), _procs(job)) for job in running), reverse=True):
        taken = min(amount, free)
        free -= taken
        holders.append((end, taken))
    wanted = [(time_limit(job), min(_procs(job), procs)) for job in waiting]
    return own_queue([*holders, (now, free)], wanted, procs, now)


class _Nodes:
    """The nodes of one partition with the jobs on them, in a simulation whose time moves forward."""

    def __init__(self, machine: Machine, part: Partition, away: frozenset[str], now: float) -> None:
        cpus = {name: float(group.cpus) for group in machine.nodes for name in group.names}
        names = [name for name in part.nodes if name in cpus and name not in away]
        self.index = {name: k for k, name in enumerate(names)}
        self.cpus = np.array([cpus[name] for name in names])
        self.free = self.cpus.copy()
        self.now = now
        self.part, self.machine = part, machine
        self.number = itertools.count()
        self.ends: list[tuple[float, int, np.ndarray, np.ndarray]] = []
        here = self.index.keys()
        self.shared = {part.name, *(other.name for other in machine.partitions if not here.isdisjoint(other.nodes))}
        ahead = [one for one in machine.reservations if one.end > now and not here.isdisjoint(one.nodes)]
        self.reserved = [(one.start, one.end, np.array([name in one.nodes for name in names], bool)) for one in ahead]

    def may_take(self, job: Job) -> bool:
        """Return whether a job's partition shares nodes with this partition, or is unknown."""
        known = {one.name for one in self.machine.partitions}
        names = {_partition(job), *str(job.get("partition_list") or "").split(",")} - {""}
        return not names <= known or not names.isdisjoint(self.shared)

    def run(self, job: Job) -> None:
        """Let a running job occupy its nodes until its time limit."""
        try:
            names = expand(job["node_list"] or "")
        except UsageError:
            names = ()
        here = np.array([self.index[name] for name in names if name in self.index], int)
        if names:
            self._hold(here, np.full(len(here), _procs(job) / len(names)), end_of(job, self.now))
        elif self.may_take(job):  # the job's nodes are unknown, so it is placed on free nodes
            self.start(job)

    def start(self, job: Job) -> float:
        """Start a waiting job as soon as it fits, and let it run to its limit. Return the start; infinity if the job
        never fits.
        """
        procs, count, whole = _procs(job), float(job["req_nodes"] or 1.0), (job["exclusive"] or 0.0) > 0
        # a job of another partition that shares nodes takes at most what this partition has
        if _partition(job) != self.part.name:
            procs, count = min(procs, float(self.cpus.sum())), min(count, float(len(self.cpus)))
        count = max(int(count), math.ceil(procs / float(self.cpus.max())))
        each = np.full(len(self.cpus), math.ceil(procs / count)) if not whole else self.cpus
        if count > (self.cpus >= each).sum():
            return math.inf
        length = time_limit(job)
        while True:
            held = [(end, nodes) for begin, end, nodes in self.reserved if begin < self.now + length and end > self.now]
            places = np.flatnonzero(np.logical_and.reduce([self.free >= each, *(~nodes for _, nodes in held)]))
            if len(places) >= count:
                break
            if not self._go_on([end for end, _ in held]):
                return math.inf
        chosen = places[np.argsort(self.free[places], kind="stable")[:count]]
        self._hold(chosen, each[chosen], self.now + length)
        return self.now

    def all_free(self) -> float:
        """Return when the whole partition is free for the longest job: after all jobs so far, when such a job overlaps
        no reservation.
        """
        longest = self.part.max_time if self.part.max_time > 0 else math.inf
        whole = {"req_procs": self.cpus.sum(), "alloc_procs": None, "req_nodes": len(self.cpus), "exclusive": 1.0,
                 "partition_id": self.part.name, "limit_now": longest, "req_time": longest}  # fmt: skip
        return self.start(whole)

    def _hold(self, places: np.ndarray, amounts: np.ndarray, end: float) -> None:
        """Occupy processors of nodes until `end`, but at most the processors that are free."""
        taken = np.minimum(amounts, self.free[places])
        self.free[places] -= taken
        heapq.heappush(self.ends, (end, next(self.number), places, taken))

    def _go_on(self, more: Iterable[float]) -> bool:
        """Move the time to the next end of a job or a reservation; return False if there is none."""
        later = [end for end in (*more, *(one[0] for one in self.ends[:1])) if math.isfinite(end)]
        if not later:
            return False
        self.now = max(self.now, min(later))
        while self.ends and self.ends[0][0] <= self.now:
            _, _, places, taken = heapq.heappop(self.ends)
            self.free[places] += taken
        return True


def _procs(job: Job) -> float:
    """Return the number of processors of a job: the allocated or, if unknown, the requested processors; at least 1."""
    return float(job["alloc_procs"] or job["req_procs"] or 1.0)


def _partition(job: Job) -> str:
    """Return the partition of a job; the first partition if the job names several."""
    return str(job["partition_id"] or "").partition(",")[0]
