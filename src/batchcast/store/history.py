# SPDX-License-Identifier: Apache-2.0
"""What was seen of jobs, kept once each: key (cluster, job id, submit time, restarts within that submission).

The job id is the one Slurm displays (12_3 for an array task, 12+0 for a component): it names a task before Slurm has
split it off and given it a raw id; the raw id is kept beside it. A job id that wrapped round, and a requeued run, have
another submit time. Two runs of one submit second are told apart by `restarts`. What is older than a site keeps is let
go (`remove_some`): finished jobs and their forecasts, summed up before they go.

And that history as a Trace, for `evaluate` and `simulate` on a cluster's own past.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, insert, or_, select, tuple_, update

from batchcast import columns as declared

from ..columns import OUT_OF_MEMORY
from ..events.live import DELIVERED_GONE
from ..formats.sighting import Sighting
from ..predict.conditional import given_waited
from ..table import LogInfo, Trace
from .clock_jobs import KNOWN, read_meta, write_meta
from .rows import NOTHING, as_prediction
from .schema import forecast_outcomes as outcomes
from .schema import forecasts, jobs, plan_changes
from .sighted import (
    AGAIN,
    FOLLOWED,
    LOST,
    OUTCOME,
    another_run,
    certain_order,
    followed,
    matching,
    new_row,
    outcome,
)

_CHUNK = 400
TOLD = ("told_start", "told_end", "told_status")
_KEY = (jobs.c.job_id, jobs.c.submit_time)


@dataclass(slots=True)
class Taken:
    """What became of a batch of sightings. `late`: it changed what the clock had told already."""

    new: int = 0
    changed: int = 0
    same: int = 0
    late: int = 0
    contradicting: int = 0

    def __add__(self, other: Taken) -> Taken:
        return Taken(*(getattr(self, n) + getattr(other, n) for n in self.__slots__))


def take_in(connection: Connection, cluster: str, seen: Sequence[Sighting], at: float) -> Taken:
    """Insert what is new, bring up to date what is known; taking the same sightings in again changes nothing.

    Uncertain sightings (a job passing from one state to another) only prove that the job is there. O(n) round trips
    of 400 keys.
    """
    result = Taken()
    certain = certain_order(seen)
    for k in range(0, len(certain), _CHUNK):
        result += _take_chunk(connection, cluster, certain[k : k + _CHUNK], at)
    return result


def _take_chunk(connection: Connection, cluster: str, seen: Sequence[Sighting], at: float) -> Taken:
    known = _known(connection, cluster, {(s.job_id, s.submit_time) for s in seen})
    first = _first_requests(connection, cluster, [s for s in seen if (s.job_id, s.submit_time) not in known])
    result, inserts, updates = Taken(), [], []
    runs: dict[tuple[str, float], int] = {}
    for s in seen:
        key = (s.job_id, s.submit_time)
        nth = runs[key] = runs.get(key, -1) + 1
        rows = known.get(key, [])
        row = matching(rows, s, nth)
        if row is None:
            values = new_row(cluster, s, at, len(rows)) | first.get((s.job_id, s.submit_time), {}) | another_run(rows)
            inserts.append(values)
            known.setdefault(key, []).append({**values, "row": None, "told": 0})
            result.new += 1
            continue
        if row["row"] is None:
            continue
        if not row["open"] and s.is_open and row["status"] != LOST:
            result.contradicting += 1
            continue
        values = _changes(row, s)
        if not values:
            result.same += 1
            continue
        result.changed += 1
        result.late += int((row["told"] >= 4) and bool({"start_time", "end_time"} & set(values)))
        updates.append((row["row"], values))
        row.update(values)
    if inserts:
        connection.execute(insert(jobs), inserts)
    _update_rows(connection, updates)
    return result


def _known(
    connection: Connection, cluster: str, keys: set[tuple[str, float]]
) -> dict[tuple[str, float], list[dict[str, Any]]]:
    """The rows of these keys, oldest run first."""
    columns = [
        jobs.c.row,
        *_KEY,
        jobs.c.restarts,
        jobs.c.told,
        jobs.c.vanished,
        *(jobs.c[column.name] for column in declared.ASKED),
        *(jobs.c[n] for n in (*FOLLOWED, *OUTCOME)),
    ]
    query = select(*columns).where(jobs.c.cluster == cluster, tuple_(*_KEY).in_(list(keys))).order_by(jobs.c.restarts)
    known: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for row in connection.execute(query).mappings():
        known.setdefault((row["job_id"], row["submit_time"]), []).append(dict(row))
    return known


def _first_requests(
    connection: Connection, cluster: str, seen: Sequence[Sighting]
) -> dict[tuple[str, float], dict[str, Any]]:
    """What a requeued job asked for at its first submission, by the key of its new run: Slurm shows what was changed.

    The run before it ended in a way that is followed by another, or is believed to be in the system still.
    """
    earlier = select(jobs).where(jobs.c.cluster == cluster, jobs.c.job_id.in_({s.job_id for s in seen}))
    earlier = earlier.where(or_(jobs.c.open == 1, jobs.c.status.in_((*AGAIN, LOST)))).order_by(jobs.c.submit_time)
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for row in connection.execute(earlier).mappings() if seen else ():
        runs.setdefault(row["job_id"], []).append(dict(row))
    return {
        (s.job_id, s.submit_time): {column.name: before[-1][column.name] for column in declared.ASKED}
        for s in seen
        if (before := [row for row in runs.get(s.job_id, ()) if row["submit_time"] < s.submit_time])
    }


def _changes(row: dict[str, Any], s: Sighting) -> dict[str, Any]:
    """What differs: of an open job all that is followed, of a finished one its outcome; unknown overwrites nothing."""
    again = row["status"] == LOST and s.is_open  # given up, and there it is
    fresh = outcome(s) | (followed(s) if row["open"] or again else {})
    changed = {k: v for k, v in fresh.items() if row[k] != v and (v is not None or k in ("reason", "expected_start"))}
    if row["status"] == OUT_OF_MEMORY and changed.get("status") == "failed":
        del changed["status"]  # accounting measured why; the queue goes on showing the plain word
    if again:  # the clock heard that it was gone: it hears anew that it was submitted, and renews it like the others
        changed |= {"status": None, "end_time": None, "open": 1, **dict.fromkeys(TOLD), "told": 0}
    if row["vanished"] is not None and (s.is_open or changed):
        changed["vanished"] = None
    return changed


def _update_rows(connection: Connection, updates: Iterable[tuple[int, dict[str, Any]]]) -> None:
    """One statement for each set of columns that changed together."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row, values in updates:
        groups.setdefault(tuple(sorted(values)), []).append({"row_": row, **values})
    for names, rows in groups.items():
        statement = update(jobs).where(jobs.c.row == bindparam("row_")).values({n: bindparam(n) for n in names})
        connection.execute(statement, rows)


