"""Answers from a store: when a waiting job will start, and how right such answers were. No prediction is made here."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ..errors import NoAnswer, UsageError
from ..formats.reasons import Rule, plain_reason, rule, word
from ..predict.conditional import chance_to_start, given_waited
from ..predict.protocol import SHORTEST, Prediction
from ..store.issued import NOTHING, as_prediction, newest
from ..store.reader import Reader, Row
from .hidden import DAY_S, days_over, rounded, whole_days
from .release import Release

JOB_ID = re.compile(r"[0-9]{1,19}(?:[_+][0-9]{1,19})?")
"""A job, an array's task, a part of a heterogeneous job."""
TRACK_RECORD_S = 30 * 86400.0
LEAST_RECORD = 20
MOST_RECORDS, ALL = 2000, 2**62
LIKE_THIS = 200
"""Of so many of the latest answers it is told how many came true: started between what was said for 10 and for 90 %."""
SPANS_S = {"10_min": 600.0, "1_hour": 3600.0, "4_hours": 14400.0, "1_day": 86400.0}
"""What an answer gives the chance of: to start within so long from now."""


def choose_cluster(reader: Reader, asked: str | None) -> str:
    """The cluster asked for, or the store's only one."""
    clusters = reader.clusters()
    if asked:
        if asked not in clusters:
            raise UsageError(f"no cluster {asked!r} in {reader.shown} (accepted: {', '.join(clusters) or 'none yet'})")
        return asked
    if len(clusters) != 1:
        if not clusters:
            raise NoAnswer(f"{reader.shown} holds no cluster yet", hint="let batchcast collect run one cycle")
        raise UsageError(f"{reader.shown} holds several clusters: choose with -M ({', '.join(clusters)})")
    return clusters[0]


def answering_method(memory: dict[str, Any]) -> str:
    """The wait predictor whose forecasts answer users: the first the collector was told to run, while its bound holds.

    Where it does not, the one whose bound has held best here, as the collector found (see `best_bound`).
    """
    methods = memory.get("wait_methods") or ["recent_wait"]
    chosen = memory.get("answers_by")
    return str(chosen if chosen in methods else methods[0])


