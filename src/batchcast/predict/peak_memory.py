# SPDX-License-Identifier: Apache-2.0
"""Uses a run-time predictor to predict peak memory, in MiB instead of seconds, in a replay of a log and on a live
system.

Also works with accounting databases that report a job's memory some time after the job's end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from msgspec.structs import replace

from ..columns import OUT_OF_MEMORY
from ..events.event import Change, End, Event, Requeue, Start, Submit, Withdraw
from ..events.state import SystemState
from ..job import JobRequest
from .namesakes import TWICE, Namesakes
from .protocol import REFITTED, Grounds, Prediction, pass_on
from .recommend import BY_NAME
from .registry import make

MIB = 1024.0
SPARE = 64.0
"""Factor on the memory request that the predictor receives as time limit. Predictors limit their predictions to the
time limit, but jobs often use more memory than they request. The factor does not affect the similarity of jobs, because
only ratios of requests are compared.
"""
_SWAPPED = {"req_time": "req_mem_kib", "req_mem_kib": "req_time"}


class PeakMemory:
    """Applies the run-time predictor `of` to peak memory; all predictions are in MiB.

    >>> from .runtime.baselines import Last2
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, 4096.0, user_id="ada"), SystemState()
    >>> method = PeakMemory(Last2(), lambda job: job.req_mem_kib, lambda end: {50.0: 8192.0}[end.run_time])
    >>> method.predict(job, state).point
    4.0
    >>> method.observe(End(50.0, job, 50.0, 0.0), state); method.predict(job, state).point
    8.0
    """

    # `of` receives each job with the memory request and the time limit swapped. `request_of` and `peak_of` return KiB
    # per node or processor, NaN if unknown or not measured; `most` is the memory of a node in MiB.
    #
    # Start events are not passed on to the run-time predictor, because the time that a job has run says nothing about
    # its memory. A job that ran out of memory needed more memory than it requested. For a job that ran out of memory,
    # the predictor learns the median of its own distribution above the request (by `revise`), or twice the request if
    # the distribution lies entirely below the request. Nothing is learned from a job without a measurement. If no job
    # has ended, the prediction is the request, or the largest peak so far if there is no request. Predictions are at
    # least 1 MiB, which is Slurm's unit of a request. Predictions are at most a node's memory, and at most the larger
    # of the request and twice the largest peak so far. Each event costs O(1) more than the run-time predictor.

    target = "used_mem_kib"

    def __init__(
        self,
        of: Any,
        request_of: Callable[[JobRequest], float],
        peak_of: Callable[[End], float],
        most: float = math.inf,
    ) -> None:
        self.inner, self.request_of, self.peak_of, self.most = of, request_of, peak_of, most
        self.uses = tuple(_SWAPPED.get(name, name) for name in getattr(of, "uses", ()))
        self.largest = math.nan
        pass_on(of, self, *REFITTED, "falls_back_to", "is_oracle", "is_fresh", "trained")

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the predicted peak in MiB, or the memory request if no job has ended."""
        answer: Prediction = self.inner.predict(self._as_time(job), at)
        if answer.grounds == Grounds.LIMIT:
            return self._request(job, answer)
        points, most = (answer.point, *answer.quantiles), self._most(job)
        if max(points) <= most:
            return answer
        point, *quantiles = (min(value, most) for value in points)
        return replace(answer, point=point, quantiles=tuple(quantiles))

    def _most(self, job: JobRequest) -> float:
        """Return the upper limit of predictions: a node's memory, or the larger of the request and twice the largest
        peak so far, whichever is less."""
        asked, seen = self.request_of(job) / MIB, TWICE * self.largest
        return min(self.most, max((a for a in (asked, seen) if a == a), default=math.inf))

    def distribution(self, job: JobRequest, at: SystemState) -> Any:
        """Return the predictor's full distribution of the peak in MiB, if the predictor has one."""
        return self.inner.distribution(self._as_time(job), at)

    def observe(self, event: Event, at: SystemState) -> None:
        """Pass the event on to the run-time predictor, with memory in place of time; Start events are ignored, because
        they say nothing about memory."""
        if isinstance(event, End):
            self._end(event, at)
        elif isinstance(event, Submit | Requeue | Change | Withdraw):
            self.inner.observe(event._replace(job=self._as_time(event.job)), at)
        elif not isinstance(event, Start):
            self.inner.observe(event, at)

    def _end(self, event: End, at: SystemState) -> None:
        job, amount = self._as_time(event.job), self.peak_of(event) / MIB
        if event.status == OUT_OF_MEMORY:
            got = self.request_of(event.job) / MIB
            amount = self._needed(job, max((a for a in (got, amount) if a == a), default=math.nan), at)
        if not amount > 0:
            self.inner.observe(Withdraw(event.time, job, event.wait_time), at)
            return
        self.largest = amount if not self.largest >= amount else self.largest
        self.inner.observe(event._replace(job=job, run_time=max(amount, 1.0)), at)

    def _needed(self, job: JobRequest, got: float, at: SystemState) -> float:
        """Estimate the need of a job that ran out of memory when it used `got`, from the predictor's own
        distribution."""
        if not got > 0 or not hasattr(self.inner, "revise"):
            return got
        revised = float(self.inner.revise(job, got, at))
        thinks_nothing = revised >= job.req_time * (1.0 - 1e-9)
        return min(TWICE * got if thinks_nothing else revised, self.most)

    def _request(self, job: JobRequest, answer: Prediction) -> Prediction:
        amount = self.request_of(job) / MIB
        grounds = Grounds.LIMIT if amount > 0 else Grounds.NO_HISTORY
        if not amount > 0:
            amount = self.largest if self.largest > 0 else 1.0
        amount = max(min(amount, self.most), 1.0)
        words = "memory asked for" if grounds == Grounds.LIMIT else "largest peak so far"
        return Prediction(amount, answer.levels, (amount,) * len(answer.levels), words, grounds)

    def _as_time(self, job: JobRequest) -> JobRequest:
        """Return the job request with memory in place of the time limit, for the run-time predictor."""
        return job._replace(req_time=self.request_of(job) / MIB * SPARE, req_mem_kib=job.req_time)


