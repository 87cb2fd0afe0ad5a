# SPDX-License-Identifier: Apache-2.0
"""The driver: passes each event of a clock to the system state and to the predictors, in one fixed order.

The recorded, the simulated and the live clock use it, and so does the conformance suite. This is why a predictor cannot
tell which clock drives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .event import Capacity, Event, Submit
from .state import SystemState


class Cadence:
    """Calls a predictor's `refit` after every `refit_every_jobs` submissions or `refit_every_s` seconds."""

    __slots__ = ("count", "last", "predictor")

    def __init__(self, predictor: Any) -> None:
        self.predictor = predictor
        self.count = 0
        self.last: float | None = None

    def submitted(self, now: float) -> None:
        """Count a submission at time `now`, and refit first if a refit is due."""
        # Read anew each time: a predictor may change its own cadence while it learns.
        every = getattr(self.predictor, "refit_every_jobs", None)
        seconds = getattr(self.predictor, "refit_every_s", None)
        if self.last is None:
            self.last = now
        if (every and self.count and self.count % every == 0) or (seconds and now - self.last >= seconds):
            self.predictor.refit(now)
            self.last = now
        self.count += 1


class Driver:
    """Passes events to a system state and to named predictors.

    At a submission, due refits come first, then the predictions, and only then does the state take the event in: a
    prediction sees the queue as it was before its own job joined it. Every predictor then observes the event.

    Parameters
    ----------
    predictors
        The predictors by name.
    state
        The queue and the machine that the predictors see.

    Examples
    --------
    >>> from batchcast.job import JobRequest
    >>> from batchcast.predict.runtime.requested import Requested
    >>> driver = Driver({"requested": Requested()}, SystemState(8.0))
    >>> driver.tell(Submit(100.0, JobRequest(0, "7", 100.0, 4.0, 60.0, float("nan"))))["requested"].point
    60.0
    """

    def __init__(self, predictors: Mapping[str, Any], state: SystemState) -> None:
        self.predictors = dict(predictors)
        self.state = state
        self.cadences = {name: Cadence(p) for name, p in self.predictors.items() if hasattr(p, "refit")}

    def tell(self, event: Event, ask: bool = True, planned_end: float | None = None) -> dict[str, Any]:
        """Pass one event on.

        Parameters
        ----------
        event
            The next event; events come in time order.
        ask
            Whether a submission is predicted, or only learned from.
        planned_end
            The end that the scheduler plans for a job that starts, in seconds on the clock. The state holds it before
            the predictors observe the start.

        Returns
        -------
        dict
            The predictions for a submitted job, by the predictor's name; empty for every other event.
        """
        state = self.state
        answers = self.submitted(event, ask) if type(event) is Submit else {}
        state.apply(event)
        if planned_end is not None and not isinstance(event, Capacity):
            state.plan(event.job.row, planned_end)
        # `observe`, written out: a call less for each event, which a replay of a whole log notices
        for predictor in self.predictors.values():
            predictor.observe(event, state)
        return answers

    def submitted(self, event: Submit, ask: bool = True) -> dict[str, Any]:
        """Refit where due and predict, before the state takes the submission in; return the predictions by name."""
        state, job = self.state, event.job
        state.now = event.time
        if self.cadences:
            for cadence in self.cadences.values():
                cadence.submitted(event.time)
            self.before_asking()
        return {name: p.predict(job, state) for name, p in self.predictors.items()} if ask else {}

    def observe(self, event: Event) -> None:
        """Let every predictor learn from an event that the state has already taken in."""
        for predictor in self.predictors.values():
            predictor.observe(event, self.state)

    def before_asking(self) -> None:
        """Do nothing. A clock may override this to act between due refits and predictions of a submission."""
