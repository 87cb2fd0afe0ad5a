# SPDX-License-Identifier: Apache-2.0
"""What each job asked for and used, a line a job, from accounting alone: no store, no model.

Processor time and GPUs are read as seff and reportseff read them, memory by the busiest node (`formats.memory`); the
advice is `usage`'s. The door is `ask_slurm` or `read_table` for the jobs, then `folded`, `by_month`, `advice` for what
is shown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from ...errors import BatchcastError, InputError
from ...formats.memory import STEP_FIELDS, peak
from ...formats.slurm.resources import parse_tres
from ...formats.slurm.squeue import epoch, parse_marked, with_steps
from ...metrics.beside import Axis, Beside, Waited, beside
from ...slurm.transport import MARK, Transport
from ...units import parse_duration, parse_memory, span
from .advice import RISK, Rules, as_request, request_for
from .track_record import median
from .usage import LEAST_JOBS, LEAST_WASTE, on_size, on_time

FIELDS = tuple(
    dict.fromkeys(
        (
            "JobID", "User", "Account", "Partition", "QOS", "State", "Submit", "Eligible", "Start", "End", "ElapsedRaw",
            "TimelimitRaw", "ReqCPUS", "AllocCPUS", "TotalCPU", "ReqMem", "AllocTRES", *STEP_FIELDS, "JobName",
        )
    )
)  # fmt: skip
"""What is asked of sacct(1), with the rows of steps. JobName is the last, so that a name may hold the delimiter."""
COMMAND = f"sacct -P -o {','.join(FIELDS)}"
GROUPS = {"account": "--accounts", "partition": "--partition"}
"""sacct's options for the jobs of a group. No version takes `--partitions`."""
_GIB = 1024.0**2
AXES = {"--time": Axis.LIMIT, "--exclusive": Axis.PROCESSORS, "--mem": Axis.MEMORY}
MOST_TOLD = 10
"""So many kinds of jobs are printed, and are set beside the others."""


@dataclass(frozen=True, slots=True)
class JobUse:
    """One job or one folded array. Seconds, KiB, shares of what was asked (1: all of it); NaN where unknown.

    `tasks` is how many tasks of an array the row stands for; then amounts are sums and shares those of the sums, but
    memory is that of the largest task and `elapsed_s`, `limit_s` and `waited_s` are medians.
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
    tasks: int = 1

    @property
    def time_share(self) -> float:
        """Elapsed of the limit."""
        return self.elapsed_s / self.limit_s if self.limit_s > 0 else math.nan

    @property
    def processor_share(self) -> float:
        """Processor time used of processors held times the time they were."""
        held = self.processors * self.elapsed_s * (self.tasks if self.tasks > 1 else 1)
        return self.processor_s / held if held > 0 else math.nan

    @property
    def memory_share(self) -> float:
        """The peak of memory of what was asked."""
        return self.memory_kib / self.memory_asked_kib if self.memory_asked_kib > 0 else math.nan

    def row(self) -> dict[str, Any]:
        """The job as one flat object, its shares with it."""
        shares = {name: getattr(self, name) for name in ("time_share", "processor_share", "memory_share")}
        return {**asdict(self), **shares}


def ask_slurm(transport: Transport, which: Sequence[str], since: float, until: float) -> tuple[list[JobUse], int]:
    """The jobs that sacct knows of (--user=NAME, --jobs=1,2) from `since` to `until`, and the number of broken rows.

    One question. Jobs that have not started are left out.
    """
    spans = [f"--starttime=uts{since:.0f}"] if math.isfinite(since) else []
    spans += [f"--endtime=uts{until:.0f}"] if math.isfinite(until) else []
    form = ("--parsable", "--noheader", f"--delimiter={MARK}", "--format=" + ",".join(FIELDS))
    answer = transport.ask(("sacct", *which, *spans, *form))
    records, broken = parse_marked(answer.text, answer.mark, FIELDS)
    jobs, bad = _jobs(records, answer.asked_at)
    return jobs, broken + bad


def read_table(text: str, source: str) -> tuple[list[JobUse], int]:
    """The same from a file that `COMMAND` printed; the header names the columns, any further ones are passed over.

    InputError where JobID, State or ElapsedRaw is not among them.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    first = next((k for k, line in enumerate(lines) if "JobID" in line.split("|")), 0)  # below any warnings
    lines = lines[first:]
    names = lines[0].split("|") if lines else []
    if missing := [name for name in ("JobID", "State", "ElapsedRaw") if name not in names]:
        what = f"line {first + 1} names no column {', '.join(missing)} (accepted: what sacct -P prints)"
        raise InputError(f"{source}: {what}", hint=f"{COMMAND} > jobs.txt")
    cells = [line.split("|", len(names) - 1) for line in lines[1:]]
    records = [{**dict.fromkeys(FIELDS, ""), **dict(zip(names, row))} for row in cells if len(row) == len(names)]
    jobs, bad = _jobs(records, math.nan)
    return jobs, bad + len(cells) - len(records)


