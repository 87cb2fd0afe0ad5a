"""Prequential runs, comparisons and tables. Called, it is `evaluation.evaluate`."""

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, *given: Any, **named: Any) -> Any:
        """`batchcast.evaluate(trace, ...)`, whatever was imported before."""
        from .evaluation import evaluate

        return evaluate(*given, **named)


sys.modules[__name__].__class__ = _Room
