# SPDX-License-Identifier: Apache-2.0
"""`batchcast wait`: predicts every job's queue wait at its submission, and scores the predictions.

With `--new`, it predicts the wait of one job that is not in the log.
"""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ..completion import specs
from ..grammar import TABLES_OR_JSON, option, page_option, table_options, verb
from ..options import Log, find_modules_here, log_options, predictor_options, take_log, workers_for, workers_option
from ..output import note, progress, say, show_new_job, show_tables, write_text
from ..periods import forecasts as forecasts_in_periods
from ..periods import in_periods_option, refuse_others

if TYPE_CHECKING:
    from ...evaluation.wait import WaitRun
    from ...machines.machine import Machine
    from ...report.blocks import Table


USUAL = "recent_wait"
"""The method of the default table. `forecast` is too slow for it: a replay takes a minute for 5,000 jobs, and two to
three minutes for 40,000 (docs/evidence/speed.md). The next step of the output suggests `forecast`."""
MANY_JOBS, LATEST = 40_000, 1_000
"""If the log has more than MANY_JOBS jobs, the next step suggests to score the LATEST jobs only."""


@verb("wait", json=TABLES_OR_JSON)
@log_options
@predictor_options
@option("--predictor NAMES", "Methods, NAME:key=value,..., or `all`.", shell_complete=specs("wait"), default=USUAL)
@option("--new JOB", "Predict one job that is not in LOG: procs=64,request=2h[,at=DATE,user=NAME,queue=NAME].")
@option("--places FIRST:LAST", "Score only these jobs, counted from 1 in log order; learn from all earlier jobs.")
@option("--quick-wait SPAN [1h]", "Longest wait of a quick starter: 30m, 10m,30m or 10m..60m (steps of 10 minutes).")
@option("--cancelled count|skip [count]", "Jobs withdrawn from the queue: count their wait, or skip them.")
@option(
    "--protocol own|honest|starts_first|paper [own]",
    "Order of events at one instant. own: the method's own order, which is honest for most methods.",
)
@option("--machine FILE", "Simulate Slurm on this machine (for scheduler_replay and forecast).")
@option("--against NAME", "Reference method for differences. Default: recent_wait, else the first.")
@option("--seed", "Random seed of the intervals.", type=int, default=0)
@page_option("Also write an HTML page with pictures.")
@in_periods_option
@workers_option
@table_options
def command(cancelled: str, protocol: str, **options: Any) -> None:
    """Predict the queue wait of every job of LOG at its submission, and score the predictions.

    LOG is SWF, a `sacct -P` dump, a PBS accounting log, CSV or Parquet: plain, .gz, .xz, or - for stdin. A prediction
    uses the queue, the running jobs, and the waits of jobs that have started. Waits through an outage, negative or
    unknown waits, and jobs larger than the machine are counted and not learned from.
    """
    from ...evaluation import wait as waits
    from ...evaluation.differences import WAIT, ResultRow, reference_of, wait_differences
    from ...predict.protocol import spec_words
    from ...predict.registry import check_installed, split_specs
    from ...processes import Task, under_bars
    from ...report.blocks import columns_of
    from ...report.difference import WAIT as WAITS
    from ...report.difference import difference_blocks, with_difference
    from ...report.tables import wait_table

    jobs, thresholds = options["places"], waits.parse_thresholds(options["quick_wait"])
    job_range = waits.parse_jobs(jobs) if jobs else None
    specs = split_specs(options["predictor"], "wait")
    find_modules_here(options)
    check_installed("wait", specs)
    clock = None if protocol == "own" else protocol
    if options["in_periods"] is not None:
        refuse_others({"protocol", "cancelled"})
        return forecasts_in_periods("wait", specs, {**options, "cancelled": cancelled}, clock)
    machine = _described(options["machine"], specs)
    if options["new"] is not None:
        return _answer_new(specs, cancelled, options, machine)
    log = take_log(options)
    trace = log.trace
    rows = waits.scored_rows(trace, job_range, cancelled)
    head = trace[: waits.last_needed(rows)]
    inside = rows[: len(head)]
    on = waits.RecordedClock(clock, log.procs, trace.info.max_procs, machine)
    replay = {"on": on, "cancelled": cancelled}

    def compare_group(group: list[str]) -> Callable[[Callable[[int], None]], list[tuple[float, WaitRun]]]:
        return lambda tick: waits.compare(trace, group, rows, thresholds, tick=tick, **replay)

    tasks = [
        Task(f"Predicting waits with {', '.join(map(spec_words, one))}", waits.last_needed(rows), compare_group(one))
        for one in waits.passes(specs)
    ]
    bars = under_bars("Forecasting waits", tasks, workers_for(options["workers"], len(trace)), progress)
    done = sorted((run for runs in bars for run in runs), key=lambda run: specs.index(run[1].predictor))
    first = {spec: next(run for _, run in done if run.predictor == spec) for spec in specs}
    points = {spec: run.forecasts.points for spec, run in first.items()}
    scores = {spec: waits.crps(run, head) for spec, run in first.items()}
    search = {spec: max(run.search_s for _, run in done if run.predictor == spec) for spec in specs}
    results = [waits.figures(run, head, inside, threshold) for threshold, run in done]
    reference, seed = reference_of(specs, options["against"], WAIT), options["seed"]
    waits.add_identified_at_marks(results, done, head, inside)
    found = wait_differences(trace, points, rows, reference, crps=scores, procs=log.procs, seed=seed)
    results = [ResultRow(row, found[row["predictor"]]) for row in results]
    notes = [
        f"{count:,} {'job is' if count == 1 else 'jobs are'} not learned from: {why}"
        for why, count in waits.irregular_waits(trace, log.procs).items()
        if count
    ]
    if job_range and jobs and not jobs.endswith(":") and job_range[1] > len(trace):
        notes.append(f"--places {jobs}: the log ends at job {len(trace)}, so {job_range[0]}:{len(trace)} are scored")
    costs = {spec: cost for spec, cost in search.items() if cost}
    settings = {
        **log.settings, "predictor": specs, "jobs": jobs, "quick_s": thresholds, "cancelled": cancelled,
        "protocol": protocol, "machine": options["machine"], "against": reference, "seed": seed, "search_s": costs,
    }  # fmt: skip
    remarks = [run.remark for run in first.values()]
    title = f"Wait predictions · {'all jobs' if jobs is None else f'jobs {jobs}'} · {trace.info.source}"
    if options["page"] is not None:
        _write_page(options["page"], log, wait_table(results, title, remarks), done, inside, thresholds[0], settings)
    if options["as_json"]:
        wait = waits.recorded_wait(trace)
        shares = {f"quick_share_{round(q)}s": float((wait[wait == wait] <= q).mean()) for q in thresholds}
        return log.emit("wait", settings, results, notes, **shares)
    searches = [f"{spec}: {cost:.1f} s to find settings beforehand, on the first jobs." for spec, cost in costs.items()]
    note(*notes)
    once = list({row["predictor"]: row for row in results}.values())
    # one line per predictor, because only hidden columns depend on the definition of a quick starter
    shown = results if options["details"] else once
    table = with_difference(wait_table(shown, title, remarks), shown, WAITS)
    explained = difference_blocks(once, WAITS, columns_of("predictor"))
    following = _next_step(len(trace), specs)
    show_tables([table, *searches], options["details"], explained, headline=_best(once), next_step=following)


