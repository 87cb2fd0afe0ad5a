# SPDX-License-Identifier: Apache-2.0
"""`SklearnRuntime`: any scikit-learn regressor as a run-time predictor, fitted anew as jobs finish."""

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
    """Forecasts run times by a scikit-learn regressor on columns known at submission.

    Parameters
    ----------
    estimator
        A regressor with `fit` and `predict`, or a pipeline that ends in one. It is cloned before each fit, never
        changed; give it a `random_state`, or two runs differ.
    features
        Columns known at submission, batchcast's own or vouched for (`Trace.knowing`). Names become numbers, in the
        order of their categories among the jobs that teach; unknown and never seen values are NaN, or, where the
        estimator takes none, the mean of the column. A column of which no job that teaches knows a value is left out
        until the next fit: some estimators cannot take a column without a value.
    refit_every
        Submissions between two fits, at least 1.
    window
        The last so many finished jobs teach, at least 1.
    min_jobs
        Finished jobs before the first fit, at least 1; until then the limit is the forecast.
    log
        Whether the estimator learns log10 seconds (run times span five decades) or seconds.

    Raises
    ------
    UsageError
        For an estimator without `fit` and `predict`, a feature that is not known at submission, or an estimator that
        cannot be fitted to these features.

    Notes
    -----
    Forecasts are kept between one second and the limit and inside the range of run times that taught, and are rounded
    to milliseconds. `predict_trace` asks the estimator once for all jobs between two fits: thousands of times fewer
    calls than one by one, and the same forecasts; `replay`, `evaluate` and `batchcast runtime` use it. The simulated
    clock has to ask one by one. `trained` lists the fits, with the columns that were left out of each (`left_out`).

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
        """The estimator's value for one job; the limit before the first fit."""
        if self._model is None:
            return self.limits.forecast(job)
        return self._answers([class_key(job, self.features)], [job])[0]

    def observe(self, event: Event, at: SystemState) -> None:
        """End: one more job that teaches."""
        if isinstance(event, End):
            self._learn(event.job, event.run_time)
        elif isinstance(event, Submit):
            self.limits.note(event.job.req_time)

    def refit(self, now: float) -> None:
        """Fit a fresh clone to the last finished jobs, once there are enough."""
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
        """Rows as numbers, without the columns that taught nothing; a column of zeros if no column is left."""
        table = numbers.table(rows)[:, self._taught]
        return table if self._taught else np.zeros((len(rows), 1))

    def tried(self) -> SklearnRuntime:
        """Itself, once a clone has been fitted to made jobs and has answered: UsageError says what it does wrong."""
        again = SklearnRuntime(self.estimator, self.features, self.refit_every_jobs, self.window, min_jobs=1)
        jobs = [JobRequest(k, k, float(k), 1.0 + k % 4, 60.0 * (1 + k % 7), np.nan, f"user{k % 5}") for k in range(50)]
        for job in jobs:
            again._learn(job, 30.0 + 7.0 * (job.row % 9))
        again.refit(0.0)
        again._answers([class_key(job, self.features) for job in jobs], jobs)
        return self

    def predict_trace(self, trace: Trace, protocol: str = "honest", procs: str = "req") -> Forecasts:
        """The forecasts of a fresh method for every job of a log on the recorded clock, asked in batches.

        Parameters
        ----------
        trace
            The log; n jobs.
        protocol
            The recorded clock's order of telling, see `events.recorded.timeline`.
        procs
            The rule for a job's processors: `req` or `alloc`.

        Returns
        -------
        Forecasts
            What the one-by-one path answers. 3 n events, one call of the estimator's `predict` a fit.
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
        """Answer the jobs submitted since the last fit, all at once."""
        if waiting:
            asked = [jobs[row] for row in waiting]
            for row, answer in zip(waiting, self._answers([class_key(j, self.features) for j in asked], asked)):
                answers[row] = answer
            waiting.clear()

    def _answers(self, rows: Sequence[Row], jobs: Sequence[JobRequest]) -> list[Prediction]:
        """The model's answers for many jobs."""
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
    """Whether a job knows this value: it is neither None nor NaN."""
    return value is not None and value == value


def one_thread() -> AbstractContextManager[Any]:
    """One thread for compiled loops: tables of some thousand rows gain nothing from more, on a busy machine they lose
    most of their time waiting for each other, and sums no longer depend on how many there are.
    """
    controller: AbstractContextManager[Any] = _threads().limit(limits=1)
    return controller


@cache
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _takes_nan(estimator: Any) -> bool:
    """Whether the estimator says that it takes unknown values as they are."""
    from sklearn.utils import get_tags

    try:
        return bool(get_tags(estimator).input_tags.allow_nan)
    except (AttributeError, TypeError, ValueError):  # a regressor of one's own without scikit-learn's tags
        return False
