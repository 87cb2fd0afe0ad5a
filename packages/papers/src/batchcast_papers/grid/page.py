# SPDX-License-Identifier: Apache-2.0
"""The tables that `grid map` and `grid simulate` print, and the HTML page of `grid simulate`.

The page shows results, reasons, load over time, and Gantt charts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from batchcast.broker.clock import REASONS, Run
from batchcast.report.blocks import Block, Figure, Section, Table, TableRows, columns_of, page
from batchcast.report.figures import lines, plain_numbers

from .study import MEASURES, SHORT, load_and_unfinished, with_widths

LONGEST_GANTT = 400


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
