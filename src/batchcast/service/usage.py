"""What was asked against what was used, how long jobs waited, and advice that names the flag to change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..predict.recommend import recommend_limit
from ..units import format_duration
from .answers import median

LEAST_JOBS = 5
LEAST_WASTE = 2.0
LEAST_WASTED_H = 1.0
RISK = 0.05


def summary(rows: Sequence[Mapping[str, Any]], by: str) -> list[dict[str, Any]]:
    """One flat object per value of a column, the largest user of processor hours first."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row[by] or "-", []).append(row)
    figures = [{by: name, **_figures(group)} for name, group in groups.items()]
    return sorted(figures, key=lambda f: (-f["processor_hours"], f[by]))


def _figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ran = [row for row in rows if row["start_time"] is not None]
    runs = [row["end_time"] - row["start_time"] for row in ran]
    waits = sorted(row["start_time"] - row["submit_time"] for row in ran)
    held = [row["alloc_procs"] or row["req_procs"] or 0.0 for row in ran]
    limited = [(run, row["req_time"], procs) for run, row, procs in zip(runs, ran, held) if _finite(row["req_time"])]
    asked_h = sum(limit * procs for _, limit, procs in limited) / 3600
    used_h = sum(run * procs for run, _, procs in limited) / 3600
    return {
        "jobs": len(rows),
        "users": len({row["user_id"] for row in rows}),
        "never_ran": len(rows) - len(ran),
        "timeouts": sum(row["status"] == "timeout" for row in ran),
        "processor_hours": sum(run * procs for run, procs in zip(runs, held)) / 3600,
        "limit_processor_hours": asked_h,
        "limit_used_share": used_h / asked_h if asked_h else math.nan,
        "median_run_s": median(runs),
        "median_limit_s": median(limit for _, limit, _ in limited),
        "median_wait_s": median(waits),
        "p90_wait_s": waits[max(math.ceil(0.9 * len(waits)) - 1, 0)] if waits else math.nan,
    }


def advice(rows: Sequence[Mapping[str, Any]], floor: float, step: float) -> list[dict[str, Any]]:
    """What a user could change, per user and job name, the greatest waste first; silent below a least waste.

    `--time`: limits at least twice what 95 % of such jobs need (and an hour of the machine a job in all), or at least a
    fifth of them cut off. `-n/-N/--exclusive`: at least twice the processors asked for are held.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["start_time"] is not None and row["status"] in ("completed", "timeout", "failed", "out_of_memory"):
            groups.setdefault((row["user_id"] or "-", row["job_name"] or "-"), []).append(row)
    advised: list[dict[str, Any]] = []
    for (user, name), group in groups.items():
        if len(group) >= LEAST_JOBS:
            advised += [
                {"user": user, "job_name": name, "jobs": len(group), **one}
                for one in (_on_time(group, floor, step), _on_size(group))
                if one
            ]
    return sorted(advised, key=lambda a: -a["wasted_processor_hours"])


def _on_time(rows: Sequence[Mapping[str, Any]], floor: float, step: float) -> dict[str, Any] | None:
    limited = [row for row in rows if _finite(row["req_time"])]
    if not limited:
        return None
    runs = [row["end_time"] - row["start_time"] for row in limited]
    cut = [row["status"] == "timeout" for row in limited]
    asked = median(row["req_time"] for row in limited)
    if sum(cut) >= max(2, 0.2 * len(cut)):
        lost = sum(run * (row["alloc_procs"] or 0) for run, row, was in zip(runs, limited, cut) if was) / 3600
        return {
            "flag": "--time",
            "wasted_processor_hours": lost,
            "advice": f"{sum(cut)} of {len(cut)} were cut off at their limit (usually {format_duration(asked)}): "
            f"raise --time, or checkpoint",
        }
    best = recommend_limit(runs, cut, RISK, floor=floor, step=step)
    spare = sum(max(row["req_time"] - best.limit_s, 0.0) * (row["alloc_procs"] or 0) for row in limited) / 3600
    if asked < LEAST_WASTE * best.limit_s or spare < LEAST_WASTED_H:
        return None
    limit = format_duration(best.limit_s)
    return {
        "flag": "--time",
        "wasted_processor_hours": spare,
        "advice": f"asks {format_duration(asked)} and needs {format_duration(median(runs))}: --time={limit} "
        f"would have been enough for 95 %",
    }


def _on_size(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    sized = [row for row in rows if row["req_procs"] and row["alloc_procs"]]
    if not sized or median(row["alloc_procs"] / row["req_procs"] for row in sized) < LEAST_WASTE:
        return None
    idle = sum((row["alloc_procs"] - row["req_procs"]) * (row["end_time"] - row["start_time"]) for row in sized) / 3600
    if idle < LEAST_WASTED_H:
        return None
    asked, held = median(row["req_procs"] for row in sized), median(row["alloc_procs"] for row in sized)
    return {
        "flag": "--exclusive",
        "wasted_processor_hours": idle,
        "advice": f"asks for {asked:g} processors and holds {held:g}: without --exclusive (or with -n {held:g}) "
        f"they would be used",
    }


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
