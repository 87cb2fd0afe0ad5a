# SPDX-License-Identifier: Apache-2.0
"""Puts events to predictors: the one loop body of every clock that drives them from Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .event import Capacity, Event, Submit
from .state import SystemState


class Cadence:
    """Calls a predictor's `refit` when its stated cadence falls due: every so many submissions, or seconds."""

    __slots__ = ("count", "last", "predictor")

    def __init__(self, predictor: Any) -> None:
        self.predictor = predictor
        self.count = 0
        self.last: float | None = None

    def submitted(self, now: float) -> None:
        """A job is about to be submitted at `now`."""
        every, seconds = (
            getattr(self.predictor, "refit_every_jobs", None),
            getattr(self.predictor, "refit_every_s", None),
        )
        if self.last is None:
            self.last = now
        if (every and self.count and self.count % every == 0) or (seconds and now - self.last >= seconds):
            self.predictor.refit(now)
            self.last = now
        self.count += 1


class Driver:
    """Predictors on one clock. At a submission: refit where due, then ask; then the state, then who observes.

    >>> from batchcast.predict.runtime.requested import Requested
    >>> driver = Driver({"requested": Requested()}, SystemState(8.0))
    >>> driver.tell(Submit(100.0, JobRequest(0, "7", 100.0, 4.0, 60.0, float("nan"))))["requested"].point
    60.0
    """

    def __init__(self, predictors: Mapping[str, Any], state: SystemState) -> None:
        self.predictors = dict(predictors)
        self.state = state
        self.cadences = [Cadence(p) for p in self.predictors.values() if hasattr(p, "refit")]

    def tell(self, event: Event, ask: bool = True, planned_end: float | None = None) -> dict[str, Any]:
        """Take an event in; at a submission the predictors' answers for that job, else nothing.

        `planned_end` is when the scheduler plans the job to end, known to who observes its start.
        """
        answers: dict[str, Any] = {}
        if isinstance(event, Submit):
            answers = self.submitted(event, ask)
        self.state.apply(event)
        if planned_end is not None and not isinstance(event, Capacity):
            self.state.plan(event.job.row, planned_end)
        self.observe(event)
        return answers

    def submitted(self, event: Submit, ask: bool = True) -> dict[str, Any]:
        """What comes before a submission is known to have happened: refits, and the answers for its job."""
        state, job = self.state, event.job
        state.now = event.time
        for cadence in self.cadences:
            cadence.submitted(event.time)
        self.before_asking()
        return {name: p.predict(job, state) for name, p in self.predictors.items()} if ask else {}

    def observe(self, event: Event) -> None:
        """The predictors learn of an event that the state has taken in."""
        for predictor in self.predictors.values():
            predictor.observe(event, self.state)

    def before_asking(self) -> None:
        """Called when refits are done, before the predictors are asked; for a clock with more to do then."""
