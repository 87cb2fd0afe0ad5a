# SPDX-License-Identifier: Apache-2.0
"""`batchcast sweep`: runs a study declared in one TOML file on all available cores, and prints its tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import BatchcastError, InputError
from ...units import counted
from ..grammar import JSON, Verbs, option, output_option
from ..options import find_modules_here
from ..output import document, emit, note, progress, say, show_blocks

if TYPE_CHECKING:
    from ...sweep import Study, Task
    from ...sweep.dataset import Dataset

RUN = "run"


class _StudyOrVerb(Verbs):
    """`sweep STUDY.toml` means `sweep run STUDY.toml`; options before the study belong to `run` too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, with the verb `run` if the first argument is no verb and does not ask for help."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [RUN, *args]
        return super().parse_args(ctx, args)


@click.group(cls=_StudyOrVerb, short_help="A whole study, declared once: on this machine, on Dask, on Slurm.")
def command() -> None:
    """Run many simulations declared in one file; finished tasks are never repeated.

    \b
    batchcast sweep study.toml -o out/
    batchcast sweep report out/
    """


@command.command(RUN, short_help="Run a study; `batchcast sweep STUDY.toml` for short.", json=JSON)
@click.argument("study", type=click.Path(path_type=Path), metavar="FILE")
@output_option(
    "Folder of the results. Default: the study's name with -results.", type=click.Path(path_type=Path), metavar="FOLDER"
)
@option(
    "--pool WHERE [local]", "Where tasks run: local processes, slurm jobs, or the Dask scheduler at tcp://HOST:PORT."
)
@option(
    "--workers N",
    "Number of workers. Default: one per processor; on Slurm the study's number, else 4.",
    type=click.IntRange(min=1),
)
@option("--partition NAME", "On Slurm: partition of the workers.")
@option("--account NAME", "On Slurm: account of the workers.")
@option("--time TIME", "On Slurm: time limit of a worker; a worker that ends is replaced.", "walltime")
@option("--mem SIZE", "On Slurm: memory of a worker, for example 2GB.", "memory")
@option("--interface NAME", "On Slurm: network interface that nodes use to reach this host, for example ib0.")
@option("--dry-run", "Count tasks and core-hours without running them.")
def run_study(study: Path, output: Path | None, pool: str, dry_run: bool, as_json: bool, **wishes: Any) -> None:
    """Run the study declared in FILE (TOML). If it was stopped, the same command continues it.

    \b
    batchcast sweep study.toml --dry-run
    batchcast sweep study.toml -o out/
    batchcast sweep study.toml -o out/ --pool slurm --partition short --workers 40 --interface ib0
    """
    import msgspec

    from ...sweep import tasks_of
    from ...sweep.dataset import Dataset

    text, declared = _read(study)
    find_modules_here({"study": text})
    wish = msgspec.structs.replace(declared.slurm, **{k: value for k, value in wishes.items() if value is not None})
    many = wishes["workers"] or (wish.workers if pool == "slurm" else os.cpu_count() or 1)
    tasks = tasks_of(declared, study.parent)
    dataset = Dataset(output or Path(f"{study.stem}-results"))
    finished = dataset.finished_keys()
    todo = [task for task in tasks if task.key not in finished]
    if dry_run:
        return _print_cost(study, declared, tasks, dataset, finished, many, as_json)
    with dataset.alone():
        dataset.declare(tasks, text)
        failed = _run(todo, dataset, pool, many, wish, len(tasks)) if todo else []
        dataset.fold_all()
    if as_json:
        results = [{"key": one.key, "task": one.label, "error": one.why} for one in failed]
        kept = len(todo) - len(failed)
        counts = {"tasks": len(tasks), "finished_before": len(tasks) - len(todo), "kept": kept, "failed": len(failed)}
        emit(document("sweep", {"source": str(study)}, {"output": str(dataset.folder), **counts}, [], results))
    else:
        say(f"{len(tasks) - len(failed):,} of {len(tasks):,} tasks have results in {dataset.folder}"
            f" ({len(tasks) - len(todo):,} from before): batchcast sweep report {dataset.folder}")  # fmt: skip
    if failed:
        hint = "run the same command again; it repeats only the failed tasks"
        raise BatchcastError(f"{counted(len(failed), 'task')} failed (named above)", hint=hint)


