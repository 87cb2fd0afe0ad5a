"""`batchcast export`: a cluster's own history as a log for evaluate and simulate."""

from __future__ import annotations

import math
from typing import Any

import click

from .output import document, emit, say
from .site import parse_when, site_options


@click.command()
@site_options
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False), help="The Parquet file to write.")
@click.option("-S", "--starttime", metavar="TIME", help="Jobs submitted from here on, e.g. 2026-11-01, now-7days.")
@click.option("-E", "--endtime", metavar="TIME", help="Jobs submitted before this.")
@click.option("--as-told", is_flag=True, help="Times as the collector's clock told them, not as corrected since.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    output: str, starttime: str | None, endtime: str | None, as_told: bool, as_json: bool, **flags: Any
) -> None:
    """Write the store's finished jobs as Parquet: the site's own log, kept beyond the scheduler's purge.

    Times are accounting's last word. With --as-told they are those the collector went by: over them `runtime` and
    `wait` say what it said.
    """
    from ..service.answers import choose_cluster
    from ..service.settings import load
    from ..store.database import Store
    from ..store.export import to_trace
    from ..store.reader import Reader
    from ..trace.parquet import write_parquet

    settings = load(flags)
    cluster = choose_cluster(Reader(settings["store"]), settings["cluster"] or None)
    since = parse_when(starttime) if starttime else -math.inf
    until = parse_when(endtime) if endtime else math.inf
    with Store(settings["store"], read_only=True).begin() as connection:
        trace = to_trace(connection, cluster, since, until, as_told=as_told)
    write_parquet(trace, output)
    left = trace.info.dropped["still open at export"]
    if as_json:
        shown = {
            "store": settings["store"],
            "output": output,
            "starttime_s": since,
            "endtime_s": until,
            "as_told": as_told,
        }
        emit(document("export", {"cluster": cluster}, shown,
                      trace.info.notes, [{"jobs": len(trace), "still_open": left}]))  # fmt: skip
    else:
        say(f"{len(trace)} finished jobs of {cluster} to {output}; {left} still waiting or running were left out")
        for note in trace.info.notes:
            say(f"note: {note}")
        say(f"next: batchcast evaluate {output} -o report/")
