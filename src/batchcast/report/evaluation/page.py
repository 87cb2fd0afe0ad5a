# SPDX-License-Identifier: Apache-2.0
"""The sections of the evaluation's page, in order; the terminal shows the same without the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...evaluation.calendar import periods
from ...evaluation.evaluation import Evaluation
from ...events.recorded import outcome
from ...metrics.curves import busy_share
from ...metrics.paired import Difference
from ...metrics.schedule import SCHEDULE as MEASURES
from ...predict.protocol import named
from ...report import figures
from ...simulation.models import ORACLE, YARDSTICK
from ..accuracy import accuracy_table, bound_figures, planned_figure
from ..blocks import BarChart, BarRow, Block, Callout, Card, Cards, Figure, Section, Table, TableColumn, folded
from ..difference import FORECAST, SCHEDULE, cdf_minus, difference_blocks, interval_figures, interval_words
from ..figures import span
from ..limits import limit_blocks, waste_blocks
from ..validity import validity_line
from .first_screen import FirstScreen, choice_words, first_screen, price
from .gains import choices, harm_words, mark_choices, policy_notes, policy_words, row_marks, slots_of
from .heat_maps import change_heat, recorded_heats
from .machine import machine_blocks, recorded_wait_blocks
from .record import LEAST_PERIODS, advised_columns, glance_table, limits_used

LIMITS = named(YARDSTICK)
NAMING = (
    TableColumn("policy", "policy", "text", "order of the queue and rule of backfill; explained below the table"),
    TableColumn("predictor", "planned with", "text", "the run time that the scheduler assumes for each job"),
)


def _columns(*names: str) -> list[TableColumn]:
    """Return the columns of measures of a schedule, by name."""
    return [TableColumn(m.name, m.title, m.unit, m.meaning) for m in MEASURES if m.name in names]


SCHEDULE_COLUMNS = (
    *NAMING,
    *_columns("mean_wait_s"),
    TableColumn("_change", "against today", "difference", "the change in mean wait, with its 90 % interval"),
    *_columns("mean_bounded_slowdown"),
    TableColumn("users_worse", "users worse off", "share", "users whose mean wait is longer than today"),
)
MORE_COLUMNS = (
    *NAMING,
    *_columns("median_wait_s", "p95_wait_s", "median_bounded_slowdown", "utilization", "backfilled_share"),
    TableColumn("corrections", "corrections", "count", "predictions replaced because the job ran longer"),
)


def sections(evaluation: Evaluation, settings: Mapping[str, Any], preface: str = "") -> list[Section]:
    """Return the sections of the page, in order; most figures are folded. The first one begins with `preface`.

    If the simulation does not reproduce the recorded waits, the schedules come after the predictions, folded.
    """
    slots = slots_of(evaluation)
    found = evaluation.findings()
    believed = found is not None and found.believed
    short = Section("In short", [*screen_blocks(evaluation, first_screen(evaluation), preface), choices(evaluation)])
    schedules = Section("How much sooner would jobs start?", _schedule_blocks(evaluation, slots, believed))
    wrong = Section(
        "Time limits",
        [
            limits_used(evaluation.trace, evaluation.scores.scored, evaluation.procs),
            *_limit_blocks(evaluation),
            *folded("Time limits against run times, and coverage of the suggested limits", [
                _limits_figure(evaluation, slots), *_bounds(evaluation),
            ]),
        ],
    )  # fmt: skip
    unused = _section("Unused core-hours", waste_blocks(evaluation))
    good = Section(
        "Run-time predictions",
        [
            _accuracy(evaluation, settings),
            *[text for text in (advised_columns(evaluation),) if text],
            *_error_figures(evaluation, slots),
            *folded("Differences with intervals, and planning with another quantile", [
                *_forecast_differences(evaluation),
                *planned_figure(evaluation.scores.planned, evaluation.accuracy_rows(), slots),
            ]),
        ],
    )  # fmt: skip
    record = _section("Validity of the simulation", _record_blocks(evaluation))
    machine = _section("The machine", _machine_blocks(evaluation, slots))
    log = Section(
        "The log",
        [
            glance_table(evaluation.trace, evaluation.scores.scored, evaluation.procs),
            *folded("Arrivals, utilization and waits as recorded", [
                *_glance_figures(evaluation), *recorded_heats(evaluation),
            ]),
        ],
    )  # fmt: skip
    if believed:
        return [short, schedules, wrong, *unused, good, *record, *machine, log]
    return [short, wrong, *unused, good, *record, schedules, *machine, log]


def screen_blocks(evaluation: Evaluation, screen: FirstScreen, preface: str = "") -> list[Block]:
    """Return the first screen: headline, bars, tiles, next step; explanations are folded.

    A `preface` replaces the caution, which the folded validity line repeats in full.
    """
    caution = preface or screen.caution
    found = evaluation.findings()
    why = [evaluation.learned, *([choice_words(found), price(found)] if found is not None else [])]
    few = int(evaluation.scores.scored.sum())
    return [
        Callout(screen.headline, screen.tone, place="headline"),
        *([f"Only {few} jobs were scored: too few to conclude anything."] if few < FEW else []),
        *([caution] if caution else []),
        *([bar_chart(screen)] if screen.bars else []),
        Cards([Card(tile.title, tile.value, tile.note) for tile in screen.tiles]),
        Callout(screen.next_step, "note", "Next:", "next"),
        *folded("How far to trust this, and an example", [
            *([screen.example] if screen.example else []), *[text for text in why if text], validity_line(evaluation),
        ]),
    ]  # fmt: skip


FEW = 100
"""Fewer scored jobs than this allow no conclusion."""


def bar_chart(screen: FirstScreen) -> BarChart:
    """Return the bars of the first screen, each with its value and its difference to the first bar."""
    rows = []
    for bar in screen.bars:
        change = "" if bar.change_s != bar.change_s else f" ({'+' if bar.change_s > 0 else ''}{span(bar.change_s)})"
        interval = f"; 90 %: {span(bar.low_s)} to {span(bar.high_s)}" if bar.low_s == bar.low_s else ""
        rows.append(BarRow(bar.label, bar.method, bar.value_s, f"{span(bar.value_s)}{change}{interval}",
                           bar.low_s, bar.high_s))  # fmt: skip
    title = "Simulated mean wait" if screen.measure == "mean wait" else "Mean error of predicted run times"
    based = f" ({screen.based_on})" if screen.based_on else ""
    caption = "Error bars: 90 % intervals of the difference to the first bar." if len(rows) > 1 else ""
    return BarChart(f"{title}{based}", rows, caption)


def _limit_blocks(evaluation: Evaluation) -> list[Block]:
    """Return the table of limits; the differences are folded."""
    words, *rest = limit_blocks(evaluation) or [""]
    if not words:
        return []
    return [words, rest[0], *folded("Differences between the limits, with intervals", rest[1:])]


def _record_blocks(evaluation: Evaluation) -> list[Block]:
    if not evaluation.outcomes:
        return []
    words, *drawn = recorded_wait_blocks(evaluation) or [""]
    return [
        validity_line(evaluation),
        *([words] if words else []),
        *folded("Recorded against simulated waits, as figures", drawn),
    ]


def _machine_blocks(evaluation: Evaluation, slots: Mapping[str, int]) -> list[Block]:
    """Return the queue, utilization, and the Gantt excerpt, all folded."""
    blocks = machine_blocks(evaluation, slots) if evaluation.outcomes else []
    return folded("Queue length and utilization under each policy, and a Gantt excerpt", blocks)


def _section(title: str, blocks: list[Block]) -> list[Section]:
    """Return a section if it has blocks."""
    return [Section(title, blocks)] if blocks else []


def _bounds(evaluation: Evaluation) -> list[Figure]:
    return bound_figures(evaluation.limits) if evaluation.limits else []


def _accuracy(evaluation: Evaluation, settings: Mapping[str, Any]) -> Table:
    rows = [row_marks(row) for row in evaluation.accuracy_rows()]
    return accuracy_table(rows, evaluation.scores.protocol, settings)


def _forecast_differences(evaluation: Evaluation) -> list[Block]:
    rows = [row_marks(row) for row in evaluation.accuracy_rows()]
    rows = [{**row, "predictor": named(row["predictor"]), **_against(row)} for row in rows]
    blocks = difference_blocks(rows, FORECAST, [TableColumn("predictor", "predictor")])
    return [*blocks, *interval_figures(rows, FORECAST, ["predictor"])]


def _schedule_differences(evaluation: Evaluation) -> list[Block]:
    rows = [{**_shown_row(row), **_against(row)} for row in evaluation.schedule_rows()]
    naming = [TableColumn("policy", "policy"), TableColumn("predictor", "planned with")]
    blocks = difference_blocks(rows, SCHEDULE, naming)
    return [*blocks, OF_ONE_RUN, *interval_figures(rows, SCHEDULE, ["policy", "predictor"])] if blocks else []


def _against(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row's reference under the name that readers see: `easy, requested` is EASY with users' limits."""
    if not row.get("against"):
        return {}
    policy, _, planner = str(row["against"]).rpartition(", ")
    return {"against": f"{policy_words(policy)}, {named(planner)}" if policy else named(planner)}


