"""The simulated clock: a scheduler decides the starts, with predictors in the loop."""

from .policy import Policy
from .schedule import Schedule
from .simulate import simulate
from .workload import Workload, make_workload

__all__ = ["Policy", "Schedule", "Workload", "make_workload", "simulate"]
