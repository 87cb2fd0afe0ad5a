# SPDX-License-Identifier: Apache-2.0
"""Slurm's scheduler on a described machine: who starts when, on which nodes.

And the instants between the loops' own at which waiting jobs get somebody's new factors.
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
from .arrays import FAR, NONE, QUEUED, RUNNING, Jobs, Rules, Site, State
from .clock import PATIENCE, advance
from .priority import fair_tree, reprioritize
from .requests import Phases, make_jobs, make_rules, make_state
from .site import make_site

LOOKS_S = 30.0
"""So often somebody looks; looks at which nothing could change are left out."""


class Seen(NamedTuple):
    """Waiting jobs at one look, arrays (k,): places among the requests, since when only the queue holds each (s, NaN:
    something else does), its priority, the factor in it; numbers of array (-1: none), account and user."""

    now: float
    places: np.ndarray
    arrival: np.ndarray
    priority: np.ndarray
    factor: np.ndarray
    array: np.ndarray
    account: np.ndarray
    user: np.ndarray


Reorder = Callable[[Seen], tuple[np.ndarray, float]]
"""New factors (k,), and when they change next by themselves (s; infinity: not before somebody else comes)."""


class Planned(NamedTuple):
    """Lengths (n,) by submission that waiting jobs are planned with from the first look `late` seconds after it on."""

    lengths: np.ndarray
    late: float


def looks(
    site: Site, jobs: Jobs, rules: Rules, s: State, reorder: Reorder | None, planned: Planned | None
) -> Iterator[Rules]:
    """The rules to go on with up to each look, at which new factors and lengths are set. Ends when nothing is to come.

    UsageError where a QOS may preempt and jobs are reordered: its order is no order of priorities.
    """
    if reorder is not None and jobs.row["preempts"].any():
        raise UsageError("order: this machine's QOS preempt each other, and that is not modelled together")
    factor = np.zeros(len(jobs.row), np.int64)
    submits = jobs.row["submit"][:-1]  # in order
    first = float(submits[0]) if len(submits) else 0.0
    due, set_up_to = first, 0
    while True:
        at = first + math.ceil((due - first) / LOOKS_S) * LOOKS_S if due < FAR else FAR
        yield rules._replace(until=at)
        if at >= FAR or _over(s):
            return
        changes = FAR if reorder is None else _look(site, jobs, rules, s, factor, at, reorder)
        k = int(np.searchsorted(submits, at, side="right"))
        changes = min(changes, float(submits[k]) if k < len(submits) else FAR)
        if planned is not None:
            k = int(np.searchsorted(submits, at - planned.late, side="right"))
            if k > set_up_to:
                updated = np.zeros(len(factor), bool)
                updated[set_up_to:k] = jobs.row["plan"][set_up_to:k] != planned.lengths[set_up_to:k]
                jobs.row["plan"][set_up_to:k] = planned.lengths[set_up_to:k]
                reprioritize(site, jobs, rules, s, updated, at)
                _wake(rules, s, at)
                set_up_to = k
            changes = min(changes, float(submits[k]) + planned.late if k < len(submits) else FAR)
        due = max(changes, at + LOOKS_S)


def _over(s: State) -> bool:
    """Whether the last job has ended, or what still waits waits for nothing."""
    idle = s.reg["submitted"][0] == len(s.order) and s.reg["running"][0] == 0 and s.reg["heap"][0] == 0
    return bool(idle and (s.reg["queue"][0] == s.reg["first"][0] or s.reg["quiet"][0] > PATIENCE))


def _look(site: Site, jobs: Jobs, rules: Rules, s: State, factor: np.ndarray, at: float, reorder: Reorder) -> float:
    """One look: who waits, their new factors, the queue in its new order."""
    queue = s.queue[int(s.reg["first"][0]) : int(s.reg["queue"][0])]
    waits = s.job["status"][queue["job"]] == QUEUED
    places, pairs = np.unique(queue["job"][waits], return_index=True)
    if not len(places):
        return FAR
    row, since = jobs.row[places], s.job["eligible"][places]
    seen = Seen(
        at, places, np.where(since >= 0, since, np.nan), -queue["order"][waits][pairs], factor[places], row["array"],
        row["account"], row["user"],
    )  # fmt: skip
    new, changes = reorder(seen)
    if (new != seen.factor).any():
        updated = np.zeros(len(factor), bool)
        updated[places] = new != seen.factor
        factor[places] = new
        jobs.row["nice"][places] -= new - seen.factor  # of who waits alone: a look is no pass over the log
        reprioritize(site, jobs, rules, s, updated, at)
        _wake(rules, s, at)
    return min(changes, FAR)


def _wake(rules: Rules, s: State, at: float) -> None:
    """Slurm schedules after an update; instants that were skipped because nothing changed are there again."""
    s.reg["asked"][0] = s.reg["dirty"][0] = 1
    s.reg["polls"][0] = min(s.reg["polls"][0], max(math.ceil((at - s.reg["first_poll"][0]) / rules.poll), 0))
    s.reg["cycle"][0] -= max(math.floor((s.reg["cycle"][0] - at) / rules.bf_interval), 0) * rules.bf_interval


CHUNK = 50_000
WATCHED = 200  # instants between two checks of a job that is waited for
Takes = tuple[float, int, tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class SlurmSchedule:
    """What became of each request, arrays (n,) in order of submission; seconds on the log's clock, NaN: never started.

    `start` is in whole seconds, as Slurm says it, `began` with their fraction; `eligible` is since when nothing but the
    queue held the job; `partition` is -1 where it never started. `placement`
    (rows of job, node, processors) is empty unless it was asked for. `preempted` says how often a job gave way:
    requeued ones run again from the start, and what is said of them is their last run; one cancelled has a `run` that
    is cut. `lost` are the processor seconds of runs that were broken off.
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
        """Seconds from submission or eligibility, whichever is later, to the start, in whole seconds as Slurm says."""
        wait: np.ndarray = self.start - np.maximum(np.floor(self.submit), self.eligible)
        return wait

    def starts(self) -> dict[tuple[str, int], float]:
        """Start by (key, task) of the jobs that started."""
        return {(r.key, r.task): float(t) for r, t in zip(self.requests, self.start) if t == t}


