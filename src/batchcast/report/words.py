"""The opening of the report: sentences a site manager can act on, made from the numbers, honest about their sign."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..evaluate.evaluation import ORACLE, YARDSTICK, Evaluation
from ..evaluate.validity import Validity
from ..metrics.accuracy import relative_accuracy
from .axes import span
from .blocks import Callout, shown

SAME = 0.02
LEAST = 0.005
FEW = 100
NO_HELP = "No forecast tried here shortens the waits; the least harmful is"


def opening(found: Evaluation) -> list[str]:
    """A few sentences: limits, forecasts, what planning with them would do against the oracle, what to do."""
    return [text for text in (_few(found), _limits(found), _forecasts(found), *_schedules(found)) if text]


def _few(found: Evaluation) -> str:
    """A caution where there is hardly anything to average."""
    jobs = int(found.scores.scored.sum())
    few = f"Only {jobs} job{'' if jobs == 1 else 's'} scored: too few to conclude anything from."
    return few if jobs < FEW else ""


def _limits(found: Evaluation) -> str:
    trace, scored = found.trace, found.scores.scored
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


def _forecasts(found: Evaluation) -> str:
    rows = {row["predictor"]: row for row in found.accuracy_rows()}
    others = [row for name, row in rows.items() if name != YARDSTICK and row["jobs"]]
    if not others:
        return ""
    best = min(others, key=lambda row: row["mae_s"])
    limit = rows[YARDSTICK]
    laxer = "" if found.scores.protocol == "honest" else " under the paper protocol, which knows runs before they end"
    if all(row.get("lacking") and row["mae_s"] == limit["mae_s"] for row in others):
        lacking = dict.fromkeys(field for row in others for field in str(row["lacking"]).split())
        return f"The log does not hold {' and '.join(lacking)}, so the forecasts tried here can only repeat the limits."
    asked = np.isfinite(found.trace.req_time[found.scores.scored]).any()
    against = f", {_closer(best['mae_s'], limit['mae_s'])}" if asked else ""
    return (
        f"The best forecast by mean error{laxer}, {best['predictor']}, is off by {span(best['mae_s'])} on average "
        f"(half of its forecasts by at most {span(best['median_ae_s'])}){against}; but "
        f"{_longer(best['underestimate_rate'])} longer than it says, so it can plan a schedule but must not replace "
        "the limit that ends a job."
    )


def _longer(share: float) -> str:
    return f"{100 * share:.0f} % of the jobs run" if share >= LEAST else "some job may well run"


def _closer(it: float, limits: float) -> str:
    ratio = limits / it if it else math.inf
    theirs = f"the limits' {span(limits)}"
    if ratio >= 1.5:
        return f"{ratio:.1f} times closer than {theirs}"
    if ratio >= 1 + SAME:
        return f"{100 * (1 - 1 / ratio):.0f} % closer than {theirs}"
    return f"no better than {theirs}" if ratio > 1 / (1 + SAME) else f"worse than {theirs}"


Rows = Mapping[tuple[str, str], Mapping[str, Any]]


def _schedules(found: Evaluation) -> list[str]:
    rows = found.schedule_rows()
    if not rows or not rows[0]["jobs"]:
        return [found.why_not]
    by = {(row["policy"], row["predictor"]): row for row in rows}
    tried = [row for row in rows if row["predictor"] not in (YARDSTICK, ORACLE)]
    today = by[rows[0]["policy"], YARDSTICK]
    trusted = found.validity is not None and found.validity.trusted
    doubt = [] if trusted else [DOUBTED]
    if today["mean_wait_s"] < 1:
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
        helpful = [row for row in tried if _change(by, row) < -LEAST]
        best = min(helpful or tried, key=lambda row: row["mean_wait_s"])
        advice += [_best(by, tried, best, bool(helpful))]
    return [*advice, _advice(by, today)] if trusted else advice


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
        f"{_against(row['mean_wait_s'], today['mean_wait_s'])} under {policy_words(row['policy'])}" for row in rest
    ]
    return ", and ".join([text, *others]) + "."


def _best(by: Rows, tried: Sequence[Mapping[str, Any]], best: Mapping[str, Any], helps: bool) -> str:
    """What the best forecast does under its policy, against the limits there and against the oracle."""
    limits, oracle = by[best["policy"], YARDSTICK], by[best["policy"], ORACLE]
    head = "Planned with forecasts, the shortest waits come with" if helps else NO_HELP
    text = (
        f"{head} {best['predictor']} under {policy_words(best['policy'])}: "
        f"{_against(best['mean_wait_s'], limits['mean_wait_s'], ' than with the limits there')}. "
        f"{_perfect(best['share_of_perfect'], oracle['mean_wait_s'])}"
    )
    plain = min((row for (_, spec), row in by.items() if spec == YARDSTICK), key=lambda row: row["mean_wait_s"])
    if helps and plain["mean_wait_s"] < best["mean_wait_s"]:
        text += f" The limits alone give {span(plain['mean_wait_s'])} under {policy_words(plain['policy'])}."
    worse = [row for row in tried if _change(by, row) > SAME]
    if worse and helps:
        named = " and ".join(f"{row['predictor']} under {policy_words(row['policy'])}" for row in worse)
        text += f" Forecasts can also do harm: {named} would make the mean wait longer than the limits do."
    return text


def _change(by: Rows, row: Mapping[str, Any]) -> float:
    """Mean wait against the limits' under the same policy: -0.1 is a tenth shorter."""
    limits = by[row["policy"], YARDSTICK]["mean_wait_s"]
    return row["mean_wait_s"] / limits - 1 if limits > 0 else 0.0


