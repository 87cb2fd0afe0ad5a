# SPDX-License-Identifier: Apache-2.0
"""The tables: jobs, issued forecasts, what is known of each cluster; and the view of forecasts with outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)

from .. import columns as declared

metadata = MetaData()
_Row = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself only for INTEGER


def _columns(declared_ones: Iterable[declared.Column]) -> list[Column[Any]]:
    """The SQL columns of declared ones: a name is text, a number double precision."""
    return [Column(one.name, Float(53) if one.kind == "number" else Text()) for one in declared_ones]


meta = Table(
    "meta",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("row", _Row, primary_key=True, autoincrement=True),
    Column("cluster", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("raw_id", Text),
    Column("submit_time", Float(53), nullable=False),
    Column("restarts", Integer, nullable=False, server_default="0"),
    # As submitted: written once, at first sight, never changed again, since predictors were asked with it.
    *_columns(declared.ASKED),
    # As it goes.
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("dependency", Text),
    Column("reservation", Text),
    Column("licenses", Text),
    Column("priority", Float(53)),
    Column("limit_now", Float(53)),
    Column("eligible_time", Float(53)),
    Column("expected_start", Float(53)),
    Column("start_time", Float(53)),
    Column("end_time", Float(53)),
    Column("status", Text),
    *_columns(declared.HELD),
    *_columns(declared.MEASURED),
    Column("unmeasured", Text),  # why the memory used is unknown though steps ran
    # Bookkeeping: is it open; since when unseen while open; which of its events the clock told; when first seen.
    Column("open", Integer, nullable=False),
    Column("vanished", Float(53)),
    Column("told", Integer, nullable=False, server_default="0"),
    Column("first_seen", Float(53), nullable=False),
    # As the clock told it: stays when accounting corrects the times above later, so that it can be told again.
    Column("told_start", Float(53)),
    Column("told_end", Float(53)),
    Column("told_status", Text),
    UniqueConstraint("cluster", "job_id", "submit_time", "restarts", name="jobs_key"),
    Index("jobs_submit", "cluster", "submit_time"),
    Index("jobs_end", "cluster", "end_time"),
    Index("jobs_user", "cluster", "user_id", "end_time"),
    Index("jobs_raw", "raw_id", "cluster"),  # in this order: no question about a cluster alone may go by it
)
jobs_open = Index("jobs_open", jobs.c.cluster, sqlite_where=jobs.c.open == 1, postgresql_where=jobs.c.open == 1)
jobs_untold = Index("jobs_untold", jobs.c.cluster, sqlite_where=jobs.c.told < 4, postgresql_where=jobs.c.told < 4)

forecasts = Table(
    "forecasts",
    metadata,
    Column("id", _Row, primary_key=True, autoincrement=True),
    Column("row", _Row, ForeignKey("jobs.row"), nullable=False),
    Column("kind", Text, nullable=False),  # runtime, wait, limit: s; memory, request: KiB a node
    Column("moment", Text, nullable=False),  # submit; slurm: its estimate; waited_1h: by then; next: for the next
    Column("method", Text, nullable=False),
    Column("as_of", Float(53), nullable=False),
    Column("issued_at", Float(53), nullable=False),
    Column("point_s", Float(53), nullable=False),
    Column("levels", Text, nullable=False),
    Column("quantiles_s", Text, nullable=False),
    Column("basis", Text, nullable=False),  # words for people; what code asks is in `grounds`
    Column("grounds", Text),
    UniqueConstraint("row", "kind", "moment", "method", name="forecasts_key"),
)

renewed = Table(
    "renewed",
    metadata,
    Column("row", _Row, primary_key=True, autoincrement=False),  # of a job that waits
    Column("cluster", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("as_of", Float(53), nullable=False),
    Column("point_s", Float(53), nullable=False),
    Column("levels", Text, nullable=False),
    Column("quantiles_s", Text, nullable=False),
    Column("basis", Text, nullable=False),
    Column("grounds", Text, nullable=False),
    Column("why", Text),  # why it moved last, in the words of service.answers.start.moved
    Index("renewed_cluster", "cluster"),
)
"""The forecasts of the whole wait of those that wait, as of when the clock moved last: written anew each time, and
never scored; what is, stands in `forecasts`."""

moves = Table(
    "moves",
    metadata,
    Column("row", _Row, primary_key=True, autoincrement=False),  # of a job that waits
    Column("as_of", Float(53), primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("likely_start", Float(53), nullable=False),
    Column("by_90_start", Float(53)),
    Column("why", Text),
    Index("moves_cluster", "cluster"),
)
"""What those that wait were told first and whenever it had moved much since, and why; gone once they wait no more."""

planned = Table(
    "planned",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("job_id", Text, primary_key=True),
    Column("submit_time", Float(53), nullable=False),
    Column("user_limit", Float(53), nullable=False),
    Column("planned", Float(53), nullable=False),
    Column("state", Text, nullable=False),  # planning.State: how far the last change is known to have come
    Column("at", Float(53), nullable=False),
    Column("how", Text, nullable=False, server_default="limit"),  # planning.How: what `planned` is
)
"""The limits of open jobs that planning has changed: what the user's was, and what stands now as far as is known."""

