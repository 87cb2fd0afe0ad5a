# SPDX-License-Identifier: Apache-2.0
"""`batchcast start`: predicts when waiting jobs will start."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...errors import UsageError
from ...units import parse_span, span
from ..grammar import adds, option, verb
from ..output import printed, say
from ..site_options import ask, deadline_of, myself, site_options, site_settings
from .start_text import print_chunks, print_waiting, print_where, say_ignored

if TYPE_CHECKING:
    from ...clusters.configured import Configured
    from ...service.answers.answer import Answer
    from ...service.settings import Settings

SBATCH = {
    "-p, --partition TEXT": "partition, as for sbatch",
    "-A, --account TEXT": "account",
    "-t, --time TIME": "time limit",
    "-N, --nodes TEXT": "number of nodes",
    "-n, --ntasks TEXT": "number of tasks",
    "-c, --cpus-per-task TEXT": "processors per task",
    "--mem TEXT": "memory per node",
    "-G, --gpus TEXT": "GPUs, as 2 or a100:2",
    "--gpus-per-node TEXT": "GPUs per node",
    "--gpus-per-task TEXT": "GPUs per task",
    "--gres TEXT": "generic resources, as gpu:a100:2",
    "-C, --constraint TEXT": "features of the nodes",
    "-J, --job-name TEXT": "job name",
    "-q, --qos TEXT": "QOS",
    "-a, --array TEXT": "array tasks",
    "-b, --begin TIME": "begin time",
    "-d, --dependency TEXT": "dependency",
    "-H, --hold": "submit the job held",
    "--ntasks-per-node TEXT": "tasks per node",
}
"""Options of sbatch that replace options in the script of `--test`, and their meanings."""
sbatch_options = adds(*(option(form, f"With --test: {meaning}.", default=None) for form, meaning in SBATCH.items()))
WATCHED_EVERY_S = 10.0


@verb()
@click.argument("job_ids", nargs=-1, metavar="[JOBID]...")
@site_options
@option("--me", "Your waiting jobs (the default without JOBID).")
@option("-u, --user NAME", "Waiting jobs of this user.")
@option("--start", "Also show Slurm's own estimate (squeue --start).", "slurm")
@option(
    "--test", "Predict a script that is not submitted, from its #SBATCH lines; - is stdin.", "script", type=click.Path()
)
@sbatch_options
@option("--machine FILE", "With --test: also simulate Slurm on the machine in this file.")
@option("--where", "With --test: compare all partitions and QOS, the best first, then other sizes.")
@option("--done-by TIME", "With --where: rank by the probability to finish by this time.", "by")
@option("--chunks TOTAL,COST", "With --test: compare chunk lengths; COST is the time of a checkpoint.")
@option("--any-size", "With --where: also rank half and twice the size.")
@option(
    "--input PATH|SIZE[@PLACE]...",
    "With --where over several clusters: a file that the job reads, or its size, and where it is.",
    "inputs",
)
@option("--watch", "Repeat every 10 s until Ctrl-C.")
@option("--within SPAN", "Exit with code 1 if a job's probability to start within this time is below --chance.")
@option("--chance SHARE [90%]", "With --within: required probability.")
@option("-P, --parsable2", "Print columns separated by |, with times in epoch seconds.")
def command(job_ids: tuple[str, ...], **options: Any) -> None:
    """Predict when waiting jobs will start: the likely start, the 90 % start, and how often such answers were right.

    Reads the collector's store, never Slurm. Without a store, one query gives Slurm's own estimate.
    """
    script, where, machine, by = (options[name] for name in ("script", "where", "machine", "by"))
    required = parse_within(options["within"], options["chance"]) if options["within"] is not None else None
    if (where and script is None) or ((by is not None or options["any_size"] or options["inputs"]) and not where):
        raise UsageError("--done-by, --any-size and --input need --where, and --where needs --test SCRIPT")
    if machine is not None and (script is None or where):
        raise UsageError("--machine needs --test SCRIPT and cannot be combined with --where")
    if options["watch"] and (script == "-" or required):
        raise UsageError("--watch repeats the query; it cannot be combined with a script from stdin or with --within")
    if options["chunks"] is not None and (script is None or where or machine is not None or required):
        raise UsageError("--chunks needs --test SCRIPT; it cannot be combined with --where, --machine or --within")
    settings = site_settings(options)
    clusters = _clusters(options["cluster"], options["inputs"]) if where and options["store"] is None else None

    def answer() -> Answer:
        now = time.time()
        reply = _answer(settings, job_ids, options, clusters, now)
        if options["watch"] and not (options["as_json"] or options["parsable2"]):
            click.clear()
        _show(reply, options, clusters, now)
        return reply

    if options["watch"]:
        from ..interrupt import stop_on_signals

        stop = stop_on_signals()
        while not stop(0.0):
            answer()
            sys.stdout.flush()
            if stop(WATCHED_EVERY_S):
                return
        return
    reply = answer()
    if required:
        _judge(reply.results, *required)


def _answer(
    settings: Settings, job_ids: Sequence[str], options: Mapping[str, Any], clusters: Configured | None, now: float
) -> Answer:
    """Return the answer about waiting jobs, or about the script of `--test` on this cluster or on several clusters."""
    if options["script"] is not None and clusters is None:
        return _answer_of_script(settings, options, now)
    if clusters is not None:
        from .submit import ask_clusters

        return ask_clusters(clusters, settings, options, _sbatch(options), now)
    from ...service.answers import fallback, questions
    from ...service.settings import own_name

    user = options["user"] or (None if job_ids and not options["me"] else own_name())
    from_store = partial(questions.start_from_store, settings, job_ids, user, myself(), now)
    from_scheduler = partial(fallback.start_by_scheduler, settings, job_ids, user, now=now)
    return ask(settings, "start", {"job": ",".join(job_ids) or None, "user": user}, from_store, from_scheduler)


def _show(reply: Answer, options: Mapping[str, Any], clusters: Configured | None, now: float) -> None:
    """Print the answer in the form that the options choose."""
    if printed("start", reply, options["as_json"], options["parsable2"]):
        return
    if options["chunks"] is not None:
        print_chunks(reply.results, now)
    elif clusters is not None:
        from .submit import print_clusters

        print_clusters(reply.results, now, options["by"] is not None, options["script"])
    elif options["where"]:
        print_where(reply.results, now, options["by"] is not None, options["any_size"], options["script"])
    else:
        print_waiting(reply.results, now, options["slurm"])


def _sbatch(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of `sbatch_options`, by the parameters' names."""
    names = (form.partition("--")[2].partition(" ")[0].replace("-", "_") for form in SBATCH)
    return {name: options[name] for name in names}


