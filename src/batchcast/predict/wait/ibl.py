"""`ibl`: instance-based learning, the waits of the most similar past submissions (Li et al., CCGrid 2006)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ...events.event import SUBMIT, Event
from ...events.recorded import Forecasts, replay, timeline
from ...events.state import SystemState
from ...job import JobRequest
from ...table import Trace
from ..protocol import Prediction, at_least_a_second
from . import ibl_kernel as kernel
from .census import guess
from .ledger import (
    QUEUED,
    RUNNING,
    Ledger,
    blank_jobs,
    blank_tally,
    clean_requests,
    grown,
    known_limit,
    known_procs,
    told_waits,
)

NAME_COLUMNS = ("user_id", "group_id", "app_id", "queue_id")
NUMBER_WEIGHTS = (1.0, 0.25, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 1.0, 0.25, 0.25, 0.25, 0.01)
NAME_WEIGHTS = (1.0, 0.25, 0.25, 1.0)
FIRST_K = 5


class Ibl:
    """Weighted median wait of the `k` nearest submissions among the last `window` whose wait is known.

    Source: Li, Chen, Tao, Groep & Wolters, "Improving a local learning technique for queue wait time predictions",
    CCGrid 2006, as used by Kumar & Vadhiyar 2012: a heterogeneous Euclidean-overlap distance over attributes of the
    job (processors, limit, user, group, executable, queue) and of the state at its submission. Departures: numeric
    attributes on log2 scales instead of divided by their range; further state attributes (`ibl_kernel.NUMBERS`: the
    user's queued and running jobs and last wait, the mean wait so far of the queue, through which jobs still queued
    speak although their waits are not known, what may go first, the date); the answer is the weighted median. After
    `train` submissions the weights and k are searched once, coordinate by coordinate, on those jobs alone
    (`search=no`: never), then fixed; before, fixed ones serve. The bound is the `level` quantile among the `wide`
    nearest. `cancelled`: whether a job cancelled in the queue teaches its wait.

    Cost of a prediction: one compiled pass over the window and over the queue, about 20 microseconds at 10,000.

    >>> Ibl().predict(JobRequest(0, 1, 0.0, 1.0, 60.0, float("nan")), SystemState(4.0)).basis
    'no history: fits beside the queue'
    """

    answers_by = "point"

    def __init__(
        self,
        window: int = 10000,
        train: int = 10000,
        search: bool = True,
        k: int = FIRST_K,
        wide: int = 50,
        sweeps: int = 2,
        level: float = 0.95,
        cancelled: Literal["count", "skip"] = "count",
    ) -> None:
        if window < 1 or train < 1 or not 1 <= k <= 64 or wide < 1:
            raise ValueError("window, train and wide are at least 1, k is 1 to 64")
        self.window, self.train, self.wide, self.level, self.sweeps = window, train, wide, level, sweeps
        self.refit_every_jobs = train
        self.search = search
        self.weights = (np.array(NUMBER_WEIGHTS, np.float32), np.array(NAME_WEIGHTS, np.float32), k)
        self.tuned: tuple[np.ndarray, np.ndarray, int] | None = None
        self.loss = float("nan")
        self.ledger = Ledger(cancelled)
        self.attributes, self.users = kernel.blank_attributes(1024), kernel.blank_users(64)
        self.instances = kernel.blank_instances(window)
        self.codes: tuple[dict[Any, int], ...] = ({}, {}, {}, {})
        self.learned: list[int] = []
        self.known: list[int] = []
        self.submits = 0.0
        self.room = (
            np.empty(window, np.float32),
            np.empty(max(wide, 64), np.int64),
            np.empty(max(wide, 64), np.float32),
        )

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The median wait of the nearest, and the wide quantile."""
        if self.instances.used[0] == 0:
            point, basis = guess(job, at, 0.0)
            return Prediction(point, (self.level,), (point,), basis)
        numbers = np.empty(len(kernel.NUMBERS), np.float32)
        user = self.codes[0].get(job.user_id, len(self.codes[0]) + 1) if job.user_id is not None else 0
        self._describe(job, at.now, user, numbers)
        names = np.array([codes.get(name, -2) for codes, name in zip(self.codes, names_of(job))], np.int32)
        weights = self.tuned or self.weights
        arguments = (self.instances, numbers, names, *weights, self.wide, self.level, *self.room)
        point, bound = kernel.answer(*arguments)
        return Prediction(
            *(at_least_a_second(point), (self.level,), (at_least_a_second(bound),), basis_of(weights[2], self.tuned))
        )

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit: the job's attributes; Start (and Withdraw, `cancelled=count`): its wait becomes an instance."""
        book, request = self.ledger, getattr(event, "job", None)
        if request is None:
            book.observe(event, at)
            return
        i = book.entry.get(request.row, -1)
        user = self._codes(request)[0] if request.user_id is not None else 0
        if i < 0:
            self._note(request, event.time if event.kind == SUBMIT else request.submit_time, user)
        was = 0 if i < 0 else book.jobs.status[i]
        book.observe(event, at)
        i, jobs = book.job, book.jobs
        self._count(user, int(was), int(jobs.status[i]), float(jobs.submit[i]))
        if book.taught:
            wait = float(jobs.wait[i])
            self.users.last_wait[user] = kernel.scale(wait)
            kernel.push(self.instances, self.attributes.numbers[:, i], self.attributes.names[:, i], wait)
            if self.tuned is None:
                self.learned.append(i)

    def refit(self, now: float) -> None:
        """The search, once: on the first `train` submissions, those of them whose wait is known by now."""
        n = len(self.known)
        if self.tuned is None and self.search and n >= self.train:
            part = kernel.Attributes(*(a[:, :n] for a in self.attributes))
            self._search(part, self.ledger.jobs.wait[:n], np.array(self.learned, np.int64), np.array(self.known))

    def _note(self, job: JobRequest, now: float, user: int) -> None:
        i, names = len(self.ledger), self._codes(job)
        if i >= self.attributes.numbers.shape[1]:
            wider = 2 * i
            self.attributes = kernel.Attributes(*(widened(a, wider) for a in self.attributes))
        if len(self.codes[0]) + 2 >= len(self.users.queued):
            self.users = grown(self.users, 2 * len(self.users.queued))
        self._describe(job, now, user, self.attributes.numbers[:, i])
        self.attributes.names[:, i] = names
        if self.tuned is None:
            self.known.append(len(self.learned))

    def _describe(self, job: JobRequest, now: float, user: int, into: np.ndarray) -> None:
        book = self.ledger
        kernel.describe(
            *(book.jobs, book.tally, self.users, user, now, known_procs(job.procs), known_limit(job.req_time)),
            *(self.submits, into),
        )

    def _count(self, user: int, was: int, now_is: int, submit: float) -> None:
        """Follow one job's way from queue to machine in its user's counts and the sum of queued submit times."""
        queued, running = (now_is == QUEUED) - (was == QUEUED), (now_is == RUNNING) - (was == RUNNING)
        self.users.queued[user] += queued
        self.users.running[user] += running
        self.submits += queued * submit

    def _codes(self, job: JobRequest) -> list[int]:
        return [
            -1 if name is None else codes.setdefault(name, len(codes) + 1)
            for codes, name in zip(self.codes, names_of(job))
        ]

    def _search(self, part: kernel.Attributes, wait: np.ndarray, learned: np.ndarray, known: np.ndarray) -> None:
        known, learned = known[: self.train], learned[learned < self.train]
        part = kernel.Attributes(*(np.ascontiguousarray(a[:, : self.train]) for a in part))
        queries = np.zeros(len(known), bool)
        queries[self.train // 5 :: 8] = True
        queries[: len(known)] &= np.isin(np.arange(len(known)), learned) & (known > 0)
        if queries.any():
            self.tuned, self.loss = kernel.search_weights(
                *(
                    part,
                    np.asarray(wait[: len(known)], float),
                    learned,
                    known.astype(np.int64),
                    self.weights,
                    self.window,
                ),
                *(queries, self.sweeps),
            )

    def prepare_trace(self, trace: Trace, protocol: str, procs: str = "req", *, total: float | None = None) -> None:
        """The search of a batch run alone, so that its cost can be told from that of the answers."""
        if self.search and self.tuned is None and len(trace) > self.train:
            head = self._collected(trace.take(np.arange(self.train + 1)), protocol, procs, total)
            self._search(head[0], head[1], head[2][: head[3][self.train]], head[3])

    def predict_trace(
        self,
        trace: Trace,
        protocol: str = "honest",
        procs: str = "req",
        *,
        total: float | None = None,
        ask: np.ndarray | None = None,
    ) -> Forecasts:
        """The whole log at once: the very numbers of the one-by-one path. `ask` (n,) bool: the jobs to answer."""
        asked = np.ones(len(trace), bool) if ask is None else np.asarray(ask, bool)
        self.prepare_trace(trace, protocol, procs, total=total)
        attributes, wait, learned, known = self._collected(trace, protocol, procs, total)
        points, bounds = np.full(len(trace), np.nan), np.full(len(trace), np.nan)
        tuned = self.tuned or self.weights
        kernel.answer_log(
            *(attributes, wait, learned, known, asked, self.train, self.weights, tuned),
            *(kernel.blank_instances(self.window), self.level, self.wide, points, bounds),
        )
        points, bounds = np.maximum(points, 1.0), np.maximum(bounds, 1.0)
        basis = [basis_of(self.weights[2], None)] * len(trace)
        if self.tuned is not None:
            basis[self.train :] = [basis_of(self.tuned[2], self.tuned)] * max(len(trace) - self.train, 0)
        first = int(np.searchsorted(known, 1))
        if asked[:first].any():
            own = replay(trace.take(np.arange(first)), {"it": Ibl(search=False)}, protocol=protocol, procs=procs,
                         total=trace.info.max_procs if total is None else total, ask=asked[:first])["it"]  # fmt: skip
            points[:first], bounds[:first], basis[:first] = own.points, own.quantiles[:, 0], own.basis
        return Forecasts(points, (self.level,), bounds[:, None], [b if a else "" for a, b in zip(asked, basis)])

    def _collected(
        self, trace: Trace, protocol: str, procs: str, total: float | None
    ) -> tuple[kernel.Attributes, np.ndarray, np.ndarray, np.ndarray]:
        """Attributes, waits, the order of learning, and how many were learned at each submission."""
        plan, n = timeline(trace, protocol), len(trace)
        sizes, limits = clean_requests(trace.procs(procs), trace.req_time)
        codes = [trace.nominal(name).codes.astype(np.int32) for name in NAME_COLUMNS]
        user = np.where(codes[0] < 0, 0, codes[0] + 1).astype(np.int64)
        attributes = kernel.blank_attributes(n)
        for row, coded in enumerate(codes):
            attributes.names[row] = np.where(coded < 0, -1, coded + 1)
        jobs, learned, known = blank_jobs(n + 1), np.zeros(n, np.int64), np.zeros(n, np.int64)
        waits = told_waits(trace.wait_time, trace.run_time, self.ledger.cancelled)
        count = kernel.collect_log(
            *(plan.time, plan.kind, plan.index, sizes, limits, waits, user, jobs),
            *(blank_tally(trace.info.max_procs if total is None else total), kernel.blank_users(int(user.max()) + 2)),
            *(attributes, learned, known),
        )
        return attributes, jobs.wait[:n], learned[:count], known


def names_of(job: JobRequest) -> tuple[Any, ...]:
    """The nominal attributes, None where unknown."""
    return (job.user_id, job.group_id, job.app_id, job.queue_id)


def basis_of(k: int, tuned: object) -> str:
    """Which weights answered."""
    return f"{k} nearest submissions, weights {'searched' if tuned is not None else 'fixed'}"


def widened(array: np.ndarray, columns: int) -> np.ndarray:
    """The same rows with room for more columns."""
    return np.concatenate([array, np.zeros((array.shape[0], columns - array.shape[1]), array.dtype)], axis=1)
