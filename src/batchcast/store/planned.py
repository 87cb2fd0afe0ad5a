# SPDX-License-Identifier: Apache-2.0
"""Stores what planning changes in Slurm: each change is stored before it is made. Entries of the audit log are never
deleted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, exists, func, or_, select, text

from ..planning.order import kind_of
from ..planning.record import ORDER_RECORD, Entry, How, State
from .clock_jobs import MOST_ROWS, pieces, write_meta
from .schema import forecast_outcomes as outcomes
from .schema import forecasts, jobs, plan_changes, planned
from .statements import TEXTS

SWITCH = "plan_off"
"""Name of the stored value that `plan --off` sets for a cluster."""
OTHER_PLANNERS = "plan_others"
"""Name of the stored value about jobs that another installation of batchcast plans."""


def entries(connection: Connection, cluster: str) -> dict[str, Entry]:
    """Return the entries of all planned jobs, by job id."""
    rows = connection.execute(text(TEXTS["planned"]), {"cluster": cluster}).mappings()
    stored = (Entry(**row) for row in rows)
    return {entry.job_id: entry._replace(state=State(entry.state), how=How(entry.how)) for entry in stored}


def write(connection: Connection, cluster: str, changes: Sequence[tuple[Entry, float, float, str]]) -> None:
    """Store entries, and add their changes (entry, old and new limit in seconds, reason) to the audit log, within the
    caller's transaction."""
    _be_on_disk(connection)
    for entry, *_ in changes:
        _remove(connection, cluster, [entry.job_id])
        values = {**entry._asdict(), "state": str(entry.state), "how": str(entry.how)}
        connection.execute(planned.insert().values(cluster=cluster, **values))
    _audit(connection, cluster, [_step(entry, str(entry.state), old, new, why) for entry, old, new, why in changes])


