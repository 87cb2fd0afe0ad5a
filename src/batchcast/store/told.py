"""What the live clock reads from the store and writes back: events not told yet, forecasts issued."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Float, Text, bindparam, func, insert, or_, select, update

from ..events.event import START, SUBMIT, Event
from ..events.live import TOLD_GONE, TOLD_START, TOLD_SUBMIT, LiveJob
from ..job import JobRequest
from .schema import forecasts, jobs, meta

_REQUEST = (
    "row",
    "job_id",
    "submit_time",
    "req_procs",
    "alloc_procs",
    "req_time",
    "req_mem_kib",
    "user_id",
    "group_id",
    "partition_id",
    "account",
    "qos",
    "job_name",
)
_LIFE = ("start_time", "end_time", "status", "told", "told_start", "told_end", "told_status")
_COLUMNS = [jobs.c[name] for name in (*_REQUEST, *_LIFE)]


def untold(connection: Connection, cluster: str, until: float) -> list[LiveJob]:
    """The jobs that may have events at or before `until` to tell."""
    gone = select(*_COLUMNS).where(jobs.c.cluster == cluster, jobs.c.told < TOLD_GONE, jobs.c.submit_time <= until)
    return [_live_job(dict(row)) for row in connection.execute(gone).mappings()]


def told(connection: Connection, cluster: str) -> Iterator[LiveJob]:
    """Every job of which anything was told: what a restarted clock hears again."""
    query = select(*_COLUMNS).where(jobs.c.cluster == cluster, jobs.c.told > 0)
    for row in connection.execute(query, execution_options={"yield_per": 5000}).mappings():
        yield _live_job(dict(row))


def _live_job(row: Mapping[str, Any]) -> LiveJob:
    """A row of the table as the clock takes it: what was told as it was told, the rest as it is known now.

    Processors by the reading rule `req`: asked for, else held.
    """
    start, end, status = row["start_time"], row["end_time"], row["status"]
    if row["told"] & (TOLD_START | TOLD_GONE):
        start = row["told_start"]
    if row["told"] & TOLD_GONE:
        end, status = row["told_end"], row["told_status"]
    procs = row["req_procs"] or row["alloc_procs"]
    request = JobRequest(
        row=row["row"],
        job_id=row["job_id"],
        submit_time=row["submit_time"],
        procs=_number(procs),
        req_time=_number(row["req_time"]),
        req_mem_kib=_number(row["req_mem_kib"]),
        queue_id=row["partition_id"],  # in Slurm and PBS a partition is the queue
        **{name: row[name] for name in _REQUEST[7:]},
    )
    return LiveJob(request, _number(start), _number(end), status, row["told"])


def mark_told(connection: Connection, events: Iterable[Event]) -> None:
    """Remember that these events were told, and as what."""
    found: dict[int, dict[str, Any]] = {}
    for event in events:
        row = event.job.row  # type: ignore[union-attr]
        one = found.setdefault(row, {"row_": row, "bits": 0, "start": None, "end": None, "how": None})
        if event.kind == SUBMIT:
            one["bits"] |= TOLD_SUBMIT
        elif event.kind == START:
            one |= {"bits": one["bits"] | TOLD_START, "start": event.time}
        else:
            one |= {"bits": one["bits"] | TOLD_GONE, "end": event.time, "how": getattr(event, "status", None)}
    if found:
        values = {
            "told": jobs.c.told.op("|")(bindparam("bits")),
            "told_start": func.coalesce(bindparam("start", type_=Float), jobs.c.told_start),
            "told_end": func.coalesce(bindparam("end", type_=Float), jobs.c.told_end),
            "told_status": func.coalesce(bindparam("how", type_=Text), jobs.c.told_status),
        }
        connection.execute(update(jobs).where(jobs.c.row == bindparam("row_")).values(values), list(found.values()))


def issue(connection: Connection, issued: Sequence[Mapping[str, Any]]) -> None:
    """Write forecasts: `row, kind, moment, method, as_of, issued_at` and `prediction`. All of them or none."""
    rows = [
        {
            **{name: one[name] for name in ("row", "kind", "moment", "method", "as_of", "issued_at")},
            "point_s": one["prediction"].point,
            "levels": json.dumps([float(x) for x in one["prediction"].levels]),
            "quantiles_s": json.dumps([float(x) for x in one["prediction"].quantiles]),
            "basis": one["prediction"].basis,
        }
        for one in issued
    ]
    if rows:
        connection.execute(insert(forecasts), rows)


def newly_estimated(connection: Connection, cluster: str) -> list[Mapping[str, Any]]:
    """Waiting jobs for which the batch system itself now gives a start and no comparison was kept yet."""
    kept = select(forecasts.c.row).where(forecasts.c.moment == "slurm")
    ours = forecasts.alias("ours")
    query = (
        select(
            jobs.c.row,
            jobs.c.submit_time,
            jobs.c.expected_start,
            jobs.c.reason,
            ours.c.method,
            ours.c.point_s,
            ours.c.levels,
            ours.c.quantiles_s,
            ours.c.basis,
        )
        .join(ours, (ours.c.row == jobs.c.row) & (ours.c.kind == "wait") & (ours.c.moment == "submit"))
        .where(
            jobs.c.cluster == cluster,
            jobs.c.open == 1,
            jobs.c.start_time.is_(None),
            jobs.c.expected_start.is_not(None),
            or_(
                jobs.c.reason.is_(None),
                jobs.c.reason.notin_(("BeginTime", "Dependency", "JobHeldUser", "JobHeldAdmin")),
            ),
            jobs.c.row.notin_(kept),
        )
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def read_meta(connection: Connection, cluster: str) -> dict[str, Any]:
    """What is remembered of a cluster, by name."""
    query = select(meta.c.name, meta.c.value).where(meta.c.cluster == cluster)
    return {name: json.loads(value) for name, value in connection.execute(query)}


def write_meta(connection: Connection, cluster: str, **values: Any) -> None:
    """Remember values of a cluster."""
    for name, value in values.items():
        where = (meta.c.cluster == cluster, meta.c.name == name)
        if connection.execute(meta.update().where(*where).values(value=json.dumps(value))).rowcount == 0:
            connection.execute(meta.insert().values(cluster=cluster, name=name, value=json.dumps(value)))


def _number(value: float | None) -> float:
    return math.nan if value is None else value
