# SPDX-License-Identifier: Apache-2.0
"""`batchcast report`: what jobs requested and used, how long they waited, and what to change."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...document import in_number
from ...errors import BatchcastError, NoAnswer, Unreachable, UsageError
from ...units import counted, format_memory
from ..completion import column_maps
from ..grammar import option, verb
from ..output import Cell, Row, echo, note, print_rows, printed, text_of
from ..site_options import ask, myself, site_options, site_settings, span_parameters, time_span

if TYPE_CHECKING:
    from ...service.settings import Settings

MANY = 40
"""Without --each, at most this many lines of jobs are printed."""
RECENT, RECENT_OF_DIGEST = "now-30days", "now-61days"
USERS = 8
"""Users in the answer about files: those with the most core-hours."""
SOUND, POOR = 0.6, 0.2
"""Used shares of a request: green at or above the first, red below the second."""
_BAD = {"FAILED": "red", "OUT_OF_MEMORY": "red", "NODE_FAIL": "red", "TIMEOUT": "yellow", "CANCELLED": "yellow"}


@verb()
@click.argument("jobs", nargs=-1, metavar="[JOB|FILE]...")
@site_options
@option("-u, --user NAME", "Jobs of this user.  [default: you]")
@option("-A, --account NAME", "Jobs of this account, by user.")
@option("-p, --partition NAME", "Jobs of this partition, by user.")
@option("-S, --starttime TIME", f"Jobs that ended at or after this time.  [default: {RECENT}; with FILE: all]")
@option("-E, --endtime TIME", "Jobs that ended before this time.  [default: now]")
@option("--each", "Print one line per job: processors, memory, GPUs and time, used and requested.")
@option("--tasks", "With --each or jobs: print the tasks of an array separately.")
@option("--months user|account|partition", "Compare months, by user, account or partition.")
@option("--digest", "Print one page for mail: the last two months, and what to change.")
@option("--map FILE.toml|NAME", "With FILE: column map of a CSV, as for `info`.", shell_complete=column_maps)
@option("-P, --parsable2", "Print columns separated by |.")
def command(jobs: tuple[str, ...], parsable2: bool, as_json: bool, **options: Any) -> None:
    """Show what jobs requested and used, how long they waited, and which options to change.

    With jobs, --each, --months or --digest, the data comes from accounting, without a store. Instead of jobs you can
    name one or more log FILEs (or -) in any format that `info` reads; the answer is then one line per user. Advice
    needs at least 5 jobs of one name, limits of twice the need, and one unused core-hour.

    \b
    batchcast report -S now-7days
    batchcast report 4711 4712_3
    batchcast report --each -u alice
    """
    query = {"jobs": jobs, **{key: options[key] for key in ("user", "account", "partition", "each", "cluster")}}
    query |= {key: options[key] for key in ("starttime", "endtime", "tasks", "months", "digest", "map")}
    if jobs or query["each"] or query["months"] or query["digest"]:
        return _from_accounting(site_settings(options), query, parsable2, as_json)
    from ...service.answers import fallback, questions
    from ...service.answers.disclosure import Whose
    from ...service.settings import own_name

    user = query["user"] or (None if query["account"] or query["partition"] else own_name())
    who = Whose(user, query["account"], query["partition"])
    asked = (site_settings(options), who, *time_span(query, RECENT), myself(), time.time())
    parameters = {**who._asdict(), **span_parameters(*asked[2:4])}
    here, without_store = partial(questions.report, *asked), partial(fallback.report, *asked)
    reply = ask(asked[0], "report", parameters, here, without_store)
    if printed("report", reply, as_json, parsable2):
        return
    _print_summary(reply.results, reply.settings["advice"], reply.settings["by"])


def _from_accounting(settings: Settings, query: Row, parsable2: bool, as_json: bool) -> None:
    """Print jobs one by one, or months, from one query to sacct or from files."""
    from ...service.answers import efficiency
    from ...service.answers.answer import Answer

    since, until = time_span(query, None if query["jobs"] else RECENT_OF_DIGEST if query["digest"] else RECENT)
    files = _files(query["jobs"], query["map"])
    used, warnings = _of_files(files, query, since, until) if files else _of_slurm(settings, query, since, until)
    note(*([] if used else warnings))
    if not used and files:
        raise NoAnswer(f"no selected job in {', '.join(files)} has run", hint=f"batchcast info {files[0]}")
    if not used and query["jobs"]:
        raise NoAnswer("none of these jobs is in accounting, or none has started", hint="batchcast report --each")
    if not used:
        raise NoAnswer("accounting shows no job that ran in that time", hint="an earlier -S, e.g. -S now-90days")
    by = query["months"] or ("user" if query["digest"] else None)
    if by:
        rows = efficiency.by_month(used, by, _month)
    else:
        rows = [job.row() for job in (used if query["tasks"] else efficiency.folded(used))]
    advised = efficiency.advice(used, settings["limit_floor"], settings["limit_step"], settings["memory_step"])
    if not files:
        advised = _with_limits_of_walltime(settings, advised)
    total = efficiency.totals(used)
    shown = {**query, "starttime_s": None if math.isinf(since) else since, "by": by, "advice": advised, "total": total}
    if printed("report", Answer({}, shown, warnings, rows), as_json, parsable2):
        return
    if query["digest"]:
        whose = ", ".join(sorted({job.user or "-" for job in used})[:3])
        echo(f"Jobs of {whose}, {rows[0]['month']} to {rows[-1]['month']}\n")
    if by:
        _print_usage(rows, by, "month, ")
    elif files and not query["each"] and not query["tasks"]:
        users = efficiency.by_month(used, "user", lambda instant: "")
        _print_usage(users[:USERS], "user")
        if len(users) > USERS:
            echo(f"and {len(users) - USERS} more users")
        _print_total(total, 0, every=True)
        echo("more: --each (one line per job), --months user")
    else:
        _print_jobs(rows if query["each"] else _largest(rows))
        _print_total(total, len(rows), query["each"])
    _print_advice(advised, 8, 24)


def _with_limits_of_walltime(settings: Settings, advised: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the limits that `walltime` suggests, if there is a store that this user can read."""
    from ...service.answers.advice import with_limits_of_walltime
    from ...service.answers.disclosure import open_site

    try:
        with open_site(settings, myself(), time.time()) as site:
            return with_limits_of_walltime(site, advised)
    except BatchcastError:  # without a store that this user may read, the advice is computed from the jobs themselves
        return advised


