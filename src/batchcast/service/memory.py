"""Advice for a memory request from finished jobs in a store: what they held at most on a node, and how many ran out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..columns import OUT_OF_MEMORY, SAME, is_copied
from ..predict.protocol import Prediction
from ..predict.recommend import bound_at, recommend_limit
from ..store.peaks import asked_a_node, node_peak
from ..units import format_memory
from .advice import SAMPLED, advised_memory, of_partition, promises, rests_on_jobs, rules_of
from .settings import Settings

LEAST_JOBS = 5


class Needed(NamedTuple):
    """What ended jobs needed a node, KiB; `ran_out` marks those that needed more; `copied`: it repeats the request."""

    kib: tuple[float, ...]
    ran_out: tuple[bool, ...]
    copied: bool


def needed(rows: Sequence[Mapping[str, Any]]) -> Needed:
    """The measured ones among ended jobs. One that ran out of memory needed more than it asked for, or held.

    A measurement that equals the request in nine of ten jobs is none: then all are left out. O(n).

    >>> row = {"used_mem_kib": 100.0, "alloc_nodes": 2.0, "req_mem_kib": 400.0, "req_nodes": 2.0, "status": "failed"}
    >>> tuple(needed([row, {**row, "status": "out_of_memory"}, {**row, "used_mem_kib": None}]))
    ((50.0, 200.0), (False, True), False)
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
            same += not out and abs(held - asked) <= SAME * held
    return Needed((), (), True) if is_copied(same, len(kib)) else Needed(tuple(kib), tuple(ran_out), False)


def advise_memory(
    settings: Settings,
    memory: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    partition: str | None,
    alike: str,
    risk: float,
    forecast: Prediction | None = None,
    method: str = "",
) -> dict[str, Any]:
    """The advised request a node as part of an answer; where none is known `memory` is None, and `memory_why` says why.

    By the bounds of the `forecast` of `method`, as stored and scored at submissions, where it has any;
    beside it, and alone without it, what the similar ended `rows` say: the order statistic of `recommend_limit` at the
    risk, a tenth added, then the site's floor and step, and never more than the partition's largest node has.
    `memory` is what the collector remembers.
    """
    site, limits = memory.get("site", {}), of_partition(memory, partition)
    node, jobs = limits.get("node_mem_kib") or math.inf, needed(rows)
    shown: dict[str, Any] = {
        "memory": None,
        "memory_kib": None,
        "memory_by": None,
        "memory_jobs": len(jobs.kib),
        "memory_quantile_kib": None,
        "memory_risk_kept": None,
        "ran_out_of_memory": sum(jobs.ran_out),
        "asked_memory_kib": _known(asked_a_node(rows[0])) if rows else None,
        "node_memory_kib": _known(node),
        "similar_memory_kib": None,
    }
    similar = _of_similar(settings, jobs, node, alike, risk)
    if similar is not None:
        shown |= {**similar, "similar_memory_kib": similar["memory_kib"], "memory_by": "similar jobs"}
    if forecast is None or not forecast.levels or not rests_on_jobs(forecast) or jobs.copied:
        return shown if similar is not None else {**shown, "memory_why": _why_not(site, jobs, len(rows))}
    return {**shown, **_of_forecast(settings, forecast, method, limits, risk, shown["similar_memory_kib"])}


def _of_forecast(
    settings: Settings,
    forecast: Prediction,
    method: str,
    partition: Mapping[str, Any],
    risk: float,
    similar: float | None,
) -> dict[str, Any]:
    amount = advised_memory(forecast, risk, rules_of(settings), partition)
    assert amount is not None  # the caller has looked
    bound, kept = bound_at(forecast, 1.0 - risk), promises(forecast, risk)
    why = f"{method}: {1 - risk:.0%} of jobs like this hold {format_memory(bound)} a node or less ({forecast.basis})"
    if not kept:
        why = f"{method} promises no risk as small as {risk:.1%}: its last bound, {format_memory(bound)} a node"
    shaped = "; no node there has more" if amount == partition.get("node_mem_kib") else ""
    beside = "" if similar is None else f". Beside it similar jobs alone say {as_request(similar)}"
    return {
        "memory": as_request(amount),
        "memory_kib": amount,
        "memory_by": method,
        "memory_quantile_kib": bound,
        "memory_risk_kept": kept and not shaped,
        "memory_why": f"{why}; a tenth more, since use is sampled{shaped}{beside}.",
    }


def _of_similar(settings: Settings, jobs: Needed, node: float, alike: str, risk: float) -> dict[str, Any] | None:
    """What similar jobs alone say; None where too few of them were measured."""
    if len(jobs.kib) < LEAST_JOBS:
        return None
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
        "memory": as_request(advice.limit_s),
        "memory_kib": advice.limit_s,
        "memory_quantile_kib": quantile,
        "memory_risk_kept": advice.reached,
        "memory_why": f"{why}; a tenth more, since use is sampled{shaped}.",
    }


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
