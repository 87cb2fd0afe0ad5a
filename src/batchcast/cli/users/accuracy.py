# SPDX-License-Identifier: Apache-2.0
"""`batchcast accuracy`: compares past predictions with what happened."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...errors import BatchcastError
from ...predict.protocol import method_name
from ...units import counted, span
from ..grammar import option, verb
from ..output import echo, percent, print_rows, printed
from ..site_options import myself, site_options, site_settings, span_parameters, time_span


@verb()
@site_options
@option("-S, --starttime TIME [now-30days]", "Predictions made at or after this time.")
@option("-E, --endtime TIME", "Predictions made before this time.  [default: now]")
@option("-p, --partition NAME", "Only this partition.")
@option("-P, --parsable2", "Print columns separated by |.")
def command(partition: str | None, parsable2: bool, as_json: bool, **options: Any) -> None:
    """Show the coverage and errors of past predictions, beside `squeue --start` of the same moments."""
    from ...service.answers import questions
    from ...service.answers.answer import Answer
    from ...service.answers.fallback import answer_or_ask_service

    since, until = time_span(options)
    settings = site_settings(options)
    parameters = {"partition": partition, **span_parameters(since, until)}
    sent, unknown = _of_submissions(since, until)
    asked = (settings, since, until, partition, myself(), time.time())
    try:
        reply = answer_or_ask_service(settings, "accuracy", parameters, lambda: questions.accuracy(*asked))
    except BatchcastError as error:
        if sent is None:
            raise
        # a user of several clusters may have no store on this computer
        reply = Answer({}, {}, [f"no predictions of one cluster to compare: {error.message}"], [])
    shown = {**reply.settings, **({"sent": sent} if sent else {})}
    reply = reply._replace(settings=shown, warnings=[*reply.warnings, *unknown])
    if printed("accuracy", reply, as_json, parsable2):
        return
    _print_belief(reply.settings.get("belief") or [])
    _print(reply.results)
    for of in ADVICE:
        _print_advice(of, reply.settings.get(of) or [])
    _print_arms(reply.settings.get("arms") or [])
    _print_who_pays(reply.settings.get("who_pays") or [])
    for row in sent or ():
        _print_sent(row)
    if sent == []:
        echo("no job of batchcast submit has ended in this time")


def _of_submissions(since: float, until: float) -> tuple[list[dict[str, Any]] | None, list[str]]:
    """Return the results of this user's `batchcast submit`, and a sentence for each cluster without an answer.

    None if this user never used `batchcast submit`, or has no clusters.
    """
    from ...clusters.configured import configured
    from ...clusters.outcomes import judge, learn_outcomes
    from ...store.ledger import Ledger, ledger_path

    place = ledger_path(os.environ)
    known = configured() if place.exists() else None
    if known is None or not known.clusters:
        return None, []
    with Ledger(place) as ledger:
        problems = learn_outcomes(ledger, {one.name: one for one in known.clusters})
        return judge([one for one in ledger.entries(since) if one.at < until], known.home.name), problems


def _print_sent(row: Mapping[str, Any]) -> None:
    """Print two sentences about the jobs that `batchcast submit` sent to a cluster."""
    echo(
        f"your {counted(row['submissions'], 'job')} of batchcast submit, {row['sent_elsewhere']} of them sent away "
        f"from {row['home']}: {row['right']:.0%} ended before every other cluster's likely end, "
        f"{row['coverage_90']:.0%} by their 90 % time"
    )
    if (mean := row["gain_mean_s"]) == mean and row["sent_elsewhere"]:
        low, high = (f"{'-' if each < 0 else ''}{span(abs(each))}" for each in (row["gain_low_s"], row["gain_high_s"]))
        sooner = "sooner" if mean >= 0 else "later"
        echo(
            f"  on average {span(abs(mean))} {sooner} than predicted for {row['home']} (90 % interval {low} to {high})"
        )


def _print_belief(belief: Sequence[Mapping[str, Any]]) -> None:
    """Print the short answer first, for users who wait: a sentence and a bar for each group of jobs."""
    if not belief:
        return
    echo(f"how reliable are predicted starts? (by {method_name(belief[0]['method'])}, last 30 days)")
    for one in belief:
        echo(f"  {one['sentence']}")
        echo(f"    {picture(one['coverage_90'])}")
    echo("  #: share that started by the predicted 90 % time; |: 90 %.")


def _print(results: Sequence[Mapping[str, Any]]) -> None:
    """Print the errors and the coverage of predictions, one table for each moment of the predictions."""
    from ...service.answers.accuracy import SCORED

    titles = {
        "submit": "predicted at submission, for all jobs, including jobs that started at once",
        "asked": "predicted by start --test, for jobs that were then submitted with the same request",
        "slurm": "predicted at the time of Slurm's own first estimate, for the same jobs",
    }
    titles |= {name: f"predicted again when jobs had waited {span(s)}" for name, s in SCORED.items()}
    for moment in dict.fromkeys(r["moment"] for r in results if r["came_out"] or r["moment"] == "submit"):
        echo(f"{titles[moment]}:")
        columns = (
            "kind|FORECAST OF, predictor|BY, came_out, median_ae_s|MEDIAN ERROR, mae_s|MEAN ERROR, "
            "underestimate_rate|TOO LOW, coverage_50|WITHIN 50%, coverage_90|WITHIN 90%"
        )
        print_rows(columns, (r for r in results if r["moment"] == moment), left=2, cells=_CELLS, indent="  ")
    echo("WITHIN x%: share of jobs at or below the predicted x % quantile.")
    for r in results:
        if overdue := r.get("overdue"):
            method = method_name(r["predictor"])
            echo(f"{overdue} jobs still wait past their 90 % time by {method}: counted as not started by then.")
    _print_fallbacks(results)
    late = max((r["issued_after_start"] for r in results if r["moment"] == "submit"), default=0)
    if late:
        echo(f"{late} jobs started before the collector saw them; their predictions use only data known at submission.")


def _print_fallbacks(results: Sequence[Mapping[str, Any]]) -> None:
    """Print one line per method that another method replaced, with the share of its predictions and the most frequent
    reason.
    """
    for r in results:
        share = r.get("fell_back_share") or 0.0
        if r["moment"] == "submit" and share > 0:
            of = "run time" if r["kind"] == "runtime" else r["kind"]
            method = method_name(r["predictor"])
            echo(f"{method} fell back for {percent(share)} of its {of} forecasts: {r['fell_back_why']}")


def _print_arms(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the planning trial: jobs that were drawn at random to be planned, compared with jobs that were not
    drawn."""
    if not rows:
        return
    echo("planning (plan_percent): jobs drawn for planning compared with the others; 90 % intervals over users' weeks:")
    columns = (
        "size, drawn_jobs|DRAWN, drawn_planned|PLANNED, others_jobs|OTHERS, drawn_mean_wait_s|MEAN WAIT, "
        "others_mean_wait_s|OTHERS, mean_wait_s|DIFFERENCE, drawn_mean_bounded_slowdown|SLOWDOWN, "
        "others_mean_bounded_slowdown|OTHERS, mean_bounded_slowdown|DIFFERENCE"
    )
    print_rows(columns, rows, left=1, cells=_CELLS, indent="  ")
    if rows[0]["why_no_interval"]:
        echo(f"  {rows[0]['why_no_interval']}")


