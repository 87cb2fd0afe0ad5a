# SPDX-License-Identifier: Apache-2.0
"""`batchcast start`: predicts when waiting jobs, or a script on one cluster or several, will start.

The output has a table of the jobs with a sentence per job, or a table of the ways to submit the script.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...errors import UsageError
from ...units import counted, parse_span, span
from ..grammar import adds, option, verb
from ..output import Row, clock, echo, print_columns, print_rows, printed, say
from ..site_options import ask, deadline_of, myself, site_options, site_settings

if TYPE_CHECKING:
    from ...clusters.configured import Configured
    from ...service.answers.answer import Answer
    from ...service.settings import Settings
    from ...store.ledger import Offer

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
        return ask_clusters(clusters, settings, options, _sbatch(options), now)[1]
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
    from ...service.answers.forecaster import read_request
    from ...service.answers.script import answer_chunks, answer_options, answer_where, parse_chunks

    chunks = None if options["chunks"] is None else parse_chunks(options["chunks"])
    request = read_request(options["script"], _sbatch(options))
    say_ignored(request.not_heard)
    asked = (settings, request, myself(), now)
    if chunks is not None:
        return answer_chunks(*asked, *chunks)
    if options["machine"] is not None:
        from ...trace.machine_files import open_machine

        # the file belongs to the user, so this process reads the store instead of asking the service
        return answer_options(*asked, open_machine(options["machine"]))
    if not options["where"]:
        return answer_or_ask_service(settings, "test", request.heard, partial(answer_options, *asked))
    until, any_size = deadline_of(options["by"], now), options["any_size"]
    parameters = {**request.heard, **({} if until is None else {"by": f"uts{until:.0f}"})}
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


def ask_clusters(
    clusters: Configured,
    settings: Settings,
    options: Mapping[str, Any],
    sbatch_options: Mapping[str, Any],
    now: float,
    strict: bool = False,
) -> tuple[list[Offer], Answer]:
    """Return the offers of all clusters for a script, the best first, and the answer that has them as results.

    `options` has the script, the deadline (`by`), the input files and whether other sizes are compared (`any_size`);
    `sbatch_options` has options of sbatch that replace the script's. If `strict`, a missing input file is an error.
    """
    from msgspec import structs

    from ...clusters.configured import inputs_of
    from ...clusters.offers import Question, offers
    from ...service.answers.answer import Answer
    from ...service.answers.forecaster import read_request
    from ...service.answers.script import check_deadline

    by, any_size = deadline_of(options["by"], now), options["any_size"]
    check_deadline(by, now)
    # no input-file features: the other clusters have learned from other jobs
    request = read_request(options["script"], sbatch_options, inputs=False)
    say_ignored(request.not_heard)
    files, missing = inputs_of(options["inputs"], clusters.home.files_at)
    if strict and missing:
        raise UsageError(missing[0])
    question = Question(request, files, by, any_size, **_own_record(clusters, now))
    found, notes = offers(clusters, settings, question, myself(), now)
    if by is not None and (best := max(offer.chance_done_by for offer in found)) < 0.1:
        notes.append(f"the deadline is not likely to be met anywhere: the best chance is {best:.0%}")
    shown = {"now_s": now, "by_s": by, "any_size": any_size, "inputs": [one._asdict() for one in files]}
    log, rows = {"clusters": [one.name for one in clusters.clusters]}, [structs.asdict(offer) for offer in found]
    return found, Answer(log, shown, [*missing, *notes], rows)


def _own_record(known: Configured, now: float) -> Mapping[str, Any]:
    """Return the jobs that this user sent by `batchcast submit` in the last hour, and how late the user's submitted
    jobs have ended.
    """
    from ...clusters.outcomes import learned_lateness
    from ...store.ledger import Ledger, ledger_path

    path = ledger_path(os.environ)
    if not path.exists():
        return {}
    with Ledger(path) as ledger:
        lateness = learned_lateness(ledger, known.clusters, now)
        return {"sent": ledger.sent_since(now - 3600.0), "lateness": lateness}


def print_clusters(rows: Sequence[Mapping[str, Any]], now: float, deadline: bool, script: str) -> None:
    """Print one line per offer, then the best offer as a command to copy, and the rule that selected this offer."""
    files = "transfer_s|FILES, " * any(row["transfer_s"] for row in rows)
    qos, what = (f"{key}, " * (len({row[key] for row in rows}) > 1) for key in ("qos", "what"))
    columns = (
        f"cluster, partition, {qos}{what}{files}likely_start_s|STARTS, likely_run_s|RUNS, "
        f"likely_end_s|DONE, by_90_end_s|DONE 90%, {'chance_done_by|IN TIME, ' * deadline}core_hours|CPU H"
    )
    print_rows(
        columns,
        rows,
        left=3 if qos else 2,
        cells={"transfer_s": lambda row: span(row["transfer_s"] or None, "-")},
        now=now,
    )
    best = rows[0]
    if (factor := best["by_90_end_s_factor"]) > 1.0:
        echo(f"DONE 90% is {factor:.1f} times the forecast's time, because your past jobs ended later than predicted")
    rule = "the highest probability to finish in time" if deadline else "the earliest expected end"
    echo(
        f"the first cluster has {rule}. Files are copied before the job is submitted; queue wait and run time "
        "are assumed independent"
    )
    if best["run_ratio_low"] != best["run_ratio_high"]:
        low, high = best["run_ratio_low"], best["run_ratio_high"]
        echo(f"run time on {best['cluster']}: {best['run_ratio']:.2f} times ({low:.2f} to {high:.2f}), "
             f"by {best['run_ratio_basis']}")  # fmt: skip
    echo(f"best: {best['command']} {shlex.quote(script)}")


def say_ignored(options: Sequence[str]) -> None:
    """Name the script's options that predictions ignore, on stderr; nothing if there are none."""
    if options:
        say(f"ignored: {', '.join(options)} (the prediction is for a job without them)")