def _perfect(share: float, oracle: float) -> str:
    known = f"Knowing every run time beforehand would give {span(oracle)}"
    if math.isnan(share):
        return f"{known}, which is no better than the limits."
    if share > 1:
        return f"{known}; the forecast does better, for plans that are too short let more jobs slip ahead."
    return f"{known}; the forecast has {100 * share:.0f} % of what perfect knowledge would give."


def _advice(by: Rows, today: Mapping[str, Any]) -> str:
    """The step a manager could take, where the simulation may be trusted."""
    within_reach = [row for (_, spec), row in by.items() if spec != ORACLE]
    best = min(within_reach, key=lambda row: row["mean_wait_s"])
    if best["mean_wait_s"] > (1 - SAME) * today["mean_wait_s"]:
        return f"Nothing tried here makes jobs wait noticeably less than {policy_words(today['policy'])} with limits."
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


def _against(it: float, base: float, than: str = "") -> str:
    change = it / base - 1 if base > 0 else 0.0
    if abs(change) < LEAST:
        return f"{span(it)} (no change)"
    return f"{span(it)} ({100 * abs(change):.0f} % {'longer' if change > 0 else 'shorter'}{than})"


def policy_words(policy: str) -> str:
    """A policy's name as a sentence says it.

    >>> policy_words("easy-sjbf"), policy_words("easy:correct=doubling"), policy_words("conservative")
    ('EASY-SJBF', 'EASY (correct=doubling)', 'conservative backfilling')
    """
    name, _, rest = policy.partition(":")
    return _POLICIES.get(name, name.upper()) + (f" ({rest})" if rest else "")


_POLICIES = {"conservative": "conservative backfilling"}
_NOTES = {
    "fcfs": "FCFS: first come first served, nobody passes.",
    "easy": "EASY: first come first served; the first waiting job has a reservation and later ones may start early "
    "when they do not delay it.",
    "easy-sjbf": "EASY-SJBF: as EASY, but the candidates with the shortest planned run time are tried first.",
    "conservative": "Conservative backfilling: every waiting job has a reservation, and a later one may start early "
    "only when it delays none of them.",
}


def policy_notes(policies: Sequence[str]) -> list[str]:
    """What the policies of a table do and what plans them, in one paragraph."""
    told = dict.fromkeys(_NOTES[name] for name in (p.partition(":")[0] for p in policies) if name in _NOTES)
    plans = (
        "Planned with: requested = the users' limits; actual = the true run times, which nobody can have (the oracle); "
        "the others are forecasts made at submission from what had ended by then."
    )
    return [" ".join([*told, plans])]


def validity_line(found: Evaluation) -> Callout:
    """Recorded against simulated waits, what the model does not cover, and whether the gains may be trusted."""
    checked = found.validity
    if checked is None:
        reason = "" if found.trace.info.max_procs > 0 else "The machine's size is unknown. "
        return Callout(
            f"{reason}No schedule was simulated: this report cannot say how much sooner jobs would start, and any such "
            "gain is not to be trusted.",
            "warning",
            "Validity.",
        )
    if not checked.jobs:
        text = "The log records no waits, so the simulation cannot be checked against what happened."
    else:
        text = (
            f"Recorded, these {checked.jobs:,} jobs waited {span(checked.recorded_mean_wait_s)} on average (median "
            f"{span(checked.recorded_median_wait_s)}); simulated under EASY with the users' limits, "
            f"{span(checked.simulated_mean_wait_s)} (median {span(checked.simulated_median_wait_s)}): "
            f"{_factor(checked.ratio)}."
        )
    text = f"{text} {_coverage(checked)}"
    if checked.trusted:
        return Callout(f"{text} The simulation is close enough to compare policies by.", "good", "Validity.")
    reason = "" if not checked.jobs else " The real scheduler did something the model does not know."
    return Callout(
        f"{text}{reason} The simulated gains in this report are not to be trusted for this machine.",
        "warning",
        "Validity.",
    )


def _factor(ratio: float) -> str:
    if math.isnan(ratio):
        return "they cannot be compared"
    if math.isinf(ratio):
        return "the simulation lets nobody wait"
    if not ratio:
        return "recorded, nobody waited"
    times = max(ratio, 1 / ratio)
    longer, shorter = ("recorded", "simulated") if ratio >= 1 else ("simulated", "recorded")
    return f"the {longer} mean is {times:.1f} times the {shorter} one" if times < 100 else f"the {longer} is far longer"


_GAPS = {
    "memory": "asked for memory, which the model does not place",
    "GPUs": "asked for GPUs",
    "partitions": "were in another partition than the largest, while the model has one pool",
}


def _coverage(checked: Validity) -> str:
    if not checked.uncovered_jobs:
        return "The log names no requests for memory or GPUs and no second partition."
    share = _part(checked.uncovered_jobs, checked.all_jobs)
    parts = [f"{_part(count, checked.all_jobs)} {_GAPS[name]}" for name, count in checked.uncovered.items() if count]
    return f"The model counts processors only and does not cover {share} of the jobs ({'; '.join(parts)})."


def _part(count: int, jobs: int) -> str:
    """A share, or the count itself where a share would read 0.0 %."""
    return shown(count / jobs, "share") if count >= 0.001 * jobs else f"{count:,} of {jobs:,}"
