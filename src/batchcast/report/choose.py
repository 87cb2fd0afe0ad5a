"""Which policies and predictors a page shows: boxes to untick, and the marks they work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..evaluation.evaluation import Evaluation
from ..evaluation.simulated import ORACLE, YARDSTICK
from .accuracy import named
from .blocks import Choices, Figure
from .policy_words import policy_words

RECORDED_SLOT = 8
FIXED = {YARDSTICK: 0, ORACLE: 3, "recorded": RECORDED_SLOT}
FREE = (1, 2, 4, 5, 6, 7)


def slots_of(evaluation: Evaluation) -> dict[str, int]:
    """A place in the page's palette for every predictor: the yardstick, the oracle and the record keep theirs.

    More than six forecasts share colours (and differ in nothing else but their names): the boxes help.
    """
    others = [name for name in evaluation.scores.points if name not in FIXED]
    return {**FIXED, **{name: FREE[place % len(FREE)] for place, name in enumerate(others)}}


def choices(evaluation: Evaluation) -> Choices:
    """The boxes of a page: its policies and its predictors, by the words that stand on them."""
    policies = list(dict.fromkeys(each.policy for each in evaluation.outcomes))
    specs = list(dict.fromkeys([*evaluation.scores.points, *(each.predictor for each in evaluation.outcomes)]))
    return Choices({name: policy_words(name) for name in policies}, {name: named(name) for name in specs})


def chosen(figure: Figure, predictors: Sequence[str] = (), *, policy: str = "", points: Sequence[str] = ()) -> Figure:
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