def print_where(results: Sequence[Row], now: float, deadline: bool, any_size: bool, script: str) -> None:
    """Print one line per choice, then the best choice as a command to copy, and the rule that selected this choice."""
    gpus, qos = any(r["gpus"] for r in results), "qos, " * (len({r["qos"] for r in results}) > 1)
    memory = "memory_kib|MEMORY, " * any(_is_known(r["memory_kib"]) for r in results)
    columns = (
        f"partition, {qos}what, procs|CPUS, {'gpus, ' * gpus}limit_s, {memory}"
        f"likely_start_s|STARTS, by_90_start_s|BY 90%, likely_end_s|DONE, {'chance_done_by|IN TIME, ' * deadline}"
        f"core_hours|CPU H{', gpu_hours|GPU H' * gpus}"
    )
    print_rows(columns, results, left=2, cells={"gpus": lambda r: f"{r['gpus']:g} {r['gpu_type']}".strip()}, now=now)
    for line in gpu_switches(results):
        echo(line)
    if results:
        echo(best_words(results, deadline, any_size, script))


AS_REQUESTED = "as requested"  # the text of `answers.script`, which is slow to import


def gpu_switches(ways: Sequence[Row]) -> list[str]:
    """Return the savings or costs of other types of GPU: the best choice for each type compared with the script's best
    choice.

    >>> way = {"what": "as requested", "gpus": 2.0, "gpu_type": "a100", "by_90_start_s": 9000.0, "likely_end_s": 9900.0,
    ...        "gpu_hours": 2.0}
    >>> gpu_switches([way, {**way, "what": "with v100", "gpu_type": "v100", "by_90_start_s": 1800.0}])
    ['with v100: 90 % start 2 h sooner, likely end the same, GPU-hours the same']
    """
    asked = next((way for way in ways if way["what"] == AS_REQUESTED), None)
    lines: dict[str, str] = {}
    if asked is None:
        return []
    for way in ways:
        if (way["gpus"], way["gpu_type"]) != (asked["gpus"], asked["gpu_type"]) and way["what"] not in lines:
            start, end = (_moved(way[key] - asked[key]) for key in ("by_90_start_s", "likely_end_s"))
            hours = way["gpu_hours"] - asked["gpu_hours"]
            cost = "the same" if not abs(hours) >= 0.05 else f"{abs(hours):.1f} {'more' if hours > 0 else 'fewer'}"
            lines[way["what"]] = f"{way['what']}: 90 % start {start}, likely end {end}, GPU-hours {cost}"
    return list(lines.values())


