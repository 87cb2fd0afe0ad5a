"""An order that is nobody's: it reads all five arguments."""

from __future__ import annotations

import math


def odd(now, submit, procs, planned, wait):
    return procs - planned / 7.0 - now * wait * procs / 50.0


def unordered(now: float, submit: float, procs: float, planned: float, wait: float) -> float:
    """Infinite for some, not a number for others: these come last, in order of arrival."""
    return math.nan if procs % 3 == 0 else math.inf if procs % 3 == 1 else planned
