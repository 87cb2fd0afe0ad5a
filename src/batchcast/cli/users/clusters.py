# SPDX-License-Identifier: Apache-2.0
"""Question and table of offers that `start --test --where` and `submit` share for several clusters."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...units import span
from ..output import TextColumns, echo, print_rows
from ..site_options import clock, myself
from .start_text import say_ignored

if TYPE_CHECKING:
    from ...clusters.configured import Configured
    from ...service.answers.answer import Answer
    from ...service.settings import Settings


def ask_clusters(
    clusters: Configured,
    settings: Settings,
    script: str,
    asked: Mapping[str, Any],
    inputs: Sequence[str],
    by: float | None,
    any_size: bool,
    now: float,
    strict: bool = False,
) -> Answer:
    """Return the offers of all clusters for a script, the best first; if `strict`, a missing input file is an error."""
    from ...clusters.configured import inputs_of
    from ...clusters.offers import Question, offers
    from ...service.answers.answer import INPUTS, Answer
    from ...service.answers.forecaster import options_of
    from ...service.answers.script import check_deadline

    check_deadline(by, now)
    options, ignored = options_of(script, asked)
    options.pop(INPUTS, None)  # no input-file features: the other clusters have learned from other jobs
    say_ignored(ignored)
    files, missing = inputs_of(inputs, clusters.home.files_at)
    if strict and missing:
        raise UsageError(missing[0])
    question = Question(options, files, by, any_size, **_own_record(clusters, now))
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
    moves, several = any(row["transfer_s"] for row in rows), len({row["what"] for row in rows}) > 1
    with_qos = len({row["qos"] for row in rows}) > 1
    columns: TextColumns = [
        ("CLUSTER", lambda row: str(row["cluster"])),
        ("PARTITION", lambda row: str(row["partition"] or "-")),
        ("QOS" * with_qos, lambda row: str(row["qos"] or "-")),
        ("WHAT" * several, lambda row: str(row["what"])),
        ("FILES" * moves, lambda row: span(row["transfer_s"]) if row["transfer_s"] else "-"),
        ("STARTS", lambda row: clock(row["likely_start_s"], now)),
        ("RUNS", lambda row: span(row["likely_run_s"], "-")),
        ("DONE", lambda row: clock(row["likely_end_s"], now)),
        ("DONE 90%", lambda row: clock(row["by_90_end_s"], now)),
        ("IN TIME" * deadline, lambda row: f"{row['chance_done_by']:.0%}"),
        ("CPU H", lambda row: f"{row['core_hours']:.1f}"),
    ]
    print_rows(columns, rows, left=2 + with_qos)
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
