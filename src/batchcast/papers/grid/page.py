# SPDX-License-Identifier: Apache-2.0
"""The tables that `grid map` and `grid simulate` print, and the HTML pages of `grid simulate` and `grid serve`.

The pages show results, reasons, load over time, and Gantt charts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...report.blocks import Block, Figure, Section, Table, TableRows, columns_of, page
from ...report.figures import lines, plain_numbers
from ...units import span
from .clock import REASONS, Run
from .study import MEASURES, SHORT, load_and_unfinished, with_widths

if TYPE_CHECKING:
    from .live import Broker
    from .on_clusters import ClusterBroker

LONGEST_GANTT = 400
MOST_ROWS = 500


def map_table(title: str, results: TableRows) -> Table:
    """Return the table of `grid map`, with one row per heuristic."""
    has = {key for row in results for key in row}
    columns = columns_of(
        "heuristic", "text|makespan", "over_bound|over the bound|share",
        *["in_time|in time|count", "mapped|mapped|count"] * ("in_time" in has),
        *["cost|cost|number"] * ("cost" in has), "decision_s|decided in, s|ratio",
    )  # fmt: skip
    rows = [dict(row) | {"text": f"{row['makespan']:,.1f}"} for row in results if "note" not in row]
    return Table(title, columns, rows)


def simulated_table(results: TableRows) -> Table:
    """Return the table of `grid simulate`, with one row per setting and heuristic."""
    digits = {"unfinished": 1, "mean_wait": 4, "mean_makespan": 4}
    columns = columns_of(
        *_setting_columns(results), "heuristic",
        "assigned|assigned|number|finished in time", *(f"{name}_words|{name.replace('_', ' ')}" for name in digits),
        *["cost|cost|number"] * ("cost" in results[0]), "decision_ms_per_job|decision, ms per job|ratio",
    )  # fmt: skip
    return Table(
        "Grid: unfinished jobs, mean wait and mean makespan (response time)", columns, with_widths(results, digits)
    )


def _setting_columns(results: TableRows) -> list[str]:
    """Return the columns of a setting's rate, p and q, for `columns_of`; empty if the jobs are not drawn."""
    drawn = [key for key in ("rate", "data_share", "large_share") if key in results[0]]
    return [f"{key}|{key.replace('_', ' ')}|number" for key in drawn]


def run_page(outcomes: Mapping[str, Run], results: TableRows, provenance: Mapping[str, Any]) -> str:
    """Return the page of `grid simulate` as HTML."""
    sections = [
        Section("Results", [_results_table(results)]),
        Section("Over time", _over_time(outcomes)),
        Section("Why jobs were not finished", [_reasons(outcomes)]),
        Section("Who ran where", [gantt(outcome, name) for name, outcome in list(outcomes.items())[:6]]),
    ]
    return page("Grid: jobs on many resources", sections, provenance)


def _results_table(results: TableRows) -> Table:
    """Return the table of results, one row per setting and heuristic."""
    columns = columns_of(
        *_setting_columns(results), "heuristic", "assigned|assigned|number",
        *(f"{key}|{SHORT[key]}|{'number' if key == 'unfinished' else 'ratio'}" for key in MEASURES),
    )  # fmt: skip
    note = "UFJ unfinished jobs, AWT mean wait, AMJ mean makespan of a job (wait and run), means over runs."
    return Table("Unfinished jobs, mean wait, mean makespan", columns, results, note)


