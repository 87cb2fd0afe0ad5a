# SPDX-License-Identifier: Apache-2.0
"""The content of a report's first screen, as typed values: the page, the terminal's answer and result.json show it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from ...evaluation.differences import ResultRow, burst_groups
from ...evaluation.evaluation import LEARN_JOBS, Evaluation
from ...evaluation.findings import Findings, recommended_settings, settings_toml
from ...evaluation.validity import Verdict
from ...metrics.paired import Difference, paired_differences
from ...simulation.models import LEAST_WORK, SLURM, YARDSTICK
from ..accuracy import method_words
from ..blocks import Bar, BarChart, Block, Callout, Card, Table, Tone, as_text, columns_of
from ..figures import signed, span
from ..validity import means
from .gains import plan_words, policy_words

Measure = Literal["mean wait", "mean error"]


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """Everything on the first screen of a report."""

    headline: str  # One sentence with one number and its interval, and the tone that colours the sentence
    tone: Tone
    caution: str  # How far the headline's number can be trusted; empty if the number was not simulated
    # The measure that the bars show, the bars, and the simulated scheduler (empty if the bars show predictions).
    measure: Measure
    based_on: str
    bars: Sequence[Bar]
    tiles: tuple[Card, ...]  # Unused core-hours, error of the run-time predictions, coverage of the wait predictions
    next_step: str  # One step that batchcast can carry out
    # One wait prediction for a job of the log and the job's actual wait; empty if wait predictions were not tested.
    example: str = ""

    def row(self) -> dict[str, Any]:
        """Return the first screen's content as an object for JSON."""
        tiles = [{"title": tile.title, "value": tile.value, "note": tile.note} for tile in self.tiles]
        return {"part": "first_screen", **asdict(self), "tiles": tiles}

    def chart(self) -> BarChart:
        """Return the bars as a block of the page."""
        title = "Simulated mean wait" if self.measure == "mean wait" else "Mean error of predicted run times"
        caption = "Error bars: 90 % intervals of the difference to the first bar." if len(self.bars) > 1 else ""
        return BarChart(f"{title} ({self.based_on})" if self.based_on else title, self.bars, caption)


def first_screen(evaluation: Evaluation) -> FirstScreen:
    """Return the first screen of an evaluation; if the simulation does not reproduce the recorded waits, headline and
    bars use only recorded waits."""
    findings = evaluation.findings
    tiles = (_unused_tile(evaluation), _prediction_tile(evaluation), _wait_tile(evaluation))
    example = _example(evaluation)
    if findings is None or not findings.believed:
        return FirstScreen(
            _record_headline(evaluation), "note", _why_no_gain(evaluation), "mean error", "",
            _prediction_bars(evaluation), tiles, _step_without_gain(evaluation), example,
        )  # fmt: skip
    tone: Tone = "note" if findings.best is None or findings.is_hint else "good"
    checked = evaluation.validity
    caution = f"The simulation is {checked.verdict}: mean wait {means(checked)}." if checked is not None else ""
    return FirstScreen(
        _gain_headline(findings), tone, caution, "mean wait", _based_on(evaluation),
        _schedule_bars(evaluation, findings), tiles, _step_with_gain(findings), example,
    )  # fmt: skip


def _gain_headline(findings: Findings) -> str:
    """Return the headline about the best schedule: its gain, the interval, and the error of the simulation."""
    today = span(findings.today.mean_wait_s)
    if findings.idle:
        return f"Jobs hardly wait today ({today} on average), so no other queue order can gain much."
    if findings.best is None or findings.gain is None:
        return (
            f"No queue order that was tried is clearly better than today's, under which jobs wait {today} on average."
        )
    gain = findings.gain
    what = order_words(findings.best.policy, findings.best.predictor)
    change = gain.change
    interval = f" (90 % interval {_range(-change.high, -change.low)})" if change.has_interval else ""
    head = f"{what[0].upper()}{what[1:]} would shorten the mean wait by {span(-change.value)}{interval}"
    if gain.optimism_s >= 60:  # readers would otherwise ask why the table shows a larger gain
        head += f", corrected for choosing among {gain.candidates} schedules"
    if not findings.is_hint:
        return f"{head}."
    if math.isnan(gain.error_s) or gain.error_s < 60:
        return f"{head}. The simulation is rough: treat this as a hint."
    return f"{head}. The simulation is off by {span(gain.error_s)}: treat this as a hint."


