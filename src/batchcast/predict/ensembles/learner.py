"""A model of feature columns as a predictor: learns from ends, is refitted on a cadence, falls back to history."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from ...events.event import END, Event
from ...events.state import SystemState
from ...job import JobRequest
from ..protocol import Prediction, at_least_a_second
from ..runtime.recent_mean import RecentMean
from .encoding import Row, feature_row


class Model(Protocol):
    """What a method has to bring: rows and log10 run times in, log10 run time out."""

    name: str

    def fit(self, rows: list[Row], log_run: np.ndarray) -> None:
        """Learn from rows in order of submission; a second call starts over, or warms up if it can."""

    def predict_row(self, row: Row) -> float:
        """log10 of the run time in seconds."""


class FeatureLearner:
    """Predicts run times from feature columns by a model refitted every `refit_every_jobs` submissions.

    Learns from End events only, so from jobs finished before the instant of the refit; training rows are put in order
    of submission (the paper's order by job id), the last `window` of them. A job falls back to the history predictor
    (`recent_mean`), and its basis says why, when a feature is unknown (inputs missing or unreadable), when it
    continues a former run (`istart` above 0: the paper leaves these out, nothing in the inputs tells how much is
    left), or while fewer than `min_jobs` jobs have taught the model. Predictions are kept inside the range of run
    times the model has seen and under the limit. Prediction: the model's cost; one row of memory a job.
    """

    def __init__(
        self, model: Model, features: tuple[str, ...], refit_every_jobs: int, window: int, min_jobs: int
    ) -> None:
        if not features:
            raise ValueError("at least one feature column is needed")
        if min(refit_every_jobs, window, min_jobs) < 1:
            raise ValueError("refit_every_jobs, window and min_jobs are at least 1")
        self.model = model
        self.features = features
        self.refit_every_jobs = refit_every_jobs
        self.window = window
        self.min_jobs = max(min_jobs, 5)
        self.istart = features.index("istart") if "istart" in features else -1
        self.history = RecentMean()
        self.learnt: list[tuple[float, int, Row, float]] = []
        self.fitted_on = 0
        self.low = self.high = 0.0

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The model's answer, or the history's with the reason."""
        row = feature_row(job, self.features)
        reason = self._unusable(row)
        if not reason and not self.fitted_on:
            reason = f"{self.model.name} is not trained yet ({len(self.learnt)} finished jobs with features)"
        if reason:
            fallback = self.history.predict(job, at)
            return fallback._replace(basis=f"{reason}: {fallback.basis}")
        log_run = min(max(self.model.predict_row(row), self.low), self.high)
        point = at_least_a_second(10.0**log_run, job.req_time)
        return Prediction(point, basis=f"{self.model.name} on {self.fitted_on} finished jobs")

    def observe(self, event: Event, at: SystemState) -> None:
        """Keeps the row and run time of a job that ended."""
        self.history.observe(event, at)
        if event.kind == END and event.run_time > 0:  # type: ignore[union-attr]
            job: JobRequest = event.job  # type: ignore[union-attr]
            row = feature_row(job, self.features)
            if not self._unusable(row):
                run_time: float = event.run_time  # type: ignore[union-attr]
                self.learnt.append((job.submit_time, job.row, row, math.log10(run_time)))

    def refit(self, now: float) -> None:
        """Trains on the last `window` jobs that have ended."""
        if len(self.learnt) < self.min_jobs:
            return
        self.learnt = sorted(self.learnt, key=lambda job: job[:2])[-self.window :]
        log_run = np.array([job[3] for job in self.learnt])
        self.model.fit([job[2] for job in self.learnt], log_run)
        self.fitted_on = len(self.learnt)
        self.low, self.high = float(log_run.min()), float(log_run.max())

    @property
    def trained(self) -> bool:
        """Whether a model stands behind the answers yet."""
        return self.fitted_on > 0

    def _unusable(self, row: Row) -> str:
        """Why a row cannot be used; empty if it can."""
        if None in row:
            missing = [name for name, value in zip(self.features, row) if value is None]
            shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
            return f"no readable features ({shown} unknown)"
        if self.istart >= 0 and self._continues(row[self.istart]):
            return "continues a former run (istart above 0)"
        return ""

    @staticmethod
    def _continues(istart: Any) -> bool:
        return not isinstance(istart, str) and istart > 0
