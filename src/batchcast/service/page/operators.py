"""*For operators*: limits and memory to advise and what they would save, whether all is well, which settings hold."""

from __future__ import annotations

import math
from typing import Any

from ...errors import BatchcastError
from ...store.packed import Packed
from ..access import Asker, Site, Who, open_site, used
from ..advice import rules_of
from ..advice_record import LIMIT, MEMORY, advice_record
from ..checkup import settings_in_force, store_findings
from ..hidden import rounded, whole_days
from ..memory_advice import memory_advice
from ..settings import Settings
from ..staleness import staleness
from ..usage import each_advice

DAYS = 28
MOST = 40


def operators(settings: Settings, viewer: Asker, now: float) -> dict[str, Any]:
    """The settings, with their places, are shown to whoever may see everything; the rest as everywhere."""
    figures: dict[str, Any] = {
        "findings": list(store_findings(settings)), "settings": settings_in_force(settings) if viewer.sees_all else [],
        "limits": [], "memory": [], "record": [], "hidden": False, "saved": math.nan, "spared": math.nan,
        "hours": math.nan, "cluster": "", "stale": [], "now": now, "days": DAYS,
        "least": settings["least_users"],
    }  # fmt: skip
    try:
        with open_site(settings, viewer) as site:
            least = int(settings["least_users"]) if site.private else 1
            since = now - DAYS * 86400
            since = whole_days(since, math.inf)[0] if site.private else since
            rows = used(site, Who(), since, math.inf, least, now)
            figures |= {"limits": _limits(rows, settings, least), "hidden": site.private, "cluster": site.cluster,
                      "stale": staleness(site.memory, now)}  # fmt: skip
            measured = used(site, Who(), since, math.inf, least, now, "used_memory")
            memory = memory_advice(measured, site.memory, rules_of(settings), least)
            figures["memory"] = [one for one in memory if one["tells"]][:MOST]
            figures["spared"] = sum(one["gib_h"] for one in memory)
            figures["record"] = _record(site, since, least, now)
            figures["hours"] = sum((r["end_time"] - r["start_time"]) * (r["alloc_procs"] or 0) for r in rows
                                 if r["start_time"] is not None) / 3600  # fmt: skip
            figures["saved"] = sum(one["hours"] for one in figures["limits"])
            if least > 1:
                figures |= rounded({name: figures[name] for name in ("hours", "saved", "spared")})
    except BatchcastError as error:
        figures["stale"] = [f"{error.message}; {error.hint}"]
    return figures


def _record(site: Site, since: float, least: int, now: float) -> list[dict[str, Any]]:
    """How advised limits and memory came out at submissions, beside what users asked of the same jobs."""
    return [
        one for of in (LIMIT, MEMORY)
        for one in advice_record(site.reader, site.cluster, of, since, math.inf, None, least, now) if one["requests"]
    ]  # fmt: skip


def _limits(rows: Packed, settings: Settings, least: int) -> list[dict[str, Any]]:
    """By account and application: what 95 % need against what is asked, in processor hours held for nothing."""
    figures: list[dict[str, Any]] = []
    alike = ("account", "job_name")
    for (account, name), group, one in each_advice(rows, settings["limit_floor"], settings["limit_step"], alike):
        users = len({row["user_id"] for row in group})
        if users >= least:
            shown = {"account": account or "–", "name": name or "–", "users": users, "jobs": one["jobs"]}
            shown |= {"flag": one["flag"], "advice": one["advice"], "hours": one["wasted_processor_hours"]}
            figures.append(shown)
    rough = [rounded(one) for one in figures] if least > 1 else figures
    return sorted(rough, key=lambda one: -one["hours"])[:MOST]
