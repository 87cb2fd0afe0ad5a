# SPDX-License-Identifier: Apache-2.0
"""The data of the pages *The cluster* (use, waiting jobs, waits) and *For operators* (possible savings, health)."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from ...errors import BatchcastError, NoAnswer
from ...formats.slurm.sbatch import Request
from ...metrics.wait import HOURS, LEAST_JOBS, LIMITS, SIZES, class_of, shade_of
from ...store.packed import Packed
from ...store.rows import NOTHING
from ...units import format_duration
from ..answers import questions, track_record
from ..answers.accuracy import LIMIT, MEMORY, advice_record
from ..answers.advice import rules_of
from ..answers.answer import staleness
from ..answers.disclosure import Row, Site, Viewer, Whose, groups, may_show, of_complete_days, open_site, rounded
from ..answers.usage import each_advice, figures_of, memory_advice
from ..operations.doctor import settings_in_force, store_findings
from ..settings import Settings

DAYS = 28
STEPS = 112


def cluster_figures(settings: Settings, viewer: Viewer, now: float) -> dict[str, Any]:
    """Return the figures of the machine over four weeks, or over less time if the job history is shorter.

    If jobs are private, every figure covers complete days and enough users.
    """
    with open_site(settings, viewer, now) as site:
        least, since = site.least, site.last_days(DAYS)
        over = site.used(Whose(), since, math.inf, 1)
        still = site.reader.ask("still_open", cluster=site.cluster)
        if not over and not still:
            raise NoAnswer("the collector has not stored any job yet", hint="let batchcast collect run")
        ran = [row for row in (*over, *still) if row["start_time"] is not None and row["start_time"] >= since]
        complete = list(of_complete_days(lambda: ran, "start_time", least, now))
        procs = float((site.memory.get("site") or {}).get("total_procs") or site.memory.get("total_procs") or 0.0)
        begin = site.shown_from(_recorded_from(over, still, since))
        series = _series(chain(over, still), procs, min(begin, now - 3600.0), now, least)
        waiting = [row for row in still if row["start_time"] is None]
        running = [row for row in still if row["start_time"] is not None]
        return {
            "now": now, "cluster": site.cluster, "private": site.private, "least": least,
            "days": _days(begin, now), "procs": procs,
            **rounded({"waiting": _count(waiting, least), "running": _count(running, least)}, least),
            "busy": sum(_processors(row) for row in running) / procs if procs else math.nan,
            "median_wait": _median_wait(complete), "users": len({row["user_id"] for row in waiting}),
            "series": series, "by_hour": _by_hour(complete, least), **_sizes(site, complete, least),
            "who": _waiting_by_group(site, waiting, least), "stale": staleness(site.memory, now),
        }  # fmt: skip


def _recorded_from(over: Sequence[Row], still: Iterable[Row], since: float) -> float:
    """Return when the job history since `since` begins: at the first end of a job, because running jobs may have been
    submitted weeks before.

    If no job has ended, the history begins at the first submission.
    """
    times = (row["end_time"] for row in over) if over else (row["submit_time"] for row in still)
    return max(since, min(times, default=since))


def _days(begin: float, now: float) -> int:
    """Return the number of days that the figures cover, at least one."""
    return max(math.ceil((now - begin) / 86400 - 1e-6), 1)


def _processors(row: Row) -> float:
    """Return the number of processors of a job: the allocated or, if unknown, the requested processors."""
    return float(row["alloc_procs"] or row["req_procs"] or 0.0)


def _median_wait(rows: Sequence[Row]) -> float:
    """Return the median queue wait of started jobs in seconds."""
    return float(track_record.median(max(row["start_time"] - row["submit_time"], 0.0) for row in rows))


def _series(rows: Iterable[Row], procs: float, since: float, now: float, least: int) -> dict[str, list[float]]:
    """Return time series of processors in use and processors requested by waiting jobs, as shares of the machine,
    averaged over equal time steps.

    If figures must cover several users, the numbers of processors are rounded to two significant digits. The jobs are
    read once.
    """
    step = (now - since) / STEPS
    used, queued = [0.0] * STEPS, [0.0] * STEPS

    def add(totals: list[float], begin: float, end: float, amount: float) -> None:
        """Add an amount that lasts from `begin` to `end` to the mean of each step."""
        low, high = max((begin - since) / step, 0.0), min((end - since) / step, float(STEPS))
        for k in range(int(low), min(math.ceil(high), STEPS)):
            totals[k] += amount * max(min(high, k + 1) - max(low, k), 0.0)

    for row in rows:
        start, end = row["start_time"], now if row["end_time"] is None else row["end_time"]
        if start is not None:
            add(used, start, end, _processors(row))
        add(queued, row["submit_time"], end if start is None else start, float(row["req_procs"] or 0.0))
    whole = procs or max([*used, 1.0])

    def shares(totals: list[float]) -> list[float]:
        return [round(rounded({"procs": total}, least)["procs"] / whole, 4) for total in totals]

    return {"at": [since + (k + 0.5) * step for k in range(STEPS)], "used": shares(used), "queued": shares(queued)}


def _cell(rows: Sequence[Row], least: int) -> dict[str, Any]:
    """Return the median wait of jobs, their number, and a shade (from 1)."""
    cell = rounded({"wait": _median_wait(rows), "jobs": len(rows)}, least)
    return {**cell, "shade": 1 + shade_of(cell["wait"])}


def _by_hour(rows: Sequence[Row], least: int) -> dict[str, Any]:
    """Return median waits by weekday and time of the submission."""

    def when(row: Row) -> tuple[int, int]:
        there = time.localtime(row["submit_time"])
        return there.tm_wday, there.tm_hour // HOURS

    cells = {key: _cell(group, least) for key, group in groups(rows, when, LEAST_JOBS, least).items()}
    return {"rows": [[cells.get((day, hour)) for hour in range(24 // HOURS)] for day in range(7)],
            "hours": [f"{h:02}–{h + HOURS:02}" for h in range(0, 24, HOURS)]}  # fmt: skip


MOST_PARTITIONS = 4
Now = Callable[[str, Sequence[Row]], float]


def _sizes(site: Site, rows: Sequence[Row], least: int) -> dict[str, Any]:
    """Return median waits by size and time limit, for all jobs and for the partitions with the most jobs, with the
    likely wait of an equal job now.

    The likely wait now is predicted for a job with the median size and limit of its cell. The likely wait is not shown
    if jobs are hidden, because it depends on single jobs that run now.
    """
    parts = groups(rows, lambda row: row["partition_id"] or "", LEAST_JOBS, least)
    names = sorted((name for name in parts if name), key=lambda name: -len(parts[name]))
    ask = None if site.private or not names else _waits_now(site)
    alone = names[0] if len(names) == 1 else ""
    several = [{"name": name, **_by_size(parts[name], least, name, ask)} for name in names[:MOST_PARTITIONS]]
    return {"by_size": _by_size(rows, least, alone, ask if alone else None), "by_partition": [] if alone else several}


def _waits_now(site: Site) -> Now | None:
    """Return a function that predicts the likely wait of a job like the given jobs in a partition; None without
    predictions.
    """
    from ..answers.forecaster import forecaster, job_of, never_starts

    try:
        ask = forecaster(site, ("wait",))
    except BatchcastError:
        return None

    def now(partition: str, rows: Sequence[Row]) -> float:
        size, limit = (sorted(float(row[name]) for row in rows)[len(rows) // 2] for name in ("req_procs", "req_time"))
        sized = {"partition": partition, "ntasks": f"{size:.0f}", "time": format_duration(limit)}
        request = Request(sized | _gpus(rows))
        try:
            job = job_of(request, site, "")
            wait = None if never_starts(site, request, job, ask.machine) else ask.wait(job)
        except BatchcastError:
            return math.nan
        return math.nan if wait is None or wait.grounds == NOTHING else float(wait.point)

    return now


def _gpus(rows: Sequence[Row]) -> dict[str, str]:
    """Return the option `gpus` with the most frequent number and type of GPUs, if most of these jobs requested GPUs.

    >>> _gpus([{"req_gpus": 2.0, "gpu_type": "a100"}] * 2 + [{"req_gpus": None, "gpu_type": None}])
    {'gpus': 'a100:2'}
    """
    asked = Counter((row["req_gpus"], row["gpu_type"] or "") for row in rows if (row["req_gpus"] or 0) > 0)
    if 2 * asked.total() <= len(rows):
        return {}
    number, kind = asked.most_common(1)[0][0]
    return {"gpus": f"{kind}:{number:.0f}".lstrip(":")}


def _by_size(rows: Sequence[Row], least: int, partition: str = "", ask: Now | None = None) -> dict[str, Any]:
    """Return median waits by processors and time limit and, with `ask`, the likely wait of an equal job now."""

    def kind(row: Row) -> tuple[int, int]:
        return class_of(row["req_procs"], SIZES), class_of(row["req_time"], LIMITS)

    cells = {}
    for key, group in groups(rows, kind, LEAST_JOBS, least).items():
        now = {"now": ask(partition, group)} if ask is not None and -1 not in key else {}
        cells[key] = {**_cell(group, least), **now}
    return {"rows": [[cells.get((s, k)) for k in range(len(LIMITS))] for s in range(len(SIZES))],
            "sizes": SIZES, "limits": LIMITS}  # fmt: skip


def _count(rows: Sequence[Row], least: int) -> float:
    """Return the number of jobs; NaN if `may_show` forbids it, because a count over few users reveals each user's
    count.
    """
    return len(rows) if not rows or may_show(rows, least) else math.nan


def _waiting_by_group(site: Site, waiting: Sequence[Row], least: int) -> list[dict[str, Any]]:
    """Return the waiting jobs by account, or by partition with enough users if jobs are private."""
    column = "partition_id" if site.private else "account"
    figures: list[dict[str, Any]] = [
        rounded({"name": name, "jobs": len(group), "users": len({row["user_id"] for row in group}),
                 "procs": sum(float(row["req_procs"] or 0) for row in group)}, least)
        for name, group in groups(waiting, lambda row: row[column] or "–", 1, least).items()
    ]  # fmt: skip
    return sorted(figures, key=lambda one: -one["procs"])[:15]


OPERATOR_DAYS = 28
ORDER_DAYS = 7
MOST_LINES = 40


def operator_figures(settings: Settings, viewer: Viewer, now: float) -> dict[str, Any]:
    """Return the figures for operators. The figures include the settings only for viewers who may see all jobs."""
    figures: dict[str, Any] = {
        "findings": list(store_findings(settings)), "settings": settings_in_force(settings) if viewer.sees_all else [],
        **dict.fromkeys(("limits", "short", "memory", "record", "pays", "stale"), ()), "hidden": False, "cluster": "",
        **dict.fromkeys(("saved", "spared", "hours"), math.nan), "now": now, "days": OPERATOR_DAYS,
        "least": settings["least_users"],
    }  # fmt: skip
    try:
        with open_site(settings, viewer, now) as site:
            least, since = site.least, site.last_days(OPERATOR_DAYS)
            rows = site.used(Whose(), since, math.inf, least)
            figures["days"] = _days(_recorded_from(rows, (), since), now)
            long, short = _limits(rows, settings, least)
            figures |= {"limits": long[:MOST_LINES], "short": short[:MOST_LINES]}
            figures |= {"hidden": site.private, "cluster": site.cluster, "stale": staleness(site.memory, now)}
            measured = site.used(Whose(), since, math.inf, least, "used_memory")
            memory = memory_advice(measured, site.memory, rules_of(settings), least)
            figures["memory"] = [one for one in memory if one["tells"]][:MOST_LINES]
            record = chain.from_iterable(advice_record(site, of, since, math.inf) for of in (LIMIT, MEMORY))
            figures["record"] = [one for one in record if one["requests"]]
            figures["pays"] = questions.who_pays(site, now - ORDER_DAYS * 86400, now)
            saved, spared = sum(one["hours"] for one in long[:MOST_LINES]), sum(one["gib_h"] for one in memory)
            figures |= rounded({"hours": figures_of(rows)["processor_hours"], "saved": saved, "spared": spared}, least)
    except BatchcastError as error:
        figures["stale"] = [f"{error.message}; {error.hint}"]
    return figures


def _limits(rows: Packed, settings: Settings, least: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return two lists by account and application: too large requests, the largest waste first, and too short limits,
    the most kills first.
    """
    figures: list[dict[str, Any]] = []
    alike = ("account", "job_name")
    for (account, name), group, one in each_advice(rows, settings["limit_floor"], settings["limit_step"], alike):
        users = len({row["user_id"] for row in group})
        if may_show(group, least):
            shown = {"account": account or "–", "name": name or "–", "users": users, "jobs": one["jobs"]}
            shown |= {"flag": one["flag"], "advice": one["advice"], "hours": one["wasted_processor_hours"]}
            figures.append(rounded({**shown, "cut": one["cut_off"]}, least))
    long = sorted((one for one in figures if not one["cut"]), key=lambda one: -one["hours"])
    return long, sorted((one for one in figures if one["cut"]), key=lambda one: (-one["cut"], -one["hours"]))
