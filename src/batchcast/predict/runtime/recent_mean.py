# SPDX-License-Identifier: Apache-2.0
"""`recent_mean`: the mean run time of the last k finished jobs with the same request."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from operator import attrgetter

import numpy as np

from ...events.event import END, SUBMIT, End, Event, Submit
from ...events.recorded import Forecasts, Timeline, outcome, timeline
from ...events.state import SystemState
from ...job import JobRequest, Name
from ...table import Trace
from ..fallback import NO_HISTORY, LargestLimit, limits_in_order
from ..gate import class_codes, class_key
from ..protocol import SHORTEST, Grounds, Prediction, at_least_a_second

FIELDS = ("user_id", "req_time", "procs")


class RecentMean:
    """Predicts the mean run time of the last `k` jobs with equal `fields`, else of the user, else the time limit.

    Parameters
    ----------
    k
        Number of the latest finished jobs that count, at least 1.
    fields
        Columns known at submission (predict/gate.py), separated by `+` in text.

    Raises
    ------
    ValueError
        If `k` is below 1.

    Notes
    -----
    One finished job is enough for a mean, and the result is at most the time limit. An unknown value equals no other
    value, so a job with an unknown field uses its user's history. The rule comes from papers/online-knn-ga.md ("mean of
    the last 5 finished jobs of the same user, requested time and processors"). The compiled simulation implements this
    predictor too, with equal results. Costs O(k) per job, and memory for k numbers per class.

    References
    ----------
    Xu, Xiong, Xiao, On-line prediction of application run time using schedule historical data, 2018,
    doi:10.3969/j.issn.1001-3695.2018.08.0624.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada"), SystemState()
    >>> method = RecentMean(k=2)
    >>> for run in (10.0, 20.0, 40.0):
    ...     method.observe(End(run, job, run, 0.0), state)
    >>> method.predict(job, state).point
    30.0
    """

    def __init__(self, k: int = 5, fields: tuple[str, ...] = FIELDS) -> None:
        if k < 1:
            raise ValueError("k is at least 1 job")
        self.k = k
        self.fields = self.uses = fields
        # one C call instead of a Python loop; attrgetter of a single field would return the value, not a tuple
        several = len(fields) > 1 and all(name in JobRequest._fields for name in fields)
        self._plain = attrgetter(*fields) if several else None
        self.limits = LargestLimit()
        self.same: dict[tuple[object, ...], deque[float]] = {}
        self.users: dict[Name, deque[float]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the mean run time, between one second and the time limit."""
        recent = self.same.get(self._key(job))
        basis, grounds = "same " + ", ".join(self.fields), Grounds.CLASS
        if not recent and job.user_id is not None:
            recent, basis, grounds = self.users.get(job.user_id), "same user", Grounds.OWN_HISTORY
        if not recent:
            return self.limits.forecast(job)
        point = at_least_a_second(sum(recent) / len(recent), job.req_time)
        return Prediction(point, basis=f"mean of the last {len(recent)} finished, {basis}", grounds=grounds)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the last k run times of each class and of each user."""
        if isinstance(event, End):
            job: JobRequest = event.job
            run_time: float = event.run_time
            self.users.setdefault(job.user_id, deque(maxlen=self.k)).append(run_time)
            key = self._key(job)
            if None not in key:
                self.same.setdefault(key, deque(maxlen=self.k)).append(run_time)
        elif isinstance(event, Submit):
            self.limits.note(event.job.req_time)

    def predict_trace(self, trace: Trace, protocol: str = "honest", procs: str = "req") -> Forecasts:
        """Predict a whole log with a fresh predictor; equals the event-by-event predictions. Costs O(k n + n log n)."""
        plan, run, seen = timeline(trace, protocol), outcome(trace)[2], trace.at_submission(procs)
        like, own = (
            recent_runs(plan, class_codes(seen, names, len(trace))[0], run, self.k)
            for names in (self.fields, ("user_id",))
        )
        is_like = ~np.isnan(like[:, -1])
        points, counts = means_or_limits(trace, plan, np.where(is_like[:, None], like, own))
        same, case = "same " + ", ".join(self.fields), np.where(counts == 0, 2, np.where(is_like, 0, 1)).tolist()
        words = [
            *([f"mean of the last {n} finished, {each}" for n in range(self.k + 1)] for each in (same, "same user")),
            [NO_HISTORY],
        ]
        grounds = (Grounds.CLASS, Grounds.OWN_HISTORY, Grounds.LIMIT)
        basis = [words[w][n] for w, n in zip(case, counts.tolist())]
        return Forecasts(points, (), np.empty((len(trace), 0)), basis, [grounds[w] for w in case])

    def _key(self, job: JobRequest) -> tuple[object, ...]:
        if self._plain is None:
            return class_key(job, self.fields)
        values = self._plain(job)
        for value in values:
            if value != value:
                return tuple(None if v != v else v for v in values)
        return values


def recent_runs(plan: Timeline, codes: np.ndarray, run: np.ndarray, k: int) -> np.ndarray:
    """Return, for each job, the last `k` run times of its class that were known at its submission (n, k), newest last.

    Missing values are NaN; the row of a job that belongs to no class (code -1) contains only NaN. Costs O(n log n + k
    n).

    >>> log = Trace.from_arrays({"submit_time": [0, 5, 9], "wait_time": [0, 0, 0], "run_time": [3, 2, 1]})
    >>> recent_runs(timeline(log), np.zeros(3, int), log.run_time, 2).tolist()
    [[nan, nan], [nan, 3.0], [3.0, 2.0]]
    """
    place = np.arange(len(plan.kind))
    ended = (plan.kind == END) & (codes[plan.index] >= 0)
    key = codes[plan.index[ended]].astype(np.int64) * len(place) + place[ended]
    order = np.argsort(key, kind="stable")
    key, runs = key[order], run[plan.index[ended]][order]
    asked = plan.index[plan.kind == SUBMIT]
    first = codes[asked].astype(np.int64) * len(place)
    until = np.searchsorted(key, first + place[plan.kind == SUBMIT])
    begin = np.searchsorted(key, first)
    recent = np.full((len(codes), k), np.nan)
    for back in range(1, k + 1):
        there = (codes[asked] >= 0) & (until - back >= begin)
        recent[asked[there], k - back] = runs[until[there] - back]
    return recent


def means_or_limits(
    trace: Trace, plan: Timeline, recent: np.ndarray, rounding: Callable[[np.ndarray], np.ndarray] = np.positive
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of each job's recent run times, at most its limit (n,), and the number of run times (n,). A job
    without recent run times gets its limit.

    `recent` has shape (n, k). Values are added from the oldest on, so that the rounding equals Python's `sum`.
    """
    count = (~np.isnan(recent)).sum(axis=1)
    total = np.zeros(len(recent))
    for runs in recent.T:
        total = np.where(np.isnan(runs), total, total + runs)
    limit = limits_in_order(trace.req_time, plan.index[plan.kind == SUBMIT])
    mean = np.fmin(rounding(total / np.maximum(count, 1)), trace.req_time)  # fmin ignores an unknown limit (NaN)
    return np.maximum(np.where(count > 0, mean, limit), SHORTEST), count
