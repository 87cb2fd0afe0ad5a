# SPDX-License-Identifier: Apache-2.0
"""The page of an evaluation: its sections in order, and the folder with page, results as JSON, and schedules.

The terminal shows the same sections without the figures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...document import document, dumps
from ...evaluation.calendar import calendar, periods
from ...evaluation.differences import ResultRow, burst_groups
from ...evaluation.evaluation import Evaluation
from ...evaluation.waste import waste_rows
from ...events.recorded import outcome
from ...metrics.accuracy import relative_accuracy
from ...metrics.curves import busy_share
from ...metrics.schedule import SCHEDULE as MEASURES
from ...predict.protocol import spec_words
from ...simulation.models import ORACLE, YARDSTICK
from ...table import Trace
from ...trace.schedule import FORECASTS, GROUPS, Forecasts, write_forecasts, write_groups, write_schedule
from ...trace.select import describe_log
from ...trace.whole_file import folder
from ...units import counted
from .. import blocks, figures
from ..accuracy import accuracy_table, bound_figures, planned_figure
from ..blocks import Block, Callout, Figure, Section, Table, TableColumn, TableRows, as_text, folded, page
from ..difference import FORECAST, SCHEDULE, Measures, cdf_minus, difference_blocks, interval_figures, interval_words
from ..figures import span
from ..limits import limit_blocks, waste_blocks
from ..validity import validity_line
from .first_screen import FirstScreen, choice_words, first_screen, price
from .gains import choices, harm_words, mark_choices, policy_notes, policy_words, row_marks, slots_of
from .heat_maps import change_heat, recorded_heats
from .machine import LEAST_PERIODS, machine_blocks, recorded_wait_blocks

LIMITS = spec_words(YARDSTICK)
METHOD, PLAN = blocks.columns_of("predictor"), blocks.columns_of("policy", "predictor|planned with")
"""The columns that name a row in tables of differences."""
NAMING = (
    TableColumn("policy", "policy", "text", "order of the queue and rule of backfill; explained below the table"),
    TableColumn("predictor", "planned with", "text", "the run time that the scheduler assumes for each job"),
)


def _columns(*names: str) -> list[TableColumn]:
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
    """Return the sections of the page, in order; most figures are folded. The first section of the page begins with
    `preface`.

    If the simulation does not reproduce the recorded waits, the schedules come after the predictions and are folded.
    """
    slots = slots_of(evaluation)
    findings = evaluation.findings
    believed = findings is not None and findings.believed
    scored, rows = evaluation.scores.scored, evaluation.accuracy_rows()
    marked = list(map(row_marks, rows))
    short = Section("In short", [*screen_blocks(evaluation, first_screen(evaluation), preface), choices(evaluation)])
    schedules = Section("How much sooner would jobs start?", _schedule_blocks(evaluation, slots, believed))
    bounds = bound_figures(evaluation.limits) if evaluation.limits else []
    wrong = Section("Time limits", [
        limits_used(evaluation.trace, scored, evaluation.procs),
        *limit_blocks(evaluation),
        *folded("Time limits against run times, and coverage of the suggested limits",
                [_limits_figure(evaluation, slots), *bounds]),
    ])  # fmt: skip
    unused = Section("Unused core-hours", waste_blocks(evaluation))
    advised = advised_columns(evaluation)
    good = Section("Run-time predictions", [
        accuracy_table(marked, evaluation.scores.protocol, settings),
        *([advised] if advised else []),
        *_error_figures(evaluation, slots),
        *folded("Differences with intervals, and planning with another quantile",
                [*_differences([row.named(predictor=spec_words(row["predictor"])) for row in marked],
                               FORECAST, METHOD),
                 *planned_figure(evaluation.scores.rows, rows, slots)]),
    ])  # fmt: skip
    record = Section("Validity of the simulation", _record_blocks(evaluation))
    machine = Section("The machine", folded(
        "Queue length and utilization under each policy, and a Gantt excerpt",
        machine_blocks(evaluation, slots) if evaluation.outcomes else [],
    ))  # fmt: skip
    log = Section("The log", [
        glance_table(evaluation.trace, scored, evaluation.procs),
        *folded("Arrivals, utilization and waits as recorded",
                [*_glance_figures(evaluation), *recorded_heats(evaluation)]),
    ])  # fmt: skip
    order = [short, *([schedules] if believed else []), wrong, unused, good, record]
    order += [*([] if believed else [schedules]), machine, log]
    return [section for section in order if section.blocks]


def screen_blocks(evaluation: Evaluation, screen: FirstScreen, preface: str = "") -> list[Block]:
    """Return the first screen: headline, bars, tiles, next step; explanations are folded.

    A `preface` replaces the caution, which is part of the folded validity line.
    """
    findings = evaluation.findings
    why = [screen.example, evaluation.learned, *([choice_words(findings), price(findings)] if findings else [])]
    few = int(evaluation.scores.scored.sum())
    too_few = f"Only {few} jobs were scored: too few to conclude anything." if few < FEW else ""
    return [
        Callout(screen.headline, screen.tone, position="headline"),
        *filter(None, (too_few, preface or screen.caution)),
        *([screen.chart()] if screen.bars else []),
        blocks.Cards(screen.tiles),
        Callout(screen.next_step, "note", "Next:", "next"),
        *folded("How far to trust this, and an example", [*filter(None, why), validity_line(evaluation)]),
    ]


FEW = 100
"""Fewer scored jobs than this allow no conclusion."""


def _record_blocks(evaluation: Evaluation) -> list[Block]:
    if not evaluation.outcomes:
        return []
    waits = recorded_wait_blocks(evaluation)
    return [validity_line(evaluation), *waits[:1], *folded("Recorded against simulated waits, as figures", waits[1:])]


def _differences(
    rows: Sequence[ResultRow], measures: Measures, naming: Sequence[TableColumn], note: str = ""
) -> list[Block]:
    """Return differences between rows as a table, a note and a figure; empty if nothing is compared."""
    rows = [row.named(_against(row.against)) for row in rows]
    compared = difference_blocks(rows, measures, naming)
    figure = interval_figures(rows, measures, [column.key for column in naming])
    return [*compared, *filter(None, [note]), *figure] if compared else []


def _against(reference: str) -> str:
    """Return the name that readers see for a reference schedule: `easy, requested` is EASY with users' limits."""
    policy, _, planner = reference.rpartition(", ")
    return f"{policy_words(policy)}, {spec_words(planner)}" if policy else spec_words(planner)


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
    caption = f"In the log's zone, {trace.info.timezone}; the first and the last {unit} may be incomplete."
    over_time = partial(figures.lines, x=unit)
    axis = f"jobs submitted per {unit}"
    drawn = [over_time(f"Arrivals per {unit}", {"jobs": (starts, count)}, y=axis, caption=caption)]
    total = trace.info.max_procs
    submit, wait, run = outcome(trace)
    if total > 0:
        begun = submit + wait
        inside = np.clip(edges, submit[0], submit[-1])  # exclude the days before and after the log
        with np.errstate(invalid="ignore"):
            busy = busy_share(begun, begun + run, trace.procs(evaluation.procs), inside, total)
        axis = f"share of {total:,.0f} processors busy"
        title = f"Utilization per {unit}, as recorded"
        drawn.append(over_time(title, {"busy": (starts, busy)}, y=axis, kind="share"))
    known = np.isfinite(trace.wait_time) & ~np.isnan(run)
    if known.any():
        waits = [np.maximum(trace.wait_time[known & (which == k)], 0) for k in range(len(starts))]
        series = {
            name: (starts, np.array([of(some) if len(some) else np.nan for some in waits]))
            for name, of in (("mean", np.mean), ("median", np.median))
        }
        drawn.append(over_time(f"Waits by {unit} of submission, as recorded", series, y="wait", kind="seconds"))
    return drawn


