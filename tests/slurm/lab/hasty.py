"""Predictors whose predictions are always far too short, so that planned limits reach the lowest allowed value."""

from __future__ import annotations

from typing import Any

from batchcast.predict.protocol import Grounds, Prediction


class Hasty:
    """Predicts one minute for every job."""

    def predict(self, job: Any, at: Any) -> Prediction:
        return Prediction(60.0, (0.5, 0.9), (60.0, 60.0), "hasty", Grounds.MODEL)

    def observe(self, event: Any, at: Any) -> None:
        pass


class Uneven(Hasty):
    """Predicts one minute per processor, so that jobs have different levels."""

    def predict(self, job: Any, at: Any) -> Prediction:
        long = 60.0 * max(job.req_procs, 1.0)
        return Prediction(long, (0.5, 0.9), (long, long), "uneven", Grounds.MODEL)