def _files(words: Sequence[str], column_map: str | None) -> list[str]:
    """Return the words if they name files; UsageError for a word that is neither a job nor a file."""
    files = [word for word in words if word == "-" or Path(word).exists()]
    jobs = [word for word in words if word not in files]
    if bad := [word for word in jobs if not re.fullmatch(r"\d+([_+]\d+)?", word)]:
        raise UsageError(
            f"{bad[0]}: neither a file nor a job number (accepted: 4711, 4712_3, files that `info` reads, or -)"
        )
    if column_map and not files:
        raise UsageError("--map is about the columns of a FILE (accepted: batchcast report FILE --map MAP)")
    if files and jobs:
        raise UsageError(f"{jobs[0]} is a job and {files[0]} is a file", hint="either jobs, read from sacct, or files")
    return files


def _of_files(files: Sequence[str], query: Row, since: float, until: float) -> tuple[list[Any], list[str]]:
    """Return the selected jobs of these files, and the reader's notes."""
    from ...service.answers.efficiency import of_logs

    used, notes = of_logs(files, _local_zone(), query["cluster"], query["map"])
    wanted = [(kind, query[kind]) for kind in ("user", "account", "partition") if query[kind]]
    used = [job for job in used if all(getattr(job, kind) == name for kind, name in wanted)]
    if math.isfinite(since) or math.isfinite(until):
        used = [job for job in used if since <= job.end_time < until]
    return used, [in_number(note) for note in notes]


def _local_zone() -> str:
    """Return this machine's time zone by name, as sacct uses it; today's UTC offset if the name is unknown."""
    from ...trace.select import zone

    named = os.environ.get("TZ") or str(Path("/etc/localtime").resolve()).partition("zoneinfo/")[2]
    try:
        zone(named)
        return named
    except UsageError:
        offset = time.strftime("%z")
        return f"{offset[:3]}:{offset[3:]}"


def _of_slurm(settings: Settings, query: Row, since: float, until: float) -> tuple[list[Any], list[str]]:
    """Return the jobs that sacct shows by id, user, account or partition, and notes on missing rows."""
    from ...service.answers import efficiency
    from ...service.answers.fallback import NEXT_STEP
    from ...service.batch_system import open_scheduler
    from ...service.settings import own_name

    jobs = query["jobs"]
    if settings["scheduler"] != "slurm":
        raise UsageError("single jobs can only be read from Slurm's sacct", hint="batchcast report without --each")
    named = [f"{flag}={query[kind]}" for kind, flag in efficiency.GROUPS.items() if query[kind]]
    whose = f"--user={query['user']}" if query["user"] else "--allusers" if named or jobs else f"--user={own_name()}"
    which = [f"--jobs={','.join(jobs)}"] if jobs else [*named, whose]
    try:
        used, broken = efficiency.ask_slurm(open_scheduler(settings)[0].transport, which, since, until)
    except Unreachable as error:
        raise Unreachable(error.message, hint=error.hint or NEXT_STEP) from None
    warnings = [f"{broken} rows of accounting could not be read and were left out"] if broken else []
    found = {name for job in used for name in (job.job_id, *job.job_id.replace("+", "_").split("_")[:1])}
    if used and (missing := [job for job in jobs if job not in found]):
        warnings.append(f"not in accounting, or not started: {', '.join(missing)}")
    return used, warnings