def _limits_figure(evaluation: Evaluation, slots: Mapping[str, int]) -> Figure:
    scored = evaluation.scores.scored
    times = {"limit": evaluation.trace.req_time[scored], "run time": evaluation.trace.run_time[scored]}
    slots = {"limit": slots[YARDSTICK], "run time": slots[ORACLE]}
    return figures.cdf(
        "Time limits and run times", times, x="time", slots=slots,
        caption="Share of jobs with a time limit, or a run time, up to each time. The wider the gap between the "
        "curves, the more time users request without using it. Times below 1 s are drawn at 1 s.",
    )  # fmt: skip


def _error_figures(evaluation: Evaluation, slots: Mapping[str, int]) -> list[Figure]:
    scores = evaluation.scores
    run = evaluation.trace.run_time[scores.scored]
    errors = {spec_words(name): np.abs(points[scores.scored] - run) for name, points in scores.points.items()}
    caption = "Share of jobs with an error up to each value; higher is better. Errors below 1 s are drawn at 1 s."
    title = "Absolute error of the predictions"
    figure = figures.cdf(title, errors, x="absolute error", slots=slots, caption=caption)
    figure = mark_choices(figure, list(scores.points))
    reads = "above zero, the predictor has more jobs with an error up to this value than the time limits."
    return [cdf_minus(figure, errors, LIMITS, reads) if LIMITS in errors else figure]