def open_keys(connection: Connection, cluster: str) -> Iterator[tuple[int, str, float, float | None]]:
    """Row, job id, submit time and `vanished` of every job believed to be in the system."""
    query = select(jobs.c.row, jobs.c.job_id, jobs.c.submit_time, jobs.c.vanished)
    for row in connection.execute(query.where(jobs.c.cluster == cluster, jobs.c.open == 1)):
        yield row[0], row[1], row[2], row[3]


def has_others_open(connection: Connection, cluster: str, user: str) -> bool:
    """Whether a job of anybody but `user` is believed to be in the system."""
    of_others = or_(jobs.c.user_id.is_(None), jobs.c.user_id != user)
    query = select(jobs.c.row).where(jobs.c.cluster == cluster, jobs.c.open == 1, of_others).limit(1)
    return connection.scalar(query) is not None


def mark_vanished(connection: Connection, rows: Sequence[int], since: float) -> None:
    """These open jobs are no longer shown; they were at `since`."""
    statement = update(jobs).where(jobs.c.row == bindparam("row_"), jobs.c.vanished.is_(None)).values(vanished=since)
    if rows:
        connection.execute(statement, [{"row_": row} for row in rows])


def vanished_tasks(connection: Connection, cluster: str) -> Iterator[tuple[int, str, float, float]]:
    """Row, job id, submit time and `vanished` of array tasks that are shown no more and never started."""
    query = select(jobs.c.row, jobs.c.job_id, jobs.c.submit_time, jobs.c.vanished).where(
        jobs.c.cluster == cluster, jobs.c.open == 1, jobs.c.vanished.is_not(None), jobs.c.start_time.is_(None)
    )
    for row in connection.execute(query):
        if "_" in row[1]:
            yield row[0], row[1], row[2], row[3]


def give_up(connection: Connection, rows: Sequence[int], status: str = LOST) -> None:
    """Nobody can say any more how these ended: they left when they were last seen, with this status."""
    statement = update(jobs).where(jobs.c.row == bindparam("row_"))
    if rows:
        values = statement.values(open=0, status=status, end_time=jobs.c.vanished)
        connection.execute(values, [{"row_": r} for r in rows])


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
    waiting: bool = False,
) -> Trace:
    """The finished jobs submitted in [since, until), epoch seconds, in log order; those still open are counted out.

    A job that left the queue without running has no run time and waits until it left: the recorded clock withdraws
    it then. `queue_id` repeats the partition. Times stay epoch seconds: the live clock's own. They are accounting's
    last word; a note counts the jobs it changed after the clock had told them. `as_told` gives the times the clock
    told: over those a recorded clock tells the same story and predictors say the same. With `user`, only
    that one's. With `waiting`, also the jobs that wait: status `pending`, no run time, and the wait until they were
    last seen, which is the least it will be. O(n log n).
    """
    query = select(*KNOWN).where(jobs.c.cluster == cluster)
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
    memory = read_meta(connection, cluster)
    if waiting and (seen := memory.get("snapshot_at")) is not None:
        waits = [row for row in rows if row["open"] and row["start_time"] is None and row["submit_time"] < seen]
        ended += [{**row, "end_time": seen, "status": "pending"} for row in waits]
        ended.sort(key=lambda row: (row["submit_time"], row["row"]))
    columns: dict[str, Any] = {name: [row[name] for row in ended] for name in _COLUMNS}
    columns["wait_time"] = [_or(row["start_time"], row["end_time"]) - row["submit_time"] for row in ended]
    columns["run_time"] = [row["end_time"] - _or(row["start_time"], math.nan) for row in ended]
    columns["queue_id"] = columns["partition_id"]
    columns["job_id"] = _ids(columns["job_id"])
    for name in _COLUMNS:
        if declared.COLUMNS[name].kind == "number":
            columns[name] = [math.nan if value is None else float(value) for value in columns[name]]
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
