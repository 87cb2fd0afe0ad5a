# SPDX-License-Identifier: Apache-2.0
"""Advice for limits and memory requests: from a forecast, by the site's rules; memory also from finished jobs.

The same at a submission, where it is stored and scored, and when somebody asks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...columns import OUT_OF_MEMORY, SAME, is_copied
from ...predict.protocol import Grounds, Prediction
from ...predict.recommend import Advice, bound_at, recommend_limit, rounded_request
from ...store.rows import asked_a_node, node_peak
from ...units import format_memory
from ..settings import Settings

RISK = 0.05
"""The share of jobs that advice may cut off: of what is kept and judged, and where nobody says another."""
SAMPLING_MARGIN = 1.1
"""What is measured is sampled, so a job held a little more at times: advice adds a tenth to a bound."""


class Rules(NamedTuple):
    """A site's rules for what is advised: seconds, and KiB a node."""

    limit_floor: float = 300.0
    limit_step: float = 300.0
    limit_most: float = math.inf
    memory_floor: float = 100.0 * 1024
    memory_step: float = 100.0 * 1024


BUILT_IN = Rules()


def rules_of(settings: Any) -> Rules:
    """The rules as they are set."""
    return Rules(*(settings[name] for name in Rules._fields))


def rests_on_jobs(forecast: Prediction) -> bool:
    """Whether a forecast says more than the request itself."""
    return forecast.grounds not in (Grounds.LIMIT, Grounds.NO_HISTORY)


def of_partition(memory: Mapping[str, Any], name: Any) -> Mapping[str, Any]:
    """What the collector remembers of a partition; nothing of one it does not know."""
    partitions = (memory.get("site") or {}).get("partitions") or {}
    return partitions.get(name or "") or {}


def default_partition(memory: Mapping[str, Any]) -> str:
    """The partition of a job that names none; empty where the collector knows none."""
    partitions = (memory.get("site") or {}).get("partitions") or {}
    return next((name for name, fields in partitions.items() if fields.get("is_default")), "")


def advised_limit(advice: Prediction, own: float, rules: Rules, partition: Mapping[str, Any]) -> float | None:
    """The limit to ask for by a `LimitAdvice`, seconds; None where it rests on nothing but the limit itself.

    Up to the site's step and floor; not above the job's `own` limit unless the advice is, and never above the longest
    there is.

    >>> at_risk = Prediction(500.0, (0.95,), (500.0,), "", Grounds.CLASS)
    >>> advised_limit(at_risk, 3600.0, Rules(), {}), advised_limit(at_risk, 550.0, Rules(), {})
    (600.0, 550.0)
    >>> advised_limit(at_risk, 400.0, Rules(), {"max_time_s": 450.0})
    450.0
    """
    if not rests_on_jobs(advice):
        return None
    most = min(partition.get("max_time_s") or math.inf, rules.limit_most)
    limit = rounded_request(advice.point, rules.limit_floor, rules.limit_step, most)
    return min(limit, own) if advice.point <= own else limit


def advised_memory(forecast: Prediction, risk: float, rules: Rules, partition: Mapping[str, Any]) -> float | None:
    """The memory to ask for a node by a forecast of the peak, KiB; None where it rests on nothing but the request.

    The bound at the risk, a tenth added since use is sampled, up to the site's step and floor, and never more than the
    partition's largest node has. A method without quantiles advises its point as it is.

    >>> like = Prediction(50.0, (0.5, 0.95), (50.0, 100e3), "", Grounds.CLASS)
    >>> [advised_memory(like, 0.05, Rules(), node) for node in ({}, {"node_mem_kib": 105e3})]
    [204800.0, 105000.0]
    """
    if not rests_on_jobs(forecast):
        return None
    wanted = SAMPLING_MARGIN * bound_at(forecast, 1.0 - risk) if forecast.levels else forecast.point
    most = partition.get("node_mem_kib") or math.inf
    return rounded_request(wanted, rules.memory_floor, rules.memory_step, most)