def _moved(seconds: float) -> str:
    """Return a change of an instant in words."""
    if seconds != seconds:
        return NOT_KNOWN
    return "the same" if abs(seconds) < 60 else f"{span(abs(seconds))} {'later' if seconds > 0 else 'sooner'}"


def print_chunks(results: Sequence[Row], now: float) -> None:
    """Print one line per chunk length, and the length with which all chunks are likely to end first."""
    columns = "length_s, chunks, likely_wait_s|WAIT EACH, likely_end_s|DONE, by_90_end_s|BY 90%, chance_first|FIRST"
    print_rows(columns, results, left=1, now=now)
    best = results[0]
    echo(f"earliest likely end: {best['chunks']} x --time={best['limit']} (probability {best['chance_first']:.0%})")
    echo(f"basis: {best['basis']}")


def best_words(ways: Sequence[Row], deadline: bool, any_size: bool, script: str) -> str:
    """Return a sentence with the rule that selected the first choice, and its options. If no choice has the requested
    size, the sentence says so.

    >>> ways = [{"same_size": True, "flags": "--ntasks=4"}, {"same_size": False, "flags": "--ntasks=8"}]
    >>> print(best_words(ways, False, False, "job.sh"))
    the first row has the earliest BY 90% plus likely run time, for the size in the script (--any-size: for any size)
    best: sbatch --ntasks=4 job.sh
    """
    if not any_size and not ways[0]["same_size"]:
        return "no partition accepts the size in the script (--any-size also ranks other sizes)"
    rule = "highest probability to finish in time" if deadline else "earliest BY 90% plus likely run time"
    others = not any_size and not all(way["same_size"] for way in ways)
    size = ", for the size in the script (--any-size: for any size)" if others else ""
    return f"the first row has the {rule}{size}\nbest: sbatch {ways[0]['flags']} {shlex.quote(script)}"


def _is_known(value: float | None) -> bool:
    """Return whether a number is neither None nor NaN."""
    return value is not None and value == value


NOT_KNOWN = "not known"  # the text of `answers.fair_share`, which is slow to import
SPANS = {"10_min": "10 min", "1_hour": "1 h", "4_hours": "4 h", "1_day": "1 day"}


