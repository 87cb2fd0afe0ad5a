"""`batchcast start`: when will my job start?"""

from __future__ import annotations

import time
from typing import Any

import click

from .output import document, emit, say
from .site import clock, site_options, whoami


@click.command()
@click.argument("job_ids", nargs=-1, metavar="[JOBID]...")
@site_options
@click.option("--me", is_flag=True, help="My waiting jobs (the default without JOBID).")
@click.option("-u", "--user", metavar="NAME", help="This user's waiting jobs.")
@click.option("--start", "slurm", is_flag=True, help="Slurm's own estimate (squeue --start) beside ours.")
@click.option("--test", "script", type=click.Path(), help="A script not yet submitted: its #SBATCH lines; - is stdin.")
@click.option("-p", "--partition", help="With --test: as sbatch takes it.")
@click.option("-A", "--account", help="With --test.")
@click.option("-t", "--time", "limit", metavar="TIME", help="With --test: the limit.")
@click.option("-N", "--nodes", help="With --test.")
@click.option("-n", "--ntasks", help="With --test.")
@click.option("-c", "--cpus-per-task", "cpus_per_task", help="With --test.")
@click.option("--mem", help="With --test.")
@click.option("-J", "--job-name", "job_name", help="With --test.")
@click.option("-P", "--parsable2", is_flag=True, help="Columns parted by |, times as epoch seconds.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    job_ids: tuple[str, ...],
    me: bool,
    user: str | None,
    slurm: bool,
    script: str | None,
    store: str | None,
    scheduler: str | None,
    cluster: str | None,
    parsable2: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """When waiting jobs will start: likely, by 90 %, on what basis, and our track record there.

    Reads the collector's store, never Slurm; without a store one gentle query gives Slurm's own estimate.
    """
    from ..service.settings import load

    settings = load({"store": store, "scheduler": scheduler, "cluster": cluster})
    now = time.time()
    if script is not None:
        from ..service.whatif import answer_script

        results, notes = answer_script(settings, script, asked, now, whoami())
    else:
        results, notes = _answers(settings, job_ids, user or (None if job_ids and not me else whoami()), now)
    if as_json:
        shown = {"store": settings["store"], "scheduler": settings["scheduler"], "now_s": now, "track_record_days": 30}
        emit(document("start", {}, shown, notes, results))
        return
    for note in notes:
        say(note)
    if parsable2:
        names = list(results[0])
        click.echo("|".join(names))
        for r in results:
            click.echo("|".join(_cell(r[n]) for n in names))
        return
    _print(results, now, slurm)


def _answers(
    settings: Any, ids: tuple[str, ...], user: str | None, now: float
) -> tuple[list[dict[str, Any]], list[str]]:
    """From the store; where there is none, from one query."""
    from ..errors import NoAnswer, NoStore
    from ..service import answers
    from ..store.reader import Reader

    try:
        reader = Reader(settings["store"])
    except NoStore as error:
        return _without_store(settings, ids, user, error.message, now)
    cluster = answers.choose_cluster(reader, settings["cluster"] or None)
    memory = reader.memory(cluster)
    private = is_private(settings, memory)
    method = answers.answering_method(memory)
    rows = answers.waiting_jobs(reader, cluster, ids, user, method)
    if private and whoami() != "root":
        rows = [row for row in rows if row["user_id"] == whoami()]
    if not rows:
        what = f"job {', '.join(ids)} is not" if ids else f"no job of {user} is"
        raise NoAnswer(
            f"{what} waiting in {cluster}, as far as the collector knows",
            hint="squeue shows whether it runs or is gone; a job just submitted appears within a minute",
        )
    least = settings["least_users"] if private else 1
    records = {
        p: answers.track_record(reader, cluster, p, method, now - answers.TRACK_RECORD_S, least)
        for p in {r["partition_id"] for r in rows}
    }
    results = []
    for row in rows:
        record = records[row["partition_id"]]
        results.append(
            {
                **answers.start_answer(row, now),
                "track_record_forecasts": record.get("forecasts", 0),
                "track_record_coverage_90": record.get("coverage_90"),
                "track_record_median_ae_s": record.get("median_ae_s"),
            }
        )
    if all(r["method"] is None for r in results):
        raise NoAnswer(f"no forecast has been issued for {', '.join(r['job_id'] for r in results[:5])} yet",
                       hint="the collector issues one within an interval; "
                       + "; ".join(answers.staleness(memory, now) or ["it is up to date"]))  # fmt: skip
    if all(r["likely_wait_s"] != r["likely_wait_s"] and r["basis"].startswith(answers.NO_HISTORY) for r in results):
        raise NoAnswer(
            f"too little history on {cluster} to say anything: no job like {results[0]['job_id']} has started yet",
            hint="ask again when some jobs have started; batchcast start --start shows Slurm's own estimate",
        )
    return results, answers.staleness(memory, now)


def is_private(settings: Any, memory: dict[str, Any]) -> bool:
    """Whether users must not see each other's jobs: as set, else as the site's PrivateData says."""
    if settings["private"] in ("yes", "no"):
        return bool(settings["private"] == "yes")
    return bool(memory.get("site", {}).get("private"))


def _without_store(
    settings: Any, ids: tuple[str, ...], user: str | None, why: str, now: float
) -> tuple[list[dict[str, Any]], list[str]]:
    from ..errors import NoAnswer, Unreachable
    from ..formats.reasons import plain_reason
    from ..service.connect import open_scheduler

    if not ids:
        raise NoAnswer(
            why + ", and without one only single jobs are asked for", hint="give a JOBID, or ask for a collector"
        )
    try:
        jobs = open_scheduler(settings)[0].job(",".join(ids)).jobs
    except Unreachable as error:
        raise Unreachable(
            f"{why}, and {error.message}", hint=error.hint or "batchcast doctor checks every part"
        ) from None
    waiting = [j for j in jobs if j.state == "PENDING" and j.expected_start == j.expected_start]
    if not waiting:
        raise NoAnswer(
            f"{why}, and the scheduler itself gives no start for {', '.join(ids)}",
            hint="try again in a minute, or ask for a collector (docs/live.md)",
        )
    unknown = float("nan")
    return [
        {
            "job_id": j.job_id,
            "partition": j.partition_id,
            "name": j.job_name,
            "submit_time_s": j.submit_time,
            "waited_s": now - j.submit_time,
            "likely_start_s": unknown,
            "by_90_start_s": unknown,
            "likely_wait_s": unknown,
            "by_90_wait_s": unknown,
            "counts_from": "submission",
            "reason": j.reason,
            "reason_in_words": plain_reason(j.reason),
            "slurm_start_s": j.expected_start,
            "basis": "the scheduler's own estimate; no history is kept here",
            "method": None,
            "track_record_forecasts": 0,
            "track_record_coverage_90": None,
            "track_record_median_ae_s": None,
        }
        for j in waiting
    ], [why + ": asked the scheduler once instead"]


def _print(results: list[dict[str, Any]], now: float, slurm: bool) -> None:
    """The table; tasks of one array with the same answer share a line."""
    from ..units import format_duration

    slurm = slurm or results[0]["method"] is None
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for r in results:
        array, _, task = r["job_id"].partition("_")
        groups.setdefault((array, str(bool(task)), *_columns(r, now, slurm)), []).append(r)
    lines = [["JOBID", "PARTITION", "LIKELY", "BY 90%", "WAITED", *(["SLURM SAYS"] if slurm else []), "WHY IT WAITS"]]
    lines += [[_together([r["job_id"] for r in same]), *key[2:]] for key, same in groups.items()]
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    for basis in dict.fromkeys(r["basis"] for r in results):
        click.echo(f"basis: {basis}")
    for part, r in {r["partition"]: r for r in results}.items():
        if r["track_record_forecasts"]:
            cover = r["track_record_coverage_90"]
            held = f"{cover:.0%} started by the 90 % time, " if cover is not None and cover == cover else ""
            within = format_duration(r["track_record_median_ae_s"])
            click.echo(
                f"track record on {part}, last 30 days: {r['track_record_forecasts']} forecasts, {held}half were "
                f"within {within}"
            )
        elif r["method"] is not None:
            click.echo(f"track record on {part}: fewer than 20 forecasts have come out yet")


def _columns(r: dict[str, Any], now: float, slurm: bool) -> tuple[str, ...]:
    """What a line says of a job, after its id. A wait that counts from something unknown is shown as +wait."""
    from ..units import format_duration

    said = []
    for name in ("likely", "by_90"):
        wait, at = r[f"{name}_wait_s"], r[f"{name}_start_s"]
        floating = at != at and wait == wait and wait != float("inf")
        said.append(f"+{format_duration(wait)}" if floating else clock(at, now))
    why = r["reason_in_words"] + (f" (+ counts from {r['counts_from']})" if said[0].startswith("+") else "")
    estimate = [clock(r["slurm_start_s"], now)] if slurm else []
    return (r["partition"] or "-", *said, format_duration(r["waited_s"]), *estimate, why)


def _together(ids: list[str]) -> str:
    """One name for tasks of an array.

    >>> _together(["15_2", "15_3", "15_4", "15_9"])
    '15_[2-4,9]'
    """
    if len(ids) == 1:
        return ids[0]
    array = ids[0].partition("_")[0]
    spans: list[list[int]] = []
    for task in sorted(int(job_id.partition("_")[2]) for job_id in ids):
        if spans and spans[-1][1] == task - 1:
            spans[-1][1] = task
        else:
            spans.append([task, task])
    return f"{array}_[{','.join(str(a) if a == b else f'{a}-{b}' for a, b in spans)}]"


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    return (
        f"{value:.0f}"
        if isinstance(value, float) and abs(value) > 1 and value != float("inf")
        else str(value).replace("|", "/").replace("\n", " ")
    )
