# SPDX-License-Identifier: Apache-2.0
"""Makes a run-time method forecast peak memory: MiB in place of seconds, on the recorded and the live clock.

Where accounting comes late.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from ..columns import OUT_OF_MEMORY
from ..events.event import Change, End, Event, Requeue, Start, Submit, Withdraw
from ..events.state import SystemState
from ..job import JobRequest
from .namesakes import TWICE, Namesakes
from .protocol import Grounds, Prediction
from .recommend import BY_NAME
from .registry import make

MIB = 1024.0
SPARE = 64.0
"""A method keeps its answers inside the limit it is told. Memory is often used beyond what was asked, so the method is
told so many times that; likeness looks at ratios of limits alone."""
_SWAPPED = {"req_time": "req_mem_kib", "req_mem_kib": "req_time"}
_PASSED_ON = ("refit_every_jobs", "refit_every_s", "falls_back_to", "refit", "is_oracle", "is_fresh", "trained")


class PeakMemory:
    """Method `of`, asked for a job's peak memory and taught by it; MiB in every answer.

    Parameters
    ----------
    of
        Any run-time method; it sees the memory request where the time request stands, and the other way round.
    asked
        KiB that a job asks for, per node or processor, from its request alone; NaN unknown.
    used
        KiB that it held at its peak, from its End; NaN where nobody measured. Called at the End and never before.
    most
        MiB that there are of a node; no answer is above it.

    Notes
    -----
    What a job that runs tells of its run time (that it is longer than this) says nothing of its memory, so Start is not
    told. A job that ran out of memory needed more than it asked: the method is taught the median of what it thinks
    beyond that (its `revise`), or twice that amount where it thinks nothing there. One without a measurement teaches
    nothing. Where the method has nothing to go by, the answer is the request, else the largest peak seen so far.
    Answers are at least a MiB, Slurm's unit of a request, and at most what a node has, the request or, if that is more,
    twice the largest peak so far. O(1) beside the method's own.

    Examples
    --------
    >>> from .runtime.last_2 import Last2
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, 4096.0, user_id="ada"), SystemState()
    >>> method = PeakMemory(Last2(), lambda job: job.req_mem_kib, lambda end: {50.0: 8192.0}[end.run_time])
    >>> method.predict(job, state).point
    4.0
    >>> method.observe(End(50.0, job, 50.0, 0.0), state); method.predict(job, state).point
    8.0
    """

    target = "used_mem_kib"

    def __init__(
        self,
        of: Any,
        asked: Callable[[JobRequest], float],
        used: Callable[[End], float],
        most: float = math.inf,
    ) -> None:
        self.inner, self.asked, self.used, self.most = of, asked, used, most
        self.uses = tuple(_SWAPPED.get(name, name) for name in getattr(of, "uses", ()))
        self.largest = math.nan
        for name in _PASSED_ON:
            if hasattr(of, name):
                setattr(self, name, getattr(of, name))

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The method's answer, MiB; the request where the method has nothing to go by."""
        answer: Prediction = self.inner.predict(self._seen(job), at)
        if answer.grounds == Grounds.LIMIT:
            return self._request(job, answer)
        points, most = (answer.point, *answer.quantiles), self._most(job)
        if max(points) <= most:
            return answer
        point, *quantiles = (min(value, most) for value in points)
        return replace(answer, point=point, quantiles=tuple(quantiles))

    def _most(self, job: JobRequest) -> float:
        """What no answer is above: a node's memory; the request, else twice the largest peak that anybody had."""
        asked, seen = self.asked(job) / MIB, TWICE * self.largest
        return min(self.most, max((a for a in (asked, seen) if a == a), default=math.inf))

    def distribution(self, job: JobRequest, at: SystemState) -> Any:
        """The method's whole distribution of the peak, MiB, where it has one."""
        return self.inner.distribution(self._seen(job), at)

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit: what the job asks; End: what it held; a start says nothing of memory."""
        if isinstance(event, End):
            self._end(event, at)
        elif isinstance(event, Submit | Requeue | Change | Withdraw):
            self.inner.observe(event._replace(job=self._seen(event.job)), at)
        elif not isinstance(event, Start):
            self.inner.observe(event, at)

    def _end(self, event: End, at: SystemState) -> None:
        job, amount = self._seen(event.job), self.used(event) / MIB
        if event.status == OUT_OF_MEMORY:
            got = self.asked(event.job) / MIB
            amount = self._needed(job, max((a for a in (got, amount) if a == a), default=math.nan), at)
        if not amount > 0:
            self.inner.observe(Withdraw(event.time, job, event.wait_time), at)
            return
        self.largest = amount if not self.largest >= amount else self.largest
        self.inner.observe(event._replace(job=job, run_time=max(amount, 1.0)), at)

    def _needed(self, job: JobRequest, got: float, at: SystemState) -> float:
        """What a job needed that held `got` when it ran out: as far as the method can tell."""
        if not got > 0 or not hasattr(self.inner, "revise"):
            return got
        revised = float(self.inner.revise(job, got, at))
        thinks_nothing = revised >= job.req_time * (1.0 - 1e-9)
        return min(TWICE * got if thinks_nothing else revised, self.most)

    def _request(self, job: JobRequest, answer: Prediction) -> Prediction:
        amount = self.asked(job) / MIB
        grounds = Grounds.LIMIT if amount > 0 else Grounds.NO_HISTORY
        if not amount > 0:
            amount = self.largest if self.largest > 0 else 1.0
        amount = max(min(amount, self.most), 1.0)
        words = "memory asked for" if grounds == Grounds.LIMIT else "largest peak so far"
        return Prediction(amount, answer.levels, (amount,) * len(answer.levels), words, grounds)

    def _seen(self, job: JobRequest) -> JobRequest:
        """The request as the method is shown it."""
        return job._replace(req_time=self.asked(job) / MIB * SPARE, req_mem_kib=job.req_time)


LATE_S = 3600.0
"""How long after a job's end its memory is waited for."""


