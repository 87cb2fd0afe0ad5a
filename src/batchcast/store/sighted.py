# SPDX-License-Identifier: Apache-2.0
"""Converts sightings of jobs to rows, and writes a store from the output of one sacct call, without SQLAlchemy.

`report` and `walltime` use such a store if there is no collector. Such a store is written with sqlite3 from the
standard library, so that users' commands need only batchcast's core.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from .. import columns as declared
from ..formats.sighting import Sighting
from ..job import status_from_sacct
from .statements import JOB

AGAIN = frozenset({"requeued", "preempted", "node_fail", "boot_fail"})
"""Status of a run after which Slurm starts the same job again."""
LOST = "lost"
"""Status of a job that the batch system no longer shows and whose end is unknown."""
FOLLOWED = ("state", "reason", "dependency", "reservation", "licenses", "priority", "limit_now", "eligible_time",
            "expected_start", "raw_id")  # fmt: skip
_AFTER = (*declared.ALLOCATED, *declared.MEASURED)
OUTCOME = ("start_time", "end_time", "status", "open", "unmeasured", *(column.name for column in _AFTER))

_JOB: dict[str, str] = dict.fromkeys((*JOB, *FOLLOWED, *OUTCOME, "cluster", "first_seen", "vanished"), "")
_JOB |= {"row": " INTEGER PRIMARY KEY", "told": " DEFAULT 0"}
_FORECAST = "method as_of point_s levels quantiles_s basis grounds"
TABLES = {
    "jobs": tuple(f'"{name}"{kind}' for name, kind in _JOB.items()),
    "meta": ("cluster", "name", "value"),
    "forecasts": ("id", "row", "kind", "moment", "issued_at", *_FORECAST.split()),
    "renewed": ("row", "cluster", "why", *_FORECAST.split()),
    "moves": ("row", "as_of", "cluster", "likely_start", "by_90_start", "why"),
    "planned": ("cluster", "job_id", "submit_time", "user_limit", "planned", "state", "at", "how"),
    "plan_changes": ("id", "cluster", "at", "job_id", "submit_time", "what", "limit_from", "limit_to", "why"),
    "tokens": ("id", "user_id", "label", "digest", "created", "expires", "revoked"),
}
"""The tables of a store that is written from one sacct call, and their columns, which have no SQL types."""


def certain_order(sightings: Sequence[Sighting]) -> list[Sighting]:
    """Return the sightings whose state is certain (not between two states), sorted by job and by start time."""
    # a job that has not started (NaN) comes last: min() returns its first argument if the second is NaN
    return sorted((s for s in sightings if s.certain), key=lambda s: (*key_of(s), min(math.inf, s.start_time)))


def key_of(s: Sighting) -> tuple[str, float]:
    """Return the job id and the submit time of a sighting, which further runs of a job may share."""
    return s.job_id, s.submit_time


def matched(
    sightings: Iterable[Sighting], rows_by_key: Mapping[tuple[str, float], list[dict[str, Any]]]
) -> Iterator[tuple[Sighting, list[dict[str, Any]], dict[str, Any] | None]]:
    """Yield each sighting with the known runs that have its job id and submit time, and the run that it belongs to.

    The run is None if the sighting shows a new run. The caller then adds the new run to the known runs.
    """
    seen_of_key: Counter[tuple[str, float]] = Counter()
    for s in sightings:
        rows = rows_by_key[key_of(s)]
        yield s, rows, matching(rows, s, seen_of_key[key_of(s)])
        seen_of_key[key_of(s)] += 1


def write_once(path: Path, cluster: str, sightings: Sequence[Sighting], sighted_at: float) -> None:
    """Write a store from sightings at one time, with the rows that `history.take_in` would write to an empty store."""
    rows_by_key: dict[tuple[str, float], list[dict[str, Any]]] = defaultdict(list)
    for s, rows, row in matched(certain_order(sightings), rows_by_key):
        if row is None:
            rows.append(new_row(cluster, s, sighted_at, rows))
    with closing(sqlite3.connect(path)) as store, store:
        for table, columns in TABLES.items():
            store.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        every = [row for rows in rows_by_key.values() for row in rows]
        if every:
            names = ", ".join(f'"{name}"' for name in every[0])
            store.executemany(f"INSERT INTO jobs ({names}) VALUES ({', '.join('?' * len(every[0]))})",
                              [tuple(row.values()) for row in every])  # fmt: skip


def matching(rows: list[dict[str, Any]], s: Sighting, nth: int) -> dict[str, Any] | None:
    """Return the row of `rows` (runs with the same job id and submit time, oldest first) that the nth sighting belongs
    to; None if the sighting shows a new run."""
    # The run with the same start, else the nth run, else the latest run that the sighting can belong to.
    for row in rows:
        # a start of NaN equals no stored start
        if row["start_time"] == s.start_time and row["end_time"] in (None, sql_value(s.end_time)):
            return row
    # Accounting lists all runs of a job in their order, so the nth sighting shows the nth run.
    if nth or not rows:
        return rows[nth] if nth < len(rows) else None
    last = rows[-1]
    # Slurm starts a run with such a status again. A sighting that is open, or starts after that run, shows the next
    # run.
    followed = not last["open"] and last["status"] in AGAIN
    again = s.is_open or (last["end_time"] is not None and s.start_time >= last["end_time"])
    return None if followed and again and status_from_sacct(s.state) not in AGAIN else last


def new_row(cluster: str, s: Sighting, sighted_at: float, earlier: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a run that is seen for the first time, at epoch second `sighted_at`.

    `earlier` are the known runs with the same job id and submit time. The new run gets the request of the first run.
    """
    request = earlier[0] if earlier else s.requested
    return {
        **{column.name: sql_value(request.get(column.name)) for column in declared.REQUESTED},
        "cluster": cluster,
        "job_id": s.job_id,
        "submit_time": s.submit_time,
        "restarts": len(earlier),
        "first_seen": sighted_at,
        **followed(s),
        **outcome(s),
    }


def followed(s: Sighting) -> dict[str, Any]:
    """Return the columns that change while a job is in the system."""
    now = {"limit_now": s.requested.get("req_time"), "state": s.state.lower()}
    return {name: sql_value(now.get(name, getattr(s, name, None))) for name in FOLLOWED}


def outcome(s: Sighting) -> dict[str, Any]:
    """Return the columns that describe the outcome of a job."""
    return {
        "start_time": sql_value(s.start_time),
        "end_time": sql_value(s.end_time),
        "status": None if s.is_open else status_from_sacct(s.state),
        "open": int(s.is_open),
        "unmeasured": s.unmeasured or None,
        **{column.name: sql_value(s.allocated.get(column.name)) for column in _AFTER},
    }


def sql_value(value: Any) -> Any:
    """Return a value for SQL: NaN and "" become NULL; NUL and surrogates, which PostgreSQL rejects, are replaced."""
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode() or None
    return value