def _best(rows: Sequence[dict[str, Any]]) -> str:
    """Return the sentence that names the method of the smallest mean error, with the coverage of its intervals."""
    from ...report.blocks import as_text

    key = "mean_abs_error_s"
    best = min((row for row in rows if row[key] == row[key]), key=lambda row: row[key], default=None)
    if best is None:
        return ""
    covered = best.get("interval_80", math.nan)
    intervals = f"; its 80 % intervals cover {as_text(covered, 'share')} of the waits" if covered == covered else ""
    who, error = best["predictor"], as_text(best[key], "seconds")
    if len(rows) == 1:
        return f"The waits that {who} predicts have a mean error of {error}{intervals}."
    return f"{who} has the smallest mean error of predicted waits: {error}{intervals}."


def _next_step(jobs: int, specs: Sequence[str]) -> str:
    """Return the suggested next step: score `forecast`, which takes minutes; if `forecast` is scored, write the page of
    pictures.
    """
    if any(spec.split(":")[0] == "forecast" for spec in specs):
        return "add -o waits.html to see the errors by predicted wait, partition and size"
    part = f" --places {jobs - LATEST + 1}:{jobs}" if jobs > MANY_JOBS else ""
    return f"add --predictor recent_wait,forecast{part} to score the method that answers users (minutes)"


