# SPDX-License-Identifier: Apache-2.0
"""Predicts the start of a script that is not submitted: as it is, and on other partitions, with other QOS and sizes.

`start --test --where` compares these ways to submit a script. The answer states its assumptions: on half the nodes a
job runs twice as long and requests twice the limit; on twice the nodes it runs half as long under the original limit.
The store does not know who may use a partition, so every partition is tried. Of all QOS, the store knows only the QOS
that the user's jobs have had.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from statistics import fmean, pvariance
from typing import Any, NamedTuple

from ...errors import NoAnswer, UsageError
from ...events.event import Submit
from ...formats.slurm.sbatch import GPU_OPTIONS, count_of, gpu_type_of, gpus, processors, with_gpu_share, with_gpu_type
from ...job import JobRequest
from ...machines.machine import Machine
from ...predict.conditional import chance_to_start, given_waited
from ...predict.protocol import Prediction
from ...store.place import asked_path
from ...store.rows import as_values
from ...units import counted, format_duration, parse_memory
from ..answers import track_record
from ..settings import Settings
from .advice import as_request, rests_on_jobs
from .answer import Answer, staleness
from .asked import keep_asked
from .disclosure import OfOthers, Site, Viewer, basis_of, open_site, start_settings
from .forecaster import NEVER, Forecaster, begin_condition, forecaster, never_starts, request_of
from .start import start_answer
from .walltime import advise_script


def answer_options(
    settings: Settings, options: Mapping[str, str], viewer: Viewer, now: float, machine: Machine | None = None
) -> Answer:
    """Predict when a job with these options would start if this viewer submitted it now. If `machine` is given, also
    simulate the start on that machine.
    """
    with open_site(settings, viewer, now) as site:
        job = request_of(options, site, viewer.name or "")
        clock = forecaster(site)
        if never := never_starts(site, options, job, clock.machine if machine is None else machine):
            raise NoAnswer(f"it would never start: {never}", hint=NEVER)
        prediction = clock.wait(job)
        reason, begin = begin_condition(options, now)
        method = track_record.answering_method(site.memory)
        if not reason and viewer.name and machine is None:
            keep_asked(asked_path(settings["store"], site.cluster), job, prediction, str(method), now)
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
        record = track_record.record_of(site, str(job.partition_id))
        notes = [*staleness(site.memory, now), *(clock.notes if machine is None else ())]
        notes += gpu_notes(site, clock, job)
        notes.append(
            f"if submitted now to {job.partition_id}: {job.procs:g} processors, limit "
            f"{options.get('time', 'the partition default')}"
        )
        fields = track_record.record_fields(record, answer["likely_wait_s"])
        result = {**answer, **fields, **script_advice(site, options, clock, job)}
        result |= {} if machine is None else on_machine(machine, clock, job)
        return Answer({"cluster": site.cluster}, start_settings(settings, now), notes, site.disclosed([result]))


def on_machine(machine: Machine, clock: Forecaster, job: JobRequest) -> dict[str, Any]:
    """Simulate when Slurm's two scheduling loops would start the job if all jobs ran to their time limits and no
    further job arrived. The start is NaN if the job never starts.
    """
    from ...predict.wait.scheduler_replay import start_on

    state = clock.clock.state
    found = start_on(machine, job, state, lambda each, _: each.req_time if each.req_time > 0 else math.inf)
    if isinstance(found, str):
        return {
            "simulated_start_s": math.nan,
            "simulated_wait_s": math.nan,
            "simulated_why": f"the job cannot start: {found}",
        }
    start, lost = found
    why = (
        "simulated with Slurm's two scheduling loops: all jobs run to their limits, and no further job arrives; "
        "past usage is unknown"
    )
    whole = f"{why}; {lost} jobs are not on this machine" if lost else why
    return {
        "simulated_start_s": start,
        "simulated_wait_s": start - state.now,
        "simulated_why": OfOthers(whole, f"{why}; some jobs are not on this machine" if lost else why),
    }


def script_advice(site: Site, options: Mapping[str, str], clock: Forecaster, job: JobRequest) -> dict[str, Any]:
    """Return the limit and memory that `walltime` would suggest, and the likely memory use per node; None if
    unknown.
    """
    advised = advise_script(site, options, clock) or {}
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


QOS_SINCE_S = 90 * 86400.0
RUN_SHARES = tuple(k / 20 for k in range(1, 20, 2))
SPREAD_SHARES = tuple((k + 0.5) / 20 for k in range(20))
"""Levels of the twenty equally likely waits and run times of `spread`."""
JUST_SUBMITTED_S = 1e-3
"""A wait of this many seconds, because only a job that has waited has a tail beyond the highest predicted quantile
(`predict.conditional`). Without the tail, an end could not have a 90 % bound.
"""
OWN_RUNS_SINCE_S = 90 * 86400.0
MOST_NAMES = 100


AS_REQUESTED = "as requested"
"""The name of the way to submit that changes neither size nor limit. `batchcast.clusters` uses it to compare clusters.
"""
ASSUMED, OF_NEW_JOBS = "assumed: ", "this is for a new job: "
"""Every answer about the ways to submit has one note that begins with each of these texts."""


class Placement(NamedTuple):
    """One way to submit a script: a description (`what`), sbatch options, and the assumed factor of the run time."""

    what: str
    options: dict[str, str]
    longer: float = 1.0
    is_as_asked: bool = True


def answer_where(
    settings: Settings,
    options: Mapping[str, str],
    viewer: Viewer,
    now: float,
    by: float | None = None,
    any_size: bool = False,
    spread: bool = False,
    sent: Sequence[tuple[float, Mapping[str, str]]] = (),
) -> Answer:
    """Return all ways to submit a script with these options, the best first.

    Without `by`, the best way has the earliest sum of 90 % start time and likely run time. With the deadline `by`
    (epoch seconds), the best way has the highest chance to end by then; of the ways whose chance is within 2 points of
    the highest, the way with the fewest core-hours is best. Ways with another size than the script's come last, unless
    `any_size` is set, because it is only an assumption that a program runs twice as fast on twice the nodes.

    With `spread`, each way also has twenty equally likely waits and run times, and the answer has the viewer's own run
    times by job name. `batchcast.clusters` compares several clusters with these numbers.
    """
    check_deadline(by, now)
    with open_site(settings, viewer, now) as site:
        ask = forecaster(site)
        ahead = _count_as_waiting(site, ask, sent)
        if ahead:  # the stored latest starts do not include the added jobs
            ask = ask._replace(memory={})
        ways = placements(site, options, ask, by, any_size, spread)
        records = {part: track_record.record_of(site, part) for part in {str(way["partition"]) for way in ways}}
        for way in ways:
            wait = way["likely_start_s"] - now
            way |= track_record.record_fields(records[str(way["partition"])], wait)
        results = site.disclosed(ways)
        if not results:
            asked = request_of(options, site, viewer.name or "")
            never = never_starts(site, options, asked, ask.machine) or "no partition takes such a job"
            raise NoAnswer(f"it would never start: {never}", hint=NEVER)
        notes = [*staleness(site.memory, now), *ask.notes]
        if gpus(options) and not any(gpu_type_of(options) in types for types in gpu_types(site, ask).values()):
            notes += gpu_notes(site, ask, request_of(options, site, viewer.name or ""))
        if ahead:
            notes.append(
                f"counted as waiting ahead: {counted(ahead, 'job')} that you submitted since the collector last read "
                "the queue"
            )
        notes.append(
            f"{ASSUMED}another type of GPU is equally fast; on half the nodes or GPUs a job runs twice as "
            "long, on twice as many half as long, with the same total memory; you may use every partition "
            "shown, and the QOS "
            "that your jobs had there in 90 days"
        )
        notes.append(f"{OF_NEW_JOBS}a waiting job that is submitted again loses its position in the queue and its age")
        shown = {**start_settings(settings, now), "by_s": by, "any_size": any_size}
        log: dict[str, Any] = {"cluster": site.cluster}
        if spread:
            log |= {"own_runs": own_runs(site), "snapshot_s": site.memory.get("snapshot_at")}
        return Answer(log, shown, notes, results)


def check_deadline(by: float | None, now: float) -> None:
    """Raise UsageError for a deadline that has passed; both arguments are in epoch seconds."""
    if by is not None and by <= now:
        raise UsageError(
            "--done-by: this time has passed (accepted: a later time: 18:00, now+6hours, 2030-01-31T12:00)"
        )


def own_runs(site: Site) -> dict[str, list[float]]:
    """Return, by job name, the number of the viewer's completed jobs in 90 days, and mean and variance of the
    logarithms of their run times.
    """
    if site.viewer.name is None:
        return {}
    since = site.now - OWN_RUNS_SINCE_S
    logs: dict[str, list[float]] = {}
    for row in site.reader.ask("own_runs", cluster=site.cluster, user=site.viewer.name, since=since):
        logs.setdefault(row["job_name"], []).append(math.log(max(row["end_time"] - row["start_time"], 1.0)))
    most = sorted(logs, key=lambda name: -len(logs[name]))[:MOST_NAMES]
    return {name: [len(logs[name]), mean := fmean(logs[name]), pvariance(logs[name], mean)] for name in most}


def _count_as_waiting(site: Site, ask: Forecaster, sent: Sequence[tuple[float, Mapping[str, str]]]) -> int:
    """Add jobs that were submitted after the collector last read the queue to the loaded clock; return their number.

    Without these jobs, several jobs that a user submits within seconds would all be predicted to start on the same free
    processors.
    """
    seen_at = float(site.memory.get("snapshot_at") or -math.inf)
    unseen = [(at, options) for at, options in sent if at > seen_at]
    for number, (at, options) in enumerate(unseen):
        job = request_of(options, site, site.viewer.name or "")
        job = job._replace(row=-2 - number, job_id=f"(sent {number})", submit_time=min(at, site.now))
        ask.clock.tell(Submit(site.now, job), False)
    return len(unseen)


def placements(
    site: Site,
    options: Mapping[str, str],
    clock: Forecaster,
    by: float | None = None,
    any_size: bool = False,
    spread: bool = False,
) -> list[dict[str, Any]]:
    """Return one flat object per way to submit, the best first, from a clock that is already loaded."""
    begin = begin_condition(options, site.now)[1] or site.now
    run = clock.run(request_of(options, site, site.viewer.name or ""))
    results = []
    for choice in _choices(site, options, clock):
        job = request_of(choice.options, site, site.viewer.name or "")
        wait = clock.wait(job)
        results.append(_result(choice, job, wait, run, begin, by))
        if spread:
            results[-1] |= {
                "begin_s": begin,
                "waits_s": list(given_waited(wait, JUST_SUBMITTED_S, SPREAD_SHARES).quantiles),
                "runs_s": run_times(run, job.req_time, choice.longer, SPREAD_SHARES),
            }
    return _ordered(results, any_size)


def _choices(site: Site, options: Mapping[str, str], clock: Forecaster) -> list[Placement]:
    """Return the ways to submit: as requested, with the suggested limit and memory, and with half and twice the size.
    Each way is tried on every partition that accepts it, with the script's QOS and with every other QOS that the user's
    jobs had there.
    """
    user = site.viewer.name or ""
    request = request_of(options, site, user)
    sizes = [Placement(AS_REQUESTED, dict(options))]
    if advised := _advised(site, options, clock):
        what = "with the suggested limit and memory" if "mem" in advised else "with the suggested limit"
        sizes.append(Placement(what, {**options, **advised}))
    nodes = processors(options)[1]
    for share, word in ((0.5, "half"), (2.0, "twice")):
        size = _resized(options, nodes, share)
        limit = {"time": format_duration(request.req_time * 2)} if share < 1 and math.isfinite(request.req_time) else {}
        if size:
            what = f"{word} the {'size' if {'nodes', 'ntasks'} & size.keys() else 'GPUs'}"
            memory = _memory_of_size(options, nodes, size)
            sizes.append(Placement(what, {**options, **size, **limit, **memory}, 1.0 / share, False))
    there = gpu_types(site, clock) if gpus(options) else None
    for other in _other_gpus(options, there):
        sizes.append(Placement(f"with {other}", with_gpu_type(options, other), 1.0, False))
    partitions = site.partitions or {str(request.partition_id): {}}
    used = _qos_used(site, user)
    choices = []
    for one in sizes:
        for name, qos in ((part, qos) for part in partitions for qos in ("", *used.get(part, ()))):
            if (qos == str(request.qos or "") and qos) or (there and not _has_gpus(there, name, one.options)):
                continue
            place = one._replace(options={**one.options, "partition": name, **({"qos": qos} if qos else {})})
            if not never_starts(site, place.options, request_of(place.options, site, user), clock.machine):
                choices.append(place)
    return choices


def _resized(options: Mapping[str, str], nodes: float, share: float) -> dict[str, str]:
    """Return the options for nodes, tasks and GPUs at a share of a job's size; empty if the job cannot have this size.

    >>> _resized({"nodes": "2", "ntasks": "8", "gpus": "4"}, 2.0, 0.5)
    {'nodes': '1', 'ntasks': '4', 'gpus': '2'}
    >>> _resized({"ntasks": "1", "gres": "gpu:a100:2"}, 1.0, 0.5), _resized({"ntasks": "1"}, 1.0, 0.5)
    ({'gres': 'gpu:a100:1'}, {})
    """
    if (nodes * share % 1 and nodes > 1) or "-" in options.get("nodes", ""):
        return {}
    size = {"nodes": f"{nodes * share:g}"} if nodes > 1 or (share > 1 and "nodes" in options) else {}
    tasks = count_of(options["ntasks"]) if options.get("ntasks") else 0.0
    if tasks * share >= 1:
        size["ntasks"] = str(round(tasks * share))
    return size | with_gpu_share(options, share, per_node="nodes" not in size)


def gpu_types(site: Site, clock: Forecaster) -> dict[str, set[str]]:
    """Return the GPU types of each partition, in lower case: from the captured machine, or else from past requests.

    The empty text stands for GPUs without a named type. Partitions without GPUs are left out.
    """
    found: dict[str, set[str]] = {}
    if clock.machine is not None:
        for part in clock.machine.partitions:
            names = set(part.nodes)
            kinds = {kind for group in clock.machine.nodes if names.intersection(group.names) for kind in group.gres}
            types = {kind.partition(":")[2].lower() for kind in kinds if kind.partition(":")[0] == "gpu"}
            found |= {part.name: types | {""}} if types else {}
        return found
    for row in site.reader.ask("gpu_types_of", cluster=site.cluster, since=site.now - QOS_SINCE_S):
        found.setdefault(row["partition_id"] or "", {""}).add((row["gpu_type"] or "").lower())
    return found


def _other_gpus(options: Mapping[str, str], there: Mapping[str, set[str]] | None) -> list[str]:
    """Return the other GPU types; an empty list if the script requests no type, because the job may get any type."""
    asked = gpu_type_of(options)
    return sorted(set().union(*there.values()) - {asked, ""}) if asked and there else []


def _has_gpus(there: Mapping[str, set[str]], partition: str, options: Mapping[str, str]) -> bool:
    """Return whether a partition has GPUs of the requested type; True if no partition is known to have them."""
    wanted = gpu_type_of(options)
    able = {name for name, types in there.items() if wanted in types or types == {""}}
    return not able or partition in able


def gpu_notes(site: Site, clock: Forecaster, job: JobRequest) -> list[str]:
    """Return a warning if no machine is known and no past job requested these GPUs, so that predictions ignore them."""
    if not job.req_gpus > 0 or clock.machine is not None:
        return []
    there, wanted = gpu_types(site, clock), str(job.extra.get("gpu_type") or "")
    if wanted in there.get(str(job.partition_id), ()):
        return []
    kind = f"GPUs of the type {wanted}" if wanted else "GPUs"
    others = [name for name, types in there.items() if wanted in types]
    more = f"; jobs on {', '.join(others)} did" if others else ""
    return [f"no job on {job.partition_id} requested {kind} in 90 days, so this prediction ignores them{more}"]


def _qos_used(site: Site, user: str) -> dict[str, list[str]]:
    """Return the QOS that the user's jobs had in each partition in the last 90 days."""
    rows = site.reader.ask("qos_of", cluster=site.cluster, user=user, since=site.now - QOS_SINCE_S) if user else ()
    used: dict[str, list[str]] = {}
    for row in rows:
        if row["partition_id"] and row["qos"]:
            used.setdefault(row["partition_id"], []).append(row["qos"])
    return used


