"""Answers from a store: when a waiting job will start, and how right such answers were. No prediction is made here."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import NoAnswer, UsageError
from ..formats.reasons import HELD, NEVER, NOT_ELIGIBLE, plain_reason
from ..predict.conditional import given_waited
from ..predict.protocol import Prediction
from ..store.reader import Reader, Row

CLOCKS_APART_S = 2.0
"""Two clocks further apart than this are said."""
TRACK_RECORD_S = 30 * 86400.0
LEAST_RECORD = 20
NO_HISTORY = "no history"
"""How a wait predictor's basis begins when it has nothing to go by: no answer for a user."""


def choose_cluster(reader: Reader, asked: str | None) -> str:
    """The cluster asked for, or the store's only one."""
    found = reader.clusters()
    if asked:
        if asked not in found:
            raise UsageError(f"no cluster {asked!r} in {reader.shown} (accepted: {', '.join(found) or 'none yet'})")
        return asked
    if len(found) != 1:
        if not found:
            raise NoAnswer(f"{reader.shown} holds no cluster yet", hint="let batchcast collect run one cycle")
        raise UsageError(f"{reader.shown} holds several clusters: choose with -M ({', '.join(found)})")
    return found[0]


def answering_method(memory: dict[str, Any]) -> str:
    """The wait predictor whose forecasts answer users: the first the collector was told to run."""
    return str((memory.get("wait_methods") or ["recent_wait"])[0])


def waiting_jobs(reader: Reader, cluster: str, ids: Sequence[str], user: str | None, method: str) -> list[Row]:
    """Waiting jobs by id (an array's id means its tasks) or of a user, with the wait forecast issued for each."""
    where, values = (
        ["j.cluster = :cluster", "j.open = 1", "j.start_time IS NULL"],
        {"cluster": cluster, "method": method},
    )
    if ids:
        where.append(
            "(" + " OR ".join(f"j.job_id = :id{k} OR j.job_id LIKE :tasks{k} ESCAPE '!'" for k in range(len(ids))) + ")"
        )
        for k, job_id in enumerate(ids):
            escaped = job_id.replace("!", "!!").replace("%", "!%").replace("_", "!_")
            values |= {f"id{k}": job_id, f"tasks{k}": f"{escaped}!_%"}
    if user is not None:
        where.append("j.user_id = :user")
        values["user"] = user
    return reader.rows(
        "SELECT j.job_id, j.user_id, j.job_name, j.partition_id, j.submit_time, j.eligible_time, "
        "j.expected_start, j.reason,"
        " j.dependency, j.req_procs, j.limit_now, f.method, f.point_s, f.levels, f.quantiles_s, f.basis, f.as_of"
        " FROM jobs j LEFT JOIN forecasts f ON f.row = j.row AND f.kind = 'wait' AND f.moment = 'submit'"
        f" AND f.method = :method WHERE {' AND '.join(where)} ORDER BY j.submit_time, j.row",
        **values,
    )


def forecast_of(row: Row) -> Prediction | None:
    """The forecast in a row, None where none was issued."""
    if row["point_s"] is None:
        return None
    return Prediction(
        row["point_s"], tuple(json.loads(row["levels"])), tuple(json.loads(row["quantiles_s"])), row["basis"]
    )


def start_answer(row: Row, now: float) -> dict[str, Any]:
    """When one waiting job starts, as far as its forecast reaches, given how long it has waited.

    Times are epoch seconds. A job that is not waiting for the machine (held, dependent, begin time, throttled array)
    is answered from its eligibility: `counts_from` says from when, and without a known instant `likely` and `by_90`
    stay unknown and the waits alone are told.
    """
    reason, issued = row["reason"] or "", forecast_of(row)
    name = reason.strip("()").split(",")[0]
    apart = name in NOT_ELIGIBLE or name in NEVER
    if issued is not None and issued.basis.startswith(NO_HISTORY):
        issued = None
    known_begin = name == "BeginTime" and row["eligible_time"] is not None
    base = row["eligible_time"] if known_begin else row["submit_time"]
    waited = 0.0 if apart else max(now - row["submit_time"], 0.0)
    given = given_waited(issued, waited, (0.5, 0.9)) if issued is not None else None
    point = given.point if given else math.nan
    by_90 = given.quantiles[1] if given and len(given.quantiles) > 1 else math.nan
    if name in NEVER:
        point = by_90 = math.nan
    at = math.nan if apart and not known_begin else base
    return {
        "job_id": row["job_id"],
        "partition": row["partition_id"],
        "name": row["job_name"],
        "submit_time_s": row["submit_time"],
        "waited_s": max(now - row["submit_time"], 0.0),
        "likely_start_s": at + point,
        "by_90_start_s": at + by_90,
        "likely_wait_s": point,
        "by_90_wait_s": by_90,
        "counts_from": _counts_from(name),
        "reason": reason,
        "reason_in_words": plain_reason(reason),
        "slurm_start_s": math.nan if row["expected_start"] is None or name == "BeginTime" else row["expected_start"],
        "basis": row["basis"] if issued is None and row["basis"] else _basis(issued, given, waited),
        "method": row["method"],
    }


