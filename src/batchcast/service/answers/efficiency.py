# SPDX-License-Identifier: Apache-2.0
"""Reads what each job requested and used, from one query to sacct or from log files, and summarizes it: one line per
array, totals by month, and advice on requests.

Processor time and GPU use are computed as seff and reportseff compute them; memory is the amount used on the node with
the largest use (`formats.memory`). Log files are read by `trace.read`, as in all commands. The query to sacct is
processed without numpy, because every import is slow on a login node. The rules of the advice come from `usage`.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count, groupby
from typing import Any

from ...errors import BatchcastError
from ...formats.memory import STEP_FIELDS, peak, requested
from ...formats.sighting import never_ran
from ...formats.slurm.resources import gpu_type, parse_tres, tres_gpus
from ...formats.slurm.sbatch import as_request
from ...formats.slurm.squeue import epoch, parse_marked, with_steps
from ...metrics.smaller_requests import Axis, WaitDifference, Waited, compare_smaller_requests
from ...slurm.transport import MARK, Transport
from ...units import parse_duration, parse_memory, span
from .advice import LEAST_JOBS, RISK, MemoryNeed, Rules, request_for
from .track_record import median
from .usage import GIB, LEAST_WASTE, on_size, on_time, suggestion

_FIELDS = (
    "JobID User Account Partition QOS State Submit Eligible Start End ElapsedRaw TimelimitRaw ReqCPUS AllocCPUS "
    "TotalCPU ReqMem AllocTRES"
)
FIELDS = tuple(dict.fromkeys((*_FIELDS.split(), *STEP_FIELDS, "NodeList", "ConsumedEnergyRaw", "Cluster", "JobName")))
"""The fields in the query to sacct(1), for jobs and their steps."""
GROUPS = {"account": "--accounts", "partition": "--partition"}
"""sacct's options for the jobs of a group. No version takes `--partitions`."""


@dataclass(frozen=True, slots=True)
class JobUse:
    """The request and use of one job or one whole array: seconds, KiB, and shares of the request (0 to 1); NaN if
    unknown.

    `tasks` is the number of array tasks in the row. In a row of several tasks, `processor_s` and `energy_kwh` are sums,
    memory is the largest amount of any task, and `elapsed_s`, `limit_s` and `waited_s` are medians. `gpu_memory_kib` is
    the total GPU memory that the job's busiest step used. `energy_kwh` is the energy that Slurm measured on the job's
    nodes.
    """

    job_id: str
    job_name: str
    user: str
    account: str
    partition: str
    qos: str
    state: str
    submit_time: float
    end_time: float
    waited_s: float
    eligible_wait_s: float
    elapsed_s: float
    limit_s: float
    asked_processors: float
    processors: float
    nodes: float
    processor_s: float
    memory_asked_kib: float
    memory_kib: float
    gpus: float
    gpu_share: float
    cluster: str = ""
    tasks: int = 1
    gpu_memory_kib: float = math.nan
    gpu_type: str = ""
    energy_kwh: float = math.nan

    @property
    def time_share(self) -> float:
        """Elapsed time as a share of the limit."""
        return self.elapsed_s / self.limit_s if self.limit_s > 0 else math.nan

    @property
    def processor_share(self) -> float:
        """Used processor time as a share of allocated processors times elapsed time."""
        held = self.processors * self.elapsed_s * max(self.tasks, 1)
        return self.processor_s / held if held > 0 else math.nan

    @property
    def memory_share(self) -> float:
        """Peak memory as a share of the request."""
        return self.memory_kib / self.memory_asked_kib if self.memory_asked_kib > 0 else math.nan

    def row(self) -> dict[str, Any]:
        """Return this row as one flat object that also has the used shares of the requests."""
        shares = {name: getattr(self, name) for name in ("time_share", "processor_share", "memory_share")}
        return {**asdict(self), **shares}


