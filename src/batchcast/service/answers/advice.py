# SPDX-License-Identifier: Apache-2.0
"""Suggests time limits and memory requests from predictions or from ended jobs, under the site's rules.

The same functions make the suggestions at each submission, which are stored and scored, and the suggestions that users
request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...columns import OUT_OF_MEMORY, SAME, is_copied
from ...job import JobRequest
from ...predict.protocol import Grounds, Prediction, method_name
from ...predict.recommend import Advice, bound_at, recommend_limit, rounded_request, rule_of_thumb
from ...store.rows import asked_a_node, node_peak
from ...units import format_duration, format_memory, span
from ..settings import Settings

RISK = 0.05
"""The share of jobs that a suggestion may cut off, unless a user requests another share."""
SAMPLING_MARGIN = 1.1
"""Memory use is sampled, so short peaks are missed: a suggestion is this factor above the measured bound."""


class Rules(NamedTuple):
    """A site's rules for suggestions: limits in seconds, memory in KiB per node."""

    limit_floor: float = 300.0
    limit_step: float = 300.0
    limit_most: float = math.inf
    memory_floor: float = 100.0 * 1024
    memory_step: float = 100.0 * 1024


BUILT_IN = Rules()


def rules_of(settings: Any) -> Rules:
    """Return the rules in the site's settings."""
    return Rules(*(settings[name] for name in Rules._fields))


def rests_on_jobs(forecast: Prediction) -> bool:
    """Return whether a prediction is based on more than the request itself."""
    return forecast.grounds not in (Grounds.LIMIT, Grounds.NO_HISTORY)


def of_partition(memory: Mapping[str, Any], name: Any) -> Mapping[str, Any]:
    """Return the stored facts about a partition; empty for an unknown partition."""
    return partitions_of(memory).get(name or "") or {}


