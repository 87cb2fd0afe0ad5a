# SPDX-License-Identifier: Apache-2.0
"""`scheduler_replay`: simulates the present queue forward, as `squeue --start` does.

The simulation applies a scheduling policy to a pool of processors, or Slurm's main and backfill loops to the nodes of a
described machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from ...errors import UsageError
from ...events.event import Change, Event, Submit
from ...events.state import SystemState
from ...formats.slurm.resources import expand
from ...job import JobRequest
from ...machines.machine import Machine
from ...machines.request import UNKNOWN, MachineRequests, NodeRequest, keys_by_id
from ...schedule.slurm.arrays import INFINITE
from ...schedule.slurm.simulate import Recorded, Takes, simulate_slurm
from ..fallback import LargestLimit
from ..protocol import REFITTED, Grounds, Prediction, at_least_a_second, pass_on
from ..registry import make
from .forward import LARGEST, LIMIT, PLANNED, PROCS, ForwardPlans, Lengths
from .recent_wait import guess

Length = Callable[[JobRequest, SystemState], float]
LAST, DEPENDS = "asked", "dependency"
LONGEST = 1e9


def start_on(
    machine: Machine, job: JobRequest, at: SystemState, length: Length, machine_jobs: MachineJobs | None = None
) -> tuple[float, int] | str:
    """Return the start time of `job` if no more jobs are submitted, and how many other jobs were skipped.

    If the job can never start, the function returns the reason as text. Other jobs are skipped if they cannot fit the
    machine. Running jobs occupy their recorded nodes; if these are unknown, the simulation chooses the requested number
    of nodes. A running job ends after the run time that `length` returns, or now if it has already run longer. Queued
    jobs keep their submit times, which matter for Slurm's age priority, and wait for the jobs that they depend on.
    Nodes that are down now stay down during the simulation. Slurm's backfill plans with time limits, if they are known.
    Fair-share starts from the state's `usage`, or with equal shares if `usage` is unknown. A caller that simulates one
    state several times passes the same dictionary `machine_jobs`, which caches the jobs' requests.
    """
    machine_jobs = machine_jobs or MachineJobs.of(machine, at, job)
    mine = machine_jobs.request(LAST, job, at.now, length(job, at))
    if isinstance(mine, str):
        return mine
    starts, lost = _simulated(machine, machine_jobs, at, length, mine)
    start = starts.get((mine.key, mine.task))
    return "nodes, limits or reservations prevent its start" if start is None else (max(start, at.now), lost)


def starts_on(machine: Machine, at: SystemState, length: Length, machine_jobs: MachineJobs) -> dict[int, float]:
    """Return the start times of waiting jobs, by row, if no more jobs are submitted; jobs that never start are left
    out.
    """
    starts, _ = _simulated(machine, machine_jobs, at, length)
    return {int(key): max(start, at.now) for (key, _), start in starts.items() if int(key) in at.queued}


def _simulated(
    machine: Machine, machine_jobs: MachineJobs, at: SystemState, length: Length, mine: NodeRequest | None = None
) -> tuple[dict[tuple[str, int], float], int]:
    """Simulate from now on, up to the start of the job `mine` if given; return all starts and the number of skipped
    jobs."""
    parts = {p.name: k for k, p in enumerate(machine.partitions)}
    fixed: dict[tuple[str, int], Takes] = {}
    requests, lost = [], 0
    for key, each, start, nodes in machine_jobs.other_jobs:
        span = length(each, at)
        if start is not None:
            span = max(start + span, at.now + 1.0) - start
        made = machine_jobs.request(key, each, min(each.submit_time, at.now), span)
        if isinstance(made, str):
            lost += 1
            continue
        requests.append(made)
        if start is not None:
            held = tuple((node, math.ceil(made.cpus / len(nodes))) for node in nodes)
            fixed[made.key, made.task] = (start, parts[made.partitions[0]], held)
    watched = None if mine is None else (mine.key, mine.task)
    wanted = requests if mine is None else [*requests, mine]
    now = Recorded(machine_jobs.down, fixed, usage=used_before(at))
    done = simulate_slurm(machine, wanted, recorded=now, since=at.now, watched=watched, lazy=1)
    return done.starts(), lost


def used_before(at: SystemState) -> dict[tuple[str, str], float]:
    """Return the past usage of each (account, user), without the usage of running jobs, which the simulation adds."""
    used = dict(at.usage)
    for held in at.running.values() if used else ():
        who = str(held.job.account), str(held.job.user_id)
        if who in used:
            used[who] = max(used[who] - held.job.procs * max(at.now - held.start_time, 0.0), 0.0)
    return used


OtherJob = tuple[str, JobRequest, float | None, tuple[int, ...]]
"""A running or waiting job: key, request, start time (None if waiting), and indices of its nodes (() if unknown)."""


class MachineJobs(NamedTuple):
    """Requests of jobs on a machine: sizes and names of the machine, running and waiting jobs, keys by job id, nodes
    that are down, and cached requests."""

    requests: MachineRequests
    other_jobs: list[OtherJob]
    keys: Mapping[str, Sequence[str]]
    down: list[tuple[str, float, float]]
    cached_requests: dict[str, NodeRequest | str]

    @classmethod
    def of(cls, machine: Machine, at: SystemState, job: JobRequest | None = None) -> MachineJobs:
        """Collect the running and waiting jobs other than `job`. Dependencies on jobs that have left the system count
        as met."""
        node_index = {name: k for k, name in enumerate(machine.node_names())} if at.nodes or at.nodes_away else {}
        other_jobs: list[OtherJob] = [
            (str(row), held.job, held.start_time, node_indices(at.nodes.get(row), node_index))
            for row, held in at.running.items()
        ]
        itself = -1 if job is None else job.row
        other_jobs += [(str(row), each, None, ()) for row, each in at.queued.items() if row != itself]
        every = [each for _, each, *_ in other_jobs] if job is None else [job, *(each for _, each, *_ in other_jobs)]
        depends = any(each.extra.get(DEPENDS) for each in every)
        keys = keys_by_id({key: each.job_id for key, each, *_ in other_jobs}) if depends else {}
        down = [(name, -INFINITE, INFINITE) for name in sorted(at.nodes_away) if name in node_index]
        return cls(MachineRequests(machine), other_jobs, keys, down, {})

    def request(self, key: str, job: JobRequest, submit: float, span: float) -> NodeRequest | str:
        """Return a job's request, or the reason why it cannot fit the machine."""
        run = min(span, LONGEST)
        if not run >= 0:
            return UNKNOWN
        made = self.cached_requests.get(key)
        if made is None:  # only times differ between calls, so everything else is computed once
            made = self.cached_requests[key] = self._request(key, job, submit)
        limit = max(job.req_time, run) if job.req_time > 0 else run
        return made if isinstance(made, str) else replace(made, run=run, limit=limit if limit > 0 else math.nan)

    def _request(self, key: str, job: JobRequest, submit: float) -> NodeRequest | str:
        """Return a job's request with a run time of one second, or the reason why it cannot fit."""
        each = job.req_mem_kib / job.procs if job.procs > 0 else job.req_mem_kib
        made = self.requests.request(key, job._replace(submit_time=submit), 1.0, kib_per_proc=each)
        return made if isinstance(made, str) else self.requests.complete(made, job.job_id, job.extra, self.keys)


