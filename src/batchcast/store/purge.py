# SPDX-License-Identifier: Apache-2.0
"""Lets go of what is older than a site keeps: finished jobs and their forecasts, summed up before they go."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, delete, func, select

from ..predict.conditional import given_waited
from .clock_jobs import read_meta, write_meta
from .issued import NOTHING, as_prediction
from .schema import forecast_outcomes as outcomes
from .schema import forecasts, jobs, plan_changes

TOLD_GONE = 4
LEVELS = (0.5, 0.9)


class Due(NamedTuple):
    """What would go: finished jobs, their forecasts, and when the first and the last of these ended (epoch, s)."""

    jobs: int
    forecasts: int
    first: float | None
    last: float | None


def due(connection: Connection, cluster: str, before: float) -> Due:
    """What there is of jobs that ended before an instant and whose end the clock has told."""
    counted = select(func.count(), func.min(jobs.c.end_time), func.max(jobs.c.end_time)).where(_old(cluster, before))
    n, first, last = connection.execute(counted).one()
    of = select(func.count()).select_from(forecasts.join(jobs, forecasts.c.row == jobs.c.row))
    return Due(n, connection.scalar(of.where(_old(cluster, before))) or 0, first, last)


def remove_some(connection: Connection, cluster: str, before: float, most: int = 2000) -> int:
    """Sum up and delete up to `most` of these jobs, the oldest first, in the caller's transaction; how many went."""
    oldest = select(jobs.c.row).where(_old(cluster, before)).order_by(jobs.c.end_time, jobs.c.row).limit(most)
    rows = list(connection.scalars(oldest))
    if not rows:
        return 0
    memory = read_meta(connection, cluster)
    of_jobs = select(outcomes).where(outcomes.c.row.in_(rows), outcomes.c.moment != "next")
    issued = connection.execute(of_jobs).mappings()
    write_meta(
        connection,
        cluster,
        purged=added(memory.get("purged", {}), (dict(one) for one in issued)),
        purged_jobs=memory.get("purged_jobs", 0) + len(rows),
        purged_before=max(before, memory.get("purged_before", before)),
    )
    connection.execute(delete(forecasts).where(forecasts.c.row.in_(rows)))
    connection.execute(delete(jobs).where(jobs.c.row.in_(rows)))
    old = (plan_changes.c.cluster == cluster, plan_changes.c.at < before)
    connection.execute(delete(plan_changes).where(*old))
    return len(rows)


def added(sums: Mapping[str, Mapping[str, float]], issued: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """The sums with these forecasts: by month (UTC), kind, moment and method, what means and coverage are made of.

    Counts, the sums of errors and of their sizes (seconds), and for each level how many bounds there were and how many
    held. Forecasts with no history to go by were no answer, and are counted alone.
    """
    total = {name: dict(one) for name, one in sums.items()}
    for row in issued:
        month = time.strftime("%Y-%m", time.gmtime(row["as_of"]))
        one = total.setdefault(f"{month} {row['kind']} {row['moment']} {row['method']}", {})
        _count(one, "forecasts", 1)
        if row["outcome_s"] is None or row["grounds"] == NOTHING:
            continue
        error = row["point_s"] - row["outcome_s"]
        _count(one, "came_out", 1)
        _count(one, "sum_error_s", error)
        _count(one, "sum_absolute_error_s", abs(error))
        prediction = as_prediction(row)
        for level in LEVELS if prediction.levels else ():
            bound = given_waited(prediction, 0.0, (level,)).point
            if bound != float("inf"):
                _count(one, f"judged_{level * 100:g}", 1)
                _count(one, f"held_{level * 100:g}", float(row["outcome_s"] <= bound))
    return total


def _count(one: dict[str, float], name: str, value: float) -> None:
    one[name] = one.get(name, 0.0) + value


def _old(cluster: str, before: float) -> ColumnElement[bool]:
    """Finished before an instant, and told: the clock needs it no more."""
    return and_(
        jobs.c.cluster == cluster, jobs.c.open == 0, jobs.c.end_time < before, jobs.c.told.op("&")(TOLD_GONE) != 0
    )
