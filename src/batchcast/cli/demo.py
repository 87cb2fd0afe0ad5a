"""`batchcast demo`: the main job on the bundled synthetic workload."""

from __future__ import annotations

from typing import Any

import click

from .options import Log
from .output import say


@click.command("demo")
@click.option(
    "-o",
    "--output",
    default="demo-report",
    show_default=True,
    type=click.Path(),
    metavar="FOLDER",
    help="Where the report goes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print result.json as well, instead of tables.")
def command(output: str, as_json: bool) -> None:
    """Evaluate a small synthetic workload that comes with batchcast, to see what a report looks like.

    The users are invented: they come in sessions, repeat applications and pad their limits.
    """
    import numpy as np

    from ..trace import demo_path, read_trace
    from .evaluate import command as evaluate
    from .evaluate import run
    from .planners import take_plan

    trace = read_trace(str(demo_path()))
    say(f"note: a synthetic workload of {len(trace):,} jobs; your own: batchcast evaluate LOG -o report/")
    info = trace.info
    settings = {
        "timezone": info.timezone,
        "procs": "req",
        "machine_procs": info.max_procs,
        "machine_procs_source": info.max_procs_source,
    }
    given: dict[str, Any] = {"output": output, "as_json": as_json, "seed": 0}
    usual = evaluate.make_context("evaluate", [str(demo_path())]).params
    plan, chosen = take_plan({name: value for name, value in usual.items() if name not in given})
    log = Log(trace, {**settings, **chosen}, [*info.notes, SYNTHETIC])
    title = "Demo: how forecasts would serve a synthetic cluster"
    run(log, np.ones(len(trace), bool), plan, given, title, SYNTHETIC)


SYNTHETIC = (
    "This is a synthetic workload. Its recorded waits were made by the same simulator under EASY, so that recorded and "
    "simulated waits agree by construction; with a real log they show how far the simulation may be trusted."
)
