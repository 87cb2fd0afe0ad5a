# SPDX-License-Identifier: Apache-2.0
"""The components that `forecast` pools: its model, simulated waits, recent waits, a machine's nodes.

And their features of a whole log.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ...cluster.machine import Machine
from ...events.event import END, START, SUBMIT, WITHDRAW, Event
from ...events.record import Columns, requests_of
from ...events.recorded import event_table, replay, timeline
from ...events.state import Cancelled, SystemState
from ...job import JobRequest
from ...table import Trace
from ..hazard import features as kernel
from ..hazard.bins import BINS
from ..hazard.components import SPREADS, Lag, RecentWaits, simulated_curves, spread_curves
from ..hazard.features import AT_DRAWS, describe_queue
from ..hazard.history_features import WaitHistory, blank_history, level_of, with_room
from ..hazard.queue_features import COUNT
from ..hazard.renewal import EVERY, LEAST_VOTES, Snapshot, sampled_places
from ..hazard.simulated_waits import PLANS
from ..hazard.training_rows import Bursts
from ..protocol import Grounds, Prediction
from ..runtime.kernel import Kernel
from .scheduler_replay import SchedulerReplay

Class = tuple[int, int, int]
Sender = tuple[int, ...]
Who = tuple[Class, Sender]


class Log(NamedTuple):
    """A log as the method is told it.

    Features (n, f), classes, senders, events (time, kind, row, wait taught or NaN), and the look after each submission,
    by its row, that one was taken after.
    """

    rows: np.ndarray
    keys: list[Class]
    senders: list[Sender]
    events: list[tuple[float, int, int, float]]
    snapshots: Mapping[int, Snapshot]


def seen_in(
    trace: Trace,
    protocol: str,
    procs: str,
    total: float | None,
    cancelled: Cancelled = "count",
    seed: int | None = None,
) -> Log:
    """All that is seen of a log; a machine of `total` processors, else the log's.

    `seed` draws which waiting jobs are looked at; without one none is. Linear in what waits and runs.
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
    snapshots: dict[int, Snapshot] = {}
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
    """How many of the submissions among these steps (kind, row, wait taught or NaN) count as evidence."""
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
    """What the jobs at `places` of the queue see at `now`, the drawn futures simulated once for all who wait."""
    queue = state.queued_entries()
    jobs = state.jobs[queue[places]]
    features = np.zeros((len(places), len(kernel.NAMES)), np.float32)
    if len(places):
        waits = np.zeros((len(PLANS), len(queue)))
        describe_queue(state.record, history, now, runs, room, places.astype(np.int64), waits, features)
    return Snapshot(jobs["row"].copy(), np.maximum(now - jobs["submit"], 0.0), features)


def class_of(job: np.void) -> Class:
    """The class of jobs whose recent waits speak for this one: queue, partition, size."""
    return int(job["queue"]), int(job["partition"]), level_of(float(job["procs"]), 31)


def sender_of(job: np.void) -> Sender:
    """Whose burst a job may be of: its user's; of unknown users those of its class are taken for one."""
    return (int(job["user"]),) if job["user"] > 0 else class_of(job)


def most_at_once(kind: np.ndarray) -> tuple[int, int]:
    """The most jobs that run and the most that are queued at any point of a timeline."""
    queued = np.cumsum(np.where(kind == SUBMIT, 1, np.where((kind == START) | (kind == WITHDRAW), -1, 0)))
    running = np.cumsum(np.where(kind == START, 1, np.where(kind == END, -1, 0)))
    return int(running.max(initial=0)) + 1, int(queued.max(initial=0)) + 1


