# SPDX-License-Identifier: Apache-2.0
"""Run-time predictors of one rule each: `requested`, `actual`, `last_2`, `recent_mean`, `largest_recent` and
`soft_walltime`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Literal

import numpy as np

from ...events.event import END, SUBMIT, End, Event, Submit
from ...events.recorded import Forecasts, Timeline, outcome, timeline
from ...events.state import SystemState
from ...job import JobRequest, Name
from ...table import Trace
from ..fallback import DAY, NO_HISTORY, LargestLimit, limits_in_order
from ..gate import class_codes, class_key
from ..protocol import SHORTEST, Grounds, Prediction, at_least_a_second

BASIS = "the user's limit"


class Requested:
    """Predicts the user's time limit; this is the baseline that every other method should beat.

    Notes
    -----
    A job without a limit gets the largest earlier limit, or one day if there is none. O(1) a job.

    Examples
    --------
    >>> Requested().predict(JobRequest(0, 1, 0.0, 1.0, 3600.0, float("nan")), SystemState()).point
    3600.0
    """

    def __init__(self) -> None:
        self.limits = LargestLimit()

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the job's time limit as prediction."""
        return self.limits.forecast(job, BASIS)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the largest time limit, which is used for jobs without a limit."""
        if isinstance(event, Submit):
            self.limits.note(event.job.req_time)

    def predict_trace(self, trace: Trace, protocol: str = "honest", procs: str = "req") -> Forecasts:
        """Predict a whole log with a fresh predictor; equals the event-by-event predictions. O(n log n)."""
        plan, n = timeline(trace, protocol), len(trace)
        points = np.maximum(limits_in_order(trace.req_time, plan.index[plan.kind == SUBMIT]), SHORTEST)
        return Forecasts(points, (), np.empty((n, 0)), [BASIS] * n, [Grounds.LIMIT] * n)


class Actual:
    """Perfect knowledge: returns the recorded run time, or the time limit for a job that never ran.

    Parameters
    ----------
    answers
        Recorded run times in log order, in seconds; NaN if a job never ran.

    Notes
    -----
    `is_oracle` exempts this predictor from the check that predictors do not use the future. No other method receives
    the recorded run times. O(1) a job.

    Examples
    --------
    >>> Actual([7.0]).predict(JobRequest(0, 1, 0.0, 1.0, 60.0, float("nan")), SystemState()).point
    7.0
    """

    is_oracle = True

    def __init__(self, answers: Sequence[float]) -> None:
        self.answers = [float(a) for a in answers]

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the recorded run time."""
        run_time = self.answers[job.row]
        if run_time != run_time:
            return LargestLimit().forecast(job, "oracle: the job never ran; its time limit")
        return Prediction(at_least_a_second(run_time), basis="oracle: the recorded run time", grounds=Grounds.ORACLE)

    def observe(self, event: Event, at: SystemState) -> None:
        """Do nothing, because there is nothing to learn."""


