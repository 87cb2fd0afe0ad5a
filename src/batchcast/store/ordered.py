"""Factors that the order has set: written down before each is set, with every step in the audit of planning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, text

from . import clock_jobs
from .schema import plan_changes

RECORD = "plan_order"
"""The name of what the store remembers of a cluster's factors."""
STEP = "order"
"""What begins the `what` of a step of the order in the audit; its limits are factors."""


class Standing(NamedTuple):
    """What was asked for last of a record in slurmctld, and what of ours stood there before: one of them is there."""

    factor: int
    before: int


class Step(NamedTuple):
    """One line of the audit: which job, what was done, from which factor to which, why."""

    job_id: str
    submit_time: float
    what: str
    before: int
    after: int
    why: str


def read(connection: Connection, cluster: str) -> dict[str, Standing]:
    """What is known of each record, by its name."""
    kept: Mapping[str, Any] = clock_jobs.read_meta(connection, cluster).get(RECORD) or {}
    return {name: Standing(*pair) for name, pair in kept.items()}


def write(
    connection: Connection, cluster: str, record: Mapping[str, Standing], steps: Sequence[Step], at: float
) -> None:
    """The whole record as it stands from now on, and the steps that led there, in the caller's transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL synchronous_commit = on"))
    clock_jobs.write_meta(connection, cluster, **{RECORD: record or None})
    rows = [
        {
            "cluster": cluster, "at": at, "job_id": s.job_id, "submit_time": s.submit_time, "what": f"{STEP} {s.what}",
            "limit_from": float(s.before), "limit_to": float(s.after), "why": s.why,
        }
        for s in steps
    ]  # fmt: skip
    if rows:
        connection.execute(insert(plan_changes), rows)
