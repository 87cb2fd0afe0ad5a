"""`batchcast export`: a cluster's own history as a log for evaluate and simulate."""

from __future__ import annotations

import math
import os
from typing import Any

import click

from .output import document, emit, say
from .site import myself, parse_when, site_options


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

    Where jobs are private it holds your own alone (root and the collector's user: everybody's), and the file is never
    readable by more people than the store. Times are accounting's last word. With --as-told they are those the
    collector went by: over them `runtime` and `wait` say what it said.
    """
    from ..service.exported import exported
    from ..service.settings import load
    from ..store.place import mode_of
    from ..trace.parquet import write_parquet

    settings = load(flags)
    since = parse_when(starttime) if starttime else -math.inf
    until = parse_when(endtime) if endtime else math.inf
    trace, cluster, of = exported(settings, myself(), since, until, as_told=as_told)
    os.umask(os.umask(0o077) | (0o777 & ~mode_of(settings["store"])))  # never more open than the store
    write_parquet(trace, output)
    left = trace.info.dropped["still open at export"]
    if as_json:
        shown = {
            "store": settings.shown("store"),
            "output": output,
            "starttime_s": since,
            "endtime_s": until,
            "as_told": as_told,
            "user": of,
        }
        emit(document("export", {"cluster": cluster}, shown,
                      trace.info.notes, [{"jobs": len(trace), "still_open": left}]))  # fmt: skip
    else:
        whose = f" of {of} (jobs are private here)" if of else ""
        say(
            f"{len(trace)} finished jobs{whose} of {cluster} to {output}; {left} still waiting or running were left out"
        )
        for note in trace.info.notes:
            say(f"note: {note}")
        say(f"next: batchcast evaluate {output} -o report/")
