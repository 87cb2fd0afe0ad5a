# SPDX-License-Identifier: Apache-2.0
"""`batchcast vasp`: read features of VASP jobs from their input files, for run-time predictors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cli.completion import formats
from ..cli.grammar import JSON, Verbs, option
from ..cli.output import document, emit, note, progress, say, show_blocks
from ..units import counted

if TYPE_CHECKING:
    from .collect import Changed

PLACE = click.Path(path_type=Path)
TAGS_HELP = "INCAR tags that become columns too: NSW,IBRION gives incar_nsw and incar_ibrion, for also=incar_nsw."
CHANGED_HELP = (
    "Inputs changed after the submission: drop or keep the features; auto: keep them if the folder is a copy."
)


@click.group("vasp", cls=Verbs)
def command() -> None:
    """Read features of VASP jobs from INCAR, POSCAR, KPOINTS and POTCAR."""


@command.command(json=JSON)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--wavecar/--no-wavecar", default=True, show_default=True, help="Assume ISTART=1 if there is a WAVECAR.")
def features(directory: Path, wavecar: bool, as_json: bool) -> None:
    """Print the features of the inputs in DIRECTORY; VASP's defaults are marked.

    POTCAR text is never stored or printed: only ZVAL, ENMAX, LULTRA and the name of each potential are read.
    """
    from .collect import read_features
    from .features import DEFAULTS_FROM, MEANINGS

    read = read_features(directory, look_for_wavecar=wavecar)
    note(*read.notes)
    if as_json:
        settings = {"look_for_wavecar": wavecar, "defaults_from": DEFAULTS_FROM, "defaulted": list(read.defaulted)}
        emit(document("vasp-features", {"directory": str(directory)}, settings, read.notes, [dict(read.values)]))
        return
    rows = [
        {"feature": name, "value": value if isinstance(value, str) else f"{value:.10g}", "meaning": MEANINGS[name],
         "from": "default" if name in read.defaulted else "inputs"}
        for name, value in read.values.items()
    ]  # fmt: skip
    show_rows(f"{directory}", ("feature", "value", "from", "meaning"), rows)
    say(f"defaults: {DEFAULTS_FROM}")


def show_rows(title: str, columns: Sequence[str], rows: list[dict[str, Any]]) -> None:
    """Print rows as a table; `columns` are texts for `columns_of`."""
    from ..report.blocks import Table, columns_of

    show_blocks(Table(title, columns_of(*columns), rows))


@command.command(json=JSON)
@option("--log LOG", "Job log with working directories.", "jobs", required=True, type=click.Path())
@option("--root", "Folder of the working directories on this host.", required=True, type=PLACE)
@option("-o, --output", "Output file (Parquet).", required=True, type=PLACE)
@option("--strip PREFIX", "Prefix to remove from the log's directories.", default="", show_default=False)
@option("--tags TAGS|all", TAGS_HELP, default="", show_default=False)
@option("--changed auto|drop|keep", CHANGED_HELP, default="auto")
@option("--format FORMAT", "Format of the log. Default: recognized by content.", shell_complete=formats)
@option("--map FILE.toml|NAME", "Column map of a CSV.", type=click.Path())
@option("--timezone ZONE", "Time zone of the log. Default: the log's own, else UTC.")
def collect(
    jobs: str, root: Path, output: Path, strip: str, tags: str, changed: Changed, as_json: bool, **reading: Any
) -> None:
    """Add features of the VASP or Quantum ESPRESSO inputs in the working directories to a job log.

    Each directory is read once. An interrupted run continues, and a later run keeps the features of directories that
    are gone. The output has only features, no file content.
    """
    from ..errors import UsageError
    from ..table.arrow import arrow
    from ..trace import read_trace, write_parquet
    from .collect import collect as run

    if not root.is_dir():
        raise UsageError(f"--root {root}: is not a directory (accepted: a directory on this host)")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"--output {output}: there is no directory {output.absolute().parent}")
    arrow()  # check for pyarrow now, to report the error before the directories are read
    trace = read_trace(jobs, **reading)
    previous = read_trace(output, format="parquet") if output.exists() else None
    words = [word.strip().upper() for word in tags.split(",") if word.strip()]
    chosen = None if words == ["ALL"] else words
    journal = output.with_name(output.name + ".journal")
    resumed = journal.exists()
    with progress("directories", len(trace.nominal("work_dir").categories)) as tick:
        done = run(
            trace, root, strip=strip, tags=chosen, changed=changed, previous=previous, journal=journal, tick=tick
        )
    write_parquet(done.trace, output)
    journal.unlink(missing_ok=True)
    notes = [*done.trace.info.notes, *["continued an earlier run that was cut short"] * resumed, *done.notes]
    note(*notes)
    say(*(f"unreadable: {problem}" for problem in done.problems[:10]))
    if len(done.problems) > 10:
        say(f"and {len(done.problems) - 10} more unreadable directories")
    rows = [
        {"inputs": status, "jobs": done.jobs.get(status, 0), "directories": done.directories.get(status, 0)}
        for status in {**done.jobs, **done.directories}
    ]
    if as_json:
        settings = {"root": str(root), "strip": strip, "tags": tags, "changed": changed, "output": str(output)}
        settings["timezone"] = reading["timezone"]
        log = {"source": trace.info.source, "jobs": len(trace)}
        emit(document("vasp-collect", log, settings, [*notes, *done.problems], rows))
        return
    columns = ("inputs", "jobs|jobs|count", "directories|directories|count")
    show_rows(f"{output}: {counted(len(trace))}", columns, rows)
