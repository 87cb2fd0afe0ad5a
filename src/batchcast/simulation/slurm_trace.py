"""A log's jobs on a described machine under Slurm's scheduler: what the log knows of a request, the rest assumed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cluster.machine import Machine
from ..cluster.request import NodeRequest
from ..errors import InputError
from ..events.recorded import replay
from ..predict.registry import make, parse_spec
from ..table import Trace
from ..table.memory import per_processor
from .memory_plan import MemoryPlan, has_room, is_superseded, row_of, with_second_attempts
from .schedule import Schedule
from .slurm import simulate_slurm

ASSUMED = (
    "assumed of each job: as many tasks of one processor as it has processors, on the nodes it asked for or on any;"
    " memory shared evenly; no dependency, array throttle or hold, which logs do not tell"
)


def requests_of(trace: Trace, machine: Machine, procs: str = "req") -> tuple[list[NodeRequest], dict[str, int]]:
    """The log's jobs as requests, keyed by their rows, and how many are left out, by reason.

    What the log does not know is assumed (`ASSUMED`): tasks of one processor, any nodes where it names none, the
    partition's default memory, the default partition where the log has none. A job ends at its limit at the latest.
    """
    names = {p.name: p for p in machine.partitions}
    default = machine.partition("") or machine.partitions[0]
    column = {name: trace.nominal(name).decode() for name in ("partition_id", "user_id", "account", "qos", "job_name")}
    number = {name: trace.number(name) for name in ("run_time", "req_time", "req_nodes", "req_gpus")}
    each = per_processor(trace, "req_mem_kib")
    sizes = trace.procs(procs)
    gpus = any(kind.split(":")[0] == "gpu" for group in machine.nodes for kind in group.gres)
    left = {"no run time or size": 0, "a partition that the machine does not have": 0, "larger than its partition": 0}
    jobs: list[NodeRequest] = []
    for row in range(len(trace)):
        run, size, limit = number["run_time"][row], sizes[row], number["req_time"][row]
        if not (run >= 0 and size >= 1):
            left["no run time or size"] += 1
            continue
        words = str(column["partition_id"][row] or default.name).split(",")
        parts = tuple(word for word in words if word in names)
        if not parts:
            left["a partition that the machine does not have"] += 1
            continue
        if size > max(_size(machine, names[p].nodes) for p in parts):
            left["larger than its partition"] += 1
            continue
        nodes, memory = number["req_nodes"][row], each[row]
        count = int(nodes) if nodes >= 1 else 0
        wanted = math.ceil(number["req_gpus"][row] / max(count, 1)) if number["req_gpus"][row] > 0 else 0
        who, account, qos, name = (str(column[c][row] or "") for c in ("user_id", "account", "qos", "job_name"))
        jobs.append(
            NodeRequest(
                str(row),
                float(trace.submit_time[row]),
                float(min(run, limit) if limit > 0 else run),
                float(limit) if limit > 0 else math.nan,
                who,
                account,
                parts,
                qos,
                name,
                max(count, 1),
                count,
                int(size),
                mem_per_cpu=float(memory / 1024) if memory > 0 else math.nan,
                gres={"gpu": wanted} if gpus and wanted else {},
            )
        )
    return jobs, left


def simulate_on(
    machine: Machine,
    trace: Trace,
    runtime: str = "requested",
    *,
    procs: str = "req",
    memory: MemoryPlan | None = None,
    clock: Callable[[], float] | None = None,
    tick: Callable[[int], None] | None = None,
) -> Schedule:
    """The schedule of a log's jobs on the machine under Slurm's two loops, planned with `runtime`.

    `requested` plans with limits, `actual` with true run times; any other predictor with what it forecast on the
    recorded clock, never more than the limit. `memory` places jobs by other memory than they asked: one that runs out
    is run again, and its start is that of the second attempt; jobs that could never run as they asked are left out, so
    that the same jobs run. Cycles between which nothing changed are skipped. InputError when no job fits the machine.
    """
    jobs, left = requests_of(trace, machine, procs)
    if not jobs:
        raise InputError(f"no job of {trace.info.source} fits the machine: {left}", hint="batchcast machine show FILE")
    if memory is not None:
        fitting = [r for r in jobs if has_room(machine, r)]
        left["as asked they need more memory than there is"] = len(jobs) - len(fitting)
        jobs = with_second_attempts(fitting, memory)
    plan = _plan(trace, machine, runtime, procs)
    before = clock() if clock is not None else math.nan
    schedule = simulate_slurm(machine, jobs, plan=plan, lazy=1, tick=tick)
    took = clock() - before if clock is not None else math.nan
    kept = ~np.isnan(schedule.start)
    rows = np.array([row_of(r) for r in schedule.requests], dtype=np.int64)
    if memory is not None:
        kept &= ~is_superseded(schedule.requests, memory)
    left = {**left, "never started: no node, limit or reservation lets it": len(set(rows.tolist())) - int(kept.sum())}
    limits = np.array([r.limit for r in schedule.requests])
    order = np.argsort(rows[kept], kind="stable")

    def take(values: Any) -> np.ndarray:
        chosen: np.ndarray = np.asarray(values)[kept][order]
        return chosen

    notes = (ASSUMED, *((f"not modelled: {', '.join(schedule.left_out)}",) if schedule.left_out else ()))
    return Schedule(
        take(rows), trace.job_id[take(rows)], take(schedule.submit), take(schedule.start),
        take(schedule.start + schedule.run),
        take([r.cpus for r in schedule.requests]), take(np.where(np.isnan(limits), schedule.run, limits)),
        take(schedule.backfilled), machine.cpus, 0, left, notes, took,
    )  # fmt: skip


def _plan(trace: Trace, machine: Machine, runtime: str, procs: str) -> Callable[[NodeRequest], float] | None:
    name = parse_spec(runtime)[0]
    if name == "requested":
        return None
    if name == "actual":
        return lambda r: r.run
    predictor: Any = make("runtime", runtime, max_procs=float(machine.cpus))
    points = replay(trace, {"it": predictor}, procs=procs, total=float(machine.cpus))["it"].points
    return lambda r: float(points[row_of(r)])


def _size(machine: Machine, nodes: tuple[str, ...]) -> int:
    inside = set(nodes)
    return sum(group.cpus * sum(name in inside for name in group.names) for group in machine.nodes)
