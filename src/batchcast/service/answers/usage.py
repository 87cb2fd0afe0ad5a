# SPDX-License-Identifier: Apache-2.0
"""Compares what finished jobs requested and used, and suggests time limits, processors and memory.

The memory figures by account and application follow the same rules as `batchcast limits LOG --memory --by account`
(`evaluation.limits`). Each job's suggested request comes from the jobs that had ended before, and is compared
with the user's own request. Every attempt of a job that runs out of memory counts in full.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from ...formats.slurm.sbatch import as_request
from ...predict.recommend import recommend_limit, spent
from ...store.packed import Packed
from ...units import format_duration, span
from .advice import ADVISED, LEAST_JOBS, RISK, Rules, is_copied_in, need_of, request_for
from .answer import Sentence, of_partition
from .disclosure import DAY_S, may_show, rounded
from .track_record import median

LEAST_WASTE = 2.0
LEAST_WASTED_H = 1.0
CUT_OFF = (
    "%(cut)s of %(jobs)s jobs were ended at their time limit (usually %(asked)s): raise %(flag)s, or write checkpoints"
)
SPARED = "requests %(asked)s and usually runs %(ran)s: %(flag)s would have been enough for 95 %%"
ALL_SPARED = "requests %(asked)s; the longest of these %(jobs)s ran %(ran)s: %(flag)s would have been enough for each"
UNUSED = "requests %(asked)s processors and gets %(held)s: without %(flag)s (or with %(more)s) they would be used"
ADVICE = (CUT_OFF, SPARED, ALL_SPARED, UNUSED, ADVISED)
RAN = frozenset({"completed", "timeout", "failed", "out_of_memory"})


def summary(rows: Packed, by: str) -> list[dict[str, Any]]:
    """Return one flat object per value of the column `by`, in order of processor-hours, the largest first."""
    figures = [{by: name or "-", **figures_of(group)} for (name,), group in rows.grouped(by)]
    return sorted(figures, key=lambda f: (-f["processor_hours"], f[by]))


def figures_of(rows: Packed | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return counts, processor-hours and medians over finished jobs."""
    runs, waits, limits = array("d"), array("d"), array("d")
    users: set[str | None] = set()
    timeouts, held_s, asked_s, used_s = 0, 0.0, 0.0, 0.0
    for row in rows:
        users.add(row["user_id"])
        start, limit = row["start_time"], row["req_time"]
        if start is None:
            continue
        run, procs = row["end_time"] - start, row["alloc_procs"] or row["req_procs"] or 0.0
        runs.append(run)
        waits.append(start - row["submit_time"])
        timeouts += row["status"] == "timeout"
        held_s += run * procs
        if limit is not None and math.isfinite(limit):
            limits.append(limit)
            asked_s += limit * procs
            used_s += run * procs
    ordered = sorted(waits)
    return {
        "jobs": len(rows),
        "users": len(users),
        "never_ran": len(rows) - len(runs),
        "timeouts": timeouts,
        "processor_hours": held_s / 3600,
        "limit_processor_hours": asked_s / 3600,
        "limit_used_share": used_s / asked_s if asked_s else math.nan,
        "median_run_s": median(runs),
        "median_limit_s": median(limits),
        "median_wait_s": median(ordered),
        "p90_wait_s": ordered[max(math.ceil(0.9 * len(ordered)) - 1, 0)] if ordered else math.nan,
    }


def advise_requests(rows: Packed, floor: float, step: float) -> list[dict[str, Any]]:
    """Return suggestions per user and job name, the largest waste first. Small waste is left out.

    A suggestion on `--time` is made if the median limit is at least twice the time that 95 % of the jobs need and at
    least one processor-hour is wasted. The same suggestion is made if so many jobs were killed at their limit that this
    time is unknown. A suggestion on `--exclusive` is made if jobs get at least twice the processors that they
    requested.
    """
    found = each_advice(rows, floor, step)
    advised = [{"user": whose or "-", "job_name": name or "-", **one} for (whose, name), _, one in found]
    return sorted(advised, key=lambda a: -a["wasted_processor_hours"])


def each_advice(
    rows: Packed, floor: float, step: float, columns: tuple[str, str] = ("user_id", "job_name")
) -> Iterator[tuple[tuple[str | None, ...], Sequence[Mapping[str, Any]], dict[str, Any]]]:
    """Yield each suggestion, after the values of two columns that group the rows and the rows of the group."""
    for key, group in rows.grouped(*columns):
        ran = [row for row in group if row["start_time"] is not None and row["status"] in RAN]
        if len(ran) >= LEAST_JOBS:
            for one in (on_time(ran, floor, step), on_size(ran)):
                if one:
                    yield key, group, {"jobs": len(ran), **one}


