# SPDX-License-Identifier: Apache-2.0
"""The terminal's answer of an evaluation: one headline, one table with bars, a few facts and one next step.

It fits a terminal of 24 lines and 100 columns. `--details` prints every table instead.
"""

from __future__ import annotations

import math

from ...evaluation.evaluation import Evaluation
from ...evaluation.findings import Findings, Step
from ...predict.protocol import named
from ...simulation.models import YARDSTICK
from ..blocks import Block, Callout, Table, TableColumn, shown
from ..figures import span
from .gains import next_step, policy_words, recorded_words

BAR = 12
"""Characters of the longest bar."""
MOST_ROWS = 8
PLAN = "Next: run `batchcast plan --dry-run` on the cluster. It shows what planning would change, and changes nothing."
STAY = "Next: keep today's schedule. The interval of each change that was tried contains zero."


def answer(evaluation: Evaluation) -> list[Block]:
    """The blocks of the short answer.

    Parameters
    ----------
    evaluation
        What `batchcast.evaluate` returned.

    Returns
    -------
    list of Block
        Without a simulation that reproduces the recorded waits, the table compares run-time predictions, and no gain
        is stated.
    """
    findings = evaluation.findings()
    facts = [text for text in (_limits(evaluation), _predictions(evaluation)) if text]
    if findings is None or not findings.believed:
        head = recorded_words(evaluation)
        blocks: list[Block] = [Callout(head)] if head else []
        table = _prediction_table(evaluation)
        return [*blocks, *([table] if table.rows else []), *facts, next_step(evaluation)]
    step = PLAN if findings.best is not None else STAY
    return [
        Callout(headline(findings), "good" if findings.best is not None else "note"),
        _schedule_table(findings),
        *facts,
        _checked(evaluation, findings),
        step,
    ]


def headline(findings: Findings) -> str:
    """One sentence with one number: what the best change brings, with its interval."""
    today = span(findings.today["mean_wait_s"])
    if findings.idle:
        return f"Jobs hardly wait today ({today} on average): no schedule can gain much."
    if findings.best is None:
        return f"Jobs wait {today} on average. Nothing that was tried is clearly shorter."
    change = findings.best["mean_wait_s"] - findings.today["mean_wait_s"]
    predictor = findings.best["predictor"]
    by = "the users' time limits" if predictor == YARDSTICK else f"predictions ({predictor})"
    steps = [each for each in findings.steps if each.name == "order"]
    interval = ""
    if steps and abs(steps[0].change_s - change) < 1 and not math.isnan(steps[0].low_s):
        interval = f" (90 % interval {span(-steps[0].high_s)} to {span(-steps[0].low_s)})"
    return (
        f"{policy_words(findings.best['policy']).capitalize()}, planned with {by}, would shorten the mean wait by "
        f"{span(-change)}{interval}."
    )


def _schedule_table(findings: Findings) -> Table:
    """Mean waits from today's schedule to perfect knowledge of run times, each with a bar and its change."""
    steps = list(findings.steps)[:MOST_ROWS]
    longest = max((step.mean_wait_s for step in steps), default=0.0)
    unit = (3600.0, "h") if longest > 10 * 3600 else (60.0, "min")
    rows = [
        {
            "schedule": f"{policy_words(step.policy)}, {named(step.predictor)}",
            "mean_wait_s": step.mean_wait_s,
            "bar": _bar(step.mean_wait_s, longest),
            "change": _change(step, *unit),
        }
        for step in steps
    ]
    return Table(
        "Simulated mean wait; each row changes one thing in the row above",
        [
            TableColumn("schedule", "queue order, planned with"),
            TableColumn("mean_wait_s", "mean wait", "seconds"),
            TableColumn("bar", ""),
            TableColumn("change", "change (90 % interval)"),
        ],
        rows,
    )


def _change(step: Step, unit_s: float, unit: str) -> str:
    """The change since the row above with its interval, and whether the interval contains zero."""
    if step.name == "today":
        return "today"
    change, low, high = (f"{value / unit_s:+.1f}" for value in (step.change_s, step.low_s, step.high_s))
    if math.isnan(step.low_s):
        return f"{change} {unit} (too few jobs)"
    return f"{change} {unit} ({low} to {high})" + (" unclear" if step.verdict == "level" else "")


def _prediction_table(evaluation: Evaluation) -> Table:
    """Run-time predictors by mean error, each with a bar."""
    rows = [row for row in evaluation.accuracy_rows() if row["jobs"] and not math.isnan(row["mae_s"])][:MOST_ROWS]
    longest = max((row["mae_s"] for row in rows), default=0.0)
    return Table(
        "Run-time predictions",
        [
            TableColumn("predictor", "predictor"),
            TableColumn("mae_s", "mean error", "seconds"),
            TableColumn("bar", ""),
            TableColumn("median_ae_s", "median error", "seconds"),
        ],
        [{**row, "predictor": named(row["predictor"]), "bar": _bar(row["mae_s"], longest)} for row in rows],
    )


def _bar(value: float, longest: float) -> str:
    """A bar of block characters, as long as the value's share of the longest value."""
    return "█" * round(BAR * value / longest) or "▏" if longest > 0 else "▏"


def _limits(evaluation: Evaluation) -> str:
    """How much of the requested core-hours was not used."""
    whole = evaluation.waste_rows()[0]
    requested, unused = whole["asked_core_h"], whole["unused_core_h"]
    if not requested > 0:
        return "The log has no time limits."
    return f"Time limits: {shown(unused / requested, 'share')} of the requested core-hours were not used."


def _predictions(evaluation: Evaluation) -> str:
    """The smallest mean error of a run-time prediction beside the error of the users' time limits."""
    rows = {row["predictor"]: row for row in evaluation.accuracy_rows() if row["jobs"] and row["mae_s"] == row["mae_s"]}
    limits = rows.pop(YARDSTICK, None)
    if not rows:
        return ""
    least = min(rows.values(), key=lambda row: row["mae_s"])
    beside = f"; users' time limits are off by {span(limits['mae_s'])}" if limits else ""
    return f"Run times: {least['predictor']} has the smallest mean error, {span(least['mae_s'])}{beside}."


def _checked(evaluation: Evaluation, findings: Findings) -> str:
    """The recorded and the simulated mean wait of a simulation that reproduces the recorded waits."""
    recorded = evaluation.validity.recorded_mean_wait_s if evaluation.validity is not None else math.nan
    if math.isnan(recorded):
        return ""
    simulated = span(findings.today["mean_wait_s"])
    return f"The simulation reproduces the recorded waits: mean {span(recorded)} recorded, {simulated} simulated."
