"""Forecast for a script that was not submitted: the configured wait predictor, taught with the store's latest jobs."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..cluster.machine import Machine
from ..errors import InputError, UsageError
from ..formats.sbatch import HEARD, gpus, parse_script, processors
from ..job import JobRequest, as_submitted
from ..predict.conditional import given_waited
from ..store.issued import as_values
from ..units import parse_duration, parse_memory
from . import answers
from .advice import RISK, rests_on_jobs
from .ask import Asker, Site, open_site, start_settings
from .document import Said
from .forecaster import Forecaster, forecaster
from .settings import Settings
from .staleness import staleness
from .when import parse_when


def answer_script(settings: Settings, script: str, asked: dict[str, Any], now: float, asker: Asker) -> Said:
    """The answer of `batchcast start --test`: its #SBATCH lines, overridden by what was asked for beside it."""
    return answer_options(settings, options_of(script, asked), asker, now)


def options_of(script: str, asked: Mapping[str, Any]) -> dict[str, str]:
    """What a script and the options beside it ask for, as far as it matters here; the script's name is the job's."""
    options = {"job-name": Path(script).name} | parse_script(read_script(script))
    names = {"limit": "time"}
    options |= {names.get(k, k.replace("_", "-")): str(v) for k, v in asked.items() if v is not None}
    return {name: value for name, value in options.items() if name in HEARD}


def answer_options(
    settings: Settings, options: Mapping[str, str], asker: Asker, now: float, machine: Machine | None = None
) -> Said:
    """When a job that asks for this would start, if this asker submitted it now; on `machine` also as Slurm plans."""
    with open_site(settings, asker) as site:
        return _answer(settings, site, options, asker, now, machine)


def _answer(
    settings: Settings, site: Site, options: Mapping[str, str], asker: Asker, now: float, machine: Machine | None
) -> Said:
    job = request(options, site, asker.name or "", now)
    clock = forecaster(settings, site, now)
    prediction = clock.wait(job)
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
        **as_values(prediction),
        "method": method,
        "as_of": now,
    }
    answer = answers.start_answer(row, now)
    answer["reason_in_words"] = f"if submitted: {answer['reason_in_words']}" if reason else "not submitted"
    least = settings["least_users"] if site.private else 1
    since = now - answers.TRACK_RECORD_S
    record = answers.track_record(site.reader, site.cluster, str(job.partition_id), method, since, least, now)
    notes = [*staleness(site.memory, now), *clock.notes]
    notes.append(
        f"if submitted now to {job.partition_id}: {job.procs:g} processors, limit "
        f"{options.get('time', 'the partition default')}"
    )
    result = {**answer, **answers.shown(record), **advice(settings, site, options, clock, job, asker, now)}
    result |= {} if machine is None else on_machine(machine, clock, job)
    return Said({"cluster": site.cluster}, start_settings(settings, now), notes, [result])


def on_machine(machine: Machine, clock: Forecaster, job: JobRequest) -> dict[str, Any]:
    """When Slurm's two loops would start the job if everybody ran to the limit and nobody else came; NaN: never."""
    from ..predict.wait.on_nodes import start_on

    state = clock.clock.state
    found = start_on(machine, job, state, lambda each, _: each.req_time if each.req_time > 0 else math.inf)
    if isinstance(found, str):
        return {
            "simulated_start_s": math.nan,
            "simulated_wait_s": math.nan,
            "simulated_why": f"no start in sight: {found}",
        }
    start, lost = found
    why = "Slurm's two loops, everybody to the limit, nobody else comes; use before now is not known" + (
        f"; {lost} jobs are not on this machine" if lost else ""
    )
    return {"simulated_start_s": start, "simulated_wait_s": start - state.now, "simulated_why": why}


def advice(
    settings: Settings,
    site: Site,
    options: Mapping[str, str],
    clock: Forecaster,
    job: JobRequest,
    asker: Asker,
    now: float,
) -> dict[str, Any]:
    """The limit and the memory that `walltime` would advise, and what a node is likely to hold; None unknown."""
    from .limits import advise_script

    advised = advise_script(settings, site, options, asker, RISK, now, clock) or {}
    peak = clock.peak(job)
    known = peak if peak is not None and peak.levels and rests_on_jobs(peak) else None
    by_90 = given_waited(known, 0.0, (0.9,)).quantiles[0] if known is not None else None
    return {
        "advised_limit": advised.get("limit"),
        "advised_limit_s": advised.get("limit_s"),
        "advised_why": advised.get("why"),
        "advised_memory": advised.get("memory"),
        "advised_memory_kib": advised.get("memory_kib"),
        "advised_memory_why": advised.get("memory_why"),
        "likely_memory_kib": None if known is None else known.point,
        "by_90_memory_kib": by_90,
    }


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


def request(options: Mapping[str, str], site: Site, user: str, now: float) -> JobRequest:
    """What the script would ask for, with the site's defaults; account, QOS and group as the user's last job had them.

    Slurm knows a user's default account and QOS, a store only what came of them.
    """
    partitions = site.memory.get("site", {}).get("partitions", {})
    name = options.get("partition") or next((p for p, v in partitions.items() if v.get("is_default")), None)
    if partitions and name not in partitions:
        raise UsageError(f"no partition {name!r} (accepted: {', '.join(partitions)})")
    limits = partitions.get(name, {})
    limit = parse_duration(options["time"]) if "time" in options else (limits.get("default_time_s") or math.nan)
    procs, nodes = processors(options)
    last = next(iter(site.reader.ask("latest_of", cluster=site.cluster, user=user)), {})
    values = {
        **{key: last.get(key) for key in ("group_id", "account", "qos")},
        "job_id": "(test)",
        "submit_time": now,
        "req_time": limit,
        "req_procs": procs,
        "req_nodes": nodes,
        "req_mem_kib": parse_memory(options.get("mem", "")) * nodes,
        "req_gpus": gpus(options),
        "user_id": user,
        "queue_id": name,
        "partition_id": name,
        "job_name": options.get("job-name"),
        "work_dir": options.get("chdir"),
        **{key: options[key] for key in ("account", "qos") if key in options},
    }
    return as_submitted(-1, values, procs=procs)
