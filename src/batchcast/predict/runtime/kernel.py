# SPDX-License-Identifier: Apache-2.0
"""`kernel`: predicts a run-time distribution from weighted similar jobs, also for a job that has already run
some time.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from ...events.event import START, SUBMIT, Change, End, Event, Requeue, Start, Submit, Withdraw
from ...events.recorded import Forecasts, outcome, timeline
from ...events.state import SystemState
from ...job import JobRequest
from ...table import Trace
from ..fallback import LargestLimit, limits_in_order
from ..protocol import SHORTEST, Grounds, Prediction
from ..similarity import steps
from ..similarity.coding import Coder, coded
from ..similarity.memory import (
    NOBODY,
    POINTS,
    ROOMS,
    SECONDS,
    TOTAL,
    WEIGHT,
    Memory,
    Options,
    grown,
    make_memory,
)


class RunTimes(NamedTuple):
    """A weighted empirical distribution: sorted values in seconds, shape (n,), and weights that sum to 1, shape (n,).

    >>> runs = RunTimes(np.array([10.0, 20.0, 60.0]), np.array([0.5, 0.25, 0.25]))
    >>> runs.quantile(0.5), runs.chance(20.0), runs.given(15.0).weights.tolist()
    (10.0, 0.25, [0.5, 0.5])
    """

    seconds: np.ndarray
    weights: np.ndarray

    def quantile(self, level: float) -> float:
        """Return the smallest value with at least `level` of the weight at or below it; NaN if there are no values."""
        if not len(self.seconds):
            return math.nan
        at = int(np.searchsorted(np.cumsum(self.weights), level - 1e-12))
        return float(self.seconds[min(at, len(self.seconds) - 1)])

    def chance(self, span: float) -> float:
        """Return the probability that the job runs longer than `span` seconds; NaN if there are no values."""
        return float(self.weights[self.seconds > span].sum()) if len(self.seconds) else math.nan

    def given(self, elapsed: float) -> RunTimes:
        """Return the run-time distribution of a job that has run `elapsed` seconds: only the values above `elapsed`.

        The distribution is empty if no value is above `elapsed`.
        """
        longer = self.seconds > elapsed
        weights = self.weights[longer]
        total = weights.sum()
        return RunTimes(self.seconds[longer], weights / total) if total > 0 else RunTimes(*np.empty((2, 0)))


LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
WORDS = ("jobs", "jobs with this limit", "jobs of this size", "jobs with this limit and size")
OTHERS, MIXED = 4, 5  # further kinds of evidence, after the four in WORDS
MOSTLY = 0.6
NO_HISTORY = "limit: no similar job has ended"


class Kernel:
    """Predicts a run-time distribution from similar finished jobs; the similarity weights are learned online.

    Parameters
    ----------
    memory
        Number of finished jobs stored, about 300 bytes each, plus 14 KB for each of the first 4,096 users.
    learn
        Whether the weights of the similarity terms are learned. If false, the weights keep their initial values.
    offsets
        Whether an offset is learned for each user.
    running
        Weight of the user's running jobs, which are censored observations of a run time; 0 ignores them.
    scaled
        Whether a similar job with another time limit is added a second time, with its run time scaled by the ratio of
        the limits.
    relative
        Whether the score that learning minimizes uses run times as shares of the time limit; if false, it uses log
        seconds.
    point
        Which value of the distribution is the point prediction. `between`: the candidate between the 40 % and the 60 %
        quantile with the largest expected accuracy min(p, y) / max(p, y); this point is nearly optimal for the
        accuracy, and its absolute error is hardly larger than the median's. `accuracy`: the candidate with the largest
        expected accuracy. `median`: the median, which minimizes the expected absolute error. `geometric`: the geometric
        mean, for a queue ordered by expected log run time (docs/evidence/policy-study.md).

    Raises
    ------
    ValueError
        If a number is outside its range.

    Notes
    -----
    docs/reference/kernel.md has all equations. The candidates of job i are the most recently finished jobs of its
    classes, each job once: 128 of the same user, 64 of the same user and limit, 64 of the same user and processors, 64
    with the same user, limit and processors, and 16 of any user with the same limit. Candidate j has weight exp(-theta
    . d(i, j)). The vector d contains the differences between jobs i and j: limit, processors, every field that the log
    has, user, time between their submissions, time since the end of j, number of the user's jobs that have ended since
    j, and whether j is the user's latest job. When a job ends, theta and the user's offset take one AdaGrad step on the
    CRPS of the distribution that the job's candidates gave at its submission. Predictions lie between one second and
    the limit; without a candidate, the limit is predicted. There is no training phase and no refit. Costs O(candidates)
    per job, with at most 672 candidates.

    References
    ----------
    Gneiting, Raftery, Strictly proper scoring rules, prediction, and estimation, JASA 102, 2007,
    doi:10.1198/016214506000001437.
    Duchi, Hazan, Singer, Adaptive subgradient methods for online learning and stochastic optimization, JMLR 12, 2011.
    Efron, The two sample problem with censored data, Proc. 5th Berkeley Symposium 4, 1967.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada"), SystemState()
    >>> method = Kernel()
    >>> for run in (80.0, 50.0, 50.0):
    ...     method.observe(End(run, job, run, 0.0), state)
    >>> method.predict(job, state).point, method.distribution(job, state).chance(50.0) < 0.5
    (50.0, True)
    """

    levels = LEVELS
    uses = ("user_id", "req_time", "procs")

    def __init__(
        self,
        memory: int = 1 << 18,
        learn: bool = True,
        offsets: bool = True,
        running: float = 0.6,
        scaled: bool = True,
        relative: bool = True,
        point: Literal["between", "median", "accuracy", "geometric"] = "between",
    ) -> None:
        if memory < 1 or running < 0:
            raise ValueError("memory is at least 1 job, running at least 0")
        self.most = memory
        usual = Options()
        self.options = Options(
            step=usual.step if learn else 0.0,
            own_step=usual.own_step if offsets else 0.0,
            running=float(running),
            scaled=scaled,
            relative=relative,
            point=POINTS.index(point),
        )
        self.memory: Memory = make_memory(ring=min(memory, 256), slots=64, users=16, classes=64)
        self.coder = Coder()
        self.slots: dict[int, int] = {}
        self.free = list(range(63, 0, -1))
        self.limits = LargestLimit()

    @property
    def is_fresh(self) -> bool:
        """Return whether the predictor has not received any event yet."""
        return not self.coder.users

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the point (see `point`) and the quantiles of the weighted candidates."""
        n, out = self._ask(job, at.now)
        if n == 0:
            return self.limits.forecast(job, NO_HISTORY)
        point, *quantiles = out[: 1 + len(LEVELS)].tolist()
        words = basis(out[1 + len(LEVELS) :].tolist())
        return Prediction(point, LEVELS, tuple(quantiles), words, Grounds.CLASS)

    def distribution(self, job: JobRequest, at: SystemState) -> RunTimes:
        """Return the full run-time distribution, also for a job that already runs; empty if there is no candidate."""
        order = self.memory.order[0, : self._ask(job, at.now)[0]]
        seconds = np.maximum(self.memory.run_times[0, SECONDS, order], 1.0)
        weights = self.memory.per_candidate[WEIGHT, order].copy()
        return RunTimes(np.fmin(seconds, max(job.req_time, 1.0)), weights)

    def revise(self, job: JobRequest, elapsed: float, at: SystemState) -> float:
        """Predict again for a job that exceeded its prediction: the median of longer candidates, else the limit, else
        twice `elapsed`.
        """
        itself = self._note(job, at.now)
        return float(steps.predict_again(self.memory, self.options, 0, itself, at.now, elapsed))

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit: store the job's request. Start, Requeue: record whether the job runs. End: learn from the run time,
        and add the job to the candidates.
        """
        if isinstance(event, Submit):
            self._enter(event.job, event.time)
            self.limits.note(event.job.req_time)
        elif isinstance(event, End):
            self._end(event)
        elif isinstance(event, Withdraw):
            self._leave(event.job.row)
        elif isinstance(event, (Start, Requeue, Change)) and event.job.row in self.slots:
            self._change(event)

    def predict_trace(self, trace: Trace, protocol: str = "honest", procs: str = "req") -> Forecasts:
        """Predict a whole log with a fresh predictor, in one compiled pass; equals the event-by-event predictions."""
        plan = timeline(trace, protocol)
        n, run = len(trace), outcome(trace)[2]
        jobs = coded(trace.at_submission(procs), n)
        present = np.cumsum(np.where(plan.kind == SUBMIT, 1, np.where(plan.kind == START, 0, -1))).max(initial=0)
        memory = make_memory(
            ring=max(min(self.most, n), 1),
            slots=int(present) + 1,
            users=jobs.users + 1,
            classes=jobs.classes + 1,
            rooms=min(int(present), ROOMS) + 2,
        )
        out = np.full((n, 1 + len(LEVELS) + 5), np.nan)
        events, asked = (plan.time, plan.kind, plan.index.astype(np.int64)), (jobs.numbers, jobs.codes)
        free, slot_of = np.arange(present, 0, -1), np.zeros(n, np.int64)
        steps.follow_log(memory, self.options, events, asked, run, _LEVELS, free, slot_of, out)
        return self._forecasts(jobs.numbers[:, 1], out)

    def _forecasts(self, limit: np.ndarray, out: np.ndarray) -> Forecasts:
        """Build Forecasts from compiled results; a job without candidates gets its time limit as point and no
        quantiles.
        """
        points, words, grounds = out[:, 0], bases(out[:, 1 + len(LEVELS) :]), [Grounds.CLASS] * len(out)
        rows = np.flatnonzero(np.isnan(points))
        points[rows] = np.maximum(limits_in_order(limit, np.arange(len(limit)))[rows], SHORTEST)
        for row in rows.tolist():
            words[row], grounds[row] = NO_HISTORY, Grounds.LIMIT
        return Forecasts(points, LEVELS, out[:, 1 : 1 + len(LEVELS)], words, grounds)

    def _ask(self, job: JobRequest, now: float) -> tuple[int, np.ndarray]:
        """Return the number of candidates of a job, and the prediction and its evidence as numbers."""
        itself, out = self._note(job, now), np.empty(1 + len(LEVELS) + 5)
        return steps.predict_job(self.memory, self.options, 0, itself, now, _LEVELS, out), out

    def _note(self, job: JobRequest, now: float) -> int:
        """Write the job's request to slot 0, which is for predictions, and return the job's own slot, if any."""
        numbers, codes = self._written(job, now)
        steps.write_request(self.memory, 0, numbers, codes)
        return self.slots.get(job.row, NOBODY)

    def _written(self, job: JobRequest, now: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the job's numbers and codes for compiled code; new users and classes are added to the tables."""
        codes = self.coder.row(job)
        if len(self.coder.users) > len(self.memory.ends):
            self.memory = grown(self.memory, "users", 2 * len(self.memory.ends))
        if self.coder.most_classes() > self.memory.head.shape[1]:
            self.memory = grown(self.memory, "classes", 2 * self.memory.head.shape[1])
        return np.array((now, job.req_time, job.procs)), np.array(codes, np.int64)

    def _enter(self, job: JobRequest, now: float) -> None:
        self._leave(job.row)
        numbers, codes = self._written(job, now)
        if not self.free:
            size = len(self.memory.unfinished)
            self.memory = grown(self.memory, "slots", 2 * size)
            self.free = list(range(2 * size - 1, size - 1, -1))
        slot = self.slots[job.row] = self.free.pop()
        steps.job_submitted(self.memory, slot, numbers, codes)

    def _end(self, event: End) -> None:
        known = event.job.row in self.slots
        if not known:
            self._enter(event.job, event.job.submit_time)
        if self.memory.numbers[TOTAL] == len(self.memory.finished) < self.most:
            self.memory = grown(self.memory, "ring", min(2 * len(self.memory.finished), self.most))
        steps.job_ended(self.memory, self.options, self.slots[event.job.row], event.time, event.run_time, known)
        self._leave(event.job.row)

    def _leave(self, row: int) -> None:
        slot = self.slots.pop(row, None)
        if slot is not None:
            steps.job_stopped(self.memory, slot)
            self.free.append(slot)

    def _change(self, event: Start | Requeue | Change) -> None:
        """Update a started or requeued job, or a changed job, whose new request replaces the old request in
        comparisons."""
        row, begun = event.job.row, event.time if isinstance(event, Start) else math.nan
        if isinstance(event, Change):
            begun, asked = self.memory.unfinished[["start", "submit"]][self.slots[row]].tolist()
            self._enter(event.job, asked)
        else:
            steps.job_stopped(self.memory, self.slots[row])
        if begun == begun:
            steps.job_started(self.memory, self.slots[row], begun)


