# SPDX-License-Identifier: Apache-2.0
"""`batchcast vasp`: read features of VASP jobs from their input files, for run-time predictors."""

from __future__ import annotations

from pathlib import Path

import click

from ...cli.grammar import Verbs, output_option
from ...cli.output import console, document, emit, progress, say
from ...units import counted


@click.group(cls=Verbs)
def command() -> None:
    """Read features of VASP jobs from INCAR, POSCAR, KPOINTS and POTCAR, for predictors such as irpa and brbf."""


@command.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--wavecar/--no-wavecar", default=True, show_default=True, help="Assume ISTART=1 if there is a WAVECAR.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def features(directory: Path, wavecar: bool, as_json: bool) -> None:
    """Print the features of the inputs in DIRECTORY; VASP's defaults are marked.

    POTCAR text is never stored or printed: only ZVAL, ENMAX, LULTRA and the name of each potential are read.
    """
    from . import read_features
    from .features import DEFAULTS_FROM, MEANINGS

    read = read_features(directory, look_for_wavecar=wavecar)
    for note in read.notes:
        say(f"note: {note}")
    if as_json:
        settings = {"look_for_wavecar": wavecar, "defaults_from": DEFAULTS_FROM, "defaulted": list(read.defaulted)}
        emit(document("vasp-features", {"directory": str(directory)}, settings, read.notes, [dict(read.values)]))
        return
    from ...report.blocks import Table, TableColumn
    from ...report.terminal import show

    rows = [
        {
            "feature": name,
            "value": value if isinstance(value, str) else f"{value:.10g}",
            "from": "default" if name in read.defaulted else "inputs",
            "meaning": MEANINGS[name],
        }
        for name, value in read.values.items()
    ]
    show(console(), [Table(f"{directory}", [TableColumn(name, name) for name in rows[0]], rows)] if rows else [])
    say(f"defaults: {DEFAULTS_FROM}")


@command.command()
@click.option(
    "--log",
    "jobs",
    required=True,
    type=click.Path(),
    metavar="LOG",
    help="Job log with working directories.",
)
@click.option(
    "--root", required=True, type=click.Path(path_type=Path), help="Folder of the working directories on this host."
)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Output file (Parquet).")
@click.option("--strip", default="", metavar="PREFIX", help="Prefix to remove from the log's directories.")
@click.option(
    "--changed",
    type=click.Choice(["auto", "drop", "keep"]),
    default="auto",
    show_default=True,
    help="Inputs changed after the submission: drop or keep the features; auto: keep them if the folder is a copy.",
)
@click.option(
    "--format",
    type=click.Choice(["swf", "sacct", "pbs", "csv", "parquet"]),
    help="Format of the log. Default: recognized by content.",
)
@click.option("--map", type=click.Path(), metavar="FILE.toml|NAME", help="Column map of a CSV.")
@click.option("--timezone", metavar="ZONE", help="Time zone of the log. Default: the log's own, else UTC.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def collect(
    jobs: str,
    root: Path,
    output: Path,
    strip: str,
    changed: str,
    format: str | None,
    map: str | None,
    timezone: str | None,
    as_json: bool,
) -> None:
    """Add features of the VASP inputs in the working directories to a job log.

    Each directory is read once. An interrupted run continues, and a later run keeps the features of directories that
    are gone. The output has only features, no file content.
    """
    from typing import cast

    from ...errors import UsageError
    from ...table.arrow import arrow
    from ...trace import read_trace, write_parquet
    from .collect import Changed
    from .collect import collect as run

    if not root.is_dir():
        raise UsageError(f"--root {root}: is not a directory (accepted: a directory on this host)")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"--output {output}: there is no directory {output.absolute().parent}")
    arrow()  # better missed before the walk than after it
    trace = read_trace(jobs, format=format, timezone=timezone, map=map)
    previous = read_trace(output, format="parquet") if output.exists() else None
    journal = output.with_name(output.name + ".journal")
    resumed = journal.exists()
    with progress("directories", len(trace.nominal("work_dir").categories)) as tick:
        done = run(
            trace, root, strip=strip, changed=cast(Changed, changed), previous=previous, journal=journal, tick=tick
        )
    write_parquet(done.trace, output)
    journal.unlink(missing_ok=True)
    notes = [*done.trace.info.notes, *(["went on where a former run was cut short"] if resumed else []), *done.notes]
    for line in notes:
        say(f"note: {line}")
    for line in done.problems[:10]:
        say(f"unreadable: {line}")
    if len(done.problems) > 10:
        say(f"and {len(done.problems) - 10} more unreadable directories")
    rows = [
        {"inputs": status, "jobs": done.jobs.get(status, 0), "directories": done.directories.get(status, 0)}
        for status in {**done.jobs, **done.directories}
    ]
    if as_json:
        settings = {"root": str(root), "strip": strip, "changed": changed, "output": str(output), "timezone": timezone}
        warnings = [*notes, *done.problems]
        emit(document("vasp-collect", {"source": trace.info.source, "jobs": len(trace)}, settings, warnings, rows))
        return
    from ...report.blocks import Table, TableColumn
    from ...report.terminal import show

    columns = [TableColumn("inputs", "inputs"), *(TableColumn(key, key, "count") for key in ("jobs", "directories"))]
    show(console(), [Table(f"{output}: {counted(len(trace))}", columns, rows)])


@command.command()
@output_option("Output; the ending sets CSV or Parquet.", required=True)
@click.option(
    "--like",
    "shares",
    type=click.Choice(["first", "second"]),
    default="first",
    show_default=True,
    help="Data set of Wu et al. 2019 to imitate.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=10_000, show_default=True, help="Number of jobs.")
@click.option("--users", type=click.IntRange(min=1), default=120, show_default=True, help="Number of users.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Random seed; the same seed gives the same log.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def synth(output: str, shares: str, jobs: int, users: int, seed: int, as_json: bool) -> None:
    """Write a synthetic log of VASP jobs with the features of their input files."""
    import numpy as np

    from ...cli.options import describe_log
    from ...errors import UsageError
    from ...trace.write import kind_of, write_by_ending
    from .features import draw_vasp_log

    if kind_of(output) == "swf":
        raise UsageError(f"{output}: SWF has no room for features", hint="-o OUT.csv or OUT.parquet")
    log = draw_vasp_log(np.random.default_rng(seed), jobs, users=users, shares=shares)
    kind = write_by_ending(log, output)
    if as_json:
        settings = {"like": shares, "jobs": jobs, "users": users, "seed": seed, "output": output}
        emit(document("vasp-synth", describe_log(log), settings, [], [{"jobs": len(log)}]))
        return
    say(f"{len(log):,} VASP jobs to {output} ({kind}), seed {seed}")
