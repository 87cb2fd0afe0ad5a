"""Figures over several users that give away nobody, however often and for whatever span they are asked.

Two answers a second apart, or over spans that differ by a little, must not give one job by subtraction. So, where jobs
are hidden, a figure is made of whole days (UTC) that are over, each only if jobs of at least `least` users came out on
it: two such figures of one choice differ by whole days, each of several users, or not at all. What may still be
subtracted between choices (a partition's against an account's) is below the rounding: two significant digits, so that
what one job adds is lost wherever it is less than a twentieth of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

DAY_S = 86400.0


def days_of_several(rows: Sequence[Mapping[str, Any]], time: str, least: int, now: float) -> list[Mapping[str, Any]]:
    """The rows whose day, by the column `time` (epoch seconds, UTC days), is over and holds at least `least` users.

    >>> rows = [{"t": 5.0, "user_id": "a"}, {"t": 6.0, "user_id": "b"}, {"t": 90000.0, "user_id": "a"}]
    >>> len(days_of_several(rows, "t", 2, 200000.0)), len(days_of_several(rows, "t", 2, 80000.0))
    (2, 0)
    """
    several = days_over(rows, time, least, now)
    return [row for row in rows if row[time] // DAY_S in several]


def days_over(rows: Iterable[Mapping[str, Any]], time: str, least: int, now: float) -> set[float]:
    """Those days themselves, in days since the epoch; the rows are looked at once and none is kept.

    >>> rows = [{"t": 5.0, "user_id": "a"}, {"t": 6.0, "user_id": "b"}, {"t": 90000.0, "user_id": "a"}]
    >>> days_over(iter(rows), "t", 2, 200000.0)
    {0.0}
    """
    users: dict[float, set[Any]] = {}
    for row in rows:
        users.setdefault(row[time] // DAY_S, set()).add(row["user_id"])
    return {day for day, names in users.items() if len(names) >= least and day < now // DAY_S}


def whole_days(since: float, until: float) -> tuple[float, float]:
    """The span widened to whole days at its beginning and cut to whole ones at its end.

    >>> whole_days(90000.0, 300000.0), whole_days(90000.0, float("inf"))
    ((86400.0, 259200.0), (86400.0, inf))
    """
    begin, end = (x // DAY_S * DAY_S if math.isfinite(x) else x for x in (since, until))
    return begin, end


def rounded(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Every number to two significant digits.

    >>> rounded({"jobs": 1234, "mean": 0.0567, "name": "main", "none": float("nan")})
    {'jobs': 1200, 'mean': 0.057, 'name': 'main', 'none': nan}
    """
    return {name: _two_digits(value) for name, value in figures.items()}


def _two_digits(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value == 0:
        return value
    digits = 1 - math.floor(math.log10(abs(value)))
    return type(value)(round(value, digits))
