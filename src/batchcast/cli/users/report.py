# SPDX-License-Identifier: Apache-2.0
"""`batchcast report`: asked against used, waits, and what to change."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ..grammar import verb
from ..output import print_columns, printed
from ..site_options import myself, parse_when, site_options, whoami


@verb()
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
    from ...errors import NoStore
    from ...service.answers import questions
    from ...service.answers.disclosure import Whose
    from ...service.answers.fallback import answer_or_ask_service
    from ...service.settings import load

    who = Whose(user or (None if account or partition else whoami()), account, partition)
    since, until = parse_when(starttime), parse_when(endtime) if endtime else math.inf
    asked = (load(flags), who, since, until, myself(), time.time())
    asked_for = {**who._asdict(), "starttime": f"uts{since:.0f}"}
    asked_for |= {"endtime": f"uts{until:.0f}"} if math.isfinite(until) else {}
    try:
        reply = answer_or_ask_service(asked[0], "report", asked_for, lambda: questions.report(*asked))
    except NoStore as error:
        from ...service.answers import fallback

        reply = fallback.report(*asked, error.message)
    if printed("report", reply, as_json, parsable2):
        return
    _print(reply.results, reply.settings["advice"], reply.settings["by"])


def _print(results: Sequence[Mapping[str, Any]], advised: Sequence[Mapping[str, Any]], by: str) -> None:
    from ...units import span

    title = {"job_name": "JOBNAME", "user_id": "USER", "partition_id": "PARTITION"}[by]
    lines = [[title, "JOBS", "CPU HOURS", "ASKED", "RAN", "LIMIT USED", "CUT OFF", "WAITED", "9 OF 10"]]
    for r in results[:40]:
        used = r["limit_used_share"]
        lines.append(
            [
                _short(r[by]),
                str(r["jobs"]),
                f"{r['processor_hours']:.1f}",
                span(r["median_limit_s"], "-"),
                span(r["median_run_s"], "-"),
                "-" if used != used else f"{used:.0%}",
                str(r["timeouts"]),
                span(r["median_wait_s"], "-"),
                span(r["p90_wait_s"], "-"),
            ]
        )
    print_columns(lines, left=1)
    if len(results) > 40:
        click.echo(f"and {len(results) - 40} more (-P or --json shows all)")
    click.echo("ASKED, RAN, WAITED are medians; LIMIT USED is processor time used of processor time asked for.")
    for one in advised[:10]:
        click.echo(f"advice: {_short(one['job_name'])} ({one['user']}, {one['jobs']} jobs): {one['advice']}")


def _short(name: str) -> str:
    plain = name.replace("\n", " ")
    return plain if len(plain) <= 32 else plain[:29] + "..."
