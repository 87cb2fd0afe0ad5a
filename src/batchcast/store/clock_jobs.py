# SPDX-License-Identifier: Apache-2.0
"""Reads from the store and writes to it for the live clock: undelivered events and issued predictions.

In this module and in the columns of the table `jobs`, *told* means that the clock has delivered an event to the
predictors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection, Float, Table, Text, bindparam, exists, func, or_, select, text

from ..events.event import Event, Start, Submit
from ..events.live import LiveJob
from ..job import DELIVERED_GONE, DELIVERED_START, TOLD_SUBMIT
from .place import shown_url
from .rows import FIELDS, as_values, live_job, stored_values
from .schema import forecasts, jobs, meta, moves, renewed
from .statements import JOB

JOB_COLUMNS = [jobs.c[name] for name in JOB]
"""The columns of a job that the clock reads."""
# Older versions of SQLite accept at most 999 parameters in a statement, and some keys have two values.
MOST_ROWS = 400
T = TypeVar("T")
_FOR_THE_MACHINE = (
    "(jobs.reason IS NULL OR jobs.reason NOT IN ('BeginTime', 'Dependency', 'JobHeldUser', 'JobHeldAdmin'))"
)
_OURS = "ours.method, ours.point_s, ours.levels, ours.quantiles_s, ours.basis, ours.grounds"
_AT_SUBMISSION = "forecasts ours ON ours.row = jobs.row AND ours.kind = 'wait' AND ours.moment = 'submit'"
_WAITED_SINCE = f"""SELECT jobs.row, jobs.submit_time, {_OURS},
        {", ".join(f"renewed.{name} AS renewed_{name}" for name in FIELDS)}
    FROM jobs JOIN renewed ON renewed.row = jobs.row JOIN {_AT_SUBMISSION} AND ours.method = renewed.method
    LEFT JOIN forecasts kept ON kept.row = jobs.row AND kept.kind = 'wait' AND kept.moment = :moment
    WHERE renewed.cluster = :cluster AND kept.row IS NULL
    AND jobs.submit_time <= :latest AND jobs.submit_time > :earliest AND {_FOR_THE_MACHINE}"""
_NEWLY_ESTIMATED = f"""SELECT jobs.row, jobs.submit_time, jobs.expected_start, jobs.reason, {_OURS}
    FROM jobs JOIN {_AT_SUBMISSION}
    WHERE jobs.cluster = :cluster AND jobs.open = 1 AND jobs.start_time IS NULL AND jobs.expected_start IS NOT NULL
    AND {_FOR_THE_MACHINE} AND jobs.row NOT IN (SELECT forecasts.row FROM forecasts WHERE forecasts.moment = 'slurm')"""


def untold_jobs(connection: Connection, cluster: str, until: float) -> list[LiveJob]:
    """Return the jobs that may have undelivered events up to `until` (epoch seconds)."""
    untold = (jobs.c.told < DELIVERED_GONE, jobs.c.submit_time <= until)
    query = select(*JOB_COLUMNS).where(jobs.c.cluster == cluster, *untold)
    return [live_job(dict(row)) for row in connection.execute(query).mappings()]


def told_jobs(connection: Connection, cluster: str, since: float = -math.inf) -> Iterator[LiveJob]:
    """Yield every job with delivered events that had not left the system before `since`. A restarted clock replays
    these events."""
    here = or_(jobs.c.told < DELIVERED_GONE, jobs.c.told_end >= max(since, -1e300))
    query = select(*JOB_COLUMNS).where(jobs.c.cluster == cluster, jobs.c.told > 0, here).order_by(jobs.c.submit_time)
    for row in connection.execute(query, execution_options={"yield_per": 5000}).mappings():
        yield live_job(dict(row))


def mark_told(connection: Connection, events: Iterable[Event]) -> None:
    """Record which events the clock has delivered, and the delivered times and status of their jobs."""
    changes: dict[int, dict[str, Any]] = {}
    for event in events:
        row = event.job.row  # type: ignore[union-attr]
        change = changes.setdefault(row, {"row_": row, "bits": 0, "start": None, "end": None, "how": None})
        if isinstance(event, Submit):
            change["bits"] |= TOLD_SUBMIT
        elif isinstance(event, Start):
            change |= {"bits": change["bits"] | DELIVERED_START, "start": event.time}
        else:
            gone = {"bits": change["bits"] | DELIVERED_GONE, "end": event.time, "how": getattr(event, "status", None)}
            change |= gone
    if changes:
        values = {
            # One statement serves all events. A value that an event does not have is NULL, which keeps the stored
            # value.
            "told": jobs.c.told.op("|")(bindparam("bits")),
            "told_start": func.coalesce(bindparam("start", type_=Float), jobs.c.told_start),
            "told_end": func.coalesce(bindparam("end", type_=Float), jobs.c.told_end),
            "told_status": func.coalesce(bindparam("how", type_=Text), jobs.c.told_status),
        }
        connection.execute(jobs.update().where(jobs.c.row == bindparam("row_")).values(values), list(changes.values()))


def issue(connection: Connection, issued: Sequence[Mapping[str, Any]]) -> None:
    """Store predictions, all or none; `issued` has row, kind, moment, method, as_of, issued_at and prediction."""
    _insert(connection, forecasts, ("row", "kind", "moment", "method", "as_of", "issued_at"), issued)


def _insert(
    connection: Connection, table: Table, names: Sequence[str], ones: Sequence[Mapping[str, Any]], **more: Any
) -> None:
    """Insert predictions with their values of these columns into a table."""
    rows = [{**{name: one[name] for name in names}, **as_values(one["prediction"]), **more} for one in ones]
    if rows:
        connection.execute(table.insert(), rows)


def pieces(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the values in pieces of a length that one statement takes."""
    return (values[k : k + MOST_ROWS] for k in range(0, len(values), MOST_ROWS))


