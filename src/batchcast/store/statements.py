# SPDX-License-Identifier: Apache-2.0
"""Every question that answers ask of a store, as SQLAlchemy Core statements by name.

An answer must not cost the import of SQLAlchemy (half a second of CPU), so `compile.py` writes these down as text in
`compiled.py`, which is what `Reader` runs; a test holds the two equal. The collector runs some of them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Float,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    func,
    or_,
    select,
    union_all,
)

from .. import columns as declared
from .rows import FIELDS
from .schema import forecast_outcomes as outcomes
from .schema import forecasts, jobs, meta, moves, plan_changes, planned, renewed, tokens

ENDED_BY_ITSELF = ("completed", "failed", "timeout", "out_of_memory")
TOLD_GONE = 4
_KINDS: dict[str, Any] = {"since": Float(53), "until": Float(53), "most": Integer()}


def _(name: str) -> BindParameter[Any]:
    """A value given when the question is asked."""
    return bindparam(name, type_=_KINDS.get(name, Text()))


def _if_given(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """Equal to the value, where one is given."""
    return or_(cast(_(name), Text).is_(None), column == _(name))


_HERE = jobs.c.cluster == _("cluster")
_ASKED = [jobs.c[column.name] for column in declared.ASKED]
_HELD = [jobs.c[column.name] for column in (*declared.HELD, *declared.MEASURED)]
_LIFE = [
    jobs.c[name]
    for name in (
        "row", "job_id", "submit_time", "restarts", "eligible_time", "start_time", "end_time", "status", "open", "told",
        "told_start", "told_end", "told_status",
    )
]  # fmt: skip
JOB = [*_LIFE, *_ASKED, *_HELD]
"""What is known of a job: its life, and every declared column."""
_SAID = [forecasts.c[name] for name in ("point_s", "levels", "quantiles_s", "basis", "grounds")]
"""What a forecast said."""
_AT_SUBMISSION = and_(
    forecasts.c.row == jobs.c.row,
    forecasts.c.kind == "wait",
    forecasts.c.moment == "submit",
    forecasts.c.method == _("method"),
)


_PLANNED = and_(planned.c.cluster == jobs.c.cluster, planned.c.job_id == jobs.c.job_id, planned.c.state != "foreign")
_USERS = select(planned.c.user_limit).where(_PLANNED, planned.c.planned == jobs.c.limit_now).scalar_subquery()
LIMIT_NOW = func.coalesce(_USERS, jobs.c.limit_now).label("limit_now")
"""The limit that ends a job, as its user or an operator set it last: never one that Slurm only plans with."""


def clock_jobs() -> Select[Any]:
    """Every job a live clock has heard of, or will have by `until`, if still there at `since`; by submission."""
    return (
        select(*JOB)
        .where(
            _HERE,
            or_(jobs.c.told > 0, jobs.c.submit_time <= _("until")),
            or_(jobs.c.told < TOLD_GONE, jobs.c.told_end >= _("since")),
        )
        .order_by(jobs.c.submit_time)
    )


def _used(*more: Any) -> Select[Any]:
    """What figures over many jobs are made of, and no column more: of a user, an account, a partition."""
    return select(
        jobs.c.user_id, jobs.c.account, jobs.c.partition_id, jobs.c.job_name, jobs.c.submit_time, jobs.c.start_time,
        jobs.c.end_time, jobs.c.status, jobs.c.req_time, jobs.c.req_procs, jobs.c.alloc_procs, *more,
    ).where(
        _HERE,
        _if_given(jobs.c.user_id, "user"),
        _if_given(jobs.c.account, "account"),
        _if_given(jobs.c.partition_id, "partition"),
    )  # fmt: skip


def _issued(*kinds: str, more: Sequence[Any]) -> Select[Any]:
    """The forecasts of some kinds with what came of them, as of a span, with more columns of their jobs."""
    return (
        select(outcomes, jobs.c.user_id, *more)
        .select_from(outcomes.join(jobs, jobs.c.row == outcomes.c.row))
        .where(
            _HERE,
            or_(*(outcomes.c.kind == kind for kind in kinds)),
            outcomes.c.as_of >= _("since"),
            outcomes.c.as_of < _("until"),
            _if_given(jobs.c.partition_id, "partition"),
        )
    )


def _known_as(name: str) -> Any:
    """The rows of a job by either of its ids, each found by an index: one condition with OR goes over all jobs."""
    named = [select(jobs.c.row).where(_HERE, column == _(name)) for column in (jobs.c.job_id, jobs.c.raw_id)]
    return union_all(*named)


# jobs with the run time that one method told at their submission, where it did
_WITH_RUNTIME = jobs.outerjoin(
    forecasts,
    and_(
        forecasts.c.row == jobs.c.row,
        forecasts.c.kind == "runtime",
        forecasts.c.moment == "submit",
        forecasts.c.method == _("method"),
    ),
)

STATEMENTS: dict[str, Select[*tuple[Any, ...]]] = {
    "memory": select(meta.c.name, meta.c.value).where(meta.c.cluster == _("cluster")),
    "clusters": select(meta.c.cluster).distinct().where(meta.c.cluster != "").order_by(meta.c.cluster),
    "schema_version": select(meta.c.value).where(meta.c.cluster == "", meta.c.name == "schema_version"),
    "waiting": select(
        *JOB, jobs.c.expected_start, jobs.c.reservation, jobs.c.licenses,
        jobs.c.reason, jobs.c.dependency, LIMIT_NOW, forecasts.c.method, *_SAID, forecasts.c.as_of,
        *(renewed.c[name].label(f"renewed_{name}") for name in (*FIELDS, "why")),
    )
    .select_from(
        jobs.outerjoin(forecasts, _AT_SUBMISSION).outerjoin(
            renewed, and_(renewed.c.row == jobs.c.row, renewed.c.method == _("method"))
        )
    )
    .where(
        _HERE,
        jobs.c.open == 1,
        jobs.c.start_time.is_(None),
        _if_given(jobs.c.user_id, "user"),
        or_(_if_given(jobs.c.job_id, "job_id"), jobs.c.job_id.like(_("tasks"), escape="!")),
    )
    .order_by(jobs.c.submit_time + 0, jobs.c.row),  # + 0: SQLite must go by what is open, not over all submissions
    "moves": select(moves.c.row, moves.c.as_of, moves.c.likely_start, moves.c.by_90_start)
    .select_from(moves.join(jobs, jobs.c.row == moves.c.row))
    .where(moves.c.cluster == _("cluster"), _if_given(jobs.c.user_id, "user"))
    .order_by(moves.c.as_of),
    "open_with": select(
        *JOB, jobs.c.reason, jobs.c.licenses, LIMIT_NOW, func.min(forecasts.c.point_s).label("run_point_s")
    )
    .select_from(
        jobs.outerjoin(
            forecasts,
            and_(forecasts.c.row == jobs.c.row, forecasts.c.kind == "runtime", forecasts.c.moment == "submit"),
        )
    )
    .where(
        _HERE,
        jobs.c.open == 1,
        _if_given(jobs.c.user_id, "user"),
        _if_given(jobs.c.account, "account"),
        _if_given(jobs.c.qos, "qos"),
        or_(cast(_("tasks"), Text).is_(None), jobs.c.job_id.like(_("tasks"), escape="!")),
        or_(cast(_("license"), Text).is_(None), jobs.c.licenses.like(_("license"), escape="!")),
    )
    .group_by(jobs.c.row)
    .order_by(jobs.c.submit_time, jobs.c.row),
    "started_forecasts": select(
        outcomes.c.point_s, outcomes.c.levels, outcomes.c.quantiles_s, outcomes.c.grounds, outcomes.c.outcome_s,
        outcomes.c.as_of,
        jobs.c.user_id,
    )
    .select_from(outcomes.join(jobs, jobs.c.row == outcomes.c.row))
    .where(
        _HERE,
        outcomes.c.kind == "wait",
        outcomes.c.moment == "submit",
        outcomes.c.resolution == "started",
        outcomes.c.method == _("method"),
        outcomes.c.grounds != _("nothing"),
        outcomes.c.as_of >= _("since"),
        _if_given(jobs.c.partition_id, "partition"),
    )
    .order_by(jobs.c.submit_time.desc(), outcomes.c.id.desc())  # by an index: the latest, without all the others
    .limit(_("most")),
    "late_forecasts": select(
        forecasts.c.point_s, forecasts.c.levels, forecasts.c.quantiles_s, forecasts.c.grounds,
        (_("until") - jobs.c.submit_time).label("outcome_s"), jobs.c.reason,
    )
    .select_from(forecasts.join(jobs, _AT_SUBMISSION))
    .where(
        _HERE,
        jobs.c.open == 1,
        jobs.c.start_time.is_(None),
        forecasts.c.grounds != _("nothing"),
        forecasts.c.as_of >= _("since"),
        _("until") - jobs.c.submit_time > forecasts.c.point_s,
        _if_given(jobs.c.partition_id, "partition"),
    )
    .order_by(forecasts.c.id)
    .limit(_("most")),
    "latest_run": select(*JOB, jobs.c.state)
    .where(
        jobs.c.row.in_(_known_as("job_id")),
        or_(jobs.c.start_time.is_not(None), jobs.c.open == 0),
    )
    .order_by(jobs.c.submit_time.desc(), jobs.c.row.desc())
    .limit(1),
    "has_started": select(jobs.c.row).where(_HERE, jobs.c.start_time.is_not(None)).limit(1),
    "latest": select(*JOB)
    .where(jobs.c.row.in_(_known_as("job_id")))
    .order_by(jobs.c.submit_time.desc(), jobs.c.row.desc())
    .limit(1),
    "latest_of": select(*JOB)
    .where(_HERE, jobs.c.user_id == _("user"), _if_given(jobs.c.partition_id, "partition"))
    .order_by((jobs.c.submit_time + 0).desc(), jobs.c.row.desc())
    .limit(1),
    "qos_of": select(jobs.c.partition_id, jobs.c.qos)
    .distinct()
    .where(_HERE, jobs.c.user_id == _("user"), (jobs.c.submit_time + 0) >= _("since"), jobs.c.qos.is_not(None))
    .order_by(jobs.c.partition_id, jobs.c.qos),
    "issued": _issued("runtime", "wait", more=[jobs.c.start_time, jobs.c.partition_id, jobs.c.req_procs]),
    "issued_memory": _issued("memory", "request", more=[jobs.c.req_mem_kib, jobs.c.req_nodes]).where(
        outcomes.c.moment == "submit"
    ),
    "issued_limits": _issued("limit", more=[jobs.c.req_time, jobs.c.req_procs, jobs.c.status]).where(
        outcomes.c.moment == "submit"
    ),
    "measured": select(
        func.count().label("ended"),
        func.count(jobs.c.used_mem_kib).label("measured"),
        func.count().filter(jobs.c.unmeasured == "zero").label("zero"),
        func.count().filter(jobs.c.unmeasured == "bad").label("bad"),
        func.count().filter(jobs.c.status == "out_of_memory").label("ran_out"),
        func.count()
        .filter(jobs.c.used_mem_kib.between(jobs.c.req_mem_kib * 0.999, jobs.c.req_mem_kib * 1.001))
        .label("copied"),
    ).where(_HERE, jobs.c.end_time >= _("since"), jobs.c.start_time.is_not(None), jobs.c.open == 0),
    "ran_by_itself": _used(jobs.c.job_id, jobs.c.used_mem_kib, jobs.c.alloc_nodes, jobs.c.req_mem_kib, jobs.c.req_nodes)
    .where(jobs.c.end_time >= _("since"), jobs.c.end_time < _("until"), jobs.c.open == 0)
    .where(jobs.c.start_time.is_not(None), or_(*(jobs.c.status == word for word in ENDED_BY_ITSELF)))
    .order_by(jobs.c.end_time.desc())
    .limit(_("most")),
    "clock_jobs": clock_jobs(),
    "running_now": select(
        *JOB, LIMIT_NOW, jobs.c.state, forecasts.c.method, *_SAID,
    )
    .select_from(_WITH_RUNTIME)
    .where(_HERE, jobs.c.open == 1, jobs.c.start_time.is_not(None), _if_given(jobs.c.user_id, "user"))
    .order_by(jobs.c.start_time, jobs.c.row),
    "used": _used().where(jobs.c.end_time >= _("since"), jobs.c.end_time < _("until"), jobs.c.open == 0),
    "used_memory": _used(jobs.c.alloc_nodes, jobs.c.used_mem_kib, jobs.c.req_mem_kib, jobs.c.req_nodes)
    .where(jobs.c.end_time >= _("since"), jobs.c.end_time < _("until"), jobs.c.open == 0)
    .where(
        jobs.c.start_time.is_not(None),
        or_(jobs.c.used_mem_kib.is_not(None), jobs.c.status == "out_of_memory"),
    ),
    "still_open": _used().where(jobs.c.open == 1),
    "nth_last_end": select(jobs.c.end_time)
    .where(_HERE, jobs.c.open == 0, jobs.c.end_time.is_not(None))
    .order_by(jobs.c.end_time.desc())
    .limit(1)
    .offset(_("most")),
    "running": select(
        func.count().filter(or_(jobs.c.user_id.is_(None), jobs.c.user_id != _("user"))).label("others"),
        func.sum(jobs.c.alloc_nodes).filter(jobs.c.user_id == _("user")).label("own_nodes"),
    ).where(_HERE, jobs.c.open == 1, jobs.c.start_time.is_not(None)),
    "plan_week": select(
        jobs.c.job_id, jobs.c.submit_time, jobs.c.user_id, jobs.c.account, jobs.c.partition_id, jobs.c.qos,
        jobs.c.req_time, *_SAID,
    )
    .select_from(_WITH_RUNTIME)
    .where(_HERE, jobs.c.submit_time >= _("since"), jobs.c.submit_time < _("until"), jobs.c.open == 0),
    "arms": select(
        jobs.c.job_id, jobs.c.user_id, jobs.c.partition_id, jobs.c.qos, jobs.c.submit_time, jobs.c.start_time,
        jobs.c.end_time, jobs.c.req_procs,
    ).where(
        _HERE, jobs.c.submit_time >= _("since"), jobs.c.submit_time < _("until"), jobs.c.open == 0,
        jobs.c.start_time.is_not(None), jobs.c.end_time.is_not(None),
    ),
    "issued_since": select(
        forecasts.c.id, forecasts.c.kind, jobs.c.job_id, jobs.c.user_id, jobs.c.partition_id, jobs.c.job_name,
        jobs.c.req_procs, forecasts.c.method, *_SAID,
    )
    .select_from(forecasts.join(jobs, jobs.c.row == forecasts.c.row))
    .where(forecasts.c.id > _("after"), _HERE, or_(forecasts.c.moment == "submit", forecasts.c.moment == "next"))
    .where(
        or_(
            and_(forecasts.c.kind == "limit", forecasts.c.method == _("limit_method")),
            and_(forecasts.c.kind == "wait", forecasts.c.method == _("wait_method")),
            and_(forecasts.c.kind == "request", forecasts.c.method == _("memory_method")),
        )
    )
    .order_by(forecasts.c.id.desc())
    .limit(_("most")),
    "planned": select(*(column for column in planned.c if column is not planned.c.cluster))
    .where(planned.c.cluster == _("cluster"))
    .order_by(planned.c.at, planned.c.job_id),
    "plan_changes": select(*(column for column in plan_changes.c if column is not plan_changes.c.cluster))
    .where(plan_changes.c.cluster == _("cluster"), plan_changes.c.at >= _("since"))
    .order_by(plan_changes.c.id),
    "tokens": select(tokens).order_by(tokens.c.created, tokens.c.id),
    "counts": select(
        func.count().label("jobs"),
        func.min(jobs.c.submit_time).label("first"),
        func.count().filter(or_(jobs.c.told_end != jobs.c.end_time, jobs.c.told_start != jobs.c.start_time)).label(
            "corrected"
        ),
    ).where(_HERE),
}  # fmt: skip
