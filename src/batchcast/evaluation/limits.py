# SPDX-License-Identifier: Apache-2.0
"""Compare time limits on a log: calibrated suggestions, the usual rule of thumb, and the users' own limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import NoAnswer
from ..events.recorded import Forecasts, outcome, timeline
from ..metrics.measure import Measure
from ..metrics.paired import Difference
from ..predict.gate import class_codes
from ..predict.namesakes import Namesakes, needed_time, requests_over_log
from ..predict.runtime.baselines import recent_runs
from ..predict.runtime.calibrated import Calibrated
from ..table import Trace
from .differences import burst_groups, compared, shown_names

RECENT = 10
RISK = 0.05
PROMISED = (0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
LATEST = 50_000
LEAST_SCORED = 300
"""With fewer jobs, the rate of jobs killed (one in twenty) is too uncertain."""
RULES = ("advice", "rule_of_thumb", "own")
MEASURES = (
    Measure("mean_unused_core_h", "number", "unused core-hours a job"),
    Measure("killed_beyond_own_per_thousand", "number", "killed of 1,000 that would have ended"),
)
MEAN_UNUSED, KILLED = (each.name for each in MEASURES)
MOST_GROUPS = 20
COLUMNS = {"user": "user_id", "account": "account", "queue": "queue_id", "application": "app_id"}


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


def limit_rows(limits: Limits, by: str | None = None) -> list[dict[str, Any]]:
    """Return one flat row per rule (with `by`, also per group): jobs, kills per thousand, core-hours requested and
    unused.

    A job is killed by a limit below its run time. A job that its own limit ended is killed by every limit up to its
    own. Under a longer limit the job's run time is unknown, so the job counts as `undecided` and not as killed. Only
    the twenty groups with the most jobs have rows. Rows of the whole log have the differences from the users' own
    limits in mean unused core-hours and in kills of jobs that ended by themselves, with 90 % intervals (keys of
    `evaluation.differences`). Rows of suggestions also have the differences from the rule of thumb
    (`rule_differences`).
    """
    if by is None:
        return _with_differences(limits, [_row(limits, rule, limits.scored) for rule in RULES])
    groups = largest_groups(limits.trace, by, limits.scored)
    return [{**_row(limits, rule, here), "by": by, "group": name} for name, here in groups for rule in RULES]


def largest_groups(trace: Trace, by: str, scored: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Return the groups with the most scored jobs, largest first: for each group, the name to show and the mask of its
    jobs (n,)."""
    codes, names = trace.nominal(COLUMNS[by]).codes, shown_names(trace, COLUMNS[by])
    count = np.bincount(codes[scored & (codes >= 0)], minlength=len(names))
    for code in np.argsort(-count, kind="stable")[:MOST_GROUPS].tolist():
        if count[code]:
            yield names[code], scored & (codes == code)


def _with_differences(limits: Limits, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with paired differences over groups of one user's submissions of one week."""
    trace, scored = limits.trace, limits.scored
    group = burst_groups(trace)[scored]
    values = {}
    for rule in RULES:
        cut, killed, unused = _per_job(limits, rule, scored)
        values[rule] = {MEAN_UNUSED: unused / 3600.0, KILLED: 1000.0 * (killed & ~cut)}
    keys = compared(trace, scored, group, values, "own", MEASURES, 0)
    thumb = {name: values[name] for name in RULES[:2]}
    beside = compared(trace, scored, group, thumb, "rule_of_thumb", MEASURES, 0)["advice"]
    keys["advice"]["rule_differences"] = beside["differences"]
    return [{**row, **keys[row["limits"]]} for row in rows]


def _per_job(limits: Limits, rule: str, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each job whether its own limit ended it, whether the rule's limit kills it, and its unused
    processor-seconds."""
    limit, own = limits.limits[rule][inside], limits.limits["own"][inside]
    run, procs = limits.trace.run_time[inside], np.nan_to_num(limits.procs[inside], nan=1.0)
    cut = run >= own
    return cut, np.where(cut, limit <= own, run > limit), procs * np.maximum(limit - run, 0.0)


def _row(limits: Limits, rule: str, inside: np.ndarray) -> dict[str, Any]:
    limit, own = limits.limits[rule][inside], limits.limits["own"][inside]
    cut, killed, unused = _per_job(limits, rule, inside)
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


def recommended_rule(rows: Sequence[Mapping[str, Any]], risk: float) -> str:
    """Return the rule to recommend: the rule of thumb if it wastes less than the suggestion within the promised risk.

    The rule of thumb must end early at most the share `risk` of the jobs that their own limits did not end, and leave
    clearly fewer core-hours unused than the suggestion (by the 90 % interval, if there is one).

    >>> rows = [{"limits": rule, KILLED: ended, MEAN_UNUSED: unused}
    ...         for rule, ended, unused in (("advice", 17.6, 5.0), ("rule_of_thumb", 45.0, 1.5))]
    >>> recommended_rule(rows, 0.05), recommended_rule(rows, 0.04)
    ('rule_of_thumb', 'advice')
    """
    advice, thumb = (next(row for row in rows if row["limits"] == rule) for rule in RULES[:2])
    beside = Difference.of(advice, MEAN_UNUSED, "rule_differences")
    wastes_less = thumb[MEAN_UNUSED] < advice[MEAN_UNUSED] and (beside is None or beside.verdict == "behind")
    return "rule_of_thumb" if wastes_less and thumb[KILLED] <= 1000.0 * risk else "advice"


def advice_words(rows: Sequence[Mapping[str, Any]], risk: float) -> str:
    """Return a sentence on what the limits would have saved and cost, and on the rule of thumb if it is better."""
    by_rule = {row["limits"]: row for row in rows}
    advice, thumb = by_rule["advice"], by_rule["rule_of_thumb"]
    own_unused, advice_unused = by_rule["own"]["over_request_core_h"], advice["over_request_core_h"]
    saved = 1.0 - advice_unused / own_unused if own_unused > 0 else 0.0
    stated = Difference.of(advice, MEAN_UNUSED)
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
