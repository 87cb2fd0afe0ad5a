"""A wait predictor that says five minutes of every job: what a median error is worth beside it."""

from __future__ import annotations

from batchcast.events.event import Event
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.protocol import Grounds, Prediction


class FiveMinutes:
    """The same answer always; it learns nothing."""

    answers_by = "point"

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Five minutes."""
        return Prediction(300.0, basis="the same for every job", grounds=Grounds.NO_HISTORY)

    def observe(self, event: Event, at: SystemState) -> None:
        """Nothing is learned."""
