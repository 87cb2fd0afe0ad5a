# SPDX-License-Identifier: Apache-2.0
"""`batchcast whatif`: compares variants of a machine on one log."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...units import parse_when, span
from ..grammar import option, table_options, verb
from ..options import log_options, replicate_options, score_options, take_chosen, take_log, workers_for, workers_option
from ..output import echo, note, printed, progress, show_tables
from ..schedule_options import described_machine, settle, show_simulation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...report.blocks import Table
    from ...results.whatif import WhatIf
    from ..options import Log

NOW = "now"


@verb(short_help="Simulate a changed machine, scheduler or limit, and compare waits by group.")
@log_options
@score_options
@option("--machine FILE", "The present machine, or `learned`. Default: LOG's.")
@option("--vary CHANGES...", "A changed machine, such as nodes=+10%; repeatable.", "variants")
@option("--demand CHANGE", "More or less work: +20%, or +20%,target=4h.")
@option("--reserve OUTAGE", "A planned outage: nodes=ALL,start=TIME,hours=10.")
@option("--extend JOB", "More time for a running job: job=4711,hours=4.")
@replicate_options
@workers_option
@table_options
def command(**options: Any) -> None:
    """Simulate LOG under Slurm on the present machine and on changed ones, and compare waits by group.

    \b
    batchcast whatif jobs.psv --machine now.toml --vary nodes=+10% --vary limits=forecast

    \b
    Each --vary is one changed machine; commas separate its changes:
      nodes=+10%                            more or fewer nodes
      add=8xNODE                            new nodes, like NODE or 64cpu+512G+4gpu:h100@PARTITION
      policy=fifo|backfill|multifactor      how Slurm orders and starts jobs
      limits=forecast[:PREDICTOR]           predicted time limits
      memory=forecast[:RISK]|least_waste    predicted memory requests
      order=none|forecast[:PREDICTOR]|limits the queue order; with within=queue|account|user, age=TIME
      bf_interval=60, ...                   settings of slurm.conf

    \b
    --reserve names jobs that an outage would delay, and the start of that week that delays the least work. Without LOG,
    --reserve and --extend are about the jobs that run and wait now, from the collector's store.
    """
    if not options["log"] or options["extend"]:
        return _live(options)
    if options["reserve"]:
        return _reserve(options)
    if not options["variants"]:
        raise click.UsageError("Missing option '--vary' or '--reserve'.")
    import numpy as np

    from ...events.machine_size import machine_of_log
    from ...processes import Task, under_bars
    from ...results.whatif import Variants

    variants, described = _each(options["variants"]), described_machine(options["machine"])
    log = take_log(options)
    machine, log, mask = settle(described or machine_of_log(log.trace, log.procs), log, take_chosen(options, log))
    plan, seed, replicates = Variants.of(machine, variants), options["seed"], options["replicates"]
    if options["demand"]:
        return _grow(options, log, plan)
    workers = workers_for(options["workers"], len(log.trace))
    tasks = [
        Task(f"Simulating {name}", len(log.trace), partial(plan.simulate, log.trace, name, log.procs))
        for name in plan.machines
    ]
    made = dict(zip(plan.machines, under_bars("Simulating the variants", tasks, workers, progress)))
    more = None
    if replicates:
        with progress(f"Simulating {replicates} replicates", replicates) as tick:
            more = plan.replicated(log.trace, log.procs, replicates, seed, tick, workers)
    inside = np.ones(len(log.trace), bool) if mask is None else mask
    found = plan.result(log.trace, made, inside, log.procs, seed, more)
    notes = [*log.learned, *found.notes]
    if options["as_json"]:
        settings = {"variants": list(plan.machines), "seed": seed, "replicates": replicates}
        return log.emit("whatif", settings, [*found.rows, *found.groups], notes, validity=found.validity.row())
    note(*notes)
    tables = _tables(found, brief=not (options["details"] or replicates))
    grow = "add --demand +20% to see whether the gain remains when the amount of work grows"
    show_simulation(
        tables, found.rows, found.validity, found.schedules[NOW].total, options, _headline(found.rows), grow
    )


for _parameter in command.params:
    if _parameter.name == "log":  # --reserve and --extend also answer without a log
        _parameter.required = False


def _grow(options: dict[str, Any], log: Log, plan: Any) -> None:
    """Simulate the variants with grown work, and print waits by variant, reaction and partition."""
    from ...report.outage import growth_table
    from ...results.whatif import growth, parse_growth, smallest

    share, target = parse_growth(options["demand"])
    replicates = options["replicates"] or 5
    workers = workers_for(options["workers"], len(log.trace))
    with progress("Simulating grown logs", None) as tick:
        grown = growth(
            log.trace,
            plan,
            share,
            procs=log.procs,
            replicates=replicates,
            seed=options["seed"],
            workers=workers,
            tick=tick,
        )
    if options["as_json"]:
        settings = {"variants": list(plan.machines), "demand": share, "replicates": replicates}
        settings |= {"target_s": target, "smallest": smallest(grown.rows, target)} if target == target else {}
        return log.emit("whatif", settings, grown.rows, grown.notes)
    show_tables([growth_table(grown.rows, grown.notes[0])], options["details"])
    if target == target:
        for word, name in smallest(grown.rows, target).items():
            which = "the present machine" if name == NOW else name or "no variant"
            echo(f"users react {word}: {which} keeps 90 % of waits below {span(target)}")


def _reserve(options: dict[str, Any]) -> None:
    """Simulate a planned outage on LOG and print what it delays."""
    from ...events.machine_size import machine_of_log
    from ...results.whatif import outage
    from ...simulation.outage import parse_outage
    from ...trace.select import parse_date, zone

    if options["variants"] or options["replicates"]:
        raise click.UsageError("--reserve cannot be combined with --vary or --replicates.")
    log = take_log(options)
    info = log.trace.info
    planned = parse_outage(options["reserve"], lambda text: parse_date(text, zone(info.timezone)) - info.unix_start)
    machine, log, _ = settle(described_machine(options["machine"]) or machine_of_log(log.trace, log.procs), log, None)
    planned.names(machine)
    workers = workers_for(options["workers"], len(log.trace))
    with progress("Simulating the starts", len(planned.starts()) + 1) as tick:
        result = outage(log.trace, machine, planned, procs=log.procs, workers=workers, tick=tick)
    if options["as_json"]:
        results = [*result.rows, *({"part": "group", **row} for row in result.groups)]
        return log.emit("whatif", {"reserve": options["reserve"]}, results, result.notes)
    note(*result.notes)
    from ...report.outage import outage_blocks

    blocks, more = outage_blocks(result.rows, result.groups, options["details"])
    show_tables(blocks, options["details"], more)


def _live(options: dict[str, Any]) -> None:
    """Answer --reserve and --extend from the collector's store."""
    import time

    from ...service.answers import queue_whatif
    from ...service.settings import load
    from ...simulation.outage import parse_extension, parse_outage
    from ...trace.machine_files import open_machine
    from ..site_options import myself

    if (
        options["variants"]
        or not (options["reserve"] or options["extend"])
        or (options["reserve"] and options["extend"])
    ):
        raise click.UsageError("Missing argument 'LOG...': only --reserve and --extend work without a log.")
    if options["log"]:
        raise click.UsageError("--extend concerns jobs that run now; it accepts no LOG.")
    now, settings = time.time(), load({})
    machine = open_machine(options["machine"]) if options["machine"] else None
    if options["extend"]:
        reply = queue_whatif.extend(settings, *parse_extension(options["extend"]), myself(), now, machine)
    else:
        planned = parse_outage(options["reserve"], lambda text: parse_when(text, now))
        reply = queue_whatif.reserve(settings, planned, myself(), now, machine)
    if printed("whatif", reply, options["as_json"], False):
        return
    from ...report.outage import extension_lines, live_outage_blocks

    if options["extend"]:
        for line in extension_lines(reply.results[0]):
            echo(line)
        return
    show_tables(live_outage_blocks(reply.results, reply.settings["held"], options["details"]), options["details"])


