"""Advice for a limit and a memory request from a store: which finished jobs are similar, and what they say."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import NoAnswer, Refused
from ..formats.sbatch import parse_script, processors
from ..predict.recommend import Advice, recommend_limit, rule_of_thumb
from ..store.reader import Reader, Row
from ..units import format_duration
from .ask import Asker, Site, check_may_see
from .memory import advise_memory
from .settings import Settings

WITHIN_S = 180 * 86400.0
LEAST_JOBS = 5
MOST_JOBS = 1000
RECENT = 10
MOST_FINISHED = 20_000


def advise(
    settings: Settings,
    site: Site,
    what: str | None,
    glob: str | None,
    user: str,
    asker: Asker,
    risk: float,
    now: float,
) -> dict[str, Any]:
    """The advised limit and memory request as one flat object, with the sentences that say why."""
    return _advised(settings, site, _wanted(site, what, glob, user, asker), asker, risk, now)


def advise_script(
    settings: Settings, site: Site, options: Mapping[str, str], asker: Asker, risk: float, now: float
) -> dict[str, Any] | None:
    """The same for a job of the asker's with these options; None where nothing is alike, or nobody knows who asks."""
    if asker.name is None or not options.get("job-name"):
        return None
    try:
        return _advised(settings, site, _of_script(options, options["job-name"], asker.name), asker, risk, now)
    except (NoAnswer, Refused):
        return None


def _advised(
    settings: Settings, site: Site, wanted: dict[str, Any], asker: Asker, risk: float, now: float
) -> dict[str, Any]:
    reader, cluster, memory = site.reader, site.cluster, site.memory
    check_may_see(site, asker, wanted["user"])
    similar, alike = _similar(_finished(reader, cluster, wanted["user"], now), wanted)
    if len(similar) < LEAST_JOBS:
        raise NoAnswer(
            f"only {len(similar)} similar finished jobs of {wanted['user']} in the last {WITHIN_S / 86400:.0f} "
            f"days; {LEAST_JOBS} are needed",
            hint="a wider --name GLOB, or let some jobs finish first",
        )
    partition = wanted.get("partition") or similar[0]["partition_id"]
    most = memory.get("site", {}).get("partitions", {}).get(partition, {}).get("max_time_s") or math.inf
    most = min(most, settings["limit_most"])
    runs = [row["end_time"] - row["start_time"] for row in similar]
    cut = [row["status"] == "timeout" for row in similar]
    advice = recommend_limit(
        runs,
        cut,
        risk,
        floor=settings["limit_floor"],
        step=settings["limit_step"],
        most=most,
    )
    thumb = rule_of_thumb(runs[:RECENT])
    answer = {
        "user": wanted["user"],
        "similar_by": alike,
        "jobs": advice.jobs,
        "risk": risk,
        "limit": format_duration(advice.limit_s),
        "limit_s": advice.limit_s,
        "quantile_s": advice.quantile_s,
        "risk_kept": advice.reached,
        "cut_at_limit": advice.cut,
        "asked_limit_s": similar[0]["req_time"],
        "rule_of_thumb_s": thumb,
        "rule_of_thumb": format_duration(thumb),
    }
    memory_of = advise_memory(settings, memory.get("site", {}), similar, partition, alike, risk)
    return {**answer, "why": _sentence(advice, alike, risk, thumb), **memory_of}


def _sentence(advice: Advice, alike: str, risk: float, thumb: float) -> str:
    if advice.reached:
        ran = format_duration(advice.quantile_s)
        why = f"{1 - risk:.0%} of your last {advice.jobs} finished jobs of {alike} ran {ran} or less"
    elif advice.cut:
        why = (
            f"{advice.cut} of your last {advice.jobs} finished jobs of {alike} were cut off at their limit, so "
            f"nobody knows how long "
            "they need: a quarter above the longest"
        )
    else:
        why = (
            f"{advice.jobs} finished jobs of {alike} are too few to promise {risk:.0%}: a quarter above the longest, "
            f"{format_duration(advice.longest_s)}"
        )
    shaped = f"; {advice.shaped_by}" if advice.shaped_by else ""
    return f"{why}{shaped} (the rule of thumb, 1.25 x the longest of the last {RECENT}, says {format_duration(thumb)})."


def in_words(what: str | None, glob: str | None) -> dict[str, str]:
    """What is asked about as the service takes it: a job, or a name; of a script, its job's name."""
    if what is None or glob is not None:
        return {"name": glob or ""}
    if _is_job(what):
        return {"job": what}
    from .whatif import read_script

    name = parse_script(read_script(what)).get("job-name", Path(what).name)
    return {"name": re.sub(r"([*?[])", r"[\1]", name)}


def _is_job(what: str) -> bool:
    return re.fullmatch(r"\d+(?:[_+]\d+)?", what) is not None and not Path(what).exists()


def _wanted(site: Site, what: str | None, glob: str | None, user: str, asker: Asker) -> dict[str, Any]:
    """What is asked about: owner, name pattern, processors, partition, as far as known."""
    if glob is not None:
        return {"user": user, "name": glob, "procs": None, "exact": False}
    assert what is not None
    if _is_job(what):
        rows = site.reader.ask("latest", cluster=site.cluster, job_id=what)
        if site.private and not any(row["user_id"] == asker.name for row in rows):
            raise Refused(f"jobs are private here, and job {what} is none of {asker.name or 'a known user'}'s",
                          hint="your own jobs")  # fmt: skip
        if not rows:
            raise NoAnswer(
                f"job {what} is not in the store of {site.cluster}", hint="a job just submitted appears within a minute"
            )
        row = rows[0]
        return {
            "user": row["user_id"],
            "name": row["job_name"],
            "procs": row["req_procs"],
            "partition": row["partition_id"],
            "exact": True,
        }
    from .whatif import read_script

    options = parse_script(read_script(what))
    return _of_script(options, options.get("job-name", Path(what).name), user)


def _of_script(options: Mapping[str, str], name: str, user: str) -> dict[str, Any]:
    return {
        "user": user,
        "name": name,
        "procs": processors(options)[0],
        "partition": options.get("partition"),
        "exact": True,
    }


def _finished(reader: Reader, cluster: str, user: str, now: float) -> list[Row]:
    """The user's finished jobs, the latest first."""
    return reader.ask(
        "ran_by_itself", cluster=cluster, user=user, since=now - WITHIN_S, until=math.inf, most=MOST_FINISHED
    )


def _similar(rows: list[Row], wanted: dict[str, Any]) -> tuple[list[Row], str]:
    """The narrowest group with enough jobs: same name and size, same name, same size."""
    name, procs = wanted["name"], wanted["procs"]

    def named(row: Row) -> bool:
        own = row["job_name"] or ""
        return own == name if wanted["exact"] else fnmatch.fnmatchcase(own, name)

    groups = (
        [([r for r in rows if named(r) and r["req_procs"] == procs], f"the same name and {procs or 0:g} processors")]
        if procs
        else []
    )
    groups.append(([r for r in rows if named(r)], f"the name {name}" if wanted["exact"] else f"names like {name}"))
    if procs:
        groups.append(([r for r in rows if r["req_procs"] == procs], f"{procs:g} processors"))
    chosen = next((group for group in groups if len(group[0]) >= LEAST_JOBS), groups[0])
    return chosen[0][:MOST_JOBS], chosen[1]
