# SPDX-License-Identifier: Apache-2.0
"""The limit or memory to request for a user's next job of a name and size, from ended jobs of that kind alone."""

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
"""So many of the last ended jobs of a kind speak for the next one."""
LEAST_NAMED = 3
"""So many of a kind must have ended before they do."""
MOST_KINDS = 50_000
_SPREAD = 0.5
"""How far peaks of one process lie apart, in logarithms, before any has ended; it counts as one task."""
_STEPS = np.linspace(-2.5, 2.5, 11)


def cheapest_at_risk(peaks: np.ndarray, lengths: np.ndarray, asked: float, risk: float) -> float:
    """The request of least expected memory-time among those that at most `risk` of such tasks outgrow.

    Parameters
    ----------
    peaks, lengths
        What ended tasks of the same process held at most, and how long they ran (n,), n >= 1, above 0, in any units.
    asked
        What the task itself asks, in the unit of `peaks`: its second attempt where that was enough for all; else that
        is twice the largest peak. NaN unknown.
    risk
        In (0, 1]; 1 sets no bound, and the memory-time alone decides.

    Returns
    -------
    float
        In the unit of `peaks`; where `asked` is known, at most the larger of it and the largest peak.

    Notes
    -----
    The expected cost is that of Tovar et al. 2018 (see `least_waste`), eq. 1: the request for every task's length, and
    the second attempt's for the tasks that outgrow it. Their empirical distribution is exceeded by every new largest
    peak, so it is smoothed here: a normal kernel on the logarithm, half as wide as the peaks' spread over n^(1/5)
    (Silverman 1986, section 3.4.1), the spread shrunk towards `_SPREAD` as if by one task more. O(n log n).

    >>> cheapest_at_risk(np.full(50, 10.0), np.ones(50), 40.0, 0.05).__round__(1)
    10.4
    >>> cheapest_at_risk(np.array([10.0, 90.0]), np.array([1.0, 1.0]), 100.0, 0.05).__round__(1)
    100.0
    """
    logs, count = np.log(peaks), len(peaks)
    spread = math.sqrt((float(((logs - logs.mean()) ** 2).sum()) + _SPREAD**2) / count)
    weights = np.exp(-_STEPS * _STEPS / 2.0)
    weights /= weights.sum()
    around = np.exp(logs[:, None] + 0.5 * spread * count**-0.2 * _STEPS).ravel()
    most = float(peaks.max())
    around = np.minimum(around, asked if asked > most else most) if asked == asked else around
    order = np.argsort(around, kind="stable")
    around = around[order]
    again = asked if asked >= most else 2.0 * most
    of_length = np.cumsum(np.outer(lengths / lengths.sum(), weights).ravel()[order])
    of_tasks = np.cumsum(np.tile(weights, count)[order]) / count
    cost = np.where(of_tasks >= 1.0 - risk - 1e-12, around + (1.0 - of_length) * again, math.inf)
    return float(around[np.argmin(cost)])


ALIKE = 0.75
"""Run times of a kind that lie further apart than this (standard deviation of logarithms) are not of one kind."""
MARGIN = 1.25
"""So much is added to a time limit, within what was asked: the next run of a program is not always like the last."""
TWICE = 2.0
"""So many times what a job got counts as its need where that was not enough."""
MOST_MISSES = 2.0
"""A forecast decides over jobs of new kinds while it misses no more than so many times the risk of the last of them."""


