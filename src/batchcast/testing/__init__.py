"""The public conformance suite: hold any method to what ours pass."""

from .logs import odd_logs, small_log
from .order import check_order
from .predictor import check_predictor
from .wait import check_wait_predictor

__all__ = ["check_order", "check_predictor", "check_wait_predictor", "odd_logs", "small_log"]
