# SPDX-License-Identifier: Apache-2.0
"""`batchcast whatif`: compares variants of a machine on one log."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ..grammar import verb
from ..options import describe_log, log_options, score_options, take_log, take_score, workers_for, workers_option
from ..output import document, emit, progress, say, show_tables, table_options
from ..schedule_options import LEARNED, settle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...report.blocks import Block
    from ...simulation import Schedule

NOW = "now"


@verb(short_help="Simulate a changed machine, scheduler or limit, and compare waits by group.")
@log_options
@score_options
@click.option(
    "--machine",
    "described",
    type=click.Path(),
    metavar="FILE",
    help="The present machine, or `learned`. Default: LOG's.",
)
@click.option(
    "--vary",
    "variants",
    multiple=True,
    required=True,
    metavar="CHANGES",
    help="A changed machine, such as nodes=+10%; repeatable.",
)
@click.option(
    "--replicates",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Also simulate N logs resampled by weeks.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of intervals and replicates.")
@workers_option
@table_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(**given: Any) -> None:
    """Simulate LOG under Slurm on the present machine and on changed ones, and compare waits by group.

    \b
    batchcast whatif jobs.psv --machine now.toml --vary nodes=+10% --vary limits=forecast

    \b
    Each --vary is one changed machine; commas separate its changes:
      nodes=+10%                            more or fewer nodes
      policy=fifo|backfill|multifactor      how Slurm orders and starts jobs
      limits=forecast[:PREDICTOR]           predicted time limits
      memory=forecast[:RISK]|least_waste    predicted memory requests
      order=none|forecast[:PREDICTOR]|limit the queue order; with within=queue|account|user, age=TIME
      bf_interval=60, ...                   settings of slurm.conf
    """
    import numpy as np

    from ...events.machine_size import machine_of_log
    from ...processes import Task, under_bars
    from ...results.whatif import Variants
    from ...trace.machine_files import open_machine

    variants, described = _each(given["variants"]), given["described"]
    now = LEARNED if described == LEARNED else open_machine(described) if described else None
    log = take_log(given)
    scored = any(given[key] for key in ("score_from", "score_to", "score_status"))
    mask = take_score(given, log) if scored else np.ones(len(log.trace), bool)
    machine, log, mask = settle(now or machine_of_log(log.trace, log.procs), log, mask)
    plan, seed = Variants.of(machine, variants), given["seed"]
    workers = workers_for(given["workers"], len(log.trace))
    tasks = [
        Task(f"Simulating {name}", len(log.trace), partial(plan.simulate, log.trace, name, log.procs))
        for name in plan.machines
    ]
    made = dict(zip(plan.machines, under_bars("Simulating the variants", tasks, workers, progress)))
    more: Mapping[str, Mapping[str, Any]] = {}
    if given["replicates"]:
        with progress(f"Simulating {given['replicates']} replicates", given["replicates"]) as tick:
            more = plan.replicated(log.trace, log.procs, given["replicates"], seed, tick, workers)
    found = plan.result(log.trace, made, mask, log.procs, seed, more)
    results, groups, schedules, checked = found.rows, found.groups, found.schedules, found.validity
    notes = [*(line for line in log.warnings if line.startswith("learned: ")), *found.notes]
    if given["as_json"]:
        settings = {
            **log.settings,
            "variants": list(plan.machines),
            "seed": given["seed"],
            "replicates": given["replicates"],
        }
        about = {**describe_log(log.trace), "validity": checked.row()}
        emit(document("whatif", about, settings, [*log.warnings, *notes], [*results, *groups]))
        return
    for line in notes:
        say(f"note: {line}")
    explain = given["explain"] or given["replicates"] > 0
    blocks, explained = _tables(results, groups, schedules[NOW], checked, brief=not explain)
    show_tables(blocks, given["every_column"], explain, explained)


def _each(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variants; `order=none,forecast,limit` is one variant for each word.

    >>> _each(("order=none,limit", "nodes=+10%,limits=forecast"))
    ('order=none', 'order=limit', 'nodes=+10%,limits=forecast')
    """
    several = [text.split(",") for text in texts]
    return tuple(
        one
        for text, pieces in zip(texts, several)
        for one in (
            [pieces[0], *(f"order={word}" for word in pieces[1:])]
            if pieces[0].startswith("order=") and not any("=" in piece for piece in pieces[1:])
            else [text]
        )
    )


MOST_GROUPS = 5
"""Groups in the short answer, which fits a terminal of 24 lines."""


def _most_changed(groups: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The groups whose jobs together gain or lose the most time, in their order."""
    total = {k: row["jobs"] * abs(row["then_s"] - row["now_s"]) for k, row in enumerate(groups)}
    return [groups[k] for k in sorted(sorted(total, key=lambda k: -total[k])[:MOST_GROUPS])]


def _tables(
    results: Sequence[Mapping[str, Any]],
    groups: Sequence[Mapping[str, Any]],
    now: Schedule,
    checked: Any,
    *,
    brief: bool,
) -> tuple[list[Block], list[Block]]:
    """Return what is printed, and what explains it."""
    from ...report.blocks import Table, TableColumn
    from ...report.difference import SCHEDULE, beside, difference_blocks
    from ...report.tables import simulation_table
    from ...report.validity import judgement, with_judgement

    naming = [TableColumn("policy", "variant"), TableColumn("predictor", "planned with")]
    columns = [
        TableColumn("variant", "variant"),
        TableColumn("by", "by"),
        TableColumn("group", "group"),
        TableColumn("jobs", "jobs", "count"),
        TableColumn("now_s", "mean wait now", "seconds"),
        TableColumn("then_s", "then", "seconds"),
    ]
    chosen = _most_changed(groups) if brief else list(groups)
    note = f"{len(chosen)} of {len(groups)} groups; --explain shows all." if len(chosen) < len(groups) else ""
    tables = [Table("Who gains most, and who pays most", columns, chosen, note)] if groups else []
    table = simulation_table(results, len(now), now.total)
    same = "predictor" if brief and len({row["predictor"] for row in results}) == 1 else ""
    named = [TableColumn("policy", "variant"), *(each for each in table.columns[1:] if each.key != same)]
    table = beside(replace(table, columns=named), results, SCHEDULE)
    judged = judgement(checked, now.total, brief=brief)
    return with_judgement([table, *tables], judged), difference_blocks(results, SCHEDULE, naming)