def order_words(policy: str, predictor: str) -> str:
    """Return the words that name a schedule in a sentence.

    >>> order_words("slurm-least-work", "requested"), order_words("easy", "last_2")
    ('starting jobs with the least requested core-hours first', 'EASY planned with predictions')
    """
    is_limits = predictor == YARDSTICK
    if policy == LEAST_WORK:
        return f"starting jobs with the least {'requested' if is_limits else 'predicted'} core-hours first"
    if policy == "forecast":
        return f"starting jobs with the shortest {'time limits' if is_limits else 'predicted run times'} first"
    if policy == SLURM:
        return "Slurm's own order" if is_limits else "giving Slurm predicted run times as time limits"
    return f"{policy_words(policy)} planned with " + ("users' time limits" if is_limits else "predictions")


def _range(low: float, high: float) -> str:
    return f"{span(low)} to {span(high)}"


def _based_on(evaluation: Evaluation) -> str:
    assert evaluation.validity is not None
    return {
        "slurm": "Slurm on the described machine",
        "slurm_by_log": "Slurm on a machine of the log's size",
        "slurm_learned": "Slurm on a machine learned from the log",
    }.get(evaluation.validity.policy, "a pool of processors")


def _schedule_bars(evaluation: Evaluation, findings: Findings) -> list[Bar]:
    """Return the bars of mean waits; each interval is the interval of the change from today's order."""
    first, *steps = findings.steps
    today = first.mean_wait_s
    bars = [Bar("today", plan_words(first.policy, first.predictor), today)]
    rows = {(row.policy, row.predictor): row for row in evaluation.outcomes}
    for step in steps:
        name = {"order": "by time limits", "forecasts": "by predictions"}.get(step.name, step.name)
        change = rows[step.policy, step.predictor].wait_change or Difference(math.nan)
        method, wait = f"{policy_words(step.policy)}, {method_words(step.predictor)}", step.mean_wait_s
        bars.append(Bar(name, method, wait, wait - today, today + change.low, today + change.high))
    return bars


def _prediction_bars(evaluation: Evaluation) -> list[Bar]:
    """Return the mean errors of time limits and of the best four predictors, with intervals against the reference."""
    rows = sorted(_scored_rows(evaluation), key=lambda row: (row["predictor"] != YARDSTICK, row["mae_s"]))[:5]
    errors = {row["predictor"]: float(row["mae_s"]) for row in rows}
    bars = []
    for place, (row, error) in enumerate(zip(rows, errors.values())):
        change, base = row.difference("mae_s") or Difference(math.nan), errors.get(row.against, math.nan)
        since = error - float(rows[0]["mae_s"]) if place else math.nan
        bars.append(Bar(method_words(row["predictor"]), row["predictor"], error, since, base + change.low,
                        base + change.high))  # fmt: skip
    return bars


def _scored_rows(evaluation: Evaluation) -> list[ResultRow]:
    """Return the rows of the methods that predicted at least one scored job."""
    return [row for row in evaluation.accuracy_rows() if row["jobs"] and not math.isnan(row["mae_s"])]


def _record_headline(evaluation: Evaluation) -> str:
    """Return the headline if nothing is simulated: the recorded mean wait, else the used share of the time limits."""
    trace, scored = evaluation.trace, evaluation.scores.scored
    known = scored & (trace.wait_time >= 0)
    waits = trace.wait_time[known]
    if not len(waits):
        tile = _unused_tile(evaluation)
        return f"{tile.title}: {tile.value} ({tile.note})."
    group = burst_groups(trace, evaluation.procs)[known]
    mean = paired_differences(waits[None], np.zeros(len(waits)), group, np.random.default_rng(0))[0]
    interval = "" if math.isnan(mean.low) else f" (90 % interval {_range(max(mean.low, 0.0), mean.high)})"
    middle = span(float(np.median(waits)))
    return f"Jobs waited {span(float(waits.mean()))} on average{interval}, and half of them at most {middle}."


