# SPDX-License-Identifier: Apache-2.0
"""`batchcast start`: predicts when waiting jobs will start."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...units import counted
from ..grammar import option, verb
from ..output import echo, print_columns, printed, say
from ..site_options import clock, myself, parse_when, site_options
from .start_text import advice_lines, before_maintenance, priority_passes, say_ignored, sentences, why_moved

if TYPE_CHECKING:
    from ...clusters.configured import Configured
    from ...service.answers.answer import Answer
    from ...service.settings import Settings

WATCHED_EVERY_S = 10.0
LONGEST = 32
"""Maximum length of the shared name of an array's tasks; a longer name would make the table too wide."""


@verb()
@click.argument("job_ids", nargs=-1, metavar="[JOBID]...")
@site_options
@option("--me", "Your waiting jobs (the default without JOBID).")
@option("-u, --user NAME", "Waiting jobs of this user.")
@option("--start", "Also show Slurm's own estimate (squeue --start).", "slurm")
@option(
    "--test", "Predict a script that is not submitted, from its #SBATCH lines; - is stdin.", "script", type=click.Path()
)
@option("-p, --partition TEXT", "With --test: partition, as for sbatch.")
@option("-A, --account TEXT", "With --test: account.")
@option("-t, --time TIME", "With --test: time limit.", "limit")
@option("-N, --nodes TEXT", "With --test: number of nodes.")
@option("-n, --ntasks TEXT", "With --test: number of tasks.")
@option("-c, --cpus-per-task TEXT", "With --test: processors per task.")
@option("--mem TEXT", "With --test: memory per node.")
@option("-G, --gpus TEXT", "With --test: GPUs, as 2 or a100:2.")
@option("--gpus-per-node TEXT", "With --test: GPUs per node.")
@option("--gpus-per-task TEXT", "With --test: GPUs per task.")
@option("--gres TEXT", "With --test: generic resources, as gpu:a100:2.")
@option("-C, --constraint TEXT", "With --test: features of the nodes.")
@option("-J, --job-name TEXT", "With --test: job name.")
@option("-q, --qos TEXT", "With --test: QOS.")
@option("-a, --array TEXT", "With --test: array tasks.")
@option("-b, --begin TIME", "With --test: begin time.")
@option("-d, --dependency TEXT", "With --test: dependency.")
@option("-H, --hold", "With --test: submit the job held.", default=None)
@option("--ntasks-per-node TEXT", "With --test: tasks per node.")
@option("--machine FILE", "With --test: also simulate Slurm on the machine in this file.", type=click.Path())
@option("--where", "With --test: compare all partitions and QOS, the best first, then other sizes.")
@option("--done-by TIME", "With --where: rank by the probability to finish by this time.", "by")
@option("--chunks TOTAL,COST", "With --test: compare chunk lengths; COST is the time of a checkpoint.")
@option("--any-size", "With --where: also rank half and twice the size.")
@option(
    "--input PATH|SIZE[@PLACE]",
    "With --where over several clusters: a file that the job reads, or its size, and where it is.",
    "inputs",
    multiple=True,
)
@option("--watch", "Repeat every 10 s until Ctrl-C.")
@option("--within SPAN", "Exit with code 1 if a job's probability to start within this time is below --chance.")
@option("--chance SHARE", "With --within: required probability.", default="90%")
@option("-P, --parsable2", "Print columns separated by |, with times in epoch seconds.")
def command(
    job_ids: tuple[str, ...],
    me: bool,
    user: str | None,
    slurm: bool,
    script: str | None,
    store: str | None,
    scheduler: str | None,
    cluster: str | None,
    machine: str | None,
    where: bool,
    by: str | None,
    any_size: bool,
    chunks: str | None,
    inputs: tuple[str, ...],
    watch: bool,
    within: str | None,
    chance: str,
    parsable2: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Predict when waiting jobs will start: the likely start, the 90 % start, and how often such answers were right.

    Reads the collector's store, never Slurm. Without a store, one query gives Slurm's own estimate.
    """
    from ...errors import NoStore, UsageError
    from ...service.answers import questions
    from ...service.answers.fallback import answer_or_ask_service
    from ...service.settings import load, own_name

    asked_span = parse_within(within, chance) if within is not None else None
    if (where and script is None) or ((by is not None or any_size or inputs) and not where):
        raise UsageError("--done-by, --any-size and --input need --where, and --where needs --test SCRIPT")
    if machine is not None and (script is None or where):
        raise UsageError("--machine needs --test SCRIPT and cannot be combined with --where")
    if watch and (script == "-" or asked_span is not None):
        raise UsageError("--watch repeats the query; it cannot be combined with a script from stdin or with --within")
    if chunks is not None and (script is None or where or machine is not None or asked_span is not None):
        raise UsageError("--chunks needs --test SCRIPT; it cannot be combined with --where, --machine or --within")
    settings = load({"store": store, "scheduler": scheduler, "cluster": cluster})
    clusters = _clusters(cluster, inputs) if where and store is None else None

    def ask_now(now: float) -> Answer:
        if script is not None and chunks is not None:
            return _ask_chunks(settings, script, asked, chunks, now)
        if script is not None and clusters is not None:
            from .clusters import ask_clusters

            return ask_clusters(clusters, settings, script, asked, inputs, deadline_of(by, now), any_size, now)
        if script is not None:
            return _ask_of_script(settings, script, asked, where, by, now, machine, any_size)
        whose = user or (None if job_ids and not me else own_name())
        try:
            asked_for = {"job": ",".join(job_ids) or None, "user": whose}
            from_store = partial(questions.start_from_store, settings, job_ids, whose, myself(), now)
            return answer_or_ask_service(settings, "start", asked_for, from_store)
        except NoStore as error:
            from ...service.answers.fallback import start_by_scheduler

            return start_by_scheduler(settings, job_ids, whose, error.message, now)

    def show(reply: Answer, now: float) -> None:
        if printed("start", reply, as_json, parsable2):
            return
        if chunks is not None:
            from .start_text import print_chunks

            print_chunks(reply.results, now)
        elif clusters is not None:
            from .clusters import print_clusters

            print_clusters(reply.results, now, by is not None, script or "")
        elif where:
            from .start_text import print_where

            print_where(reply.results, now, by is not None, any_size, script or "")
        else:
            _print(reply.results, now, slurm)

    if watch:
        from ..interrupt import stop_on_signals

        stop = stop_on_signals()
        while not stop(0.0):
            now = time.time()
            reply = ask_now(now)
            if not (as_json or parsable2):
                click.clear()
            show(reply, now)
            sys.stdout.flush()
            if stop(WATCHED_EVERY_S):
                break
        return
    now = time.time()
    reply = ask_now(now)
    show(reply, now)
    if asked_span is not None:
        _judge(reply.results, *asked_span)


def _clusters(names: str | None, inputs: Sequence[str]) -> Configured | None:
    """Return the clusters to compare, if the settings have several or `-M` names one of them; else None."""
    from ...clusters.configured import chosen, configured
    from ...errors import UsageError

    known = configured()
    if known.clusters:
        return chosen(names, known)
    if inputs:
        raise UsageError("--input needs the clusters' bandwidths: [[cluster]] in batchcast.toml has them")
    return None


def deadline_of(by: str | None, now: float) -> float | None:
    """Return `--done-by` in epoch seconds; a time of day that has passed means tomorrow, as in sbatch."""
    if by is None:
        return None
    until = parse_when(by, now)
    return until + 86400.0 if until <= now and re.fullmatch(r"[\d:]+", by) else until


def _ask_chunks(settings: Settings, script: str, asked: Mapping[str, Any], chunks: str, now: float) -> Answer:
    """Answer `--test --chunks`."""
    from ...service.answers.forecaster import options_of
    from ...service.answers.script import answer_chunks, parse_chunks

    total, cost = parse_chunks(chunks)
    options, ignored = options_of(script, asked)
    say_ignored(ignored)
    return answer_chunks(settings, options, myself(), now, total, cost)


def _ask_of_script(
    settings: Settings,
    script: str,
    asked: Mapping[str, Any],
    where: bool,
    by: str | None,
    now: float,
    machine: str | None = None,
    any_size: bool = False,
) -> Answer:
    """Answer `--test`; with `--where`, for every way to submit the script."""
    from ...service.answers.fallback import answer_or_ask_service
    from ...service.answers.forecaster import options_of
    from ...service.answers.script import answer_options

    options, ignored = options_of(script, asked)
    say_ignored(ignored)
    # the file belongs to the user, so this process reads the store instead of asking the service
    if machine is not None:
        from ...trace.machine_files import open_machine

        return answer_options(settings, options, myself(), now, open_machine(machine))
    if not where:
        from_store = partial(answer_options, settings, options, myself(), now)
        return answer_or_ask_service(settings, "test", options, from_store)
    from ...service.answers.script import answer_where

    until = deadline_of(by, now)
    given = options if until is None else {**options, "by": f"uts{until:.0f}"}
    given = {**given, "any-size": "yes"} if any_size else given
    from_store = partial(answer_where, settings, options, myself(), now, until, any_size)
    return answer_or_ask_service(settings, "where", given, from_store)


def parse_within(within: str, chance: str) -> tuple[float, float]:
    """Read `--within` as seconds and `--chance` as a share; UsageError with the accepted forms.

    >>> parse_within("2h", "80%"), parse_within("10m", "0.5")
    ((7200.0, 0.8), (600.0, 0.5))
    """
    from ...errors import UsageError
    from ...units import parse_span

    span = parse_span(within)
    if not 0 < span <= 86400.0:
        raise UsageError(f"--within: {within!r} (accepted: a span above 0 s and up to a day: 30m, 2h, 1d)")
    number = chance.strip().removesuffix("%")
    try:
        share = float(number) / (100.0 if chance.strip().endswith("%") else 1.0)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise UsageError(f"--chance: {chance!r} (accepted: 80% or 0.8, above 0 and up to 100%)")
    return span, share


def chance_within(result: Mapping[str, Any], span: float) -> float:
    """Return the probability of a start within a span, interpolated between 10 min, 1 h, 4 h, 1 day; NaN if unknown.

    >>> chance_within({"chance_within_10_min": 0.2, "chance_within_1_hour": 0.4, "chance_within_4_hours": 0.7,
    ...                "chance_within_1_day": 1.0}, 2100.0)
    0.30000000000000004
    """
    before, reached = 0.0, 0.0
    for name, until in (("10_min", 600.0), ("1_hour", 3600.0), ("4_hours", 14400.0), ("1_day", 86400.0)):
        known = result.get(f"chance_within_{name}")
        at = math.nan if known is None else float(known)
        if span <= until:
            return reached + (at - reached) * (span - before) / (until - before)
        before, reached = until, at
    return math.nan


def _judge(results: Sequence[Mapping[str, Any]], within: float, share: float) -> None:
    """Print each job's probability to start in time on stderr; exit with 1 unless all jobs reach the required
    probability.
    """
    from ...units import span

    enough = True
    for r in results:
        chance = chance_within(r, within)
        enough &= chance >= share
        words = "unknown" if chance != chance else f"{chance:.0%}"
        say(f"{r['job_id']}: probability to start within {span(within)}: {words} (required: {share:.0%})")
    if not enough:
        click.get_current_context().exit(1)


def _print(results: Sequence[Mapping[str, Any]], now: float, slurm: bool) -> None:
    """Print the table; tasks of an array that wait for the same reason share a line, from first to last start."""
    slurm = slurm or results[0]["method"] is None
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for r in results:
        array, _, task = r["job_id"].partition("_")
        columns = _columns(r, now, slurm)
        same = (array, columns[0], columns[-1]) if task and math.isfinite(r["likely_start_s"]) else columns
        groups.setdefault((array, str(bool(task)), *same), []).append(r)
    lines = [["JOBID", "PARTITION", "LIKELY", "BY 90%", "WAITED", *(["SLURM SAYS"] if slurm else []), "WHY IT WAITS"]]
    for tasks in groups.values():
        tasks.sort(key=lambda r: r["likely_start_s"] if math.isfinite(r["likely_start_s"]) else math.inf)
        first, last = (_columns(_extreme(tasks, least), now, slurm) for least in (True, False))
        cells = [_from_to(a, b) if name != "WAITED" else a for name, a, b in zip(lines[0][1:], first, last)]
        lines.append([_together([r["job_id"] for r in tasks]), *cells])
    print_columns(lines, left=len(lines[0]))
    heads = [
        {**tasks[0], "job_id": f"{tasks[0]['job_id']} (the first of {len(tasks):,})"} if len(tasks) > 1 else tasks[0]
        for tasks in groups.values()
    ]
    for line in (*sentences(heads, now), *before_maintenance(heads), *priority_passes(heads), *why_moved(heads, now)):
        echo(line)
    for line in _bases([r["basis"] for r in results]):
        echo(line)
    for r in results:
        if r.get("simulated_why"):
            echo(f"simulated on the machine: {clock(r['simulated_start_s'], now)} ({r['simulated_why']})")
        for line in advice_lines(r):
            echo(line)
    for part, r in {r["partition"]: r for r in results}.items():
        if r["method"] is not None:
            echo(f"track record on {part}{_record(r)}")


def _extreme(tasks: Sequence[Mapping[str, Any]], least: bool) -> Mapping[str, Any]:
    """Return the first (or last) task by likely start, with the earliest (or latest) of each time over all tasks.

    The task that likely starts first need not have the earliest 90 % time.
    """
    of: dict[str, Any] = dict(tasks[0 if least else -1])
    for name in ("likely_start_s", "by_90_start_s", "slurm_start_s"):
        known = [r[name] for r in tasks if r.get(name) is not None and r[name] == r[name]]
        if known:
            of[name] = min(known) if least else max(known)
    return of


def _from_to(first: str, last: str) -> str:
    """Return a range of two cells as text; if both are on one day, the day is given once.

    >>> _from_to("2026-11-27T01:00:00", "2026-11-27T02:30:00"), _from_to("main", "main")
    ('2026-11-27T01:00:00 to 02:30:00', 'main')
    """
    day, _, hour = last.partition("T")
    return first if first == last else f"{first} to {hour if hour and first.startswith(day) else last}"


def _bases(said: Sequence[str]) -> list[str]:
    """Return the bases of the answers; bases that differ only in their figures are counted.

    >>> _bases(["model: behind 2 jobs", "model: behind 3 jobs", "it cannot start as it is"])
    ['basis: model: behind 2 jobs (1 other answer with other figures: --json)', 'basis: it cannot start as it is']
    """
    kinds: dict[str, list[str]] = {}
    for basis in dict.fromkeys(said):
        kinds.setdefault(re.sub(r"[0-9.]+", "", basis.partition(":")[0]), []).append(basis)
    others = " ({} with other figures: --json)"
    return [
        f"basis: {some[0]}{others.format(counted(len(some) - 1, 'other answer')) if len(some) > 1 else ''}"
        for some in kinds.values()
    ]


def _record(r: Mapping[str, Any]) -> str:
    """Return how accurate the predictions of the answering method were so far."""
    from ...predict.protocol import method_name
    from ...units import span

    who = method_name(r["method"])
    came, late, cover = r["track_record_forecasts"], r["track_record_overdue"], r["track_record_coverage_90"]
    if not came and not late:
        return f": the outcome of {who} is not known yet, so the reliability of its 90 % time is unknown"
    long = f" of {r['track_record_of']}" if r.get("track_record_of", "all") != "all" else ""
    words = [f"{came:,} forecasts{long} by {who}"]
    if late:
        words.append(f"{late} more jobs wait longer than their 90 % time")
    if cover is not None and cover == cover:
        words.append(f"{cover:.0%} started by the 90 % time")
    if came:
        words.append(f"half were within {span(r['track_record_median_ae_s'], '-')}")
    return f", last 30 days: {', '.join(words)}"


def _columns(r: Mapping[str, Any], now: float, slurm: bool) -> tuple[str, ...]:
    """Return the table cells of a job, except its id. A wait from an unknown instant is shown as +wait."""
    from ...units import span

    lines = []
    for name in ("likely", "by_90"):
        wait, at = r[f"{name}_wait_s"], r[f"{name}_start_s"]
        floating = at != at and wait == wait and wait != float("inf")
        lines.append(f"+{span(wait)}" if floating else clock(at, now))
    why = r["reason_in_words"] + (f" (+ counts from {r['counts_from']})" if lines[0].startswith("+") else "")
    estimate = [clock(r["slurm_start_s"], now)] if slurm else []
    return (r["partition"] or "-", *lines, span(r["waited_s"], "-"), *estimate, why)


def _together(ids: list[str]) -> str:
    """Return one name for tasks of an array, at most `LONGEST` characters: the first spans and the last span.

    >>> _together(["15_2", "15_3", "15_4", "15_9"])
    '15_[2-4,9]'
    >>> _together([f"15_{k}" for k in range(1, 200) if k % 3])
    '15_[1-2,4-5,7-8,10-11,...,199]'
    """
    from ...formats.slurm.resources import fold

    if len(ids) == 1:
        return ids[0]
    name = fold(sorted(ids, key=lambda job_id: int(job_id.partition("_")[2])))
    array, _, tasks = name.removesuffix("]").partition("[")
    words = tasks.split(",")
    for kept in range(len(words) - 2, 0, -1):
        if len(name) <= LONGEST:
            break
        name = f"{array}[{','.join(words[:kept])},...,{words[-1]}]"
    return name