OF_ONE_RUN = (
    "The intervals compare the waits of each job in two simulations. They do not include how the rest of a schedule "
    "moves when a few jobs change; `batchcast simulate --replicates N` also simulates resampled logs."
)


def _glance_figures(evaluation: Evaluation) -> list[Figure]:
    trace = evaluation.trace
    edges, starts, unit = periods(trace)
    if len(starts) < LEAST_PERIODS:
        return []
    which = np.searchsorted(edges, trace.submit_time, side="right") - 1
    count = np.bincount(which, minlength=len(starts))
    drawn = [
        figures.lines(
            f"Arrivals per {unit}",
            {"jobs": (starts, count)},
            x=unit,
            y=f"jobs submitted per {unit}",
            caption=f"In the log's zone, {trace.info.timezone}; the first and the last {unit} may be incomplete.",
        )
    ]
    total = trace.info.max_procs
    submit, wait, run = outcome(trace)
    if total > 0:
        begun = submit + wait
        inside = np.clip(edges, submit[0], submit[-1])  # not the days before or after the log
        with np.errstate(invalid="ignore"):
            busy = busy_share(begun, begun + run, trace.procs(evaluation.procs), inside, total)
        drawn.append(
            figures.lines(
                f"Utilization per {unit}, as recorded",
                {"busy": (starts, busy)},
                x=unit,
                y=f"share of {total:,.0f} processors busy",
                kind="share",
            )
        )
    known = np.isfinite(trace.wait_time) & ~np.isnan(run)
    if known.any():
        waits = [np.maximum(trace.wait_time[known & (which == k)], 0) for k in range(len(starts))]
        mean = np.array([w.mean() if len(w) else np.nan for w in waits])
        half = np.array([np.median(w) if len(w) else np.nan for w in waits])
        drawn.append(
            figures.lines(
                f"Waits by {unit} of submission, as recorded",
                {"mean": (starts, mean), "median": (starts, half)},
                x=unit,
                y="wait",
                kind="seconds",
            )
        )
    return drawn


