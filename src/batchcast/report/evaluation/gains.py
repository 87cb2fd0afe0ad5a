# SPDX-License-Identifier: Apache-2.0
"""Names of policies and methods for readers, colours of methods, and the checkboxes of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...evaluation.differences import ResultRow
from ...evaluation.evaluation import Evaluation
from ...evaluation.findings import SAME
from ...predict.protocol import spec_words
from ...simulation.models import ORACLE, YARDSTICK
from ..blocks import Choices, Figure


def policy_words(policy: str) -> str:
    """Return a policy's name as text.

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
    "fcfs": "FCFS: first come, first served, without backfill.",
    "easy": "EASY: first come, first served. The first waiting job has a reservation; later jobs may start before "
    "it if they do not delay it.",
    "easy-sjbf": "EASY-SJBF: EASY, but backfill tries the jobs with the shortest planned run time first.",
    "slurm": "Slurm's order: Slurm's main loop by priority and its backfill loop, with the limits and settings of "
    "the machine's description.",
    "slurm-least-work": "Least work first (in Slurm): jobs with less planned work get a higher SiteFactor. Jobs "
    "that have waited long start in order of arrival. Backfill plans with time limits. `batchcast plan` does this "
    "with plan = order.",
    "conservative": "Conservative backfilling: every waiting job has a reservation; a later job may start early "
    "only if it delays none of them.",
    "forecast": "Shortest first (`--policy forecast`): the shortest planned run time first. Jobs that have waited "
    "two days come before all others, in order of arrival, with a reservation by time limits.",
}


def policy_notes(policies: Sequence[str]) -> list[str]:
    """Return one paragraph on the policies of a table and their predictors."""
    notes = dict.fromkeys(_NOTES[name] for name in (p.partition(":")[0] for p in policies) if name in _NOTES)
    plans = (
        "Planned with: the run times that the scheduler assumes. They are users' time limits, predictions made at "
        "submission from the jobs that had ended by then, or perfect knowledge (the true run times, as an upper limit)."
    )
    return [" ".join([*notes, plans])]


FIXED = {YARDSTICK: 0, ORACLE: 3, "recorded": 8}
FREE = (1, 2, 4, 5, 6, 7)


def slots_of(evaluation: Evaluation) -> dict[str, int]:
    """Return each predictor's slot in the page's palette; time limits, perfect knowledge and recorded waits have fixed
    slots.

    Keys are the predictors' specs and the names that readers see. With more than six predictors, some share a color;
    the checkboxes then separate them.
    """
    others = [name for name in evaluation.scores.rows if name not in FIXED]
    slots = FIXED | {name: FREE[place % len(FREE)] for place, name in enumerate(others)}
    return slots | {spec_words(name): slot for name, slot in slots.items()}


def choices(evaluation: Evaluation) -> Choices:
    """Return the checkboxes of a page: its policies and its predictors, under the names that readers see."""
    policies = list(dict.fromkeys(each.policy for each in evaluation.outcomes))
    specs = list(dict.fromkeys([*evaluation.scores.rows, *(each.predictor for each in evaluation.outcomes)]))
    return Choices({name: policy_words(name) for name in policies}, {name: spec_words(name) for name in specs})


def mark_choices(figure: Figure, predictors: Sequence[str], *, policy: str = "") -> Figure:
    """Return the figure with the data for the checkboxes: each trace's predictor, and the figure's policy."""
    marks = [{"predictor": predictor} for predictor in predictors] + [{}] * len(figure.data)
    data = [{**trace, "meta": {**trace["meta"], **mark}} for trace, mark in zip(figure.data, marks)]
    return replace(figure, data=data, policy=policy)


def row_marks(row: ResultRow) -> ResultRow:
    """Return a table row with the keys by which the page's checkboxes hide the row: its policy and its predictor."""
    return row.named(_policy=row.get("policy", ""), _predictor=row["predictor"])


def plan_words(policy: str, predictor: str) -> str:
    """Return a policy and its predictor as text.

    >>> plan_words("easy", "requested")
    "EASY with users' limits"
    """
    return f"{policy_words(policy)} with {spec_words(predictor)}"


def harm_words(evaluation: Evaluation) -> list[str]:
    """Return a sentence that names the schedules whose predictions clearly lengthen waits; empty if there are none, or
    if the simulation does not reproduce the recorded waits."""
    findings = evaluation.findings
    if findings is None or not findings.believed or findings.idle:
        return []
    worse = " and ".join(
        plan_words(row.policy, row.predictor)
        for row in evaluation.outcomes
        if row.predictor not in (YARDSTICK, ORACLE) and row.mean_wait_s > (1 + SAME) * findings.today.mean_wait_s
        and (row.wait_change is None or row.wait_change.verdict == "behind")
    )  # fmt: skip
    return [f"Not every prediction helps: under {worse}, jobs would wait longer than today."] if worse else []
