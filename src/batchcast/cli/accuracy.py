"""`batchcast accuracy`: our own past forecasts against what happened."""

from __future__ import annotations

import math
import time
from typing import Any

import click

from .output import document, emit, say
from .site import parse_when, site_options, whoami


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
    from ..errors import NoAnswer
    from ..service import answers
    from ..service.accuracy import accuracy
    from ..service.settings import load
    from ..store.reader import Reader
    from .start import is_private

    settings = load(flags)
    reader = Reader(settings["store"])
    cluster = answers.choose_cluster(reader, settings["cluster"] or None)
    memory = reader.memory(cluster)
    since, until = parse_when(starttime), parse_when(endtime) if endtime else math.inf
    least = settings["least_users"] if is_private(settings, memory) and whoami() != "root" else 1
    results = accuracy(reader, cluster, since, until, partition, least)
    if not results:
        raise NoAnswer(
            f"no forecast of {cluster} in that time" + (f" by {least} users or more" if least > 1 else ""),
            hint="an earlier -S, or let the collector run a while",
        )
    notes = answers.staleness(memory, time.time())
    if as_json:
        shown = {
            "store": settings["store"],
            "starttime_s": since,
            "endtime_s": until,
            "partition": partition,
            "least_users": least,
        }
        emit(document("accuracy", {"cluster": cluster}, shown, notes, results))
        return
    for note in notes:
        say(note)
    if parsable2:
        click.echo("|".join(results[0]))
        for r in results:
            click.echo(
                "|".join(
                    "" if v is None or v != v else f"{v:g}" if isinstance(v, float) else str(v) for v in r.values()
                )
            )
        return
    _print(results)


def _print(results: list[dict[str, Any]]) -> None:
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
        widths = [max(len(line[k]) for line in lines) for k in range(9)]
        for line in lines:
            click.echo(
                "  "
                + "  ".join(c.ljust(w) if k < 2 else c.rjust(w) for k, (c, w) in enumerate(zip(line, widths))).rstrip()
            )
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


def _share(value: float) -> str:
    return "-" if value != value else f"{value:.0%}"