def _why_no_gain(evaluation: Evaluation) -> str:
    """Return a sentence that explains why the report states no shorter wait."""
    checked = evaluation.validity
    if checked is None:
        if evaluation.rejected is None:
            return evaluation.why_not or "No schedule was simulated."
        return "No shorter wait is stated: the machine's size is unknown, and the simulation does not match the record."
    if checked.verdict is Verdict.UNCHECKED:
        return "No shorter wait is stated: the log records no waits to check a simulation by."
    if checked.verdict is Verdict.CLOSE:
        return "No shorter wait is stated: none of the scored jobs was simulated."
    return (
        "No shorter wait is stated: the simulation does not reproduce the recorded waits (mean "
        f"{span(checked.recorded_mean_wait_s)} recorded, {span(checked.simulated_mean_wait_s)} simulated)."
    )


def _unused_tile(evaluation: Evaluation) -> Card:
    """Return the share of requested core-hours that was not used."""
    whole = evaluation.waste_rows()[0]
    requested, unused = whole["asked_core_h"], whole["unused_core_h"]
    if not requested > 0:
        return Card("Unused core-hours", "unknown", "the log has no time limits")
    medians = {row["limits"]: float(row["median_limit_s"]) for row in evaluation.limit_rows()}
    own, advice = medians.get("own", math.nan), medians.get("advice", math.nan)
    shorter = f"; median time limit: {span(own)} today, {span(advice)} suggested" if advice < 0.95 * own else ""
    note = f"of the {as_text(requested, 'count')} requested{shorter}"
    return Card("Unused core-hours", as_text(unused / requested, "share"), note)


def _prediction_tile(evaluation: Evaluation) -> Card:
    """Return the smallest mean error of a run-time prediction, with the error of the users' time limits."""
    rows = {row["predictor"]: row for row in _scored_rows(evaluation)}
    limits, title = rows.pop(YARDSTICK, None), "Run-time prediction error"
    if not rows:
        return Card(title, "unknown", "no job could be scored")
    least = min(rows.values(), key=lambda row: row["mae_s"])
    beside = f"; users' time limits: {span(limits['mae_s'])}" if limits else ""
    return Card(title, span(least["mae_s"]), f"on average with the {method_words(least['predictor'])}{beside}")


def _wait_tile(evaluation: Evaluation) -> Card:
    """Return how many jobs started by their predicted 90 % bound, and the median errors of the method and of the
    simplest method."""
    waits, title = evaluation.waits, "Wait prediction coverage"
    if waits is None:
        return Card(title, "not measured", f"({evaluation.why_no_waits})")
    return Card(
        title, as_text(waits.coverage, "share"),
        f"of the latest {waits.jobs:,} jobs started by their 90 % time (target: 90 %); median error "
        f"{span(waits.median_error_s)}, baseline {span(waits.simplest_median_error_s)}",
    )  # fmt: skip


def _example(evaluation: Evaluation) -> str:
    """Return one wait prediction as a user would have read it, and the job's actual wait."""
    example = evaluation.waits.example if evaluation.waits is not None else None
    if example is None:
        return ""
    return (
        f"Example: job {example.job_id} was predicted to wait {span(example.likely_s)} (90 %: at most "
        f"{span(example.bound_s)}). It waited {span(example.waited_s)}."
    )


def _step_with_gain(findings: Findings) -> str:
    """Return the next step if there is a gain: settings of `batchcast plan`, or how to simulate schedules that
    `batchcast plan` can carry out."""
    best = findings.best
    if best is None:
        return "`batchcast limits LOG` lists the time limits to suggest to users; keep today's queue order."
    settings = recommended_settings(best.policy, best.predictor)
    if settings is None:
        return (
            "run `batchcast machine capture -o machine.toml` on the cluster, then evaluate with `--machine "
            "machine.toml`: this tries queue orders that `batchcast plan` can carry out."
        )
    text = " and ".join(f"`{line}`" for line in settings_toml(settings).splitlines())
    return f"set {text} in batchcast.toml; `batchcast plan --dry-run` then shows what would change."


