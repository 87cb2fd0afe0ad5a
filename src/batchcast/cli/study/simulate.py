# SPDX-License-Identifier: Apache-2.0
"""`batchcast simulate`: simulates when a scheduler would start a log's jobs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...errors import InputError, UsageError
from ..grammar import option, table_options, verb
from ..options import Log, log_options, predictor_options, replicate_options, score_options, take_chosen, take_log
from ..output import log_as_typed, note, progress
from ..periods import in_periods_option, refuse_others
from ..periods import schedules as schedules_in_periods
from ..schedule_options import node_options, plan_options, settle, show_simulation, take_nodes, take_order, take_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...simulation import Schedule
    from ...simulation.models import Model


@verb(short_help="Simulate scheduling policies on a log, with time limits or predictions.")
@log_options
@predictor_options
@score_options
@plan_options(None, "easy", ordered=True)
@node_options
@option("--set KEY=VALUE...", "slurm.conf, nodes; rare: `help simulate --all`.", "settings")
@option("-o, --output FILE.csv", "Also write the schedule as CSV.", "schedule_file", type=click.Path())
@option(
    "--schedule-format batchcast|batsim [batchcast]",
    "Columns of that CSV: batchcast's, or the columns of Batsim's jobs.csv.",
)
@option("--against SCHEDULE", "Reference for differences. Default: the first.")
@replicate_options
@in_periods_option
@table_options
def command(**options: Any) -> None:
    """Simulate scheduling policies on LOG, and print waits and slowdowns.

    \b
    batchcast simulate log.swf.gz --policy easy,easy-sjbf:correct=incremental --predictor last_2
    batchcast simulate log.swf.gz --machine machine.toml --set bf_interval=60 --set nodes=+10%

    Policies are fcfs, easy, easy-sjbf, conservative, forecast and your own MODULE:CLASS. Predictors and policies take
    settings: NAME:key=value,key=value. An unknown name lists what is accepted.
    """
    import time

    import numpy as np

    from ...evaluation.differences import ResultRow, schedule_differences
    from ...evaluation.validity import DOUBTS, Recorded, judge
    from ...machines.machine import parse_changes
    from ...predict.protocol import spec_words
    from ...simulation.models import Nodes, Pool
    from ...simulation.workload import no_job

    changed, (scheduler, described) = options["settings"], take_nodes(options)
    slurm = scheduler == "slurm"
    order = take_order(options, slurm)
    if changed and not slurm:
        raise UsageError(f"--set {changed[0]}: settings of a machine need --machine FILE; for a pool of processors: "
                         "batchcast help simulate --all", hint="batchcast machine capture -o machine.toml")  # fmt: skip
    plan, chosen = take_plan(options)
    if options["in_periods"] is not None:
        refuse_others({"policies", "no_kill", "wide", "default_request", "plan_level"})
        return schedules_in_periods(plan, options)
    if options["schedule_file"] and sum(len(plan.planners(policy)) for policy in plan.policies.values()) > 1:
        raise UsageError("-o writes a single schedule", hint="use one --policy and one --predictor")
    log = take_log(options)
    described, log, mask = settle(described, log, take_chosen(options, log))
    policies: dict[str, Any] = {"slurm": None} if slurm else dict(plan.policies)
    setup = replace(plan.setup, procs=log.procs)
    today: Model = Pool(setup, plan.partitions == "split")
    model = today
    if slurm:
        from ...simulation.on_nodes import QueuePlan  # loads the kernels of Slurm's loops

        today = nodes = Nodes(described, setup)
        changes, queue = parse_changes(",".join(changed)) if changed else {}, QueuePlan(order=order) if order else None
        model = replace(nodes, changes=changes, queue=queue)
    plans = {f"{name}, {spec}": (name, spec) for name, policy in policies.items() for spec in plan.planners(policy)}
    schedules = {}
    for plan_name, (name, spec) in plans.items():
        with progress(f"Simulating {name}, planned with {spec_words(spec)}", len(log.trace)) as tick:
            schedule = model.run(log.trace, policies[name], spec, clock=time.perf_counter, tick=tick)
        if not len(schedule):
            raise no_job(schedule.left_out)
        schedules[plan_name] = schedule
    first = next(iter(schedules.values()))
    against = options["against"] or next(iter(schedules))
    if against not in schedules:
        raise UsageError(f"--against: no {against!r} (accepted: {'; '.join(schedules)})")
    inside = np.ones(len(log.trace), bool) if mask is None else mask
    found = schedule_differences(log.trace, schedules, inside, against, procs=log.procs, seed=options["seed"])
    if options["replicates"]:
        from ...evaluation.differences import replicated

        again = {
            plan_name: partial(model.run, policy=policies[name], planner=spec)
            for plan_name, (name, spec) in plans.items()
        }
        with progress(f"Simulating {options['replicates']} replicates", options["replicates"]) as tick:
            found = replicated(log.trace, again, against, options["replicates"], options["seed"], tick).added(found)
    results = [
        ResultRow({"policy": name, "predictor": spec, "runtime": spec, **each.measures(inside[each.rows]),
                   "kernel_s": each.kernel_s}, found[plan_name])
        for (plan_name, (name, spec)), each in zip(plans.items(), schedules.values())
    ]  # fmt: skip
    if options["schedule_file"]:
        _write(options["schedule_file"], first, log, options["schedule_format"])
    notes = first.remarks
    kill = any(policy.kill for policy in plan.policies.values())
    limits = schedules.get("slurm, requested") if not (changed or order) else None
    checked = judge(today, Recorded.of(log.trace, mask, log.procs), limits, kill=kill)
    if options["as_json"]:
        doubts = [] if checked.trusted else [DOUBTS[checked.verdict]]
        settings = {**chosen, "machine_procs": first.total, "against": against}
        settings |= {name: options[name] for name in ("seed", "replicates")}
        return log.emit("simulate", settings, results, [*notes, *doubts], validity=checked.row())
    from ...report.tables import simulation_table

    note(*log.learned, *notes)
    table = simulation_table(results, len(first), first.total)
    evaluate = f"batchcast evaluate {log_as_typed()} -o report/  (compares orders and predictions)"
    show_simulation([table], results, checked, first.total, options, _headline(results), evaluate)


def _headline(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the shortest and the longest simulated mean wait, each with its policy and predictor."""
    from ...predict.protocol import spec_words
    from ...report.figures import span

    ends = [pick(rows, key=lambda row: row["mean_wait_s"]) for pick in (min, max)]
    words = [
        f"{span(row['mean_wait_s'])} ({row['policy']}, planned with {spec_words(row['predictor'])})" for row in ends
    ]
    return f"Simulated mean wait: {words[0]}." if len(rows) == 1 else f"Simulated mean waits: {words[0]} to {words[1]}."


def _write(path: str, schedule: Schedule, log: Log, form: str) -> None:
    """Write the schedule as CSV; InputError if the file cannot be written."""
    from ...trace.schedule import write_batsim, write_schedule

    try:
        if form == "batsim":
            write_batsim(path, schedule, log.trace)
        else:
            write_schedule(path, schedule)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
