# SPDX-License-Identifier: Apache-2.0
"""The tables of the store, and the view of issued predictions with their outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import BigInteger, Connection, Float, Integer, Text, event, text
from sqlalchemy.schema import Column, ForeignKey, Index, MetaData, Table, UniqueConstraint

from .. import columns as declared
from ..job import DELIVERED_GONE

metadata = MetaData()
_Row = BigInteger().with_variant(Integer, "sqlite")  # SQLite assigns row numbers only to INTEGER columns
_Number = Float(53)  # double precision


def _columns(kind: Any, names: str, **options: Any) -> list[Column[Any]]:
    """Return SQL columns of one type."""
    return [Column(name, kind, **options) for name in names.split()]


def _declared(ones: Iterable[declared.Column]) -> list[Column[Any]]:
    """Return the SQL columns for declared columns: names are text, numbers are double precision."""
    return [Column(one.name, _Number if one.kind == "number" else Text) for one in ones]


meta = Table("meta", metadata, *_columns(Text, "cluster name", primary_key=True), Column("value", Text, nullable=False))

jobs = Table(
    "jobs",
    metadata,
    Column("row", _Row, primary_key=True, autoincrement=True),
    *_columns(Text, "cluster job_id", nullable=False),
    Column("raw_id", Text),
    Column("submit_time", _Number, nullable=False),
    Column("restarts", Integer, nullable=False, server_default="0"),
    # The request, written once when the job is first seen. The request never changes, because predictions were made
    # from it.
    *_declared(declared.REQUESTED),
    Column("inputs", Text),  # features of the job's input files as JSON, read once when the job was first seen
    # The current state, updated while the job is in the system.
    Column("state", Text, nullable=False),
    *_columns(Text, "reason dependency reservation licenses"),
    *_columns(_Number, "priority limit_now eligible_time expected_start start_time end_time"),
    Column("status", Text),
    *_declared((*declared.ALLOCATED, *declared.MEASURED)),
    Column("unmeasured", Text),  # why the used memory is unknown although steps ran
    # Bookkeeping: whether the job is open, when an open job was last shown, which events the clock has delivered
    # (bits), and when the job was first seen.
    Column("open", Integer, nullable=False),
    Column("vanished", _Number),
    Column("told", Integer, nullable=False, server_default="0"),
    Column("first_seen", _Number, nullable=False),
    # The times that the clock delivered. Delivered times stay if accounting later corrects the times above, so that a
    # restarted clock can replay the same events.
    *_columns(_Number, "told_start told_end"),
    Column("told_status", Text),
    UniqueConstraint("cluster", "job_id", "submit_time", "restarts", name="jobs_key"),
    Index("jobs_submit", "cluster", "submit_time"),
    Index("jobs_end", "cluster", "end_time"),
    Index("jobs_user", "cluster", "user_id", "end_time"),
    Index("jobs_raw", "raw_id", "cluster"),  # raw_id first, so that queries by cluster alone never use this index
)
for _name, _which in (("jobs_open", jobs.c.open == 1), ("jobs_untold", jobs.c.told < DELIVERED_GONE)):
    Index(_name, jobs.c.cluster, sqlite_where=_which, postgresql_where=_which)

forecasts = Table(
    "forecasts",
    metadata,
    Column("id", _Row, primary_key=True, autoincrement=True),
    Column("row", _Row, ForeignKey("jobs.row"), nullable=False),
    # `kind`: runtime, wait, limit (seconds); memory, request (KiB per node). `moment`: when the prediction was made:
    # submit; slurm (when Slurm first estimated a start); waited_1h; next (for the user's next job).
    *_columns(Text, "kind moment method", nullable=False),
    *_columns(_Number, "as_of issued_at point_s", nullable=False),
    *_columns(Text, "levels quantiles_s basis", nullable=False),  # `basis`: a text for people; code reads `grounds`
    Column("grounds", Text),
    UniqueConstraint("row", "kind", "moment", "method", name="forecasts_key"),
)

renewed = Table(
    "renewed",
    metadata,
    Column("row", _Row, primary_key=True, autoincrement=False),  # row of a waiting job
    *_columns(Text, "cluster method", nullable=False),
    *_columns(_Number, "as_of point_s", nullable=False),
    *_columns(Text, "levels quantiles_s basis grounds", nullable=False),
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
    Column("as_of", _Number, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("likely_start", _Number, nullable=False),
    Column("by_90_start", _Number),
    Column("why", Text),
    Index("moves_cluster", "cluster"),
)
"""The start times that users were shown for waiting jobs: the first start time, and each start time that differed much
from the previous one, with the reason. Rows are deleted when the job no longer waits.
"""

planned = Table(
    "planned",
    metadata,
    *_columns(Text, "cluster job_id", primary_key=True),
    *_columns(_Number, "submit_time user_limit planned", nullable=False),
    Column("state", Text, nullable=False),  # a planning.State: the progress of the last change
    Column("at", _Number, nullable=False),
    Column("how", Text, nullable=False, server_default="limit"),  # a planning.How: the meaning of `planned`
)
"""The open jobs whose limits planning has changed: the user's limit, and the current one as far as it is known."""

plan_changes = Table(
    "plan_changes",
    metadata,
    Column("id", _Row, primary_key=True, autoincrement=True),
    *_columns(Text, "cluster job_id what why", nullable=False),  # `what`: a planning.State, `refused`, or `forget`
    *_columns(_Number, "at submit_time limit_from limit_to", nullable=False),
    Index("plan_changes_at", "cluster", "at"),
)
"""The audit log of planning. Rows are only added, never changed."""

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    *_columns(Text, "user_id label digest", nullable=False),  # the digest is SHA-256 in hexadecimal
    *_columns(_Number, "created expires", nullable=False),
    Column("revoked", _Number),
)
"""Bearer tokens, which identify a user over HTTP if the connection itself does not. The token itself is not stored."""

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
    """Create the index `jobs_open` last, and the view, after all tables."""
    for words in (*OPEN_LAST, FORECAST_OUTCOMES):
        connection.execute(text(words))


forecast_outcomes = Table(
    "forecast_outcomes",
    MetaData(),  # separate metadata, so that create_all() does not create the view as a table
    *(Column(one.name, one.type) for one in forecasts.columns),
    Column("outcome_s", Float(53)),
    Column("resolution", Text),
)
