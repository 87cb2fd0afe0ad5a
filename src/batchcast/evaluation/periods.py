"""Hours, days, weeks and months of a log in its own time zone."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from ..errors import InputError
from ..table import Trace
from ..trace.zone import zone

MOST = 400


def calendar(trace: Trace, time: float) -> datetime:
    """An instant of the log's clock as local time; InputError when no calendar reaches that far."""
    try:
        return datetime.fromtimestamp(trace.info.unix_start + time, zone(trace.info.timezone))
    except (OverflowError, OSError, ValueError):
        raise InputError(
            f"{trace.info.source}: no calendar holds {trace.info.unix_start + time:.0f} seconds since 1970",
            hint="--from and --to to leave out jobs with a broken submit time",
        ) from None


def month_starts(trace: Trace) -> tuple[np.ndarray, list[str]]:
    """Instants (log clock) at which the months of a log's submissions begin, local midnight, and names YYYY-MM.

    >>> trace = Trace.from_arrays({"submit_time": [0.0, 32 * 86400.0]})
    >>> [column.tolist() if not isinstance(column, list) else column for column in month_starts(trace)]
    [[0.0, 2678400.0], ['1970-01', '1970-02']]
    """
    submit = trace.submit_time
    if not len(submit):
        return np.zeros(0), []
    here = calendar(trace, float(submit[0])).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    last = calendar(trace, float(submit[-1]))
    starts, names = [], []
    while here <= last:
        starts.append(here.timestamp() - trace.info.unix_start)
        names.append(f"{here.year:04d}-{here.month:02d}")
        here = here.replace(year=here.year + here.month // 12, month=here.month % 12 + 1)
    return np.array(starts), names


def periods(trace: Trace) -> tuple[np.ndarray, list[str], str]:
    """Even pieces of a log's submissions for drawing: edges (m + 1,), local start of each as ISO text, and the unit.

    Weeks; days where there are under ten weeks, hours under five days; several weeks together where there are more than
    `MOST`. The first starts at local midnight (or the hour) before the first submission; a change of daylight time
    shifts later starts by its hour.

    >>> edges, starts, unit = periods(Trace.from_arrays({"submit_time": [0.0, 10 * 86400.0]}))
    >>> unit, len(starts), starts[1]
    ('day', 11, '1970-01-02 00:00')
    """
    submit = trace.submit_time
    length = float(submit[-1] - submit[0])
    unit, width = next((u, w) for u, w, least in _PERIODS if length >= least)
    if length > MOST * width:
        weeks = int(length // (MOST * width)) + 1
        unit, width = f"{weeks} weeks", weeks * width
    first = calendar(trace, float(submit[0])).replace(minute=0, second=0, microsecond=0)
    begin = (first if unit == "hour" else first.replace(hour=0)).timestamp() - trace.info.unix_start
    count = int((float(submit[-1]) - begin) // width) + 1
    edges = begin + width * np.arange(count + 1)
    return edges, [f"{calendar(trace, float(t)):%Y-%m-%d %H:%M}" for t in edges[:-1]], unit


_PERIODS = (("week", 7 * 86400.0, 70 * 86400.0), ("day", 86400.0, 5 * 86400.0), ("hour", 3600.0, 0.0))
