# SPDX-License-Identifier: Apache-2.0
"""`batchcast submit`: sends a script to the cluster that is expected to finish it first.

`start --test --where` prints the same comparison of clusters.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...errors import UsageError
from ...units import span
from ..grammar import option, verb
from ..output import clock, document, echo, emit, printed, say
from .start import ask_clusters, print_clusters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...store.ledger import Offer


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
    offers, reply = ask_clusters(
        clusters, load(), {**options, "script": script, "any_size": False}, {}, now, strict=True
    )
    if options["dry_run"]:
        if not printed("submit", reply, as_json, False):
            print_clusters(reply.results, now, options["by"] is not None, script)
            echo("nothing was submitted (--dry-run)")
        return
    say(*(() if as_json else reply.warnings))
    with Ledger(ledger_file) as ledger:
        by_name, tell = {one.name: one for one in clusters.clusters}, partial(echo, err=True)
        sent = submit(ledger, by_name, offers, script, arguments, now, tell, options["key"])
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


def reason(offers: Sequence[Offer], home: str, now: float) -> str:
    """Return why a cluster was chosen: the expected end of the job there, and on the home cluster or the next best
    cluster.

    >>> from batchcast.store.ledger import Offer
    >>> offers = [Offer(cluster="b", expected_end_s=600.0), Offer(cluster="a", expected_end_s=4200.0)]
    >>> reason(offers, "a", 0.0).partition(":")[0], reason(offers, "a", 0.0).rpartition(", ")[2]
    ('expected to be done on b', '1 h later')
    """
    best = offers[0]
    others = [offer for offer in offers[1:] if offer.cluster != best.cluster]
    other = next((offer for offer in others if offer.cluster.lower() == home.lower()), next(iter(others), None))
    words = f"expected to be done on {best.cluster}: {clock(best.expected_end_s, now)}"
    if other is None or other.expected_end_s != other.expected_end_s:
        return words
    later = other.expected_end_s - best.expected_end_s
    how = f"{span(abs(later))} {'later' if later >= 0 else 'earlier'}"
    return f"{words}; on {other.cluster}: {clock(other.expected_end_s, now)}, {how}"