def ask_slurm(transport: Transport, which: Sequence[str], since: float, until: float) -> tuple[list[JobUse], int]:
    """Return the jobs in sacct (--user=NAME, --jobs=1,2) between `since` and `until`, and the number of broken rows.

    One query reads the jobs. Jobs that never ran are left out.
    """
    spans = [f"--starttime=uts{since:.0f}"] if math.isfinite(since) else []
    spans += [f"--endtime=uts{until:.0f}"] if math.isfinite(until) else []
    form = ("--parsable", "--noheader", f"--delimiter={MARK}", "--format=" + ",".join(FIELDS))
    answer = transport.ask(("sacct", *which, *spans, *form))
    records, broken = parse_marked(answer.text, answer.mark, FIELDS)
    jobs = []
    for job, steps in with_steps(records):
        try:
            jobs.append(_of_job(job, steps, answer.asked_at))
        except (BatchcastError, ValueError):
            broken += 1
    return [job for job in jobs if job is not None], broken + answer.refused


def _of_job(job: Mapping[str, str], steps: Sequence[Mapping[str, str]], now: float) -> JobUse | None:
    """Return the row of one job; None if it never ran. Raises ValueError if the row is no record of a job, or if its
    run time is negative.
    """
    submit, eligible, start, end = (epoch(job[name]) for name in ("Submit", "Eligible", "Start", "End"))
    elapsed = float(job["ElapsedRaw"] or "nan")
    if not job["JobID"][:1].isdigit() or elapsed < 0:
        raise ValueError(job["JobID"])
    # If a job is cancelled in the queue, Slurm records the time of the cancellation as its start time.
    had_no_nodes = not elapsed > 0 and job["NodeList"] in ("", "None assigned")
    if job["State"].startswith("PENDING") or math.isnan(elapsed) or never_ran(start, had_no_nodes):
        return None
    tres = parse_tres(job["AllocTRES"])
    nodes = float(tres.get("node") or job["NNodes"] or 1)
    processors = float(job["AllocCPUS"] or tres.get("cpu") or 0)
    asked = parse_memory(tres.get("mem", ""))
    if math.isnan(asked):
        asked = requested(job["ReqMem"], nodes=nodes, procs=processors)
    gpus, limit = tres_gpus(job["AllocTRES"]), job["TimelimitRaw"]  # minutes, or a word if the job has no limit
    eligible = max(eligible, submit) if eligible == eligible else submit
    return JobUse(
        job["JobID"], job["JobName"], job["User"], job["Account"], job["Partition"], job["QOS"],
        job["State"].split(" ")[0], submit, end if end == end else now, _wait(start - submit),
        _wait(start - eligible), elapsed, 60.0 * float(limit) if limit.isdigit() else math.nan,
        float(job["ReqCPUS"] or "nan"), processors, nodes, parse_duration(job["TotalCPU"] or "Unknown"),
        asked, peak(steps).node_kib * nodes, gpus if gpus > 0 else 0.0, _gpu_share(gpus, steps), job["Cluster"],
        gpu_memory_kib=_gpu_memory(steps), gpu_type=gpu_type(job["AllocTRES"]), energy_kwh=_energy(steps),
    )  # fmt: skip


def _wait(seconds: float) -> float:
    """Return a queue wait; NaN if it is negative, because a job cannot start before its submission."""
    return seconds if seconds >= 0 else math.nan


def _gpu_share(gpus: float, steps: Sequence[Mapping[str, str]]) -> float:
    """Return the busiest step's share of the job's GPUs, from `gres/gpuutil` (percent, summed over GPUs); NaN if
    unknown.
    """
    gpu_use = [parse_tres(step["TRESUsageInTot"]).get("gres/gpuutil", "") for step in steps]
    percent = [float(value) for value in gpu_use if re.fullmatch(r"\d+(\.\d*)?", value)]
    return min(max(percent) / 100 / gpus, 1.0) if percent and gpus > 0 else math.nan


