"""Wait for a condition by checking it again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import Any


def until(holds: Callable[[], Any], seconds: float = 60.0, every: float = 0.01) -> Any:
    """Return the first true result of `holds`, which is called every `every` seconds; AssertionError after `seconds`
    seconds."""
    pause = Event()
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, f"this did not happen within {seconds:g} s"
        pause.wait(every)
    return found
