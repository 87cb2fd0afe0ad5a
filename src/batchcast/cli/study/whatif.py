# SPDX-License-Identifier: Apache-2.0
"""`batchcast whatif`: variants of a machine side by side, on one log."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ..grammar import verb
from ..options import describe_log, log_options, score_options, take_log, take_score
from ..output import document, emit, progress, say, show_tables, table_options
from ..schedule_options import LEARNED, settle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...cluster.machine import Machine
    from ...report.blocks import Block
    from ...simulation import Schedule
    from ...simulation.slurm_order import Ordering
    from ...simulation.slurm_trace import MemoryPlan
    from ...table import Trace

NOW = "now"


@verb(short_help="What if the machine, its scheduler or the limits changed: who gains, who pays.")
@log_options
@score_options
@click.option(
    "--machine",
    "described",
    type=click.Path(),
    required=True,
    metavar="FILE",
    help="The machine as it is now, or `learned` from LOG.",
)
@click.option(
    "--vary",
    "variants",
    multiple=True,
    required=True,
    metavar="CHANGES",
    help="One variant: nodes=+10%, policy=fifo|backfill|multifactor, limits=forecast[:PREDICTOR],"
    " memory=forecast[:RISK]|least_waste, order=none|forecast[:PREDICTOR]|limit (with within=queue|account|user and"
    " age=TIME), or slurm.conf's words, by commas. May be repeated.",
)
@click.option(
    "--replicates",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Simulate N logs made of this one's weeks, 1 % of the jobs dropped, as well.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="For the intervals' and the replicates' draws.")
@table_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(**given: Any) -> None:
    """Simulate LOG under Slurm's loops on a machine as it is and as it could be.

    \b
    batchcast whatif jobs.psv --machine now.toml --vary nodes=+10% --vary limits=forecast
    """
    import numpy as np

    from ...evaluation.differences import schedule_differences
    from ...evaluation.memory_limits import memory_note, placed_by
    from ...evaluation.simulated import MADE_FROM_LOG
    from ...evaluation.validity import MODELLED_ON_NODES, judge_validity
    from ...evaluation.whatif import by_group
    from ...simulation.slurm_trace import QueuePlan, simulate_on
    from ...trace.slurm_record import open_machine

    variants, described = _each(given["variants"]), given["described"]
    orders = {name: order for name in variants if (order := _order(name)) is not None}
    now = LEARNED if described == LEARNED else open_machine(described)
    log = take_log(given)
    scored = any(given[key] for key in ("score_from", "score_to", "score_status"))
    mask = take_score(given, log) if scored else np.ones(len(log.trace), bool)
    machine, log, mask = settle(now, log, mask)
    plans, memory = _plans(machine, variants)

    placed: dict[str, MemoryPlan | None] = {}

    def run(trace: Trace, name: str, tick: Any = None) -> Schedule:
        machine, spec = plans[name]
        placed[name] = placed_by(trace, machine, *memory[name], procs=log.procs) if name in memory else None
        queue = QueuePlan(placed[name], order=orders.get(name))
        return simulate_on(machine, trace, spec, procs=log.procs, queue=queue, tick=tick)

    schedules = {}
    for name in plans:
        with progress(f"Simulating {name}", len(log.trace)) as tick:
            schedules[name] = run(log.trace, name, tick)
    runs_out = {name: plan.out_of_memory(schedules[name].rows) for name, plan in placed.items() if plan is not None}
    memory_notes = [memory_note(name, plan, schedules[name].rows) for name, plan in placed.items() if plan is not None]
    keys = schedule_differences(log.trace, schedules, mask, NOW, procs=log.procs, seed=given["seed"])
    if given["replicates"]:
        from ...evaluation.resampling import replicated

        with progress(f"Simulating {given['replicates']} replicates", given["replicates"]) as tick:
            more = replicated(log.trace, list(plans), run, NOW, given["replicates"], given["seed"], tick)
        keys = {name: {**keys[name], **more[name]} for name in keys}
    results = [
        {"policy": name, "predictor": plans[name][1], "part": "variant", **s.measures(mask[s.rows]), **keys[name]}
        | ({"out_of_memory": runs_out[name]} if name in runs_out else {})
        for name, s in schedules.items()
    ]
    groups = [
        {"part": "group", "variant": name, **row}
        for name in list(plans)[1:]
        for row in by_group(log.trace, schedules[NOW], schedules[name], mask, log.procs)
    ]
    checked = judge_validity(
        log.trace, schedules[NOW], mask, procs=log.procs, modelled=MODELLED_ON_NODES,
        policy=MADE_FROM_LOG.get(machine.name, "slurm"),
    )  # fmt: skip
    notes = [line for line in log.warnings if line.startswith("learned: ")]
    notes += [f"{n} jobs not simulated ({why})" for why, n in schedules[NOW].left_out.items() if n]
    notes += [*schedules[NOW].notes, *memory_notes]
    if given["as_json"]:
        settings = {**log.settings, "variants": list(plans), "seed": given["seed"], "replicates": given["replicates"]}
        about = {**describe_log(log.trace), "validity": checked.row()}
        emit(document("whatif", about, settings, [*log.warnings, *notes], [*results, *groups]))
        return
    for line in notes:
        say(f"note: {line}")
    blocks, explained = _tables(results, groups, schedules[NOW], checked)
    show_tables(blocks, given["every_column"], given["explain"] or given["replicates"] > 0, explained)


def _each(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The variants; `order=none,forecast,limit` is one for each word.

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


def _order(text: str) -> Ordering | None:
    """The order of Slurm's queue that a variant names."""
    from ...cluster.vary import parse_changes
    from ...errors import UsageError
    from ...simulation.slurm_order import Ordering
    from ...units import parse_duration

    changes = parse_changes(text)
    if "order" not in changes and ("within" in changes or "age" in changes):
        raise UsageError(f"{text}: within and age go with order=forecast or order=limit")
    if "order" not in changes:
        return None
    age = parse_duration(changes["age"]) if "age" in changes else math.nan
    return Ordering.of(changes["order"], changes.get("within", "queue"), age)