plan_changes = Table(
    "plan_changes",
    metadata,
    Column("id", _Row, primary_key=True, autoincrement=True),
    Column("cluster", Text, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("job_id", Text, nullable=False),
    Column("submit_time", Float(53), nullable=False),
    Column("what", Text, nullable=False),  # a planning.State, refused, or forget
    Column("limit_from", Float(53), nullable=False),
    Column("limit_to", Float(53), nullable=False),
    Column("why", Text, nullable=False),
    Index("plan_changes_at", "cluster", "at"),
)
"""Every step of planning, in order: never changed, only added to."""

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("digest", Text, nullable=False),  # SHA-256, hexadecimal: the token itself is nowhere
    Column("created", Float(53), nullable=False),
    Column("expires", Float(53), nullable=False),
    Column("revoked", Float(53)),
)
"""What may ask for a user over HTTP, where the connection does not say who asks."""

FORECAST_OUTCOMES = """CREATE VIEW forecast_outcomes AS
SELECT f.id, f.row, f.kind, f.moment, f.method, f.as_of, f.issued_at, f.point_s, f.levels, f.quantiles_s,
  f.basis, f.grounds,
  CASE WHEN j.start_time IS NULL THEN NULL
       WHEN f.kind IN ('memory', 'request') THEN
         CASE WHEN j.status = 'out_of_memory' AND j.req_mem_kib > coalesce(j.used_mem_kib, 0) THEN j.req_mem_kib
              ELSE j.used_mem_kib END / CASE WHEN j.alloc_nodes > 1 THEN j.alloc_nodes ELSE 1 END
       WHEN f.kind = 'wait' THEN CASE WHEN j.start_time > j.submit_time THEN j.start_time - j.submit_time ELSE 0 END
       WHEN j.end_time IS NULL OR j.status = 'lost' THEN NULL
       WHEN j.end_time > j.start_time THEN j.end_time - j.start_time ELSE 0 END AS outcome_s,
  CASE WHEN j.start_time IS NOT NULL AND f.kind = 'wait' THEN 'started'
       WHEN j.end_time IS NULL THEN NULL
       WHEN j.status = 'lost' THEN 'lost'
       WHEN j.start_time IS NULL THEN 'withdrawn'
       WHEN f.kind IN ('memory', 'request') AND j.status = 'out_of_memory' THEN 'out_of_memory'
       ELSE 'ended' END AS resolution
FROM forecasts f JOIN jobs j ON j.row = f.row"""
"""Every forecast with what became of it: never written down, so that it follows what accounting corrects later.

`resolution`: started (waits), ended (run times), withdrawn, lost (nobody knows how it ended), NULL while open.
`outcome_s` is the actual wait or run in seconds, NULL where there is none; of memory the peak in KiB a node, where it
ran out (out_of_memory) what it needed at least: what it had asked for, or held when it was ended.
"""


OPEN_LAST = ("DROP INDEX jobs_open", "CREATE INDEX jobs_open ON jobs (cluster) WHERE open = 1")
"""Of indexes that it takes for equal SQLite goes by the one made last: that must be the one of the few open jobs."""


@event.listens_for(metadata, "after_create")
def _make_view(_: MetaData, connection: Connection, **__: Any) -> None:
    for words in (*OPEN_LAST, FORECAST_OUTCOMES):
        connection.execute(text(words))


forecast_outcomes = Table(
    "forecast_outcomes",
    MetaData(),  # a view: named here to be asked, made above
    *(Column(one.name, one.type) for one in forecasts.columns),
    Column("outcome_s", Float(53)),
    Column("resolution", Text),
)
