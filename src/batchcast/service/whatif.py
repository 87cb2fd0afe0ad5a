"""Forecast for a script that was not submitted: the configured wait predictor, taught with the store's latest jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..cluster.machine import Machine
from ..formats.sbatch import HEARD, parse_script
from ..job import JobRequest
from ..predict.conditional import given_waited
from ..store.issued import as_values
from . import answers
from .access import Asker, Site, open_site, start_settings
from .advice import RISK, rests_on_jobs
from .document import Said
from .forecaster import Forecaster, apart, forecaster, read_script, request
from .limits import advise_script
from .release import start_answer
from .settings import Settings
from .staleness import staleness


def answer_script(settings: Settings, script: str, asked: dict[str, Any], now: float, viewer: Asker) -> Said:
    """The answer of `batchcast start --test`: its #SBATCH lines, overridden by what was asked for beside it."""
    return answer_options(settings, options_of(script, asked), viewer, now)


def options_of(script: str, asked: Mapping[str, Any]) -> dict[str, str]:
    """What a script and the options beside it ask for, as far as it matters here; the script's name is the job's."""
    options = {"job-name": Path(script).name} | parse_script(read_script(script))
    names = {"limit": "time"}
    options |= {names.get(k, k.replace("_", "-")): str(v) for k, v in asked.items() if v is not None}
    return {name: value for name, value in options.items() if name in HEARD}


def answer_options(
    settings: Settings, options: Mapping[str, str], viewer: Asker, now: float, machine: Machine | None = None
) -> Said:
    """When a job that asks for this would start, if this viewer submitted it now; on `machine` also as Slurm plans."""
    with open_site(settings, viewer) as site:
        return _answer(settings, site, options, viewer, now, machine)


def _answer(
    settings: Settings, site: Site, options: Mapping[str, str], viewer: Asker, now: float, machine: Machine | None
) -> Said:
    job = request(options, site, viewer.name or "", now)
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
    answer = start_answer(row, now)
    answer["reason_in_words"] = f"if submitted: {answer['reason_in_words']}" if reason else "not submitted"
    least = settings["least_users"] if site.private else 1
    since = now - answers.TRACK_RECORD_S
    record = answers.track_record(site.reader, site.cluster, str(job.partition_id), method, since, least, now)
    notes = [*staleness(site.memory, now), *clock.notes]
    notes.append(
        f"if submitted now to {job.partition_id}: {job.procs:g} processors, limit "
        f"{options.get('time', 'the partition default')}"
    )
    result = {**answer, **answers.shown(record), **advice(settings, site, options, clock, job, viewer, now)}
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
    viewer: Asker,
    now: float,
) -> dict[str, Any]:
    """The limit and the memory that `walltime` would advise, and what a node is likely to hold; None unknown."""
    advised = advise_script(settings, site, options, viewer, RISK, now, clock) or {}
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
