# SPDX-License-Identifier: Apache-2.0
"""The opening of the report: sentences a site manager can act on, made from the numbers, honest about their sign."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...evaluation.calendar import calendar
from ...evaluation.evaluation import Evaluation
from ...evaluation.findings import SAME
from ...evaluation.simulated import YARDSTICK
from ..blocks import shown
from ..difference import difference_words, groups_in, history_needed
from ..figures import span
from .gains import gain_sentences

FEW = 100
LEAST = 0.005


def opening(evaluation: Evaluation) -> list[str]:
    """A few sentences: what would shorten waits and what to do, then limits and forecasts.

    Where the simulation is not believed the log's own figures come first, and no gain is told.
    """
    found, said = evaluation.findings(), gain_sentences(evaluation)
    gains, last = (said, []) if found is not None and found.believed else ([], said)
    return [text for text in (_few(evaluation), *gains, _limits(evaluation), _forecasts(evaluation), *last) if text]


def _few(evaluation: Evaluation) -> str:
    """A caution where there is hardly anything to average."""
    jobs = int(evaluation.scores.scored.sum())
    few = f"Only {jobs} job{'' if jobs == 1 else 's'} scored: too few to conclude anything from."
    return few if jobs < FEW else ""


def _limits(evaluation: Evaluation) -> str:
    trace, scored = evaluation.trace, evaluation.scores.scored
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
    whole = evaluation.waste_rows()[0]
    asked, unused = whole["asked_core_h"], whole["unused_core_h"]
    share = f"; {shown(unused / asked, 'share')} of the core-hours asked for went unused" if asked > 0 else ""
    return f"{text}{past}{share}."


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
