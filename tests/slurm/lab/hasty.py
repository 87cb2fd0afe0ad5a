"""Forecasts that are always far too short: whatever is planned with them goes to the very edge of what is allowed."""

from __future__ import annotations

from typing import Any

from batchcast.predict.protocol import Grounds, Prediction


class Hasty:
    """Every job will run for a minute, it says."""

    def predict(self, job: Any, at: Any) -> Prediction:
        return Prediction(60.0, (0.5, 0.9), (60.0, 60.0), "hasty", Grounds.MODEL)

    def observe(self, event: Any, at: Any) -> None:
        pass


class Uneven(Hasty):
    """A minute for each processor, it says: so jobs have levels of their own."""

    def predict(self, job: Any, at: Any) -> Prediction:
        long = 60.0 * max(job.req_procs, 1.0)
        return Prediction(long, (0.5, 0.9), (long, long), "uneven", Grounds.MODEL)
