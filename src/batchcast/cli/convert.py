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

    SWF keeps its 18 fields only: names become numbers. Parquet keeps everything.

    \b
    batchcast convert accounting/20240401 april.swf.gz --status completed
    """
    from ..errors import InputError
    from ..trace.write import check_ending, write_by_ending

    check_ending(out)
    log = take_log(given, tell=not as_json)
    try:
        kind = write_by_ending(log.trace, out)
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror or error}") from None
    if as_json:
        settings = {**log.settings, "output": out, "output_format": kind}
        emit(document("convert", describe_log(log.trace), settings, log.warnings, [{"jobs": len(log.trace)}]))
    else:
        say(f"{len(log.trace)} jobs to {out} ({kind})")
