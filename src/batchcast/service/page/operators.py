"""*For operators*: what limits to advise and what it would save, whether all is well, which settings hold."""

from __future__ import annotations

import math
from typing import Any

from ...errors import BatchcastError
from .. import answers
from ..ask import Asker, open_site
from ..checkup import settings_in_force, store_findings
from ..hidden import days_of_several, rounded, whole_days
from ..settings import Settings
from ..usage import advice

DAYS = 28


def operators(settings: Settings, asker: Asker, now: float) -> dict[str, Any]:
    """The settings, with their places, are shown to whoever may see everything; the rest as everywhere."""
    figures: dict[str, Any] = {
        "findings": list(store_findings(settings)), "settings": settings_in_force(settings) if asker.sees_all else [],
        "limits": [], "hidden": False, "saved": math.nan, "hours": math.nan, "cluster": "", "stale": [], "now": now,
        "days": DAYS, "least": settings["least_users"],
    }  # fmt: skip
    try:
        with open_site(settings, asker) as site:
            least = int(settings["least_users"]) if site.private else 1
            since = now - DAYS * 86400
            since = whole_days(since, math.inf)[0] if site.private else since
            rows: Any = site.reader.ask("used", cluster=site.cluster, since=since, until=math.inf)
            if site.private:
                rows = days_of_several(rows, "end_time", least, now)
            figures |= {"limits": _limits(rows, settings, least), "hidden": site.private, "cluster": site.cluster,
                      "stale": answers.staleness(site.memory, now)}  # fmt: skip
            figures["hours"] = sum((r["end_time"] - r["start_time"]) * (r["alloc_procs"] or 0) for r in rows
                                 if r["start_time"] is not None) / 3600  # fmt: skip
            figures["saved"] = sum(one["hours"] for one in figures["limits"])
            if least > 1:
                figures |= rounded({"hours": figures["hours"], "saved": figures["saved"]})
    except BatchcastError as error:
        figures["stale"] = [f"{error.message}; {error.hint}"]
    return figures


def _limits(rows: Any, settings: Settings, least: int) -> list[dict[str, Any]]:
    """By account and application: what 95 % need against what is asked, in processor hours held for nothing."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        groups.setdefault((row["account"] or "–", row["job_name"] or "–"), []).append(row)
    figures = []
    for (account, name), group in groups.items():
        users = len({row["user_id"] for row in group})
        as_one = [{**row, "user_id": account} for row in group]
        for one in advice(as_one, settings["limit_floor"], settings["limit_step"]):
            if users >= least:
                figures.append(
                    {
                        "account": account,
                        "name": name,
                        "users": users,
                        "jobs": one["jobs"],
                        "flag": one["flag"],
                        "advice": one["advice"],
                        "hours": one["wasted_processor_hours"],
                    }
                )
    shown = [rounded(one) for one in figures] if least > 1 else figures
    return sorted(shown, key=lambda one: -one["hours"])[:40]
