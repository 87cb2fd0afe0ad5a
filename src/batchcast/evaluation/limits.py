# SPDX-License-Identifier: Apache-2.0
"""Compare time limits and memory requests on a log: suggestions, the usual rule of thumb, and the users' own requests.

The module also gives the memory with which a simulation places the log's jobs on nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import NoAnswer
from ..events.recorded import Forecasts, outcome, replay, timeline
from ..machines.machine import Machine
from ..metrics.measure import Measure
from ..predict.gate import class_codes
from ..predict.namesakes import TWICE, Namesakes, needed_time, requests_over_log
from ..predict.peak_memory import MIB, least_waste
from ..predict.recommend import rounded_request, spent
from ..predict.runtime.baselines import LargestRecent, recent_runs
from ..predict.runtime.calibrated import Calibrated
from ..predict.runtime.kernel import Kernel
from ..table import Trace
from ..table.memory import MemoryUse, units_of
from .accuracy import measured, of_memory
from .differences import ResultRow, burst_groups, compared, shown_names

if TYPE_CHECKING:
    from ..simulation.on_nodes import MemoryPlan

RECENT = 10
RISK = 0.05
PROMISED = (0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
LATEST = 50_000
LEAST_SCORED = 300
"""With fewer jobs, the rate of jobs killed (one in twenty) is too uncertain."""
MEASURES = (
    Measure("mean_unused_core_h", "number", "unused core-hours a job"),
    Measure("killed_beyond_own_per_thousand", "number", "killed of 1,000 that would have ended"),
)
MEAN_UNUSED, KILLED = (each.name for each in MEASURES)
MOST_GROUPS = 20
COLUMNS = {"user": "user_id", "account": "account", "queue": "queue_id", "application": "app_id"}
MEMORY_MEASURES = (
    Measure("mean_spent_gib_h", "number", "GiB-hours spent a job"),
    Measure("killed_per_thousand", "number", "out of memory of 1,000"),
)
SPENT, RAN_OUT = (each.name for each in MEMORY_MEASURES)
GIB_H = 1024.0 * 3600.0
OWN_KNOWN = 0.5
"""With a smaller share of measured jobs that have a request, users' requests are left out of the comparison."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits (n,) that each rule sets for every job at its submission, in seconds; NaN if the job ran without a
    limit.

    `scored` (n,) marks jobs that ran and had a limit of their own. `bounds` are calibrated upper bounds of run times
    (n,), by level.
    """

    trace: Trace
    procs: np.ndarray
    limits: Mapping[str, np.ndarray]
    scored: np.ndarray
    bounds: Mapping[float, np.ndarray] = field(default_factory=dict)
    measures: ClassVar = MEASURES
    reference: ClassVar = "own"
    """The rule with which the other rules are compared: the users' own limits."""

    def per_job(self, rule: str, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return for each job whether its own limit ended it, whether the rule's limit kills it, and its unused
        processor-seconds."""
        limit, own = self.limits[rule][inside], self.limits["own"][inside]
        run, procs = self.trace.run_time[inside], np.nan_to_num(self.procs[inside], nan=1.0)
        cut = run >= own
        return cut, np.where(cut, limit <= own, run > limit), procs * np.maximum(limit - run, 0.0)

    def values(self, rule: str) -> dict[str, np.ndarray]:
        """Return the values of `measures` for the scored jobs under a rule."""
        cut, killed, unused = self.per_job(rule, self.scored)
        return {MEAN_UNUSED: unused / 3600.0, KILLED: 1000.0 * (killed & ~cut)}

    def row(self, rule: str, inside: np.ndarray) -> dict[str, Any]:
        """Return the flat row of a rule over the jobs inside (n,)."""
        limit, own = self.limits[rule][inside], self.limits["own"][inside]
        cut, killed, unused = self.per_job(rule, inside)
        return {
            "limits": rule,
            "jobs": int(inside.sum()),
            "killed_per_thousand": 1000.0 * float(killed.mean()),
            KILLED: 1000.0 * float((killed & ~cut).mean()),
            "undecided_per_thousand": 1000.0 * float((cut & (limit > own)).mean()),
            "over_request_core_h": float(unused.sum()) / 3600.0,
            MEAN_UNUSED: float(unused.mean()) / 3600.0,
            "median_limit_s": float(np.median(limit)),
            "latest_limit_s": float(limit[-1]),
        }


def find_limits(
    trace: Trace,
    *,
    risk: float = 0.05,
    floor: float = 300.0,
    step: float = 300.0,
    procs: str = "req",
    lots: bool = False,
    by_name: bool = True,
    tick: Callable[[int], None] | None = None,
    answers: Forecasts | None = None,
) -> Limits:
    """Return the limits that would have been suggested at each submission, from the jobs that had ended before.

    Suggestion: the bound of `calibrated` at level 1 - `risk`, without randomization, at least `floor`, rounded up to a
    multiple of `step`, never above the user's own limit. With `by_name`, the limit of a job with a name comes from jobs
    of the same user, name and size alone, once enough of these jobs have ended for the risk. A job with a new name
    keeps its own limit if the bound did not hold for earlier jobs with new names (`predict.namesakes.Namesakes`).

    Rule of thumb: 1.25 times the longest of the last ten ended jobs of the same user and size (else of the same user,
    else the job's own limit), rounded up to five minutes. `bounds` are randomized in bursts if the caller sets `lots`.
    Raises NoAnswer if no job that ran had a limit. `answers` are the predictions of `kernel` for this log, if the
    caller has them already. One pass takes about 100 microseconds per job.
    """
    own = np.where((trace.req_time > 0) & np.isfinite(trace.req_time), trace.req_time, np.nan)
    scored = ~np.isnan(own) & ~np.isnan(trace.run_time)
    if not scored.any():
        raise NoAnswer("no job that ran had a limit", hint="`batchcast info LOG` shows which fields the log has")
    method = Calibrated(level=1.0 - risk, lots=lots)
    forecasts, steady = method.drawn_and_steady(trace, procs=procs, tick=tick, answers=answers)
    bound = np.where(scored, steady[:, forecasts.levels.index(1.0 - risk)], np.nan)
    if by_name:
        needed = needed_time(trace.run_time, trace.req_time)
        alike = requests_over_log(trace, Namesakes("time"), needed, own, (risk,), scored, procs, bound)[0]
        bound = np.where(alike == alike, alike, bound)
    advice = np.minimum(rounded(bound, floor, step), own)
    limits = {"advice": advice, "rule_of_thumb": _thumb(trace, own, procs), "own": own}
    held = np.where(scored[:, None], forecasts.quantiles, np.nan)
    bounds = {level: held[:, forecasts.levels.index(level)] for level in PROMISED}
    return Limits(trace, trace.procs(procs), limits, scored, bounds)


def latest_limits(
    trace: Trace, mask: np.ndarray, *, most: int = LATEST, procs: str = "req", answers: Forecasts | None = None
) -> Limits | None:
    """Return the result of `find_limits` for the last `most` jobs, scored on the jobs in `mask` (n,); None if there are
    too few jobs.

    `answers` are the predictions of `kernel` for the whole log, if the caller has them already. In a longer log, the
    last `most` jobs are predicted again, from these jobs alone.
    """
    last = np.arange(max(len(trace) - most, 0), len(trace))
    known = (trace.req_time > 0) & np.isfinite(trace.req_time) & ~np.isnan(trace.run_time)
    if np.count_nonzero((known & mask)[last]) < LEAST_SCORED:
        return None
    answers = answers if len(last) == len(trace) else None
    found = find_limits(trace.take(last), risk=RISK, procs=procs, answers=answers)
    return replace(found, scored=found.scored & mask[last])


def rounded(seconds: np.ndarray, floor: float, step: float) -> np.ndarray:
    """Return the limits, at least `floor` and rounded up to a multiple of `step` (0: not rounded).

    >>> rounded(np.array([10.0, 301.0]), 60.0, 300.0).tolist()
    [300.0, 600.0]
    """
    raised: np.ndarray = np.maximum(seconds, floor)
    return np.asarray(np.ceil(raised / step - 1e-9) * step) if step > 0 else raised


def _thumb(trace: Trace, own: np.ndarray, procs: str) -> np.ndarray:
    """Return `rule_of_thumb` at each submission, from the last ended jobs of the same user and size, else of the same
    user."""
    plan, run, seen = timeline(trace), outcome(trace)[2], trace.at_submission(procs)
    like, any_size = (
        np.nanmax(recent_runs(plan, class_codes(seen, names, len(trace))[0], run, RECENT), axis=1, initial=-np.inf)
        for names in (("user_id", "procs"), ("user_id",))
    )
    longest = np.where(like >= 0, like, any_size)
    limits = np.where(longest >= 0, rounded(1.25 * longest, 300.0, 300.0), np.maximum(own, 300.0))
    return np.where(np.isnan(own), np.nan, limits)


def recommended_rule(rows: Sequence[ResultRow], risk: float) -> str:
    """Return the rule to recommend: the rule of thumb if it wastes less than the suggestion within the promised risk.

    The rule of thumb must end early at most the share `risk` of the jobs that their own limits did not end, and leave
    clearly fewer core-hours unused than the suggestion (by the 90 % interval, if there is one).

    >>> rows = [ResultRow({"limits": rule, KILLED: ended, MEAN_UNUSED: unused})
    ...         for rule, ended, unused in (("advice", 17.6, 5.0), ("rule_of_thumb", 45.0, 1.5))]
    >>> recommended_rule(rows, 0.05), recommended_rule(rows, 0.04)
    ('rule_of_thumb', 'advice')
    """
    advice, thumb = (next(row for row in rows if row["limits"] == rule) for rule in ("advice", "rule_of_thumb"))
    beside = advice.comparison.rule_differences.get(MEAN_UNUSED) if advice.comparison else None
    wastes_less = thumb[MEAN_UNUSED] < advice[MEAN_UNUSED] and (beside is None or beside.verdict == "behind")
    return "rule_of_thumb" if wastes_less and thumb[KILLED] <= 1000.0 * risk else "advice"


def advice_words(rows: Sequence[ResultRow], risk: float) -> str:
    """Return a sentence on what the limits would have saved and cost, and on the rule of thumb if it is better."""
    by_rule = {row["limits"]: row for row in rows}
    advice, thumb = by_rule["advice"], by_rule["rule_of_thumb"]
    own_unused, advice_unused = by_rule["own"]["over_request_core_h"], advice["over_request_core_h"]
    saved = 1.0 - advice_unused / own_unused if own_unused > 0 else 0.0
    stated = advice.difference(MEAN_UNUSED)
    is_sure = stated is None or stated.verdict in ("ahead", "behind")
    doubt = "" if is_sure else ", a difference that may be chance on this log"
    extra = advice[KILLED]
    plain = ""
    if recommended_rule(rows, risk) == "rule_of_thumb":
        plain = (
            f" Recommended on this log: the plain rule, 1.25 times the longest of the last ten jobs. It leaves "
            f"{advice_unused - thumb['over_request_core_h']:,.0f} core-hours less unused than the advice, and ends "
            f"{thumb[KILLED]:.1f} of 1,000 jobs early, also within the accepted {1000.0 * risk:g}."
        )
    return (
        f"Suggested limits request {own_unused - advice_unused:,.0f} core-hours less than the users' limits "
        f"({saved:.0%} of the unused core-hours{doubt}) and end {extra:.1f} of 1,000 jobs early, "
        f"{'within' if extra <= 1000.0 * risk else 'more than'} the accepted {1000.0 * risk:g}.{plain}"
    )


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
    measures: ClassVar = MEMORY_MEASURES

    @property
    def peak(self) -> np.ndarray:
        """Return the peak memory of each job in MiB (n,); for a job that ran out of memory, its allocation, which was
        not enough."""
        got = np.fmax(self.use.used_kib, np.where(self.use.ended, self.use.requested_kib, np.nan))
        return np.asarray(np.maximum(np.where(self.use.ended, got, self.use.used_kib) / MIB, 1.0))

    @property
    def reference(self) -> str:
        """The rule with which the other rules are compared: the users' own requests if known, else the usual rule."""
        return "own" if "own" in self.limits else "rule_of_thumb"

    def per_job(self, rule: str, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return for each job whether it runs out of memory, the GiB-hours that it spends in all attempts, and the
        hours that turn MiB per unit into GiB-hours."""
        limit, peak, ended = self.limits[rule][inside], self.peak[inside], self.use.ended[inside]
        killed = np.where(ended, limit <= peak, limit < peak)
        hours = np.nan_to_num(self.units[inside], nan=1.0) * self.trace.run_time[inside] / GIB_H
        own = self.limits["own"][inside] if "own" in self.limits else np.full(len(limit), np.nan)
        again = np.where(own >= peak, own, np.nan)
        needs = np.where(ended & killed, np.nextafter(peak, np.inf), peak)
        return (
            killed,
            np.array([spent(*job) for job in zip(*(x.tolist() for x in (limit, needs, again)))]) * hours,
            hours,
        )

    def values(self, rule: str) -> dict[str, np.ndarray]:
        """Return the values of `measures` for the scored jobs under a rule."""
        killed, every, _ = self.per_job(rule, self.scored)
        return {SPENT: every, RAN_OUT: 1000.0 * killed}

    def row(self, rule: str, inside: np.ndarray) -> dict[str, Any]:
        """Return the flat row of a rule over the jobs inside (n,)."""
        limit, (killed, every, hours) = self.limits[rule][inside], self.per_job(rule, inside)
        used = float((self.peak[inside] * hours).sum())
        saved = float(self.per_job(self.reference, inside)[1].sum() - every.sum())
        return {
            "limits": rule,
            "per": self.use.per,
            "jobs": int(inside.sum()),
            RAN_OUT: 1000.0 * float(killed.mean()),
            "undecided_per_thousand": 1000.0 * float((self.use.ended[inside] & ~killed).mean()),
            "asked_over_used": float((limit * hours).sum()) / used if used > 0 else math.nan,
            "spent_over_used": float(every.sum()) / used if used > 0 else math.nan,
            "spent_gib_h": float(every.sum()),
            SPENT: float(every.mean()),
            "saved_gib_h": saved,
            "saved_nodes": self._nodes(saved),
            "median_limit_mib": float(np.median(limit)),
            "latest_limit_mib": float(limit[-1]),
        }

    def _nodes(self, saved: float) -> float:
        """Return the mean number of nodes whose memory the suggestions free, from first submission to last end; NaN if
        unknown."""
        trace = self.trace
        ends = trace.submit_time + np.nan_to_num(trace.wait_time) + np.nan_to_num(trace.run_time)
        hours = float(ends.max() - trace.submit_time[0]) / 3600.0
        return saved / (self.most / 1024.0 * hours) if math.isfinite(self.most) and hours > 0 else math.nan


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
    known = (use.ended | ~np.isnan(use.used_kib)) & ~np.isnan(trace.run_time)
    own = use.requested_kib / MIB
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
    needed = np.fmax(use.used_kib, np.where(use.ended, TWICE * use.requested_kib, np.nan)) / MIB
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


def limit_rows(requests: Limits | MemoryLimits, by: str | None = None) -> list[ResultRow]:
    """Return one row per rule (with `by`, also per group): jobs, kills per thousand, and resources requested and
    unused.

    A job is killed by a limit below its run time. A job that its own limit ended is killed by every limit up to its
    own. Under a longer limit the job's run time is unknown, so the job counts as `undecided` and not as killed. In the
    same way, a job runs out of memory under a request below its peak, and a job that ran out of memory under its own
    request runs out under every smaller request. `spent` also counts the repeated attempts of a job, which request the
    user's own amount of memory if that suffices, else twice the memory. Savings of memory are relative to the users'
    own requests if the log has them, else to the usual rule.

    Only the twenty groups with the most jobs have rows. Rows of the whole log are compared with the `reference` rule in
    `measures`, with 90 % intervals. The row of suggested time limits also has the differences from the rule of thumb
    (`rule_differences`).
    """
    trace, scored, rules = requests.trace, requests.scored, requests.limits
    if by is not None:
        groups = largest_groups(trace, by, scored)
        return [
            ResultRow({**requests.row(rule, here), "by": by, "group": name}) for name, here in groups for rule in rules
        ]
    group, values = burst_groups(trace)[scored], {rule: requests.values(rule) for rule in rules}
    found = compared(trace, scored, group, values, requests.reference, requests.measures, 0)
    if isinstance(requests, Limits):
        del values["own"]
        beside = compared(trace, scored, group, values, "rule_of_thumb", MEASURES, 0)["advice"]
        found["advice"] = replace(found["advice"], rule_differences=beside.differences)
    return [ResultRow(requests.row(rule, scored), found[rule]) for rule in rules]


def largest_groups(trace: Trace, by: str, scored: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Return the groups with the most scored jobs, largest first: for each group, the name to show and the mask of its
    jobs (n,)."""
    codes, names = trace.nominal(COLUMNS[by]).codes, shown_names(trace, COLUMNS[by])
    count = np.bincount(codes[scored & (codes >= 0)], minlength=len(names))
    for code in np.argsort(-count, kind="stable")[:MOST_GROUPS].tolist():
        if count[code]:
            yield names[code], scored & (codes == code)


def memory_words(rows: Sequence[ResultRow], risk: float, most: float) -> str:
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
    peak = np.where(np.isnan(use.used_kib), np.nan, found.peak)
    sizes = trace.procs(procs)
    share = units_of(trace, use.per, "req") / np.where(sizes > 0, sizes, np.nan)
    return plan_of(found.limits[rule], peak, use.requested_kib / 1024.0, use.ended, share)


def memory_note(name: str, plan: MemoryPlan, rows: np.ndarray) -> str:
    """Return a sentence on how placing by suggested memory changed the simulated jobs."""
    unmeasured = plan.unmeasured(rows)
    return (
        f"{name}: {len(rows) - unmeasured:,} jobs were placed with the suggested memory; "
        f"{plan.out_of_memory(rows):,} ran out of memory and ran again with their own request (else with twice the "
        f"memory); their second wait counts; {unmeasured:,} without a known peak were placed as requested"
    )
