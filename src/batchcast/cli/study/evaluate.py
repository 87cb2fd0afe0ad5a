# SPDX-License-Identifier: Apache-2.0
"""`batchcast evaluate` and `batchcast demo`.

The main job, on a log or on the bundled workload: tables, and a folder with the page, the numbers, the schedules.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..grammar import output_option, verb
from ..options import Log, log_options, predictor_options, score_options, take_log, take_score, workers_option
from ..output import console, emit, progress, say
from ..schedule_options import Plan, node_options, plan_options, settle, take_nodes, take_plan

if TYPE_CHECKING:
    import numpy as np

    from ...cluster.machine import Machine


@verb("evaluate")
@log_options
@predictor_options
@score_options
@output_option("Where the report goes.", default="report", show_default=True, metavar="FOLDER")
@plan_options("kernel,last_2,recent_mean", "easy,easy-sjbf,forecast")
@node_options
@click.option("--against", metavar="NAME", help="Compare forecasts with this method. Default recent_mean.")
@click.option("--seed", type=int, default=0, show_default=True, help="For methods that draw at random.")
@workers_option
@click.option("--json", "as_json", is_flag=True, help="Print result.json as well, instead of tables.")
def command(**given: Any) -> None:
    """Evaluate LOG: how wrong are limits, how good are forecasts, how much sooner would jobs start.

    Writes FOLDER/index.html (one self-contained page), FOLDER/result.json and FOLDER/schedules/*.csv, all of them or
    none. LOG is SWF, a `sacct -X -P` dump, a PBS accounting log, CSV or Parquet; plain, .gz, .xz, or - for stdin.

    \b
    batchcast evaluate log.swf.gz -o report/
    batchcast evaluate jobs.psv --machine machine.toml -o report/
    """
    named = click.get_current_context().get_parameter_source("policies") is click.core.ParameterSource.COMMANDLINE
    free = given["scheduler"] is None and given["machine"] is None and not named
    scheduler, machine = take_nodes(given)
    plan, chosen = take_plan(given)
    log = take_log(given)
    machine, log, mask = settle(machine, log, take_score(given, log))
    nodes = "auto" if free else scheduler, machine
    log.settings.update(chosen, scheduler=nodes[0])
    run(log, mask, plan, given, nodes=nodes)


def run(
    log: Log,
    mask: np.ndarray,
    plan: Plan,
    given: dict[str, Any],
    title: str | None = None,
    preface: str = "",
    nodes: tuple[str, Machine | None] = ("policy", None),
) -> None:
    """Evaluate a log by a plan and leave the report; `title` and `preface` head the page.

    `nodes` are the scheduler and the machine as described.
    """
    from ...evaluation.evaluation import evaluate
    from ...report.evaluation.written import fill
    from ...trace.whole_file import folder

    settings = {**log.settings, "against": given.get("against"), "seed": given["seed"]}
    command = shlex.join(["batchcast", *sys.argv[1:]])
    with folder(given["output"]) as place:
        evaluation = evaluate(
            log.trace,
            predictor=plan.predictors,
            policies=plan.policies,
            partitions=plan.partitions,
            scheduler=nodes[0],
            machine=nodes[1],
            **plan.clocks,
            against=given.get("against"),
            seed=given["seed"],
            workers=given.get("workers", 1),
            mask=mask,
            procs=log.procs,
            progress=progress,
        )
        text, sections = fill(place, evaluation, settings, log.warnings, command, title, preface)
    if given["as_json"]:
        emit(text)
        return
    from ...report.terminal import show

    out = console()
    for section in sections:
        show(out, section.blocks)
    out.print(f"\nThe report: {Path(given['output']) / 'index.html'}", markup=False, soft_wrap=True)


@verb("demo")
@output_option("Where the report goes.", default="demo-report", show_default=True, metavar="FOLDER")
@click.option("--json", "as_json", is_flag=True, help="Print result.json as well, instead of tables.")
def demo(output: str, as_json: bool) -> None:
    """Evaluate a synthetic log that comes with batchcast, to see what a report looks like.

    The machine: 10 nodes of 64 processors, 2 with 4 GPUs each, two partitions, caps by user, under Slurm. The users are
    invented: they repeat programs, submit arrays and pad their limits.
    """
    import numpy as np

    from ...trace import read_trace
    from ...trace.demo import cluster_machine, cluster_path
    from ..schedule_options import take_plan

    machine = cluster_machine()
    trace = read_trace(str(cluster_path()))
    trace = trace.with_info(replace(trace.info, max_procs=float(machine.cpus), max_procs_source="given"))
    say(f"note: a synthetic workload of {len(trace):,} jobs; your own: batchcast evaluate LOG -o report/")
    info = trace.info
    settings = {
        "timezone": info.timezone,
        "procs": "req",
        "machine_procs": info.max_procs,
        "machine_procs_source": info.max_procs_source,
        "scheduler": "slurm",
    }
    given: dict[str, Any] = {"output": output, "as_json": as_json, "seed": 0}
    usual = command.make_context("evaluate", [str(cluster_path())]).params
    plan, chosen = take_plan({name: value for name, value in usual.items() if name not in given})
    log = Log(trace, {**settings, **chosen}, [*info.notes, SYNTHETIC])
    title = "Demo: how forecasts would serve a synthetic cluster"
    run(log, np.ones(len(trace), bool), plan, given, title, SYNTHETIC, ("slurm", machine))


SYNTHETIC = (
    "A synthetic workload: its recorded waits were made by this model of Slurm, so the two agree by construction."
)
