# SPDX-License-Identifier: Apache-2.0
"""`kernel`: a distribution of run times from weighted similar jobs; also given the time that a job has run."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from ...events.event import START, SUBMIT, Change, End, Event, Requeue, Start, Submit, Withdraw
from ...events.recorded import Forecasts, outcome, timeline
from ...events.state import SystemState
from ...job import JobRequest
from ...table import Trace
from ..fallback import LargestLimit
from ..protocol import Grounds, Prediction, at_least_a_second
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
from ..similarity.steps import answer, ended, follow, note, revised, started, stopped, submitted


class RunTimes(NamedTuple):
    """Values (n,) ascending, seconds, with their weights (n,), summing to one.

    >>> runs = RunTimes(np.array([10.0, 20.0, 60.0]), np.array([0.5, 0.25, 0.25]))
    >>> runs.quantile(0.5), runs.chance(20.0), runs.given(15.0).weights.tolist()
    (10.0, 0.25, [0.5, 0.5])
    """

    seconds: np.ndarray
    weights: np.ndarray

    def quantile(self, level: float) -> float:
        """The smallest value with at least `level` of the weight at or below it; NaN where there is none."""
        if not len(self.seconds):
            return math.nan
        at = int(np.searchsorted(np.cumsum(self.weights), level - 1e-12))
        return float(self.seconds[min(at, len(self.seconds) - 1)])

    def chance(self, span: float) -> float:
        """The chance to run longer than `span` seconds; NaN where nothing is known."""
        return float(self.weights[self.seconds > span].sum()) if len(self.seconds) else math.nan

    def given(self, elapsed: float) -> RunTimes:
        """The same for a job that has run `elapsed` seconds: what is longer; empty where nothing is."""
        longer = self.seconds > elapsed
        weights = self.weights[longer]
        total = weights.sum()
        return RunTimes(self.seconds[longer], weights / total) if total > 0 else RunTimes(*np.empty((2, 0)))


LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
WORDS = ("jobs", "jobs with this limit", "jobs of this size", "jobs with this limit and size")
OTHERS, MIXED = 4, 5  # beside the four kinds of WORDS
MOSTLY = 0.6
NO_HISTORY = "limit: no like job has ended"


class Kernel:
    """Predicts a run-time distribution from similar finished jobs; the similarity weights are learned online.

    Parameters
    ----------
    memory
        Finished jobs that are kept, about 300 bytes each, beside 14 KB for each of the first 4,096 users.
    learn
        Whether the likeness is learned; otherwise it stays as it begins.
    offsets
        Whether each user has an offset, learned as well.
    running
        The weight of the user's running jobs as censored evidence; 0 leaves them out.
    scaled
        Whether a candidate with another limit stands a second time, its run time scaled by the ratio of the limits.
    relative
        Whether the score is taken in shares of the limit; otherwise in log seconds.
    point
        What of the distribution is answered. `between`: the candidate between the 40 % and the 60 % quantile with the
        largest expected accuracy min(p, y) / max(p, y), what that measure asks for where it costs hardly any absolute
        error; `accuracy`: the same among all candidates; `median`: what the absolute error asks for; `geometric`: the
        geometric mean, what orders a queue by expected log run time (docs/evidence/policy-study.md).

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    Candidates of job i are the last finished of its classes (user 128; user and limit, user and processors, all three
    64; limit alone, everybody's, 16), each once; j weighs exp(-theta . d(i, j)), d being how they differ: limit,
    processors, every field that the log knows, user, time between their submissions, age of j, how many of the user's
    jobs ended since, whether it is the last one. When a job ends, theta and an offset of its user take one AdaGrad step
    on the CRPS of the distribution that its candidates at submission give. Answers lie between one second and the
    limit; without any candidate the limit is the answer. Nothing is trained beforehand or refitted. O(candidates) a
    job, at most 672 of them.

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
        """Whether it has seen nothing yet."""
        return not self.coder.users

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """A point (`point`) of the weighted candidates that have ended by now, with quantiles."""
        out = np.empty(1 + len(LEVELS) + 5)
        if self._ask(job, at.now, out) == 0:
            return self.limits.forecast(job, NO_HISTORY)
        values = out.tolist()
        words = basis(values[1 + len(LEVELS) :])
        return Prediction(values[0], LEVELS, tuple(values[1 : 1 + len(LEVELS)]), words, Grounds.CLASS)

    def distribution(self, job: JobRequest, at: SystemState) -> RunTimes:
        """The whole distribution, for chances of any span and for jobs that run; empty without a candidate."""
        n = self._ask(job, at.now, np.empty(1 + len(LEVELS) + 5))
        order = self.memory.order[0, :n]
        seconds = np.maximum(self.memory.length[0, SECONDS, order], 1.0)
        return RunTimes(np.fmin(seconds, max(job.req_time, 1.0)), self.memory.candidate[WEIGHT, order].copy())

    def revise(self, job: JobRequest, elapsed: float, at: SystemState) -> float:
        """A new plan for a job past its own: the median of what is longer, else the limit, else twice as long."""
        numbers, codes = self._written(job, at.now)
        note(self.memory, 0, numbers, codes)
        itself = self.slots.get(job.row, NOBODY)
        return float(revised(self.memory, self.options, 0, itself, at.now, elapsed))

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit: what the job is compared with; Start, Requeue: running or not; End: learn, and remember it."""
        if isinstance(event, Submit):
            self._enter(event.job, event.time)
            self.limits.note(event.job.req_time)
        elif isinstance(event, Start):
            slot = self.slots.get(event.job.row, NOBODY)
            if slot != NOBODY:
                stopped(self.memory, slot)
                started(self.memory, slot, event.time)
        elif isinstance(event, End):
            self._end(event)
        elif isinstance(event, Withdraw):
            self._leave(event.job.row)
        elif isinstance(event, Change | Requeue) and event.job.row in self.slots:
            self._change(event)

    def predict_trace(self, trace: Trace, protocol: str = "honest", procs: str = "req") -> Forecasts:
        """The same answers for every job of a log, told to a fresh method, in one compiled pass."""
        plan = timeline(trace, protocol)
        _, _, run = outcome(trace)
        n = len(trace)
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
        events = (plan.time, plan.kind, plan.index.astype(np.int64))
        free = np.arange(present, 0, -1)
        ask, levels = np.ones(n, bool), np.array(LEVELS)
        asked = (jobs.numbers, jobs.codes)
        follow(memory, self.options, events, asked, run, ask, levels, free, np.zeros(n, np.int64), out)
        return self._forecasts(jobs.numbers[:, 1], out)

    def _forecasts(self, limit: np.ndarray, out: np.ndarray) -> Forecasts:
        """Answers as the one-by-one path gives them: the limit, without quantiles, where there was no candidate."""
        points, words, limits = out[:, 0], bases(out[:, 1 + len(LEVELS) :]), LargestLimit()
        grounds = [Grounds.CLASS] * len(points)
        noted = 0
        for row in np.flatnonzero(np.isnan(points)).tolist():
            limits.note(float(np.max(limit[noted:row], initial=0.0, where=np.isfinite(limit[noted:row]))))
            noted = row
            points[row] = at_least_a_second(limits.of(float(limit[row])))
            words[row], grounds[row] = NO_HISTORY, Grounds.LIMIT
        return Forecasts(points, LEVELS, out[:, 1 : 1 + len(LEVELS)], words, grounds)

    def _ask(self, job: JobRequest, now: float, out: np.ndarray) -> int:
        numbers, codes = self._written(job, now)
        note(self.memory, 0, numbers, codes)
        itself = self.slots.get(job.row, NOBODY)
        return int(answer(self.memory, self.options, 0, itself, now, _LEVELS, out))

    def _written(self, job: JobRequest, now: float) -> tuple[np.ndarray, np.ndarray]:
        """The job's numbers and codes; users and classes seen for the first time find room."""
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
        submitted(self.memory, slot, numbers, codes)

    def _end(self, event: End) -> None:
        known = event.job.row in self.slots
        if not known:
            self._enter(event.job, event.job.submit_time)
        if self.memory.numbers[TOTAL] == len(self.memory.finished) < self.most:
            self.memory = grown(self.memory, "ring", min(2 * len(self.memory.finished), self.most))
        ended(self.memory, self.options, self.slots[event.job.row], event.time, event.run_time, known)
        self._leave(event.job.row)

    def _leave(self, row: int) -> None:
        slot = self.slots.pop(row, None)
        if slot is not None:
            stopped(self.memory, slot)
            self.free.append(slot)

    def _change(self, event: Change | Requeue) -> None:
        """A requeued job runs no more; a changed one is compared as it is now."""
        slot = self.slots[event.job.row]
        if isinstance(event, Requeue):
            stopped(self.memory, slot)
            return
        begun = float(self.memory.unfinished[slot]["start"])
        asked = float(self.memory.unfinished[slot]["asked"])
        self._enter(event.job, asked)
        if begun == begun:
            started(self.memory, self.slots[event.job.row], begun)


_LEVELS = np.array(LEVELS)


def basis(rests: list[float]) -> str:
    """What an answer rests on, from weights (own, with this limit, of this size, both) and the effective number.

    >>> basis([0.9, 0.8, 0.3, 0.2, 11.7])
    "mostly about 12 of the user's jobs with this limit"
    """
    kind = next((k for k in (3, 2, 1, 0) if rests[k] >= MOSTLY), OTHERS if rests[0] <= 1.0 - MOSTLY else MIXED)
    return _words(kind, max(round(rests[4]), 1))


def bases(rests: np.ndarray) -> list[str]:
    """The same for rows (n, 5); where nothing is known, words that nobody is to read."""
    rests = np.nan_to_num(rests)
    otherwise = np.where(rests[:, 0] <= 1.0 - MOSTLY, OTHERS, MIXED)
    kind = np.select([rests[:, k] >= MOSTLY for k in (3, 2, 1, 0)], [3, 2, 1, 0], otherwise)
    count = np.maximum(np.rint(rests[:, 4]), 1.0).astype(np.int64)
    kinds = MIXED + 1
    pairs, which = np.unique(count * kinds + kind, return_inverse=True)  # one number a pair: rows sort ten times slower
    words = [_words(pair % kinds, pair // kinds) for pair in pairs.tolist()]
    return [words[k] for k in which.tolist()]


def _words(kind: int, count: int) -> str:
    if kind == MIXED:
        return f"about {count} jobs, the user's own and others'"
    if kind == OTHERS:
        return f"mostly about {count} jobs of others with this limit"
    return f"mostly about {count} of the user's {WORDS[kind]}"