class Last2:
    """Predicts the mean run time of the user's last one or two finished jobs, else the time limit.

    Parameters
    ----------
    need
        Number of finished jobs required, 1 or 2.
    round
        Whether the mean is rounded: `no`, or `down` to whole seconds.

    Raises
    ------
    ValueError
        If `need` is neither 1 nor 2.

    Notes
    -----
    As in section 4 of the paper, the result is at most the time limit. Departures: one finished job is enough by
    default (`need=2` is the rule of the 2015 reference schedules), and the mean is not rounded. If jobs end at the same
    instant, the later job in the log counts as more recent. A job whose user is unknown gets its time limit. Costs O(1)
    per job; stores two numbers per user.

    References
    ----------
    Tsafrir, Etsion, Feitelson, Backfilling using system-generated predictions rather than user runtime estimates,
    IEEE TPDS 18(6), 2007, doi:10.1109/TPDS.2007.70606.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada"), SystemState()
    >>> method = Last2()
    >>> method.observe(End(50.0, job, 50.0, 0.0), state); method.predict(job, state).point
    50.0
    """

    uses = ("user_id",)

    def __init__(self, need: int = 1, round: Literal["no", "down"] = "no") -> None:
        if need not in (1, 2):
            raise ValueError("need is 1 or 2 finished jobs")
        self.need = need
        self.round = round
        self.limits = LargestLimit()
        self.finished: dict[Name, tuple[float, ...]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the mean of the last two run times, between one second and the time limit."""
        last = self.finished.get(job.user_id, ()) if job.user_id is not None else ()
        if len(last) < self.need:
            return self.limits.forecast(job, "limit: too little history")
        mean = sum(last) / len(last)
        point = at_least_a_second(float(math.floor(mean)) if self.round == "down" else mean, job.req_time)
        return Prediction(point, basis=f"mean of the user's last {len(last)} finished", grounds=Grounds.OWN_HISTORY)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the run times of each user's last two finished jobs."""
        if isinstance(event, End):
            user = event.job.user_id
            self.finished[user] = (*self.finished.get(user, ())[-1:], event.run_time)
        elif isinstance(event, Submit):
            self.limits.note(event.job.req_time)

    def predict_trace(self, trace: Trace, protocol: str = "honest", procs: str = "req") -> Forecasts:
        """Predict a whole log with a fresh predictor; equals the event-by-event predictions. O(n log n)."""
        plan, users = timeline(trace, protocol), class_codes(trace.at_submission(procs), ("user_id",), len(trace))[0]
        recent = recent_runs(plan, users, outcome(trace)[2], 2)
        recent[np.isnan(recent[:, 2 - self.need])] = np.nan
        points, counts = means_or_limits(trace, plan, recent, np.floor if self.round == "down" else np.positive)
        words = ("limit: too little history", *(f"mean of the user's last {n} finished" for n in (1, 2)))
        grounds = (Grounds.LIMIT, Grounds.OWN_HISTORY, Grounds.OWN_HISTORY)
        found = counts.tolist()
        return Forecasts(points, (), np.empty((len(trace), 0)), [words[n] for n in found], [grounds[n] for n in found])


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


class LargestRecent:
    """Predicts `factor` times the longest run time of the last `k` finished jobs of the same user and size.

    Parameters
    ----------
    k
        Number of the latest finished jobs that count, at least 1.
    factor
        Factor applied to the longest run time, above 0.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Notes
    -----
    If no job of this user and size has finished, the user's jobs of all sizes count. Without a finished job of the
    user, the time limit is predicted. A prediction is at most the time limit. The rule of thumb is often recommended
    for time limits and memory requests, and serves as a baseline. The rule is meant as an upper bound that jobs rarely
    exceed, so its result is a poor point prediction. `predict.recommend.rule_of_thumb` computes it for one list of run
    times. O(k) a job.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada"), SystemState()
    >>> method = LargestRecent()
    >>> for run in (40.0, 80.0):
    ...     method.observe(End(run, job, run, 0.0), state)
    >>> method.predict(job, state).point
    100.0
    """

    uses = ("user_id", "procs")

    def __init__(self, k: int = 10, factor: float = 1.25) -> None:
        if k < 1 or not factor > 0:
            raise ValueError("k is at least 1 job, factor above 0")
        self.k, self.factor = k, factor
        self.limits = LargestLimit()
        self.recent: dict[tuple[Name, float | None], deque[float]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the longest run time times the factor, between one second and the time limit."""
        recent = next((self.recent[key] for key in _keys(job) if key in self.recent), None)
        if recent is None or job.user_id is None:
            return self.limits.forecast(job)
        point = at_least_a_second(self.factor * max(recent), job.req_time)
        return Prediction(point, basis=f"{self.factor:g} x largest of the last {len(recent)}", grounds=Grounds.CLASS)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the last k run times of each user, and of each combination of user and size."""
        if isinstance(event, End):
            for key in _keys(event.job):
                self.recent.setdefault(key, deque(maxlen=self.k)).append(event.run_time)
        elif isinstance(event, Submit):
            self.limits.note(event.job.req_time)


def _keys(job: JobRequest) -> tuple[tuple[Name, float | None], ...]:
    return ((job.user_id, job.procs), (job.user_id, None))


class SoftWalltime:
    """Predicts the time limit times the largest share of its limit that one of the user's last `k` jobs used, plus a
    margin.

    Parameters
    ----------
    k
        Number of the user's latest finished jobs that count, at least 1.
    margin_s
        Margin that is added, in seconds, at least 0.
    long_factor
        Factor for jobs with a time limit above one day, at least 1. The factor is applied before the margin is added.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Notes
    -----
    This is the rule of CESNET's hook `softwalltime-predictor` for PBS Professional, in its form since July 2022. The
    published description of the rule is older: the margin of 15 minutes was added in November 2021, and the factor 2
    for limits above one day in July 2022. The scheduler needs an upper estimate, so the rule is a poor point
    prediction. The prediction is at most the time limit. A job without a limit counts as a job of 24 hours, as in the
    hook. Without a finished job of the user, the time limit is predicted. Departure: the hook predicts again when a job
    starts that waited more than an hour; this class predicts only at submission. Costs O(k) per job, and memory for k
    numbers per user.

    References
    ----------
    Klusáček, Chlumský, Improving accuracy of walltime estimates in PBS Professional using soft walltimes, JSSPP 2022,
    doi:10.1007/978-3-031-22698-4_10.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 7200.0, float("nan"), user_id="ada"), SystemState()
    >>> method = SoftWalltime()
    >>> method.observe(End(1800.0, job, 1800.0, 0.0), state)
    >>> method.predict(job, state).point  # a quarter of two hours, and 15 minutes
    2700.0
    """

    uses = ("user_id",)

    def __init__(self, k: int = 15, margin_s: float = 900.0, long_factor: float = 2.0) -> None:
        if k < 1 or margin_s < 0 or long_factor < 1:
            raise ValueError("k is at least 1 job, margin_s at least 0, long_factor at least 1")
        self.k, self.margin_s, self.long_factor = k, margin_s, long_factor
        self.shares: dict[Name, deque[float]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the soft limit, between one second and the time limit."""
        limit = _limit(job)
        shares = self.shares.get(job.user_id) if job.user_id is not None else None
        if not shares or (share := min(max(shares), 1.0)) <= 0:  # without history, the hook sets no soft limit
            return Prediction(at_least_a_second(limit), basis="limit: no history", grounds=Grounds.LIMIT)
        factor = self.long_factor if limit > DAY else 1.0
        point = at_least_a_second(limit * share * factor + self.margin_s, limit)
        basis = f"{share:.0%} of the limit, the most of the user's last {len(shares)}, plus {self.margin_s / 60:g} min"
        return Prediction(point, basis=basis, grounds=Grounds.OWN_HISTORY)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store which shares of their time limits each user's last k finished jobs used."""
        if isinstance(event, End) and event.job.user_id is not None:
            shares = self.shares.setdefault(event.job.user_id, deque(maxlen=self.k))
            shares.append(event.run_time / max(_limit(event.job), 1.0))


def _limit(job: JobRequest) -> float:
    """Return the job's time limit in seconds; one day if the job has no limit."""
    return job.req_time if math.isfinite(job.req_time) else DAY