def _energy(steps: Sequence[Mapping[str, str]]) -> float:
    """Return the energy (kWh) of the step with the largest measurement; NaN if no step has one.

    Slurm reads the energy counters of whole nodes. So a job's batch step and the steps inside it measure the same
    energy, and a sum would count it twice. Without an energy plug-in (AcctGatherEnergyType in slurm.conf) every step
    reports 0.
    """
    joules = [float(step["ConsumedEnergyRaw"]) for step in steps if step["ConsumedEnergyRaw"].isdigit()]
    return max(joules) / 3.6e6 if any(joules) else math.nan


def _gpu_memory(steps: Sequence[Mapping[str, str]]) -> float:
    """Return the largest GPU memory (KiB) that a step used, from `gres/gpumem` (summed over GPUs); NaN if unknown."""
    used = (parse_memory(parse_tres(step["TRESUsageInTot"]).get("gres/gpumem", "")) for step in steps)
    return max(_not_nan(used), default=math.nan)


def of_logs(
    paths: Sequence[str], timezone: str, cluster: str | None = None, column_map: str | None = None
) -> tuple[list[JobUse], list[str]]:
    """Read the jobs that ran from one log file or several, of any supported format.

    Times without a time zone are in `timezone`, or in the time zone of the column map. With `cluster`, only that
    cluster's jobs are read. Returns the jobs, and notes on values that the reader repaired and records that it left
    out. Raises InputError as `trace.read.read_trace` does.
    """
    import numpy as np

    from ...trace.read import read_trace

    log = read_trace(paths if len(paths) > 1 else paths[0], timezone=None if column_map else timezone,
                     map=column_map, cluster=cluster or ())  # fmt: skip
    ran = _of_trace(log.take(np.flatnonzero(log.run_time >= 0)))
    dropped = {rule: count for rule, count in log.info.dropped.items() if count and not rule.startswith(_SILENT)}
    notes = [*log.info.notes, *(f"{count} records left out ({rule})" for rule, count in dropped.items())]
    if len(ran) < len(log):
        notes.append(f"{len(log) - len(ran)} jobs are not shown: they never ran, or had not ended")
    return ran, notes


_SILENT = ("job step (only jobs count)", "broken line")
"""Reasons for leaving out records that need no note: the reader's own notes cover broken lines."""


def _of_trace(log: Any) -> list[JobUse]:
    """Return the jobs of a trace in which all jobs ran."""
    import numpy as np

    def names(column: str) -> list[str]:
        found = log.nominal(column)
        words = np.array([*found.categories, ""], dtype=object)
        return [str(word) for word in words[found.codes]]

    held, nodes = log.procs("alloc"), log.number("alloc_nodes")
    nodes = np.where(nodes > 0, nodes, np.where(log.number("req_nodes") > 0, log.number("req_nodes"), 1.0))
    per_processor = 1.0 if log.info.memory_per == "job" else np.where(held > 0, held, np.nan)
    start = log.submit_time + log.wait_time
    eligible = np.fmax(log.number("eligible_time"), log.submit_time)
    eligible_wait = np.where(start >= eligible, start - eligible, np.nan)
    gpus = np.nan_to_num(log.number("req_gpus"))
    columns = (
        list(map(str, log.job_id.tolist())),
        names("job_name" if "job_name" in log.names else "app_id"),
        *(names(column) for column in ("user_id", "account", "partition_id", "qos")),
        [word.upper() for word in names("status")],
        log.submit_time,
        start + log.run_time,
        log.wait_time,
        eligible_wait,
        log.run_time,
        log.req_time,
        log.number("req_procs"),
        np.nan_to_num(held),
        nodes,
        log.number("avg_cpu_time") * held,
        log.number("req_mem_kib") * per_processor,
        log.number("used_mem_kib") * per_processor,
        gpus,
        np.minimum(log.number("used_gpus") / np.where(gpus > 0, gpus, np.nan), 1.0),
        names("cluster") if "cluster" in log.names else [""] * len(log),
        [1] * len(log),
        log.number("used_gpu_mem_kib"),
        names("alloc_gpu_type") if "alloc_gpu_type" in log.names else [""] * len(log),
    )
    rows = (column.tolist() if isinstance(column, np.ndarray) else column for column in columns)
    return [JobUse(*row) for row in zip(*rows)]


