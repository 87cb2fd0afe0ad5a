# SPDX-License-Identifier: Apache-2.0
"""`batchcast grid simulate`: jobs arrive on a grid, heuristics place them; runs in parallel processes."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ...cli.completion import specs as complete_specs
from ...cli.grammar import page_option, verb
from ...cli.output import console, document, emit, note, progress, say, write_text
from ...errors import UsageError
from ...units import counted

if TYPE_CHECKING:
    from ...report.blocks import Table
    from .clock import Run
    from .model import Jobs, Resources, Units


SECONDS_A_JOB = 71 / 8.4e6
"""Measured for one heuristic: the default settings, 84 rows of ten runs of 10,000 jobs, took 71 s on two busy cores."""
setting = partial(click.option, show_default=True)
"""An option whose default its help shows."""
FILE, COUNT, SEED = click.Path(path_type=Path), click.IntRange(min=1), click.IntRange(min=0)
SAME_JOBS = "Random seed; run k of every setting uses the same jobs."
UNIT_OF = "Default: the platform's, else 1;"
heuristic_option = partial(setting, "--heuristic", shell_complete=complete_specs("heuristic"))
heuristics_option = heuristic_option(
    "heuristics", default="all", metavar="SPECS", help="Heuristics, NAME:key=value,..., or all."
)
every_option = partial(setting, "--map-every", "every", metavar="T|events")
LATE_WORDS = click.Choice(["run", "stop", "drop"])
late_option = setting("--late", type=LATE_WORDS, default="run", help="What happens to jobs after their deadline.")
WORKERS_HELP = "Number of processes. Default: the available processors."
workers_option = click.option("--workers", type=COUNT, default=lambda: os.cpu_count() or 1, help=WORKERS_HELP)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@verb("simulate")
@setting("--jobs", default="10000", metavar="N|FILE", help="Number of random jobs, or a CSV, or a log.")
@click.option("--platform", type=FILE, help="Resources as TOML or CSV. Default: random speeds from 5 to 15.")
@setting("--resources", type=COUNT, default=50, help="Number of random resources.")
@setting("--rate", default="20:30:2", help="Arrivals per time unit: FROM:TO:STEP or a list.")
@setting("--data-share", default="0.5", help="Shares of jobs with files (p), a list.")
@setting("--large-share", default="0.5", help="Shares of large files among those jobs (q), a list.")
@heuristics_option
@setting("--runs", type=COUNT, default=10, help="Number of runs with random jobs.")
@setting("--seed", type=SEED, default=1, help=SAME_JOBS)
@every_option(default="0.25", help="Map jobs every T time units, or at events.")
@click.option("--remap", is_flag=True, help="Map jobs that have not started again at each event.")
@late_option
@click.option("--compute-unit", type=float, help=f"Time of 1 MI at speed 1. {UNIT_OF} 0.006 for random jobs.")
@click.option("--transfer-unit", type=float, help=f"Time of 1 MB at bandwidth 1. {UNIT_OF} 0.0006 for random jobs.")
@setting("--slack", type=float, default=2.0, help="For a log: deadline = submission + slack x time limit.")
@setting("--reference-speed", type=float, default=1000.0, help="For a log: speed of its machine in MI/s.")
@click.option("--first", type=COUNT, help="For a log or CSV: only the first jobs.")
@workers_option
@page_option("Also write an HTML page: Gantt chart, load, unfinished jobs over time.")
@click.option("--outcomes", type=FILE, help="Also write the outcome of each job as CSV: reason, time.")
@json_option
def command(**given: Any) -> None:
    """Simulate arriving jobs, map them, and print unfinished jobs, mean wait and mean response time.

    `all` omits search and exact, which take about a second and a minute per mapping, and by_preference, which needs
    prices of resources.

    \b
    batchcast grid simulate --jobs 2000 --rate 20:30:2 --heuristic min_min,emin_min --runs 3
    batchcast grid simulate --jobs log.swf.gz --platform grid.toml --heuristic emin_min --map-every events
    """
    from .clock import MappingRule as Shape

    every = mapping_interval(given["every"])
    shape = Shape(every, given["remap"], given["late"])
    specs = heuristics_named(given["heuristics"], ("exact", "search", "by_preference"))
    settings = {"heuristic": specs, "every": every or "events", "remap": shape.remap, "late": shape.late}
    settings["seed"] = given["seed"]
    run = _drawn if given["jobs"].removeprefix("-").isdigit() else _given
    warnings, results, log, shown = run(given, specs, shape, settings)
    if given["page"] is not None or given["outcomes"] is not None:
        from .page import run_page

        outcomes = shown()
        if given["outcomes"] is not None:
            write_text(given["outcomes"], outcomes_csv(outcomes))
        if given["page"] is not None:
            write_text(given["page"], run_page(outcomes, results, {"log": log, "settings": settings}))
            say(f"page: {given['page']}")
    if given["as_json"]:
        emit(document("grid-simulate", log, settings, warnings, results))
    else:
        from ...report.terminal import show

        show(console(), simulated_tables(results))
        note(*warnings)
        say(f"seed {given['seed']}; assigned + unfinished = submitted in every row; ± is the 95 % interval over runs")


class Simulated(NamedTuple):
    """Warnings, results (a row per setting and heuristic), a description of the jobs, and a function that returns each
    heuristic's first run of the last setting."""

    warnings: list[str]
    results: list[dict[str, Any]]
    log: dict[str, Any]
    shown: Callable[[], dict[str, Run]]


