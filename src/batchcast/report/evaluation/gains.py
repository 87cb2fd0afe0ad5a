# SPDX-License-Identifier: Apache-2.0
"""What would shorten waits most, how sure that is, how much of it is the order: sentences, tiles and one picture.

Everything here reads `evaluation.findings`. Where the simulation is not believed, no gain is told: what the log itself
says leads, and the one next step that would help. Before it policies as sentences name them, which schedule is worth a
trial, and the boxes that choose what a page shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...evaluation.evaluation import Evaluation
from ...evaluation.findings import SAME, Findings, Step
from ...evaluation.validity import Doubt, Verdict
from ...predict.protocol import named
from ...report import figures
from ...simulation.models import ORACLE, YARDSTICK
from ..blocks import Card, Choices, Figure, shown
from ..difference import difference_words, history_needed
from ..figures import signed, span


def policy_words(policy: str) -> str:
    """A policy's name as a sentence says it.

    >>> policy_words("easy-sjbf"), policy_words("easy:correct=doubling"), policy_words("conservative")
    ('EASY-SJBF', 'EASY (correct=doubling)', 'conservative backfilling')
    """
    name, _, rest = policy.partition(":")
    return _POLICIES.get(name, name.upper()) + (f" ({rest})" if rest else "")


_POLICIES = {
    "conservative": "conservative backfilling",
    "forecast": "shortest first",
    "slurm": "Slurm's order",
    "slurm-least-work": "least work first",
}
_NOTES = {
    "fcfs": "FCFS: first come first served, nobody passes.",
    "easy": "EASY: first come first served; the first waiting job has a reservation and later ones may start early "
    "when they do not delay it.",
    "easy-sjbf": "EASY-SJBF: as EASY, but the candidates with the shortest planned run time are tried first.",
    "slurm": "Slurm's two loops: by priority and with backfill, under the limits and settings of the machine's "
    "description.",
    "slurm-least-work": "Least work first (under Slurm): waiting jobs get levels of priority by SiteFactor, the higher "
    "the less work they are planned to be; who has waited long goes by arrival, and backfill plans with limits, as "
    "`batchcast plan` does with plan = order.",
    "conservative": "Conservative backfilling: every waiting job has a reservation, and a later one may start early "
    "only when it delays none of them.",
    "forecast": "Shortest first (`--policy forecast`): the shortest planned run time first; who has waited two days "
    "goes before all, by arrival, "
    "with a reservation by limits.",
}


def policy_notes(policies: Sequence[str]) -> list[str]:
    """What the policies of a table do and what plans them, in one paragraph."""
    notes = dict.fromkeys(_NOTES[name] for name in (p.partition(":")[0] for p in policies) if name in _NOTES)
    plans = (
        "Planned with: users' limits; perfect knowledge, the true run times, which nobody has; or forecasts made at "
        "submission from what had ended by then."
    )
    return [" ".join([*notes, plans])]


RECORDED_SLOT = 8
FIXED = {YARDSTICK: 0, ORACLE: 3, "recorded": RECORDED_SLOT}
FREE = (1, 2, 4, 5, 6, 7)


def slots_of(evaluation: Evaluation) -> dict[str, int]:
    """A place in the page's palette for every predictor: the yardstick, the oracle and the record keep theirs.

    By spec and by the name that people read. More than six forecasts share colours: the boxes help.
    """
    others = [name for name in evaluation.scores.points if name not in FIXED]
    slots = {**FIXED, **{name: FREE[place % len(FREE)] for place, name in enumerate(others)}}
    return slots | {named(name): slot for name, slot in slots.items()}


def choices(evaluation: Evaluation) -> Choices:
    """The boxes of a page: its policies and its predictors, by the words that stand on them."""
    policies = list(dict.fromkeys(each.policy for each in evaluation.outcomes))
    specs = list(dict.fromkeys([*evaluation.scores.points, *(each.predictor for each in evaluation.outcomes)]))
    return Choices({name: policy_words(name) for name in policies}, {name: named(name) for name in specs})


def mark_choices(figure: Figure, predictors: Sequence[str], *, policy: str = "") -> Figure:
    """The figure with what the boxes work on: its traces' predictors in order, and its policy."""
    marks = [{"predictor": predictor} for predictor in predictors] + [{}] * len(figure.data)
    data = [{**trace, "meta": {**trace["meta"], **mark}} for trace, mark in zip(figure.data, marks)]
    return replace(figure, data=data, policy=policy)


