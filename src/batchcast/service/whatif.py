"""Forecast for a script that was not submitted: the configured wait predictor, taught with the store's latest jobs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError, NoAnswer, UsageError
from ..formats.sbatch import parse_script, processors
from ..job import JobRequest
from ..store.reader import Reader, Row
from ..units import parse_duration, parse_memory
from . import answers
from .ask import Asker, Site, open_site, start_settings
from .document import Said
from .settings import Settings
from .when import parse_when

LATEST = 2000


def answer_script(settings: Settings, script: str, asked: dict[str, Any], now: float, asker: Asker) -> Said:
    """The answer of `batchcast start --test`: its #SBATCH lines, overridden by what was asked for beside it."""
    options = parse_script(read_script(script))
    names = {"limit": "time"}
    options |= {names.get(k, k.replace("_", "-")): str(v) for k, v in asked.items() if v is not None}
    with open_site(settings, asker) as site:
        return _answer(settings, site, options, script, asker, now)


def _answer(settings: Settings, site: Site, options: Mapping[str, str], script: str, asker: Asker, now: float) -> Said:
    job = request(options, site.memory, asker.name or "", now, Path(script).name)
    prediction, learned = _predict(site.reader, site.cluster, site.memory, job, now)
    if not learned:
        raise NoAnswer(
            f"no job has started in {site.cluster} since the collector began", hint="ask again when some have"
        )
    method = answers.answering_method(site.memory)
    reason, begin = apart(options, now)
    row = {
        "job_id": "(test)",
        "partition_id": job.partition_id,
        "job_name": job.job_name,
        "submit_time": now,
        "eligible_time": begin,
        "expected_start": None,
        "reason": reason,
        "point_s": prediction.point,
        "levels": json.dumps(list(map(float, prediction.levels))),
        "quantiles_s": json.dumps(list(map(float, prediction.quantiles))),
        "basis": prediction.basis,
        "method": method,
    }
    answer = answers.start_answer(row, now)
    answer["reason_in_words"] = f"if submitted: {answer['reason_in_words']}" if reason else "not submitted"
    least = settings["least_users"] if site.private else 1
    since = now - answers.TRACK_RECORD_S
    record = answers.track_record(site.reader, site.cluster, str(job.partition_id), method, since, least)
    notes = answers.staleness(site.memory, now)
    notes.append(
        f"if submitted now to {job.partition_id}: {job.procs:g} processors, limit "
        f"{options.get('time', 'the partition default')}"
    )
    return Said({"cluster": site.cluster}, start_settings(settings, now), notes, [{**answer, **answers.shown(record)}])


def apart(options: Mapping[str, str], now: float) -> tuple[str, float | None]:
    """Why a script's job would not wait for the machine at first, as Slurm would call it, and its begin time.

    >>> apart({"hold": ""}, 0.0), apart({"begin": "now+1hour"}, 0.0), apart({"dependency": "afterok:7"}, 0.0)
    (('JobHeldUser', None), ('BeginTime', 3600.0), ('Dependency', None))
    """
    if "hold" in options:
        return "JobHeldUser", None
    if "begin" in options and (begin := parse_when(options["begin"], now)) > now:
        return "BeginTime", begin
    return ("Dependency", None) if "dependency" in options else ("", None)


def read_script(path: str) -> str:
    """A script's text; - is stdin."""
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}", hint="give the script you would give sbatch"
        ) from None


def request(options: Mapping[str, str], memory: dict[str, Any], user: str, now: float, script: str) -> JobRequest:
    """What the script would ask for, with the site's defaults."""
    partitions = memory.get("site", {}).get("partitions", {})
    name = options.get("partition") or next((p for p, v in partitions.items() if v.get("is_default")), None)
    if partitions and name not in partitions:
        raise UsageError(f"no partition {name!r} (accepted: {', '.join(partitions)})")
    limits = partitions.get(name, {})
    limit = parse_duration(options["time"]) if "time" in options else (limits.get("default_time_s") or math.nan)
    procs, nodes = processors(options)
    memory_kib = parse_memory(options.get("mem", "")) * nodes
    return JobRequest(-1, "(test)", now, procs, limit, memory_kib, user_id=user, queue_id=name, partition_id=name,
                      account=options.get("account"), qos=options.get("qos"),
                      job_name=options.get("job-name", script))  # fmt: skip


def _predict(reader: Reader, cluster: str, memory: dict[str, Any], job: JobRequest, now: float) -> Any:
    """The wait predictor's answer, having heard the latest started jobs and everything that is in the system now."""
    from ..events.live import LiveClock, LiveJob, live_events
    from ..predict.registry import make

    columns = (
        "row, job_id, submit_time, req_procs, alloc_procs, req_time, req_mem_kib, user_id, group_id, "
        "partition_id, account,"
        " qos, job_name, start_time, end_time, status"
    )
    found: dict[int, Row] = {}
    for where, limit in (("open = 1", 100_000), ("open = 0 AND start_time IS NOT NULL", LATEST)):
        sql = f"SELECT {columns} FROM jobs WHERE cluster = :cluster AND {where} ORDER BY submit_time DESC LIMIT {limit}"
        found |= {row["row"]: row for row in reader.rows(sql, cluster=cluster)}
    jobs = []
    for row in found.values():
        value = {k: math.nan if v is None else v for k, v in row.items()}
        known = JobRequest(
            row["row"],
            row["job_id"],
            row["submit_time"],
            row["req_procs"] or row["alloc_procs"] or math.nan,
            value["req_time"],
            value["req_mem_kib"],
            row["user_id"],
            row["group_id"],
            None,
            row["partition_id"],
            row["partition_id"],
            row["account"],
            row["qos"],
            row["job_name"],
        )
        jobs.append(LiveJob(known, value["start_time"], value["end_time"], row["status"]))
    total = memory.get("total_procs")
    clock = LiveClock({"wait": make("wait", answers.answering_method(memory))}, math.nan if total is None else total)
    for event in live_events(jobs, now):
        clock.tell(event, ask=False)
    clock.state.now = now
    return clock.predictors["wait"].predict(job, clock.state), any(j.start_time == j.start_time for j in jobs)
