# SPDX-License-Identifier: Apache-2.0
"""`batchcast grid`: map jobs onto the resources of a grid, once (`map`) or as they arrive (`simulate`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ...cli.grammar import Verbs
from ...cli.output import console, document, emit, note, say, write_text
from ...errors import UsageError
from . import verb_simulate as simulating
from .verb_serve import command as serve

if TYPE_CHECKING:
    from .model import Batch, Plan

UNBOUNDED = 10**12


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
@click.argument("matrix", type=simulating.FILE, required=False)
@simulating.heuristics_option
@click.option("--jobs", "jobs_file", type=simulating.FILE, help=JOBS_HELP)
@click.option("--platform", type=simulating.FILE, help=PLATFORM_HELP)
@click.option("--bandwidth", metavar="LIST", help=BANDWIDTH_HELP)
@click.option("--seconds", type=float, help="CPU seconds of search (default 0.9) and exact (default 48).")
@click.option("--plan", type=simulating.FILE, help="Write the last heuristic's plan as CSV.")
@simulating.json_option
def map_command(heuristics: str, seconds: float | None, plan: Path | None, as_json: bool, **files: Any) -> None:
    """Map the jobs of MATRIX (expected times in the form of Braun et al., gzip or plain) onto its resources.

    Without MATRIX, map the jobs of --jobs onto the resources of --platform, all at once: at the last arrival.

    \b
    batchcast grid map u_c_hihi.0.etc.gz --heuristic min_min,search --json
    batchcast grid map u_c_hihi.0.etc.gz --jobs jobs.csv --bandwidth 125 --heuristic emin_min,ebest,best_fit
    batchcast grid map --jobs jobs.csv --platform grid.toml --heuristic emin_min,min_min --plan plan.csv
    """

    if seconds is not None and not seconds > 0:
        raise UsageError(f"--seconds {seconds:g} (accepted: a number above 0)")
    specs = simulating.heuristics_named(heuristics, ("exact", "by_preference"))
    given = _input_of(**files)
    batch, notes = given.batch, given.notes
    n, m = batch.times.shape
    bound = _bound(batch)
    mapped = [_mapped(batch, spec, seconds, bound, given.has_deadlines) for spec in specs]
    results, plans = [row for row, _ in mapped], [of_spec for _, of_spec in mapped if of_spec is not None]
    left_out = [f"{row['heuristic']} left out: {row['note']}" for row in results if "note" in row]
    notes += simulating.lacks_prices(specs, batch.price is not None) + left_out
    if not plans:
        raise UsageError(left_out[0])
    if plan is not None:
        write_text(plan, _plan_csv(given, plans[-1]))
    settings = {"heuristic": specs, "seconds": seconds, "jobs": n, "resources": m, "bandwidth": files["bandwidth"]}
    settings |= {"deadlines": str(files["jobs_file"] or "none")}
    settings |= {"platform": str(files["platform"])} if files["platform"] else {}
    if as_json:
        log = {"source": str(given.source), "jobs": n, "resources": m}
        emit(document("grid-map", log, settings, notes, results))
        return
    _show_map(f"{given.source.name} · {n} jobs on {m} resources · lower bound {bound:,.1f}", results)
    note(*notes)
    say(*(f"{row['heuristic']}: seed {row['seed']}" for row in results if "seed" in row))


class MapInput(NamedTuple):
    """The jobs and resources of `grid map`: the file, the batch, the ids of its jobs and resources, whether jobs have
    deadlines, and messages."""

    source: Path
    batch: Batch
    jobs: Sequence[Any]
    resources: Sequence[Any]
    has_deadlines: bool
    notes: list[str]


def _input_of(matrix: Path | None, jobs_file: Path | None, platform: Path | None, bandwidth: str | None) -> MapInput:
    """Return the jobs and resources of a matrix, or of a platform."""
    if matrix is not None and platform is None:
        return _of_matrix(matrix, jobs_file, bandwidth)
    if platform is not None and matrix is None:
        return _of_platform(jobs_file, platform, bandwidth)
    what = "neither MATRIX nor --platform" if matrix is None else "MATRIX and --platform"
    hint = "grid map --jobs jobs.csv --platform grid.toml"
    raise UsageError(f"grid map: {what} (accepted: one of them)", hint=hint)


def _bound(batch: Batch) -> float:
    """Return a lower bound on the makespan of every plan."""
    import numpy as np

    from .heuristics.search import bounded

    times, free = batch.times, batch.free
    if np.isfinite(times).all():
        return bounded(times, free)[0]
    # a job runs on a resource that can run it, so the mean of the least times bounds the makespan
    return float(max((free + times).min(axis=1).max(), (free.sum() + times.min(axis=1).sum()) / len(free)))


def _plan_csv(given: MapInput, plan: Plan) -> str:
    """Return a plan as CSV, one row per job in the plan's order."""
    from .model import timed

    jobs, resources, (starts, finishes) = given.jobs, given.resources, timed(given.batch, plan)
    lines = [f"{jobs[j]},{resources[plan.resource[j]]},{starts[j]:.6f},{finishes[j]:.6f}" for j in plan.order.tolist()]
    return "\n".join(["job,resource,start,finish", *lines, ""])