def row_marks(row: Mapping[str, Any]) -> dict[str, Any]:
    """A table row that hides with its policy and its predictor."""
    return {**row, "_policy": row.get("policy", ""), "_predictor": row.get("predictor", "")}


Row = Mapping[str, Any]


def gain_sentences(evaluation: Evaluation) -> list[str]:
    """What the schedules say: today, the shortest wait, its parts, what to try; else the record and the next step."""
    found = evaluation.findings()
    if found is None or not found.believed:
        return [text for text in (recorded_words(evaluation), next_step(evaluation)) if text]
    if found.idle:
        return [
            f"Simulated under {plan_words(found.today)}, jobs hardly wait ({span(found.today['mean_wait_s'])} on "
            "average): there is nothing for a forecast to gain."
        ]
    return [_shortest(found), *_parts(found), _advice(found)]


def plan_words(row: Row) -> str:
    """A policy and what plans it.

    >>> plan_words({"policy": "easy", "predictor": "requested"})
    "EASY with users' limits"
    """
    return f"{policy_words(row['policy'])} with {named(row['predictor'])}"


def recorded_words(evaluation: Evaluation) -> str:
    """How long jobs waited as recorded; empty where the log knows no wait."""
    trace, scored = evaluation.trace, evaluation.scores.scored
    waits = trace.wait_time[scored & (trace.wait_time >= 0)]
    if not len(waits):
        return ""
    half, most = np.percentile(waits, [50, 95]).tolist()
    return (
        f"As recorded, jobs waited {span(float(waits.mean()))} on average: half of them at most {span(half)}, one in "
        f"twenty {span(most)} or more."
    )


def next_step(evaluation: Evaluation) -> str:
    """Why no gain is told, and the one thing that would help."""
    checked = evaluation.validity
    if checked is None:
        if evaluation.other is None:
            return evaluation.why_not or "Nothing was simulated."
        why = "the machine's size is unknown, and one of as many processors as jobs ever held is not like it"
        return (
            f"How much sooner jobs could start is not said, since {why}. Next: give the size (--procs-total N), or "
            f"{_describe(evaluation)}."
        )
    why, what = {
        Verdict.ROUGH: ("the simulation matches the recorded mean wait and not much else", _describe(evaluation)),
        Verdict.FAR: ("the simulation does not come near the recorded waits", _describe(evaluation)),
        Verdict.UNCHECKED: ("the log records no waits to check a simulation by", WITH_WAITS),
        Verdict.CLOSE: ("no scored job was simulated", _describe(evaluation)),
    }[checked.verdict]
    if Doubt.MACHINE in checked.doubts and checked.policy != "slurm_learned":
        what = "give the machine's size (--procs-total N, or --procs-total peak for the most the log shows in use)"
    return f"How much sooner jobs could start is not said, since {why}. Next: {what}."


WITH_WAITS = "export the start times too (sacct: -o ALL, or Submit, Start and End)"
WITH_USERS = "export the users too (sacct: -o ALL, or User): by them caps and the order of the queue are told"


def _describe(evaluation: Evaluation) -> str:
    """The step that gives the simulation what a pool of processors leaves out."""
    policy = evaluation.validity.policy if evaluation.validity is not None else ""
    if policy == "slurm_learned":
        if (evaluation.trace.nominal("user_id").codes < 0).all():
            return WITH_USERS
        return (
            "write down what was learned (`batchcast machine learn LOG -o machine.toml`), mend what you know better, "
            "and evaluate the log with `--machine machine.toml`"
        )
    if policy == "slurm":
        return "read what the description leaves out (`batchcast machine show MACHINE`) and mend it"
    return (
        "describe the machine. On its Slurm: `batchcast machine capture -o machine.toml`; then evaluate the log with "
        "`--machine machine.toml`. Where that cluster is gone, no simulation can tell"
    )


