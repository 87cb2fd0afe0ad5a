"""Advice for a memory request from finished jobs in a store: what they held at most on a node, and how many ran out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..predict.conditional import given_waited
from ..predict.protocol import Grounds, Prediction
from ..predict.recommend import recommend_limit
from ..store.peaks import asked_a_node, node_peak
from ..units import format_memory
from .settings import Settings

LEAST_JOBS = 5
SAMPLED = 1.1
"""What is measured is sampled, so a job held a little more at times: advice adds a tenth."""
COPIED, FEWEST = 0.9, 20
OUT_OF_MEMORY = "out_of_memory"


class Needed(NamedTuple):
    """What ended jobs needed a node, KiB; `ran_out` marks those that needed more; `copied`: it repeats the request."""

    kib: tuple[float, ...]
    ran_out: tuple[bool, ...]
    copied: bool


def needed(rows: Sequence[Mapping[str, Any]]) -> Needed:
    """The measured ones among ended jobs. One that ran out of memory needed more than it asked for, or held.

    A measurement that equals the request in nine of ten jobs is none: then all are left out. O(n).

    >>> row = {"used_mem_kib": 100.0, "alloc_nodes": 2.0, "req_mem_kib": 400.0, "req_nodes": 2.0, "status": "failed"}
    >>> needed([row, {**row, "status": "out_of_memory"}, {**row, "used_mem_kib": None}])
    Needed(kib=(50.0, 200.0), ran_out=(False, True), copied=False)
    """
    kib, ran_out, same = [], [], 0
    for row in rows:
        held, asked = node_peak(row), asked_a_node(row)
        out = row["status"] == OUT_OF_MEMORY
        if out and asked == asked:
            held = asked if not held > asked else held
        if held == held and held > 0:
            kib.append(held)
            ran_out.append(out)
            same += not out and abs(held - asked) <= 1e-3 * held
    copied = len(kib) >= FEWEST and same >= COPIED * len(kib)
    return Needed((), (), True) if copied else Needed(tuple(kib), tuple(ran_out), False)


def advise_memory(
    settings: Settings,
    site: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    partition: str | None,
    alike: str,
    risk: float,
) -> dict[str, Any]:
    """The advised request a node as part of an answer; where none is known `memory` is None, and `memory_why` says why.

    The order statistic of `recommend_limit` at the risk taken, a tenth added since what is measured is sampled, then
    the site's floor and step, and never more than the partition's largest node has. `site` is what the collector
    remembers of it.
    """
    node = (site.get("partitions", {}).get(partition or "") or {}).get("node_mem_kib") or math.inf
    jobs = needed(rows)
    shown: dict[str, Any] = {
        "memory": None,
        "memory_kib": None,
        "memory_jobs": len(jobs.kib),
        "memory_quantile_kib": None,
        "memory_risk_kept": None,
        "ran_out_of_memory": sum(jobs.ran_out),
        "asked_memory_kib": _known(asked_a_node(rows[0])) if rows else None,
        "node_memory_kib": _known(node),
    }
    if len(jobs.kib) < LEAST_JOBS:
        return {**shown, "memory_why": _why_not(site, jobs, len(rows))}
    step = settings["memory_step"]
    advice = recommend_limit(
        [kib * SAMPLED for kib in jobs.kib], jobs.ran_out, risk, floor=settings["memory_floor"], step=step, most=node
    )
    quantile = advice.quantile_s / SAMPLED
    if advice.reached:
        why = (
            f"{1 - risk:.0%} of your last {len(jobs.kib)} measured jobs of {alike} held {format_memory(quantile)} a "
            "node or less"
        )
    elif advice.cut:
        why = (
            f"{advice.cut} of your last {len(jobs.kib)} measured jobs of {alike} ran out of memory, so nobody knows "
            "how much they need: a quarter above the most"
        )
    else:
        most = format_memory(advice.longest_s / SAMPLED)
        why = f"{len(jobs.kib)} measured jobs of {alike} are too few to promise {risk:.0%}"
        why += f": a quarter above the most, {most}"
    shaped = "; no node there has more" if advice.limit_s == node else ""
    return {
        **shown,
        "memory": as_request(advice.limit_s),
        "memory_kib": advice.limit_s,
        "memory_quantile_kib": quantile,
        "memory_risk_kept": advice.reached,
        "memory_why": f"{why}; a tenth more, since use is sampled{shaped}.",
    }


def request_of(forecast: Prediction, most: float = math.inf) -> Prediction | None:
    """What to ask for a node by a forecast of the peak, KiB: 1.25 times its 95 % bound, never more than the node has.

    None where the forecast rests on nothing but the request itself.

    >>> like = Prediction(50.0, (0.5, 0.95), (50.0, 80.0), "", Grounds.CLASS)
    >>> request_of(like).point, request_of(like, 90.0).point
    (100.0, 90.0)
    """
    if not rests_on_jobs(forecast):
        return None
    bound = given_waited(forecast, 0.0, (0.95,)).quantiles[0]
    bound = bound if math.isfinite(bound) else forecast.quantiles[-1]
    return Prediction(min(1.25 * bound, most), basis=forecast.basis, grounds=forecast.grounds)


def rests_on_jobs(forecast: Prediction) -> bool:
    """Whether a forecast of memory says more than the request itself, with bounds."""
    return bool(forecast.levels) and forecast.grounds not in (Grounds.LIMIT, Grounds.NO_HISTORY)


def as_request(kib: float) -> str:
    """An amount as `sbatch --mem` takes it: whole gibibytes where it is so many, else whole mebibytes, never less.

    >>> as_request(2097152.0), as_request(1500.0 * 1024 + 1)
    ('2G', '1501M')
    """
    mib = math.ceil(kib / 1024 - 1e-9)
    return f"{mib // 1024}G" if mib >= 1024 and mib % 1024 == 0 else f"{max(mib, 1)}M"


def _known(kib: float) -> float | None:
    return kib if math.isfinite(kib) else None


def _why_not(site: Mapping[str, Any], jobs: Needed, ended: int) -> str:
    from ..formats.sighting import gathers_memory

    if jobs.copied:
        return "the memory that accounting shows is what was asked for in nearly every job: no measurement."
    if "gathers" in site and not gathers_memory(site["gathers"]):
        return "accounting measures no memory here (JobAcctGatherType): batchcast doctor says what to set."
    return f"memory was measured of {len(jobs.kib)} of these {ended} jobs; {LEAST_JOBS} are needed."
