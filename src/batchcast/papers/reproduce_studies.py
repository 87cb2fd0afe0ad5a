# SPDX-License-Identifier: Apache-2.0
"""`batchcast reproduce grid`, `pqstar` and `vasp`: a paper's tables and figures beside ours, and a page.

Figures 2 to 4 and the percentages of Hao et al. 2014; Tables 1 to 8 of Kumar & Vadhiyar 2012; tables 2 to 5 and figures
1 and 6 to 9 of Wu et al. 2019, for runs at hand.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from ..cli.grammar import page_option, verb
from ..cli.output import console, document, emit, progress, say, write_text
from .grid.verb_simulate import numbers
from .grid.verb_simulate import workers as processes
from .shared import provenance, shared_folder


@verb("grid")
@click.option("--jobs", type=click.IntRange(min=50), default=10_000, show_default=True, help="Jobs a run.")
@click.option("--runs", type=click.IntRange(min=1), default=10, show_default=True, help="Runs a setting.")
@click.option(  # not 1: seed 1 was looked at while `deadline_search` was made
    "--seed", type=click.IntRange(min=0), default=2, show_default=True, help="Run k of every setting shares it."
)
@click.option(
    "--only-paper", is_flag=True, help="The paper's six heuristics alone: no other readings, no search of ours."
)
@click.option(
    "--sweep",
    "with_sweep",
    is_flag=True,
    help="Also the sweeps that chose units, T, late jobs and asjs, on other seeds (10 min CPU).",
)
@click.option(
    "--rates", default="20,22,24,26,28,30", show_default=True, metavar="LIST", help="Arrival rates; the paper's."
)
@click.option("--quick", is_flag=True, help="2,000 jobs a run, two runs.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes. Default: the processors at hand.")
@page_option("Also write the page with figures and tables.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def grid(
    jobs: int,
    runs: int,
    seed: int,
    only_paper: bool,
    with_sweep: bool,
    rates: str,
    quick: bool,
    workers: int | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Run the published experiment: 6 arrival rates x 9 mixes x runs, and print it beside the paper's figures.

    Units, the mapping interval and what becomes of late jobs are not printed; docs/papers/grid.md says how they
    were chosen.
    """
    import dataclasses

    from ..report.terminal import show
    from .grid import paper_study as grid_paper
    from .grid.paper_page import paper_page, paper_tables, sweep_tables
    from .grid.study import run_study

    if quick:
        jobs, runs = min(jobs, 2_000), min(runs, 2)
    wanted = numbers("--rates", rates, above=0.0)
    study = grid_paper.paper_study(
        jobs=jobs, runs=runs, seed=seed, rates=wanted, **({"extra": ()} if only_paper else {})
    )
    with processes(workers) as each:
        with progress("simulating", len(study.settings) * runs) as tick:
            results = run_study(study, watch=perf_counter, each=each, tick=tick, keep_runs=True)
        units = grid_paper.unit_sweep(perf_counter, seed=seed, each=each) if with_sweep else []
        asjs = grid_paper.asjs_sweep(perf_counter, seed=seed, each=each) if with_sweep else []
    swept = sweep_tables(units, asjs) if with_sweep else []
    settings: dict[str, Any] = {
        "rates": wanted, "jobs": jobs, "runs": runs, "seed": seed, "heuristic": list(study.heuristics),
        "resources": study.resources,
        **dataclasses.asdict(study.mapping), "compute_unit": study.units.compute, "transfer_unit": study.units.transfer,
    }  # fmt: skip
    log = {"source": "drawn (Hao et al. 2014, section 4.1)", "settings": len(study.settings)}
    notes = [f"{name}: {words}" for name, words in grid_paper.REASONS_WHY.items()]
    relations = [{"table": "relations", **row} for row in grid_paper.relations(results)]
    if page is not None:
        write_text(page, paper_page(results, swept, {"log": log, "settings": settings}))
        say(f"page: {page}")
    if as_json:
        flat = [{key: value for key, value in row.items() if not key.endswith("_runs")} for row in results]
        rows = [{"table": "settings", **row} for row in flat] + relations
        rows += [{"table": "floor", **row} for row in grid_paper.floors(results)]
        rows += [{"table": "growth", **row} for row in grid_paper.growth(results)]
        rows += [{"table": "deadline_search", **row} for row in grid_paper.against_emin_min(results)]
        rows += [{"table": "sweep", **row} for row in units] + [{"table": "sweep_asjs", **row} for row in asjs]
        emit(document("reproduce-grid", log, settings, notes, rows))
        return
    show(console(), [*paper_tables(results), *swept, *notes])
    swept_on = f", sweeps on {seed + grid_paper.SWEEP_SEEDS}" if with_sweep else ""
    say(f"seed {seed}{swept_on}; -o FILE.html writes the figures")


