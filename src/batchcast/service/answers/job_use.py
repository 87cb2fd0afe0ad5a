# SPDX-License-Identifier: Apache-2.0
"""Reads what each job requested and used, one row per job, from one query to sacct or from log files.

Processor time and GPU use are computed as seff and reportseff compute them; memory is the amount used on the node with
the largest use (`formats.memory`). Log files are read by `trace.read`, as in all commands. The query to sacct is
processed without numpy, because every import is slow on a login node.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import BatchcastError
from ...formats.memory import STEP_FIELDS, peak, requested
from ...formats.sighting import never_ran
from ...formats.slurm.resources import gpu_type, parse_tres, tres_gpus
from ...formats.slurm.squeue import epoch, parse_marked, with_steps
from ...slurm.transport import MARK, Transport
from ...units import parse_duration, parse_memory

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
    return max((kib for kib in used if kib == kib), default=math.nan)


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
