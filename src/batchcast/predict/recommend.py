# SPDX-License-Identifier: Apache-2.0
"""A limit to ask for, from the run times of like jobs or from a method's forecast, and what a job's attempts cost.

The first is an empirical quantile under a site's rules; the second the smallest limit whose risk of a kill is at most
a stated one. Pure, without numpy: a page needs it too.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from .protocol import Grounds, Prediction

if TYPE_CHECKING:
    from ..events.event import Event
    from ..events.state import SystemState
    from ..job import JobRequest


def spent(request: float, peak: float, again: float) -> float:
    """All that a job's attempts ask for until one is enough: `again` after the first where that suffices, else twice as
    much each time. In the unit of the request; the run time of every attempt counts in full.

    >>> unknown = float("nan")
    >>> spent(4.0, 3.0, unknown), spent(4.0, 6.0, 7.0), spent(1.0, 3.0, unknown), spent(4.0, 9.0, 6.0)
    (4.0, 11.0, 7.0, 28.0)
    """
    total = request
    if peak > request and again >= peak:
        return request + again
    while peak > request > 0:
        request *= 2.0
        total += request
    return total


class Advice(NamedTuple):
    """A limit in seconds, the rank it rests on, and what shaped it. `reached` false: too few jobs for that risk."""

    limit_s: float
    quantile_s: float
    rank: int
    jobs: int
    cut: int
    reached: bool
    shaped_by: str
    longest_s: float


def recommend_limit(
    run_times: Sequence[float],
    was_cut: Sequence[bool],
    risk: float = 0.05,
    *,
    floor: float = 300.0,
    step: float = 300.0,
    most: float = math.inf,
) -> Advice:
    """The shortest limit that a job like these exceeds with probability `risk` at most; seconds.

    The k-th smallest of n run times with k = ceil((n + 1)(1 - risk)): for exchangeable jobs the next one exceeds it
    with probability 1 - k/(n + 1) <= risk (order statistics; Vovk, Gammerman & Shafer 2005, sec. 2.2). How long a job
    would have run that was cut at its limit nobody knows, and users choose limits by what they expect, so no method
    for independent censoring applies: the job counts as the longest of all (the worst-case bound of Peterson 1976).
    If fewer than k jobs ended by themselves, no limit from these jobs keeps the risk: the longest run is taken, a
    quarter added, and `reached` is false. So a risk of 5 % takes 19 jobs at least. Then up to `floor`, up to a
    multiple of `step`, down to `most`. O(n log n).

    >>> recommend_limit([100.0] * 30 + [1000.0], [False] * 31, 0.05, floor=60, step=60)[:4]
    (1020.0, 1000.0, 31, 31)
    """
    if not run_times:
        raise ValueError("no finished jobs to go by")
    ended = sorted(run for run, cut in zip(run_times, was_cut) if not cut)
    n, longest = len(run_times), max(run_times)
    k = math.ceil((n + 1) * (1 - risk) - 1e-9)
    reached = 0 < k <= len(ended)
    quantile = ended[k - 1] if reached else longest
    wanted = quantile if reached else longest * 1.25
    limit, shaped = max(wanted, floor), "the shortest limit here" if wanted < floor else ""
    limit = rounded_request(limit, floor, step)
    if limit > most:
        limit, shaped = most, "the longest limit there is"
    return Advice(float(limit), quantile, k, n, sum(was_cut), reached, shaped, longest)


def bound_at(forecast: Prediction, level: float) -> float:
    """What a value keeps to with chance `level`, in the forecast's unit: between two levels linear in the logarithm.

    Below the first level its quantile; beyond the last one its quantile too, which then promises no more than that
    level. The point where there are no quantiles. O(levels).

    >>> like = Prediction(10.0, (0.5, 0.9), (10.0, 1000.0))
    >>> round(bound_at(like, 0.7), 6), bound_at(like, 0.9), bound_at(like, 0.99), bound_at(Prediction(5.0), 0.9)
    (100.0, 1000.0, 1000.0, 5.0)
    """
    levels, quantiles = forecast.levels, forecast.quantiles
    if not levels:
        return forecast.point
    k = bisect_left(levels, level - 1e-12)
    if k == len(levels) or k == 0 or levels[k] <= level + 1e-12:
        return quantiles[min(k, len(levels) - 1)]
    share = (level - levels[k - 1]) / (levels[k] - levels[k - 1])
    return float(quantiles[k - 1] * (quantiles[k] / quantiles[k - 1]) ** share)


def rounded_request(amount: float, floor: float, step: float, most: float = math.inf) -> float:
    """At least `floor`, up to a multiple of `step` (0: as it is), never above `most`, what a node has.

    >>> rounded_request(130.0, 100.0, 100.0), rounded_request(130.0, 100.0, 100.0, most=150.0)
    (200.0, 150.0)
    """
    raised = max(amount, floor)
    return min(math.ceil(raised / step - 1e-9) * step if step > 0 else raised, most)


def rule_of_thumb(run_times: Sequence[float], step: float = 300.0) -> float:
    """The usual advice: 1.25 times the longest recent run, up to a full five minutes; seconds.

    >>> rule_of_thumb([600.0, 1000.0])
    1500.0
    """
    return math.ceil(1.25 * max(run_times) / step - 1e-9) * step


BY_NAME = "the user's jobs of this name and size"
"""The basis of what a job's namesakes alone decide: no word about a job of another name."""
NEW_NAME = "limit: the name is new, and forecasts of new names have not held so far"
"""The basis of a job that keeps its limit: too many of them were outrun, or too few have ended to say."""
RAISED = 1.25
REACHES = 1.0 - 1e-9


