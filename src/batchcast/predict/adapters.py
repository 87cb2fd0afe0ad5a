# SPDX-License-Identifier: Apache-2.0
"""Methods of other shapes as predictors: numbers for answers, river's and scikit-learn's estimators.

Methods from outside the package are wrapped: what they answer is checked at every call, at the cost of half a
microsecond.
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
MORE = "batchcast.testing.check_predictor finds what else it does wrong"
FEATURES = ("user_id", "req_time", "procs", "group_id", "app_id", "queue_id", "job_name", "account")


def adapted(method: Any, kind: str = "runtime", who: str = "") -> Any:
    """The method as a predictor of that kind (`runtime` or `wait`): as it is, adapted to its shape, or wrapped.

    Raises UsageError for anything that has none of the shapes, naming what is missing.

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
        raise UsageError(f"{who}: {shape} shape forecasts run times (accepted for waits: predict and observe)")
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
    """A function of a job, or of a job and the state, as a predictor that never learns.

    >>> from batchcast import Trace, replay
    >>> log = Trace.from_arrays({"submit_time": [0.0], "run_time": [9.0], "req_time": [60.0]})
    >>> replay(log, {"half": lambda job: job.req_time / 2})["half"].points.tolist()
    [30.0]
    """

    def __init__(self, function: Any) -> None:
        from inspect import signature

        self.function, self.of_state = function, len(signature(function).parameters) > 1

    def predict(self, job: JobRequest, at: SystemState) -> Any:
        """What the function says."""
        return self.function(job, at) if self.of_state else self.function(job)

    def observe(self, event: Event, at: SystemState) -> None:
        """Nothing is learned."""


class Numbers:
    """A predictor that may answer seconds as a number; every member but `predict` is the method's own."""

    def __init__(self, inner: Any, who: str = "") -> None:
        self.inner, self.who = inner, who or type(inner).__name__

    def predict(self, job: JobRequest, at: SystemState) -> Any:
        """The method's answer; a number is a point."""
        return as_prediction(self.inner.predict(job, at))

    def observe(self, event: Event, at: SystemState) -> None:
        """Passed on."""
        self.inner.observe(event, at)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("inner", "who"):  # not yet there while it is being unpickled
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.who}>"


def as_prediction(answer: Any) -> Any:
    """A number as a Prediction of that point, in seconds; anything else as it is.

    >>> as_prediction(60).point
    60.0
    """
    return Prediction(float(answer)) if isinstance(answer, Real) else answer


class Checked(Numbers):
    """The same, and what it answers is refused by name where it is wrong.

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
        """The method's answer, checked."""
        try:
            answer = self.inner.predict(job, at)
        except Exception as error:
            raise raised_outside(error, f"job {job.job_id}: the predictor {self.who}", MORE) from error
        return checked(answer, job.job_id, self.who)

    def observe(self, event: Event, at: SystemState) -> None:
        """Passed on; what it raises is said by name."""
        try:
            self.inner.observe(event, at)
        except Exception as error:
            raise raised_outside(error, f"the predictor {self.who}, told of {type(event).__name__},", MORE) from error


def checked(answer: Any, job_id: Any, who: str = "") -> Prediction:
    """What a predictor answered of a job, as a Prediction; a number is its point, in seconds.

    Raises BatchcastError where that is no number or Prediction, not finite or negative, or where its quantiles are
    not one a level, ascending.

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
            raise _refused(job_id, who, f"{len(quantiles)} quantiles for {len(levels)} levels", "one a level")
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
    """A river regressor (`predict_one(x)`, `learn_one(x, y)`) as a run-time predictor, taught at each end of a job.

    Parameters
    ----------
    model
        The regressor, or a pipeline that ends in one. It is taught as it is.
    features
        Columns known at submission; a job's unknown ones are left out of `x`.
    min_jobs
        Ends that teach before the first answer of the model, at least 1; until then the limit is the forecast.
    log
        Whether the model learns log10 seconds (run times span five decades) or seconds.
    text
        Names as text, for models that take it (trees with nominal attributes, pipelines that encode it themselves).
        Most of river's take numbers alone: so a name is a feature of its own, {"user_id=ada": 1.0}, as river's
        OneHotEncoder makes it.

    Notes
    -----
    Forecasts are kept inside the range of run times that taught, and between one second and the limit. `predict_one`
    must change nothing; the conformance suite finds one that does.

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
        """The model's value; the limit before it has been taught enough, or where it has no finite value."""
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
        """End: one more job that teaches."""
        if isinstance(event, Submit):
            self.limits.note(event.job.req_time)
        elif isinstance(event, End) and event.run_time == event.run_time:
            run = max(event.run_time, 1.0)
            self.model.learn_one(self._x(event.job), math.log10(run) if self.log else run)
            self.taught, self.low, self.high = self.taught + 1, min(self.low, run), max(self.high, run)

    def _x(self, job: JobRequest) -> dict[str, Any]:
        """The job as river takes it: known values by name; names are features of their own, also numbered ones."""
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
