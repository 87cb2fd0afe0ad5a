# SPDX-License-Identifier: Apache-2.0
"""The work of `grid map` and `grid simulate`: reads options, jobs and resources, runs heuristics, and lays out the
results."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from batchcast.broker.clock import REASONS, MappingRule, Run
from batchcast.broker.model import Batch, Jobs, Model, Plan, Resources, Setting, Units, makespan, timed
from batchcast.broker.serving import finite_number
from batchcast.cli.output import progress, say
from batchcast.errors import UsageError
from batchcast.predict.registry import available, load, make, parse_spec, split_specs
from batchcast.units import counted

from .study import Study, drawn_run, one_run, over_runs, run_study

UNBOUNDED = 10**12
SECONDS_A_JOB = 71 / 8.4e6
"""Measured for one heuristic: the default settings, 84 rows of ten runs of 10,000 jobs, took 71 s on two busy cores."""


def numbers(option: str, text: str, *, above: float = -1.0, most: float = float("inf")) -> list[float]:
    """Parse `FROM:TO:STEP` (both ends included) or a comma list, and check the range of each number.

    >>> numbers("--rate", "20:30:5"), numbers("--data-share", ".3,.5", most=1.0)
    ([20.0, 25.0, 30.0], [0.3, 0.5])
    """
    parts = text.split(":")
    if len(parts) == 3:
        low, high, step = (finite_number(option, part) for part in parts)
        if not step > 0 or high < low or (high - low) / step > 1000:
            raise UsageError(f"{option} {text!r} (accepted: FROM:TO:STEP, ascending, or a comma list)")
        values = [round(low + k * step, 12) for k in range(int((high - low) / step + 1e-9) + 1)]
    else:
        values = [finite_number(option, part) for part in text.split(",")]
    for value in values:
        if not (max(above, 0.0) <= value <= most and value > above):
            accepted = f"above {max(above, 0):g}, at most {most:g}"
            raise UsageError(f"{option}: {value:g} is out of range (accepted: {accepted})")
    return values


def heuristics_named(text: str, left_out: Sequence[str]) -> list[str]:
    """Return the requested heuristics, each once; `all` omits slow heuristics, which must be named."""
    every = [name for name in available("heuristic") if name not in left_out]
    pieces = [piece.strip() for piece in text.split(",")]
    named = split_specs(",".join(piece for piece in pieces if piece != "all"), "heuristic")
    specs = list(dict.fromkeys([*(every if "all" in pieces else ()), *named]))
    if not specs:
        raise UsageError("--heuristic names none", hint="--heuristic all")
    for spec in specs:
        load("heuristic", parse_spec(spec)[0])
    return specs


class MapInput(NamedTuple):
    """The jobs and resources of `grid map`: the file, the batch, the ids of its jobs and resources, and messages."""

    source: Path
    batch: Batch
    jobs: Sequence[Any]
    resources: Sequence[Any]
    notes: list[str]


def input_of(matrix: Path | None, jobs_file: Path | None, platform: Path | None, bandwidth: str | None) -> MapInput:
    """Return the jobs and resources of a matrix, or of a platform."""
    if matrix is not None and platform is None:
        return _of_matrix(matrix, jobs_file, bandwidth)
    if platform is not None and matrix is None:
        return _of_platform(jobs_file, platform, bandwidth)
    what = "neither MATRIX nor --platform" if matrix is None else "MATRIX and --platform"
    hint = "grid map --jobs jobs.csv --platform grid.toml"
    raise UsageError(f"grid map: {what} (accepted: one of them)", hint=hint)


def makespan_bound(batch: Batch) -> float:
    """Return a lower bound on the makespan of every plan."""
    from .heuristics.search import bounded

    times, free = batch.times, batch.free
    if np.isfinite(times).all():
        return bounded(times, free)[0]
    # a job runs on a resource that can run it, so the mean of the least times bounds the makespan
    return float(max((free + times).min(axis=1).max(), (free.sum() + times.min(axis=1).sum()) / len(free)))


def plan_csv(map_input: MapInput, plan: Plan) -> str:
    """Return a plan as CSV, one row per job in the plan's order."""
    jobs, resources, (starts, finishes) = map_input.jobs, map_input.resources, timed(map_input.batch, plan)
    lines = [f"{jobs[j]},{resources[plan.resource[j]]},{starts[j]:.6f},{finishes[j]:.6f}" for j in plan.order.tolist()]
    return "\n".join(["job,resource,start,finish", *lines, ""])


def _of_platform(jobs_file: Path | None, platform: Path, bandwidth: str | None) -> MapInput:
    """Return all jobs and the resources of a platform, at the last arrival, with messages about omitted jobs."""
    from batchcast.broker.files import read_platform

    from .files import read_jobs

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
    return MapInput(jobs_file, batch, ids, resources.ids, notes)


