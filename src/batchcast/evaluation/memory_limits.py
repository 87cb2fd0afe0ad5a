# SPDX-License-Identifier: Apache-2.0
"""Compare memory requests on a log.

Computes what suggestions, the usual rule and the users' own requests would have cost, and how the scheduler would have
placed the log's jobs with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..events.recorded import Forecasts, replay
from ..machines.machine import Machine
from ..metrics.measure import Measure
from ..predict.namesakes import TWICE, Namesakes, requests_over_log
from ..predict.peak_memory import MIB, least_waste
from ..predict.recommend import rounded_request, spent
from ..predict.runtime.baselines import LargestRecent
from ..predict.runtime.kernel import Kernel
from ..table import Trace
from ..table.memory import MemoryUse, units_of
from .accuracy import measured, of_memory
from .differences import burst_groups, compared
from .limits import largest_groups

if TYPE_CHECKING:
    from ..simulation.on_nodes import MemoryPlan

RULES = ("advice", "least_waste", "rule_of_thumb", "own")
MEASURES = (
    Measure("mean_spent_gib_h", "number", "GiB-hours spent a job"),
    Measure("killed_per_thousand", "number", "out of memory of 1,000"),
)
SPENT, RAN_OUT = (each.name for each in MEASURES)
GIB_H = 1024.0 * 3600.0
OWN_KNOWN = 0.5
"""With a smaller share of measured jobs that have a request, users' requests are left out of the comparison."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Memory requests (n,) that each rule sets for every job at its submission, in MiB per `use.per`; NaN if unknown.

    `scored` (n,) marks jobs that ran with a measured peak or ran out of memory; if the users' own requests are
    compared, scored jobs also had a request. `units` (n,) is each job's number of nodes or processors; `most` is a
    node's memory in MiB.
    """

    trace: Trace
    use: MemoryUse
    units: np.ndarray
    limits: Mapping[str, np.ndarray]
    scored: np.ndarray
    most: float

    @property
    def peak(self) -> np.ndarray:
        """Return the peak memory of each job in MiB (n,); for a job that ran out of memory, its allocation, which was
        not enough."""
        got = np.fmax(self.use.used, np.where(self.use.ended, self.use.asked, np.nan))
        return np.asarray(np.maximum(np.where(self.use.ended, got, self.use.used) / MIB, 1.0))


def find_memory_limits(
    trace: Trace,
    *,
    risk: float = 0.05,
    floor: float = 64.0,
    step: float = 64.0,
    most: float = math.inf,
    procs: str = "req",
    tick: Callable[[int], None] | None = None,
) -> MemoryLimits:
    """Return the memory requests that would have been suggested at each submission, MiB, from the jobs that had ended
    before.

    `advice` is the bound that `kernel` gives at level 1 - `risk` (interpolated in the logarithm between its levels).
    `least_waste` is the bound with the least expected memory-time, where every attempt counts with its whole run time
    (`predict.peak_memory.least_waste`). Both suggestions are at least `floor`, rounded up to a multiple of `step`, and
    at most `most`, a node's memory. The predictor `calibrated` is not used: this predictor moves a bound towards the
    time limit, which no run time exceeds, and peak memory has no such limit. For a job with a name, both suggestions
    use only jobs of the same user, name and size (`predict.namesakes.Namesakes`); if too few of these jobs have ended,
    the job keeps its own request. `rule_of_thumb` is 1.25 times the largest peak of the user's last ten jobs of the
    job's size, `own` is the user's request. Raises NoAnswer if the log has no measured peak. One replay takes some 300
    microseconds per job.
    """
    use = measured(trace)
    known = (use.ended | ~np.isnan(use.used)) & ~np.isnan(trace.run_time)
    own = use.asked / MIB
    asks = known & ~np.isnan(own)
    compares = asks.sum() >= OWN_KNOWN * known.sum()
    scored = asks if compares else known & ~use.ended
    methods = {"advice": of_memory(Kernel(), use, most), "rule": of_memory(LargestRecent(), use, most)}
    answers = replay(trace, methods, procs=procs, ask=scored, tick=tick)
    said = answers["advice"]
    found = {
        "advice": _chosen(said, lambda bounds, _: math.exp(np.interp(1.0 - risk, said.levels, np.log(bounds)))),
        "least_waste": _chosen(said, lambda bounds, row: least_waste(said.levels, bounds, own[row])),
        "rule_of_thumb": answers["rule"].points,
    }
    needed = np.fmax(use.used, np.where(use.ended, TWICE * use.asked, np.nan)) / MIB
    own_kind = requests_over_log(trace, Namesakes("memory", written=True), needed, own, (risk, 1.0), scored)
    named = trace.nominal("job_name").codes >= 0
    for rule, amounts in zip(("advice", "least_waste"), own_kind, strict=True):
        found[rule] = np.where(amounts == amounts, amounts, np.where(named & (own == own), own, found[rule]))
    limits = {
        rule: np.array([rounded_request(a, floor, step, most) if a == a else a for a in amounts.tolist()])
        for rule, amounts in found.items()
    }
    units = units_of(trace, use.per, "alloc")
    return MemoryLimits(trace, use, units, limits | ({"own": own} if compares else {}), scored, most)


def _chosen(forecasts: Forecasts, choose: Callable[[np.ndarray, int], float]) -> np.ndarray:
    """Return the amount that `choose` takes from the quantiles of each row; the point prediction without quantiles."""
    amounts = forecasts.points.copy()
    has_bounds = ~np.isnan(forecasts.quantiles).all(axis=1) if forecasts.levels else np.zeros(len(amounts), bool)
    for row in np.flatnonzero(has_bounds).tolist():
        amounts[row] = choose(forecasts.quantiles[row], row)
    return amounts


def memory_limit_rows(limits: MemoryLimits, by: str | None = None) -> list[dict[str, Any]]:
    """Return one flat row per rule (with `by`, also per group): jobs, jobs out of memory per thousand, memory-time
    requested and used.

    A job runs out of memory under a request below its peak. A job that ran out of memory under its own request runs out
    under every smaller request; under a larger request the job's need is unknown, and the job counts as `undecided`.
    `spent` also counts the repeated attempts of a job, which request the user's own amount if that suffices, else twice
    the memory. Savings are relative to the users' own requests if the log has them, else to the usual rule. Rows of the
    whole log have the difference from this reference (own requests or usual rule), with a 90 % interval.
    """
    rules = [rule for rule in RULES if rule in limits.limits]
    if by is None:
        return _with_differences(limits, [_row(limits, rule, limits.scored) for rule in rules])
    groups = largest_groups(limits.trace, by, limits.scored)
    return [{**_row(limits, rule, here), "by": by, "group": name} for name, here in groups for rule in rules]


def _reference(limits: MemoryLimits) -> str:
    """Return the reference of the comparison: the users' own requests if known, else the usual rule."""
    return "own" if "own" in limits.limits else "rule_of_thumb"