def node_indices(nodes: str | None, node_index: Mapping[str, int]) -> tuple[int, ...]:
    """Return the indices of the nodes of a host list; () if one of the nodes is not in `node_index`.

    >>> node_indices("n[1-2]", {"n1": 0, "n2": 1}), node_indices("n[1-2]", {"n1": 0}), node_indices("n[", {})
    ((0, 1), (), ())
    """
    try:
        names = expand(nodes or "")
    except UsageError:
        return ()
    return tuple(node_index[name] for name in names) if all(name in node_index for name in names) else ()


class SchedulerReplay:
    """Simulates the present queue forward without later arrivals, and predicts the job's start.

    Parameters
    ----------
    policy
        Scheduling policy: `fcfs`, `easy`, `easy-sjbf`.
    runtime
        Run-time predictor. The simulation uses the run times predicted at submission, at most the time limit, as
        planned run times.
    level
        Nominal level of the bound; later arrivals that overtake the job are not anticipated.
    machine
        A described machine (`machines.machine`): Slurm's main and backfill loops on the machine's nodes, with its
        priorities and limits, replace `policy`. Set it in Python, or by `wait --machine FILE` and `start --test
        --machine FILE`.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Running jobs end at their planned end times: the planned end that the state records, if there is one, else start +
    planned run time. A job past its planned end time ends now. The queue is served in order of arrival. The point uses
    planned run times, the bound uses time limits. A job without a limit is planned with the largest limit so far. The
    method does not learn from the waits of started jobs.

    A new job joins the end of the queue, so the new job does not affect the starts of other jobs. One simulation per
    state therefore serves all predictions. The simulation is computed as far as needed, and stays valid as long as the
    only events are submissions and planned starts; an end, or an unplanned start, requires a new simulation. A new
    simulation costs about a microsecond a job, a prediction from an existing simulation takes some ten microseconds.
    With `machine` every prediction needs its own simulation, some tens of microseconds per running or waiting job,
    because a job of high priority may change the starts of others.

    References
    ----------
    Lifka, The ANL/IBM SP scheduling system, JSSPP 1995, doi:10.1007/3-540-60153-8_35.

    Examples
    --------
    >>> state, job = SystemState(8.0), JobRequest(0, 1, 0.0, 4.0, 600.0, float("nan"))
    >>> SchedulerReplay().predict(job, state).point
    1.0
    """

    holds_entries = True
    answers_by = "point"

    def __init__(
        self,
        policy: Literal["fcfs", "easy", "easy-sjbf"] = "easy",
        runtime: str = "requested",
        level: float = 0.95,
        machine: Machine | None = None,
    ) -> None:
        if not 0 < level < 1:
            raise ValueError("level lies between 0 and 1")
        self.policy, self.runtime, self.level, self.machine = policy, runtime, level, machine
        self.method = None if runtime == "requested" else make("runtime", runtime, known_at_submit=None)
        self.uses = getattr(self.method, "uses", ())  # the caller checks that these columns are known at submission
        pass_on(self.method, self, *REFITTED)
        self.limits = LargestLimit()
        self.peak = 0.0
        self.plans = ForwardPlans(self._lengths, policy)

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Simulate forward from now with the job last in the queue, and return its start."""
        if self.machine is not None:
            return self._on_nodes(self.machine, job, at)
        own = self._lengths(job, at)
        total = min(at.total if at.total == at.total else max(self.peak, own[PROCS]), LARGEST)
        if not own[PROCS] <= total:
            point, _ = guess(job, at, 0.0)
            return self._prediction(point, point, "the job is larger than the machine and cannot start")
        point = self.plans.start(at, total, own[PROCS], own[PLANNED], PLANNED) - at.now
        bound = point
        if self.method is not None:
            bound = max(point, self.plans.start(at, total, own[PROCS], own[LIMIT], LIMIT) - at.now)
        running, queued = at.columns().counts()
        return self._prediction(point, bound, f"{self.policy} simulated forward, {running} running, {queued} queued")

    def _prediction(self, point: float, bound: float, basis: str) -> Prediction:
        """Return the prediction of a wait of `point` seconds, with `bound` as its upper bound."""
        point, bound = at_least_a_second(point), at_least_a_second(bound)
        return Prediction(point, (self.level,), (bound,), basis, Grounds.SIMULATION)

    def _on_nodes(self, machine: Machine, job: JobRequest, at: SystemState) -> Prediction:
        """Simulate forward with Slurm's two loops on a described machine."""
        found = start_on(machine, job, at, lambda each, now: self._lengths(each, now)[PLANNED])
        if isinstance(found, str):
            point, _ = guess(job, at, 0.0)
            return self._prediction(point, point, f"the job cannot start: {found}")
        instant, lost = found
        bound = instant
        if self.method is not None and not isinstance(
            later := start_on(machine, job, at, lambda each, now: self._lengths(each, now)[LIMIT]), str
        ):
            bound = max(instant, later[0])
        running, queued = at.columns().counts()
        apart = f", {lost} of them need parts that this machine does not have" if lost else ""
        loops = f"Slurm's loops on {machine.cpus} processors"
        basis = f"{loops} simulated forward, {running} running, {queued} queued{apart}"
        return self._prediction(instant - at.now, bound - at.now, basis)

    def use_machine(self, machine: Machine | None) -> None:
        """Simulate on this machine from now on. Only one machine can replace another: a pool needs all past events."""
        if self.machine is not None and machine is not None:
            self.machine = machine

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit: store the job's planned run time. All events: discard the plan if the event was not planned."""
        if isinstance(event, (Submit, Change)):
            self.limits.note(event.job.req_time)
        if self.machine is None:
            self.plans.observe(event, at)
        if at.total != at.total:
            self.peak = max(self.peak, at.running_procs)
        if self.method is not None:
            self.method.observe(event, at)

    def _lengths(self, job: JobRequest, at: SystemState) -> Lengths:
        """Return whole processors, planned run time and limit."""
        limit = min(at_least_a_second(self.limits.of(job.req_time)), 1e9)
        planned = limit if self.method is None else min(self.method.predict(job, at).point, limit)
        procs = float(np.ceil(job.procs)) if 0 < job.procs < LARGEST else 0.0 if not job.procs > 0 else np.inf
        return max(procs, 1.0), planned, limit