def best_bound(records: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Of the track records by method, the first being preferred: whose 90 % bound has held best.

    The first while its coverage is as promised, within two binomial standard errors, since jobs submitted together come
    out together; else, of those that keep theirs, the one with the least mean pinball loss at 90 % (the tightest honest
    bound); else the highest coverage. Methods with fewer than 20 judged forecasts are not judged; None where the first
    is one of them.

    >>> of = {"judged": 100, "loss_90_s": 9.0}
    >>> best_bound({"a": {**of, "coverage_90": 0.13}, "b": {**of, "coverage_90": 0.95}})
    'b'
    >>> best_bound({"a": {**of, "coverage_90": 0.88}, "b": {**of, "coverage_90": 0.95}})
    'a'
    """
    judged = {name: record for name, record in records.items() if record.get("judged", 0) >= LEAST_RECORD}
    first = next(iter(records), None)
    if first not in judged:
        return None
    holding = [name for name, r in judged.items() if r["coverage_90"] >= 0.9 - 2.0 * math.sqrt(0.09 / r["judged"])]
    if first in holding or not holding:
        return first if holding else max(judged, key=lambda name: judged[name]["coverage_90"])
    return min(holding, key=lambda name: judged[name]["loss_90_s"])


def start_answer(row: Row, now: float, held: Release | None = None) -> dict[str, Any]:
    """When one waiting job starts, as far as its newest forecast reaches, given how long it has waited.

    Times are epoch seconds. The reason it waits for decides (formats.reasons.Rule): what waits for the machine has the
    forecast; what is held back by a reservation or a limit is answered by when that is over (`held`); what waits for
    its owner, a time or another job from then on: `counts_from` says from when, and without a known instant the waits
    alone are told; what only an administrator ends, or nothing, has no answer.
    """
    row = {**newest(row)}
    reason = row["reason"] or ""
    kind, name = rule(reason), word(reason)
    issued = as_prediction(row) if row["point_s"] is not None and row["grounds"] != NOTHING else None
    known_begin = name == "BeginTime" and row["eligible_time"] is not None
    waited = max(now - row["submit_time"], 0.0) if kind is Rule.MACHINE else 0.0
    given = given_waited(issued, waited, (0.5, 0.1, 0.9)) if issued is not None else None
    point = given.point if given else math.nan
    by_10, by_90 = given.quantiles[1:] if given and len(given.quantiles) > 1 else (math.nan, math.nan)
    at = row["eligible_time"] if known_begin else row["submit_time"] if kind is Rule.MACHINE else math.nan
    basis = row["basis"] if issued is None and row["basis"] else _basis(issued, given, waited)
    if kind in (Rule.NEVER, Rule.ADMIN):
        point = by_10 = by_90 = math.nan
        basis = "no answer until an administrator acts" if kind is Rule.ADMIN else "it cannot start as it is"
    elif kind in (Rule.RESERVATION, Rule.LIMIT):
        at = row["submit_time"]
        point, by_90 = (held.likely - at, held.latest - at) if held is not None else (math.nan, math.nan)
        by_10 = math.nan  # nobody said how early it may be over
        basis = held.basis if held is not None else "nobody knows when that is over"
    spans = SPANS_S if kind is Rule.MACHINE and issued is not None else {}
    chances = {name: chance_to_start(issued, waited, span) for name, span in spans.items() if issued is not None}
    return {
        "job_id": row["job_id"],
        "partition": row["partition_id"],
        "name": row["job_name"],
        "submit_time_s": row["submit_time"],
        "waited_s": max(now - row["submit_time"], 0.0),
        "by_10_start_s": at + by_10,
        "likely_start_s": at + point,
        "by_90_start_s": at + by_90,
        "by_10_wait_s": by_10,
        "likely_wait_s": point,
        "by_90_wait_s": by_90,
        **{f"chance_within_{name}": chances.get(name, math.nan) for name in SPANS_S},
        "counts_from": _counts_from(kind, name, held),
        "reason": reason,
        "reason_in_words": plain_reason(reason),
        "slurm_start_s": math.nan if row["expected_start"] is None or name == "BeginTime" else row["expected_start"],
        "basis": basis,
        "grounds": row["grounds"],
        "method": row["method"],
        "forecast_as_of_s": math.nan if issued is None else row.get("as_of", math.nan),
    }


def _counts_from(kind: Rule, name: str, held: Release | None) -> str:
    if kind is Rule.ELIGIBLE:
        begins = {"Dependency": "the end of what it depends on", "BeginTime": "its begin time"}
        return begins.get(name, "its release")
    if kind in (Rule.RESERVATION, Rule.LIMIT):
        return held.until if held is not None else "the end of what holds it back"
    other = {Rule.NEVER: "never: it cannot start as it is", Rule.ADMIN: "an administrator's action"}
    return other.get(kind, "submission")


def _basis(issued: Prediction | None, given: Prediction | None, waited: float) -> str:
    if issued is None:
        return "no forecast was issued for this job yet"
    if given is not None and not math.isfinite(given.point):
        return f"{issued.basis}; it has waited longer than that forecast reached"
    return issued.basis + ("; given the time waited so far" if waited > 0 else "")


def track_record(
    reader: Reader,
    cluster: str,
    partition: str | None,
    method: str,
    since: float,
    least_users: int = 1,
    now: float = math.inf,
) -> dict[str, Any]:
    """How issued wait forecasts of a partition came out since an instant: coverage at 90 %, median absolute error.

    A job that waits for the machine longer than its 90 % time has missed it, whenever it starts (`overdue`, until
    `now`): a growing queue is seen before its jobs have started. `judged` counts the forecasts with a bound that
    started or are overdue; `came_true` is the share, of the latest `like_this` (at most 200), that started between what
    was said for 10 and for 90 %. Empty where there is none; above one `least_users`, only days of so many users count,
    of started jobs alone, at least 20, and figures are rounded (see `hidden`).
    """
    hidden = least_users > 1
    since = whole_days(since, math.inf)[0] if hidden else since
    chosen = {"cluster": cluster, "partition": partition, "method": method, "since": since, "nothing": NOTHING}
    started = partial(reader.each, "started_forecasts", **chosen, most=ALL if hidden else MOST_RECORDS)
    days = days_over(started(), "as_of", least_users, now) if hidden else set()
    users: set[Any] = set()
    errors, losses, held = array("d"), array("d"), 0
    came_true, most = array("b"), ALL if hidden else LIKE_THIS  # part of a day would tell of its other part
    for row in started():
        if hidden and row["as_of"] // DAY_S not in days:
            continue
        users.add(row["user_id"])
        errors.append(abs(row["point_s"] - row["outcome_s"]))
        hit = covered_at(row, 0.9)
        if hit is not None and len(came_true) < most:
            early = max(row["outcome_s"], SHORTEST) < given_waited(as_prediction(row), 0.0, (0.1,)).point
            came_true.append(hit and not early)
        if hit is not None:
            losses.append(_pinball(row))
            held += hit
    if hidden and (len(errors) < LEAST_RECORD or len(users) < least_users):
        return {}
    late = [] if hidden or now == math.inf else reader.ask("late_forecasts", **chosen, until=now, most=MOST_RECORDS)
    late = [row for row in late if rule(row["reason"] or "") is Rule.MACHINE and covered_at(row, 0.9) is False]
    losses.extend(_pinball(row) for row in late)
    came_true = array("b", [*(False for _ in late), *came_true][:most])  # what waits on was asked for last
    if not errors and not late:
        return {}
    record = {
        "forecasts": len(errors),
        "judged": len(losses),
        "overdue": len(late),
        "coverage_90": held / len(losses) if losses else math.nan,
        "loss_90_s": sum(losses) / len(losses) if losses else math.nan,
        "median_ae_s": median(errors),
        "like_this": len(came_true),
        "came_true": sum(came_true) / len(came_true) if came_true else math.nan,
    }
    return rounded(record) if hidden else record


def record_of(
    reader: Reader,
    cluster: str,
    memory: dict[str, Any],
    partition: str | None,
    least_users: int,
    now: float,
    known: Mapping[tuple[str | None, int], Mapping[str, Any]] | None = None,
) -> Mapping[str, Any]:
    """The track record of the method that answers here, over 30 days; of those `known`, where any are given."""
    if known is not None:
        return known.get((partition, least_users), {})
    since = now - TRACK_RECORD_S
    return track_record(reader, cluster, partition, answering_method(memory), since, least_users, now)


def best_of(url: str, cluster: str, methods: Sequence[str], now: float) -> str | None:
    """`best_bound` over the last 30 days of a store."""
    reader = Reader(url)
    try:
        since = now - TRACK_RECORD_S
        return best_bound({one: track_record(reader, cluster, None, one, since, now=now) for one in methods})
    finally:
        reader.close()


def _pinball(row: Mapping[str, Any]) -> float:
    """The pinball loss of what was said for 90 %: a bound too low costs nine times one too high (Koenker 1978)."""
    over = row["outcome_s"] - given_waited(as_prediction(row), 0.0, (0.9,)).point
    return float(max(0.9 * over, -0.1 * over))


def shown(record: Mapping[str, Any]) -> dict[str, Any]:
    """A track record as part of an answer."""
    return {
        "track_record_forecasts": record.get("forecasts", 0),
        "track_record_overdue": record.get("overdue", 0),
        "track_record_coverage_90": record.get("coverage_90"),
        "track_record_median_ae_s": record.get("median_ae_s"),
        "track_record_like_this": record.get("like_this", 0),
        "track_record_came_true": record.get("came_true"),
    }


def latest_runs(reader: Reader, cluster: str, ids: Sequence[str]) -> list[Row]:
    """The last run of each of these jobs that has begun."""
    return [row for job_id in ids for row in reader.ask("latest_run", cluster=cluster, job_id=job_id)]


def covered_at(row: Mapping[str, Any], level: float) -> bool | None:
    """Whether an outcome lay at or below what was said for a level; None where the forecast did not reach so far."""
    return covered(row, (level,))[0]


def covered(row: Mapping[str, Any], levels: Sequence[float]) -> list[bool | None]:
    """The same for several levels at once."""
    said = given_waited(as_prediction(row), 0.0, levels)
    bounds = said.quantiles if said.levels else [math.inf] * len(levels)
    return [bool(row["outcome_s"] <= bound) if math.isfinite(bound) else None for bound in bounds]


def median(values: Iterable[float]) -> float:
    """The middle value, the mean of the middle two; NaN of none.

    >>> median([3.0, 1.0, 2.0, 10.0])
    2.5
    """
    ordered = sorted(values)
    if not ordered:
        return math.nan
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