def _limits_figure(evaluation: Evaluation, slots: Mapping[str, int]) -> Figure:
    scored = evaluation.scores.scored
    times = {"limit": evaluation.trace.req_time[scored], "run time": evaluation.trace.run_time[scored]}
    slots = {"limit": slots[YARDSTICK], "run time": slots[ORACLE]}
    return figures.cdf(
        "Time limits and run times",
        times,
        x="time",
        slots=slots,
        caption="Share of jobs with a time limit, or a run time, up to each time. The wider the gap between the "
        "curves, the more time users request without using it. Times below 1 s are drawn at 1 s.",
    )


def _error_figures(evaluation: Evaluation, slots: Mapping[str, int]) -> list[Figure]:
    scores = evaluation.scores
    run = evaluation.trace.run_time[scores.scored]
    errors = {named(name): np.abs(points[scores.scored] - run) for name, points in scores.points.items()}
    drawn = figures.cdf(
        "Absolute error of the predictions",
        errors,
        x="absolute error",
        slots=slots,
        caption="Share of jobs with an error up to each value; higher is better. Errors below 1 s are drawn at 1 s.",
    )
    figure = mark_choices(drawn, list(scores.points))
    if LIMITS not in errors:
        return [figure]
    return [
        cdf_minus(
            figure,
            errors,
            LIMITS,
            "above zero, the predictor has more jobs with an error up to this value than the time limits.",
        )
    ]


