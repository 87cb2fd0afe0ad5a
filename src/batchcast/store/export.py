# SPDX-License-Identifier: Apache-2.0
"""The store's history as a Trace in the house's columns: `evaluate` and `simulate` on the cluster's own past."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, select

from .. import columns as declared
from ..events.live import DELIVERED_GONE
from ..table import LogInfo, Trace
from .clock_jobs import read_meta
from .schema import jobs
from .statements import JOB

_LIFE = ("job_id", "submit_time", "eligible_time", "status", "restarts")
_COLUMNS = (*_LIFE, *(column.name for column in (*declared.ASKED, *declared.HELD, *declared.MEASURED)))


def to_trace(
    connection: Connection,
    cluster: str,
    since: float = -math.inf,
    until: float = math.inf,
    *,
    as_told: bool = False,
    user: str | None = None,
) -> Trace:
    """The finished jobs submitted in [since, until), epoch seconds, in log order; those still open are counted out.

    A job that left the queue without running has no run time and waits until it left: the recorded clock withdraws
    it then. `queue_id` repeats the partition. Times stay epoch seconds: the live clock's own. They are accounting's
    last word; a note counts the jobs it changed after the clock had told them. `as_told` gives the times the clock
    told: over those a recorded clock tells the same story and predictors say the same. With `user`, only
    that one's. O(n log n).
    """
    query = select(*JOB).where(jobs.c.cluster == cluster)
    if since > -math.inf:
        query = query.where(jobs.c.submit_time >= since)
    if user is not None:
        query = query.where(jobs.c.user_id == user)
    if until < math.inf:
        query = query.where(jobs.c.submit_time < until)
    rows = [dict(row) for row in connection.execute(query.order_by(jobs.c.submit_time, jobs.c.row)).mappings()]
    changed = sum(_differs(row) for row in rows)
    if as_told:
        for row in rows:
            row |= {
                "start_time": row["told_start"],
                "end_time": row["told_end"],
                "open": not row["told"] & DELIVERED_GONE,
            }
            row["status"] = row["told_status"] or row["status"]
    ended = [row for row in rows if not row["open"] and row["end_time"] is not None]
    columns: dict[str, Any] = {name: [row[name] for row in ended] for name in _COLUMNS}
    columns["wait_time"] = [_or(row["start_time"], row["end_time"]) - row["submit_time"] for row in ended]
    columns["run_time"] = [row["end_time"] - _or(row["start_time"], math.nan) for row in ended]
    columns["queue_id"] = columns["partition_id"]
    columns["job_id"] = _ids(columns["job_id"])
    for name in _COLUMNS:
        if declared.COLUMNS[name].kind == "number":
            columns[name] = [math.nan if value is None else float(value) for value in columns[name]]
    memory = read_meta(connection, cluster)
    total = memory.get("total_procs")
    info = LogInfo(
        source=f"store of {cluster}",
        format="store",
        timezone="UTC",
        timezone_source="epoch seconds",
        max_procs=math.nan if total is None else total,
    )
    if changed:
        info = replace(
            info, notes=(*info.notes, f"{changed} jobs: accounting changed their times after they were told")
        )
    return Trace.from_arrays(columns, info.with_dropped("still open at export", len(rows) - len(ended)))


def _differs(row: dict[str, Any]) -> bool:
    """Whether accounting has changed the times of a run since the clock told its end."""
    heard, known = (row["told_start"], row["told_end"]), (row["start_time"], row["end_time"])
    return bool(row["told"] & DELIVERED_GONE) and heard != known


def _ids(ids: list[str]) -> list[Any]:
    """Whole numbers where all are, else text as Slurm shows them."""
    return [int(text) for text in ids] if all(text.isdigit() for text in ids) else ids


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