def _per_job(limits: MemoryLimits, rule: str, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each job whether it runs out of memory, and GiB-hours requested at first and in all attempts."""
    limit, peak, ended = limits.limits[rule][inside], limits.peak[inside], limits.use.ended[inside]
    killed = np.where(ended, limit <= peak, limit < peak)
    hours = np.nan_to_num(limits.units[inside], nan=1.0) * limits.trace.run_time[inside] / GIB_H
    own = limits.limits["own"][inside] if "own" in limits.limits else np.full(len(limit), np.nan)
    again = np.where(own >= peak, own, np.nan)
    needs = np.where(ended & killed, np.nextafter(peak, np.inf), peak)
    every = np.array([spent(*one) for one in zip(limit.tolist(), needs.tolist(), again.tolist())])
    return killed, limit * hours, every * hours


def _row(limits: MemoryLimits, rule: str, inside: np.ndarray) -> dict[str, Any]:
    killed, first, every = _per_job(limits, rule, inside)
    theirs = _per_job(limits, _reference(limits), inside)[2]
    hours = np.nan_to_num(limits.units[inside], nan=1.0) * limits.trace.run_time[inside] / GIB_H
    used = float((limits.peak[inside] * hours).sum())
    limit, ended = limits.limits[rule][inside], limits.use.ended[inside]
    saved = float(theirs.sum() - every.sum())
    return {
        "limits": rule,
        "per": limits.use.per,
        "jobs": int(inside.sum()),
        RAN_OUT: 1000.0 * float(killed.mean()),
        "undecided_per_thousand": 1000.0 * float((ended & ~killed).mean()),
        "asked_over_used": float(first.sum()) / used if used > 0 else math.nan,
        "spent_over_used": float(every.sum()) / used if used > 0 else math.nan,
        "spent_gib_h": float(every.sum()),
        SPENT: float(every.mean()),
        "saved_gib_h": saved,
        "saved_nodes": _nodes(limits, saved),
        "median_limit_mib": float(np.median(limit)),
        "latest_limit_mib": float(limit[-1]),
    }


def _nodes(limits: MemoryLimits, saved: float) -> float:
    """Return the mean number of nodes whose memory the suggestions free, from first submission to last end; NaN if
    unknown."""
    trace = limits.trace
    ends = trace.submit_time + np.nan_to_num(trace.wait_time) + np.nan_to_num(trace.run_time)
    hours = float(ends.max() - trace.submit_time[0]) / 3600.0
    return saved / (limits.most / 1024.0 * hours) if math.isfinite(limits.most) and hours > 0 else math.nan


def _with_differences(limits: MemoryLimits, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    trace, scored = limits.trace, limits.scored
    group = burst_groups(trace)[scored]
    values = {}
    for row in rows:
        killed, _, every = _per_job(limits, row["limits"], scored)
        values[row["limits"]] = {SPENT: every, RAN_OUT: 1000.0 * killed}
    keys = compared(trace, scored, group, values, _reference(limits), MEASURES, 0)
    return [{**row, **keys[row["limits"]]} for row in rows]


def memory_words(rows: Sequence[Mapping[str, Any]], risk: float, most: float) -> str:
    """Return sentences on what the suggestions would have saved and cost."""
    by_rule = {row["limits"]: row for row in rows}
    against, whose = ("own", "the users' requests") if "own" in by_rule else ("rule_of_thumb", "the usual rule")
    advice, waste, other = by_rule["advice"], by_rule["least_waste"], by_rule[against]
    kept = f"{'within' if advice[RAN_OUT] <= 1000.0 * risk else 'more than'} the accepted {1000.0 * risk:g}"
    nodes = " (--machine FILE converts this to nodes)"
    if waste["saved_nodes"] == waste["saved_nodes"]:
        nodes = f" (on average the memory of {waste['saved_nodes']:,.1f} nodes)"
    return (
        f"With suggested requests, {advice[RAN_OUT]:.1f} of 1,000 jobs run out of memory ({kept}); with {whose}"
        f" {other[RAN_OUT]:.1f}. The suggested requests are {advice['spent_over_used']:.2f} times the used memory,"
        f" second attempts included, {whose} {other['spent_over_used']:.2f} times. The requests of least waste spend"
        f" {_saved(waste['saved_gib_h'])}{nodes}."
    )


def _saved(amount: float) -> str:
    """Return a change in GiB-hours as text.

    >>> _saved(1234.0), _saved(-5.0)
    ('1,234 GiB-hours less', '5 GiB-hours more')
    """
    return f"{abs(amount):,.0f} GiB-hours {'more' if amount < 0 else 'less'}"


STEP = 64.0  # MiB


def placed_by(trace: Trace, machine: Machine, rule: str, risk: float, procs: str = "req") -> MemoryPlan:
    """Return the memory request with which each job is placed on nodes: the suggestion at the risk, or `least_waste`,
    at most the largest node's memory.

    Raises NoAnswer if the log has no measured peak. The function takes about as long as `find_memory_limits`.
    """
    from ..simulation.on_nodes import plan_of  # sixty kernels more

    most = max((group.memory_mib for group in machine.nodes), default=math.inf)
    found = find_memory_limits(trace, risk=risk, floor=STEP, step=STEP, most=most, procs=procs)
    use = found.use
    peak = np.where(np.isnan(use.used), np.nan, found.peak)
    sizes = trace.procs(procs)
    share = units_of(trace, use.per, "req") / np.where(sizes > 0, sizes, np.nan)
    return plan_of(found.limits[rule], peak, use.asked / 1024.0, use.ended, share)


def memory_note(name: str, plan: MemoryPlan, rows: np.ndarray) -> str:
    """Return a sentence on how placing by suggested memory changed the simulated jobs."""
    unmeasured = plan.unmeasured(rows)
    return (
        f"{name}: {len(rows) - unmeasured:,} jobs were placed with the suggested memory; "
        f"{plan.out_of_memory(rows):,} ran out of memory and ran again with their own request (else with twice the "
        f"memory); their second wait counts; {unmeasured:,} without a known peak were placed as requested"
    )
