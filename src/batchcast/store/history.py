# SPDX-License-Identifier: Apache-2.0
"""The job history: stores what the batch system shows of each job, once per run, and exports it as a `Trace`.

The key of a run is cluster, job id, submit time and `restarts`. The job id is the id that Slurm displays (12_3 for an
array task, 12+0 for a component), because this id exists before Slurm splits an array task off and gives it a raw id. A
reused job id and a requeued run are recognized by another submit time. `restarts` distinguishes two runs with the same
submit time.

`remove_some` deletes finished jobs and their predictions that are older than the site's retention time, after adding
them to sums.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, or_, select, tuple_

from batchcast import columns as declared

from ..columns import OUT_OF_MEMORY
from ..formats.sighting import Sighting
from ..job import DELIVERED_GONE
from ..metrics.coverage import is_covered
from ..predict.conditional import given_waited
from ..table import LogInfo, Nominal, Trace
from .clock_jobs import JOB_COLUMNS, pieces, read_meta, write_meta
from .rows import NOTHING, as_prediction, features_of
from .schema import forecast_outcomes as outcomes
from .schema import forecasts, jobs, plan_changes
from .sighted import AGAIN, FOLLOWED, LOST, OUTCOME, certain_order, followed, key_of, matched, new_row, outcome

DELIVERED_COLUMNS = ("told_start", "told_end", "told_status")


@dataclass(slots=True)
class Taken:
    """The changes of the store by one batch of sightings: what the batch system shows of jobs at one time."""

    new: int = 0  # Number of jobs that were inserted, updated and unchanged
    changed: int = 0
    same: int = 0
    late: int = 0  # Number of changes to times that the clock had already delivered

    def __add__(self, other: Taken) -> Taken:
        return Taken(*(getattr(self, n) + getattr(other, n) for n in self.__slots__))


def take_in(connection: Connection, cluster: str, sightings: Sequence[Sighting], sighted_at: float) -> Taken:
    """Insert new jobs and update known jobs from sightings. Storing the same sightings again changes nothing."""
    # A sighting of a job between two states only proves that the job exists, so it is ignored.
    result = Taken()
    for some in pieces(certain_order(sightings)):
        _take_chunk(connection, cluster, some, sighted_at, result)
    return result


def _take_chunk(
    connection: Connection, cluster: str, sightings: Sequence[Sighting], sighted_at: float, result: Taken
) -> None:
    """Insert and update the jobs of one chunk of sightings, and count the changes in `result`."""
    known_rows = _rows_by_key(connection, cluster, set(map(key_of, sightings)))
    first_requests = _first_requests(connection, cluster, [s for s in sightings if key_of(s) not in known_rows])
    inserts, updates = [], []
    for s, rows, row in matched(sightings, known_rows):
        if row is None:
            values = new_row(cluster, s, sighted_at, rows) | first_requests.get(key_of(s), {})
            inserts.append(values)
            rows.append({**values, "row": None, "told": 0})
            result.new += 1
        # The run was inserted by an earlier sighting of this batch and has no row number yet. Or squeue lags behind
        # accounting: no sighting opens a finished job again, except a job that was given up.
        elif row["row"] is None or (not row["open"] and s.is_open and row["status"] != LOST):
            continue
        elif values := _changes(row, s):
            result.changed += 1
            result.late += int((row["told"] >= DELIVERED_GONE) and bool({"start_time", "end_time"} & set(values)))
            updates.append((row["row"], values))
            row.update(values)
        else:
            result.same += 1
    if inserts:
        connection.execute(jobs.insert(), inserts)
    _update_rows(connection, updates)


def _rows_by_key(
    connection: Connection, cluster: str, keys: set[tuple[str, float]]
) -> defaultdict[tuple[str, float], list[dict[str, Any]]]:
    """Return the rows of jobs with these keys, oldest run first."""
    asked = (column.name for column in declared.REQUESTED)
    names = ("row", "job_id", "submit_time", "restarts", "told", "vanished", *asked, *FOLLOWED, *OUTCOME)
    key = tuple_(jobs.c.job_id, jobs.c.submit_time)
    query = select(*(jobs.c[name] for name in names)).where(jobs.c.cluster == cluster, key.in_(list(keys)))
    rows_by_key = defaultdict(list)
    for row in connection.execute(query.order_by(jobs.c.restarts)).mappings():
        rows_by_key[row["job_id"], row["submit_time"]].append(dict(row))
    return rows_by_key


def _first_requests(
    connection: Connection, cluster: str, sightings: Sequence[Sighting]
) -> dict[tuple[str, float], dict[str, Any]]:
    """Return the original requests of requeued jobs, by the key of the new run.

    The requests are read from an earlier run, because Slurm shows only the current request, which may have changed. The
    earlier run has ended with a status after which Slurm starts the job again, or still counts as open.
    """
    earlier = select(jobs).where(jobs.c.cluster == cluster, jobs.c.job_id.in_({s.job_id for s in sightings}))
    earlier = earlier.where(or_(jobs.c.open == 1, jobs.c.status.in_((*AGAIN, LOST)))).order_by(jobs.c.submit_time)
    runs = defaultdict(list)
    for row in connection.execute(earlier).mappings() if sightings else ():
        runs[row["job_id"]].append(row)
    return {
        key_of(s): {column.name: before[-1][column.name] for column in declared.REQUESTED}
        for s in sightings
        if (before := [row for row in runs[s.job_id] if row["submit_time"] < s.submit_time])
    }


def _changes(row: dict[str, Any], s: Sighting) -> dict[str, Any]:
    """Return the columns of a row that a sighting changes. Unknown values do not overwrite known values."""
    again = row["status"] == LOST and s.is_open  # the job had been given up as lost, but is shown again
    fresh = outcome(s) | (followed(s) if row["open"] or again else {})
    # A reason or an estimated start can disappear. Any other unknown value only means that this source does not show
    # it.
    changed = {k: v for k, v in fresh.items() if row[k] != v and (v is not None or k in ("reason", "expected_start"))}
    if row["status"] == OUT_OF_MEMORY and changed.get("status") == "failed":
        del changed["status"]  # accounting reports the out-of-memory reason, while squeue still shows FAILED
    if again:  # the clock has delivered the job's end, so it must deliver its submission again
        changed |= {"status": None, "end_time": None, "open": 1, **dict.fromkeys(DELIVERED_COLUMNS), "told": 0}
    if row["vanished"] is not None and (s.is_open or changed):
        changed["vanished"] = None
    return changed


def _update_rows(connection: Connection, updates: Iterable[tuple[int, dict[str, Any]]]) -> None:
    """Execute one update statement for each set of columns that changed together."""
    groups = defaultdict(list)
    for row, values in updates:
        groups[tuple(sorted(values))].append({"row_": row, **values})
    for names, rows in groups.items():
        connection.execute(_OF_ROW.values({n: bindparam(n) for n in names}), rows)


_OF_ROW = jobs.update().where(jobs.c.row == bindparam("row_"))
"""The beginning of a statement that changes jobs by row."""


OpenJob = tuple[int, str, float, Any]
"""Row, job id, submit time, and `vanished`: the time of the last sighting, or None while the batch system shows it."""
VANISHED = jobs.c.vanished.is_not(None)
"""The condition that the batch system no longer shows a job."""


def open_keys(connection: Connection, cluster: str, *where: ColumnElement[bool]) -> Iterator[OpenJob]:
    """Yield the keys of all open jobs that meet the conditions in `where`."""
    query = select(jobs.c.row, jobs.c.job_id, jobs.c.submit_time, jobs.c.vanished)
    yield from map(tuple, connection.execute(query.where(jobs.c.cluster == cluster, jobs.c.open == 1, *where)))


SEEN_AT_ONCE_S = 3600.0
"""A short job may have ended before the collector sees it. Its input files are still read if the collector saw it
within this many seconds after its submission.
"""


def without_inputs(connection: Connection, cluster: str) -> list[tuple[int, str, str, float]]:
    """Return row, user, working directory and submit time of jobs whose input files were not read yet.

    Jobs whose submission the clock has delivered are left out, because their predictions have been made. Jobs that have
    ended and were first seen long after their submission are left out too: they come from accounting, and their
    directories may contain newer files.
    """
    query = select(jobs.c.row, jobs.c.user_id, jobs.c.work_dir, jobs.c.submit_time).where(
        jobs.c.cluster == cluster, jobs.c.told == 0, jobs.c.inputs.is_(None),
        or_(jobs.c.open == 1, jobs.c.first_seen - jobs.c.submit_time <= SEEN_AT_ONCE_S),
        jobs.c.user_id.is_not(None), jobs.c.work_dir.is_not(None),
    )  # fmt: skip
    return [tuple(row) for row in connection.execute(query.order_by(jobs.c.row))]


def keep_inputs(connection: Connection, features: Mapping[int, Mapping[str, float | str]]) -> None:
    """Store the features of jobs' input files, by row."""
    _update_rows(connection, [(row, {"inputs": json.dumps(values)}) for row, values in features.items()])


