# SPDX-License-Identifier: Apache-2.0
"""Policies as sentences name them, which schedule is worth a trial, and the boxes that choose what a page shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...evaluation.evaluation import Evaluation
from ...evaluation.simulated import ORACLE, YARDSTICK
from ..accuracy import named
from ..blocks import Choices, Figure


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


def mark_choices(
    figure: Figure, predictors: Sequence[str] = (), *, policy: str = "", points: Sequence[str] = ()
) -> Figure:
    """The figure with what the boxes work on: its traces' predictors in order, its policy, its points' policies."""
    marks: list[dict[str, Any]] = [{} for _ in figure.data]
    for mark, predictor in zip(marks, predictors):
        mark["predictor"] = predictor
    for mark in marks:
        mark.update({"points": list(points)} if points else {})
    data = [{**trace, "meta": {**trace["meta"], **mark}} for trace, mark in zip(figure.data, marks)]
    return replace(figure, data=data, policy=policy)


def row_marks(row: Mapping[str, Any]) -> dict[str, Any]:
    """A table row that hides with its policy and its predictor."""
    return {**row, "_policy": row.get("policy", ""), "_predictor": row.get("predictor", "")}
