"""The public conformance suite: hold any method to what ours pass."""

from .logs import odd_logs, small_log
from .predictor import check_predictor

__all__ = ["check_predictor", "odd_logs", "small_log"]