def has_others_open(connection: Connection, cluster: str, user: str) -> bool:
    """Return whether a user other than `user` has an open job."""
    of_others = or_(jobs.c.user_id.is_(None), jobs.c.user_id != user)
    query = select(jobs.c.row).where(jobs.c.cluster == cluster, jobs.c.open == 1, of_others).limit(1)
    return connection.scalar(query) is not None


def mark_vanished(connection: Connection, rows: Sequence[int], since: float) -> None:
    """Record that the batch system no longer shows open jobs, and showed them last at `since` (epoch seconds)."""
    if rows:
        statement = _OF_ROW.where(jobs.c.vanished.is_(None)).values(vanished=since)
        connection.execute(statement, [{"row_": row} for row in rows])


def vanished_tasks(connection: Connection, cluster: str) -> Iterator[OpenJob]:
    """Yield the keys of array tasks that never started and have left the queue."""
    return (job for job in open_keys(connection, cluster, VANISHED, jobs.c.start_time.is_(None)) if "_" in job[1])


def give_up(connection: Connection, rows: Sequence[int], status: str = LOST) -> None:
    """Close jobs whose end is unknown: status `lost`, and as end time when they were last shown."""
    if rows:
        values = _OF_ROW.values(open=0, status=status, end_time=jobs.c.vanished)
        connection.execute(values, [{"row_": r} for r in rows])


