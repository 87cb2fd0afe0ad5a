# SPDX-License-Identifier: Apache-2.0
"""Adapters that turn plain functions, river estimators and scikit-learn estimators into predictors.

Every prediction of a predictor from outside this package is checked before it is used. The check takes half a
microsecond per prediction.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from functools import cache
from numbers import Real
from typing import Any

import numpy as np

from ..errors import BatchcastError, UsageError, check_takes, is_of_project, raised_outside
from ..events.event import END, SUBMIT, End, Event, Submit
from ..events.recorded import Forecasts, collect, outcome, timeline
from ..events.state import SystemState
from ..job import JobRequest
from ..table import Trace
from . import gate
from .fallback import LargestLimit
from .gate import LARGEST, check_names, class_key, field_value
from .protocol import Grounds, Prediction, at_least_a_second, is_of_job

SHAPES = "predict and observe; river's predict_one and learn_one; scikit-learn's fit and predict"
FORMS = f"a name, a class, an object or a function of the log that makes one, with {SHAPES}; a function of (job, at)"
MORE = "batchcast.testing.check_predictor lists every other fault"
CALLS = {
    "": ("predict(job, at)", "observe(event, at)"),
    "river's": ("predict_one(x)", "learn_one(x, y)"),
    "scikit-learn's": ("fit(X, y)", "predict(X)"),
}
"""The calls that a predictor or an estimator of a library has; the first calls that a method has decide its kind."""
FEATURES = ("user_id", "req_time", "procs", "group_id", "app_id", "queue_id", "job_name", "account")


def adapted(method: Any, kind: str = "runtime", predictor_name: str = "") -> Any:
    """Return `method` as a predictor of the given kind (`runtime` or `wait`), wrapped in an adapter if necessary.

    Raises UsageError if `method` is neither a predictor nor an estimator of river or scikit-learn. The error message
    names the methods and attributes that `method` lacks.

    >>> adapted(7)
    Traceback (most recent call last):
    batchcast.errors.UsageError: int has no predict and no observe (accepted: a name, a class, an object or ...
    """
    predictor_name = predictor_name or type(method).__name__
    if is_of_job(method):
        return Checked(OfJob(method), predictor_name)
    made_as = next((k for k, calls in CALLS.items() if _has(method, *(call.partition("(")[0] for call in calls))), None)
    if made_as is None:
        missing = [name for name in ("predict", "observe") if not _has(method, name)]
        raise UsageError(f"{predictor_name} has no {' and no '.join(missing)} (accepted: {FORMS})")
    if not made_as and is_of_project(type(method).__module__):
        return method
    if made_as and kind != "runtime":
        raise UsageError(
            f"{predictor_name}: {made_as} estimators predict only run times (accepted for waits: predict and observe)"
        )
    for call in CALLS[made_as]:
        check_takes(method, predictor_name, call)
    if made_as == "scikit-learn's":
        return SklearnRuntime(method).tried()
    return Checked(RiverRuntime(method) if made_as else method, predictor_name)


def _has(method: Any, *names: str) -> bool:
    return all(callable(getattr(method, name, None)) for name in names)


class OfJob:
    """Wraps a function of a job, or of a job and the system state, as a predictor. The function receives no events, so
    the predictor never learns.

    >>> from batchcast import Trace, replay
    >>> log = Trace.from_arrays({"submit_time": [0.0], "run_time": [9.0], "req_time": [60.0]})
    >>> replay(log, {"half": lambda job: job.req_time / 2})["half"].points.tolist()
    [30.0]
    """

    def __init__(self, function: Any) -> None:
        from inspect import signature

        self.function, self.of_state = function, len(signature(function).parameters) > 1

    def predict(self, job: JobRequest, at: SystemState) -> Any:
        """Call the function for this job and return its result."""
        return self.function(job, at) if self.of_state else self.function(job)

    def observe(self, event: Event, at: SystemState) -> None:
        """Do nothing: a function does not learn."""


class Numbers:
    """Wraps a predictor that returns plain numbers of seconds; all members except `predict` are passed through."""

    def __init__(self, inner: Any, predictor_name: str = "") -> None:
        self.inner, self.predictor_name = inner, predictor_name or type(inner).__name__

    def predict(self, job: JobRequest, at: SystemState) -> Any:
        """Return the method's prediction; a plain number becomes the point of a Prediction."""
        return as_prediction(self.inner.predict(job, at))

    def observe(self, event: Event, at: SystemState) -> None:
        """Pass the event on to the wrapped method."""
        self.inner.observe(event, at)

    def __getattr__(self, name: str) -> Any:
        # pickle looks up attributes before they are set
        if name.startswith("__") or name in ("inner", "predictor_name"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.predictor_name}>"


def as_prediction(answer: Any) -> Any:
    """Convert a number of seconds to a Prediction with this number as its point; return any other object unchanged.

    >>> as_prediction(60).point
    60.0
    """
    return Prediction(float(answer)) if isinstance(answer, Real) else answer


class Checked(Numbers):
    """Like `Numbers`, but also rejects invalid predictions, with a message that names the predictor.

    >>> class Nothing:
    ...     def predict(self, job, at):
    ...         return -1
    ...     def observe(self, event, at):
    ...         pass
    >>> Checked(Nothing()).predict(JobRequest(0, "7", 0.0, 1.0, 60.0, 0.0), SystemState())
    Traceback (most recent call last):
    batchcast.errors.BatchcastError: job 7: the predictor Nothing answered -1 s (accepted: a finite time of 0 s or ...
    """

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the method's prediction after checking it."""
        try:
            answer = self.inner.predict(job, at)
        except Exception as error:
            raise raised_outside(error, f"job {job.job_id}: the predictor {self.predictor_name}", MORE) from error
        return checked(answer, job.job_id, self.predictor_name)

    def observe(self, event: Event, at: SystemState) -> None:
        """Pass the event on to the method; if the method raises an exception, add the predictor's name to the
        exception."""
        try:
            self.inner.observe(event, at)
        except Exception as error:
            what = f"the predictor {self.predictor_name}, observing {type(event).__name__},"
            raise raised_outside(error, what, MORE) from error


def checked(answer: Any, job_id: Any, predictor_name: str = "") -> Prediction:
    """Check a predictor's return value and convert it to a Prediction; a number becomes the point, in seconds.

    Raises BatchcastError if `answer` is neither a number nor a Prediction, if a value is infinite or negative, if there
    are more or fewer quantiles than levels, or if levels or quantiles are not ascending.

    >>> checked(60, "7")
    Prediction(point=60.0, levels=(), quantiles=(), basis='', grounds=<Grounds.UNSTATED: 'unstated'>)
    """
    if not isinstance(answer, Prediction):
        answer = as_prediction(answer)
        if not isinstance(answer, Prediction):
            said = "nothing" if answer is None else f"a {type(answer).__name__}"
            raise _refused(job_id, predictor_name, said, "seconds as a number, or a Prediction")
    point = answer.point
    if not 0.0 <= point < math.inf:
        said = "NaN" if point != point else f"{point:g} s"
        raise _refused(job_id, predictor_name, said, "a finite time of 0 s or more")
    levels, quantiles = answer.levels, answer.quantiles
    if levels or quantiles:
        if len(levels) != len(quantiles):
            said = f"{len(quantiles)} quantiles for {len(levels)} levels"
            raise _refused(job_id, predictor_name, said, "one quantile per level")
        if not all(0.0 < level < 1.0 for level in levels) or list(levels) != sorted(set(levels)):
            raise _refused(job_id, predictor_name, f"levels {tuple(levels)}", "ascending, above 0 and below 1")
        if not all(0.0 <= q < math.inf for q in quantiles) or list(quantiles) != sorted(quantiles):
            said = f"quantiles {tuple(quantiles)}"
            raise _refused(job_id, predictor_name, said, "finite times of 0 s or more, not descending")
    return answer


def _refused(job_id: Any, predictor_name: str, said: str, forms: str) -> BatchcastError:
    predictor = f"the predictor {predictor_name}" if predictor_name else "the predictor"
    return BatchcastError(f"job {job_id}: {predictor} answered {said} (accepted: {forms})", hint=MORE)


class RiverRuntime:
    """Uses a river regressor (`predict_one(x)`, `learn_one(x, y)`) as a run-time predictor that learns from ended jobs.

    Parameters
    ----------
    model
        The regressor, or a pipeline that ends in one. The adapter trains `model` itself, not a copy.
    features
        Columns known at submission that the model reads. `x` omits the values that are unknown for a job.
    min_jobs
        Number of ended jobs after which the model predicts, at least 1. Before that many jobs have ended, the time
        limit is predicted.
    log
        Whether the model learns log10 of seconds, since run times span five decades, or seconds.
    text
        Pass names (such as users) as text, for models that accept text: trees with nominal attributes, and pipelines
        that encode text themselves. Most river models accept only numbers, so by default each name becomes a feature
        with value 1, for example {"user_id=ada": 1.0}, as river's OneHotEncoder does.

    Notes
    -----
    Predictions are limited to the range of run times that the model has learned from, to at least one second, and to
    at most the time limit. `predict_one` must not change the model; the conformance suite rejects a model whose
    `predict_one` changes it.

    References
    ----------
    Montiel et al., River: machine learning for streaming data in Python, JMLR 22 (2021), 1-8.

    Examples
    --------
    >>> class Constant:
    ...     def predict_one(self, x):
    ...         return 2.0
    ...     def learn_one(self, x, y):
    ...         pass
    >>> import batchcast
    >>> log = batchcast.Trace.from_arrays({"submit_time": [0, 50], "wait_time": [0, 0], "run_time": [40, 9]})
    >>> batchcast.replay(log, RiverRuntime(Constant(), min_jobs=1))["RiverRuntime"].points.tolist()
    [86400.0, 40.0]
    """

    def __init__(
        self, model: Any, features: Sequence[str] = FEATURES, min_jobs: int = 50, log: bool = True, text: bool = False
    ) -> None:
        if not _has(model, "predict_one", "learn_one"):
            what = f"{type(model).__name__} has no predict_one and learn_one"
            raise UsageError(f"model: {what} (accepted: a river regressor)")
        if min_jobs < 1 or not features:
            raise UsageError("min_jobs is at least 1, features at least one column")
        self.model, self.min_jobs, self.log, self.text = model, min_jobs, log, text
        self.features = self.uses = tuple(features)
        self.limits = LargestLimit()
        self.taught, self.low, self.high = 0, math.inf, 0.0

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the model's value, or the time limit if the model has seen too few jobs or has no finite value."""
        if self.taught < self.min_jobs:
            return self.limits.forecast(job)
        value = self.model.predict_one(self._x(job))
        if value is not None and not isinstance(value, Real):
            who = type(self.model).__name__
            raise _refused(job.job_id, who, f"a {type(value).__name__}", "predict_one: a number, or None")
        if value is None or not math.isfinite(value):
            return self.limits.forecast(job, "limit: the model has no value")
        bounded = min(float(value), math.log10(self.high)) if self.log else float(value)
        seconds = min(max(10.0**bounded if self.log else bounded, self.low), self.high)
        basis = f"{type(self.model).__name__} on {self.taught} finished jobs"
        return Prediction(at_least_a_second(seconds, job.req_time), basis=basis, grounds=Grounds.MODEL)

    def observe(self, event: Event, at: SystemState) -> None:
        """Train the model with the run time of an ended job."""
        if isinstance(event, Submit):
            self.limits.note(event.job.req_time)
        elif isinstance(event, End) and event.run_time == event.run_time:
            run = max(event.run_time, 1.0)
            self.model.learn_one(self._x(event.job), math.log10(run) if self.log else run)
            self.taught, self.low, self.high = self.taught + 1, min(self.low, run), max(self.high, run)

    def _x(self, job: JobRequest) -> dict[str, Any]:
        """Return the job's known values as river features. Each name (such as a user) becomes one feature, even if the
        names are numbers."""
        x: dict[str, Any] = {}
        for name in self.features:
            value = field_value(job, name)
            if value is None or value == math.inf:
                continue
            if isinstance(value, str) or name.endswith("_id"):
                x.update({name: str(value)} if self.text else {f"{name}={value}": 1.0})
            else:
                x[name] = value
        return x


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
        self._numbers: gate.Numbers | None = None
        self._taught: list[int] = []
        self._low = self._middle = self._high = 0.0

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the estimator's value for one job, or the time limit before the first fit."""
        if self._model is None:
            return self.limits.forecast(job)
        return self._answers([job])[0]

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
        numbers = gate.Numbers.of(self.features, rows, with_unknown=_takes_nan(self.estimator))
        known = [any(value is not None and value == value for value in column) for column in zip(*rows)]
        self._taught = np.flatnonzero(known).tolist()
        run = np.clip(run, 1.0, LARGEST)
        target = np.log10(run) if self.log else run
        try:
            with _threads().limit(limits=1):
                self._model = clone(self.estimator).fit(self._table(numbers, rows), target)
        except (ValueError, TypeError) as error:
            what = str(error).splitlines()[0]
            raise UsageError(f"{type(self.estimator).__name__} cannot be fitted to {len(rows)} jobs: {what}") from error
        self._numbers = numbers
        self._low, self._middle, self._high = np.quantile(target, (0.0, 0.5, 1.0)).tolist()
        left_out = [name for place, name in enumerate(self.features) if place not in self._taught]
        self.trained.append({"now": now, "training_jobs": len(rows), "left_out": " ".join(left_out)})

    def _table(self, numbers: gate.Numbers, rows: Sequence[Row]) -> np.ndarray:
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
        again._answers(jobs)
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
            for row, answer in zip(waiting, self._answers([jobs[row] for row in waiting])):
                answers[row] = answer
            waiting.clear()

    def _answers(self, jobs: Sequence[JobRequest]) -> list[Prediction]:
        """Return the model's predictions for many jobs."""
        assert self._numbers is not None
        rows = [class_key(job, self.features) for job in jobs]
        with _threads().limit(limits=1):
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


@cache
def _threads() -> Any:
    """Return the control over the threads of compiled libraries, which estimators use with one thread.

    Tables of some thousand rows gain nothing from more threads, and on a busy machine threads mostly wait for each
    other. With one thread, sums also do not depend on the number of threads.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _takes_nan(estimator: Any) -> bool:
    """Return whether the estimator declares that it accepts NaN."""
    from sklearn.utils import get_tags

    try:
        return bool(get_tags(estimator).input_tags.allow_nan)
    except (AttributeError, TypeError, ValueError):  # a user's own regressor may lack scikit-learn's tags
        return False
