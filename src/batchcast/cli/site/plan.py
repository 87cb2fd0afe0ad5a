# SPDX-License-Identifier: Apache-2.0
"""`batchcast plan`: shows what planning would change now, what it has changed, and its effect on a past week.

`batchcast plan --off` undoes everything and stops planning.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ...errors import BatchcastError, NoAnswer, UsageError
from ...units import counted
from ..grammar import option, verb
from ..output import Row, document, echo, emit, print_rows, progress, say, show_blocks, text_of
from ..site_options import cluster_of, parse_when, site_options, site_settings

if TYPE_CHECKING:
    from ...evaluation.differences import ResultRow
    from ...service.settings import Settings

DOCUMENT_SETTINGS = ("plan", "plan_partitions", "plan_qos", "plan_order_by", "plan_length_quantile", "plan_percent")
"""Settings that the JSON documents contain."""


def _dry_run(settings: Settings, since: str, machine: str | None, seed: int, as_json: bool) -> None:
    """Print what planning would change now and would have changed since `since`, and with a machine the simulated
    effect."""
    from ...evaluation.differences import ResultRow
    from ...service.batch_system import open_scheduler
    from ...service.planning import effects
    from ...store.reader import Reader
    from ...trace.machine_files import open_machine

    described = None if machine is None else open_machine(machine)
    now = time.time()
    cluster = cluster_of(settings)
    warnings, waiting = _preview(settings)
    terms = effects.site_terms(open_scheduler(settings)[0].transport, settings)
    rows: list[dict[str, Any]] = []
    judged = None
    try:
        with Reader(settings["store"]) as reader:
            past = effects.week(settings, reader, cluster, terms, parse_when(since), now)
        rows = effects.by_partition(past)
        warnings.append(f"not recorded for past jobs and therefore ignored: {effects.UNKNOWN}")
        if described is not None:
            with progress("schedules of the past", 2):
                more, judged, notes = effects.simulated(past, described, settings, seed)
            rows, warnings = [*rows, *more], [*warnings, *notes]
    except NoAnswer as error:
        warnings.append(error.message)
    if as_json:
        shown = {"asked": "dry-run", "starttime_s": parse_when(since), "machine": machine, "seed": seed}
        shown |= {name: settings[name] for name in DOCUMENT_SETTINGS} | {"past": rows}
        shown |= {} if judged is None else {"validity": judged.row()}
        return emit(document("plan", {"cluster": cluster}, shown, warnings, waiting))
    say(*warnings)
    if waiting:
        _print_rows(waiting)
    parts, groups = ([row for row in rows if row["part"] == part] for part in ("partition", "group"))
    simulated = [row for row in rows if isinstance(row, ResultRow)]
    if parts:
        echo(f"of the finished jobs since {since}, planning would have changed:")
        for line in effects.sentences(parts):
            echo(f"  {line}")
    if simulated and described is not None:
        _show(simulated, groups, judged, described.cpus)


def _show(simulated: Sequence[ResultRow], groups: Sequence[Row], judged: Any, cpus: int) -> None:
    """Print the simulated effect of planning: measures of all jobs and by size, and the users whose waits change."""
    from ...metrics.paired import Difference
    from ...report.blocks import Table, columns_of
    from ...report.difference import SCHEDULE, difference_blocks, difference_words
    from ...report.tables import simulation_table
    from ...report.validity import judgement, with_judgement

    whole, sizes = ([row for row in simulated if (row["size"] == "all") == is_all] for is_all in (True, False))
    columns = columns_of(
        "by", "group", "jobs|jobs|count", "now_s|mean wait, own limits|seconds", "then_s|then|seconds",
        "difference|difference, 90 % interval over bursts|difference",
    )  # fmt: skip
    groups = [{**row, "difference": difference_words(Difference.get(row, "wait_s"), "seconds")} for row in groups]
    note = (
        "A burst is a series of submissions of one user, each within an hour of the previous one. Fewer than 20 bursts"
        " give no interval."
    )
    tables = [
        Table(f"Users whose mean wait changes most: {arm}", columns, [g for g in groups if g["policy"] == arm], note)
        for arm in dict.fromkeys(group["policy"] for group in groups)
    ]
    blocks = [simulation_table([{**row, "predictor": row["size"]} for row in whole], whole[0]["jobs"], cpus)]
    naming = columns_of("size", "policy|plan")
    compared = [*difference_blocks(whole, SCHEDULE, naming), *difference_blocks(sizes, SCHEDULE, naming)]
    show_blocks(*with_judgement([*blocks, *compared, *tables], judgement(judged, cpus)))


ROUNDS = 5


@verb()
@site_options
@option("--dry-run", "Show what planning would do now and would have done since -S. Changes nothing.")
@option("-S, --starttime TIME [now-7days]", "With --dry-run: start of the time span.")
@option("--machine FILE", "With --dry-run: simulate the effect on this machine.")
@option("--seed", "Random seed of the intervals.", type=int, default=0)
@option("--off", "Restore every time limit and priority, and plan nothing until --on.")
@option("--on", "Plan again after --off.")
@option("--audit", "List the changes of the last seven days: time, old and new value, reason.")
def command(off: bool, on: bool, audit: bool, as_json: bool, **options: Any) -> None:
    """Show, start or stop planning: which waiting jobs batchcast has given a new time limit or priority.

    The collector plans if the setting `plan` is limits, order or both. Limits: it sets the time limit of waiting jobs
    that opted in to a quantile of their predicted run time (`plan_length_quantile`), and restores the own limit when
    they start. A limit is never below the own limit minus OverTimeLimit, so no job ends before its own limit. Order: it
    sets priorities (SiteFactor), least work first, and long-waiting jobs by arrival. The work is counted by predictions
    or by time limits (`plan_order_by`).
    """
    if options["dry_run"] + off + on + audit > 1:
        raise UsageError("use one of --dry-run, --off, --on, --audit")
    wrong: list[Any] = []
    # Restoring limits must work even if other settings are wrong.
    settings = site_settings(options, passed_over=wrong if off else None)
    if settings["scheduler"] != "slurm":
        raise UsageError("planning works only with Slurm")
    if options["machine"] is not None and not options["dry_run"]:
        raise UsageError("--machine needs --dry-run")
    if options["dry_run"]:
        return _dry_run(settings, options["starttime"], options["machine"], options["seed"], as_json)
    if off or on:
        warnings, results = _switch(settings, off)
        warnings = [*(f"ignored: {error.message}" for error in wrong), *warnings]
    else:
        warnings, results = _stored(settings, audit)
    if as_json:
        shown = {name: settings[name] for name in DOCUMENT_SETTINGS}
        verb = "off" if off else "on" if on else "audit" if audit else "standing"
        return emit(document("plan", {"cluster": settings["cluster"]}, {"asked": verb, **shown}, warnings, results))
    say(*warnings)
    if results:
        _print_rows(results)


def _preview(settings: Any) -> tuple[list[str], list[dict[str, Any]]]:
    """Return notes on what planning would change now, and one row per waiting job."""
    from ...service.batch_system import open_scheduler
    from ...service.planning.agent import Planner
    from ...service.planning.checkup import why_stopped
    from ...service.planning.order import extremes
    from ...service.planning.terms import ORDERS, plan_words
    from ...store.database import Store
    from ...store.reader import Reader

    cluster, store = cluster_of(settings), Store(settings["store"], read_only=True)
    planner = Planner(open_scheduler(settings)[0].transport, store, settings)
    rows = planner.preview(cluster)
    factors, why_not = planner.orderer.preview(cluster) if settings["plan"] in ORDERS else ({}, "")
    store.close()
    results = [
        {
            "job_id": job.job_id, "user": job.user, "partition": ",".join(job.partitions), "limit_s": job.limit,
            "forecast_s": forecast, "planned_s": limit, "why": why,
        }
        | ({"site_factor": factors.get(job.job_id, 0)} if settings["plan"] in ORDERS else {})
        for job, forecast, limit, why in rows
    ]  # fmt: skip
    with Reader(settings["store"]) as reader:
        stopped = why_stopped(reader.memory(cluster), time.time())
    would = sum(limit < job.limit for job, _, limit, _ in rows)
    notes = [f"{would} of {len(rows)} waiting jobs would get a new limit; nothing was changed", plan_words(settings)]
    if stopped:
        notes.insert(0, f"{stopped}; the following applies once planning is on again")
    if settings["plan"] == "order":
        notes.append("this output covers only time limits, which plan = order does not change")
    if settings["plan"] in ORDERS:
        placed = sum(factor != 0 for factor in factors.values())
        would_be = f"{placed} would get a new priority; {extremes(factors)}".removesuffix("; ")
        notes.append(f"no priority would change: {why_not}" if why_not else would_be)
    return notes, results


def _switch(settings: Any, off: bool) -> tuple[list[str], list[dict[str, Any]]]:
    """Switch planning off or on, and return notes; switching off restores time limits and priorities."""
    from ...service.batch_system import open_scheduler
    from ...service.planning.agent import Planner
    from ...service.settings import own_name
    from ...store.clock_jobs import write_meta
    from ...store.database import Store
    from ...store.planned import SWITCH

    cluster, store = cluster_of(settings), Store(settings["store"])
    switch = {"by": own_name(), "at": time.time()} if off else None
    with store.begin() as connection:
        write_meta(connection, cluster, **{SWITCH: switch})
    if not off:
        store.close()
        return [f"planning is on again; the setting plan is {settings['plan']}"], []
    planner = Planner(open_scheduler(settings)[0].transport, store, settings)
    restored, left, cleared, returned, problems = 0, 0, 0, 0, []
    for _ in range(ROUNDS):
        done = planner.cycle(cluster)
        restored, left, problems = restored + done.restored, done.standing + done.placed, done.problems
        returned += done.returned
        cleared += done.commented
        if not left and not done.commented:
            break
    store.close()
    if left:
        raise BatchcastError(
            f"{counted(left)} still with a planned limit or priority: "
            + ("; ".join(problems[:3]) or "slurmctld did not apply the change"),
            hint="run it again when slurmctld answers; the collector keeps trying",
        )
    comments = f", {counted(cleared, 'comment')} removed" if cleared else ""
    return [
        f"{counted(restored, 'limit')} and {returned:,} priorities restored; no job has a planned"
        f" limit or priority now{comments}. To plan again: batchcast plan --on"
    ], []


def _stored(settings: Any, audit: bool) -> tuple[list[str], list[dict[str, Any]]]:
    """Return notes and rows: the planned limits now, or with `audit` the changes of the last seven days."""
    from ...service.planning.checkup import ordered, standing, why_stopped
    from ...store.reader import Reader

    cluster, reader = cluster_of(settings), Reader(settings["store"])
    if audit:
        rows = reader.ask("plan_changes", cluster=cluster, since=time.time() - 7 * 86400)
        changes = [
            {name: row[name.removesuffix("_s")] for name in ("at", "job_id", "what", "limit_from_s", "limit_to_s")}
            | _of_order(row)
            for row in rows
        ]
        return [f"{counted(len(rows), 'change')} in the last 7 days"], changes
    rows = standing(reader, cluster)
    memory = reader.memory(cluster)
    placed, off = len(ordered(memory)), memory.get("plan_off")
    state = f"switched off by {off['by']}" if off else f"plan = {settings['plan']}"
    names = {"job_id": "job_id", "state": "state", "at": "at", "limit_s": "user_limit", "planned_s": "planned"}
    said = [f"{state}; {counted(len(rows))} with a planned time limit, {placed:,} with a planned priority"]
    said += filter(None, ["" if off or settings["plan"] == "off" else why_stopped(memory, time.time())])
    return said, [{name: row[column] for name, column in names.items()} for row in rows]


def _of_order(row: Any) -> dict[str, Any]:
    """Return the reason of a change; for priorities also the factors, which are not limits."""
    if not row["what"].startswith("order "):
        return {"why": row["why"]}
    why = f"SiteFactor {row['limit_from']:.0f} -> {row['limit_to']:.0f}: {row['why']}"
    return {"limit_from_s": math.nan, "limit_to_s": math.nan, "why": why}


def _print_rows(rows: Sequence[Row]) -> None:
    """Print rows with their reasons last; an infinite time limit is UNLIMITED, as Slurm prints it."""
    now = time.time()
    keys = sorted(rows[0], key=lambda key: key == "why")
    cells = {key: lambda row, key=key: text_of(key, row[key], now).replace("unlimited", "UNLIMITED") for key in keys}
    print_rows(", ".join(keys), rows, left=3, cells={**cells, "why": itemgetter("why")})