class LateMemory:
    """Forecasts of the peak memory a node, KiB, by `PeakMemory` around a run-time method.

    A job's peak may come with its end or later (`measured`); one whose memory nobody measures within an hour teaches
    nothing. O(1) beside the method's own cost.

    Parameters
    ----------
    of
        The method, as `runtime` takes it: `NAME:key=value,...`.

    Examples
    --------
    >>> job = JobRequest(0, 1, 0.0, 1.0, 600.0, 4096.0, user_id="ada")
    >>> state, method = SystemState(), LateMemory("recent_mean")
    >>> for row in range(3):
    ...     method.observe(End(10.0, job._replace(row=row), 10.0, 0.0, "completed", 2048.0), state)
    >>> method.predict(job, state).point
    2048.0
    """

    def __init__(self, of: str = "kernel") -> None:
        self.inner: Any = PeakMemory(make("runtime", of), AskedANode(), Held())
        self.namesakes = Namesakes("memory")
        self.uses = tuple(self.inner.uses)
        self.pending: dict[int, End] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The method's answer in KiB a node."""
        answer: Prediction = self.inner.predict(job, at)
        kib = tuple(value * MIB for value in answer.quantiles)
        words = answer.basis.replace("limit", "memory request")
        return replace(answer, point=answer.point * MIB, quantiles=kib, basis=words)

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit, Withdraw: as they are; End: with what was measured, now or when `measured` tells it."""
        if isinstance(event, End):
            if event.peak_mem_kib == event.peak_mem_kib:
                self._hear(event, at)
            else:
                self.pending[event.job.row] = event
            self._give_up(event.time, at)
        elif isinstance(event, Submit | Withdraw):
            self.inner.observe(event, at)

    def measured(self, row: int, peak_mem_kib: float, status: str | None, at: SystemState) -> None:
        """What the ended job `row` held at most, KiB a node, now that accounting tells it."""
        event = self.pending.pop(row, None)
        if event is not None:
            self._hear(event._replace(time=at.now, peak_mem_kib=peak_mem_kib, status=status), at)

    def bound(self, job: JobRequest, risk: float, forecast: Prediction) -> Prediction | None:
        """What the job needs at most, at the risk, KiB a node, as its one quantile; None where nothing speaks for it.

        A job with a name is spoken for by its namesakes alone (`Namesakes`), one without by its `forecast`.
        """
        if job.job_name is None:
            return forecast if forecast.grounds not in (Grounds.LIMIT, Grounds.NO_HISTORY) else None
        amount = self.namesakes.request(job, AskedANode()(job), risk)
        if not amount > 0:
            return None
        return Prediction(amount, (1.0 - risk,), (amount,), BY_NAME, Grounds.CLASS)

    def _hear(self, event: End, at: SystemState) -> None:
        self.inner.observe(event, at)
        got = event.peak_mem_kib
        if event.status == OUT_OF_MEMORY:
            got = TWICE * max((a for a in (got, AskedANode()(event.job)) if a == a), default=math.nan)
        self.namesakes.learn(event.job, got, event.run_time)

    def _give_up(self, now: float, at: SystemState) -> None:
        """Jobs whose memory did not become known in time; the oldest come first."""
        for row in list(self.pending):
            if self.pending[row].time > now - LATE_S:
                break
            event = self.pending.pop(row)
            self.inner.observe(Withdraw(now, event.job, event.wait_time), at)


class AskedANode:
    """KiB that a job asks for a node; NaN unknown. A class, so that a kept clock can be read again.

    >>> AskedANode()(JobRequest(0, 1, 0.0, 8.0, 600.0, 4096.0, req_nodes=2.0))
    2048.0
    """

    def __call__(self, job: JobRequest) -> float:
        """From its request alone."""
        return job.req_mem_kib / (job.req_nodes if job.req_nodes > 1 else 1.0)


class Held:
    """KiB that one node of an ended job held at most."""

    def __call__(self, end: End) -> float:
        """As its end tells."""
        return end.peak_mem_kib


def least_waste(levels: Sequence[float], bounds: Sequence[float] | np.ndarray, again: float) -> float:
    """The bound with the least expected memory-time where a job that runs out is run again, every attempt in full.

    Parameters
    ----------
    levels
        In (0, 1), ascending (n,).
    bounds
        What the peak keeps to with these chances (n,), not descending, in any unit above 0.
    again
        What the second attempt asks, in the same unit; where it does not suffice or is unknown (NaN), each attempt
        asks twice as much as the one before.

    Returns
    -------
    float
        One of the bounds, the largest of equals.

    Notes
    -----
    The peak is taken to be the upper bound between two levels, and twice the last bound above it: with calibrated
    levels these chances are kept, where the support of an empirical distribution is exceeded by every job that needs a
    little more than the last. An attempt counts for the whole run time although it ends when memory does, which errs
    on the side of the larger request; the run time is taken as independent of the peak. After Tovar et al., A job
    sizing strategy for high-throughput scientific workflows, IEEE TPDS 29(2), 2018, doi:10.1109/TPDS.2017.2762310,
    where the first request is chosen from an empirical distribution and the second is the largest peak seen. O(n^2).

    >>> least_waste((0.75, 0.99), [1.0, 10.0], 16.0), least_waste((0.5, 0.99), [6.0, 10.0], 16.0)
    (1.0, 10.0)
    """
    first = np.asarray(bounds, float)
    peaks = np.append(first, 2.0 * first[-1])
    weights = np.diff([0.0, *levels, 1.0])
    steps = np.ceil(np.log2(peaks / first[:, None]) - 1e-12)
    doubled = first[:, None] * (2.0 ** (steps + 1.0) - 1.0)
    more = np.where(again >= peaks, first[:, None] + again, doubled)
    cost = np.where(peaks <= first[:, None], first[:, None], more) @ weights
    return float(first[cost <= cost.min() * (1.0 + 1e-12)].max())
