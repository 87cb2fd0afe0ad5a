"""The opening of the report: sentences a site manager can act on, made from the numbers, honest about their sign."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...evaluation.calendar import calendar
from ...evaluation.differences import more_history
from ...evaluation.evaluation import LEAST_GAIN_S, Evaluation
from ...evaluation.simulated import ORACLE, YARDSTICK
from ...evaluation.validity import Verdict
from ...metrics.accuracy import relative_accuracy
from ...metrics.paired import LEAST_GROUPS
from ..blocks import shown
from ..difference import difference_words, groups_in
from ..figures import span
from .policies import SAME, harms, helps, policy_words, stands, worth_trying

LEAST = 0.005
FEW = 100
NO_HELP = "No forecast tried here shortens the waits; the least harmful is"
LEVEL_WITH_LIMITS = "No forecast tried here shortens the waits by more than chance could; the shortest come with"
MOST_HISTORY = 50.0
"""Beyond so many times the log's length there is no use in waiting."""


def opening(evaluation: Evaluation) -> list[str]:
    """A few sentences: limits, forecasts, what planning with them would do against the oracle, what to do."""
    return [
        text
        for text in (_few(evaluation), _limits(evaluation), _forecasts(evaluation), *_schedules(evaluation))
        if text
    ]


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
    accurate = float(relative_accuracy(limit, run).mean())
    over = float((run > limit).mean())
    half = max(100 * float(np.median(used)), 1.0)
    text = (
        f"Users ask for far more time than they need: half of the jobs use less than {half:.0f} % of their limit"
        if np.median(used) < 0.5
        else f"Users' limits are fairly close: half of the jobs use at least {half:.0f} % of theirs"
    )
    past = f", and {100 * over:.1f} % ran past it" if over >= 0.0005 else ""
    return f"{text}{past} (users' accuracy {accurate:.2f}, where 1 is perfect)."


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
    least = f"(half of its forecasts by at most {span(best['median_ae_s'])}){against}"
    who = f"The best forecast by mean error{laxer}, {best['predictor']},"
    if doubt := _undecided(best, others):
        who = f"No forecast stands out{laxer}: {doubt}. {best['predictor']}"
    return (
        f"{who} is off by {span(best['mae_s'])} on average {least}; but {_longer(best['underestimate_rate'])} longer "
        "than it says, so it can plan a schedule but must not replace the limit that ends a job."
        + (f" {advised}" if (advised := _advised(evaluation)) else "")
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
        return few + _needed(row, "mae_s")
    return (
        f"the smallest mean error is {best['predictor']}'s, but this log cannot tell it from {rival} "
        f"(the difference is {_plain_difference(row)}){_needed(row, 'mae_s')}"
    )


def _plain_difference(row: Mapping[str, Any]) -> str:
    """The difference in mean error with its interval, without the word that the sentence says in its own way."""
    return str(difference_words(row, "mae_s", "seconds")).split(" ", 1)[1]


def _needed(row: Mapping[str, Any], metric: str) -> str:
    """How much more history would tell a difference of this size from none."""
    times = more_history(row, metric)
    if math.isnan(times) or times <= 1:
        return ""
    much = f"{max(times, 1.1):.1f} times as much history would be needed"
    if row.get(f"{metric}_verdict") == "unknown":
        return f"; at least {much} for an interval ({LEAST_GROUPS} groups)"
    if times > MOST_HISTORY:
        return f"; more than {MOST_HISTORY:.0f} times as much history would be needed, should it stay so small"
    return f"; about {much}, should the difference stay as large"


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


Rows = Mapping[tuple[str, str], Mapping[str, Any]]


def _schedules(evaluation: Evaluation) -> list[str]:
    rows = evaluation.schedule_rows()
    if not rows or not rows[0]["jobs"]:
        return [evaluation.why_not]
    by = {(row["policy"], row["predictor"]): row for row in rows}
    tried = [row for row in rows if row["predictor"] not in (YARDSTICK, ORACLE)]
    today = by[rows[0]["policy"], YARDSTICK]
    verdict = Verdict.UNCHECKED if evaluation.validity is None else evaluation.validity.verdict
    trusted = verdict is Verdict.CLOSE
    doubt = [] if trusted else [HINT if verdict is Verdict.ROUGH else DOUBTED]
    if today["mean_wait_s"] < LEAST_GAIN_S:
        return [
            *doubt,
            f"Simulated under {policy_words(today['policy'])} with the users' limits, jobs hardly wait "
            f"({span(today['mean_wait_s'])} on average): there is nothing for a forecast to gain.",
        ]
    advice = [*doubt, _order(by, today)]
    if tried and all(abs(_change(by, row)) < LEAST for row in tried):
        oracle = by[today["policy"], ORACLE]["mean_wait_s"]
        advice.append(
            f"Planned with any of the forecasts tried, they wait as long; knowing every run time beforehand would give "
            f"{_against(oracle, today['mean_wait_s'])} under {policy_words(today['policy'])}."
        )
    elif tried:
        helpful = [row for row in tried if _change(by, row) < -LEAST and helps(row)]
        best = min(helpful or tried, key=lambda row: row["mean_wait_s"])
        advice += [_best(by, tried, best, bool(helpful))]
    return [*advice, _advice(by, today)] if trusted else advice


HINT = (
    "Take the simulated waits that follow as a hint: on average they are what this log records, in other respects the "
    "simulation is not (see Validity)."
)
DOUBTED = (
    "Do not decide on the simulated waits that follow: the simulation does not come near what this log records (see "
    "Validity). What is said above of limits and forecasts holds, for it comes from the log itself."
)


def _order(by: Rows, today: Mapping[str, Any]) -> str:
    """What another policy does with the limits people give today."""
    text = (
        f"Simulated with the users' limits, jobs wait {span(today['mean_wait_s'])} on average under "
        f"{policy_words(today['policy'])}"
    )
    rest = [row for (_, spec), row in by.items() if spec == YARDSTICK and row is not today]
    others = [
        f"{_against(row['mean_wait_s'], today['mean_wait_s'], sure=stands(row))} under {policy_words(row['policy'])}"
        for row in rest
    ]
    return ", and ".join([text, *others]) + "."


def _best(by: Rows, tried: Sequence[Mapping[str, Any]], best: Mapping[str, Any], helped: bool) -> str:
    """What the best forecast does under its policy, against the limits there and against the oracle."""
    limits, oracle = by[best["policy"], YARDSTICK], by[best["policy"], ORACLE]
    head = "Planned with forecasts, the shortest waits come with" if helped else NO_HELP
    if not helped and _change(by, best) < -LEAST:
        head = LEVEL_WITH_LIMITS
    text = (
        f"{head} {best['predictor']} under {policy_words(best['policy'])}: "
        f"{_against(best['mean_wait_s'], limits['mean_wait_s'], ' than with the limits there', sure=helps(best))}. "
        f"{_perfect(best['share_of_perfect'], oracle['mean_wait_s'], limits['mean_wait_s'])}"
    )
    plain = min((row for (_, spec), row in by.items() if spec == YARDSTICK), key=lambda row: row["mean_wait_s"])
    if helped and plain["mean_wait_s"] < best["mean_wait_s"]:
        text += f" The limits alone give {span(plain['mean_wait_s'])} under {policy_words(plain['policy'])}."
    worse = [row for row in tried if _change(by, row) > SAME and harms(row)]
    if worse and helped:
        named = " and ".join(f"{row['predictor']} under {policy_words(row['policy'])}" for row in worse)
        text += f" Forecasts can also do harm: {named} would make the mean wait longer than the limits do."
    return text


def _change(by: Rows, row: Mapping[str, Any]) -> float:
    """Mean wait against the limits' under the same policy: -0.1 is a tenth shorter."""
    limits = by[row["policy"], YARDSTICK]["mean_wait_s"]
    return row["mean_wait_s"] / limits - 1 if limits > 0 else 0.0


def _perfect(share: float, oracle: float, limits: float) -> str:
    """What the oracle gives and the forecast's share of it; no share of next to nothing."""
    known = f"Knowing every run time beforehand would give {span(oracle)}"
    if math.isnan(share):
        return f"{known}, {'hardly' if oracle < limits else 'not'} below the limits' mean."
    if share > 1:
        return f"{known}; the forecast's mean is below it, for plans that are too short let more jobs slip ahead."
    return f"{known}; the forecast has {100 * share:.0f} % of what perfect knowledge would give."


def _advice(by: Rows, today: Mapping[str, Any]) -> str:
    """The step a manager could take, where the simulation may be trusted and an interval stands clear of zero."""
    sure, shorter = worth_trying(list(by.values()), today)
    if not sure:
        under = f"{policy_words(today['policy'])} with limits"
        if not shorter:
            return f"Nothing tried here makes jobs wait noticeably less than {under}."
        least = shorter[0]
        return (
            f"Nothing tried here makes jobs wait less than {under} by more than this log could tell from chance. The "
            f"shortest mean wait is that of {policy_words(least['policy'])} planned with {least['predictor']}: "
            f"{difference_words(least, 'mean_wait_s', 'seconds')}{_needed(least, 'mean_wait_s')}."
        )
    best = sure[0]
    how = f"{policy_words(best['policy'])} planned with {best['predictor']}, the users' limits still ending jobs"
    if best["predictor"] == YARDSTICK:
        how = f"{policy_words(best['policy'])} with the limits users give today, which needs no forecasts"
    longest, now = best["p95_wait_s"], today["p95_wait_s"]
    if longest <= (1 + SAME) * now:
        return f"Worth a trial first: {how}."
    return (
        f"Worth a trial first: {how}. The price: one job in twenty would wait {span(longest)} or more, against "
        f"{span(now)} under {policy_words(today['policy'])} with limits."
    )


def _against(wait: float, base: float, than: str = "", *, sure: bool = True) -> str:
    """A wait beside another; a change that the log cannot tell from none is called that."""
    change = wait / base - 1 if base > 0 else 0.0
    if abs(change) < LEAST:
        return f"{span(wait)} (no change)"
    unsure = "" if sure else ", which this log cannot tell from no change"
    return f"{span(wait)} ({100 * abs(change):.0f} % {'longer' if change > 0 else 'shorter'}{than}{unsure})"
