# SPDX-License-Identifier: Apache-2.0
"""Suggests the time limit or memory for a user's next job only from ended jobs with the same user, name and size."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ..events.event import END, START, SUBMIT
from ..events.recorded import outcome, timeline
from ..job import JobRequest
from ..table import Trace

HISTORY = 100
"""Number of ended jobs that are stored for each kind (the jobs of one user, name and size)."""
LEAST_NAMED = 3
"""Number of jobs of a kind that must have ended before a suggestion is based on this kind."""
MOST_KINDS = 50_000
_SPREAD = 0.5
"""Prior for the spread of one process's peaks (standard deviation of logarithms); it has the weight of one task."""
_STEPS = np.linspace(-2.5, 2.5, 11)


def cheapest_at_risk(peaks: np.ndarray, lengths: np.ndarray, requested: float, risk: float) -> float:
    """Return the memory request, in the unit of `peaks`, with the least expected memory-time among those that at most a
    share `risk` of similar tasks exceeds.

    >>> cheapest_at_risk(np.full(50, 10.0), np.ones(50), 40.0, 0.05).__round__(1)
    10.4
    >>> cheapest_at_risk(np.array([10.0, 90.0]), np.array([1.0, 1.0]), 100.0, 0.05).__round__(1)
    100.0
    """
    # The second attempt uses the task's own request, `requested`, if that was enough for every ended task; otherwise it
    # requests twice the largest peak. If `risk` is 1, only the expected memory-time decides.
    #
    # The expected cost follows Tovar et al. 2018 (see `least_waste`), eq. 1: the sum over all tasks of the first
    # request times the run time, plus, over the tasks that exceed the first request, the second request times the run
    # time. The empirical distribution of peaks, which Tovar et al. use, ends at the largest peak so far, which the next
    # task may exceed. We therefore smooth the distribution of peaks with a normal kernel on the logarithm, with a
    # bandwidth of half the peaks' spread over n^(1/5) (Silverman 1986, section 3.4.1). The spread is averaged with the
    # default `_SPREAD`, which has the weight of one task. O(n log n).
    logs, count = np.log(peaks), len(peaks)
    spread = math.sqrt((float(((logs - logs.mean()) ** 2).sum()) + _SPREAD**2) / count)
    weights = np.exp(-_STEPS * _STEPS / 2.0)
    weights /= weights.sum()
    around = np.exp(logs[:, None] + 0.5 * spread * count**-0.2 * _STEPS).ravel()
    most = float(peaks.max())
    around = np.minimum(around, requested if requested > most else most) if requested == requested else around
    order = np.argsort(around, kind="stable")
    around = around[order]
    again = requested if requested >= most else 2.0 * most
    of_length = np.cumsum(np.outer(lengths / lengths.sum(), weights).ravel()[order])
    of_tasks = np.cumsum(np.tile(weights, count)[order]) / count
    cost = np.where(of_tasks >= 1.0 - risk - 1e-12, around + (1.0 - of_length) * again, math.inf)
    return float(around[np.argmin(cost)])


ALIKE = 0.75
"""If the run times of a kind spread more than this (standard deviation of logarithms), the kind is not used."""
MARGIN = 1.25
"""Safety factor on a suggested time limit, up to the user's own limit, because the next run can exceed all earlier
runs.
"""
TWICE = 2.0
"""If a job exceeded its request, its need is taken to be this factor times the request."""
MOST_MISSES = 2.0
"""Predictions for new kinds are trusted while their share of exceeded bounds is at most this factor times the risk."""


def share_for_new(shares: Sequence[float], risk: float) -> float:
    """Return which share of the user's request a job of a new kind should request; a kind is a user, name and size.

    `shares` contains, for each kind with ended jobs, the largest share of a request that its jobs used. If k of n known
    kinds exceed a request, at most k + 1 of n + 1 kinds are expected to exceed it once a new kind is added. The result
    has the least expected cost among the shares with (k + 1) / (n + 1) <= `MOST_MISSES` x `risk`; a second attempt is
    assumed to request the full amount. At most 1. With too few kinds (fewer than 9 at a risk of 5 % or more) the result
    is NaN, because a few kinds do not determine the cheapest share. O(n log n).

    >>> share_for_new([0.1, 0.2, 0.3, 0.2, 0.1, 0.3, 0.5, 0.2, 0.4], 0.05), share_for_new([0.1, 0.2], 0.05)
    (0.5, nan)
    """
    count = len(shares)
    found, cheapest = math.nan, math.inf
    for k, share in enumerate(sorted(shares, reverse=True)):
        outgrown = (k + 1) / (count + 1)
        if outgrown <= MOST_MISSES * min(risk, 0.05) + 1e-9 and share + outgrown < cheapest:
            found, cheapest = min(share, 1.0), share + outgrown
    return found