def _advised(site: Site, options: Mapping[str, str], clock: Forecaster) -> dict[str, str]:
    """Return the limit and memory that `walltime` would suggest for the script, as sbatch options, or no options."""
    advised = advise_script(site, options, clock)
    if advised is None:
        return {}
    memory = {"mem": str(advised["memory"])} if advised["memory"] is not None else {}
    return {"time": str(advised["limit"]), **memory}


def _memory_of_size(options: Mapping[str, str], nodes: float, size: Mapping[str, str]) -> dict[str, str]:
    """Return `--mem` for another number of nodes with the same total memory; empty if the script requests no memory.

    >>> _memory_of_size({"mem": "4G"}, 2.0, {"nodes": "1"}), _memory_of_size({"mem": "4G"}, 1.0, {"ntasks": "2"})
    ({'mem': '8G'}, {'mem': '4G'})
    """
    kib = parse_memory(options.get("mem", ""))
    if not kib > 0:
        return {}
    return {"mem": as_request(kib * nodes / float(size.get("nodes", nodes)))}


def _result(
    choice: Placement, job: JobRequest, wait: Prediction, run: Prediction | None, begin: float, by: float | None
) -> dict[str, Any]:
    """Return one way to submit as a flat object; instants are epoch seconds."""
    given = given_waited(wait, 0.0, (0.5, 0.1, 0.9))
    early, late = given.quantiles[1:] if given.levels else (math.nan, math.nan)
    runs = run_times(run, job.req_time, choice.longer)
    typical = runs[len(runs) // 2] if runs else job.req_time
    done = chance_done(wait, runs, by - begin) if by is not None else math.nan
    return {
        "what": choice.what,
        "same_size": choice.is_as_asked,
        "partition": job.partition_id,
        "qos": job.qos,
        "flags": _flags(choice.options),
        "procs": job.procs,
        "limit_s": job.req_time,
        "memory_kib": job.req_mem_kib / max(job.req_nodes, 1.0),
        "gpus": job.req_gpus,
        "gpu_type": gpu_type_of(choice.options),
        "by_10_start_s": begin + early,
        "likely_start_s": begin + given.point,
        "by_90_start_s": begin + late,
        "likely_run_s": typical,
        "likely_end_s": begin + given.point + typical,
        "chance_done_by": done,
        "core_hours": job.procs * typical / 3600.0,
        "gpu_hours": job.req_gpus * typical / 3600.0,
        "basis": basis_of(wait),
        "grounds": wait.grounds,
    }


def run_times(
    run: Prediction | None, limit: float, longer: float = 1.0, shares: Sequence[float] = RUN_SHARES
) -> list[float]:
    """Return equally likely run times of a prediction, multiplied by `longer`, and at most the limit. Without a
    prediction, return only the limit.

    >>> run_times(None, 60.0), run_times(Prediction(10.0), 60.0, 2.0)
    ([60.0], [20.0])
    """
    if run is None:
        return [limit] if limit == limit else []
    if not run.levels:
        return [min(run.point * longer, limit) if limit == limit else run.point * longer]
    spread = given_waited(run, 0.0, shares).quantiles
    times = [s * longer if math.isfinite(s) else math.inf for s in spread]
    return [min(s, limit) if limit == limit else s for s in times]


def chance_done(wait: Prediction, runs: list[float], span: float) -> float:
    """Return the probability that wait plus run time is at most `span` seconds, if both are independent; NaN if
    unknown.

    >>> chance_done(Prediction(100.0, (0.5, 1.0), (100.0, 200.0)), [50.0, 150.0], 200.0)
    0.5
    """
    if not runs or not wait.levels:
        return math.nan
    return sum(chance_to_start(wait, 0.0, span - run) if span > run else 0.0 for run in runs) / len(runs)


def _flags(options: Mapping[str, str]) -> str:
    """Return the options for partition, QOS, size, limit, memory and GPUs as a text for sbatch's command line."""
    names = ("partition", "qos", "nodes", "ntasks", "time", "mem", "constraint", "exclusive", *GPU_OPTIONS)
    given = ((name, options[name]) for name in names if name in options)
    return " ".join(f"--{name}={shlex.quote(value)}" if value else f"--{name}" for name, value in given)


def _ordered(results: list[dict[str, Any]], any_size: bool) -> list[dict[str, Any]]:
    """Sort the ways to submit as `answer_where` describes."""
    ranked = [r for r in results if any_size or r["same_size"]]
    best = max((r["chance_done_by"] for r in ranked if r["chance_done_by"] == r["chance_done_by"]), default=None)

    def place(r: dict[str, Any]) -> tuple[float, ...]:
        size = 0.0 if any_size or r["same_size"] else 1.0
        if best is None:
            run = r["likely_run_s"] if r["likely_run_s"] == r["likely_run_s"] else 0.0
            times = (_last_if_unknown(r["by_90_start_s"]) + run, _last_if_unknown(r["likely_start_s"]) + run)
            return (size, *times, r["core_hours"])
        chance = r["chance_done_by"] if r["chance_done_by"] == r["chance_done_by"] else -1.0
        if chance >= best - 0.02:
            return (size, 0.0, r["core_hours"], -chance)
        return (size, 1.0, -chance, r["core_hours"])

    return sorted(results, key=place)


def _last_if_unknown(instant: float) -> float:
    return instant if instant == instant else math.inf
