# SPDX-License-Identifier: Apache-2.0
"""`batchcast convert`: a log in one format as a log in another."""

from __future__ import annotations

from typing import Any

import click

from ...errors import UsageError
from ..grammar import OldArgument, output_option, verb, warn_of_old
from ..options import describe_log, log_options, take_log
from ..output import document, emit, refuse_two_on_stdout, say


@verb()
@log_options
@click.argument("out", cls=OldArgument, required=False, type=click.Path())
@output_option("By its ending: .swf (.gz, .xz), .csv, .parquet; OUT/ for a folder, - for CSV on stdout.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(out: str | None, output: str | None, as_json: bool, **given: Any) -> None:
    """Write the jobs of LOG to OUT, in the format of its ending: .swf (.gz, .xz), .csv, .parquet, .json, or OUT/.

    SWF keeps its 18 fields only: names become numbers. CSV keeps every column, and is read back; Parquet keeps
    everything; a .json is a workload of Batsim's. What the format has no place for is said. A folder is Parquet by
    month, made in a stream of an SWF log or another folder: memory does not grow with the log. Other formats are read
    at once first.

    \b
    batchcast convert accounting/20240401 -o april.swf.gz --status completed
    zcat years.swf.gz | batchcast convert - -o years/
    """
    from ...trace.write import FOLDER, kind_of, not_carried, write_by_ending

    out = _place(given["log"], out, output)
    kind = kind_of(out)
    refuse_two_on_stdout(out, as_json)
    if kind == FOLDER:
        return _to_folder(out, as_json, given)
    log = take_log(given)
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


def _place(log: str, out: str | None, output: str | None) -> str:
    """Where the log goes: `-o`, or the second argument of the version before."""
    if out is not None and output is not None:
        raise UsageError(
            f"{out} and -o {output} both name where the log goes", hint=f"batchcast convert {log} -o {output}"
        )
    if out is not None:
        warn_of_old(f"convert {log} {out}", f"convert {log} -o {out}")
    if place := output or out:
        return place
    raise UsageError("-o is missing: where the log goes", hint=f"batchcast convert {log} -o OUT.parquet")


def _to_folder(out: str, as_json: bool, given: dict[str, Any]) -> None:
    """Piece by piece; what needs the whole log is refused."""
    from ...trace.parquet import write_folder
    from ..options import dropped_lines
    from ..periods import Pieces

    pieces = Pieces(given)
    folder = write_folder(pieces, out)
    warnings = [*folder.info.notes, *dropped_lines(folder.info.dropped)]
    if as_json:
        settings = {**pieces.settings, "output": out, "output_format": "folder"}
        about = {"source": str(given["log"]), "sha256": folder.info.sha256}
        emit(document("convert", about, settings, warnings, [{"jobs": len(folder), "periods": len(folder.parts)}]))
        return
    for line in warnings:
        say(f"note: {line}")
    say(f"{len(folder)} jobs to {out} ({len(folder.parts)} files by month)")
