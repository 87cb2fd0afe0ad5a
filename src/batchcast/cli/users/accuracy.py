# SPDX-License-Identifier: Apache-2.0
"""`batchcast accuracy`: our own past forecasts against what happened."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ..grammar import verb
from ..output import echo, print_columns, printed
from ..site_options import myself, parse_when, site_options


@verb()
@site_options
@click.option(
    "-S",
    "--starttime",
    default="now-30days",
    show_default=True,
    metavar="TIME",
    help="Predictions made at or after this time.",
)
@click.option("-E", "--endtime", metavar="TIME", help="Predictions made before this time.  [default: now]")
@click.option("-p", "--partition", metavar="NAME", help="Only this partition.")
@click.option("-P", "--parsable2", is_flag=True, help="Print columns separated by |.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    starttime: str, endtime: str | None, partition: str | None, parsable2: bool, as_json: bool, **flags: Any
) -> None:
    """Show the coverage and errors of past predictions, beside `squeue --start` of the same moments."""
    from ...service.answers import questions
    from ...service.answers.fallback import answer_or_ask_service
    from ...service.settings import load

    since, until = parse_when(starttime), parse_when(endtime) if endtime else math.inf
    settings = load(flags)
    asked_for = {"partition": partition, "starttime": f"uts{since:.0f}"}
    asked_for |= {"endtime": f"uts{until:.0f}"} if math.isfinite(until) else {}
    reply = answer_or_ask_service(
        settings,
        "accuracy",
        asked_for,
        lambda: questions.accuracy(settings, since, until, partition, myself(), time.time()),
    )
    if printed("accuracy", reply, as_json, parsable2):
        return
    _print_belief(reply.settings.get("belief") or [])
    _print(reply.results)
    for of in ADVICE:
        _print_advice(of, reply.settings.get(of) or [])
    _print_arms(reply.settings.get("arms") or [])
    _print_who_pays(reply.settings.get("who_pays") or [])


def _print_belief(belief: Sequence[Mapping[str, Any]]) -> None:
    """The answer in short, first for those who wait: a sentence and a bar for each group of jobs."""
    from ...predict.protocol import method_name

    if not belief:
        return
    echo(f"should you believe what is said of starts? (by {method_name(belief[0]['method'])}, last 60 days)")
    for one in belief:
        echo(f"  {one['sentence']}")
        echo(f"    {picture(_number(one['coverage_90']))}")
    echo("  #: started by the time promised for 90 %; |: where 90 % is.")


def _print(results: Sequence[Mapping[str, Any]]) -> None:
    from ...service.answers.accuracy import BEFORE, SCORED
    from ...units import span

    titles = {
        "submit": "asked at submission, all jobs, also those that started at once",
        "asked": "by start --test, of jobs that were then submitted as asked",
        "slurm": "when Slurm's own first estimate appeared, the same jobs",
    }
    titles |= {name: f"renewed when jobs had waited {span(s)}" for name, s in SCORED.items()}
    for moment in dict.fromkeys(r["moment"] for r in results if r["came_out"] or r["moment"] == "submit"):
        echo(f"{titles[moment]}:")
        lines = [
            [
                "FORECAST OF",
                "BY",
                "CAME OUT",
                "MEDIAN ERROR",
                "MEAN ERROR",
                "TOO LOW",
                "WITHIN 50%",
                "WITHIN 90%",
            ]
        ]
        for r in (r for r in results if r["moment"] == moment):
            method, before, _ = r["predictor"].partition(BEFORE)
            lines.append(
                [
                    r["kind"],
                    _by(method) + before,
                    str(r["came_out"]),
                    span(r["median_ae_s"], "-"),
                    span(r["mae_s"], "-"),
                    *(_share(r[k]) for k in ("underestimate_rate", "coverage_50", "coverage_90")),
                ]
            )
        print_columns(lines, left=2, indent="  ")
    echo("WITHIN x%: share that came out at or below what was said for x%.")
    late = (
        max(r["issued_after_start"] for r in results if r["moment"] == "submit")
        if any(r["moment"] == "submit" for r in results)
        else 0
    )
    if late:
        echo(
            f"{late} jobs began before the collector could look; their forecasts use only what was known at submission."
        )


def _print_arms(rows: Sequence[Mapping[str, Any]]) -> None:
    """The trial of planning: the jobs drawn to be planned, beside those that were not."""
    from ...units import span

    if not rows:
        return
    echo("planning (plan_percent): jobs drawn to be planned, less the others; 90 % intervals over users' weeks:")
    lines = [
        ["SIZE", "DRAWN", "PLANNED", "OTHERS", "MEAN WAIT", "OTHERS", "DIFFERENCE", "SLOWDOWN", "OTHERS", "DIFFERENCE"]
    ]
    for r in rows:
        waits = [span(_number(r[f"{who}_mean_wait_s"]), "-") for who in ("drawn", "others")]
        slow = [f"{_number(r[f'{who}_mean_bsld']):.1f}" for who in ("drawn", "others")]
        counts = [str(r[name]) for name in ("drawn_jobs", "drawn_planned", "others_jobs")]
        lines.append([r["size"], *counts, *waits, _interval(r, "mean_wait_s"), *slow, _interval(r, "mean_bsld")])
    print_columns(lines, left=1, indent="  ")
    if rows[0]["why_no_interval"]:
        echo(f"  {rows[0]['why_no_interval']}")


def _print_who_pays(rows: Sequence[Mapping[str, Any]]) -> None:
    """Whose waits the order shortens and lengthens most."""
    from ...units import span

    if not rows:
        return
    from ...service.answers.who_pays import WHAT_IT_IS

    echo("the order (plan): who gains most and who pays most, mean waits; 90 % intervals over bursts:")
    lines = [["BY", "NAME", "JOBS", "RECORDED", "BY ARRIVAL", "WITH THE ORDER", "DIFFERENCE"]]
    for r in rows:
        waits = [span(_number(r[name]), "-") for name in ("recorded_s", "now_s", "then_s")]
        pair = {f"mean_wait_s_difference{end}": r[f"wait_s_difference{end}"] for end in ("", "_low", "_high")}
        lines.append([r["by"], r["group"], str(r["jobs"]), *waits, _interval(pair, "mean_wait_s")])
    print_columns(lines, left=2, indent="  ")
    echo(f"  BY ARRIVAL, WITH THE ORDER: {WHAT_IT_IS}.")


def _interval(row: Mapping[str, Any], key: str) -> str:
    """A difference with its interval: of waits in minutes."""
    unit = 60.0 if key.endswith("_s") else 1.0
    middle, low, high = (_number(row[f"{key}_difference{end}"]) / unit for end in ("", "_low", "_high"))
    word = " min" if unit > 1 else ""
    return f"{middle:+.1f}{word}" + ("" if math.isnan(low) else f" ({low:+.1f} to {high:+.1f})")


ADVICE = {
    "limits": ("limits, advised at submission:", "SHORT", "would have been cut off by the limit"),
    "memory": ("memory a node, asked at submission:", "LITTLE", "would have run out of memory"),
}


def _print_advice(of: str, results: Sequence[Mapping[str, Any]]) -> None:
    """What was said and advised, beside the users' own requests for the same jobs, and how bounds held over time."""
    if not results:
        return
    title, short, meaning = ADVICE[of]
    echo(title)
    lines = [
        [
            "BY",
            "CAME OUT",
            "WITHIN 90%",
            f"TOO {short}",
            "ASKED/USED",
            "UNDECIDED",
            f"USERS TOO {short}",
            "USERS ASKED/USED",
        ]
    ]
    for r in results:
        counts = [str(r["came_out"]), _share(_number(r["coverage_90"]))]
        ours, users = ([_share(_number(r[f"{who}exceeded_rate"])), _ratio(r[f"{who}asked_over_used"])]
                       for who in ("", "users_"))  # fmt: skip
        lines.append([_by(r["predictor"]), *counts, *ours, _share(_number(r["undecided_rate"])), *users])
    print_columns(lines, left=1, indent="  ")
    echo(
        f"TOO {short}: share of jobs that {meaning}; ASKED/USED: in all; UNDECIDED: their own request cut them off and "
        "more was advised."
    )
    _print_weeks(results)