def _drawn(given: Mapping[str, Any], specs: Sequence[str], shape: Any, settings: dict[str, Any]) -> Simulated:
    """Simulate the published experiment's random jobs at every rate, p and q."""
    import numpy as np

    from .model import Setting, Units, draw_jobs
    from .study import Study, one_run, run_study

    if given["platform"] is not None:
        raise UsageError("--platform goes with jobs from a file", hint="--jobs FILE.csv or a log")
    count = int(given["jobs"])
    if count < 1:
        raise UsageError(f"--jobs {count}: an empty workload (accepted: a number from 1, or a file)")
    units = _units(given, Units())
    drawn = {"rate": numbers("--rate", given["rate"], above=0.0)}
    drawn |= {k: numbers(f"--{k.replace('_', '-')}", given[k], most=1.0) for k in ("data_share", "large_share")}
    cells = [Setting(*values) for values in product(*drawn.values())]
    study = Study(cells, specs, shape, units, count, given["resources"], given["runs"], given["seed"])
    settings |= {"jobs": count, "resources": study.resources, "runs": study.runs, **drawn}
    settings |= {"compute_unit": units.compute, "transfer_unit": units.transfer}
    simulations = len(cells) * len(specs) * study.runs
    seconds = simulations * count * SECONDS_A_JOB
    words = f"{simulations:,} simulations of {count:,} jobs ({len(specs)} heuristics, {study.runs} runs each)"
    time = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"
    say(f"{words}: about {time} on two cores; fewer --jobs, --runs or --heuristic take less")
    with progress("simulating", len(cells) * study.runs) as tick:
        results = run_study(study, watch=perf_counter, workers=given["workers"], tick=tick)

    def shown() -> dict[str, Run]:
        jobs, grid = draw_jobs(cells[-1], np.random.default_rng([study.seed, 0]), jobs=count, resources=study.resources)
        share = cells[-1].data_share
        return {spec: one_run(jobs, grid, spec, study, share, watch=perf_counter)[0] for spec in specs}

    return Simulated([], results, {"source": "drawn", "jobs": count}, shown)


