# SPDX-License-Identifier: Apache-2.0
"""`ibl`: predicts waits from the most similar past submissions, instance-based learning (Li et al., CCGrid 2006)."""

from __future__ import annotations

from time import process_time
from typing import Literal

import numpy as np

from batchcast.events.event import SUBMIT, Event
from batchcast.events.record import Columns, clean_request, requests_of
from batchcast.events.recorded import Forecasts, event_table, timeline
from batchcast.events.state import Cancelled, SystemState
from batchcast.job import JobRequest
from batchcast.predict.protocol import SHORTEST, Grounds, Prediction, at_least_a_second
from batchcast.predict.wait.recent_wait import AN_HOUR, FITS, guess
from batchcast.records import enlarged
from batchcast.table import Trace

from . import ibl_kernel
from .ibl_kernel import Attributes, How, TrainingPart, search_weights

NAME_COLUMNS = ("user_id", "group_id", "app_id", "queue_id")
NUMBER_WEIGHTS = (1.0, 0.25, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 1.0, 0.25, 0.25, 0.25, 0.01)
NAME_WEIGHTS = (1.0, 0.25, 0.25, 1.0)
FIRST_K = 5
TEXT_WEIGHTS = (1.0,) * 8 + (0.0,) * 6  # weight 0 for the user's history and for the attributes that we added
TEXT_K = 50


