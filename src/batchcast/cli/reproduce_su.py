"""`batchcast reproduce su`: Tables 5 and 6 of Wang et al. 2021 on public logs, and the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from .output import console, document, dumps, emit, progress, say
from .shared_logs import provenance, shared_folder

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
@click.option("-o", "--output", metavar="FOLDER", default="su", show_default=True, help="Page and JSON.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def command(
    names: Sequence[str], first: int | None, every: int, schedule_first: int, output: str, as_json: bool
) -> None:
    """Print the columns of Tables 5 and 6 of Wang et al. 2021 for CTC, SDSC-DS and the NREL sample; write a page.

    The paper's log is not public; order and relative gains are what can be compared. A forest for every forecast costs
    tens of milliseconds: --every and --first bound it.
    """
    import numpy as np

    from ..evaluate import su_paper as paper
    from ..report import page
    from ..report import su_paper as shown
    from ..report.folder import folder
    from ..report.terminal import show

    traces = shared_folder() / "traces"
    rows: dict[str, list[dict[str, Any]]] = {"5": [], "6": [], "class": []}
    pictures: list[Any] = []
    hashes: dict[str, str] = {}
    with folder(output) as place:
        for name in names or NAMES:
            for failed in (True, False):
                trace = paper.load(name, traces, failed)
                hashes[paper.LOGS[name]] = trace.info.sha256
                trace = trace.take(np.arange(min(first or len(trace), len(trace))))
                kept = "all" if failed else "completed"
                scores = paper.table_5(trace, every, progress, f"{name}, {kept} jobs")
                rows["5"] += _table_5_rows(name, kept, scores)
                if not failed:
                    continue
                shown_specs = [s for s in paper.PAPER if "svr" in s]
                user, labels, found = paper.biggest_user(trace)
                classes = paper.by_class(scores, labels, shown_specs)
                rows["class"] += [{"log": name, **row} for row in classes] + _size_rows(name, scores, shown_specs)
                errors = {w: np.abs(scores.points[s] - trace.run_time) for s, w in paper.PAPER.items()}
                pictures += shown.clustering_pictures(name, user, found.tried, found.sse, found.score, found.k)
                pictures += [shown.error_picture(name, errors), *shown.class_pictures(name, classes)]
                if schedule_first and trace.info.max_procs > 0:
                    simulated = paper.table_6(trace, schedule_first, progress, f"{name}, Table 6")
                    rows["6"] += [{"log": name, **row} for row in simulated]
        tables = [shown.table_5(rows["5"], every)]
        tables += [shown.table_6(rows["6"])] if rows["6"] else []
        tables.append(shown.class_table(rows["class"]))
        summary = findings(rows)
        settings = {
            "logs": list(names or NAMES), "first": first, "every": every, "schedule_first": schedule_first,
            "protocol": "honest", "loop": "open", "policy": "easy", "seed": 0,
        }  # fmt: skip
        results = [{"table": table, **row} for table, kept_rows in rows.items() for row in kept_rows]
        doc = document("reproduce-su", {"source": str(traces), "sha256": hashes}, settings, summary, results)
        (place / "result.json").write_text(dumps(doc))
        title = "Run times from clusters of job names (Wang et al. 2021)"
        html = page(title, shown.sections(summary, tables, pictures), provenance(hashes, settings))
        (place / "index.html").write_text(html)
    say(f"page: {output}/index.html, numbers: {output}/result.json")
    if as_json:
        emit(doc)
        return
    show(console(), [*tables, *summary])


def _table_5_rows(name: str, kept: str, scores: Any) -> list[dict[str, Any]]:
    from ..evaluate.accuracy import figures
    from ..evaluate.su_paper import PAPER, PRINTED

    rows = []
    for row in figures(scores):
        words = PAPER.get(row["predictor"], row["predictor"])
        printed = dict(zip(("printed_mae_s", "printed_apa", "printed_ur"), PRINTED.get(words, ())))
        rows.append({"log": name, "jobs_of": kept, **row, "predictor": words, **printed})
    return rows


def _size_rows(name: str, scores: Any, specs: Sequence[str]) -> list[dict[str, Any]]:
    from ..evaluate.accuracy import figures
    from ..evaluate.su_paper import PAPER

    return [
        {"log": name, "class": f"{row['group']} processors", **row, "predictor": PAPER[row["predictor"]]}
        for row in figures(scores, by="size")
        if row["predictor"] in specs
    ]


def findings(rows: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What the tables say, in sentences."""
    told = []
    for log, kept in dict.fromkeys((row["log"], row["jobs_of"]) for row in rows["5"]):
        mine = {row["predictor"]: row for row in rows["5"] if (row["log"], row["jobs_of"]) == (log, kept)}
        su, plain = (
            sum(mine[f"{kind} {model}"]["mae_s"] for model in ("linear", "forest", "svr")) / 3
            for kind in ("SU", "plain")
        )
        best = min((name for name in mine if name.startswith("SU")), key=lambda name: mine[name]["mae_s"])
        told.append(
            f"{log}, {kept} jobs: mean error with clusters and neighbours {su:,.0f} s, without {plain:,.0f} s "
            f"({1 - su / plain:+.0%}; printed +74%); best of the three: {best} (printed: SU svr)."
        )
    return told
