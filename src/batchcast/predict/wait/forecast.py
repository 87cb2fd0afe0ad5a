# SPDX-License-Identifier: Apache-2.0
"""`forecast`: predicts start times with a calibrated hazard model, and renews the prediction while the job waits."""

from __future__ import annotations

import math

import numpy as np

from ...events.event import END, RANK, START, SUBMIT, WITHDRAW, End, Event, Start, Submit, Withdraw
from ...events.record import JOB, NAMES, Columns, entry_of, name_in
from ...events.recorded import Forecasts, collect
from ...events.state import Cancelled, SystemState
from ...job import JobRequest
from ...machines.machine import Machine
from ...table import Trace
from ..hazard import features as kernel
from ..hazard.bins import BINS, LAST_S, WaitCurve
from ..hazard.calibrated_waits import LEVELS, CalibratedWaits
from ..hazard.features import reason
from ..hazard.history_features import blank_history, with_room
from ..hazard.model import Fitting, Hazard, Taught
from ..hazard.queue_features import COUNT
from ..hazard.renewal import EVERY, LEAST_VOTES, Renewal, Renewed, Snapshot, sampled_places
from ..hazard.training_rows import ENDED, LEFT, SPOILED, Bursts, Submissions
from ..protocol import Grounds, Prediction
from ..runtime.kernel import Kernel
from .forecast_components import (
    COMPONENTS,
    GROUNDS,
    Class,
    Components,
    Seen,
    Who,
    class_of,
    look_at,
    seen_in,
    sender_of,
)

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
    return Renewed(look.row, look.waited, chances, CalibratedWaits.bounds(chances), said.way, look.features)


