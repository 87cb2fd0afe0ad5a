# SPDX-License-Identifier: Apache-2.0
"""`batchcast evaluate`, `batchcast demo` and `batchcast compare A B`.

`evaluate` runs on a log and `demo` on the bundled one; both print tables and write a folder with page, figures and
schedules. `compare` compares two such reports.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import UsageError
from ...units import counted, span
from ..grammar import TABLES_OR_JSON, option, output_option, page_option, typed_options, verb
from ..options import log_options, predictor_options, score_options, take_log, take_score, workers_for, workers_option
from ..output import console, document, echo, emit, print_columns, progress, say, show_tables, write_text
from ..schedule_options import node_options, plan_options, settle, take_nodes, take_plan

if TYPE_CHECKING:
    from ...evaluation.comparison import Comparison


@verb("evaluate", json="Print result.json instead of tables.")
@log_options
@predictor_options
@score_options
@output_option("Folder of the report.", default="report", show_default=True, metavar="FOLDER")
@plan_options("kernel,last_2,recent_mean", "easy,easy-sjbf,forecast")
@node_options
@option("--against NAME", "Reference for differences. Default: recent_mean.")
@option("--seed", "Random seed of the methods.", type=int, default=0)
@workers_option
@option("--details", "Print every table and sentence of the report.")
def command(**options: Any) -> None:
    """Report on LOG: unused core-hours, prediction errors, and how much sooner jobs would start.

    Writes FOLDER/index.html (one self-contained page), FOLDER/result.json and FOLDER/schedules/*.csv. LOG is SWF, a
    `sacct -P` dump, a PBS accounting log, CSV or Parquet: plain, .gz, .xz, or - for stdin.

    \b
    batchcast evaluate log.swf.gz -o report/
    batchcast evaluate jobs.psv --machine machine.toml -o report/

    Policies are fcfs, easy, easy-sjbf, conservative, forecast and your own MODULE:CLASS. Predictors and policies take
    settings: NAME:key=value,key=value. An unknown name lists what is accepted.
    """
    evaluate_log(click.get_current_context(), options)


def evaluate_log(call: click.Context, options: dict[str, Any], title: str | None = None, preface: str = "") -> None:
    """Evaluate the log that the command line names, and write the report; `title` and `preface` head the page.

    With `--details` on a terminal, the log's properties that need no computation are printed first.
    """
    given = {"policies", "no_kill"} & typed_options(call).keys()
    free = options["scheduler"] is None and options["machine"] is None and not given
    scheduler, machine = take_nodes(options)
    plan, chosen = take_plan(options)
    log = take_log(options)
    machine, log, mask = settle(machine, log, take_score(options, log))
    scheduler = "auto" if free else scheduler
    log.settings.update(chosen, scheduler=scheduler)
    from ...evaluation.evaluation import evaluate
    from ...report.evaluation.first_screen import answer
    from ...report.evaluation.page import fill, record_blocks
    from ...report.terminal import WIDEST, show
    from ...trace.whole_file import folder

    compared = {"against": options["against"], "seed": options["seed"]}
    out = console()
    with folder(options["output"]) as output_folder:
        is_early = options["details"] and not options["as_json"] and out.is_terminal
        early = record_blocks(log.trace, mask, log.procs) if is_early else []
        show(out, early)
        run: dict[str, Any] = {"workers": workers_for(options["workers"], len(log.trace)), "progress": progress}
        run |= {"scheduler": scheduler, "machine": machine, "learn": scheduler == "auto", "waits": True}
        run |= {"partitions": plan.partitions, **replace(plan.setup, procs=log.procs).shared(), **compared}
        run |= {"policy": plan.policies} if scheduler == "policy" else {}
        evaluation = evaluate(log.trace, plan.predictors, mask=mask, **run)
        command = shlex.join(["batchcast", *sys.argv[1:]])
        text, sections = fill(output_folder, evaluation, {**log.settings, **compared}, log.warnings, command, title,
                              preface or log.settings.get("learned", ""))  # fmt: skip
    if options["as_json"]:
        return emit(text)
    if options["details"]:
        for section in sections:
            show(out, [block for block in section.blocks if block not in early])
    else:
        show(out, answer(evaluation), width=WIDEST)
    more = "" if options["details"] else ". --details prints every table."
    out.print(f"\nReport: {Path(options['output']) / 'index.html'}{more}", markup=False, soft_wrap=True)


@verb("demo", json="Print result.json instead of tables.")
@output_option("Folder of the report.", default="demo-report", show_default=True, metavar="FOLDER")
@option("--details", "Print every table and sentence of the report.")
def demo(output: str, details: bool, as_json: bool) -> None:
    """Evaluate a synthetic log that comes with batchcast: `evaluate` on the file that `batchcast.demo_path()` names.

    The log has 5,000 jobs of 60 invented users on 256 processors.
    """
    from ...trace.source import demo_path

    say("note: the log is synthetic; your own: batchcast evaluate LOG -o report/")
    words = [str(demo_path()), "-o", output, *(["--details"] * details), *(["--json"] * as_json)]
    call = command.make_context("evaluate", words, parent=click.get_current_context())
    evaluate_log(call, call.params, "Demo on a synthetic log: what predictions would change", SYNTHETIC)


SYNTHETIC = (
    "The log is synthetic: its users are invented, and its recorded waits come from the same simulation of EASY "
    "backfilling, so recorded and simulated waits agree by construction."
)


LEVEL = 0.9


@verb("compare", json=TABLES_OR_JSON)
@click.argument("a", type=click.Path(), metavar="A")
@click.argument("b", type=click.Path(), metavar="B")
@option("--log LOG", "For two schedules: the log that names their users.", type=click.Path(path_type=Path))
@option("--seed", "Random seed of the bootstrap.", type=click.IntRange(min=0), default=0)
@option("--resamples", "Number of bootstrap samples.", type=click.IntRange(100, 100_000), default=1000)  # fmt: skip
@page_option("Also write an HTML page with pictures.")
@option("--details", "For two reports: print every measure of A and B.")
def compare(a: str, b: str, log: Path | None, page: Path | None, details: bool, as_json: bool, **drawn: int) -> None:
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
        return _starts(a, b, log, drawn, as_json)
    from ...evaluation.comparison import compare
    from ...report.comparison import comparison_blocks
    from ...results.comparison import whole_report

    ours, theirs = whole_report(a), whole_report(b)
    comparison = compare(ours, theirs, **drawn)
    documents = ours.document, theirs.document
    if page is not None:
        _write_page(page, comparison, documents, drawn)
    if as_json:
        warnings = [f"the two are not comparable: {reason}" for reason in comparison.unlike] + list(comparison.only)
        logs, settings = (dict(zip("ab", pair)) for pair in ([doc["log"] for doc in documents], (a, b)))
        return emit(document("compare", logs, {**settings, **drawn, "level": LEVEL}, warnings, comparison.rows))
    for side, path, doc in zip("AB", (a, b), documents):
        echo(f"{side}: {path}, {_log(doc['log'])}")
    echo(f"seed {drawn['seed']}, {drawn['resamples']} resamples")
    show_tables(comparison_blocks(comparison, LEVEL), details)


def _starts(a: str, b: str, path: Path | None, drawn: dict[str, int], as_json: bool) -> None:
    """Compare two schedules."""
    from ...evaluation.comparison import signed_time
    from ...results.comparison import compare
    from ...trace.read import read_trace

    found: Any = compare(a, b, log=None if path is None else read_trace(path), **drawn)
    shared, rows = found.shared, found.rows
    if as_json:
        sides = {"a": a, "b": b}
        settings = {**sides, "seed": drawn["seed"], "level": LEVEL, "resamples": drawn["resamples"]}
        return emit(document("compare", sides, settings, [], [{"part": "starts", **shared}, *rows]))
    both = f"{counted(shared['jobs'])} in both; only in A {shared['only_a']:,}, in B {shared['only_b']:,}"
    apart = f"; the first that does not: {shared['first_apart']}" if shared["first_apart"] else ""
    echo(f"A: {a}\nB: {b}\n{both}\n{shared['same_start']:,} start at the same instant{apart}\n")
    if shared["clock_b_behind_s"]:
        say(f"note: every job was submitted {shared['clock_b_behind_s']:g} s later in A;"
            " the times of B are shifted by this difference")  # fmt: skip
    if shared["other_job_in_b"]:
        of = f"{shared['other_job_in_b']:,} of {counted(shared['jobs'])} in both"
        say(f"warning: {of} have another submit time or size in B. Are these schedules of one log?")
    for side in "ab":
        if count := shared[f"before_submission_{side}"]:
            say(f"note: {counted(count)} of {side.upper()} started before being submitted")
    lines = [["MEAN", "A", "B", "B - A", f"{LEVEL:.0%} INTERVAL"]]
    for row in rows:
        times = row["measure"] != "bounded_slowdown"
        plain, signed = (span, signed_time) if times else ("{:.2f}".format, "{:+.2f}".format)
        held = "-" if row["low"] != row["low"] else f"{signed(row['low'])} to {signed(row['high'])}"
        name = row["measure"].replace("_", " ")
        lines.append([name, plain(row["a"]), plain(row["b"]), signed(row["difference"]), held])
    print_columns(lines, left=1)
    echo(f"seed {drawn['seed']}, {drawn['resamples']} resamples of {rows[0]['groups']} groups")


def _write_page(
    page: Path, comparison: Comparison, documents: Sequence[Mapping[str, Any]], drawn: dict[str, int]
) -> None:
    """Write the page: the verdict in figures, changes with intervals, differences of distributions."""
    from ...report.blocks import page as make_page
    from ...report.comparison import comparison_sections
    from ...report.evaluation.page import versions

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
    """Return the name of a log, its number of jobs and their dates."""
    count = f"{log['jobs']:,}" if isinstance(log.get("jobs"), int) else "an unknown number of"
    name = Path(str(log.get("source"))).name
    return f"{name}, {count} jobs from {log.get('first_submit')} to {log.get('last_submit')}"