def _jobs(records: Iterable[Mapping[str, str]], now: float) -> tuple[list[JobUse], int]:
    jobs, bad = [], 0
    for job, steps in with_steps(records):
        try:
            one = _of_job(job, steps, now)
        except (BatchcastError, ValueError):
            bad += 1
            continue
        if one is not None:
            jobs.append(one)
    return jobs, bad


def _of_job(job: Mapping[str, str], steps: Sequence[Mapping[str, str]], now: float) -> JobUse | None:
    """One job's rows; None where it never started; ValueError where the first is no job's."""
    if not job["JobID"][:1].isdigit():
        raise ValueError(job["JobID"])
    submit, eligible, start, end = (_instant(job[name]) for name in ("Submit", "Eligible", "Start", "End"))
    elapsed = float(job["ElapsedRaw"] or "nan")
    if job["State"].startswith("PENDING") or not elapsed >= 0 or (math.isnan(start) and elapsed == 0):
        return None
    tres = parse_tres(job["AllocTRES"])
    nodes = float(tres.get("node") or job["NNodes"] or 1)
    processors = float(job["AllocCPUS"] or tres.get("cpu") or 0)
    asked = parse_memory(tres["mem"]) if tres.get("mem") else _asked(job["ReqMem"], nodes, processors)
    minutes = job["TimelimitRaw"]
    limit = 60.0 * float(minutes) if minutes.isdigit() else _bounded(job.get("Timelimit", ""))
    gpus, busy = _gpus(tres, steps)
    return JobUse(
        job["JobID"], job["JobName"], job["User"], job["Account"], job["Partition"], job["QOS"],
        job["State"].split(" ")[0], submit, end if end == end else now, start - submit,
        start - (eligible if eligible > submit else submit), elapsed, limit,
        float(job["ReqCPUS"] or "nan"), processors, nodes, parse_duration(job["TotalCPU"] or "Unknown"),
        asked, peak(steps).node_kib * nodes, gpus, busy,
    )  # fmt: skip


def _bounded(text: str) -> float:
    """Seconds of a limit as sacct's Timelimit prints it; NaN where there is none."""
    seconds = parse_duration(text)
    return seconds if math.isfinite(seconds) else math.nan


def _instant(text: str) -> float:
    """Epoch seconds of a time as sacct prints it: seconds, or local ISO 8601."""
    seconds = epoch(text)
    if math.isnan(seconds) and "T" in text:
        seconds = datetime.fromisoformat(text).timestamp()
    return seconds


def _asked(text: str, nodes: float, processors: float) -> float:
    """KiB of ReqMem of a whole job: Slurm before 21.08 writes n or c after an amount a node or a processor."""
    if text in ("", "0", "?"):
        return math.nan
    times = {"n": nodes, "c": processors}.get(text[-1], 1.0)
    return parse_memory(text.rstrip("nc")) * times


def _gpus(tres: Mapping[str, str], steps: Sequence[Mapping[str, str]]) -> tuple[float, float]:
    """How many GPUs a job held, and how busy they were: the busiest step's `gres/gpuutil`, percent summed over GPUs."""
    gpus = float(tres.get("gres/gpu", 0) or 0)
    gpu_use = [parse_tres(step["TRESUsageInTot"]).get("gres/gpuutil", "") for step in steps]
    percent = [float(value) for value in gpu_use if re.fullmatch(r"\d+(\.\d*)?", value)]
    return gpus, min(max(percent) / 100 / gpus, 1.0) if percent and gpus else math.nan


