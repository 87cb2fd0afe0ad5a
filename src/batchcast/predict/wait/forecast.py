# SPDX-License-Identifier: Apache-2.0
"""`forecast`: the chances of when a job starts, by a calibrated hazard model, renewed while the job waits."""

from __future__ import annotations

import math

import numpy as np

from ...events.event import END, RANK, START, SUBMIT, WITHDRAW, End, Event, Start, Submit, Withdraw
from ...events.record import JOB, NAMES, Columns, entry_of
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

NO_VOTE = -2  # in place of the number of a submission that does not count: no ring holds it


def renewed(method: Forecast, at: SystemState) -> Renewed:
    """The whole queue forecast anew from the present state, asked once for all.

    The futures are drawn and simulated once for all who wait; the model of what is left of a wait, which learned
    from looks at those that waited (hazard.renewal), starts from the forecast at the submission, given the time
    waited, and from the nodes of a described machine, and is asked with what each sees now. Until it is first
    fitted that promise and the simulations answer. All are corrected by what became of earlier looks at jobs that
    had waited about as long. Nothing is learned.
    O(queued (queued + running)).

    >>> from batchcast.predict.wait.forecast import Forecast
    >>> renewed(Forecast(), SystemState(4.0)).chances.shape
    (0, 33)
    """
    look = method.look(at)
    said = method.renewal.expected(look, method.at_submission(look.row))
    chances = method.renewal.calibration.chances(said.curves, look.waited)
    return Renewed(look.row, look.waited, chances, CalibratedWaits.bounds(chances), said.way, look.features)


