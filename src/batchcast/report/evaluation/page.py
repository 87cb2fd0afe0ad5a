"""The sections of the evaluation's page, in order; the terminal shows the same without the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...evaluation.calendar import periods
from ...evaluation.evaluation import Evaluation
from ...evaluation.simulated import ORACLE, YARDSTICK
from ...events.recorded import outcome
from ...metrics.curves import busy_share, running_mean
from .. import figures
from ..accuracy import accuracy_table, bound_figures, planned_figure, planned_table
from ..blocks import Block, Callout, Figure, Section, Table, TableColumn
from ..difference import FORECAST, SCHEDULE, difference_blocks
from ..difference_plots import cdf_minus, interval_figures
from ..figures import span
from ..limits import limit_blocks
from ..validity import validity_line
from .first_screen import LEAST_PERIODS, cards, glance_table
from .heat_maps import change_heat, recorded_heats
from .machine import machine_blocks, recorded_wait_blocks
from .policies import choices, mark_choices, policy_notes, policy_words, row_marks, slots_of
from .waste import waste_blocks
from .words import opening

SCHEDULE_COLUMNS = (
    TableColumn("policy", "policy", "text", "who goes first and what may pass it, see below"),
    TableColumn("predictor", "planned with", "text", "what the schedule takes a job's run time to be"),
    TableColumn("mean_wait_s", "mean wait", "seconds", "start - submission"),
    TableColumn(
        "share_of_perfect",
        "of perfect knowledge",
        "share",
        "(requests - it) / (requests - actual) on mean wait; below 0 it is worse than the users' limits, above 100 % "
        "better than knowing the truth",
    ),
    TableColumn("median_wait_s", "median wait", "seconds", "half of the jobs wait no longer"),
    TableColumn("p95_wait_s", "95 % wait", "seconds", "95th percentile of the wait"),
    TableColumn(
        "mean_bounded_slowdown", "mean slowdown", "number", "bounded: max(1, (wait + run) / max(run, 10 s)), tau = 10 s"
    ),
    TableColumn("median_bounded_slowdown", "median slowdown", "number", "the same, median"),
    TableColumn("utilization", "utilization", "share", "processor time used / (machine x first submit to last end)"),
    TableColumn("backfilled_share", "backfilled", "share", "jobs started past a waiting head job"),
    TableColumn("corrections", "corrections", "count", "plans replaced because a job outlived them"),
)


def sections(evaluation: Evaluation, settings: Mapping[str, Any], preface: str = "") -> list[Section]:
    """The page's sections: in short (after a `preface`), the log at a glance, limits and what they leave unused,
    forecasts, how the simulation meets the record, schedules, machine."""
    head: list[Block] = [Callout(preface)] if preface else []
    slots = slots_of(evaluation)
    parts = [
        Section(
            "In short", [cards(evaluation), *head, *opening(evaluation), validity_line(evaluation), choices(evaluation)]
        ),
        Section(
            "The log at a glance",
            [glance_table(evaluation), *_glance_figures(evaluation), *recorded_heats(evaluation)],
        ),
        Section(
            "How wrong are the limits",
            [
                _limits_sentence(evaluation),
                _limits_figure(evaluation, slots),
                *limit_blocks(evaluation),
                *_bounds(evaluation),
            ],
        ),
        *_section("Whose core-hours go unused", waste_blocks(evaluation)),
        Section(
            "How good are the forecasts",
            [
                _accuracy(evaluation, settings),
                *_forecast_differences(evaluation),
                *_error_figures(evaluation, slots),
                *planned_table(evaluation.scores.planned),
                *planned_figure(evaluation.scores.planned, evaluation.accuracy_rows(), slots),
            ],
        ),
        *_section("How near the simulation comes to the record", recorded_wait_blocks(evaluation)),
        Section("How much sooner would jobs start", _schedule_blocks(evaluation, slots)),
    ]
    return (
        [*parts, Section("The machine over time", machine_blocks(evaluation, slots))] if evaluation.outcomes else parts
    )


def _section(title: str, blocks: list[Block]) -> list[Section]:
    """A section where there is something to say."""
    return [Section(title, blocks)] if blocks else []


def _bounds(evaluation: Evaluation) -> list[Figure]:
    return bound_figures(evaluation.limits) if evaluation.limits else []


def _accuracy(evaluation: Evaluation, settings: Mapping[str, Any]) -> Table:
    rows = [row_marks(row) for row in evaluation.accuracy_rows()]
    return accuracy_table(rows, evaluation.scores.protocol, settings)


def _forecast_differences(evaluation: Evaluation) -> list[Block]:
    rows = [row_marks(row) for row in evaluation.accuracy_rows()]
    blocks = difference_blocks(rows, FORECAST, [TableColumn("predictor", "predictor")])
    return [*blocks, *interval_figures(rows, FORECAST, ["predictor"])]


def _schedule_differences(evaluation: Evaluation) -> list[Block]:
    rows = [{**row_marks(row), "policy": policy_words(row["policy"])} for row in evaluation.schedule_rows()]
    naming = [TableColumn("policy", "policy"), TableColumn("predictor", "planned with")]
    blocks = difference_blocks(rows, SCHEDULE, naming)
    return [*blocks, OF_ONE_RUN, *interval_figures(rows, SCHEDULE, ["policy", "predictor"])] if blocks else []


OF_ONE_RUN = (
    "The intervals of schedules are of pairs of waits and slowdowns of one run each: how the rest of a schedule moves "
    "when a few jobs change is left out (`batchcast simulate --replicates N` runs the log again with jobs left out)."
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
        inside = np.clip(edges, submit[0], submit[-1])  # not the days before the log or after its last submission
        with np.errstate(invalid="ignore"):
            busy = busy_share(begun, begun + run, trace.procs(evaluation.procs), inside, total)
        drawn.append(
            figures.lines(
                f"Utilization per {unit}, as recorded",
                {"busy": (starts, busy)},
                x=unit,
                y=f"share of {total:,.0f} processors busy",
                share=True,
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
                seconds=True,
            )
        )
    return drawn


def _limits_sentence(evaluation: Evaluation) -> str:
    limit, run = (v[evaluation.scores.scored] for v in (evaluation.trace.req_time, evaluation.trace.run_time))
    limit = limit[np.isfinite(limit)]
    if not len(limit) or not len(run):
        return "The log does not say what users asked for."
    return (
        f"Half of the jobs ask for {span(float(np.median(limit)))} or more; half of them run for "
        f"{span(float(np.median(run)))} or less."
    )


def _limits_figure(evaluation: Evaluation, slots: Mapping[str, int]) -> Figure:
    scored = evaluation.scores.scored
    times = {YARDSTICK: evaluation.trace.req_time[scored], ORACLE: evaluation.trace.run_time[scored]}
    return figures.cdf(
        "Requested and actual run time",
        times,
        x="time",
        slots=slots,
        caption="Share of jobs whose limit (requested) or run time (actual) is at most so long. The farther apart the "
        "curves, the more the limits exaggerate. Times below a second are drawn at 1 s.",
    )


def _error_figures(evaluation: Evaluation, slots: Mapping[str, int]) -> list[Figure]:
    scores = evaluation.scores
    run = evaluation.trace.run_time[scores.scored]
    errors = {name: np.abs(points[scores.scored] - run) for name, points in scores.points.items()}
    drawn = [
        figures.cdf(
            "Absolute error of the forecasts",
            errors,
            x="absolute error",
            slots=slots,
            caption="Share of jobs whose forecast is off by at most so much; higher is better. Errors below a second "
            "are drawn at 1 s.",
        ),
        figures.lines(
            "Mean absolute error as jobs go by",
            {name: _settled(*running_mean(error)) for name, error in errors.items()},
            x="jobs predicted so far",
            y="mean absolute error so far",
            seconds=True,
            slots=slots,
            caption="Over all jobs up to this one, in order of submission: a method that learns comes down, a change "
            "in what users do shows as a bend. Drawn from the first hundredth of the jobs on: means of few jobs jump.",
        ),
    ]
    distribution, going = (mark_choices(figure, list(errors)) for figure in drawn)
    if YARDSTICK in errors:
        distribution = cdf_minus(
            distribution, errors, YARDSTICK, "above zero more forecasts come so near than limits do."
        )
    return [distribution, going]


def _settled(count: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A running mean without its first hundredth."""
    kept = count >= count[-1] / 100 if len(count) else np.zeros(0, bool)
    return count[kept], mean[kept]


