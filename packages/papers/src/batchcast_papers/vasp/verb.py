# SPDX-License-Identifier: Apache-2.0
"""`batchcast vasp estimate` and `vasp synth`: estimate the run time of VASP jobs, and draw synthetic ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from batchcast.cli.grammar import option, output_option, verb
from batchcast.cli.output import document, echo, emit, note, plain, say
from batchcast.inputs.verb import show_rows
from batchcast.units import format_duration, span

if TYPE_CHECKING:
    from batchcast.table import Trace

    from .estimate import Estimate


COUNT, FROM_ZERO = click.IntRange(min=1), click.IntRange(min=0)
HISTORY_HELP = (
    "Finished jobs with features: a file of `vasp collect`, a CSV, or a store (path, sqlite:///, postgresql://). "
    "Default: the site's store."
)
PREDICTOR_HELP = "Run-time method, NAME:key=value,...: boosted, forest, irpa, brbf, ..."


@verb("estimate")
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path())
@option("--history FILE|STORE", HISTORY_HELP)
@option("--procs N", "Processors of each job.", type=COUNT, required=True)
@option("--nodes N", "Nodes of each job.", type=COUNT)
@option("--user NAME", "Owner of the jobs. Default: you.")
@option("--name NAME", "Name of the jobs, for also=job_name.", "job_name")
@option("--predictor NAME", PREDICTOR_HELP, default="boosted")
def estimate(
    directories: tuple[str, ...], history: str | None, user: str | None, job_name: str | None, as_json: bool, **how: Any
) -> None:
    """Estimate the run time of the VASP or Quantum ESPRESSO job in each DIR, and suggest its time limit.

    The predictor learns from the finished jobs of the history, and finds the past runs whose inputs are nearest. The
    suggested time limit is the 90 % bound, rounded up to five minutes: about one job of ten would need longer. Several
    directories are printed as a table. A directory that cannot be read is reported, and the others are answered.
    """
    from batchcast.cli.site_options import myself
    from batchcast.errors import InputError
    from batchcast.trace.select import describe_log

    from .estimate import BOUND
    from .estimate import estimate as run

    past = _history(history)
    owner = myself().name if user is None else user
    columns = {name: value for name, value in (("user_id", owner), ("job_name", job_name)) if value is not None}
    found = run(past, directories, columns=columns, **how)
    problems = [one.problem for one in found if one.problem]
    if len(problems) == len(found):
        hint = f"none of the {len(found)} directories can be read; this is the first"
        raise InputError(problems[0], hint=hint if len(found) > 1 else f"batchcast vasp features {found[0].directory}")
    notes = [remark for one in found for remark in one.notes]
    if as_json:
        settings = {"history": history, **{name: how[name] for name in ("procs", "nodes", "predictor")}}
        settings |= {"level": BOUND, **columns}
        warnings = [*past.info.notes, *problems, *notes]
        emit(document("vasp-estimate", describe_log(past), settings, warnings, [_as_row(one) for one in found]))
        return
    note(*past.info.notes, *notes)
    _show_one(found[0]) if len(found) == 1 else _show_several(found)


def _history(name: str | None) -> Trace:
    """Return finished jobs from a file, from the given store, or from the site's store."""
    from batchcast.trace import read_trace

    is_address = name is not None and name.startswith(("sqlite:", "postgresql:"))
    if name is not None and not is_address and not begins_with(name, b"SQLite format 3"):
        return read_trace(name)
    from batchcast.cli.site_options import myself
    from batchcast.service.answers.disclosure import exported
    from batchcast.service.settings import load

    return exported(load({} if name is None else {"store": name}), myself()).trace


def begins_with(path: str | Path, start: bytes) -> bool:
    """Return whether a file begins with these bytes; False if the file cannot be read."""
    with suppress(OSError), open(path, "rb") as file:
        return file.read(len(start)) == start
    return False


