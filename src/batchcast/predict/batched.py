# SPDX-License-Identifier: Apache-2.0
"""Runs many predictors over one log and can measure their time.

A predictor with a batch method predicts the whole log at once; the other predictors receive the log event by event.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..events import recorded
from ..events.recorded import Forecasts
from ..table import Trace
from .conditional import quantile_of
from .protocol import Prediction, pass_on

METHODS = ("predict", "observe", "refit", "predict_trace", "assign")


class Timed:
    """Wraps the predictor `inner` and adds up in `seconds` how long its method calls took, measured by the timer
    `watch`.

    `answer` is the return value of the last call. After `predict_trace`, `answer` contains the predictions of all jobs
    of the log, including jobs that the mask `ask` leaves out.

    >>> ticks = iter([1.0, 3.5])
    >>> watched = Timed(type("Rule", (), {"predict": lambda self, job, at: job + at})(), lambda: next(ticks))
    >>> watched.predict(40, 2), watched.seconds, hasattr(watched, "refit")
    (42, 2.5, False)
    """

    predict: Callable[..., Any]
    observe: Callable[..., Any]
    refit: Callable[..., Any]
    predict_trace: Callable[..., Any]
    assign: Callable[..., Any]
    deadlines: bool

    def __init__(self, inner: Any, watch: Callable[[], float]) -> None:
        self.inner, self.watch, self.seconds = inner, watch, 0.0
        self.answer: Any = None
        pass_on(inner, self, "refit_every_jobs", "refit_every_s", "deadlines")
        for name in METHODS:
            if hasattr(inner, name) and (name != "predict_trace" or has_batch_path(inner)):
                setattr(self, name, self._watched(getattr(inner, name)))

    def _watched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        watch = self.watch

        def timed(*arguments: Any) -> Any:
            begun = watch()
            self.answer = method(*arguments)
            self.seconds += watch() - begun
            return self.answer

        return timed


def replay(
    trace: Trace,
    methods: Mapping[str, Any],
    *,
    protocol: str = "honest",
    procs: str = "req",
    total: float = float("nan"),
    ask: np.ndarray | None = None,
    tick: Callable[[int], None] | None = None,
) -> dict[str, Forecasts]:
    """Return each predictor's predictions for a recorded log; NaN for jobs that the mask `ask` leaves out.

    `predict_trace` must return what a fresh predictor would return if it received the log event by event; the
    conformance suite checks this. Predictors without `predict_trace` share one pass over the events.
    """
    batched = {name: method for name, method in methods.items() if has_batch_path(method)}
    others = {name: method for name, method in methods.items() if name not in batched}
    answers = {}
    for name, method in batched.items():
        takes = inspect.signature(method.predict_trace).parameters
        given = {key: value for key, value in (("total", total), ("ask", ask)) if key in takes}
        answers[name] = _where_asked(method.predict_trace(trace, protocol, procs, **given), ask)
    if others:
        answers |= recorded.replay(trace, others, protocol=protocol, procs=procs, total=total, ask=ask, tick=tick)
    return {name: answers[name] for name in methods}


def has_batch_path(method: Any) -> bool:
    """Return whether the predictor has a valid `predict_trace`; a subclass that overrides only `predict` or `observe`
    has no valid `predict_trace`.

    >>> from batchcast.predict.runtime.baselines import Last2
    >>> has_batch_path(Last2()), has_batch_path(type("Mine", (Last2,), {"predict": lambda self, job, at: 60.0})())
    (True, False)
    """
    names = {"predict", "observe", "predict_trace"}
    nearest = next((kind for kind in type(method).__mro__ if not names.isdisjoint(vars(kind))), object)
    return "predict_trace" in vars(nearest) or "predict_trace" in getattr(method, "__dict__", {})


def _where_asked(forecasts: Forecasts, ask: np.ndarray | None) -> Forecasts:
    wanted = np.asarray(True if ask is None else ask, bool)
    if wanted.all():
        return forecasts
    return replace(
        forecasts,
        points=np.where(wanted, forecasts.points, np.nan),
        quantiles=np.where(wanted[:, None], forecasts.quantiles, np.nan),
        basis=[word if asked else "" for word, asked in zip(forecasts.basis, wanted.tolist())],
        grounds=[word if asked else "" for word, asked in zip(forecasts.grounds, wanted.tolist())],
    )


def quantiles_of(issued: Forecasts, level: float) -> np.ndarray:
    """Return predicted quantiles at a level (`quantile_of`) for all jobs of a log, shape (n,); NaN without prediction.

    >>> issued = Forecasts(np.array([100.0, 9.0]), (0.5, 0.9), np.array([[100.0, 500.0], [np.nan, np.nan]]), [])
    >>> quantiles_of(issued, 0.9).tolist()
    [500.0, 9.0]
    """
    if not issued.levels:
        return issued.points
    if level in issued.levels:
        at = issued.quantiles[:, issued.levels.index(level)]
    else:
        rows = (Prediction(p, issued.levels, tuple(q), "") for p, q in zip(issued.points, issued.quantiles))
        at = np.array([quantile_of(one, level) for one in rows])
    return np.where(np.isnan(at), issued.points, at)