def _print_weeks(results: Sequence[Mapping[str, Any]]) -> None:
    """How the bounds of each method that has any were kept, week by week."""
    lines = [["BY", "WEEK OF", "JOBS", "WITHIN 80%", "WITHIN 90%", "WITHIN 95%"]]
    for r in results:
        for week in r["weeks"] if len(r["weeks"]) > 1 else ():
            if week["coverage_90"] is not None and week["coverage_90"] == week["coverage_90"]:
                begins = time.strftime("%Y-%m-%d", time.gmtime(week["week_s"]))
                held = [_share(_number(week[f"coverage_{level}"])) for level in (80, 90, 95)]
                lines.append([_by(r["predictor"]), begins, str(week["requests"]), *held])
    if len(lines) > 1:
        echo("  bounds over time:")
        print_columns(lines, left=2, indent="  ")


def picture(kept: float, promised: float = 0.9, width: int = 40) -> str:
    """A bar of the share kept, the promise marked; only the mark where nothing is known.

    >>> picture(0.5, width=20), picture(1.0, width=20)
    ('[##########........|.]', '[##################|#]')
    """
    filled = 0 if kept != kept else round(kept * width)
    cells = ["#" if k < filled else "." for k in range(width)]
    cells[min(round(promised * width), width - 1)] = "|"
    return f"[{''.join(cells)}]"


def _by(method: str) -> str:
    """Who forecast, without settings."""
    from ...predict.protocol import method_name

    return method_name(method)


def _ratio(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.2f}"


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _share(value: float) -> str:
    return "-" if value != value else f"{value:.0%}"