def _each(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variants; `order=none,forecast,limits` is one variant for each word.

    >>> _each(("order=none,limits", "nodes=+10%,limits=forecast"))
    ('order=none', 'order=limits', 'nodes=+10%,limits=forecast')
    """
    variants: list[str] = []
    for text in texts:
        first, *words = text.split(",")
        is_list = first.startswith("order=") and not any("=" in word for word in words)
        variants += [first, *(f"order={word}" for word in words)] if is_list else [text]
    return tuple(variants)


MOST_ROWS = 5
"""Number of rows of both tables together in the brief answer, which must fit 24 lines; at least one group is shown."""


def _most_changed(groups: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Return the `most` groups whose jobs together gain or lose the most time, in their order."""
    total = {k: row["jobs"] * abs(row["then_s"] - row["now_s"]) for k, row in enumerate(groups)}
    return [groups[k] for k in sorted(sorted(total, key=lambda k: -total[k])[:most])]


def _headline(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the simulated mean wait now, and the shortest one among the variants."""
    from ...report.figures import span

    now, *others = rows
    best = min(others, key=lambda row: row["mean_wait_s"], default=now)
    shortest = f"; shortest with {best['policy']}: {span(best['mean_wait_s'])}" if others else ""
    return f"Simulated mean wait now: {span(now['mean_wait_s'])}{shortest}."


def _tables(found: WhatIf, *, brief: bool) -> list[Table]:
    """Return the table of the variants, and the table of the groups whose waits change."""
    from ...report.blocks import Table, columns_of
    from ...report.tables import simulation_table

    results, groups, now = found.rows, found.groups, found.schedules[NOW]
    columns = columns_of(
        "variant", "by", "group", "jobs|jobs|count", "now_s|mean wait now|seconds", "then_s|mean wait then|seconds"
    )
    chosen = _most_changed(groups, max(MOST_ROWS - len(results), 1)) if brief else list(groups)
    note = f"{len(chosen)} of {len(groups)} groups; --details shows all." if len(chosen) < len(groups) else ""
    tables = [Table("Groups whose waits change most", columns, chosen, note)] if groups else []
    table = simulation_table(results, len(now), now.total)
    same = "predictor" if brief and len({row["predictor"] for row in results}) == 1 else ""
    columns = [*columns_of("policy|variant"), *(each for each in table.columns[1:] if each.key != same)]
    return [replace(table, columns=columns), *tables]
