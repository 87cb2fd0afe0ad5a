"""`batchcast accuracy`: our own past forecasts against what happened."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from .output import print_columns, printed
from .site import myself, parse_when, site_options


@click.command()
@site_options
@click.option(
    "-S", "--starttime", default="now-30days", show_default=True, metavar="TIME", help="Forecasts from here on."
)
@click.option("-E", "--endtime", metavar="TIME", help="Forecasts before this.  [default: now]")
@click.option("-p", "--partition", metavar="NAME", help="Of this partition only.")
@click.option("-P", "--parsable2", is_flag=True, help="Columns parted by |.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    starttime: str, endtime: str | None, partition: str | None, parsable2: bool, as_json: bool, **flags: Any
) -> None:
    """How right our forecasts were: coverage and error, beside squeue --start as recorded at the same moments."""
    from ..service import ask
    from ..service.over_socket import answered
    from ..service.settings import load

    since, until = parse_when(starttime), parse_when(endtime) if endtime else math.inf
    settings = load(flags)
    asked_for = {"partition": partition, "starttime": f"uts{since:.0f}"}
    asked_for |= {"endtime": f"uts{until:.0f}"} if math.isfinite(until) else {}
    reply = answered(
        settings,
        "accuracy",
        asked_for,
        lambda: ask.accuracy(settings, since, until, partition, myself(), time.time()),
    )
    if printed("accuracy", reply, as_json, parsable2):
        return
    _print(reply.results)
    _print_memory(reply.settings.get("memory") or [])
    belief = reply.settings.get("belief") or []
    if belief:
        click.echo(f"should you believe {belief[0]['method']}? (last 60 days)")
    for one in belief:
        click.echo(f"  {one['sentence']}")


def _print(results: Sequence[Mapping[str, Any]]) -> None:
    from ..units import format_duration

    titles = {"submit": "asked at submission", "slurm": "when Slurm's own first estimate appeared, the same jobs"}
    for moment in dict.fromkeys(r["moment"] for r in results):
        click.echo(f"{titles[moment]}:")
        lines = [
            [
                "FORECAST OF",
                "BY",
                "FORECASTS",
                "CAME OUT",
                "MEDIAN ERROR",
                "MEAN ERROR",
                "TOO LOW",
                "WITHIN 50%",
                "WITHIN 90%",
            ]
        ]
        for r in (r for r in results if r["moment"] == moment):
            lines.append(
                [
                    r["kind"],
                    r["predictor"],
                    str(r["forecasts"]),
                    str(r["came_out"]),
                    format_duration(r["median_ae_s"]),
                    format_duration(r["mae_s"]),
                    *(_share(r[k]) for k in ("underestimate_rate", "coverage_50", "coverage_90")),
                ]
            )
        print_columns(lines, left=2, indent="  ")
    click.echo("WITHIN x%: share that came out at or below what was said for x%.")
    late = (
        max(r["issued_after_start"] for r in results if r["moment"] == "submit")
        if any(r["moment"] == "submit" for r in results)
        else 0
    )
    if late:
        click.echo(
            f"{late} jobs began before the collector could look; their forecasts use only what was known at submission."
        )


def _print_memory(results: Sequence[Mapping[str, Any]]) -> None:
    """What was said and advised of memory, beside the users' own requests for the same jobs."""
    from ..units import format_memory

    if not results:
        return
    click.echo("memory a node, asked at submission:")
    titles = ["BY", "FORECASTS", "CAME OUT", "MEDIAN ERROR", "WITHIN 90%", "ADVISED", "TOO LITTLE", "ASKED/USED"]
    lines = [[*titles, "USERS TOO LITTLE", "USERS ASKED/USED"]]
    for r in results:
        counts = [str(r["forecasts"]), str(r["came_out"]), format_memory(_number(r["median_ae_kib"]))]
        rates = [_share(_number(r["coverage_90"])), str(r["requests"])]
        for who in ("", "users_"):
            over = _number(r[f"{who}asked_over_used"])
            rates += [_share(_number(r[f"{who}exceeded_rate"])), "-" if over != over else f"{over:.2f}"]
        lines.append([r["predictor"], *counts, *rates])
    print_columns(lines, left=1, indent="  ")
    click.echo("TOO LITTLE: share of jobs that would have run out of memory; ASKED/USED: in all, a node.")


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _share(value: float) -> str:
    return "-" if value != value else f"{value:.0%}"
