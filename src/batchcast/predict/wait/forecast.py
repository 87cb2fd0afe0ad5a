# SPDX-License-Identifier: Apache-2.0
"""`forecast`: predicts start times with a calibrated hazard model, and renews the prediction while the job waits.

`forecast` combines several components: its model, simulated waits, recent waits, and a simulation on a machine's nodes.
The module also computes the components' features for a whole log.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import partial
from typing import NamedTuple

import numpy as np

from ...events.event import END, RANK, START, SUBMIT, WITHDRAW, Change, End, Event, Start, Submit, Withdraw
from ...events.record import JOB, NAMES, Columns, entry_of, name_in, requests_of
from ...events.recorded import Forecasts, collect, event_table, replay, timeline
from ...events.state import Cancelled, SystemState
from ...job import JobRequest
from ...machines.machine import Machine
from ...table import Trace
from ..hazard import features as kernel
from ..hazard.bins import BINS, LAST_S, WaitCurve
from ..hazard.calibrated_waits import LEVELS, Bursts, CalibratedWaits, jitter
from ..hazard.components import DRAWS, NO_SIMULATION, SIMULATIONS, Lag, Nodes, RecentWaits, curves_around, pool_curves
from ..hazard.features import AT_DRAWS, PLANS, describe_queue, reason
from ..hazard.history_features import WaitHistory, blank_history, level_of, with_room
from ..hazard.model import ENDED, LEFT, SPOILED, Fitting, Hazard, Submissions, Taught
from ..hazard.queue_features import COUNT
from ..hazard.renewal import EVERY, LEAST_VOTES, Renewal, Renewed, Snapshot, sampled_positions
from ..protocol import Grounds, Prediction
from ..runtime.kernel import Kernel, RunTimes
from .scheduler_replay import Length, MachineJobs, start_on, starts_on

Looks = dict[int, Snapshot]
Class = tuple[int, int, int, int]
Sender = tuple[int, ...]


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
    runs = np.ascontiguousarray(run_times.quantiles, np.float32)
    requests, codes = requests_of(trace, procs)
    plan = timeline(trace, protocol)
    events = event_table(trace, plan)
    state = Columns(trace.info.max_procs if total is None else total, n, len(codes["user_id"]) + 1)
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
            positions = sampled_positions(now - state.jobs["submit"][state.queued_entries()], EVERY * number, seed)
            snapshots[int(plan.index[last])] = look_at(state, history, positions, now, runs, room)
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
    state: Columns, history: WaitHistory, positions: np.ndarray, now: float, runs: np.ndarray, room: kernel.Room
) -> Snapshot:
    """Return the waits so far and the features of the queued jobs at positions `positions`.

    Each draw of run times is simulated once for all queued jobs.
    """
    queue = state.queued_entries()
    jobs = state.jobs[queue[positions]]
    features = np.zeros((len(positions), len(kernel.NAMES)), np.float32)
    if len(positions):
        waits = np.zeros((len(PLANS), len(queue)))
        describe_queue(state.record, history, now, runs, room, positions.astype(np.int64), waits, features)
    nothing = np.tile(NO_SIMULATION, (len(positions), 1))
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

    >>> from batchcast.machines.machine import homogeneous
    >>> component = NodesComponent(homogeneous(2, 4, 4000.0))
    >>> job = JobRequest(0, 1, 0.0, 4.0, 600.0, float("nan"))
    >>> component.predict(job, SystemState(8.0)).point
    0.0
    >>> component.curves((math.log1p(60.0),) * DRAWS, (0, 0, 0, 1)).shape
    (3, 33)
    """

    # `looks` has snapshots of waiting jobs by the row of the last submission before the snapshot. In a replay of a log,
    # the simulated remaining waits are added to each snapshot.

    def __init__(self, machine: Machine, looks: Looks | None = None) -> None:
        self.machine, self.looks = machine, {} if looks is None else looks
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
        machine_jobs = MachineJobs.of(self.machine, at)
        futures = [starts_on(self.machine, at, length, machine_jobs) for length in self._futures(at)]
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
        if isinstance(event, Submit) and event.job.row in self.looks:
            self.looks[event.job.row] = self.of_look(self.looks[event.job.row], at)

    def simulated(self, job: JobRequest, at: SystemState) -> Nodes:
        """Return log(1 + wait) of the waits that `predict` returns."""
        return tuple(math.log1p(wait) for wait in self.predict(job, at).quantiles)

    def of_look(self, look: Snapshot, at: SystemState) -> Snapshot:
        """Add the remaining waits of the node simulation to a snapshot of waiting jobs."""
        said = self.of_waiting(at)
        each = [said.get(row, NO_SIMULATION) for row in look.row.tolist()]
        return look._replace(on_nodes=np.array(each).reshape(-1, DRAWS))

    def curves(self, simulated: Nodes, key: Class) -> np.ndarray:
        """Return wait distributions (3, 33) around simulated log(1 + wait): one distribution for each spread in
        SPREADS, and one shifted by the lag.

        NaN if the job never starts in one of the simulated futures.
        """
        return np.asarray(curves_around(np.array([simulated]), self.lag.of(simulated[DRAWS // 2], key))[0])

    def _waits(self, job: JobRequest, at: SystemState) -> tuple[float, ...]:
        """Return the sorted waits in all futures; reuse the waits simulated for an earlier job of the burst if
        possible.
        """
        if self.burst is not None and self.burst.answers(job, at.now):
            return self.burst.waits
        machine_jobs = MachineJobs.of(self.machine, at, job)
        found = [start_on(self.machine, job, at, length, machine_jobs) for length in self._futures(at)]
        return tuple(sorted(math.nan if isinstance(start, str) else start[0] - at.now for start in found))

    def _grown(self, job: JobRequest, at: SystemState) -> Burst:
        """Return the burst with the job submitted just now, or a new burst if the job's request differs."""
        # Every caller predicts a job before it submits the job. The burst depends on events only, so calls of `predict`
        # do not change later results.
        if self.last is not None and self.last[0] is job and self.last[1] == at.version - 1:
            waits = self.last[2]
        else:
            waits = self._waits(job, at)
        self.last = None
        if self.burst is not None and self.burst.answers(job, at.now):
            return self.burst._replace(jobs=self.burst.jobs + 1)
        jobs = self.burst.jobs + 1 if self.burst is not None and self.burst.is_of(job) else 1
        return Burst(job, jobs, at.now, jobs, waits)

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


class Inputs(NamedTuple):
    """Intermediate results of the prediction for a job submitted now: run-time quantiles, features, simulated waits on
    nodes, component curves.
    """

    run: np.ndarray
    features: np.ndarray
    on_nodes: Nodes
    curves: np.ndarray


COMPONENTS = (*SIMULATIONS, "recent waits", "model")
GROUNDS = (*(Grounds.SIMULATION for _ in SIMULATIONS), Grounds.CLASS, Grounds.MODEL)


class Components:
    """Computes the predicted distributions of all components, and updates the components that learn from every outcome.

    >>> components = Components(None)
    >>> components.ended((0, 0, 0, 1), 0.0, NO_SIMULATION, 30.0)
    >>> from batchcast.predict.hazard.features import NAMES
    >>> features, unknown = np.zeros(len(NAMES), np.float32), np.full(BINS, np.nan)
    >>> components.curves(features, (0, 0, 0, 1), NO_SIMULATION, unknown)[:, -1].tolist()
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
        simulated = pool_curves(row[None, :], self.lag.of(float(row[AT_DRAWS]), key))[0]
        nodes = np.full_like(simulated, np.nan) if self.nodes is None else self.nodes.curves(on_nodes, key)
        return np.stack([*nodes, *simulated, self.recent.curve(key), model])

    def on_nodes(self, job: JobRequest, at: SystemState) -> Nodes:
        """Return the node simulation's log(1 + wait) for a job submitted now; NaN without a node simulation."""
        return NO_SIMULATION if self.nodes is None else self.nodes.simulated(job, at)

    def on_nodes_of(self, trace: Trace, protocol: str, procs: str, total: float, looks: Looks) -> list[Nodes]:
        """Simulate every job of a log on the nodes, and add simulated remaining waits to the snapshots."""
        if self.nodes is None:
            return [NO_SIMULATION] * len(trace)
        fresh = {"nodes": NodesComponent(self.nodes.machine, looks)}
        said = replay(trace, fresh, protocol=protocol, procs=procs, total=total)
        return [tuple(waits) for waits in np.log1p(said["nodes"].quantiles).tolist()]

    def ended(self, key: Class, simulated: float, on_nodes: Nodes, wait: float) -> None:
        """Learn from a job of class `key` that waited `wait` seconds, and from its simulated log(1 + wait)."""
        self.recent.add(key, wait)
        self.lag.add(simulated, wait, key)
        if self.nodes is not None:
            self.nodes.lag.add(on_nodes[DRAWS // 2], wait, key)


NO_VOTE = -2  # number of submissions that do not count as evidence and are not stored


def renewed(method: Forecast, at: SystemState) -> Renewed:
    """Predict the remaining waits of the whole queue from the present state. Learns nothing.

    Each draw of run times is simulated once for all waiting jobs. The model of the remaining wait was trained on
    earlier snapshots of waiting jobs (hazard.renewal). The model corrects the prediction made at submission,
    conditioned on the time waited, and the node simulation if a machine is described; its features describe the queue
    and the running jobs now. Before the model's first fit, the prediction at submission and the simulations are used
    instead. All predictions are then corrected by the outcomes of earlier predictions for jobs that had waited for
    about the same time. Costs O(queued (queued + running)).

    >>> from batchcast.predict.wait.forecast import Forecast
    >>> renewed(Forecast(), SystemState(4.0)).chances.shape
    (0, 33)
    """
    look = method.look(at)
    said = method.renewal.expected(look, method.at_submission(look.row))
    chances = method.renewal.calibration.chances(said.curves, look.waited)
    return Renewed(look.row, look.waited, chances, CalibratedWaits.bounds(chances), said.component, look.features)


class Forecast:
    """Predicts the distribution of the queue wait from a model of the start hazard, calibrated online.

    Parameters
    ----------
    window
        Number of the latest submissions used for training. Only some submissions of a burst count as evidence
        (`hazard.calibrated_waits.Bursts`).
    half_life
        Number of submissions after which a submission's training weight has halved.
    first, every
        The first fit begins after `first` submissions that count as evidence. The next fit begins when the number of
        submissions has grown by half since the last fit, or by the number `every`.
    step
        Number of submissions between two checks whether a fit is due. A fitted model is used from the next check on. So
        the live service can fit in the background and still make the same predictions as a replay.
    seed
        Seed of the drawn run times and of the fit.
    cancelled
        `count`: a job cancelled in the queue counts as a job that started at its cancellation. `skip`: a job cancelled
        in the queue counts as a job whose wait would have been longer (censored).
    machine
        A described machine (`machines.machine`). A simulation of Slurm's main and backfill loops on the machine's nodes
        is then a further component. Set the machine in Python, by `wait --machine FILE`, or for the service by the
        setting `machine`.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Notes
    -----
    Time since submission is divided into 33 bins. One boosted classifier (LightGBM) estimates the probability that a
    job which has reached a bin starts in it (the discrete hazard). The model's features describe the queue and the
    running jobs relative to the job, its user, recent waits, and forward simulations of the schedule with run times
    drawn from `kernel`'s distributions given the elapsed time (hazard.features). Jobs that still wait are censored
    observations.

    A burst is a series of submissions by one sender before any job of the series has started. Only some predictions of
    a burst count for the model, the weights and the corrections (`calibrated_waits.Bursts`), because similar jobs have
    similar waits. Jobs that do not count also get a prediction.

    The boosted model is one of several components of the prediction. The other components are simulated waits with a
    wide and a narrow spread, or shifted by the median lag of jobs of the same class (queue, partition, QOS, size); the
    same simulated waits from Slurm's loops on a described machine's nodes; and recent waits of the class. The
    prediction is the mean of all components, each weighted by its CRPS of log(1 + wait) so far. Two corrections follow:
    the probability transform of the last 2,000 predictions, and one adaptive level for each bound
    (hazard.calibrated_waits).

    The method also learns from samples of waiting jobs (snapshots) how long these jobs still wait. With the learned
    remaining waits, the method renews the predictions of jobs that are still waiting (`renewed`, hazard.renewal). The
    method was developed in this project (docs/evidence/waits.md). Features take 0.2 ms per submission, a fit takes some
    seconds.

    References
    ----------
    Singer, Willett, It's about time: using discrete-time survival analysis to study duration and the timing of events,
    Journal of Educational Statistics 18, 1993.
    Ke et al., LightGBM: a highly efficient gradient boosting decision tree, NeurIPS 2017.
    Gibbs, Candès, Adaptive conformal inference under distribution shift, NeurIPS 2021, doi:10.48550/arXiv.2106.00170.

    Examples
    --------
    >>> Forecast().predict(JobRequest(0, 1, 0.0, 1.0, 60.0, float("nan")), SystemState(4.0)).point
    1.0
    """

    holds_entries = True
    answers_by = "point"
    levels = LEVELS
    target = "wait_time"
    uses = Kernel.uses

    needs = ("lightgbm",)
    """Packages that a replay requires; a live clock without them predicts from simulation."""

    def __init__(
        self,
        window: int = 20000,
        half_life: float = 10000.0,
        first: int = 500,
        every: int = 1500,
        step: int = 250,
        seed: int = 0,
        cancelled: Cancelled = "count",
        machine: Machine | None = None,
    ) -> None:
        if min(window, first, every, step) < 1 or not half_life > 0:
            raise ValueError("window, first, every and step are at least 1, half_life is above 0")
        self.half_life, self.first, self.every, self.seed = half_life, first, every, seed
        self.refit_every_jobs = step
        self.cancelled: Cancelled = cancelled
        self.run_time = Kernel()
        self.runs = np.full((64, COUNT), np.nan, np.float32)
        self.history = blank_history()
        self.room_for = (64, 64)
        self.room = kernel.blank_room(*self.room_for)
        self.submissions = Submissions(window, len(kernel.NAMES))
        self.calibration = CalibratedWaits(COMPONENTS)
        self.machine = machine
        self.components = Components(machine)
        self.model: Hazard | None = None
        self.fitting: Fitting | None = None
        self.fitted_at = 0
        self.last_predicted: tuple[JobRequest, int, Inputs] | None = None
        self.number = self.votes = self.looked_at = 0
        self.bursts = Bursts()
        self.renewal = Renewal(window)
        self.numbers: dict[int, tuple[int, Class, tuple[float, tuple[float, ...]], np.ndarray]] = {}
        self.chances = np.empty((0, BINS))
        self.snapshots: list[tuple[float, Snapshot, np.ndarray]] = []

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the prediction of the job's wait: the median with quantiles."""
        return self._prediction(*self._predicted_now(job, at))

    def distribution(self, job: JobRequest, at: SystemState) -> WaitCurve:
        """Return the wait distribution of a job submitted now."""
        return WaitCurve(self._predicted_now(job, at)[2])

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit: record the prediction. Start, Withdraw: score the prediction and learn the wait. All events: learn
        run times.
        """
        entry = at.entry(event)
        if entry >= 0:
            columns = at.columns()
            if isinstance(event, Submit):
                self._submitted(event.job, entry, at, columns)
            if isinstance(event, (Start, Withdraw, End)):
                self._resolve(event.job.row, at.taught(event), isinstance(event, Withdraw), event.time)
            self.history = with_room(self.history, 1)
            counts = self.cancelled == "count"
            kernel.happened_now(columns.record, self.history, RANK[type(event)], counts, self.room.keys)
            self._passes(event.time)
            if isinstance(event, Submit) and self.number % EVERY == 0 and self.votes >= self.looked_at + LEAST_VOTES:
                self.looked_at = self.votes
                self._look(at, columns)
        self.run_time.observe(event, at)
        if self.components.nodes is not None:
            self.components.nodes.observe(event, at)

    def use_machine(self, machine: Machine | None) -> None:
        """Simulate on this machine from now on (None: on a pool of processors), and keep everything that was learned
        before.

        If no machine was set before, the simulation starts with a copy of this method's run-time predictor.
        """
        self.machine = machine
        self.components.use_machine(machine, self.run_time)

    def refit(self, now: float) -> None:
        """Use the models of the fit that was begun one step ago; begin a new fit if enough jobs were submitted since
        the last.
        """
        if self.fitting is not None:
            model, of_rests = self.fitting.result()
            self.model, self.fitting = model or self.model, None
            self.renewal.fitted(of_rests)
        if self.votes < max(self.first, min(1.5 * self.fitted_at, self.fitted_at + self.every)):
            return
        at_submission = Taught(*self.submissions.training_set(now, self.half_life, self.votes - 1))
        at_looks = Taught(*self.renewal.training_set(now, self.half_life, self.number - 1))
        self.fitting = Fitting((at_submission, at_looks), self.seed)
        self.fitted_at = self.votes

    def predict_trace(
        self,
        trace: Trace,
        protocol: str = "honest",
        procs: str = "req",
        *,
        total: float | None = None,
        ask: np.ndarray | None = None,
        renew: bool = False,
    ) -> Forecasts:
        """Predict every job of a log with a new predictor; the features are computed in one compiled pass.

        Afterwards, `chances` (n, 33) contains the predicted distributions of all jobs, including jobs that `ask` leaves
        out. If `renew` is true, samples of waiting jobs (snapshots) are taken too, as in the event-by-event path:
        `snapshots` has each sample with its instant and the predicted probabilities (k, 33) of the remaining wait. The
        snapshots double the computing time and do not change any prediction.
        """
        n, step = len(trace), self.refit_every_jobs
        wanted = np.ones(n, bool) if ask is None else ask
        log = seen_in(trace, protocol, procs, total, self.cancelled, self.seed if renew else None)
        size = trace.info.max_procs if total is None else total
        on_nodes = self.components.on_nodes_of(trace, protocol, procs, size, log.snapshots)
        answers: list[Prediction | None] = [None] * n
        self.chances = np.full((n, BINS), np.nan)
        models = np.full((step, BINS), np.nan)
        for time, kind, i, taught in log.events:
            if kind == SUBMIT:
                if i % step == 0:
                    if i:
                        self.refit(time)
                    if self.model is not None:
                        models = self.model.curves(log.rows[i : i + step])
                curves = self.components.curves(log.rows[i], log.keys[i], on_nodes[i], models[i % step])
                is_deep = self.bursts.is_deep(log.senders[i])
                chances = self.chances[i] = self.calibration.chances(curves, is_deep)
                if wanted[i]:
                    answers[i] = self._prediction(log.rows[i], curves, chances)
                self._note(i, time, (log.keys[i], log.senders[i]), (log.rows[i], on_nodes[i]), curves, chances)
            elif kind in (START, WITHDRAW, END):
                self._resolve(i, None if math.isnan(taught) else taught, kind == WITHDRAW, time)
            self._passes(time)
            if kind == SUBMIT and i in log.snapshots:
                self.snapshots.append((time, *self._take(log.snapshots[i], time)))
        return collect(answers)

    def _predicted_now(self, job: JobRequest, at: SystemState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return features, component curves and predicted distribution of a job submitted now, not yet in the state."""
        columns, entry = at.columns(), np.zeros(1, JOB)
        entry[0] = entry_of(job, at.now, [at.code(name, name_in(job, name)) for name in NAMES])
        inputs = self._inputs_of(job, at, columns, entry, -1)
        self.last_predicted = job, at.version, inputs
        is_deep = self.bursts.is_deep(sender_of(entry[0]))
        return inputs.features, inputs.curves, self.calibration.chances(inputs.curves, is_deep)

    def _inputs_of(self, job: JobRequest, at: SystemState, columns: Columns, entry: np.ndarray, itself: int) -> Inputs:
        """Describe a job and compute the curves (components, 33) of its wait; `itself` is its queue entry, or -1."""
        answer, row = self.run_time.predict(job, at), np.zeros(len(kernel.NAMES), np.float32)
        run = np.array(answer.quantiles if answer.levels else (math.nan,) * COUNT, np.float32)
        self.room_beside(columns)
        kernel.describe_now(columns.record, self.history, entry, itself, at.now, self.runs, run, self.room, row)
        on_nodes = self.components.on_nodes(job, at)
        model = self.model.curves(row[None, :])[0] if self.model is not None else np.full(BINS, np.nan)
        return Inputs(run, row, on_nodes, self.components.curves(row, class_of(entry[0]), on_nodes, model))

    def room_beside(self, columns: Columns) -> None:
        """Enlarge the work arrays if they are too small for the present number of running and waiting jobs."""
        most = columns.counts()
        if most[0] > self.room_for[0] or most[1] > self.room_for[1]:
            self.room_for = (2 * most[0] + 64, 2 * most[1] + 64)
            self.room = kernel.blank_room(*self.room_for)
        self._make_room(int(columns.record["entries"][0]) + 1)

    def _make_room(self, entries: int) -> None:
        if entries > len(self.runs):
            more = np.full((2 * entries - len(self.runs), COUNT), np.nan, np.float32)
            self.runs = np.concatenate([self.runs, more])

    def at_submission(self, rows: np.ndarray) -> np.ndarray:
        """Return the distributions (n, 33) predicted at the submission of waiting jobs; NaN for a job whose submission
        was not observed.
        """
        unseen = np.full(BINS, np.nan)
        known = [self.numbers[row][3] if row in self.numbers else unseen for row in rows.tolist()]
        return np.stack(known) if known else np.zeros((0, BINS))

    def of_waiting(self, at: SystemState) -> list[tuple[int, Prediction]]:
        """Return the row of each waiting job with a prediction of the whole wait, renewed from the present state."""
        now = renewed(self, at)
        return [(row, now.prediction(position)) for position, row in enumerate(now.row.tolist())]

    def look(self, at: SystemState) -> Snapshot:
        """Return the present features and the waits so far of every waiting job, in order of arrival."""
        return self._look_at(at, np.arange(len(at.columns().queued_entries())))

    def _look(self, at: SystemState, columns: Columns) -> None:
        """Store a snapshot of a few waiting jobs as training data."""
        waited = at.now - columns.jobs["submit"][columns.queued_entries()]
        self._take(self._look_at(at, sampled_positions(waited, self.number, self.seed)), at.now)

    def _look_at(self, at: SystemState, positions: np.ndarray) -> Snapshot:
        columns, nodes = at.columns(), self.components.nodes
        self.room_beside(columns)
        look = look_at(columns, self.history, positions, at.now, self.runs, self.room)
        return look if nodes is None or not len(positions) else nodes.of_look(look, at)

    def _take(self, look: Snapshot, now: float) -> tuple[Snapshot, np.ndarray]:
        seen = np.array([row in self.numbers for row in look.row.tolist()], bool)
        look = Snapshot(*(of[seen] for of in look))
        return look, self.renewal.take(look, self.at_submission(look.row), now, self.number - 1)

    def _passes(self, now: float) -> None:
        self.calibration.passes(now)
        self.renewal.calibration.passes(now)

    def _prediction(self, row: np.ndarray, curves: np.ndarray, chances: np.ndarray) -> Prediction:
        component = int(self.calibration.pool.heaviest(curves))
        bounds = np.minimum(np.maximum(np.ceil(self.calibration.bounds(chances) - 1e-9), 1.0), LAST_S).tolist()
        grounds = GROUNDS[component] if component >= 0 else Grounds.NO_HISTORY
        words = f"{COMPONENTS[component] if component >= 0 else 'nothing known'}: {reason(row)}"
        return Prediction(bounds[len(LEVELS) // 2], LEVELS, tuple(bounds), words, grounds)

    def _submitted(self, job: JobRequest, entry: int, at: SystemState, columns: Columns) -> None:
        """Record a submitted job with its features and prediction; the system state already contains the job."""
        requests = columns.jobs[entry : entry + 1]
        key, sender = class_of(requests[0]), sender_of(requests[0])
        if (
            self.last_predicted is not None
            and self.last_predicted[0] is job
            and self.last_predicted[1] == at.version - 1
        ):
            # a job is predicted just before its submission; reusing that prediction halves the cost
            inputs = self.last_predicted[2]
        else:
            inputs = self._inputs_of(job, at, columns, requests, entry)
        run, row, on_nodes, curves = inputs
        self._make_room(entry + 1)
        self.runs[entry], self.last_predicted = run, None
        chances = self.calibration.chances(curves, self.bursts.is_deep(sender))
        self._note(job.row, at.now, (key, sender), (row, on_nodes), curves, chances)

    def _note(
        self,
        row: int,
        now: float,
        key_and_sender: tuple[Class, Sender],
        inputs: tuple[np.ndarray, tuple[float, ...]],
        curves: np.ndarray,
        chances: np.ndarray,
    ) -> None:
        """Store a submission with its features and its prediction."""
        (key, sender), (features, on_nodes) = key_and_sender, inputs
        is_deep = self.bursts.is_deep(sender)  # read this value before `counts` changes the burst
        self._resolve(row, None, False, now)
        vote = self.votes if self.bursts.counts(row, sender) else NO_VOTE
        self.numbers[row] = (vote, key, (float(features[AT_DRAWS]), on_nodes), chances)
        if vote != NO_VOTE:
            self.submissions.add(vote, now, features)
            self.calibration.issue(vote, sender, now, curves, chances, is_deep)
            self.votes += 1
        self.number += 1

    def _resolve(self, row: int, wait: float | None, left: bool, now: float) -> None:
        """Record that a job left the queue after `wait` seconds; if `wait` is None, do not learn from the job."""
        if row not in self.numbers:
            return
        vote, key, (simulated, on_nodes), _ = self.numbers.pop(row)
        fate = SPOILED if wait is None else LEFT if left and self.cancelled == "skip" else ENDED
        self.renewal.resolve(row, wait, fate)
        self.bursts.resolved(row, fate == ENDED)
        self.submissions.resolved(vote, wait or 0.0, fate)
        if wait is None or fate != ENDED:
            self.calibration.left(vote, wait or 0.0, wait is None)
            return
        self.calibration.ended(vote, wait)
        self.components.ended(key, simulated, on_nodes, wait)
