# SPDX-License-Identifier: Apache-2.0
"""`batchcast reproduce grid`: compares figures 2 to 4 and the percentages of Hao et al. 2014 with our results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from batchcast.cli.grammar import TABLES_OR_JSON, option, page_option, verb
from batchcast.cli.output import document, emit, progress, say, show_blocks, write_text

from .verb import COUNT, SAME_JOBS, SEED, workers_option


@verb("grid", json=TABLES_OR_JSON)
@option("--jobs", "Jobs per run.", type=click.IntRange(min=50), default=10_000)
@option("--runs", "Runs per setting.", type=COUNT, default=10)
# seed 1 was used during the development of `deadline_search`, so results with it could be too good
@option("--seed", SAME_JOBS, type=SEED, default=2)
@option("--only-paper", "Only the paper's six heuristics, without ours.")
@option("--rates LIST [20,22,24,26,28,30]", "Arrival rates. Default: the paper's.")
@option("--quick", "Only 2,000 jobs per run and two runs.")
@workers_option
@page_option("Also write an HTML page with figures and tables.")
def command(
    only_paper: bool, rates: str, quick: bool, workers: int, page: Path | None, as_json: bool, **drawn: int
) -> None:
    """Run the published experiment (6 arrival rates x 9 mixes) and print it beside the paper's figures.

    The paper does not state units, the mapping interval and the treatment of late jobs; docs/papers/grid.md explains
    our choice.
    """
    import dataclasses

    from . import paper_study as paper
    from .runs import numbers
    from .study import run_study

    if quick:
        drawn |= {"jobs": min(drawn["jobs"], 2_000), "runs": min(drawn["runs"], 2)}
    wanted = numbers("--rates", rates, above=0.0)
    extra = () if only_paper else paper.READINGS + paper.OURS
    study = paper.paper_study(**drawn, extra=extra, rates=wanted)
    with progress("simulating", len(study.settings) * study.runs) as tick:
        results = run_study(study, workers=workers, tick=tick, keep_runs=True)
    settings: dict[str, Any] = {
        "rates": wanted, "jobs": study.jobs, "runs": study.runs, "seed": study.seed,
        "heuristic": list(study.heuristics), "resources": study.resources,
        **dataclasses.asdict(study.mapping), "compute_unit": study.units.compute, "transfer_unit": study.units.transfer,
    }  # fmt: skip
    log = {"source": "drawn (Hao et al. 2014, section 4.1)", "settings": len(study.settings)}
    notes = [f"{name}: {words}" for name, words in paper.REASONS_WHY.items()]
    if page is not None:
        write_text(page, paper.paper_page(results, {"log": log, "settings": settings}))
        say(f"page: {page}")
    if as_json:
        flat = [{key: value for key, value in row.items() if not key.endswith("_runs")} for row in results]
        tables = {"settings": flat, "relations": paper.relations(results), "floor": paper.floors(results)}
        tables |= {"growth": paper.growth(results), "deadline_search": paper.against_emin_min(results)}
        rows = [{"table": name, **row} for name, table in tables.items() for row in table]
        emit(document("reproduce-grid", log, settings, notes, rows))
        return
    show_blocks(*paper.paper_tables(results), *notes)
    say(f"seed {study.seed}; -o FILE.html writes the figures")
