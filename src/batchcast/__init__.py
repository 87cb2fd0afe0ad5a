"""batchcast: how long batch jobs run, how long they wait, and what a scheduler gains by knowing."""

from __future__ import annotations

__version__ = "0.1.0"