def _of_matrix(matrix: Path, jobs_file: Path | None, bandwidth: str | None) -> MapInput:
    """Return the jobs and resources of a matrix of times, to which the times of file transfers are added."""
    from .files import read_map_jobs, read_matrix

    times, deadline = read_matrix(matrix), None
    n, m = times.shape
    if jobs_file is not None:
        deadline, file_mb = read_map_jobs(jobs_file, n)
        if bandwidth is None and (file_mb > 0).any():
            raise UsageError(f"{jobs_file} has file sizes: how fast are files?", hint="--bandwidth 125, MB a time unit")
    if bandwidth is not None:
        if deadline is None:
            raise UsageError("--bandwidth goes with --jobs FILE that has a column file_mb")
        speeds = np.array(numbers("--bandwidth", bandwidth, above=0.0))
        if len(speeds) not in (1, m):
            raise UsageError(f"--bandwidth has {len(speeds)} values (accepted: 1, or {m}, one a resource)")
        times = times + file_mb[:, None] / speeds
    return MapInput(matrix, Batch.of_times(times, deadline=deadline), range(n), range(m), [])


def mapped(batch: Batch, spec: str, seconds: float | None, bound: float) -> tuple[dict[str, Any], Plan | None]:
    """Return a heuristic's results and its plan; if the heuristic cannot be used, a row with the reason (`note`), and
    None."""
    (name, parameters), has_deadlines = parse_spec(spec), bool(np.isfinite(batch.deadline).any())
    if not has_deadlines and (why := needs_deadlines(spec)):
        return {"heuristic": spec, "note": why}, None
    slow = getattr(load("heuristic", name), "slow", False)
    options: dict[str, Any] = {"seconds": seconds} if seconds and slow else {}
    method = make("heuristic", spec, **options)
    if not slow:
        make("heuristic", spec).assign(Batch.of_times(batch.times[:3]))  # compiles, before timing
    began = perf_counter()
    if hasattr(method, "stop"):
        method.stop = lambda: perf_counter() > began + (seconds or 0.9)
        if seconds is not None and "kicks" not in parameters:
            method.kicks = UNBOUNDED  # only the requested time limit ends the search
    if hasattr(method, "left"):
        method.kicks, method.start_task = UNBOUNDED, _in_a_thread
        method.left = lambda: began + method.seconds - perf_counter()
    try:
        plan, proved = method.solve(batch) if hasattr(method, "solve") else (method.assign(batch), bound)
    except UsageError as error:
        return {"heuristic": spec, "note": str(error)}, None
    took = perf_counter() - began
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
    from threading import Thread

    thread = Thread(target=task, daemon=True)
    thread.start()
    return thread.join


Simulated = tuple[list[str], list[dict[str, Any]], dict[str, Any], Callable[[], dict[str, Run]]]
"""Warnings, results (a row per setting and heuristic), a description of the jobs, and a function that returns each
heuristic's first run of the last setting."""


def simulate_drawn(
    options: Mapping[str, Any], specs: Sequence[str], rule: MappingRule, settings: dict[str, Any]
) -> Simulated:
    """Simulate the published experiment's random jobs at every rate, p and q."""
    if options["platform"] is not None:
        raise UsageError("--platform goes with jobs from a file", hint="--jobs FILE.csv or a log")
    count = int(options["jobs"])
    if count < 1:
        raise UsageError(f"--jobs {count}: an empty workload (accepted: a number from 1, or a file)")
    units = _units(options, Units())
    drawn = {"rate": numbers("--rate", options["rate"], above=0.0)}
    drawn |= {k: numbers(f"--{k.replace('_', '-')}", options[k], most=1.0) for k in ("data_share", "large_share")}
    cells = [Setting(*values) for values in product(*drawn.values())]
    study = Study(cells, specs, rule, units, count, options["resources"], options["runs"], options["seed"])
    settings |= {"jobs": count, "resources": study.resources, "runs": study.runs, **drawn}
    settings |= {"compute_unit": units.compute, "transfer_unit": units.transfer}
    simulations = len(cells) * len(specs) * study.runs
    seconds = simulations * count * SECONDS_A_JOB
    words = f"{simulations:,} simulations of {count:,} jobs ({len(specs)} heuristics, {study.runs} runs each)"
    time = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"
    say(f"{words}: about {time} on two cores; fewer --jobs, --runs or --heuristic take less")
    with progress("simulating", len(cells) * study.runs) as tick:
        results = run_study(study, workers=options["workers"], tick=tick)

    @cache
    def outcomes() -> dict[str, Run]:
        return {spec: outcome for spec, outcome, _ in drawn_run(study, cells[-1], 0)}

    return [], results, {"source": "drawn", "jobs": count}, outcomes


