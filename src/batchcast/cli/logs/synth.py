# SPDX-License-Identifier: Apache-2.0
"""`batchcast synth`: generates a synthetic log from published models, or measures how similar one is to a real log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from ...errors import UsageError
from ...units import counted, parse_duration
from ..grammar import option, output_option, verb
from ..output import document, emit, refuse_two_on_stdout, say, show_blocks

if TYPE_CHECKING:
    from ...trace.synth import Recipe


@verb()
@output_option("Output; the ending sets the format: .swf (.gz, .xz), .csv, .parquet, OUT/ (folder), - (CSV on stdout).")
@option("--jobs N", "Number of jobs.", type=int, default=10_000)
@option("--procs-total P", "Processors of the machine.", "procs", type=int, default=128)
@option("--load L", "Offered load: work divided by machine size and time span.", type=float, default=0.8)
@option("--users N", "Maximum number of users. Default: 2 * sqrt(jobs).", type=int)
@option("--kinds WORD [together]", "Mix interactive and batch jobs (together), or generate them separately (apart).")
@option("--longest TIME", "Longest time limit. Default: 2-00:00:00.")
@option("--killed X", "Share of jobs that end at their time limit.", type=float, default=0.1)
@option("--spread X", "Standard deviation of ln(run time) within an application.", type=float, default=0.6)
@option("--waits WORD [easy]", "Queue waits: simulated with EASY, or none.")
@option("--seed S", "Random seed; the same seed gives the same log.", type=click.IntRange(min=0), default=0)
@option("--memory", "Add requested and used memory. SWF cannot mark jobs that ran out of memory.")
@option(
    "--compare LOG...", "Generate a log like LOG and print the differences; write nothing.", "logs", type=click.Path()
)
def command(
    logs: Sequence[str],
    as_json: bool,
    seed: int,
    output: str | None,
    longest: str | None,
    memory: bool,
    **recipe_fields: Any,
) -> None:
    """Generate a synthetic log: sizes, run times and arrivals of Lublin & Feitelson (2003), time limits of Tsafrir,
    Etsion & Feitelson (2005), users who repeat applications in sessions.

    With --compare, the log imitates LOG's number of jobs and users, machine, load and longest common time limit (of its
    `reference` jobs, see --clean of other verbs), and nothing is written.

    \b
    batchcast synth -o year.swf.gz --jobs 100000 --procs-total 512 --load 0.75 --seed 7
    batchcast synth --compare CTC-SP2-1996-3.1-cln.swf.gz
    """
    limit = parse_duration(longest) if longest else None
    refuse_two_on_stdout(output or "", as_json)
    if memory and logs:
        raise UsageError("--memory does not go with --compare")
    if logs and output:
        raise UsageError("--compare writes nothing", hint="without --output, or without --compare")
    if logs:
        _compare(logs, seed, limit, as_json)
    elif output:
        from ...trace.synth import Recipe

        recipe = Recipe(**recipe_fields) if limit is None else Recipe(**recipe_fields, longest=limit)
        _write(recipe, seed, output, as_json, memory)
    else:
        raise UsageError("nothing to do", hint="-o OUT.swf.gz, or --compare LOG")


def _write(recipe: Recipe, seed: int, output: str, as_json: bool, memory: bool) -> None:
    """Generate and write the log; to a folder one block at a time."""
    import numpy as np

    from ...trace.select import describe_log
    from ...trace.synth import make_blocks, make_log, with_memory
    from ...trace.write import FOLDER, kind_of, write_by_ending

    kind, settings = kind_of(output), asdict(recipe)
    if kind == FOLDER:
        if memory:
            raise UsageError("--memory is not for a folder", hint="-o OUT.parquet")
        from ...trace.parquet import write_folder

        folder = write_folder(make_blocks(seed, recipe), output)
        jobs, about = len(folder), {"jobs": len(folder)}
        form = f"{counted(len(folder.parts), 'file')} by month"
    else:
        log = make_log(np.random.default_rng(seed), recipe)
        # separate random numbers for memory, so that the rest of the log is unchanged
        log = with_memory(np.random.default_rng([seed, 1]), log) if memory else log
        log = log.with_info(replace(log.info, header={**log.info.header, "Seed": str(seed)}))
        jobs, form, about = len(log), write_by_ending(log, output), describe_log(log)
    if not as_json:
        return say(f"{counted(jobs)} to {output} ({form}), seed {seed}")
    settings |= {"users": recipe.people, "seed": seed, "output": output, "output_format": kind}
    settings |= {"memory": True} if memory else {}
    if kind != FOLDER:
        settings["longest_s"], settings["unix_start_s"] = settings.pop("longest"), settings.pop("unix_start")
    emit(document("synth", about, settings, [], [{"jobs": jobs}]))


def _compare(logs: Sequence[str], seed: int, limit: float | None, as_json: bool) -> None:
    """Generate a log like each given log, and print how their distributions differ."""
    from ...evaluation.synthetic import compare
    from ...trace.clean import clean
    from ...trace.read import read_trace

    results = [
        {"log": log, **row}
        for log in logs
        for row in compare(clean(read_trace(log), ["reference"]), seed, longest=limit)
    ]
    settings = {"seed": seed, "longest_s": limit, "clean": ["reference"]}
    if as_json:
        return emit(document("synth", {"source": list(logs)}, settings, [], results))
    from ...report.tables import comparison_table

    show_blocks(*(comparison_table(real, synthetic) for real, synthetic in zip(results[::2], results[1::2])))
    say(f"synthetic: seed {seed}; distance: the largest difference between the two cumulative distributions")