LATE_S = 3600.0
"""How long after a job's end its measured memory is accepted, in seconds."""


class LateMemory:
    """Predicts peak memory per node in KiB: `PeakMemory` around a run-time predictor, for measurements that arrive
    after a job's end.

    A job's peak may arrive with its end or later (`measured`). If the peak does not arrive within an hour, nothing is
    learned from the job. Each event costs O(1) more than the run-time predictor.

    >>> job = JobRequest(0, 1, 0.0, 1.0, 600.0, 4096.0, user_id="ada")
    >>> state, method = SystemState(), LateMemory("recent_mean")
    >>> for row in range(3):
    ...     method.observe(End(10.0, job._replace(row=row), 10.0, 0.0, "completed", 2048.0), state)
    >>> method.predict(job, state).point
    2048.0
    """

    def __init__(self, of: str = "kernel") -> None:
        self.inner: Any = PeakMemory(make("runtime", of), asked_a_node, attrgetter("peak_mem_kib"))
        self.namesakes = Namesakes("memory")
        self.uses = tuple(self.inner.uses)
        self.pending: dict[int, End] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the predicted peak memory in KiB per node."""
        answer: Prediction = self.inner.predict(job, at)
        kib = tuple(value * MIB for value in answer.quantiles)
        words = answer.basis.replace("limit", "memory request")
        return replace(answer, point=answer.point * MIB, quantiles=kib, basis=words)

    def observe(self, event: Event, at: SystemState) -> None:
        """Pass Submit and Withdraw on; delay an End event until the job's memory is measured."""
        if isinstance(event, End):
            if event.peak_mem_kib == event.peak_mem_kib:
                self._hear(event, at)
            else:
                self.pending[event.job.row] = event
            self._give_up(event.time, at)
        elif isinstance(event, Submit | Withdraw):
            self.inner.observe(event, at)

    def measured(self, row: int, peak_mem_kib: float, status: str | None, at: SystemState) -> None:
        """Learn the measured peak memory per node, in KiB, of the ended job `row`."""
        event = self.pending.pop(row, None)
        if event is not None:
            self._hear(event._replace(time=at.now, peak_mem_kib=peak_mem_kib, status=status), at)

    def bound(self, job: JobRequest, risk: float, forecast: Prediction) -> Prediction | None:
        """Return the bound, in KiB per node, that the job's need exceeds with probability `risk`; None if unknown.

        The bound is the single quantile of the returned prediction.

        For a job with a name, the bound is computed only from jobs with the same name (`Namesakes`). For a job without
        a name, `forecast` is returned if it is based on ended jobs.
        """
        if job.job_name is None:
            return forecast if forecast.grounds not in (Grounds.LIMIT, Grounds.NO_HISTORY) else None
        amount = self.namesakes.request(job, asked_a_node(job), risk)
        if not amount > 0:
            return None
        return Prediction(amount, (1.0 - risk,), (amount,), BY_NAME, Grounds.CLASS)

    def _hear(self, event: End, at: SystemState) -> None:
        self.inner.observe(event, at)
        got = event.peak_mem_kib
        if event.status == OUT_OF_MEMORY:
            got = TWICE * max((a for a in (got, asked_a_node(event.job)) if a == a), default=math.nan)
        self.namesakes.learn(event.job, got, event.run_time)

    def _give_up(self, now: float, at: SystemState) -> None:
        """Drop jobs whose memory was not measured in time; the oldest come first."""
        for row in list(self.pending):
            if self.pending[row].time > now - LATE_S:
                break
            event = self.pending.pop(row)
            self.inner.observe(Withdraw(now, event.job, event.wait_time), at)