def rows_forecast(connection: Connection, rows: Sequence[int]) -> set[int]:
    """Return which of these rows of jobs have predictions that were issued at submission."""
    query = select(forecasts.c.row).where(forecasts.c.moment == "submit").distinct()
    return {row for some in pieces(rows) for row in connection.scalars(query.where(forecasts.c.row.in_(some)))}


def followed_by(
    connection: Connection, cluster: str, request: Mapping[str, Any], since: float, until: float
) -> int | None:
    """Return the row of the first job submitted between `since` and `until` that matches the request in a question to
    `start --test` and has no such prediction yet; None if there is none."""
    has_question = exists().where(forecasts.c.row == jobs.c.row, forecasts.c.moment == "asked")
    which = (
        jobs.c.cluster == cluster, jobs.c.user_id == request["user"], jobs.c.partition_id == request["partition"],
        jobs.c.req_procs == request["procs"], jobs.c.req_time == request["limit"],
        # Submit times are whole seconds, so a job in the second of the question counts as submitted after it.
        jobs.c.submit_time >= math.floor(since), jobs.c.submit_time <= until, ~has_question,
    )  # fmt: skip
    row: int | None = connection.scalar(select(jobs.c.row).where(*which).order_by(jobs.c.submit_time).limit(1))
    return row


def take_back(connection: Connection, moment: str, rows: Sequence[int]) -> None:
    """Delete the predictions of these jobs that were issued at `moment`, for example `submit`."""
    for some in pieces(rows):
        connection.execute(forecasts.delete().where(forecasts.c.row.in_(some), forecasts.c.moment == moment))


def renew(connection: Connection, cluster: str, forecasts_: Sequence[Mapping[str, Any]]) -> None:
    """Replace the current predictions for waiting jobs.

    The stored start times (shown to users) of jobs that no longer wait are deleted. `forecasts_` has the keys row,
    method, as_of, why and prediction.
    """
    connection.execute(renewed.delete().where(renewed.c.cluster == cluster))
    _insert(connection, renewed, ("row", "method", "as_of", "why"), forecasts_, cluster=cluster)
    waits_on = select(renewed.c.row).where(renewed.c.cluster == cluster)
    connection.execute(moves.delete().where(moves.c.cluster == cluster, moves.c.row.notin_(waits_on)))


