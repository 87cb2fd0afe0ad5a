# SPDX-License-Identifier: Apache-2.0
"""`batchcast reproduce online-knn-ga`: compares the tables of Xu et al. 2018 with our results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ...cli.grammar import output_option, verb
from ...cli.output import progress, say
from ...errors import UsageError
from ..shared import ComputedParts, print_reproduced

TITLE = "Online run-time prediction by similar jobs (Xu et al. 2018)"
PARTS = ("accuracy", "minh", "local", "operator", "baselines", "schedules", "sensitivity")
NAMES = ("HPC2N04", "HPC2N05", "SDSC02", "SDSC04")


@verb("online-knn-ga")
@click.option("--data-set", "names", multiple=True, type=click.Choice(NAMES), help="Only this data set (repeatable).")
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only this part (repeatable).")
@click.option("--first", type=click.IntRange(min=6000), metavar="N", help="Only the first N jobs of each set.")
@click.option("--quick", is_flag=True, help="Only the first 7,000 jobs of HPC2N04, without the sensitivity part.")
@click.option(
    "--closed-corrections",
    default="requested",
    show_default=True,
    metavar="NAMES",
    help="Corrections of the closed loop (each trains again): requested,incremental,doubling or none.",
)
@output_option("Folder for the page and the JSON file.", metavar="FOLDER", default="online-knn-ga", show_default=True)
@click.option("--again", is_flag=True, help="Recompute the results of earlier runs in FOLDER/parts.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of tables.")
def command(
    names: Sequence[str],
    parts: Sequence[str],
    first: int | None,
    quick: bool,
    closed_corrections: str,
    output: str,
    again: bool,
    as_json: bool,
) -> None:
    """Reproduce Tables 2 to 6 of Xu, Xiong & Xiao 2018 under both protocols; write a page and JSON.

    All parts except `minh` take about 40 minutes on one core; `minh` (the paper's baseline, searched as thoroughly as
    the method) takes hours. `--data-set`, `--part` and `--first` select. Finished parts are stored in FOLDER/parts and
    reused by the next run with the same code, logs and settings.
    """
    from .gathered import Gathered
    from .page import READING, findings, tables
    from .study import CORRECTIONS, SETS

    if quick:
        names, first = names or NAMES[:1], min(first or 7_000, 7_000)
        parts = parts or ("accuracy", "minh", "local", "schedules", "baselines")
    closed = [] if closed_corrections == "none" else closed_corrections.split(",")
    if strange := [word for word in closed if word not in CORRECTIONS]:
        raise UsageError(f"--closed-corrections: no {strange[0]!r} (accepted: {', '.join(CORRECTIONS)}, none)")
    wanted = set(parts or PARTS)
    sets = [each for each in SETS if not names or each.name in names]
    settings = {
        "sets": [each.name for each in sets], "first": first, "parts": sorted(wanted), "seed": 0, "tau_s": 10.0,
        "closed_corrections": closed, "event_order": "pyss",
        "h": 3000, "t1": 1500, "t2": 1000, "population": 50, "generations": 100,
    }  # fmt: skip
    gathered = Gathered(ComputedParts(Path(output) / "parts", again), first, progress, say)

    def gather(traces: Path) -> tuple[list[str], list[Any]]:
        for each in sets:
            gathered.add(each, traces, wanted, closed, sensitivity=each is sets[0])
        return findings(gathered.rows, sets), tables(gathered.rows, sets[0].name)

    print_reproduced("online-knn-ga", TITLE, gathered, gather, READING, settings, output, as_json)