def share_for_new(shares: Sequence[float], risk: float) -> float:
    """The share of what it asks that a job of a new kind should request, by the largest shares other kinds held.

    Of n kinds and one more that nobody has seen, k + 1 may outgrow the request that k of the n outgrow: it has the
    least expected cost among those with (k + 1) / (n + 1) <= `MOST_MISSES` x `risk`, the second attempt being what the
    job asks. At most 1; NaN for too few kinds: fewer than 9 at a risk of 5 % or more, since a few kinds cannot tell
    what is cheapest. O(n log n).

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
    """What ended jobs of the same user, name and size needed, and what the next of them should request.

    Other programs' needs say little of a job that has a name: on three workflows most attempts that ran out of memory
    had none of their own kind to go by (docs/evidence/memory.md). The last `HISTORY` of each kind are remembered, of
    the `MOST_KINDS` that ended last.

    Parameters
    ----------
    of
        `memory`, in any one unit: `LEAST_NAMED` ended ones are enough, and an attempt costs its length. `time`,
        seconds: an attempt costs what it requests, so many must have ended that an order statistic keeps the risk
        (1/risk - 1; Vovk, Gammerman & Shafer 2005, sec. 2.2), and no request is below that statistic, with a
        quarter added (`MARGIN`). Kinds whose run times differ by more than `ALIKE` do not speak: there a forecast knows
        more than a name. A running job that has run longer than half of the ended ones counts as one that needs twice
        as long as it has run, at most what is asked: of tasks sent together the short ones end first.

    A kind is new until `LEAST_NAMED` of it have ended. A forecast for its jobs rests on other programs, and may miss
    far more of them than its risk allows. So its bounds for them are remembered (`expect`). `is_unknown` says whether
    they were outrun too often (`MOST_MISSES`) among the last `HISTORY` that ended, or too few have ended to say: a job
    of a new kind should keep what it asks for then.

    With `written` the requests are those that users wrote, so of memory the shares that the user's other names held of
    theirs speak for a new one (`share_for_new`). Beside a live batch system they may be advised ones already: a share
    of a share would shrink from job to job.

    >>> known, job = Namesakes("memory"), JobRequest(0, 1, 0.0, 1.0, 600.0, 4096.0, user_id="ada", job_name="align")
    >>> for _ in range(LEAST_NAMED - 1):
    ...     known.learn(job, 10.0, 60.0)
    >>> known.request(job, 40.0, 0.05)
    nan
    >>> known.learn(job, 10.0, 60.0); round(known.request(job, 40.0, 0.05))
    13
    """

    def __init__(self, of: Literal["memory", "time"], written: bool = False) -> None:
        self.of = of
        self.shares: dict[int | str | None, dict[int | str, float]] | None = {} if written else None
        self.ended: dict[tuple[object, ...], deque[tuple[float, float]]] = {}
        self.running: dict[tuple[object, ...], dict[int, float]] = {}
        self.expected: dict[int, float] = {}
        self.missed: deque[bool] = deque(maxlen=HISTORY)

    def expect(self, job: JobRequest, bound: float) -> None:
        """A forecast says at a job's submission that it needs `bound` at most."""
        if self._is_new(job):
            self.expected[job.row] = bound

    def is_unknown(self, job: JobRequest, risk: float) -> bool:
        """Whether its kind is new and forecasts of new kinds did not keep the risk. A job without a name is not."""
        return self._is_new(job) and (1 + sum(self.missed)) > MOST_MISSES * risk * (1 + len(self.missed)) + 1e-9

    def _is_new(self, job: JobRequest) -> bool:
        return job.job_name is not None and len(self.ended.get(_kind(job), ())) < LEAST_NAMED

    def begin(self, job: JobRequest, time: float) -> None:
        """A job of a name began to run at `time`, seconds."""
        if job.job_name is not None:
            self.running.setdefault(_kind(job), {})[job.row] = time

    def stop(self, job: JobRequest) -> None:
        """It runs no longer; what it needed is not known."""
        self.expected.pop(job.row, None)
        of_kind = self.running.get(_kind(job), {})
        of_kind.pop(job.row, None)
        if not of_kind:
            self.running.pop(_kind(job), None)

    def learn(self, job: JobRequest, amount: float, length: float = 1.0, asked: float = math.nan) -> None:
        """A job of a name ended that needed so much of what it asked; one that ran out, twice what it got.

        `length` in seconds.
        """
        bound = self.expected.get(job.row)
        if bound is not None and amount > 0:  # a job that came to its own limit outran no bound that could be kept
            self.missed.append(bound < amount <= job.req_time)
        self.stop(job)
        if job.job_name is None or not amount > 0:
            return
        kind = _kind(job)
        self.ended[kind] = of_kind = self.ended.pop(kind, None) or deque(maxlen=HISTORY)
        of_kind.append((amount, max(length, 1.0)))
        if len(self.ended) > MOST_KINDS:
            del self.ended[next(iter(self.ended))]
        if self.shares is not None and asked > 0:
            of_user = self.shares.setdefault(job.user_id, {})
            of_user[job.job_name] = max(of_user.pop(job.job_name, 0.0), amount / asked)
            if len(of_user) > HISTORY:
                del of_user[next(iter(of_user))]

    def _of_others(self, job: JobRequest, asked: float, risk: float) -> float:
        """What a job of a new name should request, never less than one of its kind held; NaN where nothing says."""
        if self.shares is None or job.job_name is None or not asked > 0:
            return math.nan
        of_user = self.shares.get(job.user_id, {})
        share = share_for_new([one for name, one in of_user.items() if name != job.job_name], risk)
        held = max((amount for amount, _ in self.ended.get(_kind(job), ())), default=0.0)
        return max(share * asked, held) if share == share else math.nan

    def request(self, job: JobRequest, asked: float, risk: float, now: float = math.nan) -> float:
        """The cheapest request at the risk (`cheapest_at_risk`), as of `now`; NaN where the kind does not speak.

        `asked` is what the job itself asks, which a second attempt would get; NaN unknown.
        """
        of_kind = self.ended.get(_kind(job), ())
        least = LEAST_NAMED if self.of == "memory" else math.ceil(1.0 / risk - 1.0 - 1e-9)
        if len(of_kind) < max(least, LEAST_NAMED):
            return self._of_others(job, asked, risk)
        amounts, lengths = np.array(of_kind).T
        if self.of == "memory":
            return cheapest_at_risk(amounts, lengths, asked, risk)
        if np.log(amounts).std() > ALIKE:
            return math.nan
        passed = now - np.array(list(self.running.get(_kind(job), {}).values()))
        amounts = np.append(amounts, np.fmin(TWICE * passed[passed > np.median(amounts)], asked))
        keeps = np.sort(amounts)[math.ceil((len(amounts) + 1) * (1.0 - risk) - 1e-9) - 1]
        need = max(cheapest_at_risk(amounts, np.ones(len(amounts)), asked, risk), float(keeps))
        return min(MARGIN * need, max(need, asked)) if asked == asked else MARGIN * need