def _write_page(
    page: Path, log: Log, table: Table, runs: list[Any], rows: Any, threshold: float, settings: dict[str, Any]
) -> None:
    """Write the page: pictures of every predictor at the first threshold, over the scored jobs."""
    from ...evaluation.wait import recorded_wait, scored_groups
    from ...report.blocks import page as make_page
    from ...report.wait_page import wait_sections
    from ...trace.select import describe_log
    from ...version import __version__

    head = log.trace[: len(rows)]
    methods = [run.take(rows) for at, run in runs if at == threshold]
    wait, groups = recorded_wait(head)[rows], scored_groups(head, rows, log.procs)
    made_by = {
        "Log": head.info.source,
        "SHA-256": describe_log(log.trace)["sha256"] or "none: not read from a file",
        "Command": shlex.join(["batchcast", *sys.argv[1:]]),
        "batchcast": __version__,
        "Settings": settings,
    }
    sections = wait_sections(table, methods, wait, groups, threshold)
    write_text(page, make_page(f"How well are waits predicted? {Path(head.info.source).name}", sections, made_by))
    say(f"page: {page}")


def _described(path: str | None, specs: list[str]) -> Machine | None:
    """Return the machine of --machine, if one of the predictors uses it."""
    from ...predict.registry import parse_spec, takes
    from ...trace.machine_files import open_machine

    if path is None:
        return None
    if not any(takes("wait", parse_spec(spec)[0], "machine") for spec in specs):
        raise UsageError("--machine: none of these predictors uses a machine",
                         hint="--predictor forecast,scheduler_replay")  # fmt: skip
    return open_machine(path)


def _answer_new(specs: list[str], cancelled: str, options: dict[str, Any], machine: Machine | None) -> None:
    """Print every predictor's wait of one new job, learned from the whole log up to its submission."""
    import numpy as np

    from ...evaluation.new_jobs import instant, parse_new, with_new_jobs
    from ...evaluation.wait import RecordedClock, run_wait

    job = parse_new(options["new"])
    log = take_log(options)
    trace, at = log.trace, instant(log.trace, job.at)
    asked = {"req_procs": job.procs, "req_time": job.request, **job.columns}
    whole, (place,) = with_new_jobs(trace, [asked], float(trace.submit_time[-1]) if at is None else at)
    ask = np.arange(len(whole)) == place
    rows = []
    for spec in specs:
        on = RecordedClock(total=trace.info.max_procs, machine=machine)
        run = run_wait(whole, spec, ask, on=on, cancelled=cancelled)
        said = run.forecasts
        bound, level = (float(said.quantiles[place, -1]), said.levels[-1]) if said.levels else (math.nan, math.nan)
        rows.append({"predictor": spec, "protocol": run.protocol, "submit_s": float(whole.submit_time[place]),
                     "wait_s": float(said.points[place]), "bound_s": bound, "level": float(level),
                     "basis": said.basis[place]})  # fmt: skip
    settings = {"predictor": specs, "new": options["new"], "cancelled": cancelled}
    show_new_job("wait", log, job, settings, ("wait_s", "wait"), rows, options["as_json"])
