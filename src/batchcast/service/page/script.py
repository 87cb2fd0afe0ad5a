"""*Try a script*: when it would start if it were submitted now, and what would start sooner."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...errors import NoAnswer, UsageError
from ...formats.sbatch import count_of, parse_script, processors
from ...job import JobRequest
from ...predict.conditional import given_waited
from ...predict.protocol import Prediction
from ...units import format_duration, parse_duration
from .. import answers
from ..access import Asker, Site, check_may_see, open_site
from ..forecaster import apart, forecaster, request
from ..memory import as_request
from ..settings import Settings
from ..staleness import staleness
from ..whatif import advice
from ..where import ways
from .chances import LEVELS, Chances, axis

FIELDS = ("partition", "time", "nodes", "ntasks", "cpus-per-task", "mem")
MOST_CHARACTERS = 200_000
MOST_WAYS = 12


def options_of(form: Mapping[str, str]) -> dict[str, str]:
    """What the form asks for: the script's #SBATCH lines, overridden by the fields that are filled in."""
    script = form.get("script", "")
    if len(script) > MOST_CHARACTERS:
        raise UsageError(f"a script of {len(script)} characters (accepted: up to {MOST_CHARACTERS})")
    options = parse_script(script)
    return options | {name: form[name].strip() for name in FIELDS if form.get(name, "").strip()}


def options_of_job(settings: Settings, job_id: str, viewer: Asker) -> dict[str, str]:
    """What a job in the store asked for, as a script would. Refused where this viewer may not see it."""
    with open_site(settings, viewer) as site:
        rows = site.reader.ask("latest", cluster=site.cluster, job_id=job_id)
        if not rows or site.private:
            check_may_see(site, viewer, rows[0]["user_id"] if rows else None)
        if not rows:
            raise NoAnswer(f"job {job_id[:40]} is not in the store", hint="a job just submitted appears in a minute")
        row = rows[0]
    known = {"partition": row["partition_id"], "ntasks": row["req_procs"] and f"{row['req_procs']:g}",
             "time": row["req_time"] and math.isfinite(row["req_time"]) and format_duration(row["req_time"]),
             "job-name": row["job_name"], "account": row["account"], "qos": row["qos"]}  # fmt: skip
    return {name: str(value) for name, value in known.items() if value}


def tried(settings: Settings, options: Mapping[str, str], viewer: Asker, now: float) -> dict[str, Any]:
    """The answer for these options, and for their variants: size, limit, partition. The soonest first."""
    with open_site(settings, viewer) as site:
        clock = forecaster(settings, site, now)

        def ask(chosen: Mapping[str, str]) -> tuple[JobRequest, Prediction]:
            wanted = request(chosen, site, viewer.name or "", now)
            return wanted, clock.wait(wanted)

        job, own = ask(options)
        reason, begin = apart(options, now)
        kinds = [(what, changed, *ask(changed)) for what, changed in _variants(site, options, job)]
        base = _chances(own, begin or now)
        shared = axis(now, [base, *(_chances(p, begin or now) for *_, p in kinds)])
        variants = [
            {"what": what, "options": changed, "chances": (c := _chances(p, begin or now)), "bar": shared.bar(c),
             "sooner": base.by_50 - c.by_50}
            for what, changed, _, p in kinds
        ]  # fmt: skip
        least = settings["least_users"] if site.private else 1
        record = answers.track_record(
            site.reader, site.cluster, str(job.partition_id), answers.answering_method(site.memory),
            now - answers.TRACK_RECORD_S, least, now,
        )  # fmt: skip
        held = {"JobHeldUser": "held by its owner (scontrol release frees it)",
                "Dependency": "waiting for another job it depends on"}  # fmt: skip
        advised = advice(settings, site, options, clock, job, viewer, now)
        where = ways(settings, site, options, viewer, now, clock)
        return {
            "ways": [{**way, "memory": _asked(way["memory_kib"])} for way in where[:MOST_WAYS]],
            "advised": {**advised, "likely_memory": as_request(advised["likely_memory_kib"] or 0.0)},
            "answer": {"chances": base, "bar": shared.bar(base), "basis": own.basis, "partition": job.partition_id,
                       "procs": job.procs, "limit": job.req_time, "held": held.get(reason, ""), "begin": begin},
            "variants": sorted(variants, key=lambda v: v["chances"].by_50),
            "axis": shared, "record": record, "cluster": site.cluster, "now": now,
            "stale": staleness(site.memory, now),
        }  # fmt: skip


def _asked(kib: float) -> str:
    return as_request(kib) if kib == kib else ""


def _chances(prediction: Prediction, begin: float) -> Chances:
    given = given_waited(prediction, 0.0, LEVELS)
    times = given.quantiles if given.levels else (math.nan, given.point, math.nan)
    return Chances(*(begin + t for t in times))


def _variants(site: Site, options: Mapping[str, str], job: JobRequest) -> list[tuple[tuple[str, str], dict[str, str]]]:
    """The same with one thing changed: (what, its new value), and all options."""
    variants: list[tuple[tuple[str, str], dict[str, str]]] = []
    limit = job.req_time
    if limit == limit and math.isfinite(limit):
        for share in (0.5, 0.25):
            shorter = format_duration(max(60.0 * round(share * limit / 60), 60.0))
            if parse_duration(shorter) < limit:
                variants.append((("--time", shorter), {**options, "time": shorter}))
    procs, nodes = processors(options)
    if procs >= 2:
        smaller = {k: v for k, v in options.items() if k not in ("nodes", "ntasks", "ntasks-per-node")}
        half = max(int(procs // (2 * count_of(options.get("cpus-per-task", "")))), 1)
        smaller["ntasks"] = str(half)
        if nodes >= 2:
            smaller["nodes"] = f"{nodes // 2:g}"
        variants.append((("--ntasks", str(half)), smaller))
    for name, limits in site.memory.get("site", {}).get("partitions", {}).items():
        fits = not (limit == limit and limits.get("max_time_s") and limit > limits["max_time_s"])
        if name != job.partition_id and fits:
            variants.append((("--partition", name), {**options, "partition": name}))
    return variants[:10]
