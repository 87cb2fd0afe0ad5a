# SPDX-License-Identifier: Apache-2.0
"""`SklearnRuntime`: uses any scikit-learn regressor as a run-time predictor and refits it as jobs finish."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np

from ...errors import UsageError
from ...events.event import END, SUBMIT, End, Event, Submit
from ...events.recorded import Forecasts, collect, outcome, timeline
from ...events.state import SystemState
from ...job import JobRequest
from ...table import Trace
from ..fallback import LargestLimit
from ..gate import LARGEST, Numbers, check_names, class_key
from ..protocol import Grounds, Prediction, at_least_a_second

FEATURES = ("user_id", "req_time", "procs", "group_id", "app_id", "queue_id", "job_name", "account")
Row = tuple[Any, ...]


class SklearnRuntime:
    """Predicts run times with a scikit-learn regressor on columns known at submission.

    Parameters
    ----------
    estimator
        A regressor with `fit` and `predict`, or a pipeline that ends in one. The estimator is cloned before each fit
        and never changed. Set the estimator's `random_state`; otherwise two runs give different predictions.
    features
        Columns known at submission: batchcast's own, or columns that you declare with `Trace.knowing`. Names become
        numbers, in sorted order of the names in the training jobs. Unknown values and names that training jobs lack are
        encoded as NaN, or the column's mean if the estimator does not accept NaN. A column that is unknown for every
        training job is left out until the next fit, because some estimators reject an empty column.
    refit_every
        Number of submissions between two fits, at least 1.
    window
        Number of the latest finished jobs used for training, at least 1.
    min_jobs
        Number of finished jobs before the first fit, at least 1. Before the first fit, the time limit is predicted.
    log
        Whether the estimator learns log10 of seconds (run times span five decades) or seconds.

    Raises
    ------
    UsageError
        If the estimator has no `fit` and `predict`, if a feature is not known at submission, or if the estimator cannot
        be fitted to these features.

    Notes
    -----
    Predictions lie between one second and the time limit, and inside the range of run times used for training; they
    are rounded to milliseconds. `predict_trace` calls the estimator once for all jobs between two fits. The method
    takes thousands of times fewer calls than predicting job by job, and gives the same predictions; `replay`,
    `evaluate` and `batchcast runtime` use it. In a simulation, the predictor has to predict job by job. `trained` lists
    the fits, each with the columns that the fit left out (`left_out`).

    References
    ----------
    Pedregosa et al., Scikit-learn: Machine Learning in Python, JMLR 12 (2011), 2825-2830.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from batchcast.testing import small_log
    >>> method = SklearnRuntime(DecisionTreeRegressor(random_state=0), features=("user_id", "app_id"), refit_every=50)
    >>> told = method.predict_trace(small_log(160))
    >>> told.grounds[0], told.grounds[-1]
    (<Grounds.LIMIT: 'limit'>, <Grounds.MODEL: 'model'>)
    """

    def __init__(
        self,
        estimator: Any,
        features: Sequence[str] = FEATURES,
        refit_every: int = 500,
        window: int = 10000,
        min_jobs: int = 50,
        log: bool = True,
    ) -> None:
        if not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            raise UsageError(f"estimator: {type(estimator).__name__} has no fit and predict (accepted: a regressor)")
        if min(refit_every, window, min_jobs) < 1 or not features:
            raise UsageError("refit_every, window and min_jobs are at least 1, features at least one column")
        self.estimator = estimator
        self.features = self.uses = tuple(features)
        self.refit_every_jobs = refit_every
        self.window, self.min_jobs, self.log = window, min_jobs, log
        self.limits = LargestLimit()
        self.finished: deque[tuple[Row, float]] = deque(maxlen=window)
        self.trained: list[dict[str, Any]] = []
        self._model: Any = None
        self._numbers: Numbers | None = None
        self._taught: list[int] = []
        self._low = self._middle = self._high = 0.0

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the estimator's value for one job, or the time limit before the first fit."""
        if self._model is None:
            return self.limits.forecast(job)
        return self._answers([class_key(job, self.features)], [job])[0]

    def observe(self, event: Event, at: SystemState) -> None:
        """Add an ended job to the training data."""
        if isinstance(event, End):
            self._learn(event.job, event.run_time)
        elif isinstance(event, Submit):
            self.limits.note(event.job.req_time)

    def refit(self, now: float) -> None:
        """Fit a new clone to the latest finished jobs, if there are enough."""
        from sklearn.base import clone

        if len(self.finished) < self.min_jobs:
            return
        rows, run = [row for row, _ in self.finished], np.array([run for _, run in self.finished])
        numbers = Numbers.of(self.features, rows, with_unknown=_takes_nan(self.estimator))
        self._taught = [place for place, column in enumerate(zip(*rows)) if any(map(_is_known, column))]
        run = np.clip(run, 1.0, LARGEST)
        target = np.log10(run) if self.log else run
        try:
            with one_thread():
                self._model = clone(self.estimator).fit(self._table(numbers, rows), target)
        except (ValueError, TypeError) as error:
            what = str(error).splitlines()[0]
            raise UsageError(f"{type(self.estimator).__name__} cannot be fitted to {len(rows)} jobs: {what}") from error
        self._numbers = numbers
        self._low, self._middle, self._high = np.quantile(target, (0.0, 0.5, 1.0)).tolist()
        left_out = [name for place, name in enumerate(self.features) if place not in self._taught]
        self.trained.append({"now": now, "training_jobs": len(rows), "left_out": " ".join(left_out)})

    def _table(self, numbers: Numbers, rows: Sequence[Row]) -> np.ndarray:
        """Encode rows as numbers, without columns that were unknown in training; if no column is left, use one column
        of zeros.
        """
        table = numbers.table(rows)[:, self._taught]
        return table if self._taught else np.zeros((len(rows), 1))

    def tried(self) -> SklearnRuntime:
        """Return the predictor after a trial fit to generated jobs; UsageError says what the estimator does wrong."""
        again = SklearnRuntime(self.estimator, self.features, self.refit_every_jobs, self.window, min_jobs=1)
        jobs = [JobRequest(k, k, float(k), 1.0 + k % 4, 60.0 * (1 + k % 7), np.nan, f"user{k % 5}") for k in range(50)]
        for job in jobs:
            again._learn(job, 30.0 + 7.0 * (job.row % 9))
        again.refit(0.0)
        again._answers([class_key(job, self.features) for job in jobs], jobs)
        return self

    def predict_trace(self, trace: Trace, protocol: str = "honest", procs: str = "req") -> Forecasts:
        """Predict every job of a log with a fresh predictor in a replay, in batches.

        Parameters
        ----------
        trace
            The log, with n jobs.
        protocol
            How events at one instant are ordered, see `events.recorded.timeline`.
        procs
            The rule that gives a job's number of processors: `req` or `alloc`.

        Returns
        -------
        Forecasts
            The same predictions as if the jobs were predicted one by one. The method processes 3 n events, and calls
            the estimator's `predict` once per fit.
        """
        check_names(self.features, trace.info.known_at_submit, type(self).__name__)
        fresh = SklearnRuntime(
            self.estimator, self.features, self.refit_every_jobs, self.window, self.min_jobs, self.log
        )
        jobs, run = list(trace.requests(procs)), outcome(trace)[2].tolist()
        answers: list[Any] = [None] * len(jobs)
        waiting: list[int] = []
        plan, submitted = timeline(trace, protocol), 0
        for time, kind, row in zip(plan.time.tolist(), plan.kind.tolist(), plan.index.tolist()):
            if kind == SUBMIT:
                if submitted and submitted % self.refit_every_jobs == 0:
                    fresh._answer(waiting, jobs, answers)
                    fresh.refit(time)
                submitted += 1
                if fresh._model is None:
                    answers[row] = fresh.limits.forecast(jobs[row])
                else:
                    waiting.append(row)
                fresh.limits.note(jobs[row].req_time)
            elif kind == END:
                fresh._learn(jobs[row], run[row])
        fresh._answer(waiting, jobs, answers)
        self.trained = fresh.trained
        return collect(answers)

    def _learn(self, job: JobRequest, run_time: float) -> None:
        self.finished.append((class_key(job, self.features), run_time))

    def _answer(self, waiting: list[int], jobs: Sequence[JobRequest], answers: list[Any]) -> None:
        """Predict all jobs submitted since the last fit in one batch."""
        if waiting:
            asked = [jobs[row] for row in waiting]
            for row, answer in zip(waiting, self._answers([class_key(j, self.features) for j in asked], asked)):
                answers[row] = answer
            waiting.clear()

    def _answers(self, rows: Sequence[Row], jobs: Sequence[JobRequest]) -> list[Prediction]:
        """Return the model's predictions for many jobs."""
        assert self._numbers is not None
        with one_thread():
            said = self._model.predict(self._table(self._numbers, rows))
        try:
            values = np.asarray(said, dtype=float).reshape(len(rows))
        except (ValueError, TypeError):
            answer = f"an array of shape {np.shape(said)}" if isinstance(said, np.ndarray) else type(said).__name__
            who = type(self.estimator).__name__
            raise UsageError(f"{who}.predict(X) answered {answer} (accepted: a number for each row of X)") from None
        values = np.clip(np.where(np.isnan(values), self._middle, values), self._low, self._high)
        seconds = np.round(10.0**values if self.log else values, 3)
        basis = f"{type(self.estimator).__name__} on {self.trained[-1]['training_jobs']} finished jobs"
        return [
            Prediction(at_least_a_second(s, job.req_time), basis=basis, grounds=Grounds.MODEL)
            for s, job in zip(seconds.tolist(), jobs)
        ]


def _is_known(value: Any) -> bool:
    """Return whether the value is known: neither None nor NaN."""
    return value is not None and value == value


def one_thread() -> AbstractContextManager[Any]:
    """Limit compiled libraries to one thread.

    Tables of some thousand rows gain nothing from more threads, and on a busy machine threads mostly wait for each
    other. With one thread, sums also do not depend on the number of threads.
    """
    controller: AbstractContextManager[Any] = _threads().limit(limits=1)
    return controller


@cache
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _takes_nan(estimator: Any) -> bool:
    """Return whether the estimator declares that it accepts NaN."""
    from sklearn.utils import get_tags

    try:
        return bool(get_tags(estimator).input_tags.allow_nan)
    except (AttributeError, TypeError, ValueError):  # a user's own regressor may lack scikit-learn's tags
        return False
