"""`batchcast convert`: a log in one format as a log in another."""

from __future__ import annotations

from typing import Any

import click

from .options import describe_log, log_options, take_log
from .output import document, emit, say


@click.command()
@log_options
@click.argument("out", metavar="OUT", type=click.Path(dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(out: str, as_json: bool, **given: Any) -> None:
    """Write the jobs of LOG to OUT, in the format of its ending: .swf (.gz, .xz), .csv or .parquet.

    SWF keeps its 18 fields only: names become numbers. CSV keeps every column, and is read back; Parquet keeps
    everything. What the format has no place for is said.

    \b
    batchcast convert accounting/20240401 april.swf.gz --status completed
    """
    from ..trace.carried import not_carried
    from ..trace.write import kind_of, write_by_ending

    kind = kind_of(out)
    log = take_log(given, tell=not as_json)
    write_by_ending(log.trace, out)
    lost = not_carried(log.trace, kind)
    if as_json:
        settings = {**log.settings, "output": out, "output_format": kind}
        warnings = [*log.warnings, *lost]
        emit(document("convert", describe_log(log.trace), settings, warnings, [{"jobs": len(log.trace)}]))
        return
    for line in lost:
        say(f"note: {line}")
    say(f"{len(log.trace)} jobs to {out} ({kind})")
