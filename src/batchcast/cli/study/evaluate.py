# SPDX-License-Identifier: Apache-2.0
"""`batchcast evaluate`, `batchcast demo` and `batchcast compare A B`.

`evaluate` runs on a log and `demo` on the bundled one; both print tables and write a folder with page, figures and
schedules. `compare` compares two such reports.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import UsageError
from ...units import counted
from ..grammar import output_option, page_option, verb
from ..options import (
    Log,
    log_options,
    predictor_options,
    score_options,
    take_log,
    take_score,
    workers_for,
    workers_option,
)
from ..output import console, document, echo, emit, progress, say, show_tables, write_text
from ..schedule_options import Plan, node_options, plan_options, settle, take_nodes, take_plan

if TYPE_CHECKING:
    import numpy as np

    from ...evaluation.comparison import Comparison
    from ...machines.machine import Machine


@verb("evaluate")
@log_options
@predictor_options
@score_options
@output_option("Folder of the report.", default="report", show_default=True, metavar="FOLDER")
@plan_options("kernel,last_2,recent_mean", "easy,easy-sjbf,forecast")
@node_options
@click.option("--against", metavar="NAME", help="Reference for differences. Default: recent_mean.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the methods.")
@workers_option
@click.option("--details", is_flag=True, help="Print every table and sentence of the report.")
@click.option("--json", "as_json", is_flag=True, help="Print result.json instead of tables.")
def command(**given: Any) -> None:
    """Report on LOG: unused core-hours, prediction errors, and how much sooner jobs would start.

    Writes FOLDER/index.html (one self-contained page), FOLDER/result.json and FOLDER/schedules/*.csv. LOG is SWF, a
    `sacct -P` dump, a PBS accounting log, CSV or Parquet: plain, .gz, .xz, or - for stdin.

    \b
    batchcast evaluate log.swf.gz -o report/
    batchcast evaluate jobs.psv --machine machine.toml -o report/

    Policies are fcfs, easy, easy-sjbf, conservative, forecast and your own MODULE:CLASS. Predictors and policies take
    settings: NAME:key=value,key=value. An unknown name lists what is accepted.
    """
    evaluate_log(click.get_current_context(), given)


def evaluate_log(call: click.Context, given: dict[str, Any], title: str | None = None, preface: str = "") -> None:
    """Evaluate the log that the command line names, and write the report; `title` and `preface` head the page."""
    named = call.get_parameter_source("policies") is click.core.ParameterSource.COMMANDLINE
    free = given["scheduler"] is None and given["machine"] is None and not named
    scheduler, machine = take_nodes(given)
    plan, chosen = take_plan(given)
    log = take_log(given)
    machine, log, mask = settle(machine, log, take_score(given, log))
    nodes = "auto" if free else scheduler, machine
    log.settings.update(chosen, scheduler=nodes[0])
    run(log, mask, plan, given, title, preface or log.settings.get("learned", ""), nodes)


def run(
    log: Log,
    mask: np.ndarray,
    plan: Plan,
    given: dict[str, Any],
    title: str | None = None,
    preface: str = "",
    nodes: tuple[str, Machine | None] = ("policy", None),
) -> None:
    """Evaluate a log by a plan and write the report; `title` and `preface` head the page.

    `nodes` is the described scheduler and machine. With `--details` on a terminal, the log's properties that need no
    computation are printed first.
    """
    from ...evaluation.evaluation import evaluate
    from ...report.evaluation.answer import answer
    from ...report.evaluation.record import record_blocks
    from ...report.evaluation.written import fill
    from ...report.terminal import WIDEST, show
    from ...trace.whole_file import folder

    settings = {**log.settings, "against": given.get("against"), "seed": given["seed"]}
    command = shlex.join(["batchcast", *sys.argv[1:]])
    out = console()
    with folder(given["output"]) as output_folder:
        is_early = given["details"] and not given["as_json"] and out.is_terminal
        early = record_blocks(log.trace, mask, log.procs) if is_early else []
        show(out, early)
        evaluation = evaluate(
            log.trace,
            predictor=plan.predictors,
            policy=plan.policies,
            partitions=plan.partitions,
            scheduler=nodes[0],
            machine=nodes[1],
            **plan.clocks,
            against=given.get("against"),
            seed=given["seed"],
            workers=workers_for(given.get("workers"), len(log.trace)),
            mask=mask,
            procs=log.procs,
            learn=nodes[0] == "auto",
            waits=True,
            progress=progress,
        )
        text, sections = fill(output_folder, evaluation, settings, log.warnings, command, title, preface)
    if given["as_json"]:
        emit(text)
        return
    if given["details"]:
        for section in sections:
            show(out, [block for block in section.blocks if block not in early])
    else:
        show(out, answer(evaluation), width=WIDEST)
    more = "" if given["details"] else ". --details prints every table."
    out.print(f"\nReport: {Path(given['output']) / 'index.html'}{more}", markup=False, soft_wrap=True)


@verb("demo")
@output_option("Folder of the report.", default="demo-report", show_default=True, metavar="FOLDER")
@click.option("--details", is_flag=True, help="Print every table and sentence of the report.")
@click.option("--json", "as_json", is_flag=True, help="Print result.json instead of tables.")
def demo(output: str, details: bool, as_json: bool) -> None:
    """Evaluate a synthetic log that comes with batchcast: `evaluate` on the file that `batchcast.demo_path()` names.

    The log has 5,000 jobs of 60 invented users on 256 processors.
    """
    from ...trace.demo import demo_path

    say("note: the log is synthetic; your own: batchcast evaluate LOG -o report/")
    words = [str(demo_path()), "-o", output, *(["--details"] * details), *(["--json"] * as_json)]
    call = command.make_context("evaluate", words, parent=click.get_current_context())
    evaluate_log(call, call.params, "Demo on a synthetic log: what predictions would change", SYNTHETIC)


SYNTHETIC = (
    "The log is synthetic: its users are invented, and its recorded waits come from the same simulation of EASY "
    "backfilling, so recorded and simulated waits agree by construction."
)


LEVEL = 0.9


@verb("compare")
@click.argument("a", type=click.Path(), metavar="A")
@click.argument("b", type=click.Path(), metavar="B")
@click.option(
    "--log", type=click.Path(path_type=Path), metavar="LOG", help="For two schedules: the log that names their users."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed of the bootstrap.")
@click.option(
    "--resamples",
    type=click.IntRange(100, 100_000),
    default=1000,
    show_default=True,
    help="Number of bootstrap samples.",
)
@page_option("Also write an HTML page with pictures.")
@click.option("--details", is_flag=True, help="For two reports: print every measure of A and B.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def compare(
    a: str, b: str, log: Path | None, seed: int, resamples: int, page: Path | None, details: bool, as_json: bool
) -> None:
    """Compare two reports of `evaluate` (folders, or their result.json), or two schedules (CSV).

    Two reports: prints whether they are comparable, which settings differ, and what changed from A to B for each
    predictor and schedule. Differences have a 90 % interval if both folders have forecasts.csv and schedules/*.csv; the
    interval resamples groups of one user's submissions of one week. Two schedules (`simulate -o`, Batsim's jobs.csv, or
    any CSV with job_id and start_time): prints how many jobs start at the same instant, the first job that does not,
    and differences of means.

    \b
    batchcast compare report/ report-new/
    batchcast compare report/ report-new/ -o changes.html
    batchcast compare ours.csv theirs_jobs.csv --log LOG
    """
    from ...trace.schedule import is_schedule

    schedules = is_schedule(a) and is_schedule(b)
    if is_schedule(a) != is_schedule(b):
        raise UsageError(f"{a} and {b}: a schedule and a report (accepted: two schedules, .csv, .csv.gz or .csv.xz;"
                         " or two reports of evaluate)")  # fmt: skip
    if log is not None and not schedules:
        raise UsageError("--log names the users of two schedules (CSV); reports hold their own groups")
    if schedules and page is not None:
        raise UsageError("-o writes a page of two reports of evaluate; two schedules are printed", hint="--json")
    if schedules:
        _starts(a, b, log, {"seed": seed, "level": LEVEL, "resamples": resamples}, as_json)
        return
    from ...evaluation.comparison import Report, compare
    from ...report.comparison import comparison_blocks
    from ...results.comparison import schedules_in
    from ...trace.schedule import FORECASTS, read_forecasts, read_result

    (ours, place_a), (theirs, place_b) = read_result(a), read_result(b)
    one, other = (
        Report(doc, schedules_in(place), read_forecasts(place / FORECASTS))
        for doc, place in ((ours, place_a), (theirs, place_b))
    )
    comparison = compare(one, other, seed=seed, resamples=resamples)
    if page is not None:
        _write_page(page, comparison, (ours, theirs), {"seed": seed, "resamples": resamples})
    settings = {"a": a, "b": b, "seed": seed, "resamples": resamples, "level": LEVEL}
    if as_json:
        warnings = [f"the two are not comparable: {reason}" for reason in comparison.unlike] + list(comparison.only)
        emit(document("compare", {"a": ours["log"], "b": theirs["log"]}, settings, warnings, comparison.rows))
        return
    out = console()
    for side, path, doc in (("A", a, ours), ("B", b, theirs)):
        out.print(f"{side}: {path}, {_log(doc['log'])}", markup=False, soft_wrap=True)
    out.print(f"seed {seed}, {resamples} resamples", markup=False)
    show_tables(comparison_blocks(comparison, LEVEL), details)


def _starts(a: str, b: str, path: Path | None, settings: dict[str, Any], as_json: bool) -> None:
    """Compare two schedules."""
    from ...evaluation.comparison import compare_starts, signed_time
    from ...results.comparison import users_of
    from ...trace.read import read_trace
    from ...trace.schedule import read_starts
    from ...units import span
    from ..output import print_columns

    user = None if path is None else users_of(read_trace(path))
    shared, rows = compare_starts(read_starts(a), read_starts(b), user, **settings)
    if as_json:
        emit(
            document(
                "compare", {"a": a, "b": b}, {"a": a, "b": b, **settings}, [], [{"part": "starts", **shared}, *rows]
            )
        )
        return
    echo(
        f"A: {a}\nB: {b}\n{counted(shared['jobs'])} in both; only in A {shared['only_a']:,}, in B {shared['only_b']:,}"
    )
    apart = f"; the first that does not: {shared['first_apart']}" if shared["first_apart"] else ""
    echo(f"{shared['same_start']:,} start at the same instant{apart}\n")
    if shared["clock_b_behind_s"]:
        say(
            f"note: every job was submitted {shared['clock_b_behind_s']:g} s later in A;"
            " the times of B are shifted by this difference"
        )
    if shared["other_job_in_b"]:
        of = f"{shared['other_job_in_b']:,} of {counted(shared['jobs'])} in both"
        say(f"warning: {of}: another submission or size in B. Are these schedules of one log?")
    for side in "ab":
        if count := shared[f"before_submission_{side}"]:
            say(f"note: {counted(count)} of {side.upper()} started before being submitted")
    lines = [["MEAN", "A", "B", "B - A", f"{LEVEL:.0%} INTERVAL"]]
    for row in rows:
        times = row["measure"] != "bounded_slowdown"
        plain, signed = (span, signed_time) if times else ("{:.2f}".format, "{:+.2f}".format)
        held = "-" if row["low"] != row["low"] else f"{signed(row['low'])} to {signed(row['high'])}"
        lines.append(
            [row["measure"].replace("_", " "), plain(row["a"]), plain(row["b"]), signed(row["difference"]), held]
        )
    print_columns(lines, left=1)
    echo(f"seed {settings['seed']}, {settings['resamples']} resamples of {rows[0]['groups']} groups")


def _write_page(
    page: Path, comparison: Comparison, documents: tuple[dict[str, Any], dict[str, Any]], drawn: dict[str, int]
) -> None:
    """Write the page: the verdict in figures, changes with intervals, differences of distributions."""
    import shlex
    import sys

    from ...report.blocks import page as make_page
    from ...report.comparison import comparison_sections
    from ...report.evaluation.written import versions

    made_by: dict[str, Any] = {"Command": shlex.join(["batchcast", *sys.argv[1:]]), "Versions": versions(), **drawn}
    for side, doc in zip("AB", documents):
        made_by[side] = _log(doc["log"])
        made_by[f"SHA-256 of {side}"] = doc["log"].get("sha256") or "none: not read from a file"
        made_by[f"Settings of {side}"] = {k: v for k, v in doc["settings"].items() if v not in (None, "", [])}
    names = [Path(str(doc["log"].get("source"))).name for doc in documents]
    title = f"What changed: {' and '.join(dict.fromkeys(names))}"
    write_text(page, make_page(title, comparison_sections(comparison, LEVEL), made_by))
    say(f"page: {page}")


def _log(log: Mapping[str, Any]) -> str:
    jobs = log.get("jobs")
    count = f"{jobs:,}" if isinstance(jobs, int) else "an unknown number of"
    return (
        f"{Path(str(log.get('source'))).name}, {count} jobs from {log.get('first_submit')} to {log.get('last_submit')}"
    )
