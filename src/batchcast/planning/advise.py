"""Which waiting jobs get the forecast of their start into a comment, and which lose it. Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from ..formats.plannable import Plannable
from .terms import Terms
from .token import may_merge, merged, words_of
from .untouched import is_drawn, is_opted_in

Field = Literal["admin_comment", "comment"]
COARSE, FINE = 900.0, 300.0
SHIFT_S, SHIFT_SHARE = 600.0, 0.2
FORM = "%Y-%m-%dT%H:%M"


class Start(NamedTuple):
    """When a job starts: likely, and by when with 90 % (epoch, s; NaN or infinite: unknown)."""

    likely: float
    by_90: float


def comments(
    jobs: Iterable[Plannable], starts: Mapping[str, Start], terms: Terms, field: Field
) -> list[tuple[Plannable, str]]:
    """The jobs whose comment is to change, and what it is to be. Those that lose our token come first.

    A job has one while it waits, has opted in and has a forecast; nothing is written anew for a shift of less than ten
    minutes or a fifth of the wait that is left. Where others' text cannot be given back as it was, nothing is written.
    Tasks of an array that wait together have one comment: it speaks of the first.
    """
    gone, new = [], []
    arrays: set[str] = set()
    for job in jobs:
        if job.waits and "_" in job.job_id and job.raw_id == job.base:
            if job.raw_id in arrays:
                continue
            arrays.add(job.raw_id)
        own = str(getattr(job, field))
        told = words_of(own)
        start = starts.get(job.job_id) if not terms.stopped and job.waits else None
        drawn = start is not None and is_opted_in(job, terms) and is_drawn(job.base, terms)
        words = words_of_start(start, terms.now) if start is not None and drawn else ""
        if words == told or not may_merge(own) or job.finished:
            continue
        if not words:
            gone.append((job, merged(own, "")))
        elif not told or _is_worth(told, words, terms.now):
            new.append((job, merged(own, words)))
    return gone + new


def words_of_start(start: Start, now: float) -> str:
    """What the token says, in this machine's local time, rounded up; empty where no start is in sight.

    >>> words_of_start(Start(math.nan, math.nan), 0.0)
    ''
    >>> len(words_of_start(Start(1000.0, 90_000.0), 0.0)) == len("start=2026-11-22T23:40,by=2026-11-23T06:15")
    True
    """
    if not math.isfinite(start.likely):
        return ""
    words = f"start={_stamp(start.likely, now)}"
    return words if not math.isfinite(start.by_90) else f"{words},by={_stamp(start.by_90, now)}"


def _stamp(at: float, now: float) -> str:
    step = FINE if at - now < 2 * 3600.0 else COARSE
    return time.strftime(FORM, time.localtime(math.ceil(max(at, now) / step) * step))


def _is_worth(told: str, words: str, now: float) -> bool:
    """Whether the likely start moved far enough, or what was told is past."""
    before, after = (_epoch(text) for text in (told, words))
    if math.isnan(before) or before < now:
        return True
    return abs(after - before) > max(SHIFT_S, SHIFT_SHARE * max(after - now, 0.0))


def _epoch(words: str) -> float:
    stamp = words.partition("start=")[2].partition(",")[0]
    try:
        return time.mktime(time.strptime(stamp, FORM))
    except ValueError:
        return math.nan
