"""*My jobs*: those that wait, run, and are over, as their owner sees them. Every rule of privacy is `ask`'s."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...store.issued import newest
from ...store.packed import Packed
from ...store.reader import Row
from .. import answers
from ..access import Asker, Site, Who, check_may_see, open_site, used
from ..answers import Part, Record
from ..ask import NOT_YET
from ..release import release, start_answer
from ..settings import Settings
from ..staleness import staleness
from ..usage import advice, summary
from .chances import Axis, Chances, axis, of_forecast

DAYS = 7
MOST = 300
SHOWN = 25


def my_jobs(
    settings: Settings, user: str, viewer: Asker, now: float, known: Mapping[Part, Record] | None = None
) -> dict[str, Any]:
    """What the page shows of one user. Refused where this viewer may not see it. `known` track records are quoted."""
    with open_site(settings, viewer) as site:
        check_may_see(site, viewer, user)
        waiting = _waiting(settings, site, user, now)
        method = (site.memory.get("runtime_methods") or [""])[0]
        running = site.reader.ask("running_now", cluster=site.cluster, method=method, user=user)[:MOST]
        ends = [of_forecast(row, row["start_time"], now) for row in running]
        since = now - DAYS * 86400
        finished = used(site, Who(user), since, math.inf, 1, now)
        shared = axis(now, [*(one["chances"] for one in waiting), *ends])
        over = _finished(settings, finished)
        least = settings["least_users"] if site.private else 1
        record = answers.record_of(site.reader, site.cluster, site.memory, None, least, now, known)
        unknown = [NOT_YET] if known is not None and (None, least) not in known else []
        lines = _together(waiting, shared)
        finite = [one["chances"] for one in waiting if math.isfinite(one["chances"].by_50)]
        first = min(finite, key=lambda chances: chances.by_50, default=Chances(math.nan, math.nan, math.nan))
        return {
            "user": user,
            "now": now,
            "cluster": site.cluster,
            "axis": shared,
            "waiting": lines[:SHOWN],
            "waiting_more": sum(len(line["ids"]) for line in lines[SHOWN:]),
            "bases": list(dict.fromkeys(one["basis"] for one in waiting))[:8],
            "waiting_count": len(waiting),
            "running": [_running(row, end, shared) for row, end in zip(running, ends)][:SHOWN],
            "running_count": len(running),
            "finished": over,
            "finished_count": len(finished),
            "limit_used": _limit_used(finished),
            "next": first.by_50,
            "next_90": first.by_90,
            "record": record,
            "stale": [*staleness(site.memory, now), *unknown],
        }  # fmt: skip


def _waiting(settings: Settings, site: Site, user: str, now: float) -> list[dict[str, Any]]:
    rows = site.reader.waiting(site.cluster, answers.answering_method(site.memory), (), user)[:MOST]
    lines = []
    for row in rows:
        answer = start_answer(row, now, release(site.reader, site.cluster, site.memory, row, now))
        lines.append({**answer, "chances": _chances(row, answer, now), "procs": row["req_procs"]})
    return lines


def _chances(row: Row, answer: Mapping[str, Any], now: float) -> Chances:
    """A forecast's own where the job waits for the machine; else what the answer says, whatever holds it back."""
    likely, by_90 = answer["likely_start_s"], answer["by_90_start_s"]
    if answer["counts_from"] == "submission" and newest(row)["point_s"] is not None:
        exact = of_forecast(row, row["submit_time"], now)
        return Chances(exact.by_10, likely, by_90)
    return Chances(math.nan, likely, by_90)


def _together(waiting: Sequence[dict[str, Any]], shared: Axis) -> list[dict[str, Any]]:
    """Tasks of one array with the same answer as one line, what starts first before the rest."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in waiting:
        array = one["job_id"].partition("_")[0]
        key = (array, one["reason"], *(round(x, -1) if math.isfinite(x) else str(x) for x in one["chances"]))
        group = groups.setdefault(key, {**one, "ids": [], "bar": shared.bar(one["chances"])})
        group["ids"].append(one["job_id"])
    lines = sorted(groups.values(), key=lambda g: g["chances"].by_50 if math.isfinite(g["chances"].by_50) else math.inf)
    return lines


def _running(row: Row, end: Chances, shared: Axis) -> dict[str, Any]:
    limit = row["limit_now"] if row["limit_now"] is not None else row["req_time"]
    last = row["start_time"] + limit if limit is not None and math.isfinite(limit) else math.nan
    capped = Chances(*(last if t != t else min(t, last) if last == last else t for t in end))
    return {
        "job_id": row["job_id"], "name": row["job_name"], "partition": row["partition_id"], "procs": row["req_procs"],
        "started": row["start_time"], "elapsed": shared.now - row["start_time"], "limit": limit, "last": last,
        "chances": capped, "bar": shared.bar(capped), "last_at": shared.at(last) if last == last else None,
    }  # fmt: skip


def _finished(settings: Settings, rows: Packed) -> list[dict[str, Any]]:
    """By job name, the largest first, with the flag to change."""
    flags: dict[str, dict[str, Any]] = {}
    for one in advice(rows, settings["limit_floor"], settings["limit_step"]):
        flags.setdefault(one["job_name"], one)
    return [{**one, "advice": flags.get(one["job_name"])} for one in summary(rows, "job_name")][:20]


def _limit_used(rows: Packed) -> float:
    limited = [r for r in rows if r["start_time"] is not None and r["req_time"] and math.isfinite(r["req_time"])]
    asked = sum(r["req_time"] * (r["alloc_procs"] or 1) for r in limited)
    return sum((r["end_time"] - r["start_time"]) * (r["alloc_procs"] or 1) for r in limited) / asked if asked else (
        math.nan
    )  # fmt: skip
