# SPDX-License-Identifier: Apache-2.0
"""Turns a model on feature columns into a predictor, which refits the model as jobs end and predicts jobs without
features from past run times.

An `Encoder` converts the columns to numbers; the encoder is fitted to training rows only.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from msgspec.structs import replace

from ...events.event import End, Event
from ...events.state import SystemState
from ...job import JobRequest
from ...predict.fallback import LEVELS, sample_quantiles
from ...predict.gate import class_key, numbered_categories
from ...predict.protocol import Grounds, Prediction, at_least_a_second
from ...predict.runtime.baselines import RecentMean
from .features import FEATURES

VASP_FEATURES = ("core_num", *FEATURES)
DISCRETE = frozenset({"prec", "ichg", "isym", "lreal", "ispin", "istart"})
KEY = ("ispin", "isym", "lreal", "prec")
Row = tuple[Any, ...]
Encut = Literal["paper", "physics", "plain"]
ENCUT_POWER = {"paper": 3.0, "physics": 1.5, "plain": 1.0}


@dataclass(frozen=True, slots=True)
class Encoder:
    """Converts rows to numbers: scales continuous features and encodes discrete features, as fitted to training rows.

    Wu et al. 2019, section 2.1: ENCUT is cubed (`physics`: raised to the power 1.5, in proportion to the number of
    plane waves). Continuous features are scaled to [0, 1] by the extremes of the training rows; constant features
    become 0, and values of later rows may lie outside [0, 1]. Discrete features are one-hot (IRPA; a new category is
    all zeros) or numbered (BRBF; a new category has the number after the last). A column is discrete if it is one of
    the paper's discrete features or has text.
    """

    names: tuple[str, ...]
    powers: np.ndarray
    continuous: tuple[int, ...]
    low: np.ndarray
    span: np.ndarray
    categories: dict[int, dict[Any, int]]

    @classmethod
    def fit(cls, names: Sequence[str], rows: Sequence[Row], encut: Encut = "paper") -> Encoder:
        """Fit the encoder to training rows without unknown values. O(rows)."""
        columns = list(zip(*rows))
        is_discrete = [n in DISCRETE or any(isinstance(v, str) for v in c) for n, c in zip(names, columns)]
        continuous = tuple(k for k, discrete in enumerate(is_discrete) if not discrete)
        powers = np.array([ENCUT_POWER[encut] if names[k] == "encut" else 1.0 for k in continuous])
        values = _numbers(rows, continuous) ** powers
        low, high = values.min(axis=0), values.max(axis=0)
        categories = {k: numbered_categories(columns[k]) for k, discrete in enumerate(is_discrete) if discrete}
        return cls(tuple(names), powers, continuous, low, np.where(high > low, high - low, np.inf), categories)

    def covers(self, rows: Sequence[Row]) -> bool:
        """Return whether the values of other rows are in the fitted ranges, so that a warm start may use this
        encoder."""
        values = _numbers(rows, self.continuous) ** self.powers
        high = self.low + np.where(np.isinf(self.span), 0.0, self.span)
        return bool(((values >= self.low) & (values <= high)).all()) and all(
            row[k] in codes for row in rows for k, codes in self.categories.items()
        )

    def scaled(self, rows: Sequence[Row]) -> np.ndarray:
        """Return the continuous features, (rows, continuous), float64."""
        return np.asarray((_numbers(rows, self.continuous) ** self.powers - self.low) / self.span)

    def codes(self, rows: Sequence[Row]) -> np.ndarray:
        """Return the discrete features as numbers, (rows, discrete), int64."""
        coded = [[codes.get(row[k], len(codes)) for k, codes in self.categories.items()] for row in rows]
        return np.array(coded, dtype=np.int64).reshape(len(rows), len(self.categories))

    def one_hot(self, rows: Sequence[Row]) -> np.ndarray:
        """Return the continuous features followed by the one-hot discrete features, (rows, features), float64."""
        codes = self.codes(rows)
        blocks = [codes[:, k, None] == np.arange(len(known)) for k, known in enumerate(self.categories.values())]
        return np.hstack([self.scaled(rows), *blocks])


def _numbers(rows: Sequence[Row], columns: Sequence[int]) -> np.ndarray:
    """Return the numeric columns of the rows, (rows, columns), float64."""
    return np.array([[row[k] for k in columns] for row in rows], dtype=float)


ERRORS_KEPT = 300
ERRORS_NEEDED = 20


@dataclass(kw_only=True, eq=False, repr=False)
class FeatureMethod:
    """Base class of methods that predict run times from feature columns by a model, which is refitted as jobs end.

    The model is refitted after every `refit_every_jobs` ended jobs. At the beginning the model is refitted whenever its
    training jobs have doubled since `min_jobs`: at 50, 100, 200, 400, then every 500 jobs. The model learns only from
    End events, that is, from jobs that finished before the refit. Training rows are the last `window` jobs in order of
    submission (the paper's order by job id). A job falls back to the history predictor (`recent_mean`), with the reason
    as basis, if a feature is unknown (inputs missing or unreadable), if the job continues an earlier run (`istart`
    above 0: the paper omits these jobs, because inputs do not show how much work is left), or before the first fit.
    Predictions are clipped to the range of the training jobs' run times and to the limit. Quantiles are the point times
    the ratios of actual to predicted run time of the last 300 jobs that ended after a training; quantiles exist as soon
    as 20 jobs have ended after a training. A prediction costs one prediction of the model; memory is one row per job;
    `trained` lists the refits. With `train_when_asked` the model is also trained on all finished jobs before a
    prediction, which is useful for a single prediction after a whole log.

    A subclass sets `makes`, which creates an unfitted model for the given columns from the method's settings. A model
    has a `name`; `fit(rows, log_run)` fits it to rows in order of submission and their log10 run times, where a second
    call starts a new fit or continues the last fit; `predict_row(row)` returns log10 of the run time in seconds.
    """

    levels = LEVELS
    falls_back_to = "recent_mean"
    makes: ClassVar[Callable[..., Any]]

    encut: Encut = "paper"
    features: tuple[str, ...] = VASP_FEATURES
    also: tuple[str, ...] = ()
    refit_every_jobs: int = 500
    window: int = 10000
    min_jobs: int = 50
    warm_start: bool = False
    seed: int = 0
    train_when_asked: bool = False

    def __post_init__(self) -> None:
        features = self.features + self.also
        if not features:
            raise ValueError("at least one feature column is needed")
        if min(self.refit_every_jobs, self.window, self.min_jobs) < 1:
            raise ValueError("refit_every_jobs, window and min_jobs are at least 1")
        self.model = type(self).makes(features, self)
        self.uses = tuple("procs" if name == "core_num" else name for name in features)  # the paper's name
        self.min_jobs = max(self.min_jobs, 5)
        self.most_new = self.refit_every_jobs
        self.refit_every_jobs = min(self.most_new, self.min_jobs)  # number of submissions between two calls of `refit`
        self.new = 0
        self.istart = features.index("istart") if "istart" in features else -1
        self.history = RecentMean()
        self.learnt: list[tuple[float, int, Row, float]] = []
        self.errors: deque[float] = deque(maxlen=ERRORS_KEPT)
        self.trained: list[dict[str, Any]] = []
        self.low = self.high = 0.0

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict by the model or, with the reason as `basis`, by the history predictor (`recent_mean`)."""
        row = class_key(job, self.uses)
        if self.train_when_asked and self.new and len(self.learnt) >= self.min_jobs:
            self._train(at.now)
        reason = self._unusable(row, job.extra.get("input_files"))
        if not reason and not self.trained:
            reason = f"{self.model.name} is not trained yet ({len(self.learnt)} finished jobs with features)"
        if reason:
            fallback = self.history.predict(job, at)
            return replace(fallback, basis=f"{reason}: {fallback.basis}", grounds=Grounds.FALLBACK)
        log_run = self._log_run(row)
        point = at_least_a_second(10.0**log_run, job.req_time)
        basis = f"{self.model.name} on {self.trained[-1]['training_jobs']} finished jobs"
        if len(self.errors) < ERRORS_NEEDED:
            return Prediction(point, basis=basis, grounds=Grounds.MODEL)
        quantiles = sample_quantiles([10.0 ** (log_run + error) for error in self.errors], job.req_time)
        return Prediction(point, LEVELS, quantiles, basis, Grounds.MODEL)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the features and the run time of an ended job, and the model's error on this job."""
        self.history.observe(event, at)
        if isinstance(event, End) and event.run_time > 0:
            job: JobRequest = event.job
            row = class_key(job, self.uses)
            if not self._unusable(row):
                log_run = math.log10(event.run_time)
                if self.trained:
                    self.errors.append(log_run - self._log_run(row))
                self.learnt.append((job.submit_time, job.row, row, log_run))
                self.new += 1

    def refit(self, now: float) -> None:
        """Train on the last `window` ended jobs if enough jobs have ended since the last training."""
        taught = self.trained[-1]["training_jobs"] if self.trained else self.min_jobs
        if len(self.learnt) >= self.min_jobs and self.new >= min(self.most_new, taught):
            self._train(now)

    def _train(self, now: float) -> None:
        """Train on the last `window` ended jobs."""
        self.new = 0
        self.learnt = sorted(self.learnt, key=lambda job: job[:2])[-self.window :]
        log_run = np.array([job[3] for job in self.learnt])
        self.model.fit([job[2] for job in self.learnt], log_run)
        self.low, self.high = float(log_run.min()), float(log_run.max())
        self.trained.append({"now": now, "training_jobs": len(self.learnt)})

    def _log_run(self, row: Row) -> float:
        """Return the model's predicted log10 seconds, clipped to the range of the training jobs."""
        return float(min(max(self.model.predict_row(row), self.low), self.high))

    def _unusable(self, row: Row, inputs: Any = None) -> str:
        """Return the reason why the model cannot predict a row; empty if the model can. `inputs` is the status of the
        input files."""
        missing = [name for name, value in zip(self.uses, row) if value in (None, math.inf, -math.inf)]
        if missing:
            shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
            reason = f"{shown} unknown" if inputs in (None, "read") else f"inputs {inputs}"
            return f"no readable features ({reason})"
        istart = row[self.istart] if self.istart >= 0 else 0
        return "continues a former run (istart above 0)" if not isinstance(istart, str) and istart > 0 else ""


class EncodedModel:
    """Base class of models on encoded features; every fit creates a new encoder, unless a warm start continues."""

    encoder: Encoder

    def __init__(self, features: tuple[str, ...], settings: FeatureMethod) -> None:
        self.features, self.settings = features, settings

    def encode(self, rows: list[Row]) -> bool:
        """Create an encoder for the given rows if needed; return whether the last fit's encoder is used again."""
        goes_on = self.settings.warm_start and hasattr(self, "encoder") and self.encoder.covers(rows)
        if not goes_on:
            self.encoder = Encoder.fit(self.features, rows, self.settings.encut)
        return goes_on