class LimitAdvice:
    """A run-time method whose point is what to ask for, unrounded; its quantiles stay.

    The point is the method's bound at level 1 - `risk`, of `calibrated` without lots. A bound never lies above the
    limit that was asked for, so where it is that limit, and the method says so before its levels are moved
    (`calibrated` moves them to keep its promise), more jobs than the risk allows come to their limit: how long they
    need nobody knows, and a quarter above the limit is the point. A method without quantiles advises its point.
    Where enough jobs of the same user, name and size have ended for the risk, they alone decide (`Namesakes`), at most
    a quarter above the limit. A job whose name is new keeps its limit where the method's bound did not hold for such.

    Parameters
    ----------
    of
        The method, as `runtime` takes it: `NAME:key=value,...`.
    risk
        The share of jobs that a limit may cut off, in (0, 1).

    Examples
    --------
    >>> from batchcast.events.event import End; from batchcast.events.state import SystemState
    >>> from batchcast.job import JobRequest
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, 4096.0, user_id="ada"), SystemState()
    >>> method = LimitAdvice("largest_recent")
    >>> method.observe(End(80.0, job, 80.0, 0.0), state); method.predict(job, state).point
    100.0
    """

    def __init__(self, of: str = "calibrated", risk: float = 0.05) -> None:
        from .namesakes import Namesakes  # with numpy, which no page needs
        from .registry import make

        self.inner: Any = make("runtime", of)
        self.namesakes = Namesakes("time")
        self.risk = risk
        self.uses = tuple(getattr(self.inner, "uses", ()))

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """What to ask for at the risk this was made with."""
        return self.advise(job, at, self.risk)

    def advise(self, job: JobRequest, at: SystemState, risk: float) -> Prediction:
        """What to ask for at another risk."""
        answer = self._forecast(job, at)
        asked = job.req_time if math.isfinite(job.req_time) else math.nan
        alike = self.namesakes.request(job, asked, risk, at.now)
        if alike == alike:
            own = (answer.levels, answer.quantiles) if answer.levels else ((1.0 - risk,), (alike,))
            point = min(alike, RAISED * job.req_time)
            return Prediction(point, *own, BY_NAME, Grounds.CLASS)
        if asked > 0 and self.namesakes.is_unknown(job, self.risk):  # their bounds were recorded at that risk
            return replace(answer, point=asked, basis=NEW_NAME, grounds=Grounds.LIMIT)
        return self._of_forecast(answer, job, at, risk)

    def _of_forecast(self, answer: Prediction, job: JobRequest, at: SystemState, risk: float) -> Prediction:
        if not answer.levels or answer.grounds in (Grounds.LIMIT, Grounds.NO_HISTORY):
            return answer
        bound = bound_at(answer, 1.0 - risk)
        if not bound < job.req_time * REACHES and self._comes_to_it(job, at, risk):
            bound = RAISED * job.req_time
        return replace(answer, point=bound)

    def _forecast(self, job: JobRequest, at: SystemState) -> Prediction:
        ask = getattr(self.inner, "steady", self.inner.predict)  # no lot decides over one job
        answer: Prediction = ask(job, at)
        return answer

    def _comes_to_it(self, job: JobRequest, at: SystemState, risk: float) -> bool:
        """Whether the method, before it is calibrated, expects more than that share of such jobs at their limit."""
        own: Prediction = getattr(self.inner, "inner", self.inner).predict(job, at)
        return bool(own.levels) and bound_at(own, 1.0 - risk) >= job.req_time * REACHES

    def observe(self, event: Event, at: SystemState) -> None:
        """The method observes, and those of a name are remembered."""
        from ..events.event import End, Requeue, Start, Submit, Withdraw
        from .namesakes import needed_time

        if isinstance(event, Submit) and event.job.job_name is not None:
            bound = self._of_forecast(self._forecast(event.job, at), event.job, at, self.risk).point
            self.namesakes.expect(event.job, bound)
        elif isinstance(event, Start):
            self.namesakes.begin(event.job, event.time)
        elif isinstance(event, End):
            self.namesakes.learn(event.job, float(needed_time(event.run_time, event.job.req_time)))
        elif isinstance(event, Requeue | Withdraw):
            self.namesakes.stop(event.job)
        self.inner.observe(event, at)