def _shortest(found: Findings) -> str:
    """Today's mean wait, and the shortest of all rows that a site can have."""
    today, least = found.today, found.shortest
    text = f"Simulated under {plan_words(today)}, jobs wait {span(today['mean_wait_s'])} on average."
    if least is today:
        return f"{text} Nothing that was tried has a shorter mean wait."
    sure = "" if least.get("mean_wait_s_verdict", "ahead") == "ahead" else ", which this log cannot tell from no change"
    return (
        f"{text} Of all that was tried, {plan_words(least)} has the shortest: {span(least['mean_wait_s'])} "
        f"({_share(least, today)}{sure})."
    )


def _share(row: Row, today: Row) -> str:
    change = row["mean_wait_s"] / today["mean_wait_s"] - 1
    return f"{100 * abs(change):.0f} % {'longer' if change > 0 else 'shorter'}"


def _parts(found: Findings) -> list[str]:
    """How much of a gain is the order and how much the forecast, and what perfect knowledge would add."""
    steps = {step.name: step for step in found.steps}
    order, forecast, perfect = (steps.get(name) for name in ("order", "forecasts", "perfect knowledge"))
    said = []
    if order is not None:
        said.append(f"the order alone ({policy_words(order.policy)} by users' limits) by {_change(order)}")
    if forecast is not None:
        said.append(f"forecasts in place of limits ({forecast.predictor}) by {_change(forecast)}")
    if perfect is not None:
        said.append(f"perfect knowledge of run times by {_change(perfect)}")
    if not said:
        return []
    text = f"Each step changes the mean wait: {'; '.join(said)}."
    if found.best is not None and found.best["predictor"] == YARDSTICK and forecast is not None:
        text += " No forecast tried is clearly better there than users' limits."
    return [text]


def _change(step: Step) -> str:
    """A change with its sign, its interval and a word where it is none to rely on."""
    interval = f"{signed(step.low_s)} to {signed(step.high_s)}" if step.low_s == step.low_s else ""
    word = {"level": "no change to rely on", "unknown": "too few groups to tell"}.get(step.verdict, "")
    beside = ", ".join(filter(None, (interval, word)))
    return f"{signed(step.change_s)}{f' ({beside})' if beside else ''}"


def harm_words(evaluation: Evaluation) -> list[str]:
    """Forecasts that lengthen waits, clearly; nothing where the simulation is not believed."""
    found = evaluation.findings()
    if found is None or not found.believed or found.idle:
        return []
    worse = [
        row
        for row in evaluation.schedule_rows()
        if row["predictor"] not in (YARDSTICK, ORACLE) and row["mean_wait_s"] > (1 + SAME) * found.today["mean_wait_s"]
        and row.get("mean_wait_s_verdict", "behind") == "behind"
    ]  # fmt: skip
    if not worse:
        return []
    return [
        f"Forecasts can also do harm: {' and '.join(map(plan_words, worse))} would make jobs wait longer than today."
    ]


def _advice(found: Findings) -> str:
    """The step a manager could take, its price and how; or that nothing is clear of chance."""
    best, today = found.best, found.today
    if best is None:
        if found.shortest is today:
            return f"Stay with {plan_words(today)}."
        words = difference_words(found.shortest, "mean_wait_s", "seconds")
        interval = f" ({words}){history_needed(found.shortest, 'mean_wait_s')}" if words else ""
        return f"Nothing tried is shorter than today by more than chance could bring{interval}."
    how = plan_words(best) + (
        ", which needs no forecasts" if best["predictor"] == YARDSTICK else ", the users' limits still ending jobs"
    )
    text = f"Worth a trial first: {how}."
    return f"{text} {_price(best, today)} {SWITCH}".replace("  ", " ")


SWITCH = "On the cluster's Slurm, `batchcast plan --dry-run` shows what would change, and changes nothing."


def _price(best: Row, today: Row) -> str:
    """Who pays: the longest waits, and users who would wait longer."""
    said = []
    longest, now = best.get("p95_wait_s", 0.0), today.get("p95_wait_s", 0.0)
    if longest > (1 + SAME) * now:
        said.append(f"one job in twenty would wait {span(longest)} or more, against {span(now)} today")
    worse = best.get("users_worse")
    if worse is not None and worse == worse and worse > 0:
        said.append(f"{shown(worse, 'share')} of the users would wait longer on average than today")
    return f"The price: {'; '.join(said)}." if said else ""


