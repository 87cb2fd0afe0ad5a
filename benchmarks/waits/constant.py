"""A wait predictor that predicts five minutes for every job: a reference for median errors."""

from __future__ import annotations

from batchcast.events.event import Event
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.protocol import Grounds, Prediction


class FiveMinutes:
    """Always predicts the same wait; it learns nothing."""

    answers_by = "point"

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Five minutes."""
        return Prediction(300.0, basis="the same for every job", grounds=Grounds.NO_HISTORY)

    def observe(self, event: Event, at: SystemState) -> None:
        """Nothing is learned."""
