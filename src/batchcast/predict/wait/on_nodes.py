"""The clock's state on a described machine, simulated forward by Slurm's two loops until one job starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...cluster.asked import Asked
from ...cluster.machine import Machine
from ...cluster.request import NodeRequest
from ...events.state import SystemState
from ...job import JobRequest, Name
from ...schedule.slurm.simulate import Takes, simulate_slurm

Length = Callable[[JobRequest, SystemState], float]
LAST = "asked"
LONGEST = 1e9


def start_on(machine: Machine, job: JobRequest, at: SystemState, length: Length) -> tuple[float, int] | str:
    """The instant at which `job` would start if nobody else came, and how many jobs could not be placed; or why never.

    The job itself, where it waits already, is nobody else. Running jobs hold what they asked for, on nodes that the
    model chooses, and end after `length`, one that is over now; the queue has the users' submissions, so that age
    counts. Use before that is unknown: fair-share begins even.
    """
    asked, parts = Asked.of(machine), {p.name: k for k, p in enumerate(machine.partitions)}
    mine = _request(asked, LAST, job, at.now, length(job, at))
    if isinstance(mine, str):
        return mine
    fixed: dict[tuple[str, int], Takes] = {}
    requests, lost = [], 0
    for key, each, start in _others(at, job.row):
        span = length(each, at)
        if start is not None:
            span = max(start + span, at.now + 1.0) - start
        made = _request(asked, key, each, min(each.submit_time, at.now), span)
        if isinstance(made, str):
            lost += 1
            continue
        requests.append(made)
        if start is not None:
            fixed[made.key, made.task] = (start, parts[made.partitions[0]], ())
    done = simulate_slurm(
        machine, [*requests, mine], fixed=fixed, since=at.now, watched=(mine.key, mine.task), lazy=1
    )  # fmt: skip
    start = done.starts().get((mine.key, mine.task))
    return "no node, limit or reservation lets it start" if start is None else (max(start, at.now), lost)


def _others(at: SystemState, itself: int) -> Iterator[tuple[str, JobRequest, float | None]]:
    """Who runs, with its start, and who waits, but for the job of row `itself`."""
    for row, held in at.running.items():
        yield str(row), held.job, held.start_time
    for row, job in at.queued.items():
        if row != itself:
            yield str(row), job, None


def _request(asked: Asked, key: str, job: JobRequest, submit: float, span: float) -> NodeRequest | str:
    each = job.req_mem_kib / job.procs if job.procs > 0 else job.req_mem_kib
    limit = min(span, LONGEST)
    return asked.request(
        key, submit, limit, limit, procs=job.procs, nodes=job.req_nodes, kib_per_proc=each, gpus=job.req_gpus,
        user=_word(job.user_id), account=_word(job.account), partition=_word(job.partition_id), qos=_word(job.qos),
        name=_word(job.job_name),
    )  # fmt: skip


def _word(name: Name) -> str:
    return "" if name is None else str(name)