def simulate_from_files(
    options: Mapping[str, Any], specs: Sequence[str], rule: MappingRule, settings: dict[str, Any]
) -> Simulated:
    """Simulate jobs and resources from files: one run per heuristic."""
    jobs, resources, units, warnings = _read(options)
    if not np.isfinite(jobs.deadline).any():
        notes = [f"{spec} left out: {without}" for spec in specs if (without := needs_deadlines(spec))]
        if len(notes) == len(specs):
            raise UsageError(notes[0])
        specs = [spec for spec in specs if not needs_deadlines(spec)]
        warnings += notes
    price = resources.attributes.get("price")
    warnings += lacks_prices(specs, price is not None)
    settings |= {"compute_unit": units.compute, "transfer_unit": units.transfer, "jobs": len(jobs)}
    settings |= {name: options[name] for name in ("slack", "reference_speed")} | {"platform": str(options["platform"])}
    results, outcomes, study = [], {}, Study((), specs, rule, units)
    with progress("simulating", len(specs)) as tick:
        for done, spec in enumerate(specs, start=1):
            one_run(jobs.first(1), resources, spec, study)  # compiles, before timing
            outcomes[spec], row = one_run(jobs, resources, spec, study)
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
    log = {"source": options["jobs"], "jobs": len(jobs), "resources": len(resources)}
    return warnings, results, log, lambda: outcomes


def _read(options: Mapping[str, Any]) -> tuple[Jobs, Resources, Units, list[str]]:
    """Return the jobs of a CSV or a log, the platform's resources and units, and warnings."""
    from batchcast.broker.files import read_platform
    from batchcast.trace import read_trace

    from .files import jobs_from_log, read_jobs

    if options["platform"] is None:
        raise UsageError("jobs from a file need --platform (TOML or CSV)", hint="id, speed and bandwidth a resource")
    for name in ("slack", "reference_speed"):
        if not options[name] > 0:
            raise UsageError(f"--{name.replace('_', '-')} {options[name]:g} (accepted: a number above 0)")
    resources, units = read_platform(options["platform"])
    units = _units(options, units)
    if options["jobs"].lower().endswith(".csv"):
        return read_jobs(options["jobs"]).first(options["first"]), resources, units, []
    trace = read_trace(options["jobs"])
    jobs = jobs_from_log(trace, reference_speed=options["reference_speed"], slack=options["slack"])
    warnings = [
        "of a log: instructions = run time x reference speed, deadline = submit + slack x limit, "
        f"procs of a resource at least the job's; {len(trace) - len(jobs)} jobs that never ran were left out"
    ]
    if "procs" not in resources.attributes:
        raise UsageError(
            f"{options['platform']}: the log's jobs request processors, but no resource has an attribute procs",
            hint="[resource.attributes] procs = 64 (TOML) or a column procs (CSV)",
        )
    return jobs.first(options["first"]), resources, units, warnings


def outcomes_csv(outcomes: Mapping[str, Run]) -> str:
    """Return one row per heuristic and job: outcome, reason, and when the outcome was decided."""
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


def lacks_prices(specs: Sequence[str], has_prices: bool) -> list[str]:
    """Return a warning for each heuristic that weighs cost, if the resources have no prices.

    >>> lacks_prices(["by_preference:cost=.3", "min_min"], False)[0][:53]
    'by_preference:cost=.3: no resource has a price, so on'
    """
    words = "no resource has a price, so only time counts; `price = 2.5` in [[resource]] is the cost of a time unit"
    return [] if has_prices else [f"{spec}: {words}" for spec in specs if spec.partition(":")[0] == "by_preference"]


def needs_deadlines(spec: str) -> str:
    """Return the reason why a heuristic cannot be used without deadlines; empty if the heuristic can be used.

    >>> needs_deadlines("ebest:reading=job")[:41], needs_deadlines("min_min")
    ('it looks for the latest end within the de', '')
    """
    if spec.partition(":")[0] not in ("ebest", "best_fit"):
        return ""
    return "it looks for the latest end within the deadline, and there are none: --jobs FILE.csv with a column deadline"


def _units(options: Mapping[str, Any], default: Units) -> Units:
    """Return the time units of --compute-unit and --transfer-unit, with a default for each."""
    units = {name: options[f"{name}_unit"] for name in ("compute", "transfer") if options[f"{name}_unit"] is not None}
    if not all(unit > 0 for unit in units.values()):
        raise UsageError("--compute-unit and --transfer-unit are times above 0")
    return replace(default, **units)