def _schedule_blocks(evaluation: Evaluation, slots: Mapping[str, int], believed: bool) -> list[Block]:
    """Return the steps from today to perfect knowledge, the table, one curve of waits; the rest is folded."""
    if not evaluation.outcomes:
        return [evaluation.why_not]
    rows = evaluation.schedule_rows()
    marked = [_shown_row(row) for row in rows]
    jobs, total = rows[0]["jobs"], evaluation.outcomes[0].schedule.total
    heading = f"Simulated schedules of {jobs:,} jobs on {total:,} processors"
    left_out = "; ".join(evaluation.notes) + "." if evaluation.notes else ""
    table = Table(heading, SCHEDULE_COLUMNS, [marked[place] for place in _main_rows(rows)], left_out)
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    curves = _wait_curves(evaluation, slots)
    more = folded(
        "Every schedule, differences with intervals, and which jobs gain or lose",
        [
            Table("Every schedule", SCHEDULE_COLUMNS, marked),
            Table("More of each schedule", MORE_COLUMNS, marked),
            *_schedule_differences(evaluation), *change_heat(evaluation), *curves[1:],
        ],
    )  # fmt: skip
    if believed:
        return [table, *harm_words(evaluation), *policy_notes(policies), *curves[:1], *more]
    kept: list[Block] = [table, *policy_notes(policies), *change_heat(evaluation), *curves]
    return [NOT_BELIEVED, *folded("The simulated schedules", kept)]


def _main_rows(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the main rows: for each policy the users' limits, the best forecast and perfect knowledge."""
    kept = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        mine = [place for place, row in enumerate(rows) if row["policy"] == policy]
        forecasts = [place for place in mine if rows[place]["predictor"] not in (YARDSTICK, ORACLE)]
        best = min(forecasts, key=lambda place: rows[place]["mean_wait_s"], default=None)
        kept += [place for place in mine if place not in forecasts or place == best]
    return kept


NOT_BELIEVED = (
    "The simulation does not reproduce the recorded waits (see Validity), so the report draws no conclusions from "
    "these schedules."
)


def _shown_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schedule's row with the names that readers see and its change against today."""
    words = interval_words(Difference.of(row, "mean_wait_s"), "seconds")
    return {
        **row_marks(row), "policy": policy_words(row["policy"]), "predictor": named(row["predictor"]), "_change": words,
    }  # fmt: skip


def _wait_curves(evaluation: Evaluation, slots: Mapping[str, int]) -> list[Figure]:
    """Return the distribution of waits under each policy, the policy of the steps first."""
    drawn = []
    found = evaluation.findings()
    first = found.steps[-1].policy if found else evaluation.outcomes[0].policy
    for policy in dict.fromkeys([first, *(o.policy for o in evaluation.outcomes)]):
        waits = {
            named(o.predictor): o.schedule.wait_time[evaluation.mask[o.schedule.rows]]
            for o in evaluation.outcomes
            if o.policy == policy
        }
        figure = figures.cdf(
            f"Waits under {policy_words(policy)}",
            waits,
            x="wait",
            slots=slots,
            caption="Share of jobs with a wait up to each time; higher is better. Waits below 1 s are drawn at 1 s.",
        )
        reads = "above zero, more jobs wait up to this time than with users' limits."
        specs = [o.predictor for o in evaluation.outcomes if o.policy == policy]
        drawn.append(cdf_minus(mark_choices(figure, specs, policy=policy), waits, LIMITS, reads))
    return drawn