def _clusters(names: str | None, inputs: Sequence[str]) -> Configured | None:
    """Return the clusters to compare, if the settings have several or `-M` names one of them; else None."""
    from ...clusters.configured import chosen, configured

    known = configured()
    if known.clusters:
        return chosen(names, known)
    if inputs:
        raise UsageError("--input needs the clusters' bandwidths: [[cluster]] in batchcast.toml has them")
    return None


def _answer_of_script(settings: Settings, options: Mapping[str, Any], now: float) -> Answer:
    """Answer `--test`; with `--where`, for every way to submit the script; with `--chunks`, for every chunk length."""
    from ...service.answers.fallback import answer_or_ask_service
    from ...service.answers.forecaster import options_of
    from ...service.answers.script import answer_chunks, answer_options, answer_where, parse_chunks

    chunks = None if options["chunks"] is None else parse_chunks(options["chunks"])
    request, ignored = options_of(options["script"], _sbatch(options))
    say_ignored(ignored)
    asked = (settings, request, myself(), now)
    if chunks is not None:
        return answer_chunks(*asked, *chunks)
    if options["machine"] is not None:
        from ...trace.machine_files import open_machine

        # the file belongs to the user, so this process reads the store instead of asking the service
        return answer_options(*asked, open_machine(options["machine"]))
    if not options["where"]:
        return answer_or_ask_service(settings, "test", request, partial(answer_options, *asked))
    until, any_size = deadline_of(options["by"], now), options["any_size"]
    parameters = {**request, **({} if until is None else {"by": f"uts{until:.0f}"})}
    parameters |= {"any-size": "yes"} if any_size else {}
    return answer_or_ask_service(settings, "where", parameters, partial(answer_where, *asked, until, any_size))


def parse_within(within: str, chance: str) -> tuple[float, float]:
    """Read `--within` as seconds and `--chance` as a share; UsageError with the accepted forms.

    >>> parse_within("2h", "80%"), parse_within("10m", "0.5")
    ((7200.0, 0.8), (600.0, 0.5))
    """
    seconds = parse_span(within)
    if not 0 < seconds <= 86400.0:
        raise UsageError(f"--within: {within!r} (accepted: a span above 0 s and up to a day: 30m, 2h, 1d)")
    number = chance.strip().removesuffix("%")
    try:
        share = float(number) / (100.0 if chance.strip().endswith("%") else 1.0)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise UsageError(f"--chance: {chance!r} (accepted: 80% or 0.8, above 0 and up to 100%)")
    return seconds, share


def chance_within(result: Mapping[str, Any], seconds: float) -> float:
    """Return the probability of a start within a span, interpolated between 10 min, 1 h, 4 h, 1 day; NaN if unknown.

    >>> chance_within({"chance_within_10_min": 0.2, "chance_within_1_hour": 0.4, "chance_within_4_hours": 0.7,
    ...                "chance_within_1_day": 1.0}, 2100.0)
    0.30000000000000004
    """
    before, reached = 0.0, 0.0
    for name, until in (("10_min", 600.0), ("1_hour", 3600.0), ("4_hours", 14400.0), ("1_day", 86400.0)):
        known = result.get(f"chance_within_{name}")
        at = math.nan if known is None else float(known)
        if seconds <= until:
            return reached + (at - reached) * (seconds - before) / (until - before)
        before, reached = until, at
    return math.nan


def _judge(results: Sequence[Mapping[str, Any]], within: float, share: float) -> None:
    """Print each job's probability to start in time on stderr; exit with 1 unless all jobs reach the required
    probability.
    """
    enough = True
    for r in results:
        chance = chance_within(r, within)
        enough &= chance >= share
        words = "unknown" if chance != chance else f"{chance:.0%}"
        say(f"{r['job_id']}: probability to start within {span(within)}: {words} (required: {share:.0%})")
    if not enough:
        click.get_current_context().exit(1)
