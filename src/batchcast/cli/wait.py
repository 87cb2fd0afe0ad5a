"""`batchcast wait`: predict queue waits on the recorded clock and score them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .complete import specs
from .in_periods import forecasts as forecasts_in_periods
from .in_periods import in_periods_option, refuse_others
from .options import Log, describe_log, log_options, predictor_options, take_log
from .output import console, document, emit, progress, say, write_text

if TYPE_CHECKING:
    from ..cluster.machine import Machine
    from ..report.blocks import Table


@click.command("wait")
@log_options
@predictor_options
@click.option(
    "--predictor",
    "predictors",
    shell_complete=specs("wait"),
    default="recent_wait,log_uniform,qbets,ibl,pqstar",
    show_default=True,
    metavar="NAMES",
    help="Methods, NAME:key=value,key=value; `all` for every one.",
)
@click.option(
    "--new",
    metavar="JOB",
    help="The wait of one job not in LOG, by every method: procs=64,request=2h[,at=DATE,user=NAME,queue=NAME].",
)
@click.option("--jobs", metavar="FIRST:LAST", help="Score these places of the log, from 1; history is all before.")
@click.option(
    "--quick",
    default="1h",
    show_default=True,
    metavar="SPAN",
    help="A quick starter waits at most this: 30m, 10m,30m or 10m..60m (steps of 10 minutes).",
)
@click.option(
    "--cancelled",
    type=click.Choice(["count", "skip"]),
    default="count",
    show_default=True,
    help="Jobs that left the queue without running: waited that long, or neither learned from nor scored.",
)
@click.option(
    "--protocol",
    type=click.Choice(["own", "honest", "starts_first", "paper"]),
    default="own",
    show_default=True,
    help="The recorded clock. own: starts_first for pqstar, as in its paper; honest for the others.",
)
@click.option(
    "--machine",
    type=click.Path(),
    metavar="FILE",
    help="For scheduler_replay and forecast: Slurm's two loops on this machine.",
)
@click.option("--against", metavar="NAME", help="Compare with this method. Default recent_wait, else the first.")
@click.option("--seed", type=int, default=0, show_default=True, help="For the intervals' draws.")
@click.option("--page", type=click.Path(path_type=Path), metavar="FILE", help="Also write a page with pictures here.")
@in_periods_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(
    predictors: str,
    new: str | None,
    jobs: str | None,
    quick: str,
    cancelled: str,
    protocol: str,
    machine: str | None,
    against: str | None,
    seed: int,
    page: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Predict the wait of every job at its submission, replaying LOG as it happened, and score the forecasts.

    LOG is SWF, a `sacct -X -P` dump, a PBS accounting log, CSV or Parquet; plain, .gz, .xz, or - for stdin. A
    forecast knows the queue, the running jobs, and the waits of jobs that have started; of those still queued only
    that they wait. Waits that an outage, a negative or unknown record or a job larger than the machine would spoil are
    counted and not learned from.
    """
    from ..evaluation.differences import WAIT, reference_of, wait_differences
    from ..evaluation.wait import (
        at_pqstars_share,
        compare,
        crps,
        figures,
        irregular_waits,
        last_needed,
        parse_jobs,
        parse_thresholds,
        recorded_wait,
        scored_rows,
    )
    from ..predict.registry import load, parse_spec, split_specs
    from ..report.blocks import TableColumn
    from ..report.difference import WAIT as WAITS
    from ..report.difference import difference_blocks
    from ..report.terminal import show
    from ..report.waits import wait_table

    thresholds, places = parse_thresholds(quick), parse_jobs(jobs) if jobs else None
    specs = split_specs(predictors, "wait")
    for spec in specs:
        load("wait", parse_spec(spec)[0])
    if given["in_periods"] is not None:
        refuse_others({"protocol", "cancelled"})
        clock = None if protocol == "own" else protocol
        return forecasts_in_periods("wait", specs, {**given, "cancelled": cancelled, "as_json": as_json}, clock)
    del given["in_periods"]
    described = _described(machine, specs)
    if new is not None:
        _answer_new(new, specs, cancelled, as_json, given, described)
        return
    log = take_log(given)
    trace = log.trace
    rows = scored_rows(trace, places, cancelled)
    size = trace.info.max_procs
    results: list[dict[str, Any]] = []
    search: dict[str, float] = {}
    points: dict[str, Any] = {}
    scores: dict[str, Any] = {}
    done: list[Any] = []
    head = trace.take(_head(rows))
    with progress("predicting waits", len(specs) * last_needed(rows)) as tick:
        for k, spec in enumerate(specs):
            runs = compare(
                trace,
                [spec],
                rows,
                thresholds,
                protocol=None if protocol == "own" else protocol,
                cancelled=cancelled,
                procs=log.procs,
                total=size,
                machine=described,
                tick=lambda done, k=k: tick(k * last_needed(rows) + done),
            )
            points[spec] = runs[0][1].forecasts.points
            scores[spec] = crps(runs[0][1], head)
            done += runs
            results += [figures(run, head, rows[: len(head)], threshold) for threshold, run in runs]
            search[spec] = max(run.search_s for _, run in runs)
            tick((k + 1) * last_needed(rows))
    reference = reference_of(specs, against, WAIT)
    at_pqstars_share(results, done, head, rows[: len(head)])
    keys = wait_differences(trace, points, rows, reference, crps=scores, procs=log.procs, seed=seed)
    results = [{**row, **keys[row["predictor"]]} for row in results]
    irregular = {why: count for why, count in irregular_waits(trace, log.procs).items() if count}
    warnings = [
        *log.warnings,
        *(
            f"{count:,} {'job teaches' if count == 1 else 'jobs teach'} nothing: {why}"
            for why, count in irregular.items()
        ),
    ]
    if places and jobs and not jobs.endswith(":") and places[1] > len(trace):
        warnings.append(f"--jobs {jobs}: the log ends at its job {len(trace)}, so {places[0]}:{len(trace)} are scored")
    settings = {
        **log.settings,
        "predictor": specs,
        "jobs": jobs,
        "quick_s": thresholds,
        "cancelled": cancelled,
        "protocol": protocol,
        "machine": machine,
        "against": reference,
        "seed": seed,
        "search_s": {spec: cost for spec, cost in search.items() if cost},
    }
    title = f"Wait forecasts · {'all jobs' if jobs is None else f'jobs {jobs}'} · {trace.info.source}"
    if page is not None:
        _write_page(page, log, wait_table(results, title), done, rows[: len(head)], thresholds[0], settings)
    wait = recorded_wait(trace)
    shares = {f"quick_share_{round(q)}s": float((wait[wait == wait] <= q).mean()) for q in thresholds}
    if as_json:
        emit(document("wait", describe_log(trace) | shares, settings, warnings, results))
        return
    costs = [f"{spec}: {cost:.1f} s of searching settings beforehand, on the first jobs." for spec, cost in
             settings["search_s"].items()]  # fmt: skip
    once = list({row["predictor"]: row for row in results}.values())
    real = difference_blocks(once, WAITS, [TableColumn("predictor", "predictor")])
    show(console(), [wait_table(results, title), *real, *costs, *(f"note: {w}" for w in warnings[len(log.warnings) :])])