def on_time(rows: Sequence[Mapping[str, Any]], floor: float, step: float) -> dict[str, Any] | None:
    """Return a suggestion on `--time` if jobs were killed at their limits, or if their limits are far too long; else
    None.

    How long killed jobs would have run is unknown. If so many jobs were killed that no limit is known to be enough for
    95 %, no limit is suggested. If there are too few jobs for a 95 % quantile, the suggestion refers to the longest run
    instead.
    """
    limited = [row for row in rows if row["req_time"] is not None and math.isfinite(row["req_time"])]
    if not limited:
        return None
    runs = [row["end_time"] - row["start_time"] for row in limited]
    cut = [row["status"] == "timeout" for row in limited]
    median_limit = median(row["req_time"] for row in limited)
    best = recommend_limit(runs, cut, RISK, floor=floor, step=step)
    if sum(cut) >= 2 and not best.reached:
        lost = sum(run * (row["alloc_procs"] or 0) for run, row, was in zip(runs, limited, cut) if was) / 3600
        words = Sentence(CUT_OFF, cut=str(sum(cut)), jobs=str(len(cut)), asked=span(median_limit), flag="--time")
        return suggestion("--time", math.nan, words, lost, cut_off=sum(cut))
    spare = sum(max(row["req_time"] - best.limit_s, 0.0) * (row["alloc_procs"] or 0) for row in limited) / 3600
    if median_limit < LEAST_WASTE * best.limit_s or spare < LEAST_WASTED_H or (any(cut) and not best.reached):
        return None
    parts = {"asked": span(median_limit), "flag": f"--time={format_duration(best.limit_s)}"}
    words = Sentence(ALL_SPARED, jobs=str(len(runs)), ran=span(max(runs)), **parts)
    if best.reached:
        words = Sentence(SPARED, ran=span(median(runs)), **parts)
    return suggestion("--time", best.limit_s, words, spare, asked_s=median_limit, ran_s=median(runs))