def folded(jobs: Sequence[JobUse]) -> list[JobUse]:
    """Tasks of one array in one row, in the place of the first; a job of its own stays as it is.

    >>> blank = dict.fromkeys(JobUse.__dataclass_fields__, 1.0) | {"state": "COMPLETED", "tasks": 1}
    >>> rows = folded([JobUse(**(blank | {"job_id": name})) for name in ("7_1", "7_2", "8")])
    >>> [(row.job_id, row.tasks, row.processor_s) for row in rows]
    [('7_[2]', 2, 2.0), ('8', 1, 1.0)]
    """
    arrays: dict[str, list[JobUse]] = {}
    for job in jobs:
        arrays.setdefault(job.job_id.partition("_")[0] if "_" in job.job_id else job.job_id, []).append(job)
    return [tasks[0] if len(tasks) == 1 else _fold(name, tasks) for name, tasks in arrays.items()]


def _fold(name: str, tasks: Sequence[JobUse]) -> JobUse:
    states = [task.state for task in tasks]
    worst = max(set(states), key=lambda state: (state != "COMPLETED", states.count(state), state))
    held = [task.processors * task.elapsed_s for task in tasks]
    elapsed = _middle(task.elapsed_s for task in tasks)
    shares = [task.gpu_share for task in tasks if task.gpu_share == task.gpu_share]
    return replace(
        tasks[0],
        job_id=f"{name}_[{len(tasks)}]",
        state=worst if states.count(worst) == len(states) else f"{worst} {states.count(worst)}",
        waited_s=_middle(task.waited_s for task in tasks),
        eligible_wait_s=_middle(task.eligible_wait_s for task in tasks),
        elapsed_s=elapsed,
        limit_s=_middle(task.limit_s for task in tasks),
        processors=sum(held) / (elapsed * len(tasks)) if elapsed > 0 else tasks[0].processors,
        processor_s=math.fsum(task.processor_s for task in tasks if task.processor_s == task.processor_s),
        memory_kib=max((t.memory_kib for t in tasks if t.memory_kib == t.memory_kib), default=math.nan),
        end_time=max(task.end_time for task in tasks),
        gpu_share=sum(shares) / len(shares) if shares else math.nan,
        tasks=len(tasks),
    )


def _middle(values: Iterable[float]) -> float:
    """The median of what is known."""
    return median(value for value in values if value == value)


def by_month(jobs: Sequence[JobUse], by: str, zone_month: Any) -> list[dict[str, Any]]:
    """A row for each month and each `by` (user, account, partition), months in order, the most used first.

    `zone_month` gives the month of an instant as `2026-10`. Shares are of sums over jobs that tell both parts.
    """
    keyed = sorted(((zone_month(job.end_time), getattr(job, by) or "-", job) for job in jobs), key=lambda k: k[:2])
    rows = []
    for (month, name), group in groupby(keyed, key=lambda k: k[:2]):
        of = [job for _, _, job in group]
        rows.append({"month": month, by: name, **totals(of)})
    return sorted(rows, key=lambda r: (r["month"], -r["processor_hours"], r[by]))


def totals(jobs: Sequence[JobUse]) -> dict[str, Any]:
    """What jobs used together: core-hours, shares of sums over jobs that tell both parts, how many were cut off."""
    return {
        "jobs": len(jobs),
        "processor_hours": math.fsum(j.processors * j.elapsed_s for j in jobs) / 3600,
        "processor_share": _share([(j.processor_s, j.processors * j.elapsed_s) for j in jobs]),
        "time_share": _share([(j.elapsed_s * j.processors, j.limit_s * j.processors) for j in jobs]),
        "memory_share": _share([(j.memory_kib * j.elapsed_s, j.memory_asked_kib * j.elapsed_s) for j in jobs]),
        "timeouts": sum(job.state == "TIMEOUT" for job in jobs),
        "out_of_memory": sum(job.state == "OUT_OF_MEMORY" for job in jobs),
        "median_wait_s": _middle(j.waited_s for j in jobs),
    }


def _share(pairs: Sequence[tuple[float, float]]) -> float:
    known = [(used, asked) for used, asked in pairs if used == used and 0 < asked < math.inf]
    asked = math.fsum(a for _, a in known)
    return math.fsum(u for u, _ in known) / asked if asked else math.nan


