"""The synthetic sets of `reproduce vasp`: tables 2 to 5 and figures 6 to 9 at the scale of the paper's own sets."""

from __future__ import annotations

from ...report.blocks import Block, Table, TableColumn
from .page import PAPER_MRE, Rows, cut_figure, differences_tables, shown_name
from .ranges import range_tables, shares_table
from .study import CUTS

NUMBERS = {"first": (6, 7), "second": (8, 9)}
"""The paper's figures of each set, in the order of the cuts."""


def synthetic_tables(results: Rows, shares: Rows) -> list[Table]:
    """The sets at the paper's scale: figures 6 and 7 (first set), 8 and 9 (second), table 5, and tables 2 to 4."""
    tables = []
    for data, figures in (("first", "Figures 6 and 7, table 5"), ("second", "Figures 8 and 9")):
        rows = [dict(row) | {"name": shown_name(str(row["predictor"]))} for row in results if row["data"] == data]
        if not rows:
            continue
        for row in rows:
            row["paper"] = PAPER_MRE.get(str(row["predictor"])) if data == "first" else None
        columns = [
            TableColumn("name", "predictor"), TableColumn("apa", "apa", "ratio"),
            TableColumn("acc_under_60_min", "ACC 1 h", "ratio"), TableColumn("rec_under_60_min", "REC 1 h", "ratio"),
            TableColumn("acc_under_120_min", "ACC 2 h", "ratio"), TableColumn("rec_under_120_min", "REC 2 h", "ratio"),
            TableColumn("best_90_mre", "MRE", "ratio"), TableColumn("paper", "MRE printed", "ratio"),
        ]  # fmt: skip
        note = "Synthetic jobs (seeded): every branch of the methods runs, no printed figure is confirmed." + "".join(
            f" {row['name']}: {row['key_networks']:.0f} keys have a network of their own, it answered "
            f"{100 * row['by_key_network']:.1f} % of the test jobs."
            for row in rows
            if row["by_key_network"] == row["by_key_network"]
        )
        tables.append(Table(f"{figures}: synthetic VASP jobs, {data} set, split in time", columns, rows, note))
        tables += differences_tables(rows, f"synthetic VASP jobs, {data} set")
        if data == "first":
            tables += range_tables(rows, "synthetic first set")
    return [*tables, shares_table(shares)]


def synthetic_figures(results: Rows) -> list[Block]:
    """Figures 6 and 7 of the first set, 8 and 9 of the second: the cuts at one and two hours."""
    figures: list[Block] = []
    for data, numbers in NUMBERS.items():
        rows = [row for row in results if row["data"] == data]
        for cut, number in zip(CUTS, numbers if rows else ()):
            caption = (
                f"The paper's figure {number}, on synthetic jobs of the {data} set: no printed figure is confirmed."
            )
            figures.append(cut_figure(rows, cut, f"figure {number}, synthetic {data} set", caption))
    return figures
