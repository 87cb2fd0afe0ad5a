# SPDX-License-Identifier: Apache-2.0
"""`batchcast submit`: sends a script to the cluster that is expected to finish it first.

`start --test --where` prints the same comparison of clusters.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ...errors import UsageError
from ...units import span
from ..grammar import option, verb
from ..output import clock, document, echo, emit, print_rows, printed, say
from ..site_options import deadline_of, myself
from .start_text import say_ignored

if TYPE_CHECKING:
    from ...clusters.configured import Configured
    from ...service.answers.answer import Answer
    from ...service.settings import Settings


@verb(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("script", type=click.Path(), required=False)
@click.argument("arguments", nargs=-1)
@option("-M, --cluster NAMES", "Only these clusters, separated by commas.")
@option("--done-by TIME", "Choose by the probability to finish by this time.", "by")
@option("--input PATH|SIZE[@PLACE]...", "A file that the job reads, or its size, and the place where it is.", "inputs")
@option("--key NAME", "Name of this submission. The same key never submits a second job: for programs.")
@option("--dry-run", "Print the comparison and the command; submit nothing.")
@option("--forget TOKEN", "Close an earlier submission attempt after you checked that it created no job.")
@option("--parsable", "Print JOBID;CLUSTER, as sbatch does.")
def command(script: str | None, arguments: tuple[str, ...], forget: str | None, as_json: bool, **options: Any) -> None:
    """Submit SCRIPT to the cluster that is expected to finish it first.

    The clusters are the [[cluster]] tables of batchcast.toml. The choice is recorded before sbatch runs, and its token
    is in the job's comment: if a process is killed in between, the same command finds the job and submits nothing
    twice. Files are not copied; copy them before.

    \b
    batchcast submit --done-by 18:00 job.sh
    batchcast submit --input 200G@archive --dry-run job.sh
    """
    from ...clusters.configured import chosen, configured
    from ...clusters.submit import forget as close_entry
    from ...clusters.submit import submit
    from ...service.settings import load
    from ...store.ledger import Ledger, ledger_path

    ledger_file = ledger_path(os.environ)
    if forget is not None:
        with Ledger(ledger_file) as ledger:
            close_entry(ledger, forget)
        say(f"{forget} is closed: the next batchcast submit of this script submits it")
        return
    if script is None or script == "-":
        raise UsageError("which script? (accepted: the path of a script for sbatch)", hint="batchcast submit job.sh")
    clusters = chosen(options["cluster"], configured())
    clusters.require()
    now = time.time()
    reply = ask_clusters(clusters, load(), {**options, "script": script, "any_size": False}, {}, now, strict=True)
    if options["dry_run"]:
        if not printed("submit", reply, as_json, False):
            print_clusters(reply.results, now, options["by"] is not None, script)
            echo("nothing was submitted (--dry-run)")
        return
    say(*(() if as_json else reply.warnings))
    with Ledger(ledger_file) as ledger:
        sent = submit(
            ledger, {one.name: one for one in clusters.clusters}, reply.results, script, arguments, now, options["key"]
        )
    job_id, name = str(sent.entry.job_id), sent.entry.cluster
    why = reason(sent.entry.offers, clusters.home.name, now)
    if as_json:
        row = {"job_id": job_id, "cluster": name, "submitted_before": sent.again, "token": sent.entry.token, "why": why}
        return emit(document("submit", reply.log, reply.settings, [*reply.warnings, *sent.notes], [row]))
    say(*sent.notes)
    if options["parsable"]:
        echo(f"{job_id};{name}")
        return
    before = " (by an earlier attempt: nothing was submitted now)" if sent.again else ""
    echo(f"Submitted batch job {job_id} on cluster {name}{before}")
    echo(why)


def reason(offers: Any, home: str, now: float) -> str:
    """Return why a cluster was chosen: the expected end of the job there, and on the home cluster or the next best
    cluster.

    >>> offers = [{"cluster": "b", "expected_end_s": 600.0}, {"cluster": "a", "expected_end_s": 4200.0}]
    >>> reason(offers, "a", 0.0).partition(":")[0], reason(offers, "a", 0.0).rpartition(", ")[2]
    ('expected to be done on b', '1 h later')
    """
    best: Mapping[str, Any] = offers[0]
    others = [row for row in offers[1:] if row["cluster"] != best["cluster"]]
    other = next((row for row in others if row["cluster"].lower() == home.lower()), None) or next(iter(others), None)
    words = f"expected to be done on {best['cluster']}: {clock(best['expected_end_s'], now)}"
    if other is None or other["expected_end_s"] is None:
        return words
    later = other["expected_end_s"] - best["expected_end_s"]
    how = f"{span(abs(later))} {'later' if later >= 0 else 'earlier'}"
    return f"{words}; on {other['cluster']}: {clock(other['expected_end_s'], now)}, {how}"


def ask_clusters(
    clusters: Configured,
    settings: Settings,
    options: Mapping[str, Any],
    sbatch_options: Mapping[str, Any],
    now: float,
    strict: bool = False,
) -> Answer:
    """Return the offers of all clusters for a script, the best first.

    `options` has the script, the deadline (`by`), the input files and whether other sizes are compared (`any_size`);
    `sbatch_options` has options of sbatch that replace the script's. If `strict`, a missing input file is an error.
    """
    from ...clusters.configured import inputs_of
    from ...clusters.offers import Question, offers
    from ...service.answers.answer import INPUTS, Answer
    from ...service.answers.forecaster import options_of
    from ...service.answers.script import check_deadline

    by, any_size = deadline_of(options["by"], now), options["any_size"]
    check_deadline(by, now)
    request, ignored = options_of(options["script"], sbatch_options)
    request.pop(INPUTS, None)  # no input-file features: the other clusters have learned from other jobs
    say_ignored(ignored)
    files, missing = inputs_of(options["inputs"], clusters.home.files_at)
    if strict and missing:
        raise UsageError(missing[0])
    question = Question(request, files, by, any_size, **_own_record(clusters, now))
    rows, notes = offers(clusters, settings, question, myself(), now)
    if by is not None and (best := max(row["chance_done_by"] for row in rows)) < 0.1:
        notes.append(f"the deadline is not likely to be met anywhere: the best chance is {best:.0%}")
    shown = {"now_s": now, "by_s": by, "any_size": any_size, "inputs": [one._asdict() for one in files]}
    return Answer({"clusters": [one.name for one in clusters.clusters]}, shown, [*missing, *notes], rows)


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