class NodesComponent:
    """Waits as Slurm's two loops have them on a machine with `kernel`'s run times, as much later as they came out.

    Parameters
    ----------
    machine
        The described machine.

    >>> from batchcast.cluster.machine import homogeneous
    >>> way = NodesComponent(homogeneous(2, 4, 4000.0))
    >>> job = JobRequest(0, 1, 0.0, 4.0, 600.0, float("nan"))
    >>> way.predict(job, SystemState(8.0)).point, way.curves(math.log1p(60.0)).shape
    (0.0, (3, 33))
    """

    def __init__(self, machine: Machine) -> None:
        self.replay = SchedulerReplay(runtime="kernel", machine=machine)
        self.machine = machine
        self.lag = Lag()

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The wait if the job came now and nobody after it, in seconds; NaN where it never starts."""
        found = self.replay.start_on_nodes(self.machine, job, at)
        wait = math.nan if isinstance(found, str) else found[0] - at.now
        return Prediction(wait, (), (), "simulated on nodes", Grounds.SIMULATION)

    def observe(self, event: Event, at: SystemState) -> None:
        """What happened, for the run times."""
        self.replay.observe(event, at)

    def simulated(self, job: JobRequest, at: SystemState) -> float:
        """log(1 + wait) of `predict`."""
        return math.log1p(self.predict(job, at).point)

    def of_trace(self, trace: Trace, protocol: str, procs: str, total: float) -> list[float]:
        """The same (n,) of every job of a log at its submission, by a fresh one."""
        said = replay(trace, {"nodes": NodesComponent(self.machine)}, protocol=protocol, procs=procs, total=total)
        return [float(wait) for wait in np.log1p(said["nodes"].points)]

    def curves(self, simulated: float) -> np.ndarray:
        """Curves (3, 33) of a simulated log(1 + wait): by each of SPREADS, and as late; NaN where it never starts."""
        points, late = np.array([[simulated]]), np.array([[simulated + self.lag.of(simulated)]])
        return np.concatenate(
            [*(spread_curves(points, spread) for spread in SPREADS), spread_curves(late, SPREADS[-1])]
        )


COMPONENTS = (
    *("simulation on the machine's nodes" for _ in SPREADS),
    "simulation on the machine's nodes, as late as it came out",
    *("simulation" for _ in SPREADS),
    "simulation, as late as it came out",
    "recent waits",
    "model",
)
GROUNDS = (*(Grounds.SIMULATION for _ in COMPONENTS[:-2]), Grounds.CLASS, Grounds.MODEL)


class Components:
    """The curves of all components side by side, and what those that learn from every end have learned.

    Parameters
    ----------
    machine
        A described machine, or None: then its nodes answer nothing.

    >>> components = Components(None)
    >>> components.ended((0, 1), 0.0, math.nan, 30.0)
    >>> from batchcast.predict.hazard.features import NAMES
    >>> components.curves(np.zeros(len(NAMES), np.float32), (0, 1), math.nan, np.full(BINS, np.nan))[:, -1].tolist()
    [nan, nan, nan, 1.0, 1.0, 1.0, 1.0, nan]
    """

    def __init__(self, machine: Machine | None) -> None:
        self.recent = RecentWaits()
        self.lag = Lag()
        self.nodes = NodesComponent(machine) if machine is not None else None

    def curves(self, row: np.ndarray, key: Class, on_nodes: float, model: np.ndarray) -> np.ndarray:
        """Curves (components, 33) of a job by features (f,), class, what nodes say and the model's; NaN for none."""
        simulated = [simulated_curves(row[None, :], spread)[0] for spread in SPREADS]
        late = simulated_curves(row[None, :], SPREADS[-1], self.lag.of(float(row[AT_DRAWS])))[0]
        nodes = np.full((len(SPREADS) + 1, BINS), np.nan) if self.nodes is None else self.nodes.curves(on_nodes)
        return np.stack([*nodes, *simulated, late, self.recent.curve(key), model])

    def on_nodes(self, job: JobRequest, at: SystemState) -> float:
        """What the machine's nodes say of a job submitted now, log(1 + wait); NaN where they say nothing."""
        return math.nan if self.nodes is None else self.nodes.simulated(job, at)

    def on_nodes_of(self, trace: Trace, protocol: str, procs: str, total: float) -> list[float]:
        """The same for every job of a log."""
        return [math.nan] * len(trace) if self.nodes is None else self.nodes.of_trace(trace, protocol, procs, total)

    def observe(self, event: Event, at: SystemState) -> None:
        """What happened, for the nodes' own clock."""
        if self.nodes is not None:
            self.nodes.observe(event, at)

    def ended(self, key: Class, simulated: float, on_nodes: float, wait: float) -> None:
        """A job of class `key` waited so long, for which these log(1 + wait) were simulated."""
        self.recent.add(key, wait)
        self.lag.add(simulated, wait)
        if self.nodes is not None:
            self.nodes.lag.add(on_nodes, wait)
