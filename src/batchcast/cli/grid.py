"""`batchcast grid`: map jobs onto the resources of a grid, once (`map`) or as they arrive (`simulate`)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from .output import console, document, emit, progress, say

if TYPE_CHECKING:
    from ..grid.model import Jobs, Resources, Units
    from ..report.blocks import Table

SPECS = "NAME:key=value,... or all"


@click.group(short_help="Map jobs onto a grid's resources: deadlines, data, heuristics.")
def command() -> None:
    """Grids: many space-shared resources, jobs with files and deadlines, mapping heuristics."""


@command.command("map")
@click.argument("matrix", type=click.Path(path_type=Path))
@click.option("--heuristic", "heuristics", default="all", show_default=True, metavar="SPECS", help=SPECS)
@click.option("--seconds", type=float, help="Time box of search (default 0.9) and exact (default 55).")
@click.option("--plan", type=click.Path(path_type=Path), help="Write the last heuristic's plan here as CSV.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def map_command(matrix: Path, heuristics: str, seconds: float | None, plan: Path | None, as_json: bool) -> None:
    """Map the jobs of MATRIX (expected times, the form of Braun et al., gzip or plain) without deadlines.

    \b
    batchcast grid map u_c_hihi.0.etc.gz --heuristic min_min,search --json
    """
    from ..grid.balance import prices
    from ..grid.protocol import Batch, makespan, timed
    from ..predict.registry import load, make, parse_spec
    from ..trace.grid_files import read_matrix

    if seconds is not None and not seconds > 0:
        raise UsageError(f"--seconds {seconds:g} (accepted: a number above 0)")
    specs = _specs(heuristics, ("exact",))
    batch = Batch.of_times(read_matrix(matrix))
    bound = prices(batch.times, batch.free, 2000 if batch.times.size < 1_000_000 else 50)[0]
    results: list[dict[str, Any]] = []
    for spec in specs:
        maker = load("heuristic", parse_spec(spec)[0])
        given = {"seconds": seconds} if seconds and getattr(maker, "slow", False) else {}
        method = make("heuristic", spec, **given)
        if not getattr(maker, "slow", False):
            make("heuristic", spec).assign(Batch.of_times(batch.times[:3]))  # compiles, outside the watch
        if hasattr(method, "stop"):
            method.stop = _alarm(seconds or 0.9)
        began = time.perf_counter()
        if hasattr(method, "solve"):
            made, proved = method.solve(batch)
        else:
            made, proved = method.assign(batch), bound
        took = time.perf_counter() - began
        length = makespan(batch, made)
        row = {"heuristic": spec, "makespan": length, "lower_bound": max(bound, proved)}
        row |= {"over_bound": length / row["lower_bound"] - 1, "mapped": len(made.order), "decision_s": took}
        results.append(row | ({"seed": method.seed} if hasattr(method, "seed") else {}))
    if plan is not None:
        starts, finishes = timed(batch, made)
        lines = ["job,resource,start,finish"]
        lines += [f"{j},{made.resource[j]},{starts[j]:.6f},{finishes[j]:.6f}" for j in made.order.tolist()]
        _write(plan, "\n".join(lines) + "\n")
    n, m = batch.times.shape
    settings = {"heuristic": specs, "seconds": seconds, "jobs": n, "resources": m, "deadlines": "none"}
    if as_json:
        emit(document("grid-map", {"source": str(matrix), "jobs": n, "resources": m}, settings, [], results))
        return
    from ..report.blocks import Table, TableColumn
    from ..report.terminal import show

    columns = [
        TableColumn("heuristic", "heuristic"),
        TableColumn("text", "makespan"),
        TableColumn("over_bound", "over the bound", "share"),
        TableColumn("decision_s", "decided in, s", "ratio"),
    ]
    rows = [row | {"text": f"{row['makespan']:,.1f}"} for row in results]
    show(console(), [Table(f"{matrix.name} · {n} jobs on {m} resources · lower bound {bound:,.1f}", columns, rows)])
    for row in results:
        if "seed" in row:
            say(f"{row['heuristic']}: seed {row['seed']}")


@command.command("simulate")
@click.option(
    "--jobs", default="10000", show_default=True, metavar="N|FILE", help="Drawn jobs, or CSV, or a batch log."
)
@click.option("--platform", type=click.Path(path_type=Path), help="Resources: TOML or CSV. Default: drawn, 5..15 fast.")
@click.option("--resources", type=click.IntRange(min=1), default=50, show_default=True, help="Drawn resources.")
@click.option("--rate", default="20:30:2", show_default=True, help="Jobs a time unit: FROM:TO:STEP or a list.")
@click.option("--data-share", default="0.5", show_default=True, help="Shares of data jobs (p), a list.")
@click.option("--large-share", default="0.5", show_default=True, help="Shares of large files among them (q), a list.")
@click.option("--heuristic", "heuristics", default="all", show_default=True, metavar="SPECS", help=SPECS)
@click.option("--runs", type=click.IntRange(min=1), default=10, show_default=True, help="Runs of drawn jobs.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Run k of every setting shares it."
)
@click.option("--every", default="0.25", show_default=True, metavar="T|events", help="Map every T, or at events.")
@click.option("--remap", is_flag=True, help="Jobs that have not started are mapped afresh at each event.")
@click.option("--late", type=click.Choice(["run", "stop", "drop"]), default="run", show_default=True, help="Late jobs.")
@click.option("--compute-unit", type=float, help="Time of 1 MI at speed 1. Default: the platform's, 1, or 0.006 drawn.")
@click.option("--transfer-unit", type=float, help="Time of 1 MB at bandwidth 1. Default: as above, or 0.0006 drawn.")
@click.option(
    "--slack", type=float, default=2.0, show_default=True, help="Of a log: deadline = submit + slack x limit."
)
@click.option("--reference-speed", type=float, default=1000.0, show_default=True, help="Of a log: MI/s of its machine.")
@click.option("--first", type=click.IntRange(min=1), help="Of a log or CSV: only the first jobs.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes. Default: the processors at hand.")
@click.option("--page", type=click.Path(path_type=Path), help="Also write a page: Gantt, load, unfinished over time.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def simulate_command(**given: Any) -> None:
    """Let jobs arrive, map them, and print unfinished jobs, mean wait and mean makespan (response time) per setting.

    `all` leaves out search and exact, which take about a second and a minute a mapping.

    \b
    batchcast grid simulate --jobs 2000 --rate 20:30:2 --heuristic min_min,emin_min --runs 3
    batchcast grid simulate --jobs log.swf.gz --platform grid.toml --heuristic emin_min --every events
    """
    from ..grid.clock import Mapping as Shape

    every = None if given["every"] == "events" else _number("--every", given["every"])
    shape = Shape(every, given["remap"], given["late"])
    specs = _specs(given["heuristics"], ("exact", "search"))
    settings: dict[str, Any] = {
        "heuristic": specs, "every": "events" if every is None else every, "remap": shape.remap, "late": shape.late,
        "seed": given["seed"],
    }  # fmt: skip
    run = _drawn if given["jobs"].isdigit() else _given
    warnings, results, log, shown = run(given, specs, shape, settings)
    if given["page"] is not None:
        from ..report.grid import run_page

        jobs, resources, outcomes = shown()
        _write(given["page"], run_page(jobs, resources, outcomes, results, {"log": log, "settings": settings}))
        say(f"page: {given['page']}")
    if given["as_json"]:
        emit(document("grid-simulate", log, settings, warnings, results))
    else:
        from ..report.terminal import show

        show(console(), simulated_tables(results))
        for sentence in warnings:
            say(f"note: {sentence}")
        say(f"seed {given['seed']}; assigned + unfinished = submitted in every row; ± is the 95 % interval over runs")


Shown = Callable[[], tuple[Any, Any, dict[str, Any]]]
Found = tuple[list[str], list[dict[str, Any]], dict[str, Any], Shown]


def _drawn(given: Mapping[str, Any], specs: Sequence[str], shape: Any, settings: dict[str, Any]) -> Found:
    """The published experiment's jobs, drawn: every rate, p and q."""
    import numpy as np

    from ..evaluate.grid_study import Study, one_run, run_study
    from ..grid.model import Units
    from ..grid.workload import Setting, draw

    if given["platform"] is not None:
        raise UsageError("--platform goes with jobs from a file", hint="--jobs FILE.csv or a log")
    count = int(given["jobs"])
    if count < 1:
        raise UsageError("--jobs 0: an empty workload (accepted: a number from 1, or a file)")
    units = Units(
        *(d if given[k] is None else given[k] for k, d in (("compute_unit", 0.006), ("transfer_unit", 0.0006)))
    )
    _check_units(units)
    rates = numbers("--rate", given["rate"], above=0.0)
    shares = [numbers(f"--{k.replace('_', '-')}", given[k], most=1.0) for k in ("data_share", "large_share")]
    cells = [Setting(r, p, q) for r in rates for p in shares[0] for q in shares[1]]
    study = Study(cells, specs, shape, units, count, given["resources"], given["runs"], given["seed"])
    settings |= {"jobs": count, "resources": given["resources"], "runs": given["runs"], "rate": rates}
    settings |= {"data_share": shares[0], "large_share": shares[1]}
    settings |= {"compute_unit": units.compute, "transfer_unit": units.transfer}
    with progress("simulating", len(cells) * study.runs) as tick:
        results = run_study(study, workers=given["workers"] or os.cpu_count() or 1, tick=tick)

    def shown() -> tuple[Any, Any, dict[str, Any]]:
        jobs, grid = draw(cells[-1], np.random.default_rng([study.seed, 0]), jobs=count, resources=study.resources)
        made = {spec: one_run(jobs, grid, spec, shape, units, cells[-1].data_share)[0] for spec in specs}
        return jobs, grid, made

    return [], results, {"source": "drawn", "jobs": count}, shown