def advice(jobs: Sequence[JobUse], floor: float, step: float, memory_step: float) -> list[dict[str, Any]]:
    """What to change, by user and job name, the greatest waste first: `usage`'s rules for time and size, and memory.

    `--mem` is named where five jobs or more asked for at least twice what 95 % of them need a node
    (`recommend_limit`, with the margin for samples that miss a peak). Processor-hours; memory in GiB-hours. The first
    `MOST_TOLD` say what jobs waited that asked for so little (`metrics.beside`), where these jobs can tell.
    """
    found: list[dict[str, Any]] = []
    ended = sorted((j for j in jobs if j.state not in ("RUNNING", "SUSPENDED")), key=lambda j: (j.user, j.job_name))
    for (user, name), group in groupby(ended, key=lambda j: (j.user, j.job_name)):
        of = list(group)
        if len(of) < LEAST_JOBS:
            continue
        rows = [
            {
                "req_time": j.limit_s, "start_time": 0.0, "end_time": j.elapsed_s,  # a table may have no instants
                "alloc_procs": j.processors, "req_procs": j.asked_processors if j.asked_processors > 0 else None,
                "status": j.state.lower(),
            }
            for j in of
        ]  # fmt: skip
        each = [on_time(rows, floor, step), on_size(rows), _on_memory(of, memory_step)]
        found += [{"user": user, "job_name": name, "jobs": len(of), **one} for one in each if one]
    found.sort(key=lambda one: -one["wasted_processor_hours"])
    _add_waits(found[:MOST_TOLD], ended)
    return [{"waited": "", "waited_less_s": math.nan, **one} for one in found]


def _add_waits(found: Sequence[dict[str, Any]], jobs: Sequence[JobUse]) -> None:
    """To each advice what `beside` says, as a sentence and its figures."""
    each = [(job.user, job.job_name, _waited(job)) for job in jobs if job.eligible_wait_s >= 0]
    every = [one for _, _, one in each]
    for advised in found:
        axis = AXES[advised["flag"]]
        kind = [one for user, name, one in each if (user, name) == (advised["user"], advised["job_name"])]
        found_beside = beside(kind, every, axis, advised["advised"])
        if found_beside is not None:
            advised |= {f"waited_{name}": value for name, value in found_beside._asdict().items()}
            advised["waited"] = in_words(found_beside, axis, advised["advised"])


def in_words(found: Beside, axis: Axis, advised: float) -> str:
    """The sentence beside an advice.

    >>> in_words(Beside("main", 1500.0, 600.0, 3000.0, 40, 9), Axis.LIMIT, 3600.0)
    'on the same days 40 jobs like these on main that asked for 30 min to 1 h
    waited 25 min less (10 min to 50 min, 9 days)'
    """
    say = (span, lambda n: f"{n:g} processors", as_request)[axis]
    low, high = sorted((abs(found.low_s), abs(found.high_s)))
    how = "less" if found.less_s > 0 else "longer"
    return (
        f"on the same days {found.jobs} jobs like these on {found.queue or '-'} that asked for {say(advised / 2)} to "
        f"{say(advised)} waited {span(abs(found.less_s))} {how} ({span(low)} to {span(high)}, {found.days} days)"
    )


def _waited(job: JobUse) -> Waited:
    queue = job.partition + (f" with QOS {job.qos}" if job.qos not in ("", "normal") else "")
    asked = (job.limit_s, job.processors, job.memory_asked_kib / job.nodes)
    return Waited(job.submit_time, queue, job.eligible_wait_s, asked)


def _on_memory(jobs: Sequence[JobUse], step: float) -> dict[str, Any] | None:
    measured = [j for j in jobs if j.memory_kib > 0 and j.memory_asked_kib > 0]
    if len(measured) < LEAST_JOBS:
        return None
    held, rules = [j.memory_kib / j.nodes for j in measured], Rules(memory_floor=step, memory_step=step)
    best = request_for(held, [j.state == "OUT_OF_MEMORY" for j in measured], RISK, rules, math.inf).limit_s
    asked = _middle(j.memory_asked_kib / j.nodes for j in measured)
    spare = math.fsum(max(j.memory_asked_kib - best * j.nodes, 0) * j.elapsed_s for j in measured) / _GIB / 3600
    if asked < LEAST_WASTE * best or spare < 1:
        return None
    words = f"asks {as_request(asked)} and holds {as_request(_middle(j.memory_kib / j.nodes for j in measured))}"
    enough = f"{words} a node: --mem={as_request(best)} would have been enough for 95 %"
    return {
        "flag": "--mem",
        "cut_off": 0,
        "advised": best,
        "wasted_processor_hours": 0.0,
        "wasted_gib_h": spare,
        "advice": enough,
    }
