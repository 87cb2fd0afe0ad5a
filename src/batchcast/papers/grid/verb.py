# SPDX-License-Identifier: Apache-2.0
"""`batchcast grid`: map jobs onto the resources of a grid, once (`map`) or as they arrive (`simulate`, `serve`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...cli.grammar import Verbs, page_option, verb
from ...cli.output import console, document, emit, note, say, write_text
from ...errors import UsageError
from . import options
from .verb_serve import command as serve

UNIT_OF = "Default: the platform's, else 1;"


@click.group(cls=Verbs, short_help="Map jobs onto a grid's resources: deadlines, data, heuristics.")
def command() -> None:
    """Map jobs with files and deadlines onto the resources of a grid."""


JOBS_HELP = (
    "CSV with one row per job. With MATRIX: deadline, and file_mb if files are moved. With --platform: the columns of "
    "`grid simulate`."
)
PLATFORM_HELP = (
    "TOML or CSV of the resources, in place of MATRIX: times follow from instructions, files, speeds, bandwidths."
)
BANDWIDTH_HELP = "With file_mb in --jobs: MB per time unit, one number for all resources or one each."


@command.command("map")
@click.argument("matrix", type=options.FILE, required=False)
@options.heuristics_option
@click.option("--jobs", "jobs_file", type=options.FILE, help=JOBS_HELP)
@click.option("--platform", type=options.FILE, help=PLATFORM_HELP)
@click.option("--bandwidth", metavar="LIST", help=BANDWIDTH_HELP)
@click.option("--seconds", type=float, help="CPU seconds of search (default 0.9) and exact (default 48).")
@click.option("--plan", type=options.FILE, help="Write the last heuristic's plan as CSV.")
@options.json_option
def map_command(heuristics: str, seconds: float | None, plan: Path | None, as_json: bool, **files: Any) -> None:
    """Map the jobs of MATRIX (expected times in the form of Braun et al., gzip or plain) onto its resources.

    Without MATRIX, map the jobs of --jobs onto the resources of --platform, all at once: at the last arrival.

    \b
    batchcast grid map u_c_hihi.0.etc.gz --heuristic min_min,search --json
    batchcast grid map u_c_hihi.0.etc.gz --jobs jobs.csv --bandwidth 125 --heuristic emin_min,ebest,best_fit
    batchcast grid map --jobs jobs.csv --platform grid.toml --heuristic emin_min,min_min --plan plan.csv
    """
    from . import runs

    if seconds is not None and not seconds > 0:
        raise UsageError(f"--seconds {seconds:g} (accepted: a number above 0)")
    specs = options.heuristics_named(heuristics, ("exact", "by_preference"))
    given = runs.input_of(**files)
    batch, notes = given.batch, given.notes
    n, m = batch.times.shape
    bound = runs.makespan_bound(batch)
    mapped = [runs.mapped(batch, spec, seconds, bound) for spec in specs]
    results, plans = [row for row, _ in mapped], [of_spec for _, of_spec in mapped if of_spec is not None]
    left_out = [f"{row['heuristic']} left out: {row['note']}" for row in results if "note" in row]
    notes += runs.lacks_prices(specs, batch.price is not None) + left_out
    if not plans:
        raise UsageError(left_out[0])
    if plan is not None:
        write_text(plan, runs.plan_csv(given, plans[-1]))
    settings = {"heuristic": specs, "seconds": seconds, "jobs": n, "resources": m, "bandwidth": files["bandwidth"]}
    settings |= {"deadlines": str(files["jobs_file"] or "none")}
    settings |= {"platform": str(files["platform"])} if files["platform"] else {}
    if as_json:
        log = {"source": str(given.source), "jobs": n, "resources": m}
        emit(document("grid-map", log, settings, notes, results))
        return
    from ...report.terminal import show
    from .page import map_table

    title = f"{given.source.name} · {n} jobs on {m} resources · lower bound {bound:,.1f}"
    show(console(), [map_table(title, results)])
    note(*notes)
    say(*(f"{row['heuristic']}: seed {row['seed']}" for row in results if "seed" in row))


@verb("simulate")
@options.setting("--jobs", default="10000", metavar="N|FILE", help="Number of random jobs, or a CSV, or a log.")
@click.option("--platform", type=options.FILE, help="Resources as TOML or CSV. Default: random speeds from 5 to 15.")
@options.setting("--resources", type=options.COUNT, default=50, help="Number of random resources.")
@options.setting("--rate", default="20:30:2", help="Arrivals per time unit: FROM:TO:STEP or a list.")
@options.setting("--data-share", default="0.5", help="Shares of jobs with files (p), a list.")
@options.setting("--large-share", default="0.5", help="Shares of large files among those jobs (q), a list.")
@options.heuristics_option
@options.setting("--runs", type=options.COUNT, default=10, help="Number of runs with random jobs.")
@options.setting("--seed", type=options.SEED, default=1, help=options.SAME_JOBS)
@options.every_option(default="0.25", help="Map jobs every T time units, or at events.")
@click.option("--remap", is_flag=True, help="Map jobs that have not started again at each event.")
@options.late_option
@click.option("--compute-unit", type=float, help=f"Time of 1 MI at speed 1. {UNIT_OF} 0.006 for random jobs.")
@click.option("--transfer-unit", type=float, help=f"Time of 1 MB at bandwidth 1. {UNIT_OF} 0.0006 for random jobs.")
@options.setting("--slack", type=float, default=2.0, help="For a log: deadline = submission + slack x time limit.")
@options.setting("--reference-speed", type=float, default=1000.0, help="For a log: speed of its machine in MI/s.")
@click.option("--first", type=options.COUNT, help="For a log or CSV: only the first jobs.")
@options.workers_option
@page_option("Also write an HTML page: Gantt chart, load, unfinished jobs over time.")
@click.option("--outcomes", type=options.FILE, help="Also write the outcome of each job as CSV: reason, time.")
@options.json_option
def simulate_command(**given: Any) -> None:
    """Simulate arriving jobs, map them, and print unfinished jobs, mean wait and mean response time.

    `all` omits search and exact, which take about a second and a minute per mapping, and by_preference, which needs
    prices of resources.

    \b
    batchcast grid simulate --jobs 2000 --rate 20:30:2 --heuristic min_min,emin_min --runs 3
    batchcast grid simulate --jobs log.swf.gz --platform grid.toml --heuristic emin_min --map-every events
    """
    from . import runs
    from .clock import MappingRule

    every = options.mapping_interval(given["every"])
    rule = MappingRule(every, given["remap"], given["late"])
    specs = options.heuristics_named(given["heuristics"], ("exact", "search", "by_preference"))
    settings = {"heuristic": specs, "every": every or "events", "remap": rule.remap, "late": rule.late}
    settings["seed"] = given["seed"]
    is_drawn = given["jobs"].removeprefix("-").isdigit()
    simulate = runs.simulate_drawn if is_drawn else runs.simulate_given
    warnings, results, log, outcomes = simulate(given, specs, rule, settings)
    if given["outcomes"] is not None:
        write_text(given["outcomes"], runs.outcomes_csv(outcomes()))
    if given["page"] is not None:
        from .page import run_page

        write_text(given["page"], run_page(outcomes(), results, {"log": log, "settings": settings}))
        say(f"page: {given['page']}")
    if given["as_json"]:
        emit(document("grid-simulate", log, settings, warnings, results))
    else:
        from ...report.terminal import show
        from .page import simulated_table

        show(console(), [simulated_table(results)])
        note(*warnings)
        say(f"seed {given['seed']}; assigned + unfinished = submitted in every row; ± is the 95 % interval over runs")


@command.command("draw")
@options.setting("--jobs", type=options.COUNT, default=512, help="Number of jobs (rows).")
@options.setting("--resources", type=options.COUNT, default=16, help="Number of resources (columns).")
@options.setting("--kind", default="c_hihi", help="Kind of matrix: c, i or s, then hi or lo twice (c_hihi).")
@options.setting(
    "--ranges", type=click.Choice(["braun", "ali"]), default="braun", help="Upper ends of the random draws."
)
@click.option("--whole", is_flag=True, help="Draw whole numbers, so that many times are equal.")
@options.setting("--seed", type=options.SEED, default=1, help="Random seed.")
@click.option("-o", "--output", required=True, type=options.FILE, help="Output file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document: parameters and file.")
def draw_command(
    jobs: int, resources: int, kind: str, ranges: str, whole: bool, seed: int, output: Path, as_json: bool
) -> None:
    """Generate a random matrix of expected times (Braun et al. 2001) for `grid map`."""
    import numpy as np

    from .model import draw_times

    times = draw_times(np.random.default_rng(seed), jobs, resources, kind, ranges=ranges, whole=whole)
    text = "\n".join(" ".join(f"{value:.10g}" for value in row) for row in times.tolist())
    write_text(output, f"{jobs} {resources}\n{text}\n")
    if as_json:
        drawn = {"jobs": jobs, "resources": resources, "kind": kind, "ranges": ranges, "whole": whole, "seed": seed}
        emit(document("grid draw", {}, drawn, [], [{"output": str(output), **drawn}]))
    say(f"{output}: {jobs} jobs on {resources} resources, {kind}, ranges {ranges}, seed {seed}")


command.add_command(simulate_command)
command.add_command(serve)