LEVELS = (0.5, 0.9)


class Due(NamedTuple):
    """The finished jobs to delete: their number, their predictions, and first and last end time (epoch seconds)."""

    jobs: int
    forecasts: int
    first: float | None
    last: float | None


def due(connection: Connection, cluster: str, before: float) -> Due:
    """Count what `remove_some` would delete: jobs that ended before `before` and whose end the clock has delivered."""
    counted = select(func.count(), func.min(jobs.c.end_time), func.max(jobs.c.end_time)).where(_old(cluster, before))
    n, first, last = connection.execute(counted).one()
    of = select(func.count()).select_from(forecasts.join(jobs, forecasts.c.row == jobs.c.row))
    return Due(n, connection.scalar(of.where(_old(cluster, before))) or 0, first, last)


def remove_some(connection: Connection, cluster: str, before: float, most: int = 2000) -> int:
    """Add the predictions of at most `most` jobs that ended before `before` to stored sums, delete these jobs, the
    oldest first, and return their number, within the caller's transaction."""
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
    # Predictions refer to their job, so they are deleted first.
    connection.execute(forecasts.delete().where(forecasts.c.row.in_(rows)))
    connection.execute(jobs.delete().where(jobs.c.row.in_(rows)))
    connection.execute(plan_changes.delete().where(plan_changes.c.cluster == cluster, plan_changes.c.at < before))
    return len(rows)