def _schedule_blocks(evaluation: Evaluation, slots: Mapping[str, int], believed: bool) -> list[Block]:
    """Return the table of the main schedules, notes on the policies and one figure of waits; all other blocks are
    folded. If the simulation is not `believed`, all blocks are folded."""
    if not evaluation.outcomes:
        return [evaluation.why_not]
    rows = evaluation.schedule_rows()
    marked = [_shown_row(row) for row in rows]
    total = evaluation.outcomes[0].schedule.total
    heading = f"Simulated schedules of {rows[0]['jobs']:,} jobs on {total:,} processors"
    left_out = "; ".join(evaluation.notes) + "." if evaluation.notes else ""
    table = Table(heading, SCHEDULE_COLUMNS, [marked[place] for place in _main_rows(rows)], left_out)
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    curves = _wait_curves(evaluation, slots)
    more = folded(
        "Every schedule, differences with intervals, and which jobs gain or lose",
        [
            Table("Every schedule", SCHEDULE_COLUMNS, marked),
            Table("More of each schedule", MORE_COLUMNS, marked),
            *_differences(marked, SCHEDULE, PLAN, OF_ONE_RUN), *change_heat(evaluation), *curves[1:],
        ],
    )  # fmt: skip
    if believed:
        return [table, *harm_words(evaluation), *policy_notes(policies), *curves[:1], *more]
    kept: list[Block] = [table, *policy_notes(policies), *change_heat(evaluation), *curves]
    return [NOT_BELIEVED, *folded("The simulated schedules", kept)]


def _main_rows(rows: TableRows) -> list[int]:
    """Return the main rows: for each policy the users' limits, the best prediction and perfect knowledge."""
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


def _shown_row(row: ResultRow) -> ResultRow:
    """Return a schedule's row with the names that readers see and its change from today's schedule."""
    change = interval_words(row.difference("mean_wait_s"), "seconds")
    names = {"policy": policy_words(row["policy"]), "predictor": spec_words(row["predictor"])}
    return row_marks(row).named(**names, _change=change)


def _wait_curves(evaluation: Evaluation, slots: Mapping[str, int]) -> list[Figure]:
    """Return the distribution of waits under each policy, the policy of the steps first."""
    drawn = []
    findings = evaluation.findings
    first = findings.steps[-1].policy if findings else evaluation.outcomes[0].policy
    caption = "Share of jobs with a wait up to each time; higher is better. Waits below 1 s are drawn at 1 s."
    reads = "above zero, more jobs wait up to this time than with users' limits."
    for policy in dict.fromkeys([first, *(o.policy for o in evaluation.outcomes)]):
        mine = [o for o in evaluation.outcomes if o.policy == policy]
        waits = {spec_words(o.predictor): o.schedule.wait_time[evaluation.mask[o.schedule.rows]] for o in mine}
        figure = figures.cdf(f"Waits under {policy_words(policy)}", waits, x="wait", slots=slots, caption=caption)
        figure = mark_choices(figure, [o.predictor for o in mine], policy=policy)
        drawn.append(cdf_minus(figure, waits, LIMITS, reads))
    return drawn


def record_blocks(trace: Trace, mask: np.ndarray, procs: str) -> list[Block]:
    """Return the page's blocks that describe only the recorded data, before anything is predicted or simulated.

    `mask` (n,) are the jobs to score, and `procs` the rule for a job's processors. O(n log n).
    """
    scored = mask & ~np.isnan(trace.run_time)
    return [glance_table(trace, scored, procs), limits_used(trace, scored, procs)]


def limits_used(trace: Trace, scored: np.ndarray, procs: str) -> str:
    """Return sentences on how much of their time limits and of the requested core-hours the scored jobs use."""
    run, limit = trace.run_time[scored], trace.req_time[scored]
    known = ~np.isnan(limit) & np.isfinite(limit)
    if not known.any():
        return "The log has no time limits."
    run, limit = run[known], limit[known]
    used = np.divide(run, limit, out=np.ones(len(run)), where=limit > 0)
    over = float((run > limit).mean())
    half = max(100 * float(np.median(used)), 1.0)
    bound = "less than" if np.median(used) < 0.5 else "at least"
    past = f", and {100 * over:.1f} % ran longer than it" if over >= 0.0005 else ""
    whole = waste_rows(trace, scored, procs=procs)[0]
    asked, unused = whole["asked_core_h"], whole["unused_core_h"]
    share = f"; {as_text(unused / asked, 'share')} of the requested core-hours went unused" if asked > 0 else ""
    limits, runs = (span(float(np.median(values))) for values in (limit, trace.run_time[scored]))
    return (
        f"Half of the jobs use {bound} {half:.0f} % of their time limit{past}{share}. "
        f"The median time limit is {limits}; the median run time is {runs}."
    )