def _step_without_gain(evaluation: Evaluation) -> str:
    """Return the next step if there is no gain: describe or learn the machine, else suggest time limits."""
    checked = evaluation.validity
    if checked is not None and checked.verdict is Verdict.UNCHECKED:
        return "export the start times too (sacct: -o ALL), and run `batchcast evaluate` again."
    if not evaluation.trace.info.max_procs > 0:
        return "give the machine's size (--procs-total N, or `peak`: the most in use at once)."
    if not evaluation.tried_learning and len(evaluation.trace) > LEARN_JOBS:
        return "`batchcast evaluate LOG --machine learned` learns the machine from the log (over a minute)."
    return (
        "`batchcast limits LOG` lists the time limits to suggest. On the cluster, `batchcast machine capture` "
        "describes the machine for `--machine`."
    )


def price(findings: Findings) -> str:
    """Return a sentence on the users who would wait longer under the best schedule; empty if there are none."""
    if findings.best is None:
        return ""
    best, today = findings.best, findings.today
    parts = []
    longest, now = best.measures["p95_wait_s"], today.measures["p95_wait_s"]
    if longest > 1.02 * now:
        parts.append(f"5 % of the jobs would wait {span(longest)} or more; today this is {span(now)}")
    worse = best.comparison.users_worse if best.comparison else 0.0
    if worse > 0:
        parts.append(f"{as_text(worse, 'share')} of the users would wait longer on average")
    return f"The cost: {'; '.join(parts)}." if parts else ""


def choice_words(findings: Findings) -> str:
    """Return how the gain was corrected for choosing the best of several schedules; empty without a gain."""
    gain = findings.gain
    if gain is None or gain.candidates < 2:
        return ""
    return (
        f"This schedule is the best of {gain.candidates}. To correct for that choice, half of the weeks chose a "
        f"schedule and the other half measured its gain; this makes the stated gain {span(gain.optimism_s)} smaller."
    )


BAR = 12
"""Characters of the longest bar."""


def answer(evaluation: Evaluation) -> list[Block]:
    """Return the blocks of the terminal's short answer: headline, bars, three key figures and one next step."""
    screen = first_screen(evaluation)
    tiles = [f"{tile.title}: {tile.value} {tile.note}." for tile in screen.tiles]
    table = [_table(screen)] if screen.bars else []
    sentences = filter(None, (*tiles, screen.example, screen.caution, f"Next: {screen.next_step}"))
    return [Callout(screen.headline, screen.tone), *table, *sentences]


def _table(screen: FirstScreen) -> Table:
    """Return the bars of the first screen, with their differences from the first bar."""
    longest = max(bar.value_s for bar in screen.bars)
    is_wait = screen.measure == "mean wait"
    first = screen.bars[0]
    rows = [
        {
            "label": bar.label, "value": bar.value_s, "change": _change(bar, first) if is_wait else "",
            "bar": "█" * round(BAR * bar.value_s / longest if longest > 0 else 0) or "▏",
        }
        for bar in screen.bars
    ]  # fmt: skip
    names = [f"label|{'queue order' if is_wait else 'predicted by'}", f"value|{screen.measure}|seconds", "bar|"]
    columns = columns_of(*names, *(["change|against today (90 % interval)"] if is_wait else []))
    title = "Simulated mean wait" if is_wait else "Run-time predictions"
    return Table(f"{title} ({screen.based_on})" if screen.based_on else title, columns, rows)


def _change(bar: Bar, first: Bar) -> str:
    """Return a bar's difference from the first bar, with its interval and whether the interval contains zero."""
    if math.isnan(bar.change_s):
        return ""
    if math.isnan(bar.low_s):
        return f"{signed(bar.change_s)} (too few jobs)"
    low, high = bar.low_s - first.value_s, bar.high_s - first.value_s
    return f"{signed(bar.change_s)} ({signed(low)} to {signed(high)})" + (" unclear" if low <= 0 <= high else "")