LOGS = {
    "CTC": "CTC-SP2-1996-3.1-cln.swf.gz",
    "HPC2N": "HPC2N-2002-2.2-cln.swf.gz",
    "SDSC-BLUE": "SDSC-BLUE-2000-4.2-cln.swf.gz",
    "SDSC-SP2": "SDSC-SP2-1998-4.2-cln.swf.gz",
    "DAS2-fs1": "DAS2-fs1-2003-1.swf.gz",
    "KTH": "KTH-SP2-1996-2.1-cln.swf.gz",
}


@verb("pqstar")
@click.option("--logs", default=",".join(LOGS), show_default=True, metavar="NAMES", help="Which of the logs.")
@click.option(
    "--log",
    "own",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="A log of one's own in every table (repeatable); LANL, ANL, Paragon, DAS2-fs0 have printed rows.",
)
@click.option("--quick", is_flag=True, help="KTH and CTC alone, jobs 10,001 to 16,000.")
@page_option("Also write the page with tables and pictures.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def pqstar(logs: str, own: tuple[str, ...], quick: bool, page: Path | None, as_json: bool) -> None:
    """Quick starters found by log_uniform, qbets, ibl and pqstar, each under two readings. A minute a log."""
    from ..cli.options import describe_log
    from ..errors import UsageError
    from ..report.terminal import show
    from ..trace.read import read_trace
    from .quick_starters.page import discussion, noise_table, pqstar_sections, pqstar_tables
    from .quick_starters.study import (
        JOBS,
        METHODS,
        QUICK_JOBS,
        THRESHOLD_LOG,
        name_of,
        noise_rows,
        study_log,
        table_rows,
        threshold_rows,
    )

    if quick:
        logs = "KTH,CTC"
    names = [name.strip() for name in logs.split(",") if name.strip()]
    for name in names:
        if name not in LOGS:
            raise UsageError(f"--logs: no {name!r} (accepted: {', '.join(LOGS)})")
    places = {name: shared_folder() / "traces" / LOGS[name] for name in names}
    places |= {name_of(Path(path)): Path(path) for path in own}
    jobs = QUICK_JOBS if quick else JOBS
    studies, rows, thresholds, noise, described = [], [], [], list[dict[str, Any]](), {}
    with progress("replaying logs", len(places) * len(METHODS)) as tick:
        for k, (name, place) in enumerate(places.items()):
            trace = read_trace(place)
            described[name] = describe_log(trace)
            studies.append(study_log(name, trace, partial(_tick, tick, k * len(METHODS)), jobs))
            rows += table_rows(studies[-1])
            noise += noise_rows(studies[-1])
            if name == THRESHOLD_LOG and not quick:
                thresholds = threshold_rows(studies[-1])
    settings: dict[str, Any] = {
        "logs": list(places), "jobs": f"{jobs[0]}:{jobs[1]}", "quick_s": 3600.0, "predictor": list(METHODS.values()),
        "cancelled": "count", "protocol": "own",
    }  # fmt: skip
    if page is not None:
        from ..report import page as make_page

        sections = pqstar_sections(rows, thresholds, studies, noise)
        made_by = provenance({name: log["sha256"] for name, log in described.items()}, settings)
        write_text(page, make_page("Quick starters: PQStar", sections, made_by))
        say(f"page: {page}")
    if as_json:
        emit(document("reproduce-pqstar", {"logs": described}, settings, [], [*rows, *thresholds, *noise]))
        return
    show(console(), [*pqstar_tables(rows, thresholds), noise_table(noise), *discussion(rows)])
    say("-o FILE.html writes the tables and the paper's pictures")


def _tick(tick: Any, before: int, done: int) -> None:
    tick(before + done)


DATA = "traces/vasp-klimes.csv.gz"


@verb("vasp")
@click.option("--data", type=click.Path(path_type=Path), help=f"The runs. Default: {DATA} of the shared folder.")
@click.option("--predictor", "predictors", metavar="NAMES", help="Methods. Default: the paper's and boosted trees.")
@click.option("--resamples", type=click.IntRange(min=1), default=10, show_default=True, help="Bootstrap resamples.")
@click.option(
    "--synthetic",
    type=click.IntRange(min=0),
    default=16_700,
    show_default=True,
    help="Synthetic jobs of the first set (the second has a third of them); 0: none.",
)
@click.option("--quick", is_flag=True, help="One resample of the public runs, 4,000 synthetic jobs.")
@click.option("--seed", type=int, default=0, show_default=True, help="For resamples and models.")
@page_option("Also write the page with tables and figures.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def vasp(
    data: Path | None,
    predictors: str | None,
    resamples: int,
    synthetic: int,
    quick: bool,
    seed: int,
    page: Path | None,
    as_json: bool,
) -> None:
    """Score every method on real VASP runs, split in time and by system, after removing copies, and on synthetic jobs
    at the paper's scale, beside the printed figures.

    The paper's own jobs are not public: no printed figure is a target here. About a minute of CPU a resample.
    """
    import numpy as np

    from ..errors import UsageError
    from ..predict.registry import load, parse_spec, split_specs
    from ..report.terminal import show
    from .vasp.page import can, cannot, summary_tables, synthetic_figures, synthetic_tables, vasp_sections
    from .vasp.runs import read_runs
    from .vasp.study import METHODS, SPLITS, core_time, distribution, facts, study

    if page is not None and not page.absolute().parent.is_dir():
        raise UsageError(f"-o {page}: there is no directory {page.absolute().parent}")
    if quick:
        resamples, synthetic = 1, min(synthetic, 4_000)
    path = data or shared_folder() / DATA
    runs = read_runs(path)
    specs = split_specs(predictors) if predictors else list(METHODS)
    for spec in specs if predictors else ():
        load("runtime", parse_spec(spec)[0])  # a name asked for must exist; of the paper's, an absent one is listed so
    with progress("models", len(specs) * len(SPLITS) * resamples) as tick:
        results = study(runs, specs, resamples=resamples, seed=seed, tick=tick)
    drawn, shares = _synthetic(synthetic, specs, seed) if synthetic else ([], [])
    beside = synthetic_tables(drawn, shares) if drawn else []
    counts = {"runs": len(runs.trace), "systems": len(np.unique(runs.system)), **runs.trace.info.dropped}
    known = facts(runs)
    limits = [cannot(known), can(known)]
    settings: dict[str, Any] = {
        "predictor": specs, "splits": list(SPLITS), "train_share": 0.8, "resamples": resamples, "seed": seed,
        "synthetic": synthetic,
    }  # fmt: skip
    log = {
        "source": str(path),
        **{"jobs": counts["runs"], "systems": counts["systems"]},
        "dropped": runs.trace.info.dropped,
    }
    if page is not None:
        from ..report import page as make_page

        sections = vasp_sections(results, distribution(runs), core_time(runs), known, counts, resamples,
                                 [*beside, *synthetic_figures(drawn)])  # fmt: skip
        html = make_page("Run time of VASP jobs: IRPA and BRBF", sections, {"log": log, "settings": settings})
        write_text(page, html)
        say(f"page: {page}")
    if as_json:
        shares = [{"table": "run_time_distribution", **row} for row in distribution(runs)]
        emit(
            document(
                "reproduce-vasp", log | {"distribution": shares, "facts": known}, settings, limits, [*results, *drawn]
            )
        )
        return
    show(console(), [*summary_tables(results, resamples), *beside, *limits])
    say(f"seed {seed}; -o FILE.html writes the same with the figures")


def _synthetic(jobs: int, specs: list[str], seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The methods on both synthetic sets, one split in time each, and how the run times are shared out."""
    import numpy as np

    from .vasp.features import draw_vasp_log
    from .vasp.runs import Runs
    from .vasp.study import distribution, study

    rows: list[dict[str, Any]] = []
    shares: list[dict[str, Any]] = []
    for name, count in (("first", jobs), ("second", max(jobs // 3, 100))):
        log = draw_vasp_log(np.random.default_rng([seed, len(name)]), count, shares=name)
        runs = Runs(log, np.zeros(count), np.zeros(count))
        with progress(f"synthetic jobs, {name} set", len(specs)) as tick:
            rows += [
                {"data": name, **row} for row in study(runs, specs, splits=("time",), resamples=1, seed=seed, tick=tick)
            ]
        shares += [{"data": name, **row} for row in distribution(runs)]
    return rows, shares