def _run(todo: list[Task], dataset: Dataset, pool_name: str, many: int, wish: Any, count: int) -> list[Any]:
    """Run the remaining tasks on the chosen pool; return the tasks that failed."""
    from ...sweep.run import pool_on, run

    before, workers = count - len(todo), dataset.folder / "workers"
    with pool_on(pool_name, many, wish, say, workers) as pool, progress(f"{count:,} tasks", count) as tick:
        tick(before)
        return run(todo, pool, dataset.keep, tick=lambda landed: tick(before + landed),
                   tell=lambda one: say(f"failed: {one.label}: {one.why}"))  # fmt: skip


@command.command(short_help="Tables of a study's results, with paired intervals.", json=JSON)
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@option(
    "--against 'POLICY, PREDICTOR'...",
    "Reference plan for differences; repeatable. Default: the study's, else the first.",
)
@option("--seed", "Random seed of the intervals.", type=int, default=0)
@output_option(
    "Also draw mean bounded slowdown against longest wait of each plan.",
    "picture",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.svg",
)
def report(folder: Path, against: tuple[str, ...], seed: int, picture: Path | None, as_json: bool) -> None:
    """Compare the plans of a study from the results in FOLDER.

    \b
    batchcast sweep report out/ --against "easy, requested"
    batchcast sweep report out/ -o frontier.svg
    """
    import pyarrow.parquet as pq

    from ...report.sweep import ablation_table, frontier_svg, study_tables
    from ...sweep.compare import ablation, compare
    from ...sweep.dataset import results

    table = results(folder)
    declared = _read(folder / "study.toml")[1]
    chosen = against or declared.against or (None,)
    compared = {reference: compare(table, reference, seed=seed) for reference in chosen}
    words = ablation(table)
    missing = pq.read_metadata(folder / "tasks.parquet").num_rows - table.height
    notes = [f"{missing:,} tasks of the study have no result yet"] if missing else []
    if picture:
        picture.write_text(frontier_svg(next(iter(compared.values()))), encoding="utf-8")
        say(f"the frontier is drawn in {picture}")
    if as_json:
        rows = [row for each in compared.values() for row in each]
        settings = {"seed": seed, "against": list(compared)}
        return emit({**document("sweep report", {"source": str(folder)}, settings, notes, rows), "ablation": words})
    note(*notes)
    for place, rows in enumerate(compared.values()):
        show_blocks(*study_tables(rows)[min(place, 1) :])
    if words:
        show_blocks(ablation_table(words))


def _read(path: Path) -> tuple[str, Study]:
    """Read a study's text and its declaration; InputError if it cannot be read."""
    from ...ceilings import small_text
    from ...sweep import read_study
    from ...sweep.study import HINT

    try:
        text = small_text(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot be read ({reason})", hint=HINT) from None
    return text, read_study(text, str(path))


def _print_cost(
    path: Path, study: Study, tasks: list[Task], dataset: Dataset, finished: set[str], workers: int, as_json: bool
) -> None:
    """Print how many tasks remain, and how many core-hours they are expected to take."""
    from ...report.sweep import cost_table
    from ...sweep.dataset import estimate, measured_seconds

    measured = measured_seconds(dataset.folder)
    stated = study.cost.seconds if study.cost else None
    rows = estimate(tasks, finished, measured, stated, workers)
    source = "unknown: set seconds under [cost], or let some tasks finish to measure them"
    if measured or stated is not None:
        source = f"measured on the tasks in {dataset.folder}" if measured else "given in the study ([cost] seconds)"
    if as_json:
        settings = {"workers": workers, "seconds": source}
        return emit(document("sweep", {"source": str(path)}, settings, [], rows))
    show_blocks(cost_table(rows, workers, source))
