# SPDX-License-Identifier: Apache-2.0
"""Predicts the start of a script that is not submitted: as it is, and on other partitions, with other QOS and sizes.

`start --test --where` compares these ways to submit a script. The answer states its assumptions: on half the nodes a
job runs twice as long and requests twice the limit; on twice the nodes it runs half as long under the original limit.
The store does not know who may use a partition, so every partition is tried. Of all QOS, the store knows only the QOS
that the user's jobs have had. `start --test --chunks` finds the time limit per chunk that finishes a long computation
first.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, pvariance
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, structs, to_builtins

from ...errors import NoAnswer, UsageError
from ...events.event import Submit
from ...formats.slurm.sbatch import Request, as_request
from ...job import JobRequest
from ...machines.machine import Machine
from ...predict.conditional import chance_to_start, given_waited
from ...predict.protocol import Prediction
from ...store.place import asked_path
from ...store.rows import as_values
from ...units import counted, format_duration, parse_span
from ..settings import Settings
from . import track_record
from .advice import advise_script, rests_on_jobs
from .answer import Answer
from .disclosure import OfOthers, Site, Viewer, open_site
from .forecaster import NEVER, Forecaster, begin_condition, forecaster, gpus_of, job_of, never_starts
from .start import basis_of, spread_of, start_answer, start_settings


def answer_options(
    settings: Settings, request: Request, viewer: Viewer, now: float, machine: Machine | None = None
) -> Answer:
    """Predict when a job with this request would start if this viewer submitted it now. If `machine` is given, also
    simulate the start on that machine.
    """
    with open_site(settings, viewer, now) as site:
        clock = forecaster(site)
        job, prediction = earliest(site, request, clock, machine)
        reason, begin = begin_condition(request, now)
        method = track_record.answering_method(site.memory)
        if not reason and viewer.name and machine is None:
            from .model_store import keep_asked

            keep_asked(asked_path(settings["store"], site.cluster), job, prediction, str(method), now)
        row = {"job_id": "(test)", "partition_id": job.partition_id, "job_name": job.job_name, "reason": reason}
        times = {"submit_time": now, "eligible_time": begin, "expected_start": None, "as_of": now}
        answer = start_answer({**row, **times, "method": method, **as_values(prediction)}, now)
        answer["reason_in_words"] = f"if submitted: {answer['reason_in_words']}" if reason else "not submitted"
        record = track_record.record_of(site, str(job.partition_id))
        limit = request.options.get("time", "the partition default")
        submitted = f"if submitted now to {job.partition_id}: {job.procs:g} processors, limit {limit}"
        notes = [*(clock.notes if machine is None else ()), *gpu_notes(site, clock, job), submitted]
        fields = track_record.record_fields(record, answer["likely_wait_s"])
        result = {**answer, **fields, **script_advice(site, request, clock, job)}
        result |= {} if machine is None else on_machine(machine, clock, job)
        return site.answer(start_settings(settings, now), [result], notes)


def earliest(
    site: Site, request: Request, clock: Forecaster, machine: Machine | None = None
) -> tuple[JobRequest, Prediction]:
    """Return the job of a request in the partition of its list in which it would start first, and its wait there."""
    found, never = [], ""
    for part in request.partitions or [""]:
        in_part = request.replaced({"partition": part}) if part else request
        job = job_of(in_part, site)
        why = never_starts(site, in_part, job, clock.machine if machine is None else machine)
        never = never or why
        found += [] if why else [(job, clock.wait(job))]
    if not found:
        raise NoAnswer(f"it would never start: {never}", hint=NEVER)
    return min(found, key=lambda pair: pair[1].point)


SIMULATED = (
    "simulated with Slurm's two scheduling loops: all jobs run to their limits, and no further job arrives; "
    "past usage is unknown"
)


def on_machine(machine: Machine, clock: Forecaster, job: JobRequest) -> dict[str, Any]:
    """Simulate when Slurm's two scheduling loops would start the job if all jobs ran to their time limits and no
    further job arrived. The start is NaN if the job never starts.
    """
    from ...predict.wait.scheduler_replay import start_on

    state = clock.clock.state
    found = start_on(machine, job, state, lambda each, _: each.req_time if each.req_time > 0 else math.inf)
    start, lost = (math.nan, 0) if isinstance(found, str) else found
    why: Any = f"the job cannot start: {found}" if isinstance(found, str) else SIMULATED
    if lost:
        why = OfOthers(f"{why}; {lost} jobs are not on this machine", f"{why}; some jobs are not on this machine")
    return {"simulated_start_s": start, "simulated_wait_s": start - state.now, "simulated_why": why}


def script_advice(site: Site, request: Request, clock: Forecaster, job: JobRequest) -> dict[str, Any]:
    """Return the limit and memory that `walltime` would suggest, and the likely memory use per node; None if
    unknown.
    """
    advised = advise_script(site, request, clock) or {}
    peak = clock.peak(job)
    known = peak if peak is not None and peak.levels and rests_on_jobs(peak) else None
    names = ("limit", "limit_s", "why", "memory", "memory_kib", "memory_why")
    return {
        **{f"advised_{name}": advised.get(name) for name in names},
        "likely_memory_kib": None if known is None else known.point,
        "by_90_memory_kib": None if known is None else spread_of(known)[2],
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
NOTES_OF_WAYS = (
    f"{ASSUMED}another type of GPU is equally fast; on half the nodes or GPUs a job runs twice as long, on "
    "twice as many half as long, with the same total memory; you may use every partition shown, and the QOS "
    "that your jobs had there in 90 days",
    f"{OF_NEW_JOBS}a waiting job that is submitted again loses its position in the queue and its age",
)


Name = Annotated[
    str, Meta(pattern=r"\A([^\x00-\x20\x7f,;|&<>()'\"`$\\-][^\x00-\x20\x7f,;|&<>()'\"`$\\]*)?\Z", max_length=128)
]
"""A name that Slurm gives to a partition, a QOS or a type of GPU: one word that does not begin like an option."""


class Change(Struct, frozen=True, forbid_unknown_fields=True):
    """The difference of a way to submit a job from the job's request.

    A service sends this difference to other computers. It consists of names and numbers: a service cannot choose the
    other options of sbatch.
    """

    partition: Name = ""
    qos: Name = ""
    size: float = 1.0  # Factor of nodes, tasks and GPUs
    gpu_type: Name = ""
    limit_s: Annotated[float, Meta(ge=1.0, le=1e9)] | None = None
    memory_kib: Annotated[float, Meta(ge=1.0, le=1e12)] | None = None  # Per node

    def __post_init__(self) -> None:
        if self.size not in (0.5, 1.0, 2.0):
            raise ValueError(f"size {self.size:g} (accepted: 0.5, 1, 2)")

    @property
    def is_as_requested(self) -> bool:
        """Whether size, limit, memory and GPUs stay as requested."""
        return self == Change(self.partition, self.qos)

    @property
    def keeps_size(self) -> bool:
        """Whether the size and the type of GPU stay as requested."""
        return self.size == 1.0 and not self.gpu_type

    def applied_to(self, request: Request) -> Request | None:
        """Return the changed request; None if the job cannot have this size."""
        resized = request if self.size == 1.0 else request.with_size(self.size)
        if resized is None:
            return None
        changed = {"partition": self.partition, "qos": self.qos}
        changed |= {} if self.limit_s is None else {"time": format_duration(self.limit_s)}
        changed |= {} if self.memory_kib is None else {"mem": as_request(self.memory_kib)}
        typed = resized.with_gpu_type(self.gpu_type) if self.gpu_type else resized
        return typed.replaced({name: value for name, value in changed.items() if value})

    def words(self, request: Request, changed: Request) -> str:
        """Return what a way to submit changes, beside partition and QOS: `half the size`, `with a100`."""
        if self.size != 1.0:
            of_job = any(request.options.get(name) != changed.options.get(name) for name in ("nodes", "ntasks"))
            return f"{'half' if self.size < 1 else 'twice'} the {'size' if of_job else 'GPUs'}"
        if self.gpu_type:
            return f"with {self.gpu_type}"
        if self.limit_s is None and self.memory_kib is None:
            return AS_REQUESTED
        return "with the suggested limit" + ("" if self.memory_kib is None else " and memory")


class Way(NamedTuple):
    """One way to submit a script: the changed request and its job, and the difference in words."""

    change: Change
    request: Request
    job: JobRequest
    what: str


def answer_where(
    settings: Settings,
    request: Request,
    viewer: Viewer,
    now: float,
    by: float | None = None,
    any_size: bool = False,
    spread: bool = False,
    sent: Sequence[tuple[float, Request]] = (),
) -> Answer:
    """Return all ways to submit a script with this request, the best first.

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
        ways = placements(site, request, ask, by, any_size, spread)
        records = {part: track_record.record_of(site, part) for part in {str(way["partition"]) for way in ways}}
        for way in ways:
            wait = way["likely_start_s"] - now
            way |= track_record.record_fields(records[str(way["partition"])], wait)
        if not ways:
            never = never_starts(site, request, job_of(request, site), ask.machine) or "no partition takes such a job"
            raise NoAnswer(f"it would never start: {never}", hint=NEVER)
        notes = [*ask.notes]
        if request.gpus and not any(request.gpu_type in types for types in gpu_types(site, ask).values()):
            notes += gpu_notes(site, ask, job_of(request, site))
        if ahead:
            which = "that you submitted since the collector last read the queue"
            notes.append(f"counted as waiting ahead: {counted(ahead, 'job')} {which}")
        notes += NOTES_OF_WAYS
        shown = {**start_settings(settings, now), "by_s": by, "any_size": any_size}
        log = {"own_runs": own_runs(site), "snapshot_s": site.memory.get("snapshot_at")} if spread else {}
        return site.answer(shown, ways, notes, **log)