def _given(given: Mapping[str, Any], specs: Sequence[str], shape: Any, settings: dict[str, Any]) -> Simulated:
    """Simulate jobs and resources from files: one run per heuristic."""
    import numpy as np

    from .study import Study, one_run, over_runs

    jobs, resources, units, warnings = _read(given)
    if not np.isfinite(jobs.deadline).any():
        notes = [f"{spec} left out: {without}" for spec in specs if (without := needs_deadlines(spec))]
        if len(notes) == len(specs):
            raise UsageError(notes[0])
        specs = [spec for spec in specs if not needs_deadlines(spec)]
        warnings += notes
    price = resources.attributes.get("price")
    warnings += lacks_prices(specs, price is not None)
    settings |= {"compute_unit": units.compute, "transfer_unit": units.transfer, "jobs": len(jobs)}
    settings |= {name: given[name] for name in ("slack", "reference_speed")} | {"platform": str(given["platform"])}
    results, outcomes, study = [], {}, Study((), specs, shape, units)
    with progress("simulating", len(specs)) as tick:
        for done, spec in enumerate(specs, start=1):
            one_run(jobs.first(1), resources, spec, study, watch=perf_counter)  # compiles, before timing
            outcomes[spec], row = one_run(jobs, resources, spec, study, watch=perf_counter)
            results.append({"heuristic": spec, **over_runs([row])})
            if price is not None:
                ran, where = outcomes[spec].finish - outcomes[spec].start, outcomes[spec].resource
                results[-1]["cost"] = float(np.nansum(np.where(where >= 0, ran * price[where], 0.0)))
            tick(done)
    why = outcomes[specs[0]].why
    for reason, count in sorted(Counter(why.values()).items()):
        first = min(k for k, words in why.items() if words == reason)
        warnings.append(f"{counted(count)} rejected: {reason} (first: {jobs.ids[first]!r})")
    if past := int((jobs.deadline <= jobs.arrival).sum()):
        warnings.append(f"{counted(past)} with a deadline at or before the arrival, counted as unfinished")
    log = {"source": given["jobs"], "jobs": len(jobs), "resources": len(resources)}
    return Simulated(warnings, results, log, lambda: outcomes)


def _read(given: Mapping[str, Any]) -> tuple[Jobs, Resources, Units, list[str]]:
    from ...trace import read_trace
    from .files import jobs_from_log, read_jobs, read_platform

    if given["platform"] is None:
        raise UsageError("jobs from a file need --platform (TOML or CSV)", hint="id, speed and bandwidth a resource")
    for name in ("slack", "reference_speed"):
        if not given[name] > 0:
            raise UsageError(f"--{name.replace('_', '-')} {given[name]:g} (accepted: a number above 0)")
    resources, units = read_platform(given["platform"])
    units = _units(given, units)
    if given["jobs"].lower().endswith(".csv"):
        return read_jobs(given["jobs"]).first(given["first"]), resources, units, []
    trace = read_trace(given["jobs"])
    jobs = jobs_from_log(trace, reference_speed=given["reference_speed"], slack=given["slack"])
    warnings = [
        "of a log: instructions = run time x reference speed, deadline = submit + slack x limit, "
        f"procs of a resource at least the job's; {len(trace) - len(jobs)} jobs that never ran were left out"
    ]
    if "procs" not in resources.attributes:
        raise UsageError(
            f"{given['platform']}: the log's jobs request processors, but no resource has an attribute procs",
            hint="[resource.attributes] procs = 64 (TOML) or a column procs (CSV)",
        )
    return jobs.first(given["first"]), resources, units, warnings


