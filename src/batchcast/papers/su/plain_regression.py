# SPDX-License-Identifier: Apache-2.0
"""`plain_regression`: predicts run times by one regression over all jobs ("Single-" columns of Wang et al. 2021)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...events.event import End, Event, Submit
from ...events.state import SystemState
from ...job import JobRequest
from ...predict.fallback import LargestLimit
from ...predict.gate import Warming, size_and_hour
from ...predict.protocol import Grounds, Prediction, at_least_a_second
from ..online_knn_ga.nearest import REGRESSIONS, Linear, Scaled, fitted


@dataclass(eq=False, repr=False)
class PlainRegression:
    """Predicts run times by one regression (`linear`, `forest`, `svr`) on processors and hour of submission.

    Parameters
    ----------
    model
        The kind of regression: `linear`, `forest` or `svr`.
    every
        Number of submissions between two fits, at least 1; the first fits follow after fewer submissions, as in
        `Warming`.
    window
        Number of last finished jobs on which the regression is fitted, at least 1.
    utc_offset
        Seconds that are added to the log's clock to get local time.
    seed
        Random seed of the models.

    Raises
    ------
    ValueError
        For an unknown model, or if a parameter is below 1.

    Notes
    -----
    This method is the baseline of `su` in section "Experimental results" of Wang et al. 2021: the same regressions but
    without clusters and neighbours, fitted to standardised features and run times. Unknown processors count as the
    mean. Before the first fit, the prediction is the mean run time of finished jobs or, if there are none, the time
    limit. Predicted run times are between one second and the time limit. A prediction costs one evaluation of the
    regression; the attribute `trained` lists the refits.

    References
    ----------
    Wang, Dai, Yu, Dong, Predicting running time of aerodynamic jobs in HPC system by combining supervised and
    unsupervised learning method, 2021.

    Examples
    --------
    >>> PlainRegression("linear").predict(JobRequest(0, 1, 0.0, 1.0, 60.0, float("nan")), SystemState()).point
    60.0
    """

    uses = ("procs",)

    model: Literal["linear", "forest", "svr"] = "svr"
    every: int = 1000
    window: int = 3000
    utc_offset: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.model not in REGRESSIONS:
            raise ValueError(f"model is one of {', '.join(REGRESSIONS)}")
        if self.window < 1:
            raise ValueError("window is at least 1 job")
        self.pace = Warming(self.every)
        self.refit_every_jobs = self.pace.cadence
        self.submitted = 0
        self.limits = LargestLimit()
        self.finished: deque[tuple[float, float, float, float]] = deque(maxlen=self.window)
        self.total = 0.0
        self.count = 0
        self.fit: Linear | Scaled | None = None
        self.centre, self.spread = np.zeros(3), np.ones(3)
        self.trained: list[dict[str, Any]] = []

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict the value of the regression; before the first fit, predict the mean run time or the time limit."""
        if self.fit is not None:
            row = self._standard(np.array([size_and_hour(job, self.utc_offset)]))
            value = float(self.fit(row)[0])
            if np.isfinite(value):
                return Prediction(
                    at_least_a_second(value, job.req_time),
                    basis=f"{self.model} over all history",
                    grounds=Grounds.MODEL,
                )
        if self.count:
            mean = at_least_a_second(self.total / self.count, job.req_time)
            return Prediction(mean, basis="mean of all", grounds=Grounds.EVERYONE)
        return self.limits.forecast(job)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the run time of each job that ends, and count submissions."""
        if isinstance(event, End):
            run: float = event.run_time
            self.finished.append((*size_and_hour(event.job, self.utc_offset), run))
            self.total += run
            self.count += 1
        elif isinstance(event, Submit):
            self.submitted += 1
            self.limits.note(event.job.req_time)

    def refit(self, now: float) -> None:
        """If a fit is due, fit the regression to the last finished jobs."""
        if not self.pace.due(self.submitted) or not self.finished:
            return
        table = np.array(self.finished)
        values, run = table[:, :3], table[:, 3]
        known = ~np.isnan(values[:, 0])
        self.centre = np.array([values[known, 0].mean() if known.any() else 0.0, *values[:, 1:].mean(axis=0)])
        spread = np.array([values[known, 0].std() if known.any() else 0.0, *values[:, 1:].std(axis=0)])
        self.spread = np.where(spread > 0, spread, 1.0)
        self.fit = fitted(self.model, self._standard(values), run, self.seed)
        self.trained.append({"now": now, "training_jobs": len(run), "evaluations": 1})

    def _standard(self, values: np.ndarray) -> np.ndarray:
        return np.nan_to_num((values - self.centre) / self.spread, nan=0.0)
