"""What a user must know of the collector's own state: is it running, is a daemon away, is the clock behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..units import format_duration
from .sentence import Sentence

CLOCKS_APART_S = 2.0
"""Two clocks further apart than this are said."""
NO_CYCLE = "the collector has not finished a cycle yet"
LATE = "the collector last looked %(ago)s ago: is batchcast collect running?"
AWAY = "%(daemon)s has not answered for %(ago)s (%(error)s)"
AHEAD = "the collector's clock is %(seconds)s s ahead of the batch system's: run NTP on both"
BEHIND = "the collector's clock is %(seconds)s s behind the batch system's: run NTP on both"
READING = "history is still being read; no forecast has been issued yet"
STANDS_BACK = "forecasts stand %(ago)s back, until accounting tells how jobs of that time ended"
STALE = (NO_CYCLE, LATE, AWAY, AHEAD, BEHIND, READING, STANDS_BACK)


def staleness(memory: Mapping[str, Any], now: float) -> list[str]:
    """What a user must know of the collector's own state: is it running, is a daemon away, is the clock behind.

    Late is what is later than four of the collector's own intervals, and at least two minutes.
    """
    notes: list[str] = []
    patience = max(120.0, 4 * float(memory.get("interval_s") or 30.0))
    at = memory.get("cycle_at")
    if at is None:
        return [Sentence(NO_CYCLE)]
    if now - at > patience:
        notes.append(Sentence(LATE, ago=_ago(now - at)))
    for daemon, counter in memory.get("health", {}).items():
        if counter.get("away_since"):
            ago = _ago(now - counter["away_since"])
            notes.append(Sentence(AWAY, daemon=str(daemon), ago=ago, error=str(counter["last_error"])))
    ahead = memory.get("site", {}).get("clock_ahead_s") or 0.0
    if abs(ahead) > CLOCKS_APART_S:
        notes.append(Sentence(AHEAD if ahead > 0 else BEHIND, seconds=f"{abs(ahead):.0f}"))
    told_until = memory.get("told_until")
    if told_until is None:
        notes.append(Sentence(READING))
    elif at - told_until > max(300.0, 2 * patience):
        notes.append(Sentence(STANDS_BACK, ago=_ago(now - told_until)))
    return notes


def _ago(seconds: float) -> str:
    return format_duration(max(seconds, 0.0))
