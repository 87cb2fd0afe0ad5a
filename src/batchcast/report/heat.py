"""Heat maps as plain values: cells of a few shades, whose limits the legend names, and the same values as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .blocks import Figure, Table, TableColumn

SEQUENTIAL, DIVERGING = "sequential", "diverging"
"""Five shades from little to much; seven with nothing in the middle."""
HIGH = 34
NARROW = 24


def heat(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    shade: np.ndarray,
    *,
    legend: Sequence[str],
    words: Callable[[int, int], str],
    short: Callable[[int, int], str],
    axes: tuple[str, str],
    alt: str,
    caption: str = "",
    scale: str = SEQUENTIAL,
    diagonal: bool = False,
    high: int = HIGH,
) -> Figure:
    """A heat map.

    Parameters
    ----------
    title, alt, caption
        As of every figure; `alt` says the main figures.
    rows, columns
        What stands beside each row, from the top, and below each column.
    shade
        The shade of each cell (rows, columns), whole numbers from 0; -1: the cell stays empty.
    legend
        What each shade of the `scale` means, in numbers.
    words, short
        What is read off a cell, by its row and column, and what is written into it where there is room.
    axes
        What rows and columns are.
    diagonal
        Whether the cells of row name = column name are framed.
    high
        Pixels that a row takes.
    """
    there = [(int(r), int(c)) for r, c in zip(*np.nonzero(shade >= 0))]
    down, across = axes
    trace = {
        "type": "heat",
        "name": "",
        "meta": {"slot": 0},
        "x": [columns[c] for _, c in there],
        "y": [rows[r] for r, _ in there],
        "shade": [int(shade[r, c]) for r, c in there],
        "text": [short(r, c) for r, c in there],
        "customdata": [words(r, c) for r, c in there],
        "hovertemplate": f"{down} %{{y}}, {across} %{{x}}: %{{customdata}}",
    }
    layout = {
        "xaxis": {"type": "category", "title": {"text": across}, "categoryarray": list(columns)},
        "yaxis": {"type": "category", "title": {"text": down}, "categoryarray": list(rows)},
        "scale": scale,
        "legend": list(legend),
        "diagonal": diagonal,
    }
    keys = [TableColumn("row", down), *(TableColumn(f"c{c}", name) for c, name in enumerate(columns))]
    cells = {(r, c): text for (r, c), text in zip(there, trace["customdata"])}
    table = Table(
        f"{title}, as a table",
        keys,
        [{"row": name, **{f"c{c}": cells.get((r, c)) for c in range(len(columns))}} for r, name in enumerate(rows)],
        folded=True,
    )
    return Figure(title, [trace], layout, alt, caption, 60 + high * len(rows), table=table)
