"""The simulated clock: a scheduler decides the starts, with predictors in the loop. Called, it is `simulate`."""

import sys
from types import ModuleType
from typing import Any

from .policy import Policy
from .schedule import Schedule
from .simulate import simulate
from .split import simulate_split
from .workload import Workload, make_workload

__all__ = ["Policy", "Schedule", "Workload", "make_workload", "simulate", "simulate_split"]


class _Room(ModuleType):
    def __call__(self, *given: Any, **named: Any) -> Schedule:
        """`batchcast.simulate(trace, ...)`, whatever was imported before."""
        return simulate(*given, **named)


sys.modules[__name__].__class__ = _Room