def _largest(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that used the most core-hours, in their present order."""
    order = sorted(range(len(rows)), key=lambda k: -(rows[k]["processors"] * rows[k]["elapsed_s"] * rows[k]["tasks"]))
    return [rows[k] for k in sorted(order[:MANY])]


def _month(instant: float) -> str:
    """Return the month of an instant in local time, - if it is unknown."""
    return time.strftime("%Y-%m", time.localtime(instant)) if math.isfinite(instant) else "-"


def _print_summary(results: Sequence[Row], advised: Sequence[Row], by: str) -> None:
    """Print one line per job name, user or partition, and the advice."""
    title = {"job_name": "JOBNAME", "user_id": "USER", "partition_id": "PARTITION"}[by]
    columns = (
        f"{by}|{title}, jobs, processor_hours|CPU HOURS, median_limit_s|ASKED, median_run_s|RAN, "
        "limit_used_share|LIMIT USED, timeouts|CUT OFF, median_wait_s|WAITED, p90_wait_s|9 OF 10"
    )
    print_rows(columns, results[:40], left=1, cells={by: lambda r: _short_name(r[by], 32)})
    if len(results) > 40:
        echo(f"and {len(results) - 40} more (-P or --json shows all)")
    echo("ASKED, RAN and WAITED are medians; LIMIT USED is the used share of the requested processor time.")
    _print_advice(advised, 10, 32)


def _print_jobs(rows: Sequence[Row]) -> None:
    """Print one line per job; shares in color on a terminal."""
    gpus = any(row["gpus"] for row in rows)
    energy = any(row["energy_kwh"] == row["energy_kwh"] for row in rows)
    clusters = len({row["cluster"] for row in rows}) > 1
    columns = (
        f"{'cluster, ' * clusters}job_id|JOBID, job_name|NAME, state, elapsed_s, "
        "limit_s, time_share|TIME, processor_share|CPU, memory, memory_share|MEM, "
        f"{'gpus, gpu_share|GPU, ' * gpus}{'energy_kwh|KWH, ' * energy}waited_s"
    )
    print_rows(columns, rows, left=3 + clusters, cells=_CELLS)
    echo("TIME, CPU, MEM: used share of each request. For an array, MEM is of the task with the most.")


def _print_total(total: Row, lines: int, every: bool) -> None:
    """Print what all jobs used together and, if not all lines were printed, the option that prints all."""
    if lines > MANY and not every:
        echo(f"the {MANY} of {lines:,} lines with the most core-hours (all: --each; a line a month: --months user)")
    shares = {"time": "time_share", "processors": "processor_share", "memory": "memory_share"}
    known = [f"{total[key]:.0%} of {name}" for name, key in shares.items() if not math.isnan(total[key])]
    ends = {"killed at the limit": total["timeouts"], "out of memory": total["out_of_memory"]}
    said = [f"{counted(total['jobs'])}, {total['processor_hours']:,.1f} core-hours"]
    said += [f"used {', '.join(known)}"] if known else []
    if total["energy_jobs"]:
        of = "" if total["energy_jobs"] == total["jobs"] else f" ({counted(total['energy_jobs'])} measured)"
        said.append(f"{total['energy_kwh']:,.2f} kWh{of}")
    said += [f"{count:,} {how}" for how, count in ends.items() if count]
    echo(f"total: {'; '.join(said)}")


def _print_usage(rows: Sequence[Row], by: str, month: str = "") -> None:
    """Print the rows of `efficiency.by_month`; shares are of the requested amount. `month` is the column of months."""
    columns = (
        f"{month}{by}, jobs, processor_hours|CPU HOURS, processor_share|CPU, time_share|TIME, "
        "memory_share|MEM, timeouts|CUT OFF, out_of_memory|NO MEMORY, median_wait_s|WAITED"
    )
    print_rows(columns, rows, left=2 if month else 1, cells={**_CELLS, by: lambda row: _short_name(row[by])})


def _print_advice(advised: Sequence[Row], most: int, width: int) -> None:
    """Print a sentence for each kind of job that could request less, or needs more; names have `width` characters."""
    for one in advised[:most]:
        who = f"{_short_name(one['job_name'], width)} ({one['user'] or '-'}, {counted(one['jobs'])})"
        echo(f"advice: {who}: {one['advice']}" + (f"; {one['waited']}" if one.get("waited") else ""))


def _colored(key: str) -> Callable[[Row], Cell]:
    """Return a function that returns a row's used share as a cell in green, yellow or red."""

    def cell(row: Row) -> Cell:
        share = row[key]
        color = "green" if share >= SOUND else "red" if share < POOR else "yellow"
        return Cell(text_of(key, share), None if math.isnan(share) else color)

    return cell


def _short_name(name: str, most: int = 24) -> str:
    """Return a job's name on one line, shortened to `most` characters."""
    plain = name.replace("\n", " ")
    return plain if len(plain) <= most else plain[: most - 3] + "..."


_CELLS: Mapping[str, Callable[[Row], str]] = {
    "job_name": lambda row: _short_name(str(row["job_name"])),
    "state": lambda row: Cell(row["state"], _BAD.get(row["state"].split(" ")[0])),
    "memory": lambda row: f"{format_memory(row['memory_kib'])}/{format_memory(row['memory_asked_kib'])}",
    **{key: _colored(key) for key in ("time_share", "processor_share", "memory_share", "gpu_share")},
}
"""Cells of tables that are more than the text of one value."""
