"""Forecast for a script that was not submitted: the configured wait predictor, taught with the store's latest jobs."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from ..errors import InputError, NoAnswer, UsageError
from ..formats.sbatch import parse_script, processors
from ..job import JobRequest
from ..predict.conditional import given_waited
from ..store.reader import Reader, Row
from ..units import parse_duration, parse_memory
from . import answers
from .settings import Settings

LATEST = 2000


def answer_script(
    settings: Settings, script: str, asked: dict[str, Any], now: float, user: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """The answer of `batchcast start --test`, one row, and what must be said beside it."""
    options = parse_script(read_script(script))
    names = {"limit": "time", "cpus_per_task": "cpus-per-task", "job_name": "job-name"}
    options |= {names.get(k, k): v for k, v in asked.items() if v is not None}
    reader = Reader(settings["store"])
    cluster = answers.choose_cluster(reader, settings["cluster"] or None)
    memory = reader.memory(cluster)
    job = request(options, memory, user, now, Path(script).name)
    prediction, learned = _predict(reader, cluster, memory, job, now)
    if not learned:
        raise NoAnswer(f"no job has started in {cluster} since the collector began", hint="ask again when some have")
    given = given_waited(prediction, 0.0)
    method = answers.answering_method(memory)
    record = answers.track_record(reader, cluster, str(job.partition_id), method, now - answers.TRACK_RECORD_S)
    notes = answers.staleness(memory, now)
    notes.append(
        f"if submitted now to {job.partition_id}: {job.procs:g} processors, limit "
        f"{options.get('time', 'the partition default')}"
    )
    by_90 = given.quantiles[1] if len(given.quantiles) > 1 else math.nan
    return [
        {
            "job_id": "(test)",
            "partition": job.partition_id,
            "name": job.job_name,
            "submit_time_s": now,
            "waited_s": 0.0,
            "likely_start_s": now + given.point,
            "by_90_start_s": now + by_90,
            "likely_wait_s": given.point,
            "by_90_wait_s": by_90,
            "counts_from": "submission",
            "reason": "",
            "reason_in_words": "not submitted",
            "slurm_start_s": math.nan,
            "basis": prediction.basis,
            "method": method,
            "track_record_forecasts": record.get("forecasts", 0),
            "track_record_coverage_90": record.get("coverage_90"),
            "track_record_median_ae_s": record.get("median_ae_s"),
        }
    ], notes


def read_script(path: str) -> str:
    """A script's text; - is stdin."""
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}", hint="give the script you would give sbatch"
        ) from None


def request(options: dict[str, str], memory: dict[str, Any], user: str, now: float, script: str) -> JobRequest:
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
