"""A forecast that is always far too short: whatever is planned with it goes to the very edge of what is allowed."""

from __future__ import annotations

from typing import Any

from batchcast.predict.protocol import Grounds, Prediction


class Hasty:
    """Every job will run for a minute, it says."""

    def predict(self, job: Any, at: Any) -> Prediction:
        return Prediction(60.0, (0.5, 0.9), (60.0, 60.0), "hasty", Grounds.MODEL)

    def observe(self, event: Any, at: Any) -> None:
        pass