class Forecast:
    """Predicts the wait distribution from a model of the hazard of starting, calibrated online.

    Parameters
    ----------
    window
        The last so many submissions that count teach: of a burst only some do (`hazard.training_rows.Bursts`).
    half_life
        A submission so many of these ago counts half.
    first, every
        Fits begin after `first` of these, then whenever half as many came again, at most `every`.
    step
        Submissions between two times that a clock asks whether a fit is due; the model of a fit answers from one such
        time after it was begun, so that a live clock has it worked out beside and a replay says the same.
    seed
        Of the drawn run times and of the fit.
    cancelled
        `count`: a job cancelled in the queue teaches that it waited that long; `skip`: nothing.
    machine
        A described machine (`machines.machine`): then Slurm's two loops simulated on its nodes are one more way to
        answer. Given in Python, by `wait --machine FILE`, and live by the setting `machine`.

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    Time since submission is cut into 33 bins; one boosted classifier (LightGBM) says whether a job that has come to a
    bin starts in it, from what the job meets: the queue and the running set against it, its user, recent waits, and
    the schedule simulated forward with run times drawn from `kernel`'s distributions given elapsed
    (hazard.features). Submissions still waiting teach as censored. A burst is one piece of evidence: of what one sender
    is told before the outcome of anything later than it is known, only some count (`training_rows.Bursts`), for the
    model, for the weights and for both corrections; each is answered. Beside the model stand the simulation's own
    curve, spread widely, closely, or as much later as jobs of the same class (queue, partition, QOS, size) have started
    of late than it said, the same of Slurm's loops on a described machine's nodes, and recent waits of that class.
    Their mean answers, each weighing by its CRPS of log(1 + wait) so far, corrected twice by what became of earlier
    answers: by the transform of the last 2,000 forecasts, and by one adaptive level a bound
    (hazard.calibrated_waits). It also looks at a few of those that wait, learns what is left of their waits from what
    they see by then, and so renews what is told of a waiting job (`renewed`, hazard.renewal). The source is this
    project's study (docs/evidence/waits.md). Cost: 0.2 ms of features a submission, some seconds a fit.

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
    """What a replay cannot do without; a live clock answers from simulation where it is not installed."""

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
        """The median wait with quantiles."""
        return self._prediction(*self._asked(job, at))

    def distribution(self, job: JobRequest, at: SystemState) -> WaitCurve:
        """The chances of every span, for a job submitted now."""
        return WaitCurve(self._asked(job, at)[2])

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit: promise; Start (and Withdraw): what was kept, and what the wait teaches; all: run times."""
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
        """Simulate on this description from now on (None: on processors alone); what was learned stays.

        The run times that nodes are simulated with begin as this method's own, where there were none before.
        """
        self.machine = machine
        self.components.use_machine(machine, self.run_time)

    def refit(self, now: float) -> None:
        """The models of the fit begun a step ago; a new fit begun, where enough submissions came since the last one."""
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
        """The same answers for every job of a log, told to a fresh method; the features in one compiled pass.

        `chances` (n, 33) is then what was promised of every job, asked or not. With `renew` it also looks at those that
        wait, as it does one by one: `snapshots` is each look with its instant and the chances (k, 33) promised of what
        was left. That takes about as long again, and changes no answer.
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
        """Of a job submitted now, not yet in the state: features, the curves of all ways, the chances promised."""
        columns = at.columns()
        entry = np.zeros(1, JOB)
        entry[0] = entry_of(job, at.now, [at.code(name, getattr(job, name)) for name in NAMES])
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
        """Room for a description of whoever runs and waits now."""
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
        """The chances (n, 33) that waiting jobs were promised at their submission; NaN where it was not seen."""
        unseen = np.full(BINS, np.nan)
        known = [self.numbers[row][3] if row in self.numbers else unseen for row in rows.tolist()]
        return np.stack(known) if known else np.zeros((0, BINS))

    def of_waiting(self, at: SystemState) -> list[tuple[int, Prediction]]:
        """The row of every job that waits with the forecast of its whole wait, renewed from what it sees now."""
        now = renewed(self, at)
        return [(row, now.prediction(place)) for place, row in enumerate(now.row.tolist())]

    def look(self, at: SystemState) -> Snapshot:
        """What every waiting job sees now, in order of arrival."""
        return self._look_at(at, np.arange(len(at.columns().queued_entries())))

    def _look(self, at: SystemState, columns: Columns) -> None:
        """A few of those that wait, to learn from."""
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
        """The curves (components, 33) of a job by features (f,), class and what nodes say; NaN for none."""
        model = self.model.curves(row[None, :])[0] if self.model is not None else np.full(BINS, np.nan)
        return self.components.curves(row, key, on_nodes, model)

    def _prediction(self, row: np.ndarray, curves: np.ndarray, chances: np.ndarray) -> Prediction:
        way = int(self.calibration.pool.heaviest(curves))
        bounds = np.minimum(np.maximum(np.ceil(self.calibration.bounds(chances) - 1e-9), 1.0), LAST_S).tolist()
        grounds = GROUNDS[way] if way >= 0 else Grounds.NO_HISTORY
        words = f"{COMPONENTS[way] if way >= 0 else 'nothing known'}: {reason(row)}"
        return Prediction(bounds[len(LEVELS) // 2], LEVELS, tuple(bounds), words, grounds)

    def _submitted(self, job: JobRequest, entry: int, at: SystemState, columns: Columns) -> None:
        """The clock's state has the job already: what it saw before, and what that promised."""
        requests = columns.jobs[entry : entry + 1]
        key, sender = class_of(requests[0]), sender_of(requests[0])
        if self.last_asked is not None and self.last_asked[0] is job and self.last_asked[1] == at.version - 1:
            run, row, on_nodes, curves = self.last_asked[2]  # a clock asks before it submits: half of an answer's cost
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
        """The next submission: what it saw and what it was promised."""
        (key, sender), (features, on_nodes) = who, seen
        is_deep = self.bursts.is_deep(sender)  # as it was when it was promised
        self._resolve(row, None, False, now)
        vote = self.votes if self.bursts.counts(row, sender) else NO_VOTE
        self.numbers[row] = (vote, key, (float(features[kernel.AT_DRAWS]), on_nodes), chances)
        if vote != NO_VOTE:
            self.submissions.add(vote, now, features)
            self.calibration.issue(vote, sender, now, curves, chances, is_deep)
            self.votes += 1
        self.number += 1

    def _resolve(self, row: int, wait: float | None, left: bool, now: float) -> None:
        """The job is queued no more, after `wait` seconds; None: that teaches nothing."""
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