def _as_row(one: Estimate) -> dict[str, Any]:
    """Return an estimate as a flat dictionary with a list of the nearest runs."""
    row = {"directory": one.directory, "run_s": one.run_s, "bound_s": one.bound_s, "limit_s": one.limit_s}
    row |= {"limit": _limit(one), "basis": one.basis, "fallback": one.is_fallback, "problem": one.problem}
    return {**row, "nearest": plain(one.nearest)}


def _limit(one: Estimate) -> str:
    """Return the suggested time limit in the form of sbatch; empty if there is no suggested limit."""
    return "" if math.isnan(one.limit_s) else format_duration(one.limit_s)


def _show_one(one: Estimate) -> None:
    """Print the prediction for one directory: the line for the job script, and the nearest past runs."""
    bound = "" if math.isnan(one.bound_s) else f"; 90 % of similar jobs end within {span(one.bound_s)}"
    echo(f"{one.directory}: likely run time {span(one.run_s)}{bound}")
    limit = _limit(one)
    echo(f"#SBATCH --time={limit}" if limit else "no 90 % bound yet: this prediction uses too few past jobs")
    if one.is_fallback:
        echo("The input files were not used: this prediction uses past jobs only.")
    echo(f"basis: {one.basis}")
    rows = [
        {"job": run.job, "run": run.run_s, "procs": run.procs, "differs": _differences(run.differs),
         "directory": run.directory or "-"}
        for run in one.nearest
    ]  # fmt: skip
    columns = ("job", "run|run time|seconds", "procs|procs|count", "differs|past value, new value", "directory")
    show_rows("Nearest past runs", columns, rows)


def _differences(differs: Mapping[str, tuple[Any, Any]]) -> str:
    """Return a text with the features that differ: `encut 400, 520`.

    >>> _differences({"encut": (400.0, 520.0), "prec": ("normal", "low")}), _differences({})
    ('encut 400, 520; prec normal, low', 'nothing')
    """
    words = [
        f"{name} " + ", ".join(value if isinstance(value, str) else f"{value:.5g}" for value in pair)
        for name, pair in differs.items()
    ]
    more = [f"{len(words) - 4} more"] if len(words) > 4 else []
    return "; ".join([*words[:4], *more]) or "nothing"


def _show_several(found: list[Estimate]) -> None:
    """Print a table with one line for each directory."""
    rows = [
        {"directory": one.directory, "run": one.run_s, "bound": one.bound_s, "limit": _limit(one) or "-",
         "nearest": one.nearest[0].run_s if one.nearest else math.nan, "basis": one.problem or one.basis}
        for one in found
    ]  # fmt: skip
    columns = ("directory", "run|likely|seconds", "bound|90 % bound|seconds", "limit|--time=",
               "nearest|nearest past run|seconds", "basis")  # fmt: skip
    show_rows("Estimated run times", columns, rows)


@verb("synth")
@output_option("Output; the ending sets CSV or Parquet.", required=True)
@option("--like first|second", "Data set of Wu et al. 2019 to imitate.", "shares", default="first")
@option("--jobs", "Number of jobs.", type=COUNT, default=10_000)
@option("--users", "Number of users.", type=COUNT, default=120)
@option("--seed", "Random seed; the same seed gives the same log.", type=FROM_ZERO, default=0)
def synth(output: str, shares: str, jobs: int, users: int, seed: int, as_json: bool) -> None:
    """Write a synthetic log of VASP jobs with the features of their input files."""
    import numpy as np

    from batchcast.errors import UsageError
    from batchcast.trace.select import describe_log
    from batchcast.trace.write import kind_of, write_by_ending

    from .synthetic import draw_vasp_log

    if kind_of(output) == "swf":
        raise UsageError(f"{output}: SWF has no columns for features", hint="-o OUT.csv or OUT.parquet")
    log = draw_vasp_log(np.random.default_rng(seed), jobs, users=users, shares=shares)
    kind = write_by_ending(log, output)
    if as_json:
        settings = {"like": shares, "jobs": jobs, "users": users, "seed": seed, "output": output}
        emit(document("vasp-synth", describe_log(log), settings, [], [{"jobs": len(log)}]))
        return
    say(f"{len(log):,} VASP jobs to {output} ({kind}), seed {seed}")
