# SPDX-License-Identifier: Apache-2.0
"""The tables of the store, and the view of issued predictions with their outcomes."""

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
from ..job import DELIVERED_GONE

metadata = MetaData()
_Row = BigInteger().with_variant(Integer, "sqlite")  # SQLite assigns row numbers only to INTEGER columns


def _columns(declared_ones: Iterable[declared.Column]) -> list[Column[Any]]:
    """Returns the SQL columns for declared columns: names are text, numbers are double precision."""
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
    # The request, written once when the job is first seen. The request never changes, because predictions were made
    # from it.
    *_columns(declared.ASKED),
    Column("inputs", Text),  # features of the job's input files as JSON, read once when the job was first seen
    # The current state, updated while the job is in the system.
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
    Column("unmeasured", Text),  # why the used memory is unknown although steps ran
    # Bookkeeping: whether the job is open, when an open job was last shown, which events the clock has delivered
    # (bits), and when the job was first seen.
    Column("open", Integer, nullable=False),
    Column("vanished", Float(53)),
    Column("told", Integer, nullable=False, server_default="0"),
    Column("first_seen", Float(53), nullable=False),
    # The times that the clock delivered. Delivered times stay if accounting later corrects the times above, so that a
    # restarted clock can replay the same events.
    Column("told_start", Float(53)),
    Column("told_end", Float(53)),
    Column("told_status", Text),
    UniqueConstraint("cluster", "job_id", "submit_time", "restarts", name="jobs_key"),
    Index("jobs_submit", "cluster", "submit_time"),
    Index("jobs_end", "cluster", "end_time"),
    Index("jobs_user", "cluster", "user_id", "end_time"),
    Index("jobs_raw", "raw_id", "cluster"),  # raw_id first, so that queries by cluster alone never use this index
)
jobs_open = Index("jobs_open", jobs.c.cluster, sqlite_where=jobs.c.open == 1, postgresql_where=jobs.c.open == 1)
jobs_untold = Index(
    "jobs_untold",
    jobs.c.cluster,
    sqlite_where=jobs.c.told < DELIVERED_GONE,
    postgresql_where=jobs.c.told < DELIVERED_GONE,
)

forecasts = Table(
    "forecasts",
    metadata,
    Column("id", _Row, primary_key=True, autoincrement=True),
    Column("row", _Row, ForeignKey("jobs.row"), nullable=False),
    Column("kind", Text, nullable=False),  # runtime, wait, limit (seconds); memory, request (KiB per node)
    # When the prediction was made: submit; slurm (when Slurm first estimated a start); waited_1h; next (for the
    # user's next job).
    Column("moment", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("as_of", Float(53), nullable=False),
    Column("issued_at", Float(53), nullable=False),
    Column("point_s", Float(53), nullable=False),
    Column("levels", Text, nullable=False),
    Column("quantiles_s", Text, nullable=False),
    Column("basis", Text, nullable=False),  # a text for people; code reads `grounds`
    Column("grounds", Text),
    UniqueConstraint("row", "kind", "moment", "method", name="forecasts_key"),
)

renewed = Table(
    "renewed",
    metadata,
    Column("row", _Row, primary_key=True, autoincrement=False),  # row of a waiting job
    Column("cluster", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("as_of", Float(53), nullable=False),
    Column("point_s", Float(53), nullable=False),
    Column("levels", Text, nullable=False),
    Column("quantiles_s", Text, nullable=False),
    Column("basis", Text, nullable=False),
    Column("grounds", Text, nullable=False),
    Column("why", Text),  # why the predicted start moved last, in the form that service.answers.start.moved reads
    Index("renewed_cluster", "cluster"),
)
"""The current predictions for waiting jobs, of the whole wait since submission. They are rewritten at each step of the
clock and never scored; the table `forecasts` has the predictions that are scored.
"""

moves = Table(
    "moves",
    metadata,
    Column("row", _Row, primary_key=True, autoincrement=False),  # row of a waiting job
    Column("as_of", Float(53), primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("likely_start", Float(53), nullable=False),
    Column("by_90_start", Float(53)),
    Column("why", Text),
    Index("moves_cluster", "cluster"),
)
"""The start times that users were shown for waiting jobs: the first start time, and each start time that differed much
from the previous one, with the reason. Rows are deleted when the job no longer waits.
"""

planned = Table(
    "planned",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("job_id", Text, primary_key=True),
    Column("submit_time", Float(53), nullable=False),
    Column("user_limit", Float(53), nullable=False),
    Column("planned", Float(53), nullable=False),
    Column("state", Text, nullable=False),  # a planning.State: the progress of the last change
    Column("at", Float(53), nullable=False),
    Column("how", Text, nullable=False, server_default="limit"),  # a planning.How: the meaning of `planned`
)
"""The open jobs whose limits planning has changed: the user's limit, and the current one as far as it is known."""

plan_changes = Table(
    "plan_changes",
    metadata,
    Column("id", _Row, primary_key=True, autoincrement=True),
    Column("cluster", Text, nullable=False),
    Column("at", Float(53), nullable=False),
    Column("job_id", Text, nullable=False),
    Column("submit_time", Float(53), nullable=False),
    Column("what", Text, nullable=False),  # a planning.State, `refused`, or `forget`
    Column("limit_from", Float(53), nullable=False),
    Column("limit_to", Float(53), nullable=False),
    Column("why", Text, nullable=False),
    Index("plan_changes_at", "cluster", "at"),
)
"""The audit log of planning. Rows are only added, never changed."""

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("digest", Text, nullable=False),  # SHA-256 in hexadecimal; the token itself is not stored
    Column("created", Float(53), nullable=False),
    Column("expires", Float(53), nullable=False),
    Column("revoked", Float(53)),
)
"""Bearer tokens, which identify a user over HTTP if the connection itself does not."""

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
"""Every prediction with its outcome. It is a view, so that later corrections by accounting change the outcome.

`resolution`: started (waits), ended (run times), withdrawn, lost (the end is unknown), NULL while the job is open.
`outcome_s` is the actual wait or run time in seconds, NULL if there is none. For memory it is the peak in KiB per node;
if the job ran out of memory (out_of_memory), it is the least that the job needed: its request, or its peak if larger.
"""


OPEN_LAST = ("DROP INDEX jobs_open", "CREATE INDEX jobs_open ON jobs (cluster) WHERE open = 1")
"""Among indexes that it considers equal, SQLite uses the newest. This must be the index of the open jobs, which are
few.
"""


@event.listens_for(metadata, "after_create")
def _make_view(_: MetaData, connection: Connection, **__: Any) -> None:
    """Creates the index `jobs_open` last, and the view, after all tables."""
    for words in (*OPEN_LAST, FORECAST_OUTCOMES):
        connection.execute(text(words))


forecast_outcomes = Table(
    "forecast_outcomes",
    MetaData(),  # separate metadata, so that create_all() does not create the view as a table
    *(Column(one.name, one.type) for one in forecasts.columns),
    Column("outcome_s", Float(53)),
    Column("resolution", Text),
)