AXES = {"--time": Axis.LIMIT, "--exclusive": Axis.PROCESSORS, "--mem": Axis.MEMORY}
WASTES = ("wasted_processor_hours", "wasted_gib_h", "wasted_gpu_h")
LEAST_GPU_H, LEAST_PERIOD_S, LEAST_RUN_S = 24.0, 86400.0, 600.0
"""Advice on GPUs requires this many unused GPU-hours, by jobs that ended over at least a day. Runs shorter than ten
minutes do not count, because accounting samples them too rarely.
"""
IDLE_GPUS, HALF = 0.05, 0.5
MOST_TOLD = 10
"""Number of suggestions that are printed, and whose jobs are compared with similar jobs."""


def folded(jobs: Sequence[JobUse]) -> list[JobUse]:
    """Combine the tasks of an array into one row, at the position of its first task. Other jobs are unchanged.

    The runs of a requeued job have the same id but are not tasks, so each run keeps its row. Jobs of two clusters may
    also have the same id.

    >>> blank = dict.fromkeys(JobUse.__dataclass_fields__, 1.0) | {"state": "COMPLETED", "cluster": "", "tasks": 1}
    >>> rows = folded([JobUse(**(blank | {"job_id": name})) for name in ("7_1", "7_2", "8")])
    >>> [(row.job_id, row.tasks, row.processor_s) for row in rows]
    [('7_[2]', 2, 2.0), ('8', 1, 1.0)]
    """
    arrays: dict[tuple[str, str, int], list[JobUse]] = {}
    for place, job in enumerate(jobs):
        array, is_task, _ = job.job_id.partition("_")
        arrays.setdefault((job.cluster, array, -1 if is_task else place), []).append(job)
    return [tasks[0] if len(tasks) == 1 else _fold(name, tasks) for (_, name, _), tasks in arrays.items()]


def _fold(name: str, tasks: Sequence[JobUse]) -> JobUse:
    """Return one row for the tasks of the array with the id `name`."""
    states = [task.state for task in tasks]
    worst = max(set(states), key=lambda state: (state != "COMPLETED", states.count(state), state))
    held = [task.processors * task.elapsed_s for task in tasks]
    names = ("waited_s", "eligible_wait_s", "elapsed_s", "limit_s")
    middle: dict[str, Any] = {name: _middle(getattr(task, name) for task in tasks) for name in names}
    every = middle["elapsed_s"] * len(tasks)
    shares, energy = _not_nan(task.gpu_share for task in tasks), _not_nan(task.energy_kwh for task in tasks)
    return replace(
        tasks[0],
        job_id=f"{name}_[{len({task.job_id for task in tasks})}]",
        state=worst if states.count(worst) == len(states) else f"{worst} {states.count(worst)}",
        **middle,
        processors=sum(held) / every if every > 0 else tasks[0].processors,
        processor_s=math.fsum(_not_nan(task.processor_s for task in tasks)),
        memory_kib=max(_not_nan(task.memory_kib for task in tasks), default=math.nan),
        end_time=max(task.end_time for task in tasks),
        gpu_share=sum(shares) / len(shares) if shares else math.nan,
        energy_kwh=math.fsum(energy) if energy else math.nan,
        tasks=len(tasks),
    )


def _not_nan(values: Iterable[float]) -> list[float]:
    """Return the values that are not NaN."""
    return [value for value in values if value == value]


def _middle(values: Iterable[float]) -> float:
    """Return the median of the known values."""
    return median(_not_nan(values))