class Lengths(NamedTuple):
    """Forecasts that Slurm plans ends and candidates with where they are below the limit; a job still ends by its run.

    With `restored` only waiting jobs are planned so, and running ones with their limits, as where `batchcast plan`
    gives a limit back at the start. With `late` a job is planned with its limit until the first look so many
    seconds after its submission, as where a collector has to see it first.
    """

    of: Callable[[NodeRequest], float]
    restored: bool = False
    late: float = 0.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a record tells of a real controller: nodes that were down (node, from, to), who started, its phases.

    The jobs in `fixed` start as recorded, whatever the scheduler says, on any nodes where it names none. `usage` is
    what accounts' users have used before the simulation begins, in processor-seconds by (account, user).
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
    """The schedule that Slurm's two loops make of these requests on this machine.

    `lengths` are planned with in place of limits; `recorded` holds the simulation to a record. `placements` keeps so
    many rows of who had which node; with `watched` (a key and task) the simulation ends soon after that job's start;
    `reorder` gives waiting jobs factors at looks of 30 s.
    `rules` override settings (`since`, `until`, `bf_interval`, ... in seconds; `lazy=1` skips cycles between which
    nothing changed).
    Raises UsageError for a request that this machine cannot have.

    >>> from batchcast.machines.machine import homogeneous
    >>> jobs = [NodeRequest("a", 0, 100, 120, tasks=16), NodeRequest("b", 1, 50, 60, tasks=8)]
    >>> simulate_slurm(homogeneous(1, 16), jobs).start.tolist()
    [0.0, 100.0]
    """
    ordered = tuple(sorted(requests, key=lambda r: r.submit))
    site, index = make_site(machine)
    places = {(r.key, r.task): k for k, r in enumerate(ordered)}
    jobs = make_jobs(index, ordered, {places[k]: v for k, v in recorded.fixed.items() if k in places})
    planned = None
    if lengths is not None:
        limit, of = jobs.row["plan"][:-1], np.array([max(lengths.of(r), 1.0) for r in ordered])
        shorter = np.where(limit >= 0, np.minimum(of, limit), of)
        if not lengths.restored:
            jobs.row["held"][:-1] = shorter
        if lengths.late > 0:
            planned = Planned(shorter, lengths.late)
        else:
            jobs.row["plan"][:-1] = shorter
    settings = make_rules(machine, **rules)
    always = ((name, -FAR, FAR) for group in machine.nodes for name in group.down)
    down = [(index["node"][name], a, b) for name, a, b in (*recorded.down, *always)]
    state = make_state(site, jobs, settings, recorded.phases, down=down, placements=placements)
    for who, seconds in recorded.usage.items():
        if (place := index["assoc"].get(who)) is not None:
            state.assoc["usage"][place] = seconds
    fair_tree(site, state)
    until = places[watched] if watched is not None else NONE
    for now in (
        [settings] if reorder is None and planned is None else looks(site, jobs, settings, state, reorder, planned)
    ):
        while (done := advance(site, jobs, now, state, CHUNK if until == NONE else WATCHED)) >= 0:
            if tick is not None:
                tick(done)
            if until != NONE and state.job["status"][until] >= RUNNING:
                break
    return _schedule(machine, ordered, jobs, state)


def _schedule(machine: Machine, ordered: tuple[NodeRequest, ...], jobs: Any, state: Any) -> SlurmSchedule:
    out, job, row = state.out[: int(state.reg["out"][0])], state.job, jobs.row[:-1]
    started = (job["status"] >= RUNNING) & (job["part"] != NONE)
    last = np.arange(len(out)) >= job["first_out"][out["job"]]
    out = out[last & started[out["job"]]]  # of each job's last run; none of one that gave way and waits again
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