class Ibl:
    """Predicts the weighted median wait of the `k` most similar of the last `window` submissions with a known wait.

    Parameters
    ----------
    window
        Number of latest submissions with a known wait that are compared with the new job.
    train
        Number of submissions after which weights and k are searched once, on the first `train` submissions. Before the
        search, fixed weights and a fixed k are used.
    search
        Whether weights and k are searched.
    k
        Number of neighbours before the search, or if there is no search.
    wide
        Number of neighbours; the `level` quantile of their waits is the upper bound.
    sweeps
        Number of rounds of the coordinate search.
    level
        The nominal level of the upper bound, in (0, 1).
    cancelled
        `count`: the time in the queue of a cancelled job counts as its wait; `skip`: this time is ignored.
    reading
        How the papers are interpreted: `ours`, or `text`, the method as the papers describe it: numbers are divided by
        their range among the instances, every weight is 1, there is no search, the prediction is the distance-weighted
        mean of 50 neighbours, and our additional attributes are not used.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Similarity is a heterogeneous Euclidean-overlap distance over attributes of the job (processors, limit, user, group,
    executable, queue) and of the state at its submission, as in Kumar and Vadhiyar (2012). Departures: numeric
    attributes are on log2 scales instead of divided by their range; there are further state attributes
    (`ibl_kernel.describe_now`: the user's queued and running jobs and last wait, the mean wait so far of queued jobs,
    the processors of jobs that may start first, the date); the prediction is the weighted median. Cost of a prediction:
    one compiled pass over the window and over the queue, about 20 microseconds at 10,000.

    References
    ----------
    Li, Chen, Tao, Groep, Wolters, Improving a local learning technique for queue wait time predictions, CCGrid 2006,
    doi:10.1109/CCGRID.2006.57.

    Examples
    --------
    >>> Ibl().predict(JobRequest(0, 1, 0.0, 1.0, 60.0, float("nan")), SystemState(4.0)).basis
    'no history: the job fits beside the waiting jobs'
    """

    holds_entries = True
    answers_by = "point"

    def __init__(
        self,
        window: int = 10000,
        train: int = 10000,
        search: bool = True,
        k: int | None = None,
        wide: int = 50,
        sweeps: int = 2,
        level: float = 0.95,
        cancelled: Cancelled = "count",
        reading: Literal["ours", "text"] = "ours",
    ) -> None:
        literal = reading == "text"
        k = k or (TEXT_K if literal else FIRST_K)
        if window < 1 or train < 1 or not 1 <= k <= 64 or wide < 1:
            raise ValueError("window, train and wide are at least 1, k is 1 to 64")
        self.window, self.train, self.sweeps = window, train, sweeps
        self.refit_every_jobs = train
        self.search = search and not literal
        numbers, names = (TEXT_WEIGHTS, (1.0,) * 4) if literal else (NUMBER_WEIGHTS, NAME_WEIGHTS)
        self.how = How(np.array(numbers, np.float32), np.array(names, np.float32), k, literal, wide, level)
        self.tuned: How | None = None
        self.loss = float("nan")
        self.search_s = 0.0  # CPU seconds of the search for weights
        self.cancelled: Cancelled = cancelled
        self.attributes = ibl_kernel.blank_attributes(1024)
        self.last_wait = np.zeros(64)
        self.instances = ibl_kernel.blank_instances(window)
        self.noted = 0
        self.wait = np.zeros(0)
        self.learned: list[int] = []
        self.known_counts: list[int] = []
        self.room = ibl_kernel.blank_room(window, wide)

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict the weighted median wait of the `k` nearest submissions, and a quantile of the waits of the `wide`
        nearest."""
        if self.instances.size_and_next[0] == 0:
            point, basis = guess(job, at, 0.0)
            return Prediction(point, (self.how.level,), (point,), basis, Grounds.NO_HISTORY)
        asked = ibl_kernel.blank_attributes(1)
        codes = [at.code(name, getattr(job, name)) for name in NAME_COLUMNS]
        last_wait = float(self.last_wait[codes[0]]) if 0 <= codes[0] < len(self.last_wait) else 0.0
        state = at.columns().record
        ibl_kernel.describe_now(state, codes[0], last_wait, at.now, *clean_request(job), False, asked.numbers, 0)
        asked.names[:, 0] = codes
        point, bound = ibl_kernel.answer(self.instances, asked, 0, self.tuned or self.how, self.room)
        quantiles = (at_least_a_second(bound),)
        return Prediction(at_least_a_second(point), (self.how.level,), quantiles, self._basis(), Grounds.CLASS)

    def observe(self, event: Event, at: SystemState) -> None:
        """At a submission, store the job's attributes; when the job's wait is known, add the job to the instances."""
        i = at.entry(event)
        if i < 0:
            return
        if i >= self.noted:  # only then are the state's columns read, because bringing them up to date takes long
            columns = at.columns()
            while self.noted < columns.record["entries"][0]:
                self._note(columns)
        wait = at.taught(event, self.cancelled)
        if wait is not None:
            ibl_kernel.learn(self.instances, self.attributes, self.last_wait, i, wait)
            if self.tuned is None:
                self.learned.append(i)
                self.wait[i] = wait

    def refit(self, now: float) -> None:
        """Search the weights once, on the submissions among the first `train` whose wait is known at this time."""
        if self.tuned is None and self.search and len(self.known_counts) >= self.train:
            self._search(self.attributes, self.wait, np.array(self.learned, np.int64), np.array(self.known_counts))

    def predict_trace(
        self,
        trace: Trace,
        protocol: str = "honest",
        procs: str = "req",
        *,
        total: float | None = None,
        ask: np.ndarray | None = None,
    ) -> Forecasts:
        """Predict a whole log at once, with the same results as job by job; the mask `ask` (n,) selects the jobs to
        predict."""
        n, asked = len(trace), np.ones(len(trace), bool) if ask is None else np.asarray(ask, bool)
        requests, codes = requests_of(trace, procs)
        users = len(codes["user_id"]) + 1
        state = Columns(trace.info.max_procs if total is None else total, n, users)
        events = event_table(trace, timeline(trace, protocol))
        submits = np.flatnonzero(events["rank"] == SUBMIT)
        attributes, last_wait = ibl_kernel.blank_attributes(n), np.zeros(users)
        points, bounds, known_counts = np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, np.int64)
        learned, count = np.zeros(n, np.int64), np.zeros(1, np.int64)
        into = ibl_kernel.Answers(learned, count, known_counts, points, bounds)
        basis, done = np.full(n, "", object), 0
        for stop in range(self.train, n + self.train, self.train):  # a refit is due after every `train` submissions
            end = submits[stop] if stop < n else len(events)
            ibl_kernel.replay_log(
                state.record, requests, events[done:end], asked, self.cancelled == "count", self.instances, attributes,
                last_wait, self.tuned or self.how, self.room, into
            )  # fmt: skip
            basis[stop - self.train : stop] = self._basis()
            if stop < n and self.tuned is None and self.search:
                self._search(attributes, state.jobs["wait"], learned[: count[0]], known_counts)
            done = end
        guessed = known_counts == 0
        basis[guessed] = np.where(points[guessed] == 1.0, FITS, AN_HOUR)
        basis[~asked] = ""
        return Forecasts(
            np.maximum(points, SHORTEST), (self.how.level,), np.maximum(bounds, SHORTEST)[:, None], basis.tolist()
        )

    def _basis(self) -> str:
        """Describe the evidence of a prediction from instances."""
        return (
            f"{(self.tuned or self.how).k} nearest submissions, weights {'fixed' if self.tuned is None else 'searched'}"
        )

    def _note(self, columns: Columns) -> None:
        """Store the attributes of the next submission."""
        i, user = self.noted, int(columns.jobs["user"][self.noted])
        self.noted += 1
        if i >= self.attributes.numbers.shape[1]:
            self.attributes = Attributes(*(np.pad(a, ((0, 0), (0, i))) for a in self.attributes))
        if user >= len(self.last_wait):
            self.last_wait = enlarged(self.last_wait, 2 * user)
        in_queue = i == int(columns.record["entries"][0]) - 1
        ibl_kernel.note(columns.record, columns.jobs, i, self.last_wait, in_queue, self.attributes)
        if self.tuned is None:
            self.known_counts.append(len(self.learned))
            if i >= len(self.wait):
                self.wait = enlarged(self.wait, 2 * i + 64)

    def _search(self, part: Attributes, wait: np.ndarray, learned: np.ndarray, known_counts: np.ndarray) -> None:
        """Search the weights on the first `train` submissions; `learned` has the jobs in the order in which their waits
        became known, `known_counts` how many waits were known at each submission."""
        began = process_time()
        known_counts, learned = known_counts[: self.train], learned[learned < self.train]
        part = Attributes(*(np.ascontiguousarray(a[:, : self.train]) for a in part))
        queries = np.zeros(len(known_counts), bool)
        queries[self.train // 5 :: 8] = True
        queries[: len(known_counts)] &= np.isin(np.arange(len(known_counts)), learned) & (known_counts > 0)
        if queries.any():
            training = TrainingPart(
                part, np.array(wait[: len(known_counts)], float), learned, known_counts.astype(np.int64)
            )
            self.tuned, self.loss = search_weights(training, self.how, self.window, queries, self.sweeps)
        self.search_s = process_time() - began