def _of_platform(jobs_file: Path | None, platform: Path, bandwidth: str | None) -> MapInput:
    """Return all jobs and the resources of a platform, at the last arrival, with messages about omitted jobs."""
    import numpy as np

    from .files import read_jobs, read_platform
    from .model import Batch, Model

    if jobs_file is None:
        hint = "columns id, instructions, file_mb, arrival, deadline"
        raise UsageError("--platform goes with --jobs FILE", hint=hint)
    if bandwidth is not None:
        raise UsageError("--bandwidth goes with MATRIX: --platform has a bandwidth for each resource")
    jobs, (resources, units) = read_jobs(jobs_file), read_platform(platform)
    faults = jobs.faults()
    notes = [f"job {jobs.ids[row]} left out: {why}" for row, why in sorted(faults.items())]
    rows = np.setdiff1d(np.arange(len(jobs)), list(faults))
    times = Model(jobs, resources, units).rows(rows)
    fits = np.isfinite(times).any(axis=1)
    notes += [f"job {jobs.ids[row]} left out: no resource meets its demands" for row in rows[~fits].tolist()]
    rows, times = rows[fits], times[fits]
    if not len(rows):
        raise UsageError(f"{jobs_file}: no job that a resource of {platform} can run", hint="; ".join(notes[:3]))
    now, deadline = float(jobs.arrival[rows].max()), jobs.deadline[rows]
    batch = Batch.of_times(times, free=resources.free, deadline=deadline, now=now)._replace(
        arrival=jobs.arrival[rows], speed=resources.speed, bandwidth=resources.bandwidth,
        price=resources.attributes.get("price"), cost_weight=jobs.cost_weight[rows],
    )  # fmt: skip
    ids = [jobs.ids[row] for row in rows.tolist()]
    return MapInput(jobs_file, batch, ids, resources.ids, bool(np.isfinite(deadline).any()), notes)


def _of_matrix(matrix: Path, jobs_file: Path | None, bandwidth: str | None) -> MapInput:
    """Return the jobs and resources of a matrix of times, to which the times of file transfers are added."""
    import numpy as np

    from .files import read_map_jobs, read_matrix
    from .model import Batch

    times, deadline = read_matrix(matrix), None
    n, m = times.shape
    if jobs_file is not None:
        deadline, file_mb = read_map_jobs(jobs_file, n)
        if bandwidth is None and (file_mb > 0).any():
            raise UsageError(f"{jobs_file} has file sizes: how fast are files?", hint="--bandwidth 125, MB a time unit")
    if bandwidth is not None:
        if deadline is None:
            raise UsageError("--bandwidth goes with --jobs FILE that has a column file_mb")
        speeds = np.array(simulating.numbers("--bandwidth", bandwidth, above=0.0))
        if len(speeds) not in (1, m):
            raise UsageError(f"--bandwidth has {len(speeds)} values (accepted: 1, or {m}, one a resource)")
        times = times + file_mb[:, None] / speeds
    return MapInput(matrix, Batch.of_times(times, deadline=deadline), range(n), range(m), deadline is not None, [])