def _counts_from(name: str) -> str:
    if name in NEVER:
        return "never: it cannot start as it is"
    if name in HELD:
        return "its release"
    return {
        "Dependency": "the end of what it depends on",
        "BeginTime": "its begin time",
        "JobArrayTaskLimit": "the end of a task of its array",
    }.get(name, "submission")


def _basis(issued: Prediction | None, given: Prediction | None, waited: float) -> str:
    if issued is None:
        return "no forecast was issued for this job yet"
    if given is not None and not math.isfinite(given.point):
        return f"{issued.basis}; it has waited longer than that forecast reached"
    return issued.basis + ("; given the time waited so far" if waited > 0 else "")


def track_record(
    reader: Reader, cluster: str, partition: str | None, method: str, since: float, least_users: int = 1
) -> dict[str, Any]:
    """How issued wait forecasts of a partition came out since an instant: coverage at 90 %, median absolute error.

    Empty where fewer than 20 came out, or where they are of fewer than `least_users` users.
    """
    rows = reader.rows(
        "SELECT f.point_s, f.levels, f.quantiles_s, f.outcome_s, j.user_id FROM forecast_outcomes f"
        " JOIN jobs j ON j.row = f.row"
        " WHERE j.cluster = :cluster AND f.kind = 'wait' AND f.moment = 'submit' AND f.resolution = 'started'"
        " AND f.method = :method AND f.basis NOT LIKE :nothing AND f.as_of >= :since"
        " AND (CAST(:partition AS TEXT) IS NULL OR j.partition_id = :partition) ORDER BY f.id DESC LIMIT 2000",
        nothing=f"{NO_HISTORY}%",
        cluster=cluster,
        since=since,
        partition=partition,
        method=method,
    )
    if len(rows) < LEAST_RECORD or len({row["user_id"] for row in rows}) < least_users:
        return {}
    errors = sorted(abs(row["point_s"] - row["outcome_s"]) for row in rows)
    covered = [hit for row in rows if (hit := covered_at(row, 0.9)) is not None]
    return {
        "forecasts": len(rows),
        "coverage_90": sum(covered) / len(covered) if covered else math.nan,
        "median_ae_s": median(errors),
    }


def shown(record: dict[str, Any]) -> dict[str, Any]:
    """A track record as part of an answer."""
    return {
        "track_record_forecasts": record.get("forecasts", 0),
        "track_record_coverage_90": record.get("coverage_90"),
        "track_record_median_ae_s": record.get("median_ae_s"),
    }


def latest_runs(reader: Reader, cluster: str, ids: Sequence[str]) -> list[Row]:
    """The last run of each of these jobs that has begun."""
    found = []
    for job_id in ids:
        found += reader.rows(
            "SELECT job_id, user_id, start_time, end_time, status, open FROM jobs WHERE cluster = :cluster"
            " AND (job_id = :id OR raw_id = :id) AND (start_time IS NOT NULL OR open = 0)"
            " ORDER BY submit_time DESC LIMIT 1",
            cluster=cluster,
            id=job_id,
        )
    return found


def covered_at(row: Row, level: float) -> bool | None:
    """Whether an outcome lay at or below what was said for a level; None where the forecast did not reach so far."""
    said = given_waited(forecast_of({"basis": "", **row}) or Prediction(1.0), 0.0, (level,))
    return bool(row["outcome_s"] <= said.point) if said.levels and math.isfinite(said.point) else None


def median(values: Iterable[float]) -> float:
    """The middle value, the mean of the middle two; NaN of none.

    >>> median([3.0, 1.0, 2.0, 10.0])
    2.5
    """
    ordered = sorted(values)
    if not ordered:
        return math.nan
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def staleness(memory: dict[str, Any], now: float) -> list[str]:
    """What a user must know of the collector's own state: is it running, is a daemon away, is the clock behind."""
    said = []
    interval = 120.0
    at = memory.get("cycle_at")
    if at is None:
        return ["the collector has not finished a cycle yet"]
    if now - at > interval:
        said.append(f"the collector last looked {_ago(now - at)} ago: is batchcast collect running?")
    for daemon, counter in memory.get("health", {}).items():
        if counter.get("away_since"):
            said.append(f"{daemon} has not answered for {_ago(now - counter['away_since'])} ({counter['last_error']})")
    ahead = memory.get("site", {}).get("clock_ahead_s") or 0.0
    if abs(ahead) > CLOCKS_APART_S:
        side = "ahead of" if ahead > 0 else "behind"
        said.append(f"the collector's clock is {abs(ahead):.0f} s {side} the batch system's: run NTP on both")
    told = memory.get("told_until")
    if told is None:
        said.append("history is still being read; no forecast has been issued yet")
    elif at - told > 300:
        said.append(f"forecasts stand {_ago(now - told)} back, until accounting tells how jobs of that time ended")
    return said


def _ago(seconds: float) -> str:
    from ..units import format_duration

    return format_duration(max(seconds, 0.0))
