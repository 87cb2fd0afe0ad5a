# SPDX-License-Identifier: Apache-2.0
"""The components that `forecast` combines: its model, simulated waits, recent waits, simulation on a machine's nodes.

The module also computes the components' features for a whole log.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import partial
from typing import NamedTuple

import numpy as np

from ...events.event import END, START, SUBMIT, WITHDRAW, Change, End, Event, Submit, Withdraw
from ...events.record import Columns, requests_of
from ...events.recorded import event_table, replay, timeline
from ...events.state import Cancelled, SystemState
from ...job import JobRequest
from ...machines.machine import Machine
from ...table import Trace
from ..hazard import features as kernel
from ..hazard.bins import BINS
from ..hazard.calibrated_waits import jitter
from ..hazard.components import (
    DRAWS,
    SAID_NOTHING,
    SPREADS,
    Lag,
    Nodes,
    RecentWaits,
    curves_on_nodes,
    simulated_curves,
)
from ..hazard.features import AT_DRAWS, describe_queue
from ..hazard.history_features import WaitHistory, blank_history, level_of, with_room
from ..hazard.queue_features import COUNT
from ..hazard.renewal import EVERY, LEAST_VOTES, Snapshot, sampled_places
from ..hazard.simulated_waits import PLANS
from ..hazard.training_rows import Bursts
from ..protocol import Grounds, Prediction
from ..runtime.kernel import Kernel, RunTimes
from .scheduler_replay import Asked, Length, start_on, starts_on

Looks = dict[int, Snapshot]
Class = tuple[int, int, int, int]
Sender = tuple[int, ...]
Who = tuple[Class, Sender]


class Log(NamedTuple):
    """The features and events of a whole log, as input of `forecast`.

    `rows` are features (n, f), `keys` the jobs' classes, and an event is (time, kind, row, wait to learn or NaN). The
    key of a snapshot (a sample of waiting jobs) is the row of the last submission before the snapshot.
    """

    rows: np.ndarray
    keys: list[Class]
    senders: list[Sender]
    events: list[tuple[float, int, int, float]]
    snapshots: Looks


def seen_in(
    trace: Trace,
    protocol: str,
    procs: str,
    total: float | None,
    cancelled: Cancelled = "count",
    seed: int | None = None,
) -> Log:
    """Compute all features of a log, on a machine of `total` processors or of the size that the log gives.

    `seed` is the seed for drawing samples of waiting jobs (snapshots); without a seed, no snapshots are taken. The time
    per submission is linear in the number of waiting and running jobs.
    """
    n = len(trace)
    run_times = Kernel().predict_trace(trace, protocol, procs)
    runs = np.full((n, COUNT), np.nan, np.float32)
    if run_times.levels:
        runs[:] = run_times.quantiles
    requests, codes = requests_of(trace, procs)
    plan = timeline(trace, protocol)
    events = event_table(trace, plan)
    state = Columns(trace.info.max_procs if total is None else total, n)
    state.make_room(n, len(codes["user_id"]) + 1)
    room, history = kernel.blank_room(*most_at_once(plan.kind)), blank_history()
    rows, taught = np.zeros((n, len(kernel.NAMES)), np.float32), np.full(len(events), np.nan)
    snapshots: Looks = {}
    looked_after = np.flatnonzero(plan.kind == SUBMIT)[EVERY - 1 :: EVERY].tolist()
    keys, senders = [class_of(job) for job in requests], [sender_of(job) for job in requests]
    bursts, votes = Bursts(), 0
    first, counts = 0, cancelled == "count"
    for number, last in enumerate((*looked_after, len(events) - 1), 1):
        history = with_room(history, last + 1 - first)
        kernel.describe_log(state.record, history, requests, events, first, last + 1, counts, runs, room, rows, taught)
        part = slice(first, last + 1)
        steps = zip(plan.kind[part].tolist(), plan.index[part].tolist(), taught[part].tolist())
        votes += votes_of(bursts, steps, senders, counts)
        if seed is not None and number <= len(looked_after) and votes >= LEAST_VOTES:
            now = float(plan.time[last])
            places = sampled_places(now - state.jobs["submit"][state.queued_entries()], EVERY * number, seed)
            snapshots[int(plan.index[last])] = look_at(state, history, places, now, runs, room)
            votes = 0
        first = last + 1
    told = zip(plan.time.tolist(), plan.kind.tolist(), plan.index.tolist(), taught.tolist())
    return Log(rows, keys, senders, list(told), snapshots)


def votes_of(bursts: Bursts, steps: Iterable[tuple[int, int, float]], senders: list[Sender], left_teach: bool) -> int:
    """Return how many submissions among `events` (rows of kind, row, wait to learn or NaN) count as evidence."""
    votes = 0
    for kind, row, taught in steps:
        if kind == SUBMIT:
            votes += bursts.counts(row, senders[row])
        elif kind in (START, WITHDRAW, END):
            bursts.resolved(row, taught == taught and (left_teach or kind != WITHDRAW))
    return votes


def look_at(
    state: Columns, history: WaitHistory, places: np.ndarray, now: float, runs: np.ndarray, room: kernel.Room
) -> Snapshot:
    """Return the waits so far and the features of the queued jobs at positions `places`.

    Each draw of run times is simulated once for all queued jobs.
    """
    queue = state.queued_entries()
    jobs = state.jobs[queue[places]]
    features = np.zeros((len(places), len(kernel.NAMES)), np.float32)
    if len(places):
        waits = np.zeros((len(PLANS), len(queue)))
        describe_queue(state.record, history, now, runs, room, places.astype(np.int64), waits, features)
    nothing = np.tile(SAID_NOTHING, (len(places), 1))
    return Snapshot(jobs["row"].copy(), np.maximum(now - jobs["submit"], 0.0), features, nothing)


def class_of(job: np.void) -> Class:
    """Return the class of jobs whose recent waits are used for this job: same queue, partition, QOS and size class.

    QOS is included because a QOS that preempts, or has a dominant priority weight, starts jobs in seconds while other
    jobs wait for hours.
    """
    return int(job["queue"]), int(job["partition"]), int(job["qos"]), level_of(float(job["procs"]), 31)


def sender_of(job: np.void) -> Sender:
    """Return the sender of a job: its user; if the user is unknown, all jobs of its class count as one sender."""
    return (int(job["user"]),) if job["user"] > 0 else class_of(job)


def most_at_once(kind: np.ndarray) -> tuple[int, int]:
    """Return the largest numbers, plus one, of running and of queued jobs at any time of a log."""
    queued = np.cumsum(np.where(kind == SUBMIT, 1, np.where((kind == START) | (kind == WITHDRAW), -1, 0)))
    running = np.cumsum(np.where(kind == START, 1, np.where(kind == END, -1, 0)))
    return int(running.max(initial=0)) + 1, int(queued.max(initial=0)) + 1


MOST_WAITING = 2000
"""Only this many waiting jobs get a remaining wait from the node simulation."""
MOST_ANEW = 300
"""With more jobs than this, run times predicted at submission are used, because predicting them again would be slow."""


BURST_SIMULATED = 16
"""The first 16 jobs of a burst are simulated one by one, then one job each time that the burst has grown by 1/16."""
BURST_SECONDS = 60.0
"""A simulated wait is reused for later jobs of the burst for at most this many seconds."""


class Burst(NamedTuple):
    """A series of equal jobs that were submitted with no other event between them, and the waits that were last
    simulated for one of them.

    A task of a job array starts when the task before it starts, or a little later. Therefore one simulation is used for
    several array tasks. If each task were simulated, an array of ten thousand tasks would take ten thousand simulations
    of up to ten thousand waiting jobs.
    """

    job: JobRequest
    jobs: int
    simulated_at: float
    simulated_jobs: int
    waits: tuple[float, ...]

    def answers(self, job: JobRequest, now: float) -> bool:
        """Return whether the waits simulated for an earlier job of the burst can be used for this job too."""
        grown = (self.jobs + 1 - self.simulated_jobs) * BURST_SIMULATED
        fresh = now - self.simulated_at <= BURST_SECONDS
        return fresh and grown <= self.simulated_jobs and self.is_of(job)

    def is_of(self, job: JobRequest) -> bool:
        """Return whether the job's request equals the request of the burst's jobs."""
        return _request_of(job) == _request_of(self.job)


def _request_of(job: JobRequest) -> tuple[object, ...]:
    """Return a request except row, id and submit time, and whether it is an array task; NaN becomes None."""
    asks = (*job[3:], "_" in str(job.job_id))
    return tuple(None if value != value else value for value in asks)


class NodesComponent:
    """Simulates waits with Slurm's main and backfill loops on a machine, with a few draws of run times (futures).

    A further prediction is shifted by the observed lag of true behind simulated waits. In each future, every job's run
    time is another quantile of `kernel`'s distribution, conditioned on the time that the job has already run. The
    quantiles are spread evenly over futures and jobs, so no random generator is needed.

    Parameters
    ----------
    machine
        The described machine.

    >>> from batchcast.machines.machine import homogeneous
    >>> way = NodesComponent(homogeneous(2, 4, 4000.0))
    >>> job = JobRequest(0, 1, 0.0, 4.0, 600.0, float("nan"))
    >>> way.predict(job, SystemState(8.0)).point, way.curves((math.log1p(60.0),) * DRAWS, (0, 0, 0, 1)).shape
    (0.0, (3, 33))
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.run_times = Kernel()
        self.expected: dict[int, RunTimes] = {}
        self.lag = Lag()
        self.burst: Burst | None = None
        self.last: tuple[JobRequest, int, tuple[float, ...]] | None = None

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the simulated waits (DRAWS,) in seconds as quantiles, without later arrivals; NaN for a future in
        which the job never starts.
        """
        waits = self._waits(job, at)
        self.last = job, at.version, waits
        levels = tuple((draw + 0.5) / DRAWS for draw in range(DRAWS))
        return Prediction(waits[DRAWS // 2], levels, waits, "simulated on nodes", Grounds.SIMULATION)

    def of_waiting(self, at: SystemState) -> dict[int, Nodes]:
        """Return the simulated log(1 + remaining wait) of waiting jobs in each future, by row, without jobs that never
        start.
        """
        if not 0 < len(at.queued) <= MOST_WAITING:
            return {}
        asked = Asked.of(self.machine, at)
        futures = [starts_on(self.machine, at, length, asked) for length in self._futures(at)]
        together = set(futures[0]).intersection(*futures[1:])
        return {row: tuple(sorted(math.log1p(future[row] - at.now) for future in futures)) for row in together}

    def _futures(self, at: SystemState) -> list[Length]:
        """Return, for each future, a function that returns a job's run time."""
        drawn: dict[int, list[float]] = {}
        known = self.expected if len(at.running) + len(at.queued) > MOST_ANEW else {}

        def length(draw: int, each: JobRequest, now: SystemState) -> float:
            if each.row not in drawn:
                drawn[each.row] = self._drawn(each, now, known)
            return drawn[each.row][draw]

        return [partial(length, draw) for draw in range(DRAWS)]

    def observe(self, event: Event, at: SystemState) -> None:
        """Update the run-time predictor and the current burst with an event."""
        self.burst = self._grown(event.job, at) if isinstance(event, Submit) else None
        self.run_times.observe(event, at)
        if isinstance(event, Submit | Change):
            runs = self.run_times.distribution(event.job, at)
            if len(runs.seconds):
                self.expected[event.job.row] = runs
        elif isinstance(event, End | Withdraw):
            self.expected.pop(event.job.row, None)

    def simulated(self, job: JobRequest, at: SystemState) -> Nodes:
        """Return log(1 + wait) of the waits that `predict` returns."""
        return tuple(math.log1p(wait) for wait in self.predict(job, at).quantiles)

    def of_trace(self, trace: Trace, protocol: str, procs: str, total: float, looks: Looks) -> list[Nodes]:
        """Simulate the waits of every job of a log at its submission; add simulated remaining waits to the snapshots of
        waiting jobs, `looks`.
        """
        fresh = _OfLog(self.machine, looks)
        said = replay(trace, {"nodes": fresh}, protocol=protocol, procs=procs, total=total)
        return [tuple(waits) for waits in np.log1p(said["nodes"].quantiles).tolist()]

    def of_look(self, look: Snapshot, at: SystemState) -> Snapshot:
        """Add the remaining waits of the node simulation to a snapshot of waiting jobs."""
        said = self.of_waiting(at)
        each = [said.get(row, SAID_NOTHING) for row in look.row.tolist()]
        return look._replace(on_nodes=np.array(each).reshape(-1, DRAWS))

    def curves(self, simulated: Nodes, key: Class) -> np.ndarray:
        """Return wait distributions (3, 33) around simulated log(1 + wait): one distribution for each spread in
        SPREADS, and one shifted by the lag.

        NaN if the job never starts in one of the simulated futures.
        """
        return curves_on_nodes(simulated, self.lag.of(simulated[DRAWS // 2], key))

    def ended(self, simulated: Nodes, wait: float, key: Class) -> None:
        """Update the lag of class `key` with a job that waited `wait` seconds and its simulated log(1 + wait)."""
        self.lag.add(simulated[DRAWS // 2], wait, key)

    def _waits(self, job: JobRequest, at: SystemState) -> tuple[float, ...]:
        """Return the sorted waits in all futures; reuse the waits simulated for an earlier job of the burst if
        possible.
        """
        if self.burst is not None and self.burst.answers(job, at.now):
            return self.burst.waits
        asked = Asked.of(self.machine, at, job)
        return tuple(sorted(self._wait(job, at, length, asked) for length in self._futures(at)))

    def _grown(self, job: JobRequest, at: SystemState) -> Burst:
        """Return the burst with the job submitted just now, or a new burst if the job's request differs."""
        # Every caller predicts a job before it submits the job. The burst depends on events only, so calls of `predict`
        # do not change later results.
        if self.last is not None and self.last[0] is job and self.last[1] == at.version - 1:
            waits = self.last[2]
        else:
            waits = self._waits(job, at)
        self.last = None
        if self.burst is None or not self.burst.is_of(job):
            return Burst(job, 1, at.now, 1, waits)
        if self.burst.answers(job, at.now):
            return self.burst._replace(jobs=self.burst.jobs + 1)
        jobs = self.burst.jobs + 1
        return Burst(job, jobs, at.now, jobs, waits)

    def _wait(self, job: JobRequest, at: SystemState, length: Length, asked: Asked) -> float:
        """Return the job's wait in seconds in a simulation with the run times that `length` returns; NaN if the job
        never starts."""
        found = start_on(self.machine, job, at, length, asked)
        return math.nan if isinstance(found, str) else found[0] - at.now

    def _drawn(self, job: JobRequest, at: SystemState, known: Mapping[int, RunTimes]) -> list[float]:
        """Return a job's total run time in each future; if there are no similar jobs, the time limit or its
        replacement."""
        runs, held = known.get(job.row) or self.run_times.distribution(job, at), at.running.get(job.row)
        if held is not None and len(runs.seconds):
            elapsed = at.now - held.start_time
            runs = runs.given(elapsed)
            if not len(runs.seconds):
                return [self.run_times.revise(job, elapsed, at)] * DRAWS
        if not len(runs.seconds):
            return [job.req_time if job.req_time > 0 else self.run_times.predict(job, at).point] * DRAWS
        places = (jitter(job.row) + np.arange(DRAWS) / DRAWS) % 1.0
        at_places = np.searchsorted(np.cumsum(runs.weights), places)
        drawn: list[float] = runs.seconds[np.minimum(at_places, len(runs.seconds) - 1)].tolist()
        return drawn


class _OfLog(NodesComponent):
    """The node simulation of a whole log, which also adds simulated waits to the snapshots of waiting jobs in
    `looks`."""

    def __init__(self, machine: Machine, looks: Looks) -> None:
        super().__init__(machine)
        self.looks = looks

    def observe(self, event: Event, at: SystemState) -> None:
        super().observe(event, at)
        if isinstance(event, Submit) and (look := self.looks.get(event.job.row)) is not None:
            self.looks[event.job.row] = self.of_look(look, at)


class Seen(NamedTuple):
    """Intermediate results of the prediction for a job submitted now: run-time quantiles, features, simulated waits on
    nodes, component curves.
    """

    run: np.ndarray
    features: np.ndarray
    on_nodes: Nodes
    curves: np.ndarray


COMPONENTS = (
    *("simulation on the machine's nodes" for _ in SPREADS),
    "simulation on the machine's nodes, with the observed lag",
    *("simulation" for _ in SPREADS),
    "simulation, with the observed lag",
    "recent waits",
    "model",
)
GROUNDS = (*(Grounds.SIMULATION for _ in COMPONENTS[:-2]), Grounds.CLASS, Grounds.MODEL)


class Components:
    """Computes the predicted distributions of all components, and updates the components that learn from every outcome.

    Parameters
    ----------
    machine
        A described machine. If `machine` is None, there is no node simulation.

    >>> components = Components(None)
    >>> components.ended((0, 0, 0, 1), 0.0, SAID_NOTHING, 30.0)
    >>> from batchcast.predict.hazard.features import NAMES
    >>> features, unknown = np.zeros(len(NAMES), np.float32), np.full(BINS, np.nan)
    >>> components.curves(features, (0, 0, 0, 1), SAID_NOTHING, unknown)[:, -1].tolist()
    [nan, nan, nan, 1.0, 1.0, 1.0, 1.0, nan]
    """

    def __init__(self, machine: Machine | None) -> None:
        self.recent = RecentWaits()
        self.lag = Lag()
        self.nodes = NodesComponent(machine) if machine is not None else None

    def use_machine(self, machine: Machine | None, run_time: Kernel) -> None:
        """Use the nodes of this machine from now on; run times and lags that were learned on the previous machine are
        kept."""
        if machine is None:
            self.nodes = None
        elif self.nodes is not None:
            self.nodes.machine = machine
        else:
            self.nodes = NodesComponent(machine)
            self.nodes.run_times = deepcopy(run_time)

    def curves(self, row: np.ndarray, key: Class, on_nodes: Nodes, model: np.ndarray) -> np.ndarray:
        """Return wait distributions (components, 33) from features (f,), class, node simulation and model; a missing
        component has NaN.
        """
        simulated = [simulated_curves(row[None, :], spread)[0] for spread in SPREADS]
        late = simulated_curves(row[None, :], SPREADS[-1], self.lag.of(float(row[AT_DRAWS]), key))[0]
        nodes = np.full((len(SPREADS) + 1, BINS), np.nan) if self.nodes is None else self.nodes.curves(on_nodes, key)
        return np.stack([*nodes, *simulated, late, self.recent.curve(key), model])

    def on_nodes(self, job: JobRequest, at: SystemState) -> Nodes:
        """Return the node simulation's log(1 + wait) for a job submitted now; NaN without a node simulation."""
        return SAID_NOTHING if self.nodes is None else self.nodes.simulated(job, at)

    def on_nodes_of(self, trace: Trace, protocol: str, procs: str, total: float, looks: Looks) -> list[Nodes]:
        """Simulate every job of a log on the nodes, and add simulated remaining waits to the snapshots."""
        if self.nodes is None:
            return [SAID_NOTHING] * len(trace)
        return self.nodes.of_trace(trace, protocol, procs, total, looks)

    def observe(self, event: Event, at: SystemState) -> None:
        """Update the node simulation's state with an event."""
        if self.nodes is not None:
            self.nodes.observe(event, at)

    def ended(self, key: Class, simulated: float, on_nodes: Nodes, wait: float) -> None:
        """Learn from a job of class `key` that waited `wait` seconds, and from its simulated log(1 + wait)."""
        self.recent.add(key, wait)
        self.lag.add(simulated, wait, key)
        if self.nodes is not None:
            self.nodes.ended(on_nodes, wait, key)