def by_month(jobs: Sequence[JobUse], by: str, zone_month: Any) -> list[dict[str, Any]]:
    """Return a row for each month and each `by` (user, account, partition): months in order, then by core-hours.

    `zone_month` returns the month of an instant as `2026-10`. A share is a sum of used amounts over a sum of requested
    amounts, over the jobs for which both amounts are known.
    """
    groups = defaultdict[tuple[str, str], list[JobUse]](list)
    for job in jobs:
        groups[zone_month(job.end_time), getattr(job, by) or "-"].append(job)
    rows: list[dict[str, Any]] = [{"month": month, by: name, **totals(of)} for (month, name), of in groups.items()]
    return sorted(rows, key=lambda r: (r["month"], -r["processor_hours"], r[by]))


def totals(jobs: Sequence[JobUse]) -> dict[str, Any]:
    """Return totals over jobs: core-hours, energy, used shares of the requests, and the number of killed jobs."""
    energy = _not_nan(job.energy_kwh for job in jobs)  # of the jobs whose energy was measured
    return {
        "jobs": len(jobs),
        "energy_kwh": math.fsum(energy) if energy else math.nan,
        "energy_jobs": len(energy),
        "processor_hours": math.fsum(j.processors * j.elapsed_s for j in jobs) / 3600,
        "processor_share": _share([(j.processor_s, j.processors * j.elapsed_s) for j in jobs]),
        "time_share": _share([(j.elapsed_s * j.processors, j.limit_s * j.processors) for j in jobs]),
        "memory_share": _share([(j.memory_kib * j.elapsed_s, j.memory_asked_kib * j.elapsed_s) for j in jobs]),
        "timeouts": sum(job.state == "TIMEOUT" for job in jobs),
        "out_of_memory": sum(job.state == "OUT_OF_MEMORY" for job in jobs),
        "median_wait_s": _middle(j.waited_s for j in jobs),
    }


