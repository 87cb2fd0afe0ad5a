# SPDX-License-Identifier: Apache-2.0
"""Simulates Slurm's scheduler on a described machine: when each job starts, and on which nodes.

Between the instants of Slurm's loops, an external planner can change priorities and planned run times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...errors import UsageError
from ...machines.machine import Machine
from ...machines.request import NodeRequest
from .arrays import INFINITE, NONE, QUEUED, RUNNING, Jobs, Phases, Rules, Site, State, make_state
from .loops import PATIENCE, advance
from .priority import fair_tree, reprioritize
from .site import make_jobs, make_rules, make_site

LOOKS_S = 30.0
"""The external planner acts at this interval (s); instants without a possible change are skipped."""


class Seen(NamedTuple):
    """The waiting jobs that an external planner sees at one instant, as arrays (k,).

    `positions` are positions among the requests. `arrival` is when the job became eligible (s; NaN: a begin time, hold,
    dependency or array throttle delays it). `priority` is the job's priority, and `factor` the summand of it that the
    planner sets. `array` (-1: no job array), `account` and `user` are numeric identifiers. `start` has the start of
    every request (n,), s; NaN: not started.
    """

    now: float
    positions: np.ndarray
    arrival: np.ndarray
    priority: np.ndarray
    factor: np.ndarray
    array: np.ndarray
    account: np.ndarray
    user: np.ndarray
    start: np.ndarray


Reorder = Callable[[Seen], tuple[np.ndarray, float]]
"""Returns new factors (k,), and the time (s) at which they next change without a new job, or infinity."""


def looks(
    site: Site, jobs: Jobs, rules: Rules, s: State, reorder: Reorder | None, planned: np.ndarray, late: float
) -> Iterator[Rules]:
    """Yield settings for the simulation up to each instant at which the planner sets factors and planned run times.

    The planned run times `planned` (n,) of waiting jobs apply from `late` seconds after a job's submission on.
    Raises UsageError if jobs are reordered and a QOS may preempt another, because the queue is then not in order of
    priority.
    """
    if reorder is not None and jobs.row["preempts"].any():
        raise UsageError("order: a QOS of this machine can preempt another QOS; an order cannot be simulated on it")
    factor = np.zeros(len(jobs.row), np.int64)
    submits = jobs.row["submit"][:-1]  # in order
    first = float(submits[0]) if len(submits) else 0.0
    due, set_up_to = first, 0
    while True:
        at = first + math.ceil((due - first) / LOOKS_S) * LOOKS_S if due < INFINITE else INFINITE
        yield rules._replace(until=at)
        if at >= INFINITE or _over(s):
            return
        changes = INFINITE if reorder is None else _look(site, jobs, rules, s, factor, at, reorder)
        k = int(np.searchsorted(submits, at, side="right"))
        changes = min(changes, float(submits[k]) if k < len(submits) else INFINITE)
        k = int(np.searchsorted(submits, at - late, side="right"))
        if k > set_up_to:
            updated = np.zeros(len(factor), bool)
            updated[set_up_to:k] = jobs.row["plan"][set_up_to:k] != planned[set_up_to:k]
            jobs.row["plan"][set_up_to:k] = planned[set_up_to:k]
            reprioritize(site, jobs, rules, s, updated, at)
            _wake(rules, s, at)
            set_up_to = k
        due = max(min(changes, float(submits[k]) + late if k < len(submits) else INFINITE), at + LOOKS_S)


def _over(s: State) -> bool:
    """Return whether all jobs have ended, or the waiting jobs will never start."""
    idle = s.reg["submitted"][0] == len(s.order) and s.reg["running"][0] == 0 and s.reg["heap"][0] == 0
    return bool(idle and (s.reg["queue"][0] == s.reg["first"][0] or s.reg["quiet"][0] > PATIENCE))


def _look(site: Site, jobs: Jobs, rules: Rules, s: State, factor: np.ndarray, at: float, reorder: Reorder) -> float:
    """Let the planner set new factors for waiting jobs, and sort the queue; return when factors change next."""
    queue = s.queue[int(s.reg["first"][0]) : int(s.reg["queue"][0])]
    waits = s.job["status"][queue["job"]] == QUEUED
    waiting = queue["job"][waits]
    if not len(waiting):
        return INFINITE
    pairs = waiting.argsort(kind="stable")
    places = waiting[pairs]
    if (again := places[1:] == places[:-1]).any():  # a job may wait in several partitions
        pairs = pairs[np.concatenate(([True], ~again))]
        places = waiting[pairs]
    row, since = jobs.row, s.job["eligible"][places]
    seen = Seen(
        at, places, np.where(since >= 0, since, np.nan), -queue["order"][waits][pairs], factor[places],
        row["array"][places], row["account"][places], row["user"][places], s.job["start"],
    )  # fmt: skip
    new, changes = reorder(seen)
    if (new != seen.factor).any():
        updated = np.zeros(len(factor), bool)
        updated[places] = new != seen.factor
        factor[places] = new
        jobs.row["nice"][places] -= new - seen.factor  # only the rows of waiting jobs, because the whole log is long
        reprioritize(site, jobs, rules, s, updated, at)
        _wake(rules, s, at)
    return min(changes, INFINITE)


def _wake(rules: Rules, s: State, at: float) -> None:
    """Schedule a pass of the simulated Slurm after an update, and restore instants that were skipped because nothing
    had changed."""
    s.reg["pass_due"][0] = s.reg["dirty"][0] = 1
    s.reg["polls"][0] = min(s.reg["polls"][0], max(math.ceil((at - s.reg["first_poll"][0]) / rules.poll), 0))
    s.reg["cycle"][0] -= max(math.floor((s.reg["cycle"][0] - at) / rules.bf_interval), 0) * rules.bf_interval


CHUNK = 50_000
WATCHED = 200  # number of instants between two checks of the watched job
Takes = tuple[float, int, tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class SlurmSchedule:
    """The outcome of each request: arrays (n,) in order of submission, in seconds of the log; NaN if never started.

    `start` is in whole seconds as in Slurm, `began` has fractions. `eligible` is when the job became eligible: no begin
    time, hold, dependency or array throttle delayed it any more. `partition` is -1 if the job never started.
    `placement` has rows of (job, node, processors) if requested. `preempted` counts how often a job was preempted. A
    requeued job runs again from its beginning, and its values describe the last run; the `run` of a cancelled job ends
    at the cancellation. `lost` is the number of processor-seconds of preempted runs.
    """

    requests: tuple[NodeRequest, ...]
    submit: np.ndarray
    eligible: np.ndarray
    start: np.ndarray
    began: np.ndarray
    run: np.ndarray
    partition: np.ndarray
    backfilled: np.ndarray
    placement: np.ndarray
    preempted: np.ndarray
    lost: float
    left_out: tuple[str, ...]

    @property
    def wait(self) -> np.ndarray:
        """Seconds from submission or eligibility, whichever is later, to the start, in whole seconds."""
        wait: np.ndarray = self.start - np.maximum(np.floor(self.submit), self.eligible)
        return wait

    def starts(self) -> dict[tuple[str, int], float]:
        """Map (key, task) to the start, for all jobs that started."""
        return {(r.key, r.task): float(t) for r, t in zip(self.requests, self.start) if t == t}


class Lengths(NamedTuple):
    """Predictions that replace time limits in Slurm's plans if they are shorter; jobs end at their recorded run time.

    With `restored`, running jobs are planned with their limits, as with `batchcast plan`, which restores the limit at a
    job's start. With `late`, a job is planned with its limit until `late` seconds after its submission, because a live
    collector must see the job first.
    """

    run_time_of: Callable[[NodeRequest], float]
    restored: bool = False
    late: float = 0.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """Records of a real controller: times when nodes were down (node, from, to), job starts, phases of periodic events,
    usage.

    Jobs in `fixed` start as recorded, whatever the scheduler decides, on any nodes if their nodes are not recorded.
    `usage` has the processor-seconds that (account, user) used before the simulation.
    """

    down: Sequence[tuple[str, float, float]] = ()
    fixed: Mapping[tuple[str, int], Takes] = field(default_factory=dict)
    phases: Phases = field(default_factory=Phases)
    usage: Mapping[tuple[str, str], float] = field(default_factory=dict)


def simulate_slurm(
    machine: Machine,
    requests: Sequence[NodeRequest],
    *,
    lengths: Lengths | None = None,
    recorded: Recorded = Recorded(),
    placements: int = 0,
    watched: tuple[str, int] | None = None,
    reorder: Reorder | None = None,
    tick: Callable[[int], None] | None = None,
    **rules: float,
) -> SlurmSchedule:
    """Simulate Slurm's main loop and backfill loop for the given requests and machine.

    The planned run times `lengths` replace time limits when the simulated Slurm plans. `recorded` has records of a real
    controller that the simulation reproduces. `placements` is the capacity for rows of allocated nodes. If `watched`
    names a job (key and task), the simulation ends soon after that job's start. `reorder` is called every 30 s and
    returns new priority factors of the waiting jobs. `rules` override settings (`since`, `until`, `bf_interval`, ... in
    seconds; `lazy=1` skips cycles without a change). Raises UsageError for a request that this machine cannot satisfy.

    >>> from batchcast.machines.machine import homogeneous
    >>> jobs = [NodeRequest("a", 0, 100, 120, tasks=16), NodeRequest("b", 1, 50, 60, tasks=8)]
    >>> simulate_slurm(homogeneous(1, 16), jobs).start.tolist()
    [0.0, 100.0]
    """
    ordered = tuple(sorted(requests, key=lambda r: r.submit))
    site, index = make_site(machine)
    places = {(r.key, r.task): k for k, r in enumerate(ordered)}
    jobs = make_jobs(index, ordered, {places[k]: v for k, v in recorded.fixed.items() if k in places})
    planned = limit = jobs.row["plan"][:-1]
    late = math.inf
    if lengths is not None:
        of = np.array([max(lengths.run_time_of(r), 1.0) for r in ordered])
        planned = np.where(limit >= 0, np.minimum(of, limit), of)
        if not lengths.restored:
            jobs.row["held"][:-1] = planned
        if lengths.late > 0:
            late = lengths.late
        else:
            jobs.row["plan"][:-1] = planned
    settings = make_rules(machine, **rules)
    # The description does not tell when a node that is down returns.
    always = ((name, -INFINITE, INFINITE) for group in machine.nodes for name in group.down)
    down = [(index["node"][name], a, b) for name, a, b in (*recorded.down, *always)]
    state = make_state(site, jobs, settings, recorded.phases, down=down, placements=placements)
    for who, seconds in recorded.usage.items():
        if (place := index["assoc"].get(who)) is not None:
            state.assoc["usage"][place] = seconds
    # Usage before the simulation must rank the users from the first priority on.
    fair_tree(site, state)
    until = places[watched] if watched is not None else NONE
    at_once = reorder is None and late == math.inf
    for now in [settings] if at_once else looks(site, jobs, settings, state, reorder, planned, late):
        while (done := advance(site, jobs, now, state, CHUNK if until == NONE else WATCHED)) >= 0:
            if tick is not None:
                tick(done)
            if until != NONE and state.job["status"][until] >= RUNNING:
                break
    return _schedule(machine, ordered, jobs, state)


def _schedule(machine: Machine, ordered: tuple[NodeRequest, ...], jobs: Any, state: Any) -> SlurmSchedule:
    """Return the outcome of a simulation that has ended."""
    out, job, row = state.out[: int(state.reg["out"][0])], state.job, jobs.row[:-1]
    started = (job["status"] >= RUNNING) & (job["part"] != NONE)
    last = np.arange(len(out)) >= job["first_out"][out["job"]]
    # an ended job has the values of its last run; a preempted job that waits again has no values
    out = out[last & started[out["job"]]]
    return SlurmSchedule(
        ordered,
        row["submit"],
        np.where(job["eligible"] >= 0, job["eligible"], np.floor(row["submit"])),
        np.where(started, job["start"], np.nan),
        np.where(started, job["began"], np.nan),
        row["run"],
        np.where(started, job["part"], NONE),
        job["backfilled"].astype(bool),
        np.stack([out["job"], out["node"], out["cpus"]], axis=1),
        job["runs"].copy(),
        float(state.reg["lost"][0]),
        machine.left_out,
    )
