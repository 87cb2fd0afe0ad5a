# SPDX-License-Identifier: Apache-2.0
"""`batchcast reproduce online-knn-ga` and `su`.

The tables of Xu et al. 2018 and of Wang et al. 2021 beside ours, and their pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ..cli.grammar import output_option, verb
from ..cli.output import console, document, dumps, emit, progress, say
from ..errors import UsageError
from .shared import provenance, shared_folder


def print_reproduced(
    paper: str,
    gathered: Any,
    gather: Callable[[Path], tuple[Sequence[str], Sequence[Any]]],
    reading: Sequence[str],
    settings: dict[str, Any],
    output: str,
    as_json: bool,
) -> None:
    """Let `gather` (sentences and tables, from the logs in a folder) fill `gathered`, and write page and numbers.

    What was computed and where it lies is said on stderr; then come the document, or its tables and sentences.
    """
    from ..report import page
    from ..report.terminal import show
    from ..trace.whole_file import folder
    from .shared import sections

    traces, kept = shared_folder() / "traces", gathered.kept
    with folder(output) as place:
        summary, tables = gather(traces)
        settings["cpu_s"] = round(kept.cpu_s)
        results = [{"table": table, **row} for table, rows in gathered.rows.items() for row in rows]
        log = {"source": str(traces), "sha256": gathered.hashes}
        doc = document(f"reproduce-{paper}", log, settings, summary, results)
        (place / "result.json").write_text(dumps(doc))
        parts = sections(summary, tables, gathered.pictures, reading)
        (place / "index.html").write_text(page(TITLES[paper], parts, provenance(gathered.hashes, settings)))
    say(
        f"{kept.computed} parts computed, {kept.reused} found in {output}/parts; "
        f"all of them cost {kept.cpu_s:,.0f} s of CPU"
    )
    say(f"page: {output}/index.html, numbers: {output}/result.json")
    if as_json:
        emit(doc)
    else:
        show(console(), [*tables, *summary])


TITLES = {
    "online-knn-ga": "Online run-time prediction by similar jobs (Xu et al. 2018)",
    "su": "Run times from clusters of job names (Wang et al. 2021)",
}
PARTS = ("accuracy", "minh", "local", "operator", "baselines", "schedules", "sensitivity")
NAMES = ("HPC2N04", "HPC2N05", "SDSC02", "SDSC04")


@verb("online-knn-ga")
@click.option(
    "--data-set",
    "names",
    multiple=True,
    type=click.Choice(NAMES),
    help="Only this data set (repeatable).",
)
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only this part (repeatable).")
@click.option("--first", type=click.IntRange(min=6000), metavar="N", help="Only the first N jobs of each set.")
@click.option("--quick", is_flag=True, help="HPC2N04's first 7,000 jobs, no sensitivity.")
@click.option(
    "--closed-corrections",
    default="requested",
    show_default=True,
    metavar="NAMES",
    help="Corrections of the closed loop (each trains anew): requested,incremental,doubling or none.",
)
@output_option("Page and JSON.", metavar="FOLDER", default="online-knn-ga", show_default=True)
@click.option("--again", is_flag=True, help="Compute anew what an earlier run left in FOLDER/parts.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def online_knn_ga(
    names: Sequence[str],
    parts: Sequence[str],
    first: int | None,
    quick: bool,
    closed_corrections: str,
    output: str,
    again: bool,
    as_json: bool,
) -> None:
    """Print Tables 2 to 6 of Xu, Xiong & Xiao 2018 beside ours, under both protocols; write a page and JSON.

    Everything but `minh` takes some 40 minutes on one idle core; `minh`, the paper's baseline searched as hard as the
    method, takes hours. `--data-set`, `--part` and `--first` choose. What is done is kept in FOLDER/parts and found
    again by the next run with the same code, logs and settings. Training is seeded.
    """
    from .online_knn_ga.gathered import Gathered
    from .online_knn_ga.page import READING, findings
    from .online_knn_ga.study import CORRECTIONS, chosen_sets
    from .shared import ComputedParts

    if quick:
        names, first = names or NAMES[:1], min(first or 7_000, 7_000)
        parts = parts or ("accuracy", "minh", "local", "schedules", "baselines")
    closed = [] if closed_corrections == "none" else closed_corrections.split(",")
    if strange := [word for word in closed if word not in CORRECTIONS]:
        raise UsageError(f"--closed-corrections: no {strange[0]!r} (accepted: {', '.join(CORRECTIONS)}, none)")
    wanted = set(parts or PARTS)
    sets = chosen_sets(names)
    settings = {
        "sets": [each.name for each in sets], "first": first, "parts": sorted(wanted), "seed": 0, "tau_s": 10.0,
        "closed_corrections": closed, "event_order": "pyss",
        "h": 3000, "t1": 1500, "t2": 1000, "population": 50, "generations": 100,
    }  # fmt: skip
    gathered = Gathered(ComputedParts(Path(output) / "parts", again), first, progress, say)

    def gather(traces: Path) -> tuple[list[str], list[Any]]:
        for each in sets:
            gathered.add(each, traces, wanted, closed, sensitivity=each is sets[0])
        return findings(gathered.rows, sets), gathered.tables(sets[0].name)

    print_reproduced("online-knn-ga", gathered, gather, READING, settings, output, as_json)


SU_NAMES = ("CTC", "SDSC-DS", "NREL")


@verb("su")
@click.option(
    "--data-set",
    "names",
    multiple=True,
    type=click.Choice(SU_NAMES),
    help="Only this log (repeatable).",
)
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="Only the first N jobs of each log.")
@click.option(
    "--every", type=click.IntRange(min=1), default=5, show_default=True, help="Score each so many-th job (1: all)."
)
@click.option(
    "--schedule-first", type=click.IntRange(min=0), default=5000, show_default=True, help="Jobs of Table 6 (0: none)."
)
@click.option("--quick", is_flag=True, help="The NREL sample and the first 1,500 jobs of CTC.")
@output_option("Page and JSON.", metavar="FOLDER", default="su", show_default=True)
@click.option("--again", is_flag=True, help="Compute anew what an earlier run left in FOLDER/parts.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def su(
    names: Sequence[str],
    first: int | None,
    every: int,
    schedule_first: int,
    quick: bool,
    output: str,
    again: bool,
    as_json: bool,
) -> None:
    """Print the columns of Tables 5 and 6 of Wang et al. 2021 for CTC, SDSC-DS and the NREL sample; write a page.

    The paper's log is not public; order and relative gains are what can be compared. A forest for every forecast costs
    tens of milliseconds: --every and --first bound it. What is done is kept in FOLDER/parts and found again by the next
    run with the same code, logs and settings.
    """
    from .shared import ComputedParts
    from .su.study import READING, Gathered, findings

    if quick:
        names, first, schedule_first = names or ("NREL", "CTC"), min(first or 1500, 1500), min(schedule_first, 500)
    settings: dict[str, Any] = {
        "logs": list(names or SU_NAMES), "first": first, "every": every, "schedule_first": schedule_first,
        "protocol": "honest", "loop": "open", "policy": "easy", "seed": 0,
    }  # fmt: skip
    gathered = Gathered(ComputedParts(Path(output) / "parts", again), first, every, schedule_first, progress, say)

    def gather(traces: Path) -> tuple[list[str], list[Any]]:
        for name in names or SU_NAMES:
            gathered.add(name, traces)
        return findings(gathered.rows), gathered.tables()

    print_reproduced("su", gathered, gather, READING, settings, output, as_json)