def _write_page(
    page: Path, log: Log, table: Table, runs: list[Any], rows: Any, threshold: float, settings: dict[str, Any]
) -> None:
    """The page: pictures of every method at the first threshold, over the scored jobs."""
    import shlex
    import sys

    from .. import __version__
    from ..evaluation.wait import recorded_wait, scored_groups, taken
    from ..report.html import page as make_page
    from ..report.wait_page import Outcome, Scored, wait_sections

    head = log.trace.take(_head(rows))
    methods = [
        Scored(run.predictor, taken(run.forecasts, rows), None if run.chances is None else run.chances[rows])
        for at, run in runs
        if at == threshold
    ]
    outcome = Outcome(recorded_wait(head)[rows], scored_groups(head, rows, log.procs))
    made_by = {
        "Log": head.info.source,
        "SHA-256": describe_log(log.trace)["sha256"] or "none: not read from a file",
        "Command": shlex.join(["batchcast", *sys.argv[1:]]),
        "batchcast": __version__,
        "Settings": settings,
    }
    sections = wait_sections(table, methods, outcome, threshold)
    write_text(page, make_page(f"How well are waits forecast? {Path(head.info.source).name}", sections, made_by))
    say(f"page: {page}")


def _described(path: str | None, specs: list[str]) -> Machine | None:
    """The machine of --machine, where a method takes one."""
    from ..errors import UsageError
    from ..predict.registry import parse_spec, takes
    from ..trace.slurm_machine import open_machine

    if path is None:
        return None
    if not any(takes("wait", parse_spec(spec)[0], "machine") for spec in specs):
        raise UsageError("--machine: no method here takes a machine", hint="--predictor forecast,scheduler_replay")
    return open_machine(path)


def _answer_new(
    new: str, specs: list[str], cancelled: str, as_json: bool, given: dict[str, Any], described: Machine | None
) -> None:
    """One new job's wait by every method, history the whole log up to its submission."""
    from ..report.blocks import Table, TableColumn
    from ..report.terminal import show
    from .wait_new import forecasts, parse_new

    job = parse_new(new)
    log = take_log(given)
    rows = forecasts(log.trace, job, specs, log.trace.info.max_procs, cancelled, described)
    if as_json:
        settings = {**log.settings, "predictor": specs, "new": new, "cancelled": cancelled}
        emit(document("wait-new", describe_log(log.trace), settings, log.warnings, rows))
        return
    columns = [
        TableColumn("predictor", "predictor"), TableColumn("wait_s", "wait", "seconds"),
        TableColumn("bound_s", "bound", "seconds"), TableColumn("level", "level", "share"),
        TableColumn("basis", "from"),
    ]  # fmt: skip
    title = f"A new job of {job.procs:g} processors for at most {job.request:g} s · {log.trace.info.source}"
    show(console(), [Table(title, columns, rows), *(f"note: {w}" for w in log.warnings)])


def _head(rows: Any) -> Any:
    from numpy import arange, flatnonzero

    return arange(int(flatnonzero(rows)[-1]) + 1)
