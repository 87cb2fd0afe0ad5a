# SPDX-License-Identifier: Apache-2.0
"""`batchcast grid map`, `grid simulate` and `grid draw`: map jobs onto a grid, once or as they arrive."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from batchcast.broker.serving import mapping_rule
from batchcast.broker.verb import FILE, every_option, heuristic_option, late_option
from batchcast.cli.grammar import JSON, option, page_option, verb
from batchcast.cli.output import document, emit, note, say, show_blocks, write_text
from batchcast.errors import UsageError

COUNT, SEED = click.IntRange(min=1), click.IntRange(min=0)
SAME_JOBS = "Random seed; run k of every setting uses the same jobs."
UNIT_OF = "Default: the platform's, else 1;"

heuristics_option = heuristic_option("--heuristic SPECS [all]", "Heuristics, NAME:key=value,..., or all.", "heuristics")
workers_option = click.option(
    "--workers", type=COUNT, default=lambda: os.cpu_count() or 1,
    help="Number of processes. Default: the available processors.",
)  # fmt: skip


JOBS_HELP = (
    "CSV with one row per job. With MATRIX: deadline, and file_mb if files are moved. With --platform: the columns of "
    "`grid simulate`."
)
PLATFORM_HELP = (
    "TOML or CSV of the resources, in place of MATRIX: times follow from instructions, files, speeds, bandwidths."
)
BANDWIDTH_HELP = "With file_mb in --jobs: MB per time unit, one number for all resources or one each."


@verb("map", json=JSON)
@click.argument("matrix", type=FILE, required=False)
@heuristics_option
@option("--jobs", JOBS_HELP, "jobs_file", type=FILE)
@option("--platform", PLATFORM_HELP, type=FILE)
@option("--bandwidth LIST", BANDWIDTH_HELP)
@option("--seconds", "CPU seconds of search (default 0.9) and exact (default 48).", type=float)
@option("--plan", "Write the last heuristic's plan as CSV.", type=FILE)
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
    specs = runs.heuristics_named(heuristics, ("exact", "by_preference"))
    map_input = runs.input_of(**files)
    batch, notes = map_input.batch, map_input.notes
    n, m = batch.times.shape
    bound = runs.makespan_bound(batch)
    mapped = [runs.mapped(batch, spec, seconds, bound) for spec in specs]
    results, plans = [row for row, _ in mapped], [of_spec for _, of_spec in mapped if of_spec is not None]
    left_out = [f"{row['heuristic']} left out: {row['note']}" for row in results if "note" in row]
    notes += runs.lacks_prices(specs, batch.price is not None) + left_out
    if not plans:
        raise UsageError(left_out[0])
    if plan is not None:
        write_text(plan, runs.plan_csv(map_input, plans[-1]))
    settings = {"heuristic": specs, "seconds": seconds, "jobs": n, "resources": m, "bandwidth": files["bandwidth"]}
    settings |= {"deadlines": str(files["jobs_file"] or "none")}
    settings |= {"platform": str(files["platform"])} if files["platform"] else {}
    if as_json:
        log = {"source": str(map_input.source), "jobs": n, "resources": m}
        emit(document("grid-map", log, settings, notes, results))
        return
    from .page import map_table

    title = f"{map_input.source.name} · {n} jobs on {m} resources · lower bound {bound:,.1f}"
    show_blocks(map_table(title, results))
    note(*notes)
    say(*(f"{row['heuristic']}: seed {row['seed']}" for row in results if "seed" in row))


@verb("simulate", json=JSON)
@option("--jobs N|FILE [10000]", "Number of random jobs, or a CSV, or a log.")
@option("--platform", "Resources as TOML or CSV. Default: random speeds from 5 to 15.", type=FILE)
@option("--resources", "Number of random resources.", type=COUNT, default=50)
@option("--rate", "Arrivals per time unit: FROM:TO:STEP or a list.", type=str, default="20:30:2")
@option("--data-share", "Shares of jobs with files (p), a list.", type=str, default="0.5")
@option("--large-share", "Shares of large files among those jobs (q), a list.", type=str, default="0.5")
@heuristics_option
@option("--runs", "Number of runs with random jobs.", type=COUNT, default=10)
@option("--seed", SAME_JOBS, type=SEED, default=1)
@every_option("Map jobs every T time units, or at events.", default="0.25")
@option("--remap", "Map jobs that have not started again at each event.")
@late_option
@option("--compute-unit", f"Time of 1 MI at speed 1. {UNIT_OF} 0.006 for random jobs.", type=float)
@option("--transfer-unit", f"Time of 1 MB at bandwidth 1. {UNIT_OF} 0.0006 for random jobs.", type=float)
@option("--slack", "For a log: deadline = submission + slack x time limit.", type=float, default=2.0)
@option("--reference-speed", "For a log: speed of its machine in MI/s.", type=float, default=1000.0)
@option("--first", "For a log or CSV: only the first jobs.", type=COUNT)
@workers_option
@page_option("Also write an HTML page: Gantt chart, load, unfinished jobs over time.")
@option("--outcomes", "Also write the outcome of each job as CSV: reason, time.", type=FILE)
def simulate_command(**options: Any) -> None:
    """Simulate arriving jobs, map them, and print unfinished jobs, mean wait and mean response time.

    `all` omits search and exact, which take about a second and a minute per mapping, and by_preference, which needs
    prices of resources.

    \b
    batchcast grid simulate --jobs 2000 --rate 20:30:2 --heuristic min_min,emin_min --runs 3
    batchcast grid simulate --jobs log.swf.gz --platform grid.toml --heuristic emin_min --map-every events
    """
    from . import runs

    rule = mapping_rule(options["every"], options["late"], options["remap"])
    specs = runs.heuristics_named(options["heuristics"], ("exact", "search", "by_preference"))
    settings = {"heuristic": specs, "every": rule.every or "events", "remap": rule.remap, "late": rule.late}
    settings["seed"] = options["seed"]
    is_drawn = options["jobs"].removeprefix("-").isdigit()
    simulate = runs.simulate_drawn if is_drawn else runs.simulate_from_files
    warnings, results, log, outcomes = simulate(options, specs, rule, settings)
    if options["outcomes"] is not None:
        write_text(options["outcomes"], runs.outcomes_csv(outcomes()))
    if options["page"] is not None:
        from .page import run_page

        write_text(options["page"], run_page(outcomes(), results, {"log": log, "settings": settings}))
        say(f"page: {options['page']}")
    if options["as_json"]:
        emit(document("grid-simulate", log, settings, warnings, results))
    else:
        from .page import simulated_table

        show_blocks(simulated_table(results))
        note(*warnings)
        say(f"seed {options['seed']}; assigned + unfinished = submitted in every row; ± is the 95 % interval over runs")


@verb("draw", json="Print one JSON document: parameters and file.")
@option("--jobs", "Number of jobs (rows).", type=COUNT, default=512)
@option("--resources", "Number of resources (columns).", type=COUNT, default=16)
@option("--kind", "Kind of matrix: c, i or s, then hi or lo twice (c_hihi).", type=str, default="c_hihi")
@option("--ranges braun|ali [braun]", "Upper ends of the random draws.")
@option("--whole", "Draw whole numbers, so that many times are equal.")
@option("--seed", "Random seed.", type=SEED, default=1)
@option("-o, --output", "Output file.", type=FILE, required=True)
def draw_command(output: Path, as_json: bool, **drawn: Any) -> None:
    """Generate a random matrix of expected times (Braun et al. 2001) for `grid map`."""
    import numpy as np

    from .files import draw_times

    settings = dict(drawn)
    jobs, resources, kind, seed = (drawn.pop(name) for name in ("jobs", "resources", "kind", "seed"))
    times = draw_times(np.random.default_rng(seed), jobs, resources, kind, **drawn)
    text = "\n".join(" ".join(f"{value:.10g}" for value in row) for row in times.tolist())
    write_text(output, f"{jobs} {resources}\n{text}\n")
    if as_json:
        emit(document("grid draw", {}, settings, [], [{"output": str(output), **settings}]))
    say(f"{output}: {jobs} jobs on {resources} resources, {kind}, ranges {drawn['ranges']}, seed {seed}")