def last_moves(connection: Connection, cluster: str) -> dict[int, Mapping[str, Any]]:
    """Return the last start time shown to users, by row of the job: `as_of, likely_start, by_90_start, why`."""
    query = select(moves).where(moves.c.cluster == cluster).order_by(moves.c.as_of)
    return {row["row"]: dict(row) for row in connection.execute(query).mappings()}


def keep_moves(connection: Connection, cluster: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store start times that users are shown from now on: `row, as_of, likely_start, by_90_start, why`."""
    if rows:
        connection.execute(moves.insert(), [{**row, "cluster": cluster} for row in rows])


def happened(connection: Connection, cluster: str, since: float) -> list[Mapping[str, Any]]:
    """Return jobs that are open or ended after `since`, with the predicted run time (None if there is none)."""
    run = select(func.min(forecasts.c.point_s)).where(
        forecasts.c.row == jobs.c.row, forecasts.c.kind == "runtime", forecasts.c.moment == "submit"
    )
    query = select(
        *(jobs.c[name] for name in ("row", "partition_id", "submit_time", "start_time", "end_time", "priority")),
        jobs.c.req_procs, jobs.c.alloc_procs, jobs.c.req_time, run.scalar_subquery().label("run_point_s"),
    ).where(jobs.c.cluster == cluster, or_(jobs.c.open == 1, jobs.c.end_time > since))  # fmt: skip
    return [dict(row) for row in connection.execute(query).mappings()]


def waited_since(connection: Connection, cluster: str, moment: str, age: float, now: float) -> list[Mapping[str, Any]]:
    """Return the jobs that, at the time `now`, have waited for the machine for `age` seconds, but less than twice as
    long. Jobs that already have a stored prediction with the name `moment` are left out."""
    values = {"cluster": cluster, "moment": moment, "latest": now - age, "earliest": now - 2.0 * age}
    return [dict(row) for row in connection.execute(text(_WAITED_SINCE), values).mappings()]


def measured(connection: Connection, rows: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """Yield row, used_mem_kib, alloc_nodes and status of the jobs in `rows` whose memory use is known."""
    query = select(jobs.c.row, jobs.c.used_mem_kib, jobs.c.alloc_nodes, jobs.c.status).order_by(jobs.c.row)
    for some in pieces(rows):
        which = jobs.c.row.in_(some), jobs.c.used_mem_kib.is_not(None)
        yield from (dict(row) for row in connection.execute(query.where(*which)).mappings())


def newly_estimated(connection: Connection, cluster: str) -> list[Mapping[str, Any]]:
    """Return waiting jobs with an estimate of the batch system that no stored comparison has yet."""
    return [dict(row) for row in connection.execute(text(_NEWLY_ESTIMATED), {"cluster": cluster}).mappings()]


def read_meta(connection: Connection, cluster: str) -> dict[str, Any]:
    """Return the values that the table `meta` has for a cluster, by name."""
    query = select(meta.c.name, meta.c.value).where(meta.c.cluster == cluster)
    return stored_values(map(dict, connection.execute(query).mappings()), shown_url(str(connection.engine.url)))


def write_meta(connection: Connection, cluster: str, **values: Any) -> None:
    """Store values of a cluster in the table `meta`, by name."""
    for name, value in values.items():
        where, text_ = (meta.c.cluster == cluster, meta.c.name == name), json.dumps(value)
        # UPDATE before INSERT works in both databases, whose forms of an upsert differ.
        if connection.execute(meta.update().where(*where).values(value=text_)).rowcount == 0:
            connection.execute(meta.insert().values(cluster=cluster, name=name, value=text_))