def _mapped(
    batch: Batch, spec: str, seconds: float | None, bound: float, has_deadlines: bool
) -> tuple[dict[str, Any], Plan | None]:
    """Return a heuristic's results and its plan; if the heuristic cannot be used, a row with the reason (`note`), and
    None."""
    import numpy as np

    from ...predict.registry import load, make, parse_spec
    from .model import Batch, makespan, timed

    name, parameters = parse_spec(spec)
    if not has_deadlines and (why := simulating.needs_deadlines(spec)):
        return {"heuristic": spec, "note": why}, None
    slow = getattr(load("heuristic", name), "slow", False)
    given: dict[str, Any] = {"seconds": seconds} if seconds and slow else {}
    method = make("heuristic", spec, **given)
    if not slow:
        make("heuristic", spec).assign(Batch.of_times(batch.times[:3]))  # compiles, before timing
    began = time.perf_counter()
    if hasattr(method, "stop"):
        method.stop = lambda: time.perf_counter() > began + (seconds or 0.9)
        if seconds is not None and "kicks" not in parameters:
            method.kicks = UNBOUNDED  # only the requested time limit ends the search
    if hasattr(method, "left"):
        method.kicks, method.beside = UNBOUNDED, _in_a_thread
        method.left = lambda: began + method.seconds - time.perf_counter()
    try:
        plan, proved = method.solve(batch) if hasattr(method, "solve") else (method.assign(batch), bound)
    except UsageError as error:
        return {"heuristic": spec, "note": str(error)}, None
    took = time.perf_counter() - began
    length, bound = makespan(batch, plan), max(bound, proved)
    over = length / bound - 1 if len(plan.order) == len(batch.times) else np.nan
    row: dict[str, Any] = {"heuristic": spec, "makespan": length, "lower_bound": bound, "over_bound": over}
    row |= {"mapped": len(plan.order), "decision_s": took}
    if has_deadlines:
        finish = timed(batch, plan)[1]
        row |= {"in_time": int(np.sum(finish <= batch.deadline)), "mean_finish": float(np.nanmean(finish))}
    if batch.price is not None:
        ran, where = plan.order, plan.resource[plan.order]
        row |= {"cost": float((batch.price[where] * batch.times[ran, where]).sum())}
    return row | ({"seed": method.seed} if hasattr(method, "seed") else {}), plan


def _in_a_thread(task: Callable[[], None]) -> Callable[[float], None]:
    """Start the task in a thread; the returned function waits at most the given seconds, and Ctrl-C interrupts it."""
    from concurrent.futures import Future
    from contextlib import suppress
    from threading import Thread

    done: Future[None] = Future()

    def run() -> None:
        try:
            task()
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    Thread(target=run, daemon=True).start()

    def ended(seconds: float) -> None:
        with suppress(TimeoutError):
            done.result(seconds)

    return ended


def _show_map(title: str, results: Sequence[Mapping[str, Any]]) -> None:
    from ...report.blocks import Table
    from ...report.terminal import show
    from ..shared import columns_of

    has = {key for row in results for key in row}
    columns = columns_of(
        "heuristic", "text|makespan", "over_bound|over the bound|share",
        *["in_time|in time|count", "mapped|mapped|count"] * ("in_time" in has),
        *["cost|cost|number"] * ("cost" in has), "decision_s|decided in, s|ratio",
    )  # fmt: skip
    rows = [dict(row) | {"text": f"{row['makespan']:,.1f}"} for row in results if "note" not in row]
    show(console(), [Table(title, columns, rows)])


@command.command("draw")
@simulating.setting("--jobs", type=simulating.COUNT, default=512, help="Number of jobs (rows).")
@simulating.setting("--resources", type=simulating.COUNT, default=16, help="Number of resources (columns).")
@simulating.setting("--kind", default="c_hihi", help="Kind of matrix: c, i or s, then hi or lo twice (c_hihi).")
@simulating.setting(
    "--ranges", type=click.Choice(["braun", "ali"]), default="braun", help="Upper ends of the random draws."
)
@click.option("--whole", is_flag=True, help="Draw whole numbers, so that many times are equal.")
@simulating.setting("--seed", type=simulating.SEED, default=1, help="Random seed.")
@click.option("-o", "--output", required=True, type=simulating.FILE, help="Output file.")
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


command.add_command(simulating.command)
command.add_command(serve)
