"""A predictor that hands out forecasts computed before: many schedules from one replay."""

from __future__ import annotations

import numpy as np

from ..events.event import Event
from ..events.state import SystemState
from ..job import JobRequest
from ..predict.protocol import Prediction


class Precomputed:
    """The forecast of each job by its row.

    Parameters
    ----------
    points : numpy.ndarray
        (n,) predicted run times in seconds, one a row of the log; those under one second are given as one second.
    """

    def __init__(self, points: np.ndarray) -> None:
        self.points = points.tolist()

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The forecast of the job's row."""
        return Prediction(max(self.points[job.row], 1.0))

    def observe(self, event: Event, at: SystemState) -> None:
        """Nothing to learn."""
