"""`batchcast demo`: the main job on the bundled synthetic workload."""

from __future__ import annotations

from typing import Any

import click

from .options import Log
from .output import say


@click.command("demo")
@click.option(
    "-o", "--output", default="demo-report", show_default=True, metavar="FOLDER", help="Where the report goes."
)
@click.option("--json", "as_json", is_flag=True, help="Print result.json as well, instead of tables.")
def command(output: str, as_json: bool) -> None:
    """Evaluate a small synthetic workload that comes with batchcast, to see what a report looks like.

    The users are invented: they come in sessions, repeat applications and pad their limits.
    """
    import numpy as np

    from ..trace import demo_path, read_trace
    from .evaluate import run

    trace = read_trace(str(demo_path()))
    say(f"note: a synthetic workload of {len(trace):,} jobs; your own: batchcast evaluate LOG -o report/")
    info = trace.info
    settings = {
        "timezone": info.timezone,
        "procs": "req",
        "machine_procs": info.max_procs,
        "machine_procs_source": info.max_procs_source,
    }
    given: dict[str, Any] = {
        "output": output,
        "as_json": as_json,
        "predictors": "last_2,recent_mean",
        "policies": "easy,easy-sjbf",
        "protocol": "honest",
        "loop": "closed",
        "wide": "drop",
        "default_request": None,
        "seed": 0,
    }
    log = Log(trace, settings, [*info.notes, "a synthetic workload: no real user waited for these jobs"])
    run(log, np.ones(len(trace), bool), given, title="Demo: how forecasts would serve a synthetic cluster")
