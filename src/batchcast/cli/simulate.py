"""`batchcast simulate`: let a scheduler decide the starts of a log's jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .options import Log, describe_log, log_options, score_options, take_log, take_score
from .output import console, document, emit, progress, say

if TYPE_CHECKING:
    from ..simulate import Policy, Schedule


@click.command(short_help="Let a scheduler decide the starts, with predictors in the loop.")
@log_options
@score_options
@click.option(
    "--order",
    default="fcfs",
    show_default=True,
    metavar="ORDER",
    help="Who is the head: fcfs, sjf, ljf, saf, wfp, f1..f4, MODULE:FUNCTION.",
)
@click.option("--backfill", default="easy", show_default=True, help="none, easy or conservative.")
@click.option(
    "--backfill-order",
    default="fcfs",
    show_default=True,
    metavar="ORDER",
    help="Candidates of easy: as --order; both take :on=requested,ageing=W.",
)
@click.option(
    "--running-ends", default="planned", show_default=True, help="What ends running jobs: planned or requested time."
)
@click.option("--head-after", metavar="TIME", help="Reserve by requests for a head that waited longer.")
@click.option(
    "--partitions", default="together", show_default=True, help="together, or split: each partition a machine."
)
@click.option(
    "--runtime", default="requested", show_default=True, metavar="SPECS", help="What plans: NAME:key=value,..."
)
@click.option(
    "--plan-level", type=float, metavar="Q", help="Plan with this quantile of the forecast instead of its point."
)
@click.option("--correct", default="requested", show_default=True, help="requested, incremental or doubling.")
@click.option(
    "--loop", default="closed", show_default=True, help="closed: learn at simulated ends; open: at recorded ones."
)
@click.option("--protocol", default="honest", show_default=True, help="With --loop open: honest or paper.")
@click.option("--no-kill", is_flag=True, help="Keep runs beyond the request; plan with max(request, run).")
@click.option(
    "--event-order", default="instant", show_default=True, help="instant, or pyss as the reference schedules."
)
@click.option(
    "--wide", default="drop", show_default=True, help="Jobs wider than the machine: drop, widen (it), cut (them)."
)
@click.option(
    "--default-request", metavar="TIME", help="Plans jobs without a request. Default: the log's largest request."
)
@click.option("--schedule", "schedule_file", metavar="FILE", help="Write the schedule as CSV.")
@click.option(
    "--schedule-format",
    type=click.Choice(["batchcast", "batsim"]),
    default="batchcast",
    show_default=True,
    help="Columns of that CSV: ours, or those of Batsim's jobs.csv with numbered processors.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(**given: Any) -> None:
    """Simulate LOG (SWF, sacct, PBS, CSV, Parquet; - is stdin) under a policy and print waits and slowdowns.

    \b
    batchcast simulate log.swf.gz --backfill-order sjf --runtime last_2 --correct incremental
    """
    import os
    import sys
    import time

    from ..predict.registry import split_specs
    from ..simulate import Policy
    from ..units import parse_duration

    log = take_log(given, tell=not given["as_json"])
    mask = take_score(given, log) if given["score_from"] or given["score_to"] or given["score_status"] else None
    for key in ("score_from", "score_to", "score_status"):
        given.pop(key, None)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # for MODULE:FUNCTION; the console script's path starts at its own folder
    policy = Policy(
        given["order"],
        given["backfill"],
        given["backfill_order"],
        given["correct"],
        not given["no_kill"],
        given["event_order"],
        given["running_ends"],
        parse_duration(given["head_after"]) if given["head_after"] else float("inf"),
    )
    run = _machines(given["partitions"], log)
    default = parse_duration(given["default_request"]) if given["default_request"] else None
    results, made = [], []
    for spec in split_specs(given["runtime"]):
        with progress(f"{policy.name} {spec}", len(log.trace)) as tick:
            schedule = run(
                policy,
                spec,
                procs=log.procs,
                wide=given["wide"],
                default_request=default,
                loop=given["loop"],
                protocol=given["protocol"],
                plan_level=given["plan_level"],
                clock=time.perf_counter,
                tick=tick,
            )
        _check_any(schedule)
        made.append(schedule)
        found = schedule.measures(None if mask is None else mask[schedule.rows])
        results.append({"policy": policy.name, "runtime": spec, **found, "kernel_s": schedule.kernel_s})
    if given["schedule_file"]:
        _write(given["schedule_file"], made, log, given["schedule_format"])
    settings = {**log.settings, **_settings(given, policy), "machine_procs": made[0].total, "tau_s": 10.0}
    warnings = [*log.warnings, *_left_out(made[0]), *made[0].notes]
    if given["as_json"]:
        emit(document("simulate", describe_log(log.trace), settings, warnings, results))
        return
    for line in (*_left_out(made[0]), *made[0].notes):
        say(f"note: {line}")
    console().print(_table(results, policy, made[0]))


def _check_any(schedule: Schedule) -> None:
    from ..errors import NoAnswer

    if not len(schedule):
        why = "; ".join(_left_out(schedule)) or "the log has none"
        raise NoAnswer(f"no job to simulate: {why}", hint="`batchcast info LOG` shows which fields the log knows")


def _machines(partitions: str, log: Log) -> Callable[..., Schedule]:
    """`simulate` on the log as one machine, or as one for each partition."""
    from functools import partial

    from ..errors import UsageError
    from ..simulate import simulate, simulate_split
    from ..trace import partition_sizes

    if partitions == "together":
        return partial(simulate, log.trace)
    if partitions != "split":
        raise UsageError(f"--partitions: no {partitions!r} (accepted: together, split)")
    return partial(simulate_split, log.trace, partition_sizes(log.trace, log.procs))


def _settings(given: dict[str, Any], policy: Policy) -> dict[str, Any]:
    names = [
        "order",
        "backfill",
        "backfill_order",
        "running_ends",
        "head_after",
        "correct",
        "event_order",
        "wide",
        "partitions",
        "loop",
        "protocol",
        "plan_level",
    ]
    return {**{name: given[name] for name in names}, "kill": policy.kill, "default_request": given["default_request"]}


def _left_out(schedule: Schedule) -> list[str]:
    return [f"{count} jobs not simulated ({reason})" for reason, count in schedule.left_out.items() if count]


def _write(path: str, made: list[Schedule], log: Log, form: str) -> None:
    from ..errors import InputError, UsageError
    from ..trace.batsim import write_batsim
    from ..trace.schedule import write_schedule

    if len(made) > 1:
        raise UsageError("--schedule writes one schedule", hint="one --runtime at a time")
    try:
        if form == "batsim":
            write_batsim(path, made[0], log.trace)
        else:
            write_schedule(path, made[0])
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def _table(results: list[dict[str, Any]], policy: Policy, schedule: Schedule) -> Any:
    from rich.table import Table

    from ..units import format_duration

    title = (
        f"{policy.name}, {schedule.total} processors, {len(schedule)} jobs simulated; bounded slowdown with tau = 10 s"
    )
    table = Table(title=title, title_justify="left")
    for heading in (
        "planned with",
        "mean wait",
        "median",
        "p95",
        "max",
        "mean bsld",
        "median bsld",
        "util.",
        "backfilled",
        "corrections",
    ):
        table.add_column(heading, justify="left" if heading == "planned with" else "right")
    for row in results:
        waits = [format_duration(row[f"{name}_wait_s"]) for name in ("mean", "median", "p95", "max")]
        slow = [f"{row['mean_bounded_slowdown']:.1f}", f"{row['median_bounded_slowdown']:.2f}"]
        shares = [f"{row['utilization']:.1%}", f"{row['backfilled_share']:.1%}", str(row["corrections"])]
        table.add_row(row["runtime"], *waits, *slow, *shares)
    return table