def _given(given: Mapping[str, Any], specs: Sequence[str], shape: Any, settings: dict[str, Any]) -> Found:
    """Jobs and resources from files: one run a heuristic."""
    from ..evaluate.grid_study import one_run
    from ..grid.measures import over_runs

    jobs, resources, units, warnings = _read(given)
    settings |= {"compute_unit": units.compute, "transfer_unit": units.transfer, "jobs": len(jobs)}
    settings |= {
        "slack": given["slack"],
        "reference_speed": given["reference_speed"],
        "platform": str(given["platform"]),
    }
    results, outcomes = [], {}
    with progress("simulating", len(specs)) as tick:
        for done, spec in enumerate(specs, start=1):
            outcomes[spec], row = one_run(jobs, resources, spec, shape, units)
            results.append({"heuristic": spec, **over_runs([row])})
            tick(done)
    why = outcomes[specs[0]].why
    for reason in sorted(set(why.values())):
        rows = [k for k, words in why.items() if words == reason]
        warnings.append(f"{len(rows)} jobs rejected: {reason} (first: {jobs.ids[rows[0]]!r})")
    if (jobs.deadline <= jobs.arrival).any():
        past = int((jobs.deadline <= jobs.arrival).sum())
        warnings.append(f"{past} jobs arrive at or after their deadline; they count as unfinished")
    log = {"source": given["jobs"], "jobs": len(jobs), "resources": len(resources)}
    return warnings, results, log, lambda: (jobs, resources, outcomes)


