"""`batchcast grid`: map jobs onto the resources of a grid, once (`map`) or as they arrive (`simulate`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..errors import UsageError
from .grid_simulate import SPECS, heuristics_named
from .grid_simulate import command as simulate
from .output import console, document, emit, say, write_text

UNBOUNDED = 10**12


@click.group(short_help="Map jobs onto a grid's resources: deadlines, data, heuristics.")
def command() -> None:
    """Grids: many space-shared resources, jobs with files and deadlines, mapping heuristics."""


@command.command("map")
@click.argument("matrix", type=click.Path(path_type=Path))
@click.option("--heuristic", "heuristics", default="all", show_default=True, metavar="SPECS", help=SPECS)
@click.option("--seconds", type=float, help="Time box of search (default 0.9) and exact (default 48).")
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
    specs = heuristics_named(heuristics, ("exact",))
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
            if seconds is not None and "kicks" not in parse_spec(spec)[1]:
                method.kicks = UNBOUNDED  # a time box that was asked for is the only end
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
        write_text(plan, "\n".join(lines) + "\n")
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


def _alarm(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() > end


command.add_command(simulate)