def advised_columns(evaluation: Evaluation) -> str:
    """Return the columns of the log that would improve the prediction, and by how much; empty if no column would.

    The columns are chosen on earlier jobs of the log and tested on later jobs.
    """
    advice = evaluation.advice
    if advice is None:
        return ""
    trace = evaluation.trace
    since = calendar(trace, float(trace.submit_time[advice.since]))
    ends = (advice.difference.high, advice.difference.low)
    low, high = (as_text(-end / advice.against_mae_s, "share") for end in ends)
    how = f"uses {' and '.join(advice.columns)}" if advice.columns else "compares similar requests"
    return (
        f"A better prediction {how}, which the log contains: {advice.predictor} (columns chosen on "
        f"{advice.past_jobs:,} jobs before {since:%Y-%m-%d}) has a mean error of {span(advice.mae_s)} on the "
        f"{advice.jobs:,} jobs since then, and {advice.against} has {span(advice.against_mae_s)} ({low} to {high} "
        f"smaller, 90 % interval over users' weeks). Try --predictor {advice.predictor}."
    )


def glance_table(trace: Trace, scored: np.ndarray, rule: str) -> Table:
    """Return the log's counts, dates, machine, load, waits, sizes, and the accuracy of users' time limits."""
    submit, wait, run = outcome(trace)
    ran = ~np.isnan(run)
    first, last = calendar(trace, float(submit[0])), calendar(trace, float(submit[-1]))
    users = len(np.unique(trace.nominal("user_id").codes[trace.nominal("user_id").is_known()]))
    procs = trace.procs(rule)
    total = trace.info.max_procs
    machine = f"{total:,.0f} processors (from {trace.info.max_procs_source})" if total > 0 else "size unknown"

    def utilization(start: np.ndarray, run: np.ndarray, procs: np.ndarray) -> str:
        area = total * float((start + run).max() - start.min())
        return as_text(float((procs * run).sum()) / area, "share") if area > 0 else "unknown"

    rows = [
        ("jobs", f"{len(trace):,}, of which {int((~ran).sum()):,} never ran"),
        ("scored", counted(int(scored.sum()))),
        ("users", f"{users:,}" if users else "unknown"),
        ("submitted", f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} ({trace.info.timezone})"),
        ("machine", machine),
        ("recorded utilization", _of_known(utilization, submit + wait, run, procs)),
        ("recorded wait", _of_known(_quantiles, np.maximum(trace.wait_time[ran], 0))),
        ("run time", _of_known(_quantiles, run)),
        ("time limit", _of_known(_quantiles, trace.req_time)),
        ("processors", _of_known(_sizes, procs)),
        ("accuracy of the time limits", _of_known(_users_accuracy, run, trace.req_time)),
    ]
    cells = [{"what": what, "value": value} for what, value in rows]
    return Table("Contents of the log", blocks.columns_of("what|", "value|"), cells)


def _of_known(words: Callable[..., str], *columns: np.ndarray) -> str:
    """Return the text that `words` makes of the jobs for which all columns are known; "unknown" if there are none."""
    known = np.isfinite(columns).all(axis=0)
    return words(*(column[known] for column in columns)) if known.any() else "unknown"


def _quantiles(values: np.ndarray) -> str:
    half, most = np.percentile(values, [50, 95]).tolist()
    return f"mean {span(float(values.mean()))}, median {span(half)}, 95 % within {span(most)}"


def _sizes(procs: np.ndarray) -> str:
    serial = as_text(float((procs == 1).mean()), "share")
    return f"median {np.median(procs):g}, largest {procs.max():,.0f}; {serial} serial"


def _users_accuracy(run: np.ndarray, limit: np.ndarray) -> str:
    accuracy = relative_accuracy(limit, run).mean()
    return f"{accuracy:.3f} (mean of run time / time limit, inverted above 1; 1 is perfect)"


