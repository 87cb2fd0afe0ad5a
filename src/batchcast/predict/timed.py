"""A stop watch around the methods of a predictor or a heuristic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

METHODS = ("predict", "observe", "refit", "predict_trace", "assign")
SETTINGS = ("refit_every_jobs", "refit_every_s", "deadlines")


class Timed:
    """Passes calls on to `inner` and adds up in `seconds` what they took by `watch`; has only the members inner has.

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
        for name in SETTINGS:
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        for name in METHODS:
            if hasattr(inner, name):
                setattr(self, name, self._watched(getattr(inner, name)))

    def _watched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        watch = self.watch

        def timed(*arguments: Any) -> Any:
            begun = watch()
            answer = method(*arguments)
            self.seconds += watch() - begun
            return answer

        return timed