def _read(given: Mapping[str, Any]) -> tuple[Jobs, Resources, Units, list[str]]:
    from ..grid.model import Units
    from ..trace import read_trace
    from ..trace.grid_files import jobs_from_log, read_jobs, read_platform

    if given["platform"] is None:
        raise UsageError("jobs from a file need --platform (TOML or CSV)", hint="id, speed and bandwidth a resource")
    for name in ("slack", "reference_speed"):
        if not given[name] > 0:
            raise UsageError(f"--{name.replace('_', '-')} {given[name]:g} (accepted: a number above 0)")
    resources, platform_units = read_platform(given["platform"])
    default = platform_units or Units(1.0, 1.0)
    units = Units(given["compute_unit"] or default.compute, given["transfer_unit"] or default.transfer)
    _check_units(units)
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
            f"{given['platform']}: a log's jobs ask for processors, and no resource has an attribute procs",
            hint="[resource.attributes] procs = 64 (TOML) or a column procs (CSV)",
        )
    return jobs.first(given["first"]), resources, units, warnings


def simulated_tables(results: Sequence[Mapping[str, Any]]) -> list[Table]:
    """One table: a row a setting and heuristic."""
    from ..report.blocks import Table, TableColumn

    def spread(row: Mapping[str, Any], name: str, digits: int) -> str:
        wide = row.get(f"{name}_ci95")
        return f"{row[name]:,.{digits}f}" + (f" ± {wide:.{digits}f}" if wide is not None and wide == wide else "")

    rows = []
    for row in results:
        made = {
            name: spread(row, name, digits)
            for name, digits in (("unfinished", 1), ("mean_wait", 4), ("mean_makespan", 4))
        }
        rows.append(dict(row) | {f"{name}_text": words for name, words in made.items()})
    drawn = [
        TableColumn(k, k.replace("_", " "), "number") for k in ("rate", "data_share", "large_share") if k in results[0]
    ]
    columns = [
        *drawn,
        TableColumn("heuristic", "heuristic"),
        TableColumn("assigned", "assigned", "number", "finished in time", minor=True),
        TableColumn("unfinished_text", "unfinished"),
        TableColumn("mean_wait_text", "mean wait"),
        TableColumn("mean_makespan_text", "mean makespan"),
        TableColumn("decision_ms_per_job", "decided in, ms a job", "ratio", minor=True),
    ]
    return [Table("Grid: unfinished jobs, mean wait and mean makespan (response time)", columns, rows)]


