# SPDX-License-Identifier: Apache-2.0
"""The HTML pages of `grid simulate` and `grid serve`: results, reasons, load over time, and Gantt charts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...report import Block, Figure, Section, Table, TableColumn, page
from ...report.blocks import Kind
from ...report.figures import lines
from ...units import span
from .clock import REASONS, Outcome
from .model import Jobs, Resources
from .study import MEASURES, SHORT, load_and_unfinished

if TYPE_CHECKING:
    from .live import Broker
    from .on_clusters import ClusterBroker

Rows = Sequence[Mapping[str, Any]]
LONGEST_GANTT = 400
MOST_ROWS = 500


def run_page(
    jobs: Jobs, resources: Resources, outcomes: Mapping[str, Outcome], results: Rows, provenance: Mapping[str, Any]
) -> str:
    """Return the page of `grid simulate` as HTML."""
    charts: list[Block] = [gantt(jobs, resources, outcome, name) for name, outcome in list(outcomes.items())[:6]]
    sections = [
        Section("Results", [results_table(results)]),
        Section("Over time", _over_time(outcomes, resources)),
        Section("Why jobs were not finished", [_reasons(outcomes)]),
        Section("Who ran where", charts),
    ]
    return page("Grid: jobs on many resources", sections, provenance)


def results_table(results: Rows) -> Table:
    """Return the table of results, one row per setting and heuristic."""
    keys = [key for key in ("rate", "data_share", "large_share") if results and key in results[0]]
    columns = [TableColumn(key, key.replace("_", " "), "number") for key in keys]
    columns += [TableColumn("heuristic", "heuristic"), TableColumn("assigned", "assigned", "number")]
    columns += [TableColumn(key, SHORT[key], "number" if key == "unfinished" else "ratio") for key in MEASURES]
    note = "UFJ unfinished jobs, AWT mean wait, AMJ mean makespan of a job (wait and run), means over runs."
    return Table("Unfinished jobs, mean wait, mean makespan", columns, results, note)


def gantt(jobs: Jobs, resources: Resources, outcome: Outcome, name: str) -> Figure:
    """Draw the first jobs that ran: one bar per job in the row of its resource; late jobs are marked."""
    ran = np.flatnonzero(np.isfinite(outcome.finish))
    ran = ran[np.argsort(outcome.start[ran], kind="stable")][:LONGEST_GANTT]
    late = outcome.outcome[ran] != 0
    used = sorted(set(outcome.resource[ran].tolist()), reverse=True)
    data: list[dict[str, Any]] = []
    for slot, (label, rows) in enumerate((("in time", ran[~late]), ("too late", ran[late])), start=1):
        data.append(
            {
                "type": "bar", "orientation": "h", "name": label, "meta": {"slot": slot},
                "y": [str(resources.ids[k]) for k in outcome.resource[rows].tolist()],
                "base": [float(f"{v:.6g}") for v in outcome.start[rows].tolist()],
                "x": [float(f"{v:.6g}") for v in (outcome.finish - outcome.start)[rows].tolist()],
                "customdata": [str(jobs.ids[k]) for k in rows.tolist()],
                "hovertemplate": "%{customdata} on %{y}: from %{base}, for %{x}",
                "marker": {"line": {"width": 1}, "pattern": {"shape": "" if slot == 1 else "/"}},
            }
        )  # fmt: skip
    layout = {
        "barmode": "overlay",
        "xaxis": {"title": {"text": "time"}},
        "yaxis": {
            "type": "category", "categoryorder": "array",
            "categoryarray": [str(resources.ids[k]) for k in used],
        },
        "hovermode": "closest",
    }  # fmt: skip
    alt = f"{name}: the first {len(ran)} started jobs on {len(used)} resources, {late.sum()} of them too late."
    return Figure(f"Gantt · {name}", data, layout, alt, f"The first {len(ran)} jobs to start.", 140 + 14 * len(used))


def _over_time(outcomes: Mapping[str, Outcome], resources: Resources) -> list[Block]:
    curves = {name: load_and_unfinished(outcome, len(resources)) for name, outcome in outcomes.items()}
    shown: tuple[tuple[str, str, Kind], ...] = (
        ("load", "Busy resources", "share"),
        ("waiting", "Waiting jobs", "number"),
        ("unfinished", "Unfinished so far", "number"),
    )
    return [
        lines(f"{words} over time", {n: (f["time"], f[key]) for n, f in curves.items()}, x="time", y=words, kind=kind)
        for key, words, kind in shown
    ]


def _reasons(outcomes: Mapping[str, Outcome]) -> Table:
    rows = []
    for name, outcome in outcomes.items():
        counts = np.bincount(outcome.outcome, minlength=len(REASONS)).tolist()
        rows.append({"heuristic": name, "submitted": len(outcome.outcome), **{str(k): c for k, c in enumerate(counts)}})
    columns = [TableColumn("heuristic", "heuristic"), TableColumn("submitted", "submitted", "count")]
    columns += [TableColumn(str(k), words, "count") for k, words in enumerate(REASONS)]
    return Table("Assigned and unfinished, by reason; every row adds up to submitted", columns, rows)


def broker_page(broker: Broker | ClusterBroker) -> str:
    """Return the page of `grid serve`: jobs in time, and the resource, deadline and slack of each job."""
    counts = broker.counts
    rows = [{"state": "", "resource": "", "refused": "", **row} for row in broker.table()[-MOST_ROWS:]]
    free = [{"id": name, "free": at} for name, at in broker.free_at().items()]
    columns = [TableColumn("id", "job"), TableColumn("state", "state"), TableColumn("resource", "on")]
    if free:
        columns += [TableColumn(name, name, "ratio") for name in ("start", "finish", "deadline", "slack")]
    else:
        columns += _cluster_columns(rows)
    columns.append(TableColumn("refused", "why not"))
    blocks: list[Block] = [
        f"{counts['jobs']} jobs: {counts['in_time']} end in time, {counts['not_in_time']} do not, "
        f"{counts['waiting']} wait.",
        Table("Jobs, the latest last", columns, rows),
    ]
    if free:
        columns = [TableColumn("id", "resource"), TableColumn("free", "free at", "ratio")]
        blocks.append(Table("Resources", columns, free))
    return page("Grid broker", [Section("Jobs", blocks)], {"settings": {"mapping": str(broker.mapping)}})


def _cluster_columns(rows: list[dict[str, Any]]) -> list[TableColumn]:
    """Return the columns of jobs on clusters; write their times as local times, and the slack as a duration."""
    for row in rows:
        for name in ("start", "finish", "by_90", "deadline"):
            row[name] = "" if row.get(name) is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(row[name]))
        slack = row.get("slack")
        row["slack"] = "" if slack is None else f"{'-' if slack < 0 else ''}{span(abs(slack))}"
        row["chance"] = row.get("chance")
        row["job_id"] = row.get("job_id", "")
    titles = {"job_id": "job id there", "start": "likely start", "finish": "likely end", "by_90": "end, 90 %"}
    columns = [TableColumn(key, title) for key, title in {**titles, "deadline": "deadline", "slack": "slack"}.items()]
    return [*columns, TableColumn("chance", "chance to be in time", "share")]
