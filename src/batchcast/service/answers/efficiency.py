# SPDX-License-Identifier: Apache-2.0
"""Summarizes what jobs requested and used: one line per array, totals by month, and advice on requests.

The jobs come from `job_use`, the rules of the advice from `usage`.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, groupby
from typing import Any

from ...metrics.beside import Axis, Beside, Waited, beside
from ...units import span
from .advice import LEAST_JOBS, RISK, MemoryNeed, Rules, as_request, request_for
from .job_use import JobUse
from .track_record import median
from .usage import GIB, LEAST_WASTE, on_size, on_time, suggestion

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
    shares = [task.gpu_share for task in tasks if task.gpu_share == task.gpu_share]
    return replace(
        tasks[0],
        job_id=f"{name}_[{len({task.job_id for task in tasks})}]",
        state=worst if states.count(worst) == len(states) else f"{worst} {states.count(worst)}",
        **middle,
        processors=sum(held) / every if every > 0 else tasks[0].processors,
        processor_s=math.fsum(task.processor_s for task in tasks if task.processor_s == task.processor_s),
        memory_kib=max((t.memory_kib for t in tasks if t.memory_kib == t.memory_kib), default=math.nan),
        end_time=max(task.end_time for task in tasks),
        gpu_share=sum(shares) / len(shares) if shares else math.nan,
        energy_kwh=_energy(tasks)[0],
        tasks=len(tasks),
    )


def _middle(values: Iterable[float]) -> float:
    """Return the median of the known values."""
    return median(value for value in values if value == value)


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
    energy, measured = _energy(jobs)
    return {
        "jobs": len(jobs),
        "energy_kwh": energy,
        "energy_jobs": measured,
        "processor_hours": math.fsum(j.processors * j.elapsed_s for j in jobs) / 3600,
        "processor_share": _share([(j.processor_s, j.processors * j.elapsed_s) for j in jobs]),
        "time_share": _share([(j.elapsed_s * j.processors, j.limit_s * j.processors) for j in jobs]),
        "memory_share": _share([(j.memory_kib * j.elapsed_s, j.memory_asked_kib * j.elapsed_s) for j in jobs]),
        "timeouts": sum(job.state == "TIMEOUT" for job in jobs),
        "out_of_memory": sum(job.state == "OUT_OF_MEMORY" for job in jobs),
        "median_wait_s": _middle(j.waited_s for j in jobs),
    }


def _energy(jobs: Sequence[JobUse]) -> tuple[float, int]:
    """Return the energy (kWh) of the jobs whose energy was measured (NaN without such jobs), and the number of these
    jobs.
    """
    known = [job.energy_kwh for job in jobs if job.energy_kwh == job.energy_kwh]
    return math.fsum(known) if known else math.nan, len(known)


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
    (`metrics.beside`), if there are enough of these jobs.
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
    """Add to each suggestion how long similar jobs with the smaller request waited (`metrics.beside`)."""
    known = [job for job in jobs if job.eligible_wait_s >= 0]
    every = [_waited(job) for job in known]
    for advised in found:
        axis = AXES.get(advised["flag"])
        name = advised["user"], advised["job_name"]
        kind = [waited for job, waited in zip(known, every) if (job.user, job.job_name) == name]
        found_beside = None if axis is None else beside(kind, every, axis, advised["advised"])
        if axis is not None and found_beside is not None:
            advised |= {f"waited_{name}": value for name, value in found_beside._asdict().items()}
            advised["waited"] = in_words(found_beside, axis, advised["advised"])


def in_words(difference: Beside, axis: Axis, advised: float) -> str:
    """Return a sentence that compares the waits of similar jobs that requested more and less.

    >>> in_words(Beside("main", 1500.0, 600.0, 3000.0, 40, 9), Axis.LIMIT, 3600.0)
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
    best, asked, held = request.limit_s, median(need.asked for need in needs), [need.held for need in needs]
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
