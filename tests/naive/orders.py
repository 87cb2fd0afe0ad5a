"""A queue order that no product uses: it reads all five arguments."""

from __future__ import annotations

import math


def odd(now, submit, procs, planned, wait):
    return procs - planned / 7.0 - now * wait * procs / 50.0


def unordered(now: float, submit: float, procs: float, planned: float, wait: float) -> float:
    """The key is infinite for some jobs and NaN for others; these jobs come last, in order of arrival."""
    return math.nan if procs % 3 == 0 else math.inf if procs % 3 == 1 else planned
