"""Wait for a condition that nothing announces."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import Any


def until(holds: Callable[[], Any], seconds: float = 60.0, every: float = 0.01) -> Any:
    """What this gives once it is something, asked again every so many seconds; AssertionError if it never is."""
    pause = Event()
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, f"this did not happen within {seconds:g} s"
        pause.wait(every)
    return found