class Forecast:
    """Predicts the distribution of the queue wait from a model of the start hazard, calibrated online.

    Parameters
    ----------
    window
        Number of the latest submissions used for training. Only some submissions of a burst count as evidence
        (`hazard.training_rows.Bursts`).
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
    a burst count for the model, the weights and the corrections (`training_rows.Bursts`), because similar jobs have
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
        self.last_asked: tuple[JobRequest, int, Seen] | None = None
        self.number = self.votes = self.looked_at = 0
        self.bursts = Bursts()
        self.renewal = Renewal(window)
        self.numbers: dict[int, tuple[int, Class, tuple[float, tuple[float, ...]], np.ndarray]] = {}
        self.chances = np.empty((0, BINS))
        self.snapshots: list[tuple[float, Snapshot, np.ndarray]] = []

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the prediction of the job's wait: the median with quantiles."""
        return self._prediction(*self._asked(job, at))

    def distribution(self, job: JobRequest, at: SystemState) -> WaitCurve:
        """Return the wait distribution of a job submitted now."""
        return WaitCurve(self._asked(job, at)[2])

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
        self.components.observe(event, at)

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
                who = log.keys[i], log.senders[i]
                self._note(i, time, who, (log.rows[i], on_nodes[i]), curves, chances)
            elif kind in (START, WITHDRAW, END):
                self._resolve(i, None if math.isnan(taught) else taught, kind == WITHDRAW, time)
            self._passes(time)
            if kind == SUBMIT and i in log.snapshots:
                self.snapshots.append((time, *self._take(log.snapshots[i], time)))
        return collect(answers)

    def _asked(self, job: JobRequest, at: SystemState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return features, component curves and predicted distribution of a job submitted now, not yet in the state."""
        columns = at.columns()
        entry = np.zeros(1, JOB)
        entry[0] = entry_of(job, at.now, [at.code(name, name_in(job, name)) for name in NAMES])
        run, on_nodes = self._run_quantiles(job, at), self.components.on_nodes(job, at)
        row = self._features(columns, entry, -1, at.now, run)
        curves = self._curves(row, class_of(entry[0]), on_nodes)
        self.last_asked = job, at.version, Seen(run, row, on_nodes, curves)
        return row, curves, self.calibration.chances(curves, self.bursts.is_deep(sender_of(entry[0])))

    def _run_quantiles(self, job: JobRequest, at: SystemState) -> np.ndarray:
        answer = self.run_time.predict(job, at)
        known = answer.quantiles if answer.levels else (math.nan,) * COUNT
        return np.array(known, np.float32)

    def _features(self, columns: Columns, job: np.ndarray, itself: int, now: float, run: np.ndarray) -> np.ndarray:
        self.room_beside(columns)
        row = np.zeros(len(kernel.NAMES), np.float32)
        kernel.describe_now(columns.record, self.history, job, itself, now, self.runs, run, self.room, row)
        return row

    def room_beside(self, columns: Columns) -> None:
        """Enlarge the work arrays if they are too small for the present number of running and waiting jobs."""
        most = columns.counts()
        if most[0] > self.room_for[0] or most[1] > self.room_for[1]:
            self.room_for = (2 * most[0] + 64, 2 * most[1] + 64)
            self.room = kernel.blank_room(*self.room_for)
        self._make_room(int(columns.record["entries"][0]) + 1)

    def _make_room(self, entries: int) -> None:
        if entries > len(self.runs):
            bigger = np.full((2 * entries, COUNT), np.nan, np.float32)
            bigger[: len(self.runs)] = self.runs
            self.runs = bigger

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
        return [(row, now.prediction(place)) for place, row in enumerate(now.row.tolist())]

    def look(self, at: SystemState) -> Snapshot:
        """Return the present features and the waits so far of every waiting job, in order of arrival."""
        return self._look_at(at, np.arange(len(at.columns().queued_entries())))

    def _look(self, at: SystemState, columns: Columns) -> None:
        """Store a snapshot of a few waiting jobs as training data."""
        waited = at.now - columns.jobs["submit"][columns.queued_entries()]
        self._take(self._look_at(at, sampled_places(waited, self.number, self.seed)), at.now)

    def _look_at(self, at: SystemState, places: np.ndarray) -> Snapshot:
        columns, nodes = at.columns(), self.components.nodes
        self.room_beside(columns)
        look = look_at(columns, self.history, places, at.now, self.runs, self.room)
        return look if nodes is None or not len(places) else nodes.of_look(look, at)

    def _take(self, look: Snapshot, now: float) -> tuple[Snapshot, np.ndarray]:
        seen = np.array([row in self.numbers for row in look.row.tolist()], bool)
        look = Snapshot(*(of[seen] for of in look))
        return look, self.renewal.take(look, self.at_submission(look.row), now, self.number - 1)

    def _passes(self, now: float) -> None:
        self.calibration.passes(now)
        self.renewal.calibration.passes(now)

    def _curves(self, row: np.ndarray, key: Class, on_nodes: tuple[float, ...]) -> np.ndarray:
        """Return the curves (components, 33) of a job from features (f,), class and node simulation; NaN if missing."""
        model = self.model.curves(row[None, :])[0] if self.model is not None else np.full(BINS, np.nan)
        return self.components.curves(row, key, on_nodes, model)

    def _prediction(self, row: np.ndarray, curves: np.ndarray, chances: np.ndarray) -> Prediction:
        way = int(self.calibration.pool.heaviest(curves))
        bounds = np.minimum(np.maximum(np.ceil(self.calibration.bounds(chances) - 1e-9), 1.0), LAST_S).tolist()
        grounds = GROUNDS[way] if way >= 0 else Grounds.NO_HISTORY
        words = f"{COMPONENTS[way] if way >= 0 else 'nothing known'}: {reason(row)}"
        return Prediction(bounds[len(LEVELS) // 2], LEVELS, tuple(bounds), words, grounds)

    def _submitted(self, job: JobRequest, entry: int, at: SystemState, columns: Columns) -> None:
        """Record a submitted job with its features and prediction; the system state already contains the job."""
        requests = columns.jobs[entry : entry + 1]
        key, sender = class_of(requests[0]), sender_of(requests[0])
        if self.last_asked is not None and self.last_asked[0] is job and self.last_asked[1] == at.version - 1:
            # a job is predicted just before its submission; reusing that prediction halves the cost
            run, row, on_nodes, curves = self.last_asked[2]
        else:
            run, on_nodes = self._run_quantiles(job, at), self.components.on_nodes(job, at)
            row = self._features(columns, requests, entry, at.now, run)
            curves = self._curves(row, key, on_nodes)
        self._make_room(entry + 1)
        self.runs[entry], self.last_asked = run, None
        chances = self.calibration.chances(curves, self.bursts.is_deep(sender))
        self._note(job.row, at.now, (key, sender), (row, on_nodes), curves, chances)

    def _note(
        self,
        row: int,
        now: float,
        who: Who,
        seen: tuple[np.ndarray, tuple[float, ...]],
        curves: np.ndarray,
        chances: np.ndarray,
    ) -> None:
        """Store a submission with its features and its prediction."""
        (key, sender), (features, on_nodes) = who, seen
        is_deep = self.bursts.is_deep(sender)  # read this value before `counts` changes the burst
        self._resolve(row, None, False, now)
        vote = self.votes if self.bursts.counts(row, sender) else NO_VOTE
        self.numbers[row] = (vote, key, (float(features[kernel.AT_DRAWS]), on_nodes), chances)
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