def check_deadline(by: float | None, now: float) -> None:
    """Raise UsageError for a deadline that has passed; both arguments are in epoch seconds."""
    if by is not None and by <= now:
        accepted = "a later time: 18:00, now+6hours, 2030-01-31T12:00"
        raise UsageError(f"--done-by: this time has passed (accepted: {accepted})")


def own_runs(site: Site) -> dict[str, list[float]]:
    """Return, by job name, the number of the viewer's completed jobs in 90 days, and mean and variance of the
    logarithms of their run times.
    """
    if site.viewer.name is None:
        return {}
    since = site.now - OWN_RUNS_SINCE_S
    logs: defaultdict[str, list[float]] = defaultdict(list)
    for row in site.reader.ask("own_runs", cluster=site.cluster, user=site.viewer.name, since=since):
        logs[row["job_name"]].append(math.log(max(row["end_time"] - row["start_time"], 1.0)))
    most = sorted(logs, key=lambda name: -len(logs[name]))[:MOST_NAMES]
    return {name: [len(logs[name]), mean := fmean(logs[name]), pvariance(logs[name], mean)] for name in most}


def _count_as_waiting(site: Site, ask: Forecaster, sent: Sequence[tuple[float, Request]]) -> int:
    """Add jobs that were submitted after the collector last read the queue to the loaded clock; return their number.

    Without these jobs, several jobs that a user submits within seconds would all be predicted to start on the same free
    processors.
    """
    seen_at = float(site.memory.get("snapshot_at") or -math.inf)
    unseen = [(at, request) for at, request in sent if at > seen_at]
    for number, (at, request) in enumerate(unseen):
        job = job_of(request, site)
        job = job._replace(row=-2 - number, job_id=f"(sent {number})", submit_time=min(at, site.now))
        ask.clock.tell(Submit(site.now, job), False)
    return len(unseen)