def added(sums: Mapping[str, Mapping[str, float]], issued: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return sums to which predictions with their outcomes (`forecast_outcomes`) are added, by month (UTC), kind,
    moment and method."""
    # Each group has the number of predictions, the sums of errors and of absolute errors (seconds), and for each level
    # the number of upper bounds and of bounds that were not exceeded. Predictions that no finished job supported are
    # only counted.
    total = {name: dict(group) for name, group in sums.items()}
    for row in issued:
        figures = {"forecasts": 1.0}
        if row["outcome_s"] is not None and row["grounds"] != NOTHING:
            error = row["point_s"] - row["outcome_s"]
            figures |= {"came_out": 1.0, "sum_error_s": error, "sum_absolute_error_s": abs(error)}
            prediction = as_prediction(row)
            for level in LEVELS if prediction.levels else ():
                if (bound := given_waited(prediction, 0.0, (level,)).point) != math.inf:
                    held = float(is_covered(row["outcome_s"], bound))
                    figures |= {f"judged_{level * 100:g}": 1.0, f"held_{level * 100:g}": held}
        month = time.strftime("%Y-%m", time.gmtime(row["as_of"]))
        group = total.setdefault(f"{month} {row['kind']} {row['moment']} {row['method']}", {})
        for name, value in figures.items():
            group[name] = group.get(name, 0.0) + value
    return total


def _old(cluster: str, before: float) -> ColumnElement[bool]:
    """Return the SQL condition for finished jobs that ended before a time and whose end the clock has delivered."""
    # The clock must still deliver the end of a job before the job can be deleted.
    return and_(
        jobs.c.cluster == cluster, jobs.c.open == 0, jobs.c.end_time < before, jobs.c.told.op("&")(DELIVERED_GONE) != 0
    )


_LIFE = ("job_id", "submit_time", "eligible_time", "status", "restarts")
_COLUMNS = (*_LIFE, *(column.name for column in (*declared.REQUESTED, *declared.ALLOCATED, *declared.MEASURED)))


def to_trace(
    connection: Connection,
    cluster: str,
    since: float = -math.inf,
    until: float = math.inf,
    *,
    as_told: bool = False,
    user: str | None = None,
    waiting: bool = False,
) -> Trace:
    """Export a cluster's finished jobs, submitted in [since, until) (epoch seconds), as a log in log order."""
    # `as_told` uses the times that the clock delivered instead of the times that accounting reports now: a replay of
    # the delivered times gives the same predictions as the live clock. `waiting` includes waiting jobs with status
    # `pending`, no run time, and the wait until they were last seen.
    #
    # A job that left the queue without running has no run time and waits until it left. `queue_id` repeats the
    # partition. A note gives the number of jobs whose times accounting changed after the clock had delivered them. O(n
    # log n).
    query = select(*JOB_COLUMNS).where(
        jobs.c.cluster == cluster,
        *[jobs.c.submit_time >= since] * (since > -math.inf),
        *[jobs.c.submit_time < until] * (until < math.inf),
        *[jobs.c.user_id == user] * (user is not None),
    )
    rows = [dict(row) for row in connection.execute(query.order_by(jobs.c.submit_time, jobs.c.row)).mappings()]
    gone = [row for row in rows if row["told"] & DELIVERED_GONE]
    changed = sum((row["told_start"], row["told_end"]) != (row["start_time"], row["end_time"]) for row in gone)
    if as_told:
        for row in rows:
            row |= {"start_time": row["told_start"], "end_time": row["told_end"]}
            row |= {"open": not row["told"] & DELIVERED_GONE, "status": row["told_status"] or row["status"]}
    ended = [row for row in rows if not row["open"] and row["end_time"] is not None]
    memory = read_meta(connection, cluster)
    if waiting and (seen := memory.get("snapshot_at")) is not None:
        waits = [row for row in rows if row["open"] and row["start_time"] is None and row["submit_time"] < seen]
        ended += [{**row, "end_time": seen, "status": "pending"} for row in waits]
        ended.sort(key=lambda row: (row["submit_time"], row["row"]))
    columns: dict[str, Any] = {name: [row[name] for row in ended] for name in _COLUMNS}
    columns |= {name: _numbers(columns[name]) for name in _COLUMNS if declared.COLUMNS[name].kind == "number"}
    start, end = (np.array(_numbers(row[name] for row in ended)) for name in ("start_time", "end_time"))
    columns["wait_time"] = np.where(start == start, start, end) - columns["submit_time"]
    columns |= {"run_time": end - start, "queue_id": columns["partition_id"]}
    if all(text.isdigit() for text in columns["job_id"]):
        columns["job_id"] = [int(text) for text in columns["job_id"]]
    read = [features_of(row) for row in ended]
    further = sorted({name for one in read for name in one})
    columns |= {name: feature_column([one.get(name) for one in read]) for name in further}
    (total,) = _numbers([memory.get("total_procs")])
    info = LogInfo(f"store of {cluster}", "store", timezone_source="epoch seconds", max_procs=total)
    if changed:
        info = replace(info, notes=(f"{changed} jobs: accounting changed their times after predictors had used them",))
    trace = Trace.from_arrays(columns, info.with_dropped("still open at export", len(rows) - len(ended)))
    return trace.knowing(further)


def feature_column(values: Sequence[float | str | None]) -> Nominal | list[float]:
    """Return a feature of jobs as a column: text if one value is text, else numbers with NaN for unknown."""
    if any(isinstance(value, str) for value in values):
        return Nominal.encode([None if value is None else str(value) for value in values])
    return _numbers(values)


def _numbers(values: Iterable[Any]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]
