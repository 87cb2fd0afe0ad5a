# SPDX-License-Identifier: Apache-2.0
"""The report's first screen: sentences and cards for a site manager, made from the numbers.

On the cards the verdict, the gain with its interval, waits, the nearest forecast and the limits; below them the log in
one row of numbers per question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...evaluation.calendar import calendar
from ...evaluation.evaluation import Evaluation
from ...evaluation.findings import SAME
from ...evaluation.waste import waste_rows
from ...events.recorded import outcome
from ...metrics.accuracy import relative_accuracy
from ...simulation.models import YARDSTICK
from ...table import Trace
from ...table.columns import LogInfo
from ...units import counted
from ..blocks import Block, Card, Cards, Table, TableColumn, shown
from ..difference import difference_words, groups_in, history_needed
from ..figures import span
from .gains import gain_cards, gain_sentences

FEW = 100
LEAST = 0.005


def opening(evaluation: Evaluation) -> list[str]:
    """A few sentences: what would shorten waits and what to do, then limits and forecasts.

    Where the simulation is not believed the log's own figures come first, and no gain is told.
    """
    found, said = evaluation.findings(), gain_sentences(evaluation)
    gains, last = (said, []) if found is not None and found.believed else ([], said)
    limits = limits_used(evaluation.trace, evaluation.scores.scored, evaluation.procs)
    return [text for text in (_few(evaluation), *gains, limits, _forecasts(evaluation), *last) if text]


def _few(evaluation: Evaluation) -> str:
    """A caution where there is hardly anything to average."""
    jobs = int(evaluation.scores.scored.sum())
    few = f"Only {counted(jobs)} scored: too few to conclude anything from."
    return few if jobs < FEW else ""


def record_blocks(trace: Trace, mask: np.ndarray, procs: str) -> list[Block]:
    """What the record alone says, before anything is forecast or simulated: blocks that the page has as well.

    `mask` (n,) are the jobs to score, and `procs` the rule for a job's processors. O(n log n).
    """
    scored = mask & ~np.isnan(trace.run_time)
    return [
        glance_table(trace, scored, procs),
        limits_used(trace, scored, procs),
        limits_sentence(trace, scored),
    ]


def limits_used(trace: Trace, scored: np.ndarray, procs: str) -> str:
    """How much of their limits the scored jobs use."""
    run, limit = trace.run_time[scored], trace.req_time[scored]
    known = ~np.isnan(limit) & np.isfinite(limit)
    if not known.any():
        return "The log does not say what users asked for, so the accuracy of their limits is unknown."
    run, limit = run[known], limit[known]
    used = np.divide(run, limit, out=np.ones(len(run)), where=limit > 0)
    over = float((run > limit).mean())
    half = max(100 * float(np.median(used)), 1.0)
    text = (
        f"Half of the jobs use less than {half:.0f} % of their limit"
        if np.median(used) < 0.5
        else f"Users' limits are fairly close: half of the jobs use at least {half:.0f} % of theirs"
    )
    past = f", and {100 * over:.1f} % ran past it" if over >= 0.0005 else ""
    whole = waste_rows(trace, scored, procs=procs)[0]
    asked, unused = whole["asked_core_h"], whole["unused_core_h"]
    share = f"; {shown(unused / asked, 'share')} of the core-hours asked for went unused" if asked > 0 else ""
    return f"{text}{past}{share}."


def limits_sentence(trace: Trace, scored: np.ndarray) -> str:
    """The median limit beside the median run time."""
    limit, run = trace.req_time[scored], trace.run_time[scored]
    limit = limit[np.isfinite(limit)]
    if not len(limit) or not len(run):
        return "The log does not say what users asked for."
    return (
        f"Half of the jobs ask for {span(float(np.median(limit)))} or more; half of them run for "
        f"{span(float(np.median(run)))} or less."
    )


def _forecasts(evaluation: Evaluation) -> str:
    rows = {row["predictor"]: row for row in evaluation.accuracy_rows()}
    others = [row for name, row in rows.items() if name != YARDSTICK and row["jobs"]]
    if not others:
        return ""
    best = min(others, key=lambda row: row["mae_s"])
    laxer = (
        "" if evaluation.scores.protocol == "honest" else " under the paper protocol, which knows runs before they end"
    )
    if all(row.get("lacking") and _repeats(evaluation, row["predictor"]) for row in others):
        lacking = dict.fromkeys(field for row in others for field in str(row["lacking"]).split())
        only = f"The log does not hold {' and '.join(lacking)}, so the forecasts tried here can only repeat the limits."
        return " ".join(filter(None, (only, _advised(evaluation))))
    limit = rows.get(YARDSTICK)
    against = f", {_beside_limits(best, limit)}" if limit else ""
    who = f"The best forecast by mean error{laxer}, {best['predictor']},"
    if doubt := _undecided(best, others):
        who = f"No forecast stands out{laxer}: {doubt}. {best['predictor']}"
    return (
        f"{who} is off by {span(best['mae_s'])} on average{against}; {_longer(best['underestimate_rate'])} longer than "
        "it says, so it may plan but never end a job." + (f" {advised}" if (advised := _advised(evaluation)) else "")
    )


def _repeats(evaluation: Evaluation, predictor: str) -> bool:
    """Whether a forecast says what the user's limit says, wherever there is one."""
    points = evaluation.scores.points
    limit = points[YARDSTICK][evaluation.scores.scored]
    asked = ~np.isnan(limit)
    return bool(asked.any()) and np.array_equal(points[predictor][evaluation.scores.scored][asked], limit[asked])