def _by_words(results: Iterable[Row], words: Callable[[Row], str], joint: str = ": ") -> list[str]:
    """Return one line for each of the first five texts, with the jobs that share it; an empty text has no line."""
    jobs: dict[str, list[str]] = {}
    for r in results:
        if text := words(r):
            jobs.setdefault(text, []).append(str(r["job_id"]))
    names = (ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more" for ids in jobs.values())
    return [f"{name}{joint}{text}" for name, text in zip(names, list(jobs)[:5])]


def sentences(results: Sequence[Row], now: float) -> list[str]:
    """Return one line for each job that has an answer; tasks with the same answer share a line.

    The track record of the answers is printed once at the end for all jobs that share it.
    """
    records = dict.fromkeys(coverage_of_similar(r) for r in results if sentence(r, now))
    lines = _by_words(results, lambda r: sentence(r, now, "" if len(records) == 1 else coverage_of_similar(r)))
    if len(records) != 1:
        return lines
    (record,) = records
    return [f"{lines[0]}; {record}"] if len(lines) == 1 else [*lines, record]


def hints(results: Sequence[Row], now: float) -> list[str]:
    """Return lines on time limits that let jobs start before a maintenance, on priorities and fair share, and on why
    answers moved, each with its jobs.

    Users may shorten the time limit of their waiting jobs; the job keeps its position in the queue.

    >>> hints([{"job_id": "7", "priority_passes": "not known", "maintenance": None}], 0.0)
    []
    """
    lines = _by_words(results, lambda r: str(r.get("maintenance") or ""))
    if lines:
        lines.append("to shorten a limit and keep the place in the queue: scontrol update JobId=JOBID TimeLimit=LIMIT")
    known = (r for r in results if r.get("priority_passes") != NOT_KNOWN)
    moved = (r for r in results if r.get("why_it_moved"))
    lines += _by_words(known, lambda r: str(r.get("priority_passes") or ""))
    return lines + _by_words(moved, lambda r: f"since {clock(r['moved_since_s'], now)}: {r['why_it_moved']}", ", ")


def sentence(r: Row, now: float, record: str = "") -> str:
    """Return a job's answer as a sentence: the 10 and 90 % times, the median, the chances, and the track record.

    >>> sentence({"likely_start_s": math.inf}, 0.0)
    ''
    """
    likely, early, late = (r.get(f"{name}_start_s", math.nan) for name in ("likely", "by_10", "by_90"))
    if not math.isfinite(likely):
        return ""
    words = [f"{_between(early, late, now)}most likely {_minute(likely, now)}"]
    chances = {name: r.get(f"chance_within_{key}", math.nan) for key, name in SPANS.items()}
    known = [f"{name} {_percent(share)}" for name, share in chances.items() if share == share]
    if known:
        words.append(f"probability to start within {', '.join(known)}")
    return "; ".join([*words, record] if record else words)


def coverage_of_similar(r: Row) -> str:
    """Return the coverage of the last similar predictions."""
    count, share = r.get("track_record_like_this") or 0, r.get("track_record_came_true")
    if not count or share is None or share != share:
        return "no similar prediction has a known outcome yet"
    of = f"of the last {count:,} similar predictions"
    return f"{of}, {_percent(share)} of the jobs started between their two times (target: 80 %)"


def _between(early: float, late: float, now: float) -> str:
    """Return the 10 % and 90 % start times as the beginning of a sentence."""
    if math.isfinite(early) and math.isfinite(late):
        return f"between {_minute(max(early, now), now)} and {_minute(late, now)}, "
    if math.isfinite(early):
        return f"not before {_minute(max(early, now), now)}, "
    return f"by {_minute(late, now)}, " if math.isfinite(late) else ""


def _minute(epoch: float, now: float) -> str:
    """Return a time as text, without seconds if it is more than ten minutes away."""
    return clock(epoch, now)[:-3] if epoch - now > 600.0 else clock(epoch, now)


def _percent(share: float) -> str:
    """Return a share as text; only a certain event has 0 or 100 %.

    >>> _percent(0.004), _percent(0.5), _percent(0.999)
    ('under 1 %', '50 %', 'over 99 %')
    """
    if 0.0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1.0 else f"{share:.0%}".replace("%", " %")


def advice_lines(r: Row) -> list[str]:
    """Return the advice for a script, if there is any: limit and memory as options of sbatch, and the reasons.

    >>> advice_lines({"advised_limit": "01:00:00", "advised_why": "a.", "advised_memory": "2G",
    ...               "advised_memory_why": "b."})
    ['advised: --time=01:00:00 --mem=2G', '  --time: a.', '  --mem: b.']
    """
    if r.get("advised_limit") is None:
        return []
    flag, no = (f" --mem={r['advised_memory']}", "") if r["advised_memory"] is not None else ("", "no ")
    flags = f"advised: --time={r['advised_limit']}{flag}"
    return [flags, f"  --time: {r['advised_why']}", f"  {no}--mem: {r['advised_memory_why']}"]


LONGEST = 32
"""Maximum length of the shared name of an array's tasks; a longer name would make the table too wide."""


def print_waiting(results: Sequence[Row], now: float, slurm: bool) -> None:
    """Print a table of waiting jobs, and what their predictions rest on.

    Tasks of an array that wait for the same reason share a line, from first to last start.
    """
    slurm = slurm or results[0]["method"] is None
    groups: dict[tuple[str, ...], list[Row]] = {}
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
    for line in (*sentences(heads, now), *hints(heads, now), *_bases([r["basis"] for r in results])):
        echo(line)
    for r in results:
        if r.get("simulated_why"):
            echo(f"simulated on the machine: {clock(r['simulated_start_s'], now)} ({r['simulated_why']})")
        for line in advice_lines(r):
            echo(line)
    for part, r in {r["partition"]: r for r in results}.items():
        if r["method"] is not None:
            echo(f"track record on {part}{_record(r)}")


def _extreme(tasks: Sequence[Row], least: bool) -> Row:
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


def _record(r: Row) -> str:
    """Return how accurate the predictions of the answering method were so far."""
    from ...predict.protocol import method_name

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


def _columns(r: Row, now: float, slurm: bool) -> tuple[str, ...]:
    """Return the table cells of a job, except its id. A wait from an unknown instant is shown as +wait."""
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