def gain_cards(evaluation: Evaluation) -> tuple[list[Card], list[Card]]:
    """The tiles that lead, and those that follow what the log itself says."""
    found = evaluation.findings()
    if found is None or not found.believed:
        waits = evaluation.trace.wait_time[evaluation.scores.scored & (evaluation.trace.wait_time >= 0)]
        half = span(float(np.median(waits))) if len(waits) else ""
        recorded = [Card("Mean wait, as recorded", span(float(waits.mean())), f"median {half}")] if len(waits) else []
        return [], [*recorded, _not_said(evaluation)]
    today = found.today
    recorded_s = evaluation.validity.recorded_mean_wait_s if evaluation.validity else float("nan")
    record = f"; recorded {span(recorded_s)}" if recorded_s == recorded_s else ""
    now = Card("Mean wait", span(today["mean_wait_s"]), f"{plan_words(today)}, simulated{record}")
    if found.idle:
        return [Card("Verdict", "Nothing to gain", "jobs hardly wait", "note"), now], []
    if found.best is None:
        return [Card("Verdict", "Stay as it is", "nothing tried is clearly shorter than today", "note"), now], []
    first = Card("Worth a trial first", plan_words(found.best), "a shorter mean wait, clear of chance", "good")
    return [first, _gain(found.best, today), now], []


def _not_said(evaluation: Evaluation) -> Card:
    """The tile that stands where a gain would, and names the next step."""
    checked = evaluation.validity
    if checked is None:
        return Card("Shorter waits", "Not simulated", "see the next step below", "warning")
    value = {Verdict.ROUGH: "A hint only", Verdict.UNCHECKED: "Not checked"}.get(checked.verdict, "Not known")
    return Card("Shorter waits", value, "the simulation is not believed; see the next step below", "warning")


def _gain(row: Row, today: Row) -> Card:
    """The change in mean wait, with its interval."""
    change = row["mean_wait_s"] - today["mean_wait_s"]
    low, high = (row.get(f"mean_wait_s_difference_{end}") for end in ("low", "high"))
    share = f"{100 * change / today['mean_wait_s']:+.0f} %"
    if low is None or high is None or low != low:
        return Card("Change in mean wait", signed(change), f"{share}; no interval, too few groups")
    return Card("Change in mean wait", signed(change), f"{share}; 90 % interval {signed(low)} to {signed(high)}")


def step_figure(evaluation: Evaluation) -> list[Figure]:
    """Mean wait from today to perfect knowledge, a bar a step, with the interval of each change; else nothing."""
    found = evaluation.findings()
    if found is None or not found.believed or found.idle or len(found.steps) < 2:
        return []
    names = [f"{_step_name(step)}: {span(step.mean_wait_s)}" for step in found.steps]
    waits = [step.mean_wait_s for step in found.steps]
    figure = figures.bars(
        "From today's order to perfect knowledge",
        names,
        {"mean wait": waits},
        value="mean wait",
        kind="seconds",
        caption="The mean wait after each step: another order by the same limits, then forecasts in place of limits, "
        "then run times known beforehand, which nobody has. The bracket is the 90 % interval of the change since the "
        "bar above.",
    )
    halves = [0.0 if step.low_s != step.low_s else (step.high_s - step.low_s) / 2 for step in found.steps]
    interval = {
        "type": "scatter", "name": "90 % interval of the change", "meta": {"slot": 8}, "mode": "markers",
        "x": waits[1:], "y": names[1:], "marker": {"symbol": "circle", "size": 5},
        "error_x": {"type": "data", "array": halves[1:]},
        "customdata": [_change(step) for step in found.steps[1:]], "hovertemplate": "%{y}: %{customdata}",
    }  # fmt: skip
    data = [{key: value for key, value in trace.items() if key != "text"} for trace in figure.data]
    return [replace(figure, data=[*data, interval])]


def _step_name(step: Step) -> str:
    if step.name == "today":
        return f"today, {policy_words(step.policy)} by users' limits"
    by = {"order": "users' limits", "forecasts": f"forecasts ({step.predictor})"}.get(step.name, "perfect knowledge")
    return f"{policy_words(step.policy)} by {by}"