class Namesakes:
    """Stores the memory or time that ended jobs needed, by kind (user, name and size), and suggests a request for the
    next job of a kind.

    The needs of other programs say little about the need of a named job: on three workflows, most attempts that ran out
    of memory belonged to kinds without an ended job (docs/evidence/memory.md). The last `HISTORY` jobs of each kind are
    stored, for the `MOST_KINDS` kinds whose jobs ended last.

    >>> known, job = Namesakes("memory"), JobRequest(0, 1, 0.0, 1.0, 600.0, 4096.0, user_id="ada", job_name="align")
    >>> for _ in range(LEAST_NAMED - 1):
    ...     known.learn(job, 10.0, 60.0)
    >>> known.request(job, 40.0, 0.05)
    nan
    >>> known.learn(job, 10.0, 60.0); round(known.request(job, 40.0, 0.05))
    13
    """

    # Memory: requests and needs are in any one unit, an attempt costs memory times run time, and `LEAST_NAMED` ended
    # jobs of the kind are enough for a suggestion.
    #
    # Time: requests and needs are in seconds, and an attempt costs the time that it requests. At least 1/risk - 1 jobs
    # must have ended; with fewer jobs, no order statistic of their run times is exceeded with a probability of `risk`
    # or less (Vovk, Gammerman & Shafer 2005, sec. 2.2). The suggestion is at least the order statistic times `MARGIN`.
    # A kind whose run times spread more than `ALIKE` gets no suggestion, because a prediction from all similar jobs is
    # better for these kinds. If a job of the kind has already run longer than the median of the ended jobs, the running
    # job counts as a job that needs twice its run time so far, at most its limit: short tasks end first if tasks are
    # submitted together, so the ended jobs alone would suggest too little.
    #
    # A kind is new until `LEAST_NAMED` of its jobs have ended. Predictions for new kinds are based on the jobs of other
    # programs, and may be exceeded far more often than the risk allows. So `expect` records the predicted bounds of
    # jobs of new kinds, and `is_unknown` returns whether too many of the last `HISTORY` of them were exceeded
    # (`MOST_MISSES`), or too few have ended to decide. Then a job of a new kind should keep its own request.
    #
    # With `written`, all requests were written by users, and the memory request for a new kind is suggested from the
    # shares that the jobs of the user's other kinds used of their requests (`share_for_new`). On a live batch system
    # `written` must be false: requests may already be suggestions, and suggesting a share of a suggestion would shrink
    # requests from job to job.

    def __init__(self, resource: Literal["memory", "time"], written: bool = False) -> None:
        self.resource = resource
        self.shares: dict[int | str | None, dict[int | str, float]] | None = {} if written else None
        self.ended: dict[tuple[object, ...], deque[tuple[float, float]]] = {}
        self.running: dict[tuple[object, ...], dict[int, float]] = {}
        self.expected: dict[int, float] = {}
        self.missed: deque[bool] = deque(maxlen=HISTORY)

    def expect(self, job: JobRequest, bound: float) -> None:
        """Record the bound that was predicted for a job at its submission, if the job's kind is new."""
        if self._is_new(job):
            self.expected[job.row] = bound

    def is_unknown(self, job: JobRequest, risk: float) -> bool:
        """Return whether the job's kind is new and bounds of new kinds are exceeded too often; false for a job without
        name.
        """
        return self._is_new(job) and (1 + sum(self.missed)) > MOST_MISSES * risk * (1 + len(self.missed)) + 1e-9

    def _is_new(self, job: JobRequest) -> bool:
        return job.job_name is not None and len(self.ended.get(_kind(job), ())) < LEAST_NAMED

    def begin(self, job: JobRequest, time: float) -> None:
        """Record that a named job started to run at `time`, in seconds."""
        if job.job_name is not None:
            self.running.setdefault(_kind(job), {})[job.row] = time

    def stop(self, job: JobRequest) -> None:
        """Record that a job no longer runs or waits, and that its needed time or memory is unknown."""
        self.expected.pop(job.row, None)
        of_kind = self.running.get(_kind(job), {})
        of_kind.pop(job.row, None)
        if not of_kind:
            self.running.pop(_kind(job), None)

    def learn(self, job: JobRequest, amount: float, length: float = 1.0, requested: float = math.nan) -> None:
        """Learn from an ended job that needed the time or memory `amount` and requested `requested`; `length` is the
        run time in seconds.

        If the job exceeded its request, `amount` is twice the request.
        """
        bound = self.expected.get(job.row)
        # a job killed at its own limit did not exceed a bound that lies above the limit
        if bound is not None and amount > 0:
            self.missed.append(bound < amount <= job.req_time)
        self.stop(job)
        if job.job_name is None or not amount > 0:
            return
        kind = _kind(job)
        self.ended[kind] = of_kind = self.ended.pop(kind, None) or deque(maxlen=HISTORY)
        of_kind.append((amount, max(length, 1.0)))
        if len(self.ended) > MOST_KINDS:
            del self.ended[next(iter(self.ended))]
        if self.shares is not None and requested > 0:
            of_user = self.shares.setdefault(job.user_id, {})
            of_user[job.job_name] = max(of_user.pop(job.job_name, 0.0), amount / requested)
            if len(of_user) > HISTORY:
                del of_user[next(iter(of_user))]

    def _of_others(self, job: JobRequest, requested: float, risk: float) -> float:
        """Return a request for a job of a new kind from the user's other kinds, at least the largest need so far; NaN
        if too few kinds are known.
        """
        if self.shares is None or job.job_name is None or not requested > 0:
            return math.nan
        of_user = self.shares.get(job.user_id, {})
        share = share_for_new([one for name, one in of_user.items() if name != job.job_name], risk)
        held = max((amount for amount, _ in self.ended.get(_kind(job), ())), default=0.0)
        return max(share * requested, held) if share == share else math.nan

    def request(self, job: JobRequest, requested: float, risk: float, now: float = math.nan) -> float:
        """Return the suggested request at time `now` (`cheapest_at_risk`); NaN if the job's kind has too few ended jobs
        or too widely spread needs.

        `requested` is the job's own request, which is assumed for a second attempt; NaN if unknown.
        """
        of_kind = self.ended.get(_kind(job), ())
        least = LEAST_NAMED if self.resource == "memory" else math.ceil(1.0 / risk - 1.0 - 1e-9)
        if len(of_kind) < max(least, LEAST_NAMED):
            return self._of_others(job, requested, risk)
        amounts, lengths = np.array(of_kind).T
        if self.resource == "memory":
            return cheapest_at_risk(amounts, lengths, requested, risk)
        if np.log(amounts).std() > ALIKE:
            return math.nan
        passed = now - np.array(list(self.running.get(_kind(job), {}).values()))
        amounts = np.append(amounts, np.fmin(TWICE * passed[passed > np.median(amounts)], requested))
        keeps = np.sort(amounts)[math.ceil((len(amounts) + 1) * (1.0 - risk) - 1e-9) - 1]
        need = max(cheapest_at_risk(amounts, np.ones(len(amounts)), requested, risk), float(keeps))
        return min(MARGIN * need, max(need, requested)) if requested == requested else MARGIN * need


