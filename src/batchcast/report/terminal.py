# SPDX-License-Identifier: Apache-2.0
"""Print the tables and callouts of a page in a terminal or a pipe; no column or figure is lost at any width."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from textwrap import wrap
from typing import Any

from .blocks import Block, Callout, Table, TableColumn, as_text

_TONES = {"good": "green", "note": "cyan", "warning": "bold yellow"}
WORDS = ("text", "difference")
FOLDED = 24
"""Longer text may wrap in a narrow terminal."""


def rich_table(
    table: Table, columns: Sequence[TableColumn] | None = None, *, broken: bool = False, first: bool = True,
    last: bool = True, folded: int = FOLDED, gap: int = 3,
) -> Any:  # fmt: skip
    """Return a rich table of some of the columns (default: all); text from logs is never interpreted as markup.

    If `broken` is true, titles are split over several lines, if possible no wider than the column's cells; `first` and
    `last` say whether the caption and the note are printed; text wider than `folded` may be wrapped. Two columns are
    separated by `gap` blanks.
    """
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(
        title=Text(table.caption) if first else None, title_justify="left", title_style="bold",
        show_header=any(column.title for column in table.columns), box=box.SIMPLE_HEAD, pad_edge=False,
        padding=(0, 1, 0, gap - 2), caption=Text(table.note) if last and table.note else None, caption_justify="left",
    )  # fmt: skip
    chosen = table.columns if columns is None else columns
    for column in chosen:
        widest = max((len(as_text(row.get(column.key), column.kind)) for row in table.rows), default=0)
        whole = column.kind not in WORDS or widest <= folded
        title = _broken(column.title, widest if whole else folded) if broken else column.title
        justify: Any = "left" if column.kind in WORDS else "right"
        # rich measures the longest word even for text that may not wrap: it would cut text with blanks
        least = max(widest, *map(len, title.split("\n"))) if whole else folded
        grid.add_column(Text(title), justify=justify, overflow="fold", no_wrap=whole, min_width=least)
    for row in table.rows:
        grid.add_row(*(Text(as_text(row.get(column.key), column.kind)) for column in chosen))
    return grid


def _broken(title: str, width: int) -> str:
    """Return a title on as few lines as fit the width of the column's cells; a number stays with its percent sign.

    >>> _broken("mean error against recent_mean", 15).split("\\n")
    ['mean error', 'against', 'recent_mean']
    """
    words = re.sub(r" (?=%)", "\u00a0", title).split(" ")
    lines = wrap(" ".join(words), max(width, *map(len, words)), break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\u00a0", " ")


def fitted(console: Any, table: Table, widest: float = math.inf) -> list[Any]:
    """Return the table in a form that fits the width: whole, with wrapped titles, or in blocks of columns that each
    repeat the first columns.

    Titles are split and columns are set closer together if this keeps the lines within `widest` characters.
    """
    for grid in (rich_table(table), rich_table(table, broken=True), rich_table(table, broken=True, gap=2)):
        if _fits(console, grid) and _measured(console, grid).maximum <= widest:
            return [grid]
    if _fits(console, grid):
        return [grid]
    for folded in (console.width // 2, FOLDED):  # names are not wrapped if they fit into half the width
        if blocks := _blocks(console, table, folded):
            block = partial(rich_table, table, broken=True, folded=folded)
            return [block(columns, first=columns is blocks[0], last=columns is blocks[-1]) for columns in blocks]
    return [_records(table)]


def _fits(console: Any, grid: Any) -> bool:
    """Whether the table fits without cutting any cell."""
    return bool(_measured(console, grid).minimum <= console.width)


def _measured(console: Any, grid: Any) -> Any:
    """Return the table without caption and note, because these may wrap and do not count for the width."""
    caption, title, grid.caption, grid.title = grid.caption, grid.title, None, None
    measured = console.measure(grid, options=console.options.update(width=9999))
    grid.caption, grid.title = caption, title
    return measured


def _blocks(console: Any, table: Table, folded: int) -> list[list[TableColumn]] | None:
    """Return groups of columns that fit, each after the columns that name a row; None if no column fits."""
    # the columns that name a row: text at the left; the first column if all columns are text
    count = next((place for place, column in enumerate(table.columns) if column.kind != "text"), 1)
    keys = table.columns[: max(count, 1)]
    groups: list[list[TableColumn]] = []
    for column in table.columns[len(keys) :]:
        if groups and _fits(console, rich_table(table, [*groups[-1], column], broken=True, folded=folded)):
            groups[-1].append(column)
            continue
        groups.append([*keys, column])
        if not _fits(console, rich_table(table, groups[-1], broken=True, folded=folded)):
            return None
    return groups or None


def _records(table: Table) -> Any:
    """Return one line per value, for a terminal that is too narrow for a row's name and one value."""
    from rich.text import Text

    lines = [table.caption]
    for row in table.rows:
        lines += ["", *(f"{c.title or c.key}: {as_text(row.get(c.key), c.kind)}" for c in table.columns)]
    return Text("\n".join([*lines, "", table.note] if table.note else lines), overflow="fold")


WIDEST = 100
"""Longest line in characters; a table is wider only if all its columns are asked for or its cells need more."""


def show(console: Any, blocks: Iterable[Block], every_column: bool = False, width: int | None = None) -> None:
    """Print blocks in order; figures, choices, cards, bar charts and folded blocks appear only on the page and are
    omitted.

    Columns marked `more` are omitted unless `every_column`; titles are split if this keeps a table within 100
    characters. Sentences are wrapped at `width` characters, else at the console's width.
    """
    from rich.text import Text

    for block in blocks:
        if isinstance(block, Table):
            table = block if every_column else replace(block, columns=[c for c in block.columns if not c.more])
            for grid in () if block.folded else fitted(console, table, math.inf if every_column else WIDEST):
                console.print(grid)
        elif isinstance(block, Callout):
            label = f"{block.label} " if block.label else ""
            console.print(Text(label + block.text, style=_TONES[block.tone]), soft_wrap=False, width=width)
        elif isinstance(block, str):
            console.print(Text(block), soft_wrap=False, width=width)
