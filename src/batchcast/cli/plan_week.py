"""`batchcast plan --dry-run`: the waiting jobs of now, a past week by partition, and that week on a machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .output import console, document, emit, print_columns, progress, say
from .site import parse_when

if TYPE_CHECKING:
    from ..service.settings import Settings

Preview = Callable[["Settings"], tuple[list[str], list[dict[str, Any]]]]


def dry_run_since(
    settings: Settings, cluster: str, since: str, machine: str | None, seed: int, as_json: bool, preview: Preview
) -> None:
    """Print what planning would do now, would have done since, and, with a machine, what that would have brought."""
    from ..errors import NoAnswer
    from ..service import plan_week
    from ..service.connect import open_scheduler
    from ..store.reader import Reader
    from ..trace.slurm_machine import open_machine

    described = None if machine is None else open_machine(machine)
    now = time.time()
    warnings, waiting = preview(settings)
    terms = plan_week.site_terms(open_scheduler(settings)[0].transport, settings)
    reader = Reader(settings["store"])
    rows: list[dict[str, Any]] = []
    judged, past = None, None
    try:
        past = plan_week.week(settings, reader, cluster, terms, parse_when(since), now)
        rows = plan_week.by_partition(past)
        warnings.append(f"of the past assumed: no {plan_week.UNKNOWN}")
        if described is not None:
            with progress("two schedules", 2):
                more, judged, notes = plan_week.simulated(past, described, seed)
            rows, warnings = [*rows, *more], [*warnings, *notes]
    except NoAnswer as error:
        warnings.append(error.message)
    finally:
        reader.close()
    if as_json:
        names = ("plan", "plan_partitions", "plan_qos", "plan_level", "plan_percent")
        shown = {"asked": "dry-run", "starttime_s": parse_when(since), "machine": machine, "seed": seed}
        shown |= {name: settings[name] for name in names} | {"past": rows}
        shown |= {} if judged is None else {"validity": judged.row()}
        emit(document("plan", {"cluster": cluster}, shown, warnings, waiting))
        return
    for warning in warnings:
        say(warning)
    _print(waiting, rows, judged, since, 0 if described is None else described.cpus)


def _print(waiting: list[dict[str, Any]], rows: list[dict[str, Any]], judged: Any, since: str, cpus: int) -> None:
    import click

    from ..service.plan_week import sentences
    from .plan import table

    if waiting:
        print_columns(table(waiting), left=3)
    parts = [row for row in rows if row["part"] == "partition"]
    if parts:
        click.echo(f"since {since}, of the jobs that are over, would have been planned:")
        for line in sentences(parts):
            click.echo(f"  {line}")
    simulated = [row for row in rows if row["part"] == "simulated"]
    if simulated:
        _show(simulated, [row for row in rows if row["part"] == "group"], judged, cpus)


def _show(simulated: list[dict[str, Any]], groups: list[dict[str, Any]], judged: Any, cpus: int) -> None:
    from ..report.blocks import Table, TableColumn
    from ..report.difference import SCHEDULE, difference_blocks, difference_words
    from ..report.simulation import simulation_table
    from ..report.terminal import show
    from ..report.validity import judgement

    whole = [row for row in simulated if row["size"] == "all"]
    sizes = [row for row in simulated if row["size"] != "all"]
    naming = [TableColumn("size", "size"), TableColumn("policy", "limits")]
    kinds = [("now_s", "mean wait, own limits"), ("then_s", "planned limits")]
    columns = [TableColumn("by", "by"), TableColumn("group", "group"), TableColumn("jobs", "jobs", "count")]
    columns += [TableColumn(name, title, "seconds") for name, title in kinds]
    columns.append(TableColumn("difference", "difference, 90 % interval over bursts", "difference"))
    groups = [{**row, "difference": difference_words(row, "wait_s", "seconds")} for row in groups]
    note = "A burst: one user's submissions, each within an hour of the one before. No interval below 20 of them."
    tables = [Table("Who gains most, and who pays most", columns, groups, note)] if groups else []
    blocks = [simulation_table([{**row, "predictor": row["size"]} for row in whole], whole[0]["jobs"], cpus)]
    show(
        console(),
        [
            *blocks,
            *difference_blocks(whole, SCHEDULE, naming),
            *difference_blocks(sizes, SCHEDULE, naming),
            *tables,
            judgement(judged, cpus),
        ],
    )