def numbers(option: str, text: str, *, above: float = -1.0, most: float = float("inf")) -> list[float]:
    """`FROM:TO:STEP` (both ends in) or a comma list, each in range.

    >>> numbers("--rate", "20:30:5"), numbers("--data-share", ".3,.5", most=1.0)
    ([20.0, 25.0, 30.0], [0.3, 0.5])
    """
    parts = text.split(":")
    if len(parts) == 3:
        low, high, step = (_number(option, part) for part in parts)
        if not step > 0 or high < low or (high - low) / step > 1000:
            raise UsageError(f"{option} {text!r} (accepted: FROM:TO:STEP, ascending, or a comma list)")
        found = [round(low + k * step, 12) for k in range(int((high - low) / step + 1e-9) + 1)]
    else:
        found = [_number(option, part) for part in text.split(",")]
    wrong = [v for v in found if not (max(above, 0.0) <= v <= most and v > above)]
    if wrong:
        raise UsageError(
            f"{option}: {wrong[0]:g} is out of range (accepted: above {max(above, 0):g}, at most {most:g})"
        )
    return found


def _specs(text: str, left_out: Sequence[str]) -> list[str]:
    """The heuristics asked for; `all` leaves out those that take too long a mapping, which can be named."""
    from ..predict.registry import available, load, parse_spec, split_specs

    every = [name for name in available("heuristic") if name not in left_out]
    specs = list(every) if text.strip() == "all" else split_specs(text, "heuristic")
    if not specs:
        raise UsageError("--heuristic names none", hint="--heuristic all")
    for spec in specs:
        load("heuristic", parse_spec(spec)[0])
    return specs


def _check_units(units: Units) -> None:
    if not (units.compute > 0 and units.transfer > 0):
        raise UsageError("--compute-unit and --transfer-unit are times above 0")


def _number(option: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is not a number") from None
    if value != value or abs(value) == float("inf"):
        raise UsageError(f"{option}: {text!r} is not a finite number")
    return value


def _alarm(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() > end


def _write(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".part")
    beside.write_text(text)
    os.replace(beside, path)