def placements(
    site: Site, request: Request, ask: Forecaster, by: float | None = None, any_size: bool = False, spread: bool = False
) -> list[dict[str, Any]]:
    """Return one flat object per way to submit, the best first, from a clock that is already loaded."""
    begin = begin_condition(request, site.now)[1] or site.now
    job = job_of(request, site)
    run = ask.run(job)
    results = []
    for way in _ways(site, request, job, ask):
        wait = ask.wait(way.job)
        results.append(_result(way, wait, run, begin, by))
        if spread:
            results[-1] |= {
                "begin_s": begin,
                "waits_s": list(given_waited(wait, JUST_SUBMITTED_S, SPREAD_SHARES).quantiles),
                "runs_s": run_times(run, way.job.req_time, 1.0 / way.change.size, SPREAD_SHARES),
                "change": to_builtins(way.change),
            }
    return _ordered(results, any_size)


def _ways(site: Site, request: Request, job: JobRequest, clock: Forecaster) -> Iterator[Way]:
    """Yield the ways to submit: as requested, with the suggested limit and memory, and with half and twice the size.
    Each way is tried on every partition that accepts it, with the script's QOS and with every other QOS that the user's
    jobs had there.
    """
    advised = advise_script(site, request, clock) or {}
    twice_s = job.req_time * 2 if math.isfinite(job.req_time) else None
    there = gpu_types(site, clock) if request.gpus else None
    # a script that requests no type of GPU may get any type
    others = set().union(*there.values()) - {request.gpu_type, ""} if request.gpu_type and there else ()
    suggested = Change(limit_s=advised.get("limit_s"), memory_kib=advised.get("memory_kib"))
    sizes = [Change(), *([] if suggested == Change() else [suggested]), Change(size=0.5, limit_s=twice_s),
             Change(size=2.0), *(Change(gpu_type=other) for other in sorted(others))]  # fmt: skip
    used = _qos_used(site, site.viewer.name or "")
    for size in sizes:
        for part in site.partitions or {str(job.partition_id): {}}:
            for qos in ("", *used.get(part, ())):
                change = structs.replace(size, partition=part, qos=qos)
                changed = change.applied_to(request)
                if changed is None or (qos and qos == str(job.qos or "")):
                    continue
                if there and not _has_gpus(there, part, changed.gpu_type):
                    continue
                placed = job_of(changed, site)
                if not never_starts(site, changed, placed, clock.machine):
                    yield Way(change, changed, placed, change.words(request, changed))


