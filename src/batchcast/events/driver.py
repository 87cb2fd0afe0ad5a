# SPDX-License-Identifier: Apache-2.0
"""The driver passes each event from a clock (a source of events) to the system state and to the predictors, in one
fixed order.

Replays of logs (the recorded clock), simulations (the simulated clock), live systems (the live clock) and the
conformance suite all use this driver. Therefore a predictor cannot tell whether its events come from a replay, a
simulation or a live system.
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
        """Refit the predictor if a refit is due, and count a submission at time `now`."""
        # The attributes are read at every submission, because a predictor may change them while it learns.
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

    At a submission, the driver first runs the refits that are due, and then requests predictions. The driver applies
    the submission to the state only after the predictions, so that a predictor sees the queue without the predicted
    job. After the state is updated, every predictor observes the event.

    >>> from batchcast.job import JobRequest
    >>> from batchcast.predict.runtime.baselines import Requested
    >>> driver = Driver({"requested": Requested()}, SystemState(8.0))
    >>> driver.tell(Submit(100.0, JobRequest(0, "7", 100.0, 4.0, 60.0, float("nan"))))["requested"].point
    60.0
    """

    def __init__(self, predictors: Mapping[Any, Any], state: SystemState) -> None:
        self.predictors = dict(predictors)
        self.state = state
        self.cadences = {name: Cadence(p) for name, p in self.predictors.items() if hasattr(p, "refit")}

    def tell(self, event: Event, ask: bool = True, planned_end: float | None = None) -> dict[Any, Any]:
        """Pass the next event, in order of time, to the state and to all predictors; return the predictions for a
        submission by predictor name.
        """
        # The state stores `planned_end`, the end that the scheduler plans for a job that starts, before the predictors
        # observe the start.
        state = self.state
        predictions = self.submitted(event, ask) if type(event) is Submit else {}
        state.apply(event)
        if planned_end is not None and not isinstance(event, Capacity):
            state.plan(event.job.row, planned_end)
        # This loop repeats the code of `observe`, because one call less per event makes the replay of a whole log
        # faster.
        for predictor in self.predictors.values():
            predictor.observe(event, state)
        return predictions

    def submitted(self, event: Submit, ask: bool = True) -> dict[Any, Any]:
        """Run the model refits that are due, and return each predictor's prediction for a submitted job, before the
        state applies the submission.
        """
        state, job = self.state, event.job
        # Predictors read the time of the submission, which the state applies only after the predictions.
        state.now = event.time
        if self.cadences:
            for cadence in self.cadences.values():
                cadence.submitted(event.time)
            self.before_asking()
        return {name: p.predict(job, state) for name, p in self.predictors.items()} if ask else {}

    def observe(self, event: Event) -> None:
        """Let every predictor learn from an event that the state has already applied."""
        for predictor in self.predictors.values():
            predictor.observe(event, self.state)

    def before_asking(self) -> None:
        """Do nothing. An event source (clock) can override this method to act between the refits and the predictions of
        a job."""