def gantt(outcome: Run, name: str) -> Figure:
    """Draw the first jobs that ran: one bar per job in the row of its resource; late jobs are marked."""
    ran = np.flatnonzero(np.isfinite(outcome.finish))
    ran = ran[np.argsort(outcome.start[ran], kind="stable")][:LONGEST_GANTT]
    late = outcome.outcome[ran] != 0
    ids = [str(name) for name in outcome.resources.ids]
    names = [ids[k] for k in sorted(set(outcome.resource[ran].tolist()), reverse=True)]
    data = [
        {
            "type": "bar", "orientation": "h", "name": label, "meta": {"slot": slot},
            "y": [ids[k] for k in outcome.resource[rows].tolist()],
            "base": plain_numbers(outcome.start[rows]), "x": plain_numbers((outcome.finish - outcome.start)[rows]),
            "customdata": [str(outcome.jobs.ids[k]) for k in rows.tolist()],
            "hovertemplate": "%{customdata} on %{y}: from %{base}, for %{x}",
            "marker": {"line": {"width": 1}, "pattern": {"shape": pattern}},
        }
        for slot, label, pattern, rows in ((1, "in time", "", ran[~late]), (2, "too late", "/", ran[late]))
    ]  # fmt: skip
    layout = {
        "barmode": "overlay", "xaxis": {"title": {"text": "time"}}, "hovermode": "closest",
        "yaxis": {"type": "category", "categoryorder": "array", "categoryarray": names},
    }  # fmt: skip
    alt = f"{name}: the first {len(ran)} started jobs on {len(names)} resources, {late.sum()} of them too late."
    return Figure(f"Gantt · {name}", data, layout, alt, f"The first {len(ran)} jobs to start.", 140 + 14 * len(names))


def _over_time(outcomes: Mapping[str, Run]) -> list[Block]:
    """Draw the load, the waiting jobs and the unfinished jobs over time, with one line per heuristic."""
    curves = {name: load_and_unfinished(outcome) for name, outcome in outcomes.items()}
    shown = {"load": "Busy resources", "waiting": "Waiting jobs", "unfinished": "Unfinished so far"}
    return [
        lines(f"{words} over time", {name: (curve["time"], curve[key]) for name, curve in curves.items()}, x="time",
              y=words, kind="share" if key == "load" else "number")
        for key, words in shown.items()
    ]  # fmt: skip


def _reasons(outcomes: Mapping[str, Run]) -> Table:
    """Return the table of each heuristic's numbers of jobs by outcome."""
    counts = {name: np.bincount(outcome.outcome, minlength=len(REASONS)).tolist() for name, outcome in outcomes.items()}
    rows = [
        {"heuristic": name, "submitted": sum(each), **{str(k): count for k, count in enumerate(each)}}
        for name, each in counts.items()
    ]
    counted = (f"{k}|{words}|count" for k, words in enumerate(REASONS))
    columns = columns_of("heuristic", "submitted|submitted|count", *counted)
    return Table("Assigned and unfinished, by reason; every row adds up to submitted", columns, rows)


def broker_page(broker: Broker | ClusterBroker) -> str:
    """Return the page of `grid serve`: jobs in time, and the resource, deadline and slack of each job."""
    counts = broker.counts
    rows = [{"state": "", "resource": "", "refused": "", **row} for row in broker.table()[-MOST_ROWS:]]
    free = [{"id": name, "free": at} for name, at in broker.free_at().items()]
    times = [f"{name}|{name}|ratio" for name in ("start", "finish", "deadline", "slack")]
    columns = columns_of("id|job", "state", "resource|on", *(times if free else CLUSTER_COLUMNS), "refused|why not")
    blocks: list[Block] = [
        f"{counts['jobs']} jobs: {counts['in_time']} end in time, {counts['not_in_time']} do not, "
        f"{counts['waiting']} wait.",
        Table("Jobs, the latest last", columns, rows if free else [_on_cluster(row) for row in rows]),
    ]
    if free:
        blocks.append(Table("Resources", columns_of("id|resource", "free|free at|ratio"), free))
    return page("Grid broker", [Section("Jobs", blocks)], {"settings": {"mapping": str(broker.mapping)}})


CLUSTER_COLUMNS = ("job_id|job id there", "start|likely start", "finish|likely end", "by_90|end, 90 %", "deadline",
                   "slack", "chance|chance to be in time|share")  # fmt: skip


def _on_cluster(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a job on a cluster, with local times, and the slack as a duration."""
    times = {name: row.get(name) for name in ("start", "finish", "by_90", "deadline")}
    shown = {k: "" if t is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(t)) for k, t in times.items()}
    slack = row.get("slack")
    shown["slack"] = "" if slack is None else f"{'-' if slack < 0 else ''}{span(abs(slack))}"
    return {"job_id": "", "chance": None, **row, **shown}