def needed_time(run_time: np.ndarray | float, limit: np.ndarray | float) -> np.ndarray:
    """Return the seconds that jobs needed; a job that reached its time limit counts as needing twice the limit.

    >>> needed_time(np.array([50.0, 605.0]), np.array([600.0, 600.0])).tolist()
    [50.0, 1210.0]
    """
    least = np.maximum(run_time, 1.0)
    return np.asarray(np.where(np.asarray(run_time) >= limit, TWICE * least, least))


def requests_over_log(
    trace: Trace,
    namesakes: Namesakes,
    needed: np.ndarray,
    requested: np.ndarray,
    risks: Sequence[float],
    ask: np.ndarray,
    procs: str = "req",
    bounds: np.ndarray | None = None,
) -> np.ndarray:
    """Return the requests that `namesakes` suggests at the submission of each job that the mask `ask` marks, shape
    (risks, n).

    `needed` (n,) is the need that `namesakes` learns at each job's end (NaN to skip a job), `requested` (n,) the job's
    own request. NaN in the result means that the job has no name or too few jobs of its kind have ended. `bounds` (n,)
    are a predictor's bounds at the first risk: if `bounds` is given, a job of a new kind keeps its own request if
    bounds of new kinds are exceeded too often (`Namesakes.is_unknown`). The function takes about 60 microseconds per
    named job.
    """
    found = np.full((len(risks), len(trace)), np.nan)
    if not len(trace.nominal("job_name").categories):
        return found
    plan, jobs, run = timeline(trace), list(trace.requests(procs)), outcome(trace)[2]
    for time, kind, row in zip(plan.time.tolist(), plan.kind.tolist(), plan.index.tolist()):
        if kind == START and namesakes.resource == "time":
            namesakes.begin(jobs[row], time)
        elif kind == END:
            namesakes.learn(jobs[row], float(needed[row]), float(run[row]), float(requested[row]))
        elif kind == SUBMIT and ask[row]:
            found[:, row] = [namesakes.request(jobs[row], float(requested[row]), risk, time) for risk in risks]
            if bounds is not None and namesakes.is_unknown(jobs[row], risks[0]):
                found[:, row] = requested[row]
            if bounds is not None:
                namesakes.expect(jobs[row], float(bounds[row]))
    return found


def _kind(job: JobRequest) -> tuple[object, ...]:
    return job.user_id, job.job_name, job.procs
