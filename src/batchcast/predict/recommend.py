# SPDX-License-Identifier: Apache-2.0
"""Suggests time limits from similar jobs' run times or from a predictor, and computes the cost of a job's attempts.

From similar jobs, the suggestion is an empirical quantile of their run times, adjusted to the site's rules. From a
predictor, the suggestion is the smallest limit that the job exceeds with at most a given probability. Uses no numpy,
because web pages import this module.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from .protocol import REFITTED, Grounds, Prediction, pass_on

if TYPE_CHECKING:
    from ..events.event import Event
    from ..events.state import SystemState
    from ..job import JobRequest


def spent(request: float, peak: float, again: float) -> float:
    """Return the sum of the requests of a job's attempts until one attempt succeeds, in the unit of the first request.

    The second attempt requests `again` if that amount is enough; otherwise each attempt requests twice the amount of
    the attempt before. Every attempt is charged for the whole run time.

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
    """A suggested limit in seconds, its rank among the run times, and the site rule that changed it.

    `reached` is false if there are too few jobs for the risk.
    """

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
    """Return the shortest time limit, in seconds, that a similar job exceeds with probability `risk` at most.

    The limit is the k-th smallest of n run times with k = ceil((n + 1)(1 - risk)). If the jobs are exchangeable, the
    next job exceeds the limit with probability 1 - k/(n + 1) <= risk (order statistics; Vovk, Gammerman & Shafer 2005,
    sec. 2.2). The full run time of a job that was killed at its limit is unknown (censored). Users choose limits by the
    run time that they expect, so methods for independent censoring do not apply. A killed job therefore counts as
    longer than all other jobs (the worst-case bound of Peterson 1976). If fewer than k jobs ended by themselves, these
    jobs are too few for the risk. The result is then 1.25 times the longest run time, and `reached` is false. A risk of
    5 % therefore needs at least 19 jobs. Finally the limit is raised to at least `floor`, rounded up to a multiple of
    `step`, and lowered to at most `most`. O(n log n).

    >>> recommend_limit([100.0] * 30 + [1000.0], [False] * 31, 0.05, floor=60, step=60)[:4]
    (1020.0, 1000.0, 31, 31)
    """
    if not run_times:
        raise ValueError("no finished jobs to base a limit on")
    ended = sorted(run for run, cut in zip(run_times, was_cut) if not cut)
    n, longest = len(run_times), max(run_times)
    k = math.ceil((n + 1) * (1 - risk) - 1e-9)
    reached = 0 < k <= len(ended)
    quantile = ended[k - 1] if reached else longest
    wanted = quantile if reached else longest * 1.25
    limit, shaped = max(wanted, floor), "the shortest limit here" if wanted < floor else ""
    limit = rounded_request(limit, floor, step)
    if limit > most:
        limit, shaped = most, "the longest allowed limit"
    return Advice(float(limit), quantile, k, n, sum(was_cut), reached, shaped, longest)


