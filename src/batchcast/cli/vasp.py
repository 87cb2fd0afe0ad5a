"""`batchcast vasp`: run-time features of VASP jobs, of one directory or of a whole job log."""

from __future__ import annotations

from pathlib import Path

import click

from .output import console, document, emit, say


@click.group()
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
    from ..vasp import read_features
    from ..vasp.features import DEFAULTS_FROM, MEANINGS

    found = read_features(directory, look_for_wavecar=wavecar)
    for note in found.notes:
        say(f"note: {note}")
    if as_json:
        settings = {"look_for_wavecar": wavecar, "defaults_from": DEFAULTS_FROM, "defaulted": list(found.defaulted)}
        emit(document("vasp-features", {"directory": str(directory)}, settings, found.notes, [dict(found.values)]))
        return
    from rich.table import Table

    table = Table(title=f"{directory}", title_justify="left")
    for column in ("feature", "value", "from", "meaning"):
        table.add_column(column, justify="right" if column == "value" else "left")
    for name, value in found.values.items():
        origin = "default" if name in found.defaulted else "inputs"
        table.add_row(name, value if isinstance(value, str) else f"{value:.10g}", origin, MEANINGS[name])
    console().print(table)
    say(f"defaults: {DEFAULTS_FROM}")