_LEVELS = np.array(LEVELS)


def basis(rests: list[float]) -> str:
    """Describe the jobs that a prediction is based on, from the total weights of the user's jobs (all, with this limit,
    of this size, both) and their number.

    >>> basis([0.9, 0.8, 0.3, 0.2, 11.7])
    "mostly about 12 of the user's jobs with this limit"
    """
    kind = next((k for k in (3, 2, 1, 0) if rests[k] >= MOSTLY), OTHERS if rests[0] <= 1.0 - MOSTLY else MIXED)
    return _words(kind, max(round(rests[4]), 1))


def bases(rests: np.ndarray) -> list[str]:
    """Describe many predictions, one row of evidence (5,) per prediction; a row without a prediction gets a text that
    is never shown."""
    rests = np.nan_to_num(rests)
    otherwise = np.where(rests[:, 0] <= 1.0 - MOSTLY, OTHERS, MIXED)
    kind = np.select([rests[:, k] >= MOSTLY for k in (3, 2, 1, 0)], [3, 2, 1, 0], otherwise)
    count = np.maximum(np.rint(rests[:, 4]), 1.0).astype(np.int64)
    kinds = MIXED + 1
    # one number per pair, because sorting rows is 10x slower
    pairs, which = np.unique(count * kinds + kind, return_inverse=True)
    words = [_words(pair % kinds, pair // kinds) for pair in pairs.tolist()]
    return [words[k] for k in which.tolist()]


def _words(kind: int, count: int) -> str:
    if kind == MIXED:
        return f"about {count} jobs, the user's own and others'"
    if kind == OTHERS:
        return f"mostly about {count} jobs of other users with this limit"
    return f"mostly about {count} of the user's {WORDS[kind]}"
