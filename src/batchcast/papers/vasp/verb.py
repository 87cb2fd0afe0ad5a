# SPDX-License-Identifier: Apache-2.0
"""`batchcast vasp`: run-time features of VASP jobs, of one directory or of a whole job log."""

from __future__ import annotations

from pathlib import Path

import click

from ...cli.grammar import Verbs, output_option
from ...cli.output import console, document, emit, progress, say
from ...units import counted


@click.group(cls=Verbs)
def command() -> None:
    """Features of VASP jobs from INCAR, POSCAR, KPOINTS and POTCAR, for run-time predictors such as irpa and brbf."""


@command.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--wavecar/--no-wavecar", default=True, show_default=True, help="A WAVECAR there means ISTART=1.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def features(directory: Path, wavecar: bool, as_json: bool) -> None:
    """Print what the inputs in DIRECTORY say about the run; defaults are VASP's and marked as such.

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
    help="The job log; its jobs must name their working directory.",
)
@click.option("--root", required=True, type=click.Path(path_type=Path), help="Where the directories lie on this host.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The Parquet log to write.")
@click.option("--strip", default="", metavar="PREFIX", help="Cut this off the front of the log's directories.")
@click.option(
    "--changed",
    type=click.Choice(["auto", "drop", "keep"]),
    default="auto",
    show_default=True,
    help="Inputs written after a job's submission: leave the job without features, or keep them; auto tells a copy.",
)
@click.option(
    "--format", type=click.Choice(["swf", "sacct", "pbs", "csv", "parquet"]), help="Default: told by content."
)
@click.option("--map", type=click.Path(), metavar="FILE.toml|NAME", help="Which column of a CSV is which.")
@click.option("--timezone", metavar="ZONE", help="Of the log's dates. Default: the log's own, else UTC.")
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
    """Join a job log with the inputs in its working directories, and write a log that run-time predictors can use.

    Each directory is visited once. A run cut short goes on where it was; run again later, jobs whose directories are
    gone by then keep what was read before. Only features are kept, no file content.
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
@output_option("CSV or Parquet, by its ending.", required=True)
@click.option(
    "--like",
    "shares",
    type=click.Choice(["first", "second"]),
    default="first",
    show_default=True,
    help="The set of Wu et al. 2019 whose run times are imitated.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=10_000, show_default=True, help="How many jobs.")
@click.option("--users", type=click.IntRange(min=1), default=120, show_default=True, help="How many users.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Same seed, same log.")
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
