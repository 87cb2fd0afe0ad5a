"""What was asked against what was used, how long jobs waited, and advice that names the flag to change."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..predict.recommend import recommend_limit
from ..store.packed import Packed
from ..units import format_duration
from .advice import RISK
from .answers import median
from .sentence import Sentence

LEAST_JOBS = 5
LEAST_WASTE = 2.0
LEAST_WASTED_H = 1.0
CUT_OFF = "%(cut)s of %(jobs)s were cut off at their limit (usually %(asked)s): raise %(flag)s, or checkpoint"
SPARED = "asks %(asked)s and needs %(needed)s: %(flag)s would have been enough for 95 %%"
HELD = "asks for %(asked)s processors and holds %(held)s: without %(flag)s (or with %(more)s) they would be used"
ADVICE = (CUT_OFF, SPARED, HELD)
RAN = frozenset({"completed", "timeout", "failed", "out_of_memory"})


def summary(rows: Packed, by: str) -> list[dict[str, Any]]:
    """One flat object per value of a column, the largest user of processor hours first."""
    figures = [{by: name or "-", **_figures(group)} for (name,), group in rows.grouped(by)]
    return sorted(figures, key=lambda f: (-f["processor_hours"], f[by]))


def _figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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
        if _finite(limit):
            limits.append(limit)
            asked_s += limit * procs
            used_s += run * procs
    ordered = array("d", sorted(waits))
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


def advice(rows: Packed, floor: float, step: float) -> list[dict[str, Any]]:
    """What a user could change, per user and job name, the greatest waste first; silent below a least waste.

    `--time`: limits at least twice what 95 % of such jobs need (and an hour of the machine a job in all), or at least a
    fifth of them cut off. `-n/-N/--exclusive`: at least twice the processors asked for are held.
    """
    advised = [
        {"user": whose or "-", "job_name": name or "-", **one}
        for (whose, name), _, one in each_advice(rows, floor, step)
    ]
    return sorted(advised, key=lambda a: -a["wasted_processor_hours"])


def each_advice(
    rows: Packed, floor: float, step: float, of: tuple[str, str] = ("user_id", "job_name")
) -> Iterator[tuple[tuple[str | None, ...], Sequence[Mapping[str, Any]], dict[str, Any]]]:
    """The same for the rows alike in two columns: their values there, all of these rows, and what is advised."""
    for key, group in rows.grouped(*of):
        if len(group) < LEAST_JOBS:
            continue
        ran = [row for row in group if row["start_time"] is not None and row["status"] in RAN]
        if len(ran) >= LEAST_JOBS:
            for one in (_on_time(ran, floor, step), _on_size(ran)):
                if one:
                    yield key, group, {"jobs": len(ran), **one}


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
            "advice": Sentence(
                CUT_OFF, cut=str(sum(cut)), jobs=str(len(cut)), asked=format_duration(asked), flag="--time"
            ),
        }
    best = recommend_limit(runs, cut, RISK, floor=floor, step=step)
    spare = sum(max(row["req_time"] - best.limit_s, 0.0) * (row["alloc_procs"] or 0) for row in limited) / 3600
    if asked < LEAST_WASTE * best.limit_s or spare < LEAST_WASTED_H:
        return None
    limit = f"--time={format_duration(best.limit_s)}"
    return {
        "flag": "--time",
        "wasted_processor_hours": spare,
        "advice": Sentence(SPARED, asked=format_duration(asked), needed=format_duration(median(runs)), flag=limit),
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
        "advice": Sentence(HELD, asked=f"{asked:g}", held=f"{held:g}", flag="--exclusive", more=f"-n {held:g}"),
    }


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
