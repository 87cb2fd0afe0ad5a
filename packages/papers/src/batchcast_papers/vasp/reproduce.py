# SPDX-License-Identifier: Apache-2.0
"""`batchcast reproduce vasp`: tables 2 to 5 and figures 1 and 6 to 9 of Wu et al. 2019, for the available runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from batchcast.cli.grammar import option, page_option, verb
from batchcast.cli.output import document, emit, progress, say, show_blocks
from batchcast.errors import NoAnswer
from batchcast.inputs.verb import PLACE
from batchcast.report.blocks import Section

from ..shared import shared_folder, write_page
from .verb import COUNT, FROM_ZERO, begins_with

DATA = "traces/vasp-klimes.csv.gz"
SYNTHETIC_HELP = "Number of synthetic jobs of the first set (the second has a third of it); 0: none."


@verb("vasp", json="Print one JSON document instead of tables.")
@option("--data", f"File of the runs. Default: {DATA} of the shared folder.", type=PLACE)
@option("--predictor NAMES", "Methods. Default: the paper's methods and boosted trees.", "predictors")
@option("--resamples", "Number of bootstrap resamples.", type=COUNT, default=10)
@option("--synthetic", SYNTHETIC_HELP, type=FROM_ZERO, default=16_700)
@option("--quick", "Only one resample of the public runs and 4,000 synthetic jobs.")
@option("--seed", "Random seed of resamples and models.", type=int, default=0)
@page_option("Also write an HTML page with tables and figures.")
def command(
    data: Path | None, predictors: str | None, synthetic: int, quick: bool, page: Path | None, as_json: bool, **how: Any
) -> None:
    """Score every method on public VASP runs, split by time and by system, and on synthetic jobs; print the paper's
    figures for comparison.

    The paper's jobs are not public, so the printed figures cannot be matched exactly. About a minute of CPU per
    resample. If --data is a Parquet file of `batchcast vasp collect`, Tables 2 to 5 are those of its jobs alone.
    """
    import numpy as np

    from batchcast.errors import UsageError
    from batchcast.predict.registry import load, parse_spec, split_specs

    from . import study

    if page is not None and not page.absolute().parent.is_dir():
        raise UsageError(f"-o {page}: there is no directory {page.absolute().parent}")
    if quick:
        how["resamples"], synthetic = 1, min(synthetic, 4_000)
    resamples = how["resamples"]
    specs = split_specs(predictors) if predictors else list(study.METHODS)
    for spec in specs if predictors else ():
        # a method named by the user must exist; a method of the paper that is not installed is listed as missing
        load("runtime", parse_spec(spec)[0])
    if data is not None and begins_with(data, b"PAR1"):
        return _of_own_jobs(data, specs, page, as_json, how)
    path = data or shared_folder() / DATA
    runs = study.read_runs(path)
    with progress("models", len(specs) * len(study.SPLITS) * resamples) as tick:
        results = study.study(runs, specs, tick=tick, **how)
    drawn, shares = _synthetic(synthetic, specs, how["seed"]) if synthetic else ([], [])
    beside = study.synthetic_tables(drawn, shares) if drawn else []
    known = study.facts(runs)
    limits = [study.cannot(known), study.can(known)]
    settings = {"predictor": specs, "splits": list(study.SPLITS), "train_share": 0.8, **how, "synthetic": synthetic}
    log: dict[str, Any] = {"source": str(path), "jobs": len(runs.trace), "systems": len(np.unique(runs.system))}
    log["dropped"] = runs.trace.info.dropped
    if page is not None:
        figures = study.synthetic_figures(drawn) if drawn else []
        sections = study.vasp_sections(results, runs, known, resamples, [*beside, *figures])
        write_page(page, "Run time of VASP jobs: IRPA and BRBF", sections, {"log": log, "settings": settings})
    if as_json:
        log["distribution"] = [{"table": "run_time_distribution", **row} for row in study.distribution(runs)]
        emit(document("reproduce-vasp", log | {"facts": known}, settings, limits, [*results, *drawn]))
        return
    show_blocks(*study.summary_tables(results, resamples), *beside, *limits)
    say(f"seed {how['seed']}; -o FILE.html writes a page that also has figures")


def _of_own_jobs(data: Path, specs: list[str], page: Path | None, as_json: bool, how: dict[str, Any]) -> None:
    """Print Tables 2 to 5 for a site's jobs with features; methods train on four fifths and predict the last fifth."""
    import numpy as np

    from batchcast.trace import read_trace

    from .estimate import jobs_with_features
    from .study import Runs, distribution, own_tables, study

    trace = read_trace(data)
    usable = jobs_with_features(trace)
    log = usable.take(~(usable.number("istart") > 0))
    if len(log) < LEAST_OWN:
        what = f"{data}: {len(log)} finished jobs with features (needed: {LEAST_OWN})"
        raise NoAnswer(what, hint="collect more jobs")
    runs = Runs(log, np.zeros(len(log)), np.zeros(len(log)))
    with progress("models", len(specs) * how["resamples"]) as tick:
        results = study(runs, specs, splits=("time",), tick=tick, **how)
    notes = [
        f"{len(log):,} of {len(trace):,} jobs are used: {len(trace) - len(usable):,} have no run time or no features, "
        f"{len(usable) - len(log):,} continue an earlier run."
    ]
    tables = own_tables(results, distribution(runs), data.name)
    settings = {"predictor": specs, "splits": ["time"], "train_share": 0.8, **how}
    if page is not None:
        made_by = {"log": {"source": str(data), "jobs": len(log)}, "settings": settings}
        parts = [Section("In short", list(notes)), *(Section(table.caption, [table]) for table in tables)]
        write_page(page, f"Run time of VASP jobs: {data.name}", parts, made_by)
    if as_json:
        emit(document("reproduce-vasp", {"source": str(data), "jobs": len(log)}, settings, notes, results))
        return
    show_blocks(*tables, *notes)


LEAST_OWN = 50
"""Number of finished jobs with features that a split in time needs."""


def _synthetic(jobs: int, specs: list[str], seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the scores of all methods on the two synthetic sets of jobs (split in time), and the run-time
    distributions of the sets."""
    import numpy as np

    from .study import Runs, distribution, study
    from .synthetic import draw_vasp_log

    rows, shares = [], []
    for name, count in (("first", jobs), ("second", max(jobs // 3, 100))):
        log = draw_vasp_log(np.random.default_rng([seed, len(name)]), count, shares=name)
        runs = Runs(log, np.zeros(count), np.zeros(count))
        with progress(f"synthetic jobs, {name} set", len(specs)) as tick:
            scored = study(runs, specs, splits=("time",), resamples=1, seed=seed, tick=tick)
        rows += [{"data": name, **row} for row in scored]
        shares += [{"data": name, **row} for row in distribution(runs)]
    return rows, shares
