"""`batchcast reproduce vasp`: tables 2 to 5 and figures 1 and 6 to 9 of Wu et al. 2019, for runs at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .output import console, document, emit, progress, say, write_text
from .shared_logs import shared_folder

DATA = "traces/vasp-klimes.csv.gz"


@click.command("vasp")
@click.option("--data", type=click.Path(path_type=Path), help=f"The runs. Default: {DATA} of the shared folder.")
@click.option("--predictor", "predictors", metavar="NAMES", help="Methods. Default: the paper's and boosted trees.")
@click.option("--resamples", type=click.IntRange(min=1), default=10, show_default=True, help="Bootstrap resamples.")
@click.option("--seed", type=int, default=0, show_default=True, help="For resamples and models.")
@click.option("--page", type=click.Path(path_type=Path), help="Also write the page with tables and figures here.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(
    data: Path | None, predictors: str | None, resamples: int, seed: int, page: Path | None, as_json: bool
) -> None:
    """Score every method on real VASP runs, split in time and by system, after removing copies of runs.

    The paper's own jobs are not public: no printed figure is a target here. About a minute a resample.
    """
    import numpy as np

    from ..errors import UsageError
    from ..evaluate.vasp_runs import read_runs
    from ..evaluate.vasp_study import METHODS, SPLITS, core_time, distribution, facts, study
    from ..predict.registry import load, parse_spec, split_specs
    from ..report.terminal import show
    from ..report.vasp import can, cannot, summary_tables, vasp_sections

    if page is not None and not page.absolute().parent.is_dir():
        raise UsageError(f"--page {page}: there is no directory {page.absolute().parent}")
    path = data or shared_folder() / DATA
    runs = read_runs(path)
    specs = split_specs(predictors) if predictors else list(METHODS)
    for spec in specs if predictors else ():
        load("runtime", parse_spec(spec)[0])  # a name asked for must exist; of the paper's, an absent one is listed so
    with progress("models", len(specs) * len(SPLITS) * resamples) as tick:
        results = study(runs, specs, resamples=resamples, seed=seed, tick=tick)
    counts = {"runs": len(runs.trace), "systems": len(np.unique(runs.system)), **runs.trace.info.dropped}
    known = facts(runs)
    limits = [cannot(known), can(known)]
    settings: dict[str, Any] = {
        "predictor": specs, "splits": list(SPLITS), "train_share": 0.8, "resamples": resamples, "seed": seed,
    }  # fmt: skip
    log = {
        "source": str(path),
        **{"jobs": counts["runs"], "systems": counts["systems"]},
        "dropped": runs.trace.info.dropped,
    }
    if page is not None:
        from ..report import page as make_page

        sections = vasp_sections(results, distribution(runs), core_time(runs), known, counts, resamples)
        html = make_page("Run time of VASP jobs: IRPA and BRBF", sections, {"log": log, "settings": settings})
        write_text(page, html)
        say(f"page: {page}")
    if as_json:
        shares = [{"table": "run_time_distribution", **row} for row in distribution(runs)]
        emit(document("reproduce-vasp", log | {"distribution": shares, "facts": known}, settings, limits, results))
        return
    show(console(), [*summary_tables(results, resamples), *limits])
    say(f"seed {seed}; --page FILE writes tables 2 to 5 and the figures")