def _schedule_blocks(evaluation: Evaluation, slots: Mapping[str, int]) -> list[Block]:
    if not evaluation.outcomes:
        return [evaluation.why_not]
    rows = evaluation.schedule_rows()
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    specs = list(dict.fromkeys(row["predictor"] for row in rows))
    by = {(row["policy"], row["predictor"]): row for row in rows}
    table = Table(
        f"Simulated schedules of {rows[0]['jobs']:,} jobs on {evaluation.outcomes[0].schedule.total:,} processors",
        SCHEDULE_COLUMNS,
        [{**row_marks(row), "policy": policy_words(row["policy"])} for row in rows],
        "; ".join(evaluation.notes) + "." if evaluation.notes else "",
    )
    drawn = [
        mark_choices(
            figures.bars(
                title,
                [policy_words(p) for p in policies],
                {spec: [by[policy, spec][key] for policy in policies] for spec in specs},
                value=value,
                seconds=seconds,
                slots=slots,
            ),
            specs,
            points=policies,
        )
        for title, key, value, seconds in (
            ("Mean wait", "mean_wait_s", "mean wait", True),
            ("Mean bounded slowdown (tau = 10 s)", "mean_bounded_slowdown", "mean bounded slowdown", False),
        )
    ]
    curves = _wait_curves(evaluation, slots)
    return [
        table,
        *_schedule_differences(evaluation),
        *policy_notes(policies),
        *drawn,
        *change_heat(evaluation),
        *curves,
    ]


def _wait_curves(evaluation: Evaluation, slots: Mapping[str, int]) -> list[Figure]:
    """The distribution of waits under each policy, every predictor against the oracle."""
    drawn = []
    for policy in dict.fromkeys(o.policy for o in evaluation.outcomes):
        waits = {
            o.predictor: o.schedule.wait_time[evaluation.mask[o.schedule.rows]]
            for o in evaluation.outcomes
            if o.policy == policy
        }
        figure = figures.cdf(
            f"Waits under {policy_words(policy)}",
            waits,
            x="wait",
            slots=slots,
            caption="Share of jobs that wait at most so long; higher is better. Less than 1 s is drawn at 1 s.",
        )
        reads = "above zero more jobs wait at most so long than under users' limits."
        drawn.append(cdf_minus(mark_choices(figure, list(waits), policy=policy), waits, YARDSTICK, reads))
    return drawn
