"""Prequential runs, comparisons and tables. Called, it is `evaluate.evaluation.evaluate`, which tells every parameter.

>>> import batchcast
>>> found = batchcast.evaluate(batchcast.read_trace(batchcast.demo_path()), predictors=["last_2"], policies=["easy"])
>>> found.validity.trusted, [row["predictor"] for row in found.schedule_rows()]
(True, ['requested', 'last_2', 'actual'])
"""

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, *given: Any, **named: Any) -> Any:
        """`batchcast.evaluate(trace, ...)`, whatever was imported before."""
        from .evaluation import evaluate

        return evaluate(*given, **named)


sys.modules[__name__].__class__ = _Room