def _be_on_disk(connection: Connection) -> None:
    """Make the commit of this transaction wait until the data is on the disk. SQLite always waits for the disk;
    PostgreSQL needs a setting."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL synchronous_commit = on"))


def refuse(connection: Connection, cluster: str, changes: Sequence[tuple[Entry, float, float, str]]) -> None:
    """Record in the audit log that changes had no effect. The entries of the jobs are not changed."""
    _audit(connection, cluster, [_step(entry, "refused", old, new, why) for entry, old, new, why in changes])


def forget(connection: Connection, cluster: str, gone: Sequence[tuple[Entry, str]]) -> None:
    """Delete the entries of jobs that need no planning any more. The audit log keeps the last state of these jobs."""
    _remove(connection, cluster, [entry.job_id for entry, _ in gone])
    _audit(connection, cluster, [_step(e, "forget", e.planned, e.user_limit, why) for e, why in gone])


def closed(connection: Connection, cluster: str) -> Iterator[str]:
    """Yield the ids of entries whose job has ended, if no later run of the job is open."""
    run = (jobs.c.cluster == planned.c.cluster, jobs.c.job_id == planned.c.job_id)
    is_open = exists(select(jobs.c.row).where(*run, jobs.c.open == 1))
    known = exists(select(jobs.c.row).where(*run))
    yield from connection.scalars(select(planned.c.job_id).where(planned.c.cluster == cluster, known, ~is_open))


def run_forecasts(connection: Connection, cluster: str, method: str) -> dict[tuple[str, float], Mapping[str, Any]]:
    """Return the run-time prediction of each waiting job by id and submit time, with user, name and command."""
    query = select(jobs.c.job_id, jobs.c.submit_time, *_KIND, *_FORECAST).join(forecasts, _issued_by(method))
    query = query.where(jobs.c.cluster == cluster, jobs.c.open == 1, jobs.c.start_time.is_(None))
    return {(row["job_id"], row["submit_time"]): dict(row) for row in connection.execute(query).mappings()}


_KIND = (jobs.c.user_id, jobs.c.job_name, jobs.c.app_id)
_NAMES = ("point_s", "levels", "quantiles_s", "basis", "grounds")
_FORECAST = [forecasts.c[name] for name in _NAMES]


def _issued_by(method: str) -> ColumnElement[bool]:
    """Return the condition that joins a job with the run-time prediction by a method at its submission."""
    of = forecasts.c.kind == "runtime", forecasts.c.moment == "submit", forecasts.c.method == method
    return and_(forecasts.c.row == jobs.c.row, *of)


def ended_kinds(connection: Connection, cluster: str, users: Sequence[str]) -> dict[str, set[tuple[Hashable, ...]]]:
    """Return for each user the kinds (`kind_of`) of the jobs that have run and ended."""
    kinds: dict[str, set[tuple[Hashable, ...]]] = {user: set() for user in users}
    for some in pieces(users):
        query = select(*_KIND).distinct().where(jobs.c.cluster == cluster, jobs.c.user_id.in_(some))
        ended = query.where(jobs.c.end_time.is_not(None), jobs.c.start_time.is_not(None))
        for user, name, command in connection.execute(ended):
            kinds[user].add(kind_of(user, name, command))
    return kinds


def run_outcomes(connection: Connection, cluster: str, method: str, since: float) -> list[Mapping[str, Any]]:
    """Return the latest 400 run-time predictions whose jobs have ended, with the actual run time `outcome_s`."""
    query = (
        select(*(outcomes.c[name] for name in (*_NAMES, "outcome_s")))
        .join(jobs, jobs.c.row == outcomes.c.row)
        .where(jobs.c.cluster == cluster, outcomes.c.kind == "runtime", outcomes.c.moment == "submit")
        .where(outcomes.c.method == method, outcomes.c.as_of >= since, outcomes.c.resolution == "ended")
        .order_by(outcomes.c.id.desc())
        .limit(MOST_ROWS)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def started_jobs(
    connection: Connection, cluster: str, method: str, users: Sequence[str], since: float, now: float
) -> list[Mapping[str, Any]]:
    """Return the jobs of these users that run or ended after `since`, with their run-time predictions at submission."""
    # If there are very many jobs, only the jobs with the longest run times are returned, so that short jobs do not
    # displace long jobs. `elapsed_s` of a running job counts until `now`.
    rows: list[Mapping[str, Any]] = []
    elapsed = func.coalesce(jobs.c.end_time, now) - jobs.c.start_time
    procs = func.coalesce(jobs.c.alloc_procs, jobs.c.req_procs).label("procs")
    recent = or_(jobs.c.end_time >= since, (jobs.c.open == 1) & jobs.c.end_time.is_(None))
    for some in pieces(users):
        which = jobs.c.cluster == cluster, jobs.c.user_id.in_(some), elapsed > 0
        query = select(jobs.c.user_id, procs, jobs.c.req_time, elapsed.label("elapsed_s"), *_FORECAST)
        query = query.outerjoin(forecasts, _issued_by(method)).where(*which, recent)
        rows += map(dict, connection.execute(query.order_by(elapsed.desc()).limit(MOST_STARTED)).mappings())
    return rows


MOST_STARTED = 10_000
"""Largest number of jobs that `started_jobs` returns for 400 users."""


def _remove(connection: Connection, cluster: str, job_ids: Sequence[str]) -> None:
    for some in pieces(job_ids):
        connection.execute(planned.delete().where(planned.c.cluster == cluster, planned.c.job_id.in_(some)))


def _step(entry: Entry, what: str, before: float, after: float, why: str) -> tuple[float, Step]:
    """Return a step for the audit log, with its time."""
    return entry.at, Step(entry.job_id, entry.submit_time, what, before, after, why)


def _audit(connection: Connection, cluster: str, steps: Sequence[tuple[float, Step]]) -> None:
    """Add steps to the audit log."""
    if steps:
        rows = [{"cluster": cluster, "at": at, **step._asdict()} for at, step in steps]
        connection.execute(plan_changes.insert(), rows)


# -- the order

STEP = "order"
"""Prefix of `what` for changes of the queue order in the audit log. Their limits are priority factors."""


class Standing(NamedTuple):
    """The SiteFactor that was requested last for a job record of slurmctld, and the factor before it. One of the two
    factors is in effect.

    `is_read_back` says that the restored factor 0 was read from slurmctld.
    """

    factor: int
    before: int
    is_read_back: bool = False


class Step(NamedTuple):
    """One line of the audit log: the job, the action, the limit or factor before and after it, and the reason."""

    job_id: str
    submit_time: float
    what: str
    limit_from: float
    limit_to: float
    why: str


def order_of(values: Mapping[str, Any]) -> dict[str, Standing]:
    """Return the factors of each job record, by its raw id, from the stored values of a cluster."""
    return {name: Standing(*pair) for name, pair in (values.get(ORDER_RECORD) or {}).items()}


def write_order(
    connection: Connection, cluster: str, record: Mapping[str, Standing], steps: Sequence[Step], now: float
) -> None:
    """Store the factors of all job records, and add the steps to the audit log, within the caller's transaction."""
    _be_on_disk(connection)
    write_meta(connection, cluster, **{ORDER_RECORD: record or None})
    _audit(connection, cluster, [(now, step._replace(what=f"{STEP} {step.what}")) for step in steps])