def gpu_types(site: Site, clock: Forecaster) -> dict[str, set[str]]:
    """Return the GPU types of each partition, in lower case: from the captured machine, or else from past requests.

    The empty text stands for GPUs without a named type. Partitions without GPUs are left out.
    """
    machine, found = clock.machine, defaultdict[str, set[str]](lambda: {""})
    if machine is None:
        for row in site.reader.ask("gpu_types_of", cluster=site.cluster, since=site.now - QOS_SINCE_S):
            found[row["partition_id"] or ""].add((row["gpu_type"] or "").lower())
        return dict(found)
    for part in machine.partitions:
        for kind, _, _ in gpus_of(machine, part.name):
            found[part.name].add(kind.lower())
    return dict(found)


def _has_gpus(there: Mapping[str, set[str]], partition: str, wanted: str) -> bool:
    """Return whether a partition has GPUs of the requested type; True if no partition is known to have them."""
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
    used: defaultdict[str, list[str]] = defaultdict(list)
    for row in site.reader.ask("qos_of", cluster=site.cluster, user=user, since=site.now - QOS_SINCE_S):
        if user and row["partition_id"] and row["qos"]:
            used[row["partition_id"]].append(row["qos"])
    return used


def _result(way: Way, wait: Prediction, run: Prediction | None, begin: float, by: float | None) -> dict[str, Any]:
    """Return one way to submit as a flat object; instants are epoch seconds."""
    job, (likely, early, late) = way.job, spread_of(wait)
    runs = run_times(run, job.req_time, 1.0 / way.change.size)
    typical = runs[len(runs) // 2] if runs else job.req_time
    done = chance_done(wait, runs, by - begin) if by is not None else math.nan
    return {
        "what": way.what,
        "same_size": way.change.keeps_size,
        "partition": job.partition_id,
        "qos": job.qos,
        "flags": way.request.flags,
        "procs": job.procs,
        "limit_s": job.req_time,
        "memory_kib": job.req_mem_kib / max(job.req_nodes, 1.0),
        "gpus": job.req_gpus,
        "gpu_type": way.request.gpu_type,
        "by_10_start_s": begin + early,
        "likely_start_s": begin + likely,
        "by_90_start_s": begin + late,
        "likely_run_s": typical,
        "likely_end_s": begin + likely + typical,
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
    most = _number_or(limit, math.inf)
    times = given_waited(run, 0.0, shares).quantiles if run.levels else (run.point,)
    return [min(s * longer, most) for s in times]


def chance_done(wait: Prediction, runs: list[float], span: float) -> float:
    """Return the probability that wait plus run time is at most `span` seconds, if both are independent; NaN if
    unknown.

    >>> chance_done(Prediction(100.0, (0.5, 1.0), (100.0, 200.0)), [50.0, 150.0], 200.0)
    0.5
    """
    if not runs or not wait.levels:
        return math.nan
    return sum(chance_to_start(wait, 0.0, span - run) if span > run else 0.0 for run in runs) / len(runs)


def _ordered(results: list[dict[str, Any]], any_size: bool) -> list[dict[str, Any]]:
    """Sort the ways to submit as `answer_where` describes."""
    ranked = [r for r in results if any_size or r["same_size"]]
    best = max((r["chance_done_by"] for r in ranked if r["chance_done_by"] == r["chance_done_by"]), default=None)

    def rank(r: dict[str, Any]) -> tuple[float, ...]:
        is_other_size, hours = not (any_size or r["same_size"]), r["core_hours"]
        if best is None:
            ends = (_number_or(r[name], math.inf) for name in ("by_90_start_s", "likely_start_s"))
            return (is_other_size, *(end + _number_or(r["likely_run_s"], 0.0) for end in ends), hours)
        chance = _number_or(r["chance_done_by"], -1.0)
        return (is_other_size, 0, hours, -chance) if chance >= best - 0.02 else (is_other_size, 1, -chance, hours)

    return sorted(results, key=rank)


def _number_or(number: float, otherwise: float) -> float:
    """Return a number, or `otherwise` if the number is NaN."""
    return number if number == number else otherwise


LENGTHS_S = tuple(3600.0 * hours for hours in (0.5, 1, 2, 4, 8, 12, 24, 48, 72, 96, 168))
MOST_CHUNKS = 200
ASSUMED_OF_CHUNKS = (
    "assumed: each chunk is submitted when the one before it ends, and waits as a chunk of its length submitted now "
    "would; all waits of one computation are equally short or long, which makes the interval wide"
)


def parse_chunks(text: str) -> tuple[float, float]:
    """Read `TOTAL,COST` as seconds: the total run time, and the time to write and read one checkpoint.

    >>> parse_chunks("5d,10m"), parse_chunks("36h,0")
    ((432000.0, 600.0), (129600.0, 0.0))
    """
    total, comma, cost = text.partition(",")
    if not comma:
        raise UsageError(f"--chunks: {text!r} (accepted: TOTAL,CHECKPOINT_COST such as 5d,10m)")
    try:
        spans = parse_span(total), 0.0 if cost.strip() == "0" else parse_span(cost)
    except UsageError as error:
        raise UsageError(f"--chunks: {error.message}") from None
    if not (0 < spans[0] < math.inf and 0 <= spans[1] < spans[0]):
        raise UsageError(f"--chunks: {text!r} (accepted: a total above 0, and a shorter time for a checkpoint)")
    return spans


def count_chunks(total: float, cost: float, length: float) -> int:
    """Return how many chunks of this length a computation needs. Each chunk except the last spends `cost` seconds on a
    checkpoint.

    >>> count_chunks(10.0, 1.0, 10.0), count_chunks(10.0, 1.0, 4.0), count_chunks(10.0, 4.0, 4.0)
    (1, 3, 0)
    """
    if length >= total:
        return 1
    return math.ceil((total - length) / (length - cost) - 1e-9) + 1 if length > cost else 0


def answer_chunks(
    settings: Settings, request: Request, viewer: Viewer, now: float, total: float, cost: float
) -> Answer:
    """Return one result per chunk length that the partition accepts, the earliest likely end first. A chunk is one job
    of a computation that continues from checkpoints.

    Each chunk is submitted when the previous chunk ends, so it waits in the queue again. A short chunk waits less than
    a long chunk, but there are more short chunks.

    `chance_first` is the share, of twenty equally likely queue waits, in which this length finishes the computation
    first.
    """
    with open_site(settings, viewer, now) as site:
        ask = forecaster(site, ("wait",))
        results: list[dict[str, Any]] = []
        ends: list[list[float]] = []
        never = ""
        for length in sorted({*(s for s in LENGTHS_S if s < total), total}):
            count = count_chunks(total, cost, length)
            if not 0 < count <= MOST_CHUNKS:
                continue
            limit = format_duration(math.ceil(length / 60) * 60)
            chunk = request.replaced({"time": limit})
            job = job_of(chunk, site)
            if why := never_starts(site, chunk, job, ask.machine):
                never = why
                continue
            wait = ask.wait(job)
            waits = given_waited(wait, JUST_SUBMITTED_S, SPREAD_SHARES).quantiles
            waits = waits or (wait.point,) * len(SPREAD_SHARES)
            ends.append([count * one + total + (count - 1) * cost for one in waits])
            results.append({"length_s": length, "limit": limit, "chunks": count, "partition": job.partition_id,
                            "likely_wait_s": wait.point, "basis": basis_of(wait)})  # fmt: skip
        if not results:
            never = never or "a checkpoint takes longer than any chunk"
            raise NoAnswer(f"no length of chunk can start: {never}", hint=NEVER)
        results = [{**one, **_chunk_ends(spread, ends, now)} for one, spread in zip(results, ends)]
        results.sort(key=lambda one: (one["likely_end_s"], one["chunks"]))
        shown = start_settings(settings, now) | {"total_s": total, "checkpoint_s": cost}
        return site.answer(shown, results, [*ask.notes, ASSUMED_OF_CHUNKS])


def _chunk_ends(spread: Sequence[float], every: Sequence[Sequence[float]], now: float) -> dict[str, float]:
    """Return the likely end, its 90 % bound, and the share of cases in which this chunk length finishes first.

    If n chunk lengths finish first at the same time, each of them gets 1/n of this case.
    """
    by_90 = sorted(spread)[math.ceil(0.9 * len(spread)) - 1]
    cases = zip(spread, zip(*every))
    first = fmean(1 / ends.count(end) if end == min(ends) else 0.0 for end, ends in cases)
    return {"likely_end_s": now + track_record.median(spread), "by_90_end_s": now + by_90, "chance_first": first}