def reaches_risk(forecast: Prediction, risk: float) -> bool:
    """Whether the forecast has a bound for that risk."""
    return bool(forecast.levels) and 1.0 - risk <= forecast.levels[-1] + 1e-12


LEAST_JOBS = 5


class MeasuredMemory(NamedTuple):
    """What ended jobs needed a node, KiB; `ran_out` marks those that needed more; `copied`: it repeats the request."""

    kib: tuple[float, ...]
    ran_out: tuple[bool, ...]
    copied: bool


def measured_memory(rows: Sequence[Mapping[str, Any]]) -> MeasuredMemory:
    """The measured ones among ended jobs. One that ran out of memory needed more than it asked for, or held.

    A measurement that equals the request in nine of ten jobs is none: then all are left out. O(n).

    >>> row = {"used_mem_kib": 100.0, "alloc_nodes": 2.0, "req_mem_kib": 400.0, "req_nodes": 2.0, "status": "failed"}
    >>> tuple(measured_memory([row, {**row, "status": "out_of_memory"}, {**row, "used_mem_kib": None}]))
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
    return (
        MeasuredMemory((), (), True) if is_copied(same, len(kib)) else MeasuredMemory(tuple(kib), tuple(ran_out), False)
    )


def request_for(kib: Sequence[float], ran_out: Sequence[bool], risk: float, rules: Rules, most: float) -> Advice:
    """The request that keeps the risk for jobs that needed so much a node, KiB, a tenth added since use is sampled."""
    held = [each * SAMPLING_MARGIN for each in kib]
    return recommend_limit(held, ran_out, risk, floor=rules.memory_floor, step=rules.memory_step, most=most)


class Needs(NamedTuple):
    """How it is said what similar jobs needed."""

    known: str
    kept: str
    cut: str
    how: str
    most: str


TIME = Needs("finished", "ran {} or less", "were cut off at their limit", "how long", "the longest")
MEMORY = Needs("measured", "held {} a node or less", "ran out of memory", "how much", "the most")


def similar_words(advice: Advice, needs: Needs, alike: str, risk: float, say: Callable[[float], str]) -> str:
    """Why similar jobs lead to this advice, in words."""
    jobs = f"{advice.jobs} {needs.known} jobs of {alike}"
    if advice.reached:
        return f"{1 - risk:.0%} of your last {jobs} {needs.kept.format(say(advice.quantile_s))}"
    if advice.cut:
        return (
            f"{advice.cut} of your last {jobs} {needs.cut}, so nobody knows {needs.how} they need: a quarter above "
            f"{needs.most}"
        )
    return f"{jobs} are too few to promise {risk:.0%}: a quarter above {needs.most}, {say(advice.longest_s)}"


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
    node, jobs = limits.get("node_mem_kib") or math.inf, measured_memory(rows)
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
    bound, kept = bound_at(forecast, 1.0 - risk), reaches_risk(forecast, risk)
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


def _of_similar(
    settings: Settings, jobs: MeasuredMemory, node: float, alike: str, risk: float
) -> dict[str, Any] | None:
    """What similar jobs alone say; None where too few of them were measured."""
    if len(jobs.kib) < LEAST_JOBS:
        return None
    advice = request_for(jobs.kib, jobs.ran_out, risk, rules_of(settings), node)
    why = similar_words(advice, MEMORY, alike, risk, lambda kib: format_memory(kib / SAMPLING_MARGIN))
    shaped = "; no node there has more" if advice.limit_s == node else ""
    return {
        "memory": as_request(advice.limit_s),
        "memory_kib": advice.limit_s,
        "memory_quantile_kib": advice.quantile_s / SAMPLING_MARGIN,
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


def _why_not(site: Mapping[str, Any], jobs: MeasuredMemory, ended: int) -> str:
    from ...formats.sighting import gathers_memory

    if jobs.copied:
        return "the memory that accounting shows is what was asked for in nearly every job: no measurement."
    if "gathers" in site and not gathers_memory(site["gathers"]):
        return "accounting measures no memory here (JobAcctGatherType): batchcast doctor says what to set."
    return f"memory was measured of {len(jobs.kib)} of these {ended} jobs; {LEAST_JOBS} are needed."