def on_size(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return a suggestion if jobs get far more processors than they requested, for example whole nodes; else None."""
    sized = [row for row in rows if row["req_procs"] and row["alloc_procs"]]
    if not sized or median(row["alloc_procs"] / row["req_procs"] for row in sized) < LEAST_WASTE:
        return None
    idle = sum((row["alloc_procs"] - row["req_procs"]) * (row["end_time"] - row["start_time"]) for row in sized) / 3600
    if idle < LEAST_WASTED_H:
        return None
    asked, held = median(row["req_procs"] for row in sized), median(row["alloc_procs"] for row in sized)
    words = Sentence(UNUSED, asked=f"{asked:g}", held=f"{held:g}", flag="--exclusive", more=f"-n {held:g}")
    return suggestion("--exclusive", asked, words, idle)


def suggestion(
    flag: str, advised: float, words: str, hours: float = 0.0, *, cut_off: int = 0, **more: float
) -> dict[str, Any]:
    """Return a suggestion on a flag of sbatch as one flat object; `hours` are the wasted processor-hours."""
    figures = {"flag": flag, "cut_off": cut_off, "advised": advised, "wasted_processor_hours": hours}
    return {**figures, **more, "advice": words}


GIB = 1024.0**2
MOST_JOBS = 1000
LEAST_GIB_H = 10.0
"""Smaller savings, in GiB-hours, are not shown."""
MOST_OFTEN = 0.2
"""If at least this share of a group's jobs runs out of memory, the group is shown even without a saving."""


def memory_advice(rows: Packed, memory: Mapping[str, Any], rules: Rules, least: int) -> list[dict[str, Any]]:
    """Return one flat object for each account and application, the largest saving first."""
    # KiB per node: `asked_kib` and `held_kib` are medians of request and use, and `ask_kib` is the request that 95 % of
    # the last 1,000 jobs do not exceed. `gib_h`: GiB-hours that the suggested requests would have saved (below 0:
    # lost), including repeated attempts of jobs that ran out of memory. `tells`: whether the saving, or the share that
    # ran out, is worth showing. If figures must cover more than one user (`least`), they are rounded to two digits
    # (`disclosure`).
    #
    # For the saving, suggestions are renewed once a day (UTC) from the jobs that had ended before. The first jobs of a
    # group keep their own requests. O(n log n), plus the last 1,000 jobs of a group once a day.
    figures = []
    for (account, name), group in rows.grouped("account", "job_name"):
        users = len({row["user_id"] for row in group})
        one = _of_group(group, memory, rules) if may_show(group, least) else None
        if one is not None:
            ask = _up(one["ask_kib"]) if least > 1 else one["ask_kib"]
            shown = rounded({"account": account or "–", "name": name or "–", "users": users, **one}, least)
            figures.append({**shown, "ask_kib": ask, "flag": f"--mem={as_request(ask)}"})
    return sorted(figures, key=lambda one: -one["gib_h"])


def _up(kib: float) -> float:
    """Round a memory request (KiB) up to two significant digits in MiB.

    >>> _up(4301.0 * 1024) / 1024, _up(4300.0 * 1024) / 1024
    (4400.0, 4300.0)
    """
    digit = 10.0 ** (math.floor(math.log10(kib / 1024)) - 1)
    return math.ceil(kib / 1024 / digit - 1e-9) * digit * 1024


class _Job(NamedTuple):
    """A job with measured memory: its times (epoch seconds), the fields of its `MemoryNeed`, and its node-hours."""

    submit_time: float
    end_time: float
    peak_kib: float
    request_kib: float
    ran_out: bool
    node_hours: float


def _measured(rows: Sequence[Mapping[str, Any]]) -> list[_Job]:
    """Return the ended jobs whose memory use and request are known, in order of their ends."""
    jobs = []
    for row, need in ((row, need_of(row)) for row in rows):
        if need.peak_kib > 0 and need.request_kib > 0:
            hours = max(row["alloc_nodes"] or 1.0, 1.0) * (row["end_time"] - row["start_time"]) / 3600.0
            jobs.append(_Job(row["submit_time"], row["end_time"], *need, hours))
    return sorted(jobs, key=attrgetter("end_time"))


def _of_group(rows: Sequence[Mapping[str, Any]], memory: Mapping[str, Any], rules: Rules) -> dict[str, Any] | None:
    """Return the figures of one group; None if it has too few jobs, or if accounting only copies the requests."""
    jobs = _measured(rows)
    if len(jobs) < LEAST_JOBS or is_copied_in(jobs):
        return None
    partitions = {row["partition_id"] for row in rows}
    node = max(of_partition(memory, name).get("node_mem_kib") or math.inf for name in partitions)
    by_request = sum(_cost(job, job.request_kib) for job in jobs)
    spared = by_request - _as_advised(jobs, rules, node)
    out = sum(job.ran_out for job in jobs)
    return {
        "jobs": len(jobs),
        "asked_kib": median(job.request_kib for job in jobs),
        "held_kib": median(job.peak_kib for job in jobs),
        "ask_kib": request_for(jobs[-MOST_JOBS:], RISK, rules, node).limit_s,
        "ran_out_rate": out / len(jobs),
        "gib_h": spared,
        "by_request_gib_h": by_request,
        "tells": spared >= LEAST_GIB_H or out >= max(2.0, MOST_OFTEN * len(jobs)),
    }


def _as_advised(jobs: Sequence[_Job], rules: Rules, node: float) -> float:
    """Return the GiB-hours of these jobs under the requests suggested on the days of their submissions."""
    total, ended = 0.0, 0
    by_submission = sorted(jobs, key=attrgetter("submit_time"))
    for day, of_day in groupby(by_submission, key=lambda job: job.submit_time // DAY_S):
        while ended < len(jobs) and jobs[ended].end_time < day * DAY_S:
            ended += 1
        known = jobs[max(ended - MOST_JOBS, 0) : ended]
        advised = request_for(known, RISK, rules, node).limit_s if len(known) >= LEAST_JOBS else None
        total += sum(_cost(job, job.request_kib if advised is None else advised) for job in of_day)
    return total


def _cost(job: _Job, request: float) -> float:
    """Return the GiB-hours of all attempts of a job under a memory request. A job that runs out of memory is repeated
    with its own request if that is enough, else with twice as much.
    """
    short = job.ran_out and request <= job.peak_kib
    again = job.request_kib if job.request_kib >= job.peak_kib else math.nan
    need = math.nextafter(job.peak_kib, math.inf) if short else job.peak_kib
    return spent(request, need, again) * job.node_hours / GIB