def _print_who_pays(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print whose waits the queue order shortens and lengthens most."""
    if not rows:
        return
    from ...service.planning.effects import WHAT_IT_IS

    echo("queue order (plan): users whose mean wait changes most; 90 % intervals over bursts:")
    columns = "by, group|NAME, jobs, recorded_s, now_s|BY ARRIVAL, then_s|WITH THE ORDER, wait_s|DIFFERENCE"
    print_rows(columns, rows, left=2, cells=_CELLS, indent="  ")
    echo(f"  BY ARRIVAL, WITH THE ORDER: {WHAT_IT_IS}.")


def _interval(row: Mapping[str, Any], key: str) -> str:
    """Return a difference with its interval; waits in minutes."""
    from ...metrics.paired import Difference

    unit = 60.0 if key.endswith("_s") else 1.0
    stated = Difference.get(row, key) or Difference(math.nan)
    ends = f" ({stated.low / unit:+.1f} to {stated.high / unit:+.1f})" if stated.has_interval else ""
    return f"{stated.value / unit:+.1f}{' min' if unit > 1 else ''}{ends}"


ADVICE = {
    "limits": ("time limits, suggested at submission:", "SHORT", "jobs killed by the limit"),
    "memory": ("memory per node, suggested at submission:", "LITTLE", "would have run out of memory"),
}


def _print_advice(of: str, results: Sequence[Mapping[str, Any]]) -> None:
    """Print suggestions beside the users' own requests for the same jobs, and the coverage of bounds over time."""
    if not results:
        return
    title, short, meaning = ADVICE[of]
    echo(title)
    columns = (
        f"predictor|BY, came_out, coverage_90|WITHIN 90%, exceeded_rate|TOO {short}, asked_over_used|ASKED/USED, "
        f"undecided_rate|UNDECIDED, users_exceeded_rate|USERS TOO {short}, users_asked_over_used|USERS ASKED/USED"
    )
    print_rows(columns, results, left=1, cells=_CELLS, indent="  ")
    echo(
        f"TOO {short}: share of jobs that {meaning}; ASKED/USED: sum of requests / sum of use; UNDECIDED: "
        "share of jobs that reached their own smaller request, so that the outcome of the suggestion is unknown."
    )
    _print_weeks(results)


def _print_weeks(results: Sequence[Mapping[str, Any]]) -> None:
    """Print the weekly coverage of the bounds of each predictor that has bounds."""
    weeks = [
        {**week, "predictor": r["predictor"]}
        for r in results
        for week in (r["weeks"] if len(r["weeks"]) > 1 else ())
        if week["coverage_90"] is not None and week["coverage_90"] == week["coverage_90"]
    ]
    if weeks:
        echo("  coverage of bounds by week:")
        columns = (
            "predictor|BY, week|WEEK OF, requests|JOBS, coverage_80|WITHIN 80%, coverage_90|WITHIN 90%, "
            "coverage_95|WITHIN 95%"
        )
        print_rows(columns, weeks, left=2, cells=_CELLS, indent="  ")


def picture(coverage: float | None, promised: float = 0.9, width: int = 40) -> str:
    """Draw a bar of a bound's coverage, with a mark at the promised coverage; only the mark if the coverage is unknown.

    >>> picture(0.5, width=20), picture(1.0, width=20)
    ('[##########........|.]', '[##################|#]')
    """
    filled = 0 if coverage is None or coverage != coverage else round(coverage * width)
    cells = ["#" if k < filled else "." for k in range(width)]
    cells[min(round(promised * width), width - 1)] = "|"
    return f"[{''.join(cells)}]"


def _by(row: Mapping[str, Any]) -> str:
    """Return the predictor's name without settings, and when it predicted if that is part of the name."""
    from ...service.answers.accuracy import BEFORE

    method, before, _ = str(row["predictor"]).partition(BEFORE)
    return method_name(method) + before


_CELLS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "predictor": _by,
    "week": lambda row: time.strftime("%Y-%m-%d", time.gmtime(row["week_s"])),
    **{key: partial(_interval, key=key) for key in ("mean_wait_s", "mean_bounded_slowdown", "wait_s")},
}
"""Cells of tables that are more than the text of one value."""
