"""`batchcast reproduce su`: Tables 5 and 6 of Wang et al. 2021 on public logs, and the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ..papers.shared_logs import provenance, shared_folder
from .output import document, dumps, progress, say
from .reproduced import print_reproduced

NAMES = ("CTC", "SDSC-DS", "NREL")


@click.command("su")
@click.option("--log", "names", multiple=True, type=click.Choice(NAMES), help="Only this log (repeatable).")
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="Only the first N jobs of each log.")
@click.option(
    "--every", type=click.IntRange(min=1), default=5, show_default=True, help="Score each so many-th job (1: all)."
)
@click.option(
    "--schedule-first", type=click.IntRange(min=0), default=5000, show_default=True, help="Jobs of Table 6 (0: none)."
)
@click.option("--quick", is_flag=True, help="The NREL sample and the first 1,500 jobs of CTC.")
@click.option(
    "-o", "--output", type=click.Path(), metavar="FOLDER", default="su", show_default=True, help="Page and JSON."
)
@click.option("--again", is_flag=True, help="Compute anew what an earlier run left in FOLDER/parts.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(
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
    from ..papers.kept import Kept
    from ..papers.su import page as shown
    from ..papers.su.findings import findings
    from ..papers.su.gathered import Gathered
    from ..report import page
    from ..report.folder import folder

    if quick:
        names, first, schedule_first = names or ("NREL", "CTC"), min(first or 1500, 1500), min(schedule_first, 500)
    traces = shared_folder() / "traces"
    settings: dict[str, Any] = {
        "logs": list(names or NAMES), "first": first, "every": every, "schedule_first": schedule_first,
        "protocol": "honest", "loop": "open", "policy": "easy", "seed": 0,
    }  # fmt: skip
    gathered = Gathered(Kept(Path(output) / "parts", again), first, every, schedule_first, progress, say)
    with folder(output) as place:
        for name in names or NAMES:
            gathered.add(name, traces)
        settings["cpu_s"] = round(gathered.kept.cpu_s)
        summary, tables = findings(gathered.rows), gathered.tables()
        results = [{"table": table, **row} for table, kept_rows in gathered.rows.items() for row in kept_rows]
        doc = document("reproduce-su", {"source": str(traces), "sha256": gathered.hashes}, settings, summary, results)
        (place / "result.json").write_text(dumps(doc))
        title = "Run times from clusters of job names (Wang et al. 2021)"
        html = page(title, shown.sections(summary, tables, gathered.pictures), provenance(gathered.hashes, settings))
        (place / "index.html").write_text(html)
    print_reproduced(gathered.kept, output, doc, [*tables, *summary], as_json)
