"""Instants as people and sbatch write them."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

from ..errors import UsageError

_DAYS = {"today": 0, "midnight": 0, "yesterday": -1, "tomorrow": 1}
_HOURS = {"noon": 12, "fika": 15, "teatime": 16}


def parse_when(text: str, now: float | None = None) -> float:
    """Epoch seconds from Slurm's time forms, local time; `now` in epoch seconds, the clock's where not given.

    now, now+1hour, now-7days, today, tomorrow, midnight, noon, HH:MM[:SS], YYYY-MM-DD[THH:MM[:SS]], uts100.

    >>> parse_when("uts100"), parse_when("now+2hours", 50.0)
    (100.0, 7250.0)
    """
    word = text.strip()
    if re.fullmatch(r"uts\d+", word):
        return float(word[3:])
    here = datetime.fromtimestamp(time.time() if now is None else now)
    if match := re.fullmatch(r"now(?:([+-]\d+)\s*(seconds?|minutes?|hours?|days?|weeks?)?)?", word):
        unit = (match[2] or "seconds").rstrip("s") + "s"
        try:
            return (here + timedelta(**{unit: int(match[1] or 0)})).timestamp()
        except (OverflowError, ValueError):  # beyond the calendar
            raise UsageError(f"not a time: {text[:40]!r} (accepted: years 1 to 9999, e.g. now-7days)") from None
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0)
    if word in _DAYS:
        return (midnight + timedelta(days=_DAYS[word])).timestamp()
    if word in _HOURS:
        return midnight.replace(hour=_HOURS[word]).timestamp()
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", word):
            hours, minutes, *seconds = (int(part) for part in word.split(":"))
            return midnight.replace(hour=hours, minute=minutes, second=seconds[0] if seconds else 0).timestamp()
        return datetime.fromisoformat(word).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"not a time: {text[:40]!r} (accepted: YYYY-MM-DD[THH:MM[:SS]], HH:MM, today, yesterday, now, now-7days)"
        ) from None