def _share(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the sum of used amounts over the sum of requested amounts, of the pairs in which both are known."""
    known = [(used, asked) for used, asked in pairs if used == used and 0 < asked < math.inf]
    asked = math.fsum(a for _, a in known)
    return math.fsum(u for u, _ in known) / asked if asked else math.nan


def advice(jobs: Sequence[JobUse], floor: float, step: float, memory_step: float) -> list[dict[str, Any]]:
    """Return suggestions by user and job name: on time limits and sizes (`usage`), on memory, and on GPUs.

    The suggestions for each flag are ordered by waste, the largest first, and the flags alternate, because core-hours
    and GiB-hours cannot be compared, and many people read only the first lines. `--mem` is suggested if at least five
    jobs requested at least twice what 95 % of them need per node (`recommend_limit`, with a margin because sampling
    misses peaks). The first `MOST_TOLD` suggestions also say how long jobs with smaller requests waited
    (`metrics.smaller_requests`), if there are enough of these jobs.
    """
    suggestions: list[dict[str, Any]] = []
    ended = sorted((j for j in jobs if j.state not in ("RUNNING", "SUSPENDED")), key=lambda j: (j.user, j.job_name))
    for (user, name), group in groupby(ended, key=lambda j: (j.user, j.job_name)):
        of = list(group)
        if len(of) < LEAST_JOBS:
            continue
        rows = [
            {
                "req_time": j.limit_s, "start_time": 0.0, "end_time": j.elapsed_s,  # a log may lack times
                "alloc_procs": j.processors, "req_procs": j.asked_processors if j.asked_processors > 0 else None,
                "status": j.state.lower(),
            }
            for j in of
        ]  # fmt: skip
        each = [on_time(rows, floor, step), on_size(rows), _on_memory(of, memory_step), _on_gpus(of)]
        suggestions += [{"user": user, "job_name": name, "jobs": len(of), **one} for one in each if one]
    suggestions = _by_turns(suggestions)
    _add_waits(suggestions[:MOST_TOLD], ended)
    return [{"waited": "", "waited_less_s": math.nan, **one} for one in suggestions]


def _by_turns(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Order suggestions by turns: the largest waste of each flag, then the second largest of each flag, and so on."""
    by_waste = sorted(found, key=lambda one: tuple(-one.get(name, 0.0) for name in WASTES))
    turns = defaultdict[str, Iterator[int]](count)
    return sorted(by_waste, key=lambda one: next(turns[one["flag"]]))  # `sorted` computes keys once each, in order


def _add_waits(found: Sequence[dict[str, Any]], jobs: Sequence[JobUse]) -> None:
    """Add to each suggestion how long similar jobs with the smaller request waited (`metrics.smaller_requests`)."""
    known = [job for job in jobs if job.eligible_wait_s >= 0]
    every = [_waited(job) for job in known]
    for advised in found:
        axis = AXES.get(advised["flag"])
        name = advised["user"], advised["job_name"]
        kind = [waited for job, waited in zip(known, every) if (job.user, job.job_name) == name]
        found_beside = None if axis is None else compare_smaller_requests(kind, every, axis, advised["advised"])
        if axis is not None and found_beside is not None:
            advised |= {f"waited_{name}": value for name, value in found_beside._asdict().items()}
            advised["waited"] = in_words(found_beside, axis, advised["advised"])


def in_words(difference: WaitDifference, axis: Axis, advised: float) -> str:
    """Return a sentence that compares the waits of similar jobs that requested more and less.

    >>> in_words(WaitDifference("main", 1500.0, 600.0, 3000.0, 40, 9), Axis.LIMIT, 3600.0)
    'on the same days 40 similar jobs on main that requested 30 min to 1 h
    waited 25 min less (10 min to 50 min, 9 days)'
    """
    say = (span, lambda n: f"{n:g} processors", as_request)[axis]
    low, high = sorted((abs(difference.low_s), abs(difference.high_s)))
    how = "less" if difference.less_s > 0 else "longer"
    return (
        f"on the same days {difference.jobs} similar jobs on {difference.queue or '-'} that requested "
        f"{say(advised / 2)} to {say(advised)} waited {span(abs(difference.less_s))} {how} "
        f"({span(low)} to {span(high)}, {difference.days} days)"
    )


def _waited(job: JobUse) -> Waited:
    """Return a job's wait and requests, for the comparison with similar jobs."""
    queue = job.partition + (f" with QOS {job.qos}" if job.qos not in ("", "normal") else "")
    asked = (job.limit_s, job.processors, job.memory_asked_kib / job.nodes)
    return Waited(job.submit_time, queue, job.eligible_wait_s, asked)


def _on_memory(jobs: Sequence[JobUse], step: float) -> dict[str, Any] | None:
    """Return a suggestion if jobs requested at least twice the memory that they need; else None."""
    measured = [j for j in jobs if j.memory_kib > 0 and j.memory_asked_kib > 0]
    if len(measured) < LEAST_JOBS:
        return None
    needs = [
        MemoryNeed(j.memory_kib / j.nodes, j.memory_asked_kib / j.nodes, j.state == "OUT_OF_MEMORY") for j in measured
    ]
    request = request_for(needs, RISK, Rules(memory_floor=step, memory_step=step))
    best, asked, held = request.limit_s, median(need.request_kib for need in needs), [need.peak_kib for need in needs]
    spare = math.fsum(max(j.memory_asked_kib - best * j.nodes, 0) * j.elapsed_s for j in measured) / GIB / 3600
    if asked < LEAST_WASTE * best or spare < 1 or (any(need.ran_out for need in needs) and not request.reached):
        return None
    words = f"requests {as_request(asked)} and uses {as_request(median(held))} per node: --mem={as_request(best)}"
    every = f"each of these {len(held)} jobs, the largest of which used {as_request(max(held))}"
    enough = f"{words} would have been enough for {'95 %' if request.reached else every}"
    return suggestion("--mem", best, enough, wasted_gib_h=spare)


def _on_gpus(jobs: Sequence[JobUse]) -> dict[str, Any] | None:
    """Return a suggestion if jobs left GPUs idle, requested more GPUs than were busy, or used little GPU memory."""
    measured = [j for j in jobs if j.gpus > 0 and j.gpu_share == j.gpu_share and j.elapsed_s >= LEAST_RUN_S]
    if len(measured) < LEAST_JOBS:
        return None
    ends = [j.end_time for j in measured]
    if max(ends) - min(ends) < LEAST_PERIOD_S:
        return None
    found = _idle_gpus(measured) or _on_gpu_memory(measured)
    return found if found is not None and found["wasted_gpu_h"] >= LEAST_GPU_H else None


def _idle_gpus(jobs: Sequence[JobUse]) -> dict[str, Any] | None:
    """Return a suggestion if none, or at most half, of the jobs' GPUs were busy."""
    busy = sorted(j.gpus * j.gpu_share for j in jobs)
    held, used = _middle(j.gpus for j in jobs), _middle(busy)
    need = max(math.ceil(busy[math.ceil(0.95 * len(busy)) - 1] - IDLE_GPUS), 1)
    shown = f"{held:g} GPU{'s' if held > 1 else ''}"
    if busy[-1] < IDLE_GPUS:
        unused = _gpu_hours(jobs, math.inf)
        words = f"gets {shown} and used none of them ({unused:,.0f} GPU-hours): --gpus=0, or check that the program "
        return suggestion("--gpus", 0, f"{words}finds its GPU", wasted_gpu_h=unused)
    if held > 1 and need <= HALF * held:
        words = f"gets {shown} and keeps {used:.1f} busy: --gpus={need} would have been enough for 95 %"
        unused = _gpu_hours(jobs, math.inf) - _gpu_hours(jobs, need)
        return suggestion("--gpus", need, words, wasted_gpu_h=unused)
    return None


def _gpu_hours(jobs: Sequence[JobUse], most: float) -> float:
    """Return the unused GPU-hours of these jobs if each of them had requested at most `most` GPUs."""
    return math.fsum(max(min(j.gpus, most) - j.gpus * j.gpu_share, 0.0) * j.elapsed_s for j in jobs) / 3600


def _on_gpu_memory(jobs: Sequence[JobUse]) -> dict[str, Any] | None:
    """Return a suggestion if jobs used at most half of their GPUs' memory. Accounting does not record how much memory a
    GPU has, so the suggestion requires a GPU type whose name states the memory.
    """
    known = [j for j in jobs if j.gpu_memory_kib >= 0 and math.isfinite(gpu_memory_of(j.gpu_type))]
    sizes = {gpu_memory_of(j.gpu_type) for j in known}
    if len(known) < LEAST_JOBS or len(sizes) > 1:
        return None
    size, used = sizes.pop(), max(j.gpu_memory_kib / j.gpus for j in known)
    if used > HALF * size:
        return None
    hours = math.fsum(j.gpus * j.elapsed_s for j in known) / 3600
    words = f"used at most {as_request(used)} of the {as_request(size)} of each {known[0].gpu_type}: a GPU with half "
    words += "the memory would have been enough for each"
    return suggestion("--gpus", _middle(j.gpus for j in known), words, wasted_gpu_h=hours / 2)


def gpu_memory_of(kind: str) -> float:
    """Return the memory (KiB) that the name of a GPU type states; NaN if the name does not state it.

    >>> gpu_memory_of("a100_80gb") / 1024**2, gpu_memory_of("1g.10gb") / 1024**2, gpu_memory_of("v100")
    (80.0, 10.0, nan)
    """
    found = re.search(r"(\d+)g(?:b|ib)\b", kind.lower().replace("_", " ").replace("-", " "))
    return float(found[1]) * GIB if found else math.nan
