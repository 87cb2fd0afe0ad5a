"""`batchcast report`: asked against used, waits, and what to change."""

from __future__ import annotations

import math
import time
from typing import Any

import click

from .output import document, emit, say
from .site import parse_when, site_options, whoami


@click.command()
@site_options
@click.option("-u", "--user", metavar="NAME", help="This user's jobs.  [default: yours]")
@click.option("-A", "--account", metavar="NAME", help="An account's jobs, by user.")
@click.option("-p", "--partition", metavar="NAME", help="A partition's jobs, by user.")
@click.option(
    "-S", "--starttime", default="now-30days", show_default=True, metavar="TIME", help="Jobs that ended from here on."
)
@click.option("-E", "--endtime", metavar="TIME", help="Jobs that ended before this.  [default: now]")
@click.option("-P", "--parsable2", is_flag=True, help="Columns parted by |.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    user: str | None,
    account: str | None,
    partition: str | None,
    starttime: str,
    endtime: str | None,
    parsable2: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """What jobs asked for and what they used, how long they waited, and advice that names the flag to change.

    Advice is silent below a least waste: 5 jobs of one name, limits twice what they need, an hour of a processor.
    """
    from ..errors import InputError, NoAnswer
    from ..service import answers
    from ..service.settings import load
    from ..service.usage import advice, summary, usage
    from ..store.reader import Reader
    from ..units import parse_duration
    from .start import is_private

    settings = load(flags)
    reader = Reader(settings["store"])
    cluster = answers.choose_cluster(reader, settings["cluster"] or None)
    memory = reader.memory(cluster)
    who = user or (None if account or partition else whoami())
    hidden = is_private(settings, memory) and whoami() != "root"
    if hidden and user not in (None, whoami()):
        raise InputError(f"jobs are private here: {whoami()} may not see those of {user}")
    since, until = parse_when(starttime), parse_when(endtime) if endtime else math.inf
    rows = usage(reader, cluster, since, until, user=who, account=account, partition=partition)
    by = "job_name" if who else "user_id"
    if hidden and who != whoami():
        by = "partition_id"
        if len({row["user_id"] for row in rows}) < settings["least_users"]:
            raise NoAnswer(
                f"jobs are private here, and these are of fewer than {settings['least_users']} users",
                hint="a longer time, or your own jobs",
            )
    if not rows:
        raise NoAnswer(
            f"no finished job of {who or account or partition} in that time", hint="an earlier -S, e.g. -S now-90days"
        )
    results = summary(rows, by)
    if hidden and who != whoami():
        results = [r for r in results if r["users"] >= settings["least_users"]]
    advised = (
        []
        if by == "partition_id"
        else advice(rows, parse_duration(settings["limit_floor"]), parse_duration(settings["limit_step"]))
    )
    notes = answers.staleness(memory, time.time())
    if as_json:
        shown = {
            "store": settings["store"],
            "user": who,
            "account": account,
            "partition": partition,
            "starttime_s": since,
            "endtime_s": until,
            "advice": advised,
        }
        emit(document("report", {"cluster": cluster}, shown, notes, results))
        return
    for note in notes:
        say(note)
    if parsable2:
        click.echo("|".join(results[0]))
        for r in results:
            click.echo(
                "|".join(
                    ""
                    if v is None or v != v
                    else f"{v:g}"
                    if isinstance(v, float)
                    else str(v).replace("|", "/").replace("\n", " ")
                    for v in r.values()
                )
            )
        return
    _print(results, advised, by)


def _print(results: list[dict[str, Any]], advised: list[dict[str, Any]], by: str) -> None:
    from ..units import format_duration

    title = {"job_name": "JOBNAME", "user_id": "USER", "partition_id": "PARTITION"}[by]
    lines = [[title, "JOBS", "CPU HOURS", "ASKED", "USED", "LIMIT USED", "TIMEOUTS", "WAITED", "9 OF 10"]]
    for r in results[:40]:
        used = r["limit_used_share"]
        lines.append(
            [
                _short(r[by]),
                str(r["jobs"]),
                f"{r['processor_hours']:.1f}",
                format_duration(r["median_limit_s"]),
                format_duration(r["median_run_s"]),
                "-" if used != used else f"{used:.0%}",
                str(r["timeouts"]),
                format_duration(r["median_wait_s"]),
                format_duration(r["p90_wait_s"]),
            ]
        )
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    for line in lines:
        click.echo(
            "  ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths))).rstrip()
        )
    if len(results) > 40:
        click.echo(f"and {len(results) - 40} more (-P or --json shows all)")
    click.echo("ASKED, USED, WAITED are medians; LIMIT USED is processor time used of processor time asked for.")
    for one in advised[:10]:
        click.echo(f"advice: {_short(one['job_name'])} ({one['user']}, {one['jobs']} jobs): {one['advice']}")


def _short(name: str) -> str:
    plain = name.replace("\n", " ")
    return plain if len(plain) <= 32 else plain[:29] + "..."