def write_report(evaluation: Evaluation, target: str | Path) -> Path:
    """Write the report that `batchcast evaluate -o FOLDER` writes: index.html, result.json, schedules/*.csv.

    The report is written completely or not at all; other files in the folder stay.

    Parameters
    ----------
    evaluation
        The result of `batchcast.evaluate`.
    target
        The folder, which is created if it does not exist.

    Returns
    -------
    Path
        The path of the written index.html.

    Raises
    ------
    BatchcastError
        If the folder cannot be written.

    Examples
    --------
    >>> import batchcast, tempfile
    >>> log = batchcast.read_trace(batchcast.demo_path())
    >>> evaluation = batchcast.evaluate(log.take(np.arange(300)), predictor=["last_2"], policy=["easy"])
    >>> batchcast.write_report(evaluation, tempfile.mkdtemp()).name
    'index.html'
    """
    with folder(target) as place:
        fill(place, evaluation, evaluation.settings, evaluation.trace.info.notes, "batchcast.evaluate(...)")
    return Path(target) / "index.html"


def fill(
    directory: Path, evaluation: Evaluation, settings: Mapping[str, Any], warnings: Sequence[str], command: str,
    title: str | None = None, preface: str = "",
) -> tuple[dict[str, Any], list[Section]]:  # fmt: skip
    """Write index.html, result.json, forecasts.csv and schedules/*.csv into a folder, and return the JSON document and
    the page's sections.

    `settings` and `warnings` come from reading the log; `command` is the command that creates an equal report; `title`
    and `preface` are shown at the top of the page.
    """
    files = {}
    for each in evaluation.outcomes:
        name = re.sub(r"[^\w.=+-]+", "_", f"{each.policy}.{each.predictor}") + ".csv"
        files[each.policy, each.predictor] = f"schedules/{name}"
        (directory / "schedules").mkdir(exist_ok=True)
        write_schedule(directory / "schedules" / name, each.schedule)
    scores, log = evaluation.scores, evaluation.trace
    scored, group = np.flatnonzero(scores.scored), burst_groups(log, evaluation.procs)
    points = {spec: said[scored] for spec, said in scores.points.items()}
    write_forecasts(directory / FORECASTS, Forecasts(log.job_id[scored], group[scored], log.run_time[scored], points))
    if evaluation.outcomes:  # a group is one user's submissions of one week; its number does not reveal the user
        schedule = evaluation.outcomes[0].schedule
        write_groups(directory / GROUPS, schedule.job_id, group[schedule.rows])
    rows = [first_screen(evaluation).row(), *evaluation.results()]
    for row in rows:
        if row["part"] == "schedule":
            row["schedule_file"] = files[row["policy"], row["predictor"]]
    result = document("evaluate", describe_log(log), settings, [*warnings, *evaluation.warnings()], rows)
    (directory / "result.json").write_text(dumps(result) + "\n", encoding="utf-8")
    page_sections = sections(evaluation, settings, preface)
    title = title or f"What predictions would change on {Path(log.info.source).name}"
    (directory / "index.html").write_text(page(title, page_sections, _provenance(result, command)), encoding="utf-8")
    return result, page_sections


def _provenance(result: dict[str, Any], command: str) -> dict[str, Any]:
    """Return everything that is needed to create the same page again, and the changes made to the log."""
    from datetime import UTC, datetime

    log, settings = result["log"], result["settings"]
    dropped = {rule: f"{count:,} records" for rule, count in log["dropped"].items()}
    chosen = {key: value for key, value in settings.items() if value not in (None, "", [])}
    machine = f"{log['machine_procs']:,.0f} processors, from {log['machine_procs_source']}"
    return {
        "Log": f"{log['source']} ({log['format']})",
        "SHA-256": log["sha256"] or "none: not read from a file",
        "Machine": machine if log["machine_procs"] > 0 else "size unknown",
        "Time zone": f"{log['timezone']} ({log['timezone_source']})",
        "Command": command,
        "Seed": str(settings["seed"]),
        "Made": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "Versions": versions(),
        "Settings": {k: ", ".join(map(str, v)) if isinstance(v, list) else v for k, v in chosen.items()},
        "Records left out": dropped or "none",
        "Notes": result["warnings"] or "none",
    }


def versions() -> str:
    """Return the versions of the software that computed the report."""
    from importlib.metadata import version
    from platform import python_version

    return ", ".join([f"Python {python_version()}", *(f"{n} {version(n)}" for n in ("batchcast", "numpy", "numba"))])