def partitions_of(memory: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the stored facts about each partition, by name."""
    return (memory.get("site") or {}).get("partitions") or {}


def default_partition(memory: Mapping[str, Any]) -> str:
    """Return the default partition of the site; empty if it is unknown."""
    return next((name for name, fields in partitions_of(memory).items() if fields.get("is_default")), "")


def advised_limit(advice: Prediction, own: float, rules: Rules, partition: Mapping[str, Any]) -> float | None:
    """Return the suggested limit in seconds; None if the prediction is based only on the limit itself.

    The limit is rounded up to the site's step and floor. The suggestion does not exceed the job's `own` limit unless
    the predicted bound does, and never exceeds the longest limit of the partition.

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
    """Return the suggested memory per node in KiB; None if the prediction is based only on the request.

    The suggestion is the predicted upper bound at this risk, plus a tenth because accounting samples memory use and
    misses short peaks. The suggestion is rounded up to the site's step and floor, and does not exceed the memory of the
    partition's largest node. If the prediction has no quantiles, the suggestion is the point prediction, without the
    added tenth.

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
    """Return whether the prediction has a bound for this risk."""
    return bool(forecast.levels) and 1.0 - risk <= forecast.levels[-1] + 1e-12


LEAST_JOBS = 5


class MemoryNeed(NamedTuple):
    """The memory that an ended job used and requested (KiB per node; NaN: unknown), and whether it ran out of it."""

    held: float
    asked: float
    ran_out: bool


def need_of(row: Mapping[str, Any]) -> MemoryNeed:
    """Return the memory need of an ended job. A job that ran out of memory used at least its request."""
    held, asked, out = node_peak(row), asked_a_node(row), row["status"] == OUT_OF_MEMORY
    return MemoryNeed(asked if out and asked == asked and not held > asked else held, asked, out)


def is_copied_in(needs: Sequence[Any]) -> bool:
    """Return whether accounting only repeats the requests of these jobs instead of measuring their memory."""
    same = sum(not need.ran_out and abs(need.held - need.asked) <= SAME * need.held for need in needs)
    return is_copied(same, len(needs))


def measured_memory(rows: Sequence[Mapping[str, Any]]) -> list[MemoryNeed] | None:
    """Return the memory needs of measured jobs. A job that ran out of memory needed more than its request.

    If the measurement equals the request in nine of ten jobs, accounting copies the request instead of measuring. Then
    the result is None. O(n).

    >>> row = {"used_mem_kib": 100.0, "alloc_nodes": 2.0, "req_mem_kib": 400.0, "req_nodes": 2.0, "status": "failed"}
    >>> needs = measured_memory([row, {**row, "status": "out_of_memory"}, {**row, "used_mem_kib": None}])
    >>> [(need.held, need.ran_out) for need in needs]
    [(50.0, False), (200.0, True)]
    """
    needs = [need for need in map(need_of, rows) if need.held > 0]
    return None if is_copied_in(needs) else needs


def request_for(needs: Sequence[Any], risk: float, rules: Rules, most: float = math.inf) -> Advice:
    """Return the memory request (KiB per node) that at most a share `risk` of jobs with these needs exceed, plus a
    tenth because memory use is sampled. `most` is the memory of the largest node.
    """
    held, ran_out = [need.held * SAMPLING_MARGIN for need in needs], [need.ran_out for need in needs]
    return recommend_limit(held, ran_out, risk, floor=rules.memory_floor, step=rules.memory_step, most=most)


class Needs(NamedTuple):
    """The words of sentences about similar jobs, for run times or for memory."""

    known: str
    kept: str
    cut: str
    how: str
    most: str
    bound: str


TIME = Needs("finished", "ran {} or less", "were ended at their time limit", "how long", "the longest", "end within {}")
MEMORY = Needs("measured", "used {} per node or less", "ran out of memory", "how much", "the most", "use {} or less")


def similar_words(advice: Advice, needs: Needs, alike: str, risk: float, say: Callable[[float], str]) -> str:
    """Return a sentence that explains a suggestion by what similar jobs needed."""
    jobs = f"{advice.jobs} {needs.known} jobs of {alike}"
    if advice.reached:
        return f"{1 - risk:.0%} of your last {jobs} {needs.kept.format(say(advice.quantile_s))}"
    above = f"The suggestion is a quarter above {needs.most}"
    if advice.cut:
        return f"{advice.cut} of your last {jobs} {needs.cut}, so it is unknown {needs.how} they need. {above}"
    return f"{jobs} are too few for a {risk:.0%} bound. {above}, {say(advice.longest_s)}"


def forecast_words(forecast: Prediction, who: str, needs: Needs, risk: float, bound: str) -> str:
    """Return a sentence that explains a suggestion by the bound that the method `who` predicts."""
    if reaches_risk(forecast, risk):
        return f"{who}: {1 - risk:.0%} of similar jobs {needs.bound.format(bound)} ({forecast.basis})"
    return f"{who} has no bound for a risk as small as {risk:.1%}. The suggestion is its highest bound, {bound}"


RECENT = 10
"""Number of the latest jobs from which the rule of thumb is computed."""


def advise_limit(
    settings: Settings,
    memory: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    partition: str | None,
    alike: str,
    risk: float,
    job: JobRequest | None = None,
    forecast: Prediction | None = None,
    method: str = "",
) -> dict[str, Any]:
    """Return the suggested time limit as fields of an answer.

    The suggestion comes from the `forecast` of `method` for the next job (`job`), as the collector would store it if
    the job were submitted now. Without a forecast, the suggestion comes from the similar finished jobs (`rows`, the
    latest first). The parameter `memory` has the values that the collector stored about the cluster.
    """
    rules, runs = rules_of(settings), [row["end_time"] - row["start_time"] for row in rows]
    thumb = rule_of_thumb(runs[:RECENT])
    rule = f"the rule of thumb, 1.25 x the longest of the last {RECENT}, gives {span(thumb)}"
    most = min(of_partition(memory, partition).get("max_time_s") or math.inf, rules.limit_most)
    cut = [row["status"] == "timeout" for row in rows]
    advice = recommend_limit(runs, cut, risk, floor=rules.limit_floor, step=rules.limit_step, most=most)
    why, shaped = similar_words(advice, TIME, alike, risk, span), f"; {advice.shaped_by}" if advice.shaped_by else ""
    answer = {
        **_limit_fields(advice.limit_s, "similar jobs", advice.quantile_s, advice.reached, f"{why}{shaped} ({rule})."),
        "cut_at_limit": advice.cut,
        "similar_limit_s": advice.limit_s,
        "asked_limit_s": rows[0]["req_time"],
        "rule_of_thumb_s": thumb,
        "rule_of_thumb": format_duration(thumb),
    }
    if job is None or forecast is None:
        return answer
    limit = advised_limit(forecast, job.req_time, rules, of_partition(memory, job.partition_id))
    if limit is None:
        return answer
    who, raised = method_name(method), forecast.point > job.req_time
    why = forecast_words(forecast, who, TIME, risk, span(forecast.point))
    if raised:
        why = (
            f"{who}: more than {risk:.0%} of similar jobs reach their limit of {span(job.req_time)} "
            f"({forecast.basis}), so the time that they need is unknown. The suggestion is a quarter above the limit"
        )
    shaped = "; the longest allowed limit" if limit < forecast.point else ""
    shaped = "; the shortest limit here" if limit == rules.limit_floor > forecast.point else shaped
    alone = f"Similar jobs alone suggest --time={format_duration(advice.limit_s)}"
    kept = reaches_risk(forecast, risk) and not raised and limit >= forecast.point
    return answer | _limit_fields(limit, method, forecast.point, kept, f"{why}{shaped}. {alone}; {rule}.")


def _limit_fields(limit: float, by: str, quantile: float, kept: bool, why: str) -> dict[str, Any]:
    """Return a suggested limit (s) as fields of an answer."""
    shown = {"limit": format_duration(limit), "limit_s": limit, "limit_by": by}
    return {**shown, "quantile_s": quantile, "risk_kept": kept, "why": why}


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
    """Return the suggested memory per node as fields of an answer. If there is no suggestion, `memory` is None and
    `memory_why` gives the reason.

    If the `forecast` of `method` has quantiles, the suggestion comes from these quantiles, as in the suggestions stored
    at submissions. Without quantiles, the suggestion comes from the similar ended jobs (`rows`): the order statistic of
    `recommend_limit` at the risk, plus a tenth, rounded up to the site's floor and step, and at most the memory of the
    partition's largest node. The parameter `memory` has the values that the collector stored about the cluster.
    """
    rules, limits, needs = rules_of(settings), of_partition(memory, partition), measured_memory(rows)
    node, jobs = limits.get("node_mem_kib") or math.inf, needs or []
    asked = asked_a_node(rows[0]) if rows else math.nan
    shown: dict[str, Any] = {
        **dict.fromkeys(("memory", "memory_kib", "memory_by", "memory_quantile_kib", "memory_risk_kept")),
        "memory_jobs": len(jobs),
        "ran_out_of_memory": sum(need.ran_out for need in jobs),
        "asked_memory_kib": asked if math.isfinite(asked) else None,
        "node_memory_kib": node if math.isfinite(node) else None,
        "similar_memory_kib": None,
        "memory_why": _why_not(memory.get("site", {}), needs, len(rows)),
    }
    if len(jobs) >= LEAST_JOBS:
        advice = request_for(jobs, risk, rules, node)
        why = similar_words(advice, MEMORY, alike, risk, lambda kib: format_memory(kib / SAMPLING_MARGIN))
        quantile, shown["similar_memory_kib"] = advice.quantile_s / SAMPLING_MARGIN, advice.limit_s
        shown |= _memory_fields(advice.limit_s, node, "similar jobs", quantile, advice.reached, why)
    amount = None
    if forecast is not None and forecast.levels and needs is not None:
        amount = advised_memory(forecast, risk, rules, limits)
    if forecast is not None and amount is not None:
        bound, similar = bound_at(forecast, 1.0 - risk), shown["similar_memory_kib"]
        why = forecast_words(forecast, method, MEMORY, risk, f"{format_memory(bound)} per node")
        beside = "" if similar is None else f". Similar jobs alone suggest {as_request(similar)}"
        kept = reaches_risk(forecast, risk) and amount != node
        shown |= _memory_fields(amount, node, method, bound, kept, why, beside)
    return shown


def _memory_fields(
    kib: float, node: float, by: str, quantile: float, kept: bool, why: str, beside: str = ""
) -> dict[str, Any]:
    """Return a suggestion of `kib` per node as fields of an answer. `node` is the memory of the largest node."""
    shaped = "; no node of the partition has more" if kib == node else ""
    return {
        "memory": as_request(kib),
        "memory_kib": kib,
        "memory_by": by,
        "memory_quantile_kib": quantile,
        "memory_risk_kept": kept,
        "memory_why": f"{why}; a tenth is added, because memory use is sampled{shaped}{beside}.",
    }


def as_request(kib: float) -> str:
    """Return an amount for `sbatch --mem`: in whole GiB if possible, else in MiB, rounded up.

    >>> as_request(2097152.0), as_request(1500.0 * 1024 + 1)
    ('2G', '1501M')
    """
    mib = math.ceil(kib / 1024 - 1e-9)
    return f"{mib // 1024}G" if mib >= 1024 and mib % 1024 == 0 else f"{max(mib, 1)}M"


def _why_not(site: Mapping[str, Any], needs: Sequence[MemoryNeed] | None, ended: int) -> str:
    """Return why similar jobs suggest no memory. `needs` are the needs of the measured jobs among `ended` jobs."""
    from ...formats.sighting import gathers_memory

    if needs is None:
        return "accounting only repeats the memory request of nearly every job, so memory is not measured."
    if "gathers" in site and not gathers_memory(site["gathers"]):
        return "accounting measures no memory here (JobAcctGatherType): batchcast doctor says what to set."
    return f"memory was measured for {len(needs)} of these {ended} jobs; {LEAST_JOBS} are needed."