def _plans(
    machine: Machine, variants: tuple[str, ...]
) -> tuple[dict[str, tuple[Machine, str]], dict[str, tuple[str, float]]]:
    """The machine and the predictor of each variant by its name, the present first; how its memory is advised."""
    memory: dict[str, tuple[str, float]] = {}
    from ...cluster.vary import parse_changes, vary
    from ...errors import UsageError

    plans = {NOW: (machine, "requested")}
    for text in variants:
        changes: Mapping[str, str] = parse_changes(text)
        kind, _, spec = changes.get("limits", "requested").partition(":")
        if kind not in ("forecast", "requested", "actual"):
            raise UsageError(f"limits={kind}: unknown (accepted: forecast, forecast:PREDICTOR, requested, actual)")
        if "memory" in changes:
            memory[text] = _memory(changes["memory"])
        plans[text] = (vary(machine, changes), spec or ("kernel" if kind == "forecast" else kind))
    return plans, memory


def _memory(value: str) -> tuple[str, float]:
    """Which advice places jobs, and at which risk."""
    from ...errors import UsageError
    from ...units import parse_share

    rule, _, risk = value.partition(":")
    if rule not in ("forecast", "least_waste"):
        raise UsageError(f"memory={rule}: unknown (accepted: forecast, forecast:RISK such as forecast:1%, least_waste)")
    return ("advice" if rule == "forecast" else rule), parse_share(risk) if risk else 0.05


def _tables(
    results: list[dict[str, Any]], groups: list[dict[str, Any]], now: Schedule, checked: Any
) -> tuple[list[Block], list[Block]]:
    """What is printed, and what explains it."""
    from ...report.blocks import Table, TableColumn
    from ...report.difference import SCHEDULE, beside, difference_blocks
    from ...report.tables import simulation_table
    from ...report.validity import judgement

    naming = [TableColumn("policy", "variant"), TableColumn("predictor", "planned with")]
    columns = [
        TableColumn("variant", "variant"),
        TableColumn("by", "by"),
        TableColumn("group", "group"),
        TableColumn("jobs", "jobs", "count"),
        TableColumn("now_s", "mean wait now", "seconds"),
        TableColumn("then_s", "then", "seconds"),
    ]
    tables = [Table("Who gains most, and who pays most", columns, groups)] if groups else []
    table = simulation_table(results, len(now), now.total)
    named = [TableColumn("policy", "variant"), *table.columns[1:]]
    table = beside(replace(table, columns=named), results, SCHEDULE)
    return [table, *tables, judgement(checked, now.total)], difference_blocks(results, SCHEDULE, naming)