def bound_at(forecast: Prediction, level: float) -> float:
    """Return the value that is not exceeded with probability `level`, in the prediction's unit.

    Interpolates between two levels linearly in the logarithm. Outside the prediction's levels, the function returns the
    nearest quantile; for a level above the highest level, this quantile is too low. If the prediction has no quantiles,
    the function returns the point. O(levels).

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
    """Raise the amount to at least `floor`, round it up to a multiple of `step` (0: no rounding), and lower it to at
    most `most`.

    >>> rounded_request(130.0, 100.0, 100.0), rounded_request(130.0, 100.0, 100.0, most=150.0)
    (200.0, 150.0)
    """
    raised = max(amount, floor)
    return min(math.ceil(raised / step - 1e-9) * step if step > 0 else raised, most)


def rule_of_thumb(run_times: Sequence[float], step: float = 300.0) -> float:
    """Return the common rule of thumb in seconds: 1.25 times the longest recent run, rounded up to five minutes.

    >>> rule_of_thumb([600.0, 1000.0])
    1500.0
    """
    return math.ceil(1.25 * max(run_times) / step - 1e-9) * step


BY_NAME = "jobs of this user with this name and size"
"""The `basis` of suggestions that use only ended jobs of the same user, name and size."""
NEW_NAME = "limit: the name is new, and predictions for new names have not been reliable so far"
"""The `basis` if a job with a new name keeps its limit: too many jobs of new names exceeded their predicted bound, or
too few such jobs have ended."""
RAISED = 1.25
REACHES = 1.0 - 1e-9


class LimitAdvice:
    """Wraps a run-time predictor; the point of its predictions becomes a suggested time limit, before rounding.

    The suggested limit is the predictor's bound at level 1 - `risk` (without randomization, if the predictor is
    `calibrated`); the quantiles are unchanged. A bound never exceeds the job's own limit. If the bound equals the job's
    limit even before calibration, more jobs than the risk allows run into their limit. The full run time of such jobs
    is unknown, so 1.25 times the limit is suggested. If the predictor has no quantiles, its point is suggested.

    If enough jobs of the same user, name and size have ended for the risk, the limit is computed only from these jobs
    (`Namesakes`), and is at most 1.25 times the job's own limit. Jobs with the same name are not used if the predictor
    reads the job's input files, because jobs with the same name can have very different inputs. A job with a new name
    keeps its limit if too many jobs with new names exceeded the predictor's bounds.

    >>> from batchcast.events.event import End; from batchcast.events.state import SystemState
    >>> from batchcast.job import JobRequest
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, 4096.0, user_id="ada"), SystemState()
    >>> method = LimitAdvice("largest_recent")
    >>> method.observe(End(80.0, job, 80.0, 0.0), state); method.predict(job, state).point
    100.0
    """

    def __init__(self, of: str = "calibrated", risk: float = 0.05) -> None:
        from .namesakes import Namesakes  # imported here because it imports numpy, which web pages do not need
        from .registry import make

        self.inner: Any = make("runtime", of)
        self.namesakes = Namesakes("time")
        self.risk = risk
        self.uses = tuple(getattr(self.inner, "uses", ()))
        # without these attributes, the replay would not refit the predictor
        pass_on(self.inner, self, *REFITTED)

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the suggested limit at the risk given to the constructor."""
        return self.advise(job, at, self.risk)

    def advise(self, job: JobRequest, at: SystemState, risk: float) -> Prediction:
        """Return the suggested limit at the given risk."""
        from .registry import input_columns

        answer = self._forecast(job, at)
        if answer.grounds == Grounds.MODEL and answer.levels and not input_columns().isdisjoint(self.uses):
            return self._of_forecast(answer, job, at, risk)
        asked = job.req_time if math.isfinite(job.req_time) else math.nan
        alike = self.namesakes.request(job, asked, risk, at.now)
        if alike == alike:
            own = (answer.levels, answer.quantiles) if answer.levels else ((1.0 - risk,), (alike,))
            point = min(alike, RAISED * job.req_time)
            return Prediction(point, *own, BY_NAME, Grounds.CLASS)
        if asked > 0 and self.namesakes.is_unknown(job, self.risk):  # bounds were recorded at the constructor's risk
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
        ask = getattr(self.inner, "steady", self.inner.predict)  # the limit of a single job must not be random
        answer: Prediction = ask(job, at)
        return answer

    def _comes_to_it(self, job: JobRequest, at: SystemState, risk: float) -> bool:
        """Return whether the uncalibrated predictor expects that the job reaches its limit with a probability above
        `risk`.
        """
        own: Prediction = getattr(self.inner, "inner", self.inner).predict(job, at)
        return bool(own.levels) and bound_at(own, 1.0 - risk) >= job.req_time * REACHES

    def observe(self, event: Event, at: SystemState) -> None:
        """Pass the event to the predictor, and learn from the event for later jobs with the same name."""
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