def _advised(evaluation: Evaluation) -> str:
    """Columns that would help, and how far: chosen on one part of the log, measured on another."""
    advice = evaluation.advice
    if advice is None:
        return ""
    trace = evaluation.trace
    since = calendar(trace, float(trace.submit_time[advice.since]))
    ends = (advice.difference.high, advice.difference.low)
    low, high = (shown(-end / advice.against_mae_s, "share") for end in ends)
    head = (
        f"What helps is {' and '.join(advice.columns)}" if advice.columns else "What helps is to look at like requests"
    )
    return (
        f"{head}, which the log holds: {advice.predictor}, its columns chosen on {advice.past_jobs:,} jobs before "
        f"{since:%Y-%m-%d}, is off by {span(advice.mae_s)} on the {advice.jobs:,} since, where {advice.against} is off "
        f"by {span(advice.against_mae_s)} ({low} to {high} closer, 90 % interval over users' weeks). Try --predictor "
        f"{advice.predictor}."
    )


def _undecided(best: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    """Why the forecast with the smallest mean error is not called the best; empty where it may be."""
    if "against" in best:
        rival, row = best["against"], best
        if best["mae_s_verdict"] == "ahead":
            return ""
    else:  # it is the one that the others are compared with
        near = [row for row in others if row.get("mae_s_verdict") in ("level", "unknown")]
        if not near:
            return ""
        row = min(near, key=lambda each: each["mae_s"])
        rival = row["predictor"]
    if row["mae_s_verdict"] == "unknown":
        few = f"too few groups of {groups_in([row])} to tell methods apart ({row['mae_s_groups']})"
        return few + history_needed(row, "mae_s")
    return (
        f"the smallest mean error is {best['predictor']}'s, but this log cannot tell it from {rival} "
        f"(the difference is {_plain_difference(row)}){history_needed(row, 'mae_s')}"
    )


def _plain_difference(row: Mapping[str, Any]) -> str:
    """The difference in mean error with its interval, without the word that the sentence says in its own way."""
    return str(difference_words(row, "mae_s", "seconds")).split(" ", 1)[1]


def _beside_limits(best: Mapping[str, Any], limit: Mapping[str, Any]) -> str:
    """How a forecast stands beside the limits; a difference that the log cannot tell from none is called that."""
    verdict = best.get("mae_s_limits_verdict", limit.get("mae_s_verdict") and _turned(limit["mae_s_verdict"]))
    if verdict in ("level", "unknown"):
        return f"which this log cannot tell from the limits' {span(limit['mae_s'])}"
    return _closer(best["mae_s"], limit["mae_s"])


def _turned(verdict: str) -> str:
    """A verdict seen from the other side."""
    return {"ahead": "behind", "behind": "ahead"}.get(verdict, verdict)


def _longer(share: float) -> str:
    return f"{100 * share:.0f} % of the jobs run" if share >= LEAST else "some job may well run"


def _closer(error: float, limits: float) -> str:
    ratio = limits / error if error else math.inf
    theirs = f"the limits' {span(limits)}"
    if ratio >= 1.5:
        return f"{ratio:.1f} times closer than {theirs}"
    if ratio >= 1 + SAME:
        return f"{100 * (1 - 1 / ratio):.0f} % closer than {theirs}"
    return f"no better than {theirs}" if ratio > 1 / (1 + SAME) else f"worse than {theirs}"


LEAST_PERIODS = 3  # fewer points over time are no picture


def glance_table(trace: Trace, scored: np.ndarray, rule: str) -> Table:
    """What the log holds: counts, dates, machine, load, waits, sizes and the users' accuracy."""
    submit, wait, run = outcome(trace)
    ran = ~np.isnan(run)
    first, last = calendar(trace, float(submit[0])), calendar(trace, float(submit[-1]))
    users = len(np.unique(trace.nominal("user_id").codes[trace.nominal("user_id").is_known()]))
    procs = trace.procs(rule)
    rows = [
        ("jobs", f"{len(trace):,}, of which {int((~ran).sum()):,} never ran"),
        ("scored", counted(int(scored.sum()))),
        ("users", f"{users:,}" if users else "unknown"),
        ("submitted", f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} ({trace.info.timezone})"),
        ("machine", _machine(trace.info)),
        ("utilization, as recorded", _utilization(submit + wait, run, procs, trace.info.max_procs)),
        ("wait, as recorded", _quantiles(np.maximum(trace.wait_time[ran], 0))),
        ("run time", _quantiles(run)),
        ("limit", _quantiles(trace.req_time)),
        ("processors", _sizes(procs)),
        ("users' accuracy", _users_accuracy(run, trace.req_time)),
    ]
    return Table(
        "What the log holds",
        [TableColumn("what", ""), TableColumn("value", "")],
        [{"what": w, "value": v} for w, v in rows],
    )


def _machine(info: LogInfo) -> str:
    if not info.max_procs > 0:
        return "size unknown"
    return f"{info.max_procs:,.0f} processors (from {info.max_procs_source})"


def _utilization(start: np.ndarray, run: np.ndarray, procs: np.ndarray, total: float) -> str:
    known = ~(np.isnan(run) | np.isnan(procs))
    if not total > 0 or not known.any():
        return "unknown"
    makespan = float((start + run)[known].max() - start[known].min())
    return shown(float((procs * run)[known].sum()) / (total * makespan), "share") if makespan > 0 else "unknown"


def _quantiles(values: np.ndarray) -> str:
    values = values[np.isfinite(values)]
    if not len(values):
        return "unknown"
    half, most = np.percentile(values, [50, 95]).tolist()
    return f"mean {span(float(values.mean()))}, median {span(half)}, 95 % within {span(most)}"


def _sizes(procs: np.ndarray) -> str:
    procs = procs[~np.isnan(procs)]
    if not len(procs):
        return "unknown"
    return (
        f"median {np.median(procs):g}, largest {procs.max():,.0f}; {shown(float((procs == 1).mean()), 'share')} serial"
    )


def _users_accuracy(run: np.ndarray, limit: np.ndarray) -> str:
    known = np.isfinite(run) & np.isfinite(limit)
    if not known.any():
        return "unknown"
    return f"{relative_accuracy(limit[known], run[known]).mean():.3f} (mean of min/max of limit and run; 1 is perfect)"


def cards(evaluation: Evaluation) -> Cards:
    """The key figures of an evaluation; those that the log does not give are left out."""
    first, last = gain_cards(evaluation)
    return Cards([*first, *_limit_cards(evaluation), *_unused(evaluation), *_forecast(evaluation), *last])


def _unused(evaluation: Evaluation) -> list[Card]:
    whole = evaluation.waste_rows()[0]
    asked, unused = whole["asked_core_h"], whole["unused_core_h"]
    if not asked > 0:
        return []
    return [
        Card("Core-hours unused", shown(unused / asked, "share"), f"of {shown(asked, 'count')} that limits asked for")
    ]


def _forecast(evaluation: Evaluation) -> list[Card]:
    rows = {row["predictor"]: row for row in evaluation.accuracy_rows() if row["jobs"]}
    others = [row for name, row in rows.items() if name != YARDSTICK and row["mae_s"] == row["mae_s"]]
    if not others:
        return []
    least = min(others, key=lambda row: row["mae_s"])
    limits = f"; the limits' {span(rows[YARDSTICK]['mae_s'])}" if YARDSTICK in rows else ""
    return [Card("Smallest mean error", span(least["mae_s"]), f"{least['predictor']}{limits}")]


def _limit_cards(evaluation: Evaluation) -> list[Card]:
    run, limit = (v[evaluation.scores.scored] for v in (evaluation.trace.run_time, evaluation.trace.req_time))
    known = np.isfinite(limit) & np.isfinite(run) & (limit > 0)
    if not known.any():
        return []
    used = 100.0 * float(np.median(run[known] / limit[known]))
    share = f"{used:.0f} %" if used >= 1 else "below 1 %"
    return [Card("Used of the limit", share, "median over the scored jobs")]
