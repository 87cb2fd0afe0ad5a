"""Pages of the grid: one simulated run (Gantt, load and unfinished over time), and the published experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..evaluate.grid_paper import REASONS_WHY, SHORT, against_emin_min, by_rate, growth, relations
from ..grid.clock import REASONS, Outcome
from ..grid.measures import MEASURES, load_and_unfinished
from ..grid.model import Jobs, Resources
from .blocks import Block, Callout, Figure, Section, Table, TableColumn
from .figures import lines
from .html import page

Rows = Sequence[Mapping[str, Any]]
TITLES = {
    "mean_makespan": "Figure 2: mean makespan (AMJ)",
    "mean_wait": "Figure 3: mean wait (AWT)",
    "unfinished": "Figure 4: unfinished jobs (UFJ)",
}
LONGEST_GANTT = 400


def run_page(
    jobs: Jobs, resources: Resources, outcomes: Mapping[str, Outcome], results: Rows, provenance: Mapping[str, Any]
) -> str:
    """The page of `grid simulate`: results, reasons, load, waiting and unfinished over time, a Gantt a heuristic."""
    sections = [Section("Results", [results_table(results)]), Section("Over time", [*_over_time(outcomes, resources)])]
    sections.append(Section("Why jobs were not finished", [_reasons(outcomes)]))
    charts: list[Block] = [gantt(jobs, resources, outcome, name) for name, outcome in list(outcomes.items())[:6]]
    sections.append(Section("Who ran where", charts, True))
    return page("Grid: jobs on many resources", sections, provenance)


def results_table(results: Rows) -> Table:
    """One row a setting and heuristic."""
    keys = [key for key in ("rate", "data_share", "large_share") if results and key in results[0]]
    columns = [TableColumn(key, key.replace("_", " "), "number") for key in keys]
    columns += [TableColumn("heuristic", "heuristic"), TableColumn("assigned", "assigned", "number")]
    columns += [TableColumn(key, SHORT[key], "number" if key == "unfinished" else "ratio") for key in MEASURES]
    note = "UFJ unfinished jobs, AWT mean wait, AMJ mean makespan of a job (wait and run), means over runs."
    return Table("Unfinished jobs, mean wait, mean makespan", columns, results, note)


def gantt(jobs: Jobs, resources: Resources, outcome: Outcome, name: str) -> Figure:
    """The first jobs that ran, a bar each on its resource; late ones marked."""
    ran = np.flatnonzero(np.isfinite(outcome.finish))
    ran = ran[np.argsort(outcome.start[ran], kind="stable")][:LONGEST_GANTT]
    data: list[dict[str, Any]] = []
    for slot, (label, rows) in enumerate(
        (("in time", ran[outcome.outcome[ran] == 0]), ("too late", ran[outcome.outcome[ran] != 0])), start=1
    ):
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
            "categoryarray": [str(resources.ids[k]) for k in sorted(set(outcome.resource[ran].tolist()), reverse=True)],
        },
        "hovermode": "closest",
    }  # fmt: skip
    used = len(set(outcome.resource[ran].tolist()))
    alt = f"{name}: the first {len(ran)} started jobs on {used} resources, {len(data[1]['x'])} of them too late."
    return Figure(f"Gantt · {name}", data, layout, alt, f"The first {len(ran)} jobs to start.", 140 + 14 * used)


def _over_time(outcomes: Mapping[str, Outcome], resources: Resources) -> list[Block]:
    found = {name: load_and_unfinished(outcome, len(resources)) for name, outcome in outcomes.items()}
    shown = (
        ("load", "Busy resources", True),
        ("waiting", "Waiting jobs", False),
        ("unfinished", "Unfinished so far", False),
    )
    return [
        lines(f"{words} over time", {n: (f["time"], f[key]) for n, f in found.items()}, x="time", y=words, share=share)
        for key, words, share in shown
    ]


def _reasons(outcomes: Mapping[str, Outcome]) -> Table:
    rows = []
    for name, outcome in outcomes.items():
        counts = np.bincount(outcome.outcome, minlength=len(REASONS)).tolist()
        rows.append({"heuristic": name, "submitted": len(outcome.outcome), **{str(k): c for k, c in enumerate(counts)}})
    columns = [TableColumn("heuristic", "heuristic"), TableColumn("submitted", "submitted", "count")]
    columns += [TableColumn(str(k), words, "count") for k, words in enumerate(REASONS)]
    return Table("Assigned and unfinished, by reason; every row adds up to submitted", columns, rows)


def paper_tables(results: Rows) -> list[Table]:
    """What the terminal shows of the experiment: printed relations, figures 2 to 4, growth, our search."""
    said = [
        TableColumn("heuristic", "heuristic"), TableColumn("against", "against"), TableColumn("measure", "measure"),
        TableColumn("printed", "printed", "ratio"), TableColumn("ours", "ours", "ratio"),
        TableColumn("gap_points", "gap, points", "number"), TableColumn("same_sign", "same sign"),
        TableColumn("within_5_points", "within 5 points"),
    ]  # fmt: skip
    tables = [
        Table(
            "Printed relations beside ours (each the mean over the settings of the ratio)",
            said,
            _worded(relations(results)),
        )
    ]
    rows = by_rate(results)
    names = sorted(dict.fromkeys(row["heuristic"] for row in rows), key=lambda name: ":" in name)  # other readings last
    for key in ("mean_makespan", "mean_wait", "unfinished"):
        columns = [TableColumn("rate", "rate", "number")] + [
            TableColumn(n, n, "number" if key == "unfinished" else "ratio") for n in names
        ]
        table = [
            {"rate": rate, **{row["heuristic"]: row[key] for row in rows if row["rate"] == rate}}
            for rate in sorted({row["rate"] for row in rows})
        ]
        tables.append(Table(TITLES[key], columns, table))
    grown = [TableColumn("heuristic", "heuristic"), TableColumn("measure", "measure")]
    grown += [
        TableColumn(f"grows_with_{k}", f"grows with {w}")
        for k, w in (("rate", "rate"), ("data_share", "p"), ("large_share", "q"))
    ]
    tables.append(Table("Growth of the means with arrival rate, p and q", grown, _worded(growth(results))))
    search = [
        TableColumn("rate", "rate", "number"), TableColumn("unfinished_change", "UFJ against emin_min", "share"),
        TableColumn("mean_makespan_change", "AMJ against emin_min", "share"),
        TableColumn("decision_ms_per_job", "decided in, ms a job", "ratio"),
    ]  # fmt: skip
    tables.append(Table("deadline_search beside emin_min", search, against_emin_min(results)))
    return tables


def _worded(rows: Rows) -> list[dict[str, Any]]:
    """The same rows, True and False as yes and no."""
    return [{k: ("no", "yes")[v] if isinstance(v, bool) else v for k, v in row.items()} for row in rows]


def paper_page(results: Rows, swept: Sequence[Table], provenance: Mapping[str, Any]) -> str:
    """The page of `reproduce grid`: the three figures, the relations, and the sweeps if they were run."""
    rows = by_rate(results)
    # Second readings stay in the tables: the palette tells eight lines apart, and they lie on one another.
    names = [name for name in dict.fromkeys(row["heuristic"] for row in rows) if ":" not in name]
    figures: list[Block] = []
    for key, title in TITLES.items():
        series = {
            n: ([r["rate"] for r in rows if r["heuristic"] == n], [r[key] for r in rows if r["heuristic"] == n])
            for n in names
        }
        figures.append(lines(title, series, x="arrival rate, jobs a time unit", y=SHORT[key], markers=True))
    tables = paper_tables(results)
    why: list[Block] = [Callout(f"{name}: {words}.", "warning") for name, words in REASONS_WHY.items()]
    sections = [
        Section("Printed and ours", [tables[0], *why]),
        Section("Figures 2 to 4", figures),
        Section("Tables", tables[1:]),
    ]
    if swept:
        sections.append(Section("The sweeps", list(swept)))
    return page("Grid scheduling with deadlines: Hao et al. 2014", sections, provenance)


def sweep_tables(units: Rows, asjs: Rows) -> list[Table]:
    """Both sweeps, the closest set first."""
    columns = [TableColumn(k, k.replace("_", " ")) for k in ("compute_unit", "transfer_unit", "every", "remap", "late")]
    columns += [TableColumn(k, k.replace("_", " "), "share") for k in units[0] if k.endswith(("_amj", "_ufj"))]
    columns += [
        TableColumn("overload_at", "overload at", "number"),
        TableColumn("distance", "distance, points", "number"),
    ]
    own = [TableColumn("heuristic", "asjs")]
    own += [TableColumn(k.lower(), f"emin_min / asjs, {k}", "ratio") for k in ("AWT", "AMJ", "UFJ")]
    own += [
        TableColumn("wrong_signs", "wrong signs", "count"),
        TableColumn("distance", "largest gap, points", "number"),
    ]
    return [
        Table("Units, T, remapping and late jobs: printed relations to min_min under each", columns, _worded(units)),
        Table("asjs by its load unit; printed: AWT .9645, AMJ .9828, UFJ 1.0155", own, asjs),
    ]
