# SPDX-License-Identifier: Apache-2.0
"""Adapters that turn plain functions, river estimators and scikit-learn estimators into predictors.

Every prediction of a predictor from outside this package is checked before it is used. The check takes half a
microsecond per prediction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

from ..errors import BatchcastError, UsageError, check_takes, raised_outside
from ..events.event import End, Event, Submit
from ..events.state import SystemState
from ..job import JobRequest
from .fallback import LargestLimit
from .gate import field_value
from .protocol import Grounds, Prediction, at_least_a_second, is_of_job

SHAPES = "predict and observe; river's predict_one and learn_one; scikit-learn's fit and predict"
FORMS = f"a name, a class, an object or a function of the log that makes one, with {SHAPES}; a function of (job, at)"
MORE = "batchcast.testing.check_predictor lists every other fault"
FEATURES = ("user_id", "req_time", "procs", "group_id", "app_id", "queue_id", "job_name", "account")


def adapted(method: Any, kind: str = "runtime", who: str = "") -> Any:
    """Return `method` as a predictor of the given kind (`runtime` or `wait`), wrapped in an adapter if necessary.

    Raises UsageError if `method` is neither a predictor nor an estimator of river or scikit-learn. The error message
    names the methods and attributes that `method` lacks.

    >>> adapted(7)
    Traceback (most recent call last):
    batchcast.errors.UsageError: int has no predict and no observe (accepted: a name, a class, an object or ...
    """
    own = type(method).__module__.partition(".")[0] == __name__.partition(".")[0]
    who = who or type(method).__name__
    if is_of_job(method):
        return Checked(OfJob(method), who)
    if _has(method, "predict", "observe"):
        if own:
            return method
        _check_forms(method, who, "predict(job, at)", "observe(event, at)")
        return Checked(method, who)
    shape = "river's" if _has(method, "predict_one", "learn_one") else ""
    shape = shape or ("scikit-learn's" if _has(method, "fit", "predict") else "")
    if not shape:
        missing = [name for name in ("predict", "observe") if not _has(method, name)]
        raise UsageError(f"{who} has no {' and no '.join(missing)} (accepted: {FORMS})")
    if kind != "runtime":
        raise UsageError(f"{who}: {shape} estimators predict only run times (accepted for waits: predict and observe)")
    if shape == "river's":
        _check_forms(method, who, "predict_one(x)", "learn_one(x, y)")
        return Checked(RiverRuntime(method), who)
    from .runtime.sklearn_runtime import SklearnRuntime

    _check_forms(method, who, "fit(X, y)", "predict(X)")
    return SklearnRuntime(method).tried()


def _check_forms(method: Any, who: str, *forms: str) -> None:
    for form in forms:
        check_takes(method, who, form)


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

    def __init__(self, inner: Any, who: str = "") -> None:
        self.inner, self.who = inner, who or type(inner).__name__

    def predict(self, job: JobRequest, at: SystemState) -> Any:
        """Return the method's prediction; a plain number becomes the point of a Prediction."""
        return as_prediction(self.inner.predict(job, at))

    def observe(self, event: Event, at: SystemState) -> None:
        """Pass the event on to the wrapped method."""
        self.inner.observe(event, at)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("inner", "who"):  # pickle looks up attributes before they are set
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.who}>"


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
            raise raised_outside(error, f"job {job.job_id}: the predictor {self.who}", MORE) from error
        return checked(answer, job.job_id, self.who)

    def observe(self, event: Event, at: SystemState) -> None:
        """Pass the event on to the method; if the method raises an exception, add the predictor's name to the
        exception."""
        try:
            self.inner.observe(event, at)
        except Exception as error:
            raise raised_outside(error, f"the predictor {self.who}, observing {type(event).__name__},", MORE) from error


def checked(answer: Any, job_id: Any, who: str = "") -> Prediction:
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
            raise _refused(job_id, who, said, "seconds as a number, or a Prediction")
    point = answer.point
    if not 0.0 <= point < math.inf:
        said = "NaN" if point != point else f"{point:g} s"
        raise _refused(job_id, who, said, "a finite time of 0 s or more")
    levels, quantiles = answer.levels, answer.quantiles
    if levels or quantiles:
        if len(levels) != len(quantiles):
            said = f"{len(quantiles)} quantiles for {len(levels)} levels"
            raise _refused(job_id, who, said, "one quantile per level")
        if not all(0.0 < level < 1.0 for level in levels) or list(levels) != sorted(set(levels)):
            raise _refused(job_id, who, f"levels {tuple(levels)}", "ascending, above 0 and below 1")
        if not all(0.0 <= q < math.inf for q in quantiles) or list(quantiles) != sorted(quantiles):
            raise _refused(job_id, who, f"quantiles {tuple(quantiles)}", "finite times of 0 s or more, not descending")
    return answer


def _refused(job_id: Any, who: str, said: str, forms: str) -> BatchcastError:
    return BatchcastError(
        f"job {job_id}: the predictor {f'{who} ' if who else ''}answered {said} (accepted: {forms})",
        hint=MORE,
    )


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
        self,
        model: Any,
        features: Sequence[str] = FEATURES,
        min_jobs: int = 50,
        log: bool = True,
        text: bool = False,
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
