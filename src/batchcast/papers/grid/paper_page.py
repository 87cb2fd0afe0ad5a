# SPDX-License-Identifier: Apache-2.0
"""The tables and the HTML page of `reproduce grid`: the paper's printed ratios, and the data of figures 2 to 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...document import plain
from ...report.blocks import Block, Callout, Section, Table, TableColumn, page
from ...report.figures import lines
from ..shared import columns_of
from .paper_study import REASONS_WHY, against_emin_min, by_rate, by_share, floors, growth, relations
from .study import SHORT, with_width

Rows = Sequence[Mapping[str, Any]]
AXES = {"rate": "rate", "data_share": "p", "large_share": "q"}
TITLES = {
    "mean_makespan": "Figure 2: mean makespan (AMJ)",
    "mean_wait": "Figure 3: mean wait (AWT)",
    "unfinished": "Figure 4: unfinished jobs (UFJ)",
}


def paper_tables(results: Rows) -> list[Table]:
    """Return the tables for the terminal: printed ratios, figures 2 to 4, growth of the measures, and a comparison with
    `deadline_search`."""
    sentences = columns_of(
        "heuristic", "against", "measure", "printed|printed|ratio", "ours|ours|ratio",
        "ours_ci95|±|ratio|half the 95 % interval over the runs, paired: runs share their draws",
        "stands|noise of the runs|text|outside: the interval of the ratio does not contain 1",
        "gap_points|gap, points|number", "same_sign|same sign", "within_5_points|within 5 points",
    )  # fmt: skip
    caption = "Printed relations beside ours (each the mean over the settings of the ratio)"
    tables = [Table(caption, sentences, _worded(relations(results)))]
    rows = by_rate(results)
    names = sorted(dict.fromkeys(row["heuristic"] for row in rows), key=lambda name: ":" in name)  # other readings last
    for key in TITLES:
        columns = [TableColumn("rate", "rate", "number"), *(TableColumn(name, name) for name in names)]
        table: dict[float, dict[str, Any]] = {}
        for row in rows:
            text = with_width(row, key, 1 if key == "unfinished" else 3).replace(" ", "\u00a0")
            table.setdefault(row["rate"], {"rate": row["rate"]})[row["heuristic"]] = text
        note = "± half width of the 95 % interval over the runs, at most."
        tables.append(Table(TITLES[key], columns, list(table.values()), note))
    tables.append(floor_table(results))
    grown = columns_of("heuristic", "measure", *(f"grows_with_{key}|grows with {x}" for key, x in AXES.items()))
    tables.append(Table("Growth of the means with arrival rate, p and q", grown, _worded(growth(results))))
    search = columns_of(
        "rate|rate|number", "unfinished_change_words|UFJ against emin_min",
        "mean_makespan_change_words|AMJ against emin_min", "decision_ms_per_job|decision, ms per job|ratio",
    )  # fmt: skip
    keys = ("unfinished_change", "mean_makespan_change")
    beside = [{**row, **{f"{key}_words": _share(row, key) for key in keys}} for row in against_emin_min(results)]
    tables.append(Table("deadline_search beside emin_min", search, beside, WIDTH))
    return tables


def floor_table(results: Rows) -> Table:
    """Return the table of unfinished jobs that no method could have finished."""
    columns = columns_of(
        "rate|rate|number", "floor|deadline too tight for an idle grid|number", "emin_min|emin_min unfinished|number",
        "floor_share|of them deadline too tight|share", "min_min|min_min unfinished|number",
        "against_min_min_words|emin_min against min_min",
        "above_floor_against_min_min|the same without too tight jobs|share",
    )  # fmt: skip
    note = (
        "Jobs whose deadline no resource could meet on an idle grid, under the units fitted to the paper. The paper "
        f"says that all heuristics are equal below rate 22; here they are not. {WIDTH}"
    )
    rows = [{**row, "against_min_min_words": _share(row, "against_min_min")} for row in floors(results)]
    return Table("Unfinished jobs that no heuristic could have finished", columns, rows, note)


WIDTH = "± half width of the 95 % interval over the runs, which all heuristics share."


def _share(row: Mapping[str, Any], key: str) -> str:
    """Return a change as text, with the half width of its interval over the runs if there are enough runs."""
    wide = row[f"{key}_ci95"]
    return f"{100 * row[key]:.1f}" + (f" ± {100 * wide:.1f} %" if wide == wide else " %")


SHARES_IN_WORDS = {"data_share": "p, share of data-intensive jobs", "large_share": "q, share of large jobs"}


def _figures(rows: Rows, names: Sequence[str], x: str, words: str, caption: str) -> list[Block]:
    """Draw Figures 2 to 4 against the column `x`, with the 95 % intervals over the runs as error bars."""
    figures: list[Block] = []
    rows_of = {name: [row for row in rows if row["heuristic"] == name] for name in names}
    for key, title in TITLES.items():
        series = {name: ([row[x] for row in rows_of[name]], [row[key] for row in rows_of[name]]) for name in names}
        drawn = lines(f"{title} by {words.partition(',')[0]}", series, x=words, y=SHORT[key], markers=True)
        widths = [plain([row[f"{key}_ci95"] for row in rows_of[name]]) for name in names]
        data = [
            {**trace, "error_y": {"type": "data", "array": wide, "visible": True}}
            for trace, wide in zip(drawn.data, widths)
        ]
        figures.append(replace(drawn, data=data, caption=f"{caption}; bars: 95 % interval over the runs, at most."))
    return figures


def _worded(rows: Rows) -> list[dict[str, Any]]:
    """Return the rows with the words yes and no in place of True and False."""
    return [{k: ("no", "yes")[v] if isinstance(v, bool) else v for k, v in row.items()} for row in rows]


def paper_page(results: Rows, provenance: Mapping[str, Any]) -> str:
    """Return the page of `reproduce grid`: the three figures and the relations."""
    rows = by_rate(results)
    # alternative readings of the paper are only in the tables: the palette has eight colours, and the lines overlap
    names = [name for name in dict.fromkeys(row["heuristic"] for row in rows) if ":" not in name]
    figures = _figures(rows, names, "rate", "arrival rate, jobs a time unit", "Means over nine mixes")
    by_mix: list[Block] = []
    for share, words in SHARES_IN_WORDS.items():
        by_mix += _figures(by_share(results, share), names, share, words, "Means over the rates and the other share")
    tables = paper_tables(results)
    why = [Callout(f"{name}: {words}.", "warning") for name, words in REASONS_WHY.items()]
    sections = [
        Section("Printed and ours", [tables[0], *why]),
        Section("Figures 2 to 4", figures),
        Section("Figures 2 to 4 by p and q", by_mix),
        Section("Tables", tables[1:]),
    ]
    return page("Grid scheduling with deadlines: Hao et al. 2014", sections, provenance)