def needed_time(run_time: np.ndarray | float, limit: np.ndarray | float) -> np.ndarray:
    """Seconds that jobs needed: what came to its limit needed twice that, as far as anybody knows.

    >>> needed_time(np.array([50.0, 605.0]), np.array([600.0, 600.0])).tolist()
    [50.0, 1210.0]
    """
    least = np.maximum(run_time, 1.0)
    return np.asarray(np.where(np.asarray(run_time) >= limit, TWICE * least, least))


def requests_over_log(
    trace: Trace,
    namesakes: Namesakes,
    needed: np.ndarray,
    asked: np.ndarray,
    risks: Sequence[float],
    ask: np.ndarray,
    procs: str = "req",
    bounds: np.ndarray | None = None,
) -> np.ndarray:
    """What `namesakes` say at the submission of each job in `ask` (n,), a row a risk; NaN: no name, or too few.

    `needed` (n,) is what each job teaches at its end (NaN: nothing), `asked` (n,) what it asks itself. With `bounds`
    (n,), a forecast's at the first risk, a job of a new kind gets what it asks where they do not hold for such
    (`Namesakes.is_unknown`). Some 60 microseconds a job with a name; nothing where no job has one.
    """
    found = np.full((len(risks), len(trace)), np.nan)
    if not len(trace.nominal("job_name").categories):
        return found
    plan, jobs, run = timeline(trace), list(trace.requests(procs)), outcome(trace)[2]
    for time, kind, row in zip(plan.time.tolist(), plan.kind.tolist(), plan.index.tolist()):
        if kind == START and namesakes.of == "time":
            namesakes.begin(jobs[row], time)
        elif kind == END:
            namesakes.learn(jobs[row], float(needed[row]), float(run[row]), float(asked[row]))
        elif kind == SUBMIT and ask[row]:
            found[:, row] = [namesakes.request(jobs[row], float(asked[row]), risk, time) for risk in risks]
            if bounds is not None and namesakes.is_unknown(jobs[row], risks[0]):
                found[:, row] = asked[row]
            if bounds is not None:
                namesakes.expect(jobs[row], float(bounds[row]))
    return found


def _kind(job: JobRequest) -> tuple[object, ...]:
    return job.user_id, job.job_name, job.procs
