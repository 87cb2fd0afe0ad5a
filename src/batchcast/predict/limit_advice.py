# SPDX-License-Identifier: Apache-2.0
"""The limit that a run-time method advises: the smallest whose risk of a kill is at most a stated one."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ..events.event import Event
from ..events.state import SystemState
from ..job import JobRequest
from .protocol import Grounds, Prediction
from .recommend import bound_at
from .registry import make

RAISED = 1.25
REACHES = 1.0 - 1e-9


class LimitAdvice:
    """A run-time method whose point is what to ask for, unrounded; its quantiles stay.

    The point is the method's bound at level 1 - `risk`, of `calibrated` without lots. A bound never lies above the
    limit that was asked for, so where it is that limit, and the method says so before its levels are moved
    (`calibrated` moves them to keep its promise), more jobs than the risk allows come to their limit: how long they
    need nobody knows, and a quarter above the limit is the point. A method without quantiles advises its point.

    Parameters
    ----------
    of
        The method, as `runtime` takes it: `NAME:key=value,...`.
    risk
        The share of jobs that a limit may cut off, in (0, 1).

    Examples
    --------
    >>> from ..events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, 4096.0, user_id="ada"), SystemState()
    >>> method = LimitAdvice("largest_recent")
    >>> method.observe(End(80.0, job, 80.0, 0.0), state); method.predict(job, state).point
    100.0
    """

    def __init__(self, of: str = "calibrated", risk: float = 0.05) -> None:
        self.inner: Any = make("runtime", of)
        self.risk = risk
        self.uses = tuple(getattr(self.inner, "uses", ()))

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """What to ask for at the risk this was made with."""
        return self.advise(job, at, self.risk)

    def advise(self, job: JobRequest, at: SystemState, risk: float) -> Prediction:
        """What to ask for at another risk."""
        ask = getattr(self.inner, "steady", self.inner.predict)  # no lot decides over one job
        answer: Prediction = ask(job, at)
        if not answer.levels or answer.grounds in (Grounds.LIMIT, Grounds.NO_HISTORY):
            return answer
        bound = bound_at(answer, 1.0 - risk)
        if not bound < job.req_time * REACHES and self._comes_to_it(job, at, risk):
            bound = RAISED * job.req_time
        return replace(answer, point=bound)

    def _comes_to_it(self, job: JobRequest, at: SystemState, risk: float) -> bool:
        """Whether the method, before it is calibrated, expects more than that share of such jobs at their limit."""
        own: Prediction = getattr(self.inner, "inner", self.inner).predict(job, at)
        return bool(own.levels) and bound_at(own, 1.0 - risk) >= job.req_time * REACHES

    def observe(self, event: Event, at: SystemState) -> None:
        """The method observes."""
        self.inner.observe(event, at)