def asked_a_node(job: JobRequest) -> float:
    """Return the memory request in KiB per node; NaN if unknown.

    >>> asked_a_node(JobRequest(0, 1, 0.0, 8.0, 600.0, 4096.0, req_nodes=2.0))
    2048.0
    """
    return job.req_mem_kib / (job.req_nodes if job.req_nodes > 1 else 1.0)


def least_waste(levels: Sequence[float], bounds: Sequence[float] | np.ndarray, again: float) -> float:
    """Return the bound with the least expected memory-time, if a job that runs out of memory is rerun from the start.

    >>> least_waste((0.75, 0.99), [1.0, 10.0], 16.0), least_waste((0.5, 0.99), [6.0, 10.0], 16.0)
    (1.0, 10.0)
    """
    # `again` is the request of the second attempt. If it is unknown (NaN) or too small, each attempt requests twice the
    # amount of the attempt before. Of several equally cheap bounds, the largest is returned.
    #
    # A peak between two levels counts as the upper bound, and a peak above the last bound counts as twice that bound.
    # We use calibrated levels because they are valid for the next job; an empirical distribution would end at the
    # largest peak so far, which the next job may exceed. An attempt is charged for the whole run time although it ends
    # when memory runs out, which favors larger requests. The run time is assumed to be independent of the peak memory.
    # After Tovar et al., A job sizing strategy for high-throughput scientific workflows, IEEE TPDS 29(2), 2018,
    # doi:10.1109/TPDS.2017.2762310, who take the first request from an empirical distribution and use the largest peak
    # so far as the second. O(n^2).
    first = np.asarray(bounds, float)
    peaks = np.append(first, 2.0 * first[-1])
    weights = np.diff([0.0, *levels, 1.0])
    steps = np.ceil(np.log2(peaks / first[:, None]) - 1e-12)
    doubled = first[:, None] * (2.0 ** (steps + 1.0) - 1.0)
    more = np.where(again >= peaks, first[:, None] + again, doubled)
    cost = np.where(peaks <= first[:, None], first[:, None], more) @ weights
    return float(first[cost <= cost.min() * (1.0 + 1e-12)].max())