def simulated_tables(results: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Return one table, with one row per setting and heuristic."""
    from ...report.blocks import Table
    from ..shared import columns_of
    from .study import with_width

    digits = {"unfinished": 1, "mean_wait": 4, "mean_makespan": 4}
    rows = [
        {**row, **{f"{name}_text": with_width(row, name, many) for name, many in digits.items()}} for row in results
    ]
    drawn = [key for key in ("rate", "data_share", "large_share") if key in results[0]]
    columns = columns_of(
        *(f"{key}|{key.replace('_', ' ')}|number" for key in drawn), "heuristic",
        "assigned|assigned|number|finished in time", *(f"{name}_text|{name.replace('_', ' ')}" for name in digits),
        *["cost|cost|number"] * ("cost" in results[0]), "decision_ms_per_job|decision, ms per job|ratio",
    )  # fmt: skip
    return [Table("Grid: unfinished jobs, mean wait and mean makespan (response time)", columns, rows)]


def outcomes_csv(outcomes: Mapping[str, Run]) -> str:
    """Return one row per heuristic and job: outcome, reason, and when the outcome was decided."""
    import csv
    import io

    from .clock import REASONS

    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("heuristic", "id", "outcome", "instant", "resource", "start", "finish"))
    for name, outcome in outcomes.items():
        columns = (outcome.outcome, outcome.resource, outcome.instant, outcome.start, outcome.finish)
        for k, (code, where, *times) in enumerate(zip(*(column.tolist() for column in columns))):
            reason = f"rejected: {outcome.why[k]}" if k in outcome.why else REASONS[code]
            place = outcome.resources.ids[where] if where >= 0 else ""
            instant, start, finish = ("" if v != v else f"{v:.6f}" for v in times)
            table.writerow((name, outcome.jobs.ids[k], reason, instant, place, start, finish))
    return text.getvalue()


def numbers(option: str, text: str, *, above: float = -1.0, most: float = float("inf")) -> list[float]:
    """Parse `FROM:TO:STEP` (both ends included) or a comma list, and check the range of each number.

    >>> numbers("--rate", "20:30:5"), numbers("--data-share", ".3,.5", most=1.0)
    ([20.0, 25.0, 30.0], [0.3, 0.5])
    """
    parts = text.split(":")
    if len(parts) == 3:
        low, high, step = (_number(option, part) for part in parts)
        if not step > 0 or high < low or (high - low) / step > 1000:
            raise UsageError(f"{option} {text!r} (accepted: FROM:TO:STEP, ascending, or a comma list)")
        values = [round(low + k * step, 12) for k in range(int((high - low) / step + 1e-9) + 1)]
    else:
        values = [_number(option, part) for part in text.split(",")]
    for value in values:
        if not (max(above, 0.0) <= value <= most and value > above):
            accepted = f"above {max(above, 0):g}, at most {most:g}"
            raise UsageError(f"{option}: {value:g} is out of range (accepted: {accepted})")
    return values


def heuristics_named(text: str, left_out: Sequence[str]) -> list[str]:
    """Return the requested heuristics, each once; `all` omits slow heuristics, which must be named."""
    from ...predict.registry import available, load, parse_spec, split_specs

    every = [name for name in available("heuristic") if name not in left_out]
    pieces = [piece.strip() for piece in text.split(",")]
    named = split_specs(",".join(piece for piece in pieces if piece != "all"), "heuristic")
    specs = list(dict.fromkeys([*(every if "all" in pieces else ()), *named]))
    if not specs:
        raise UsageError("--heuristic names none", hint="--heuristic all")
    for spec in specs:
        load("heuristic", parse_spec(spec)[0])
    return specs


def lacks_prices(specs: Sequence[str], has_prices: bool) -> list[str]:
    """Return a warning for each heuristic that weighs cost, if the resources have no prices.

    >>> lacks_prices(["by_preference:cost=.3", "min_min"], False)[0][:53]
    'by_preference:cost=.3: no resource has a price, so on'
    """
    words = "no resource has a price, so only time counts; `price = 2.5` in [[resource]] is the cost of a time unit"
    return [] if has_prices else [f"{spec}: {words}" for spec in specs if spec.partition(":")[0] == "by_preference"]


NEED_DEADLINES = ("ebest", "best_fit")


def needs_deadlines(spec: str) -> str:
    """Return the reason why a heuristic cannot be used without deadlines; empty if the heuristic can be used.

    >>> needs_deadlines("ebest:reading=job")[:41], needs_deadlines("min_min")
    ('it looks for the latest end within the de', '')
    """
    if spec.partition(":")[0] not in NEED_DEADLINES:
        return ""
    return "it looks for the latest end within the deadline, and there are none: --jobs FILE.csv with a column deadline"


def _units(given: Mapping[str, Any], default: Units) -> Units:
    """Return the time units of --compute-unit and --transfer-unit, with a default for each."""
    units = {name: given[f"{name}_unit"] for name in ("compute", "transfer") if given[f"{name}_unit"] is not None}
    if not all(unit > 0 for unit in units.values()):
        raise UsageError("--compute-unit and --transfer-unit are times above 0")
    return replace(default, **units)


def mapping_interval(text: str) -> float | None:
    """Return the value of --map-every in time units; None for `events`."""
    return None if text == "events" else _number("--map-every", text)


def _number(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is not a number") from None
    if not math.isfinite(value):
        raise UsageError(f"{option}: {text!r} is not a finite number")
    return value
