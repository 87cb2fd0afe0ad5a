"""The tables and callouts of a page, on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .blocks import Block, Callout, Choices, Figure, Table, shown

_TONES = {"good": "green", "note": "cyan", "warning": "bold yellow"}


def rich_table(table: Table, minor: int = 99) -> Any:
    """A rich table of the same rows and columns, minor ones up to a number; text from logs is never read as markup."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(
        title=Text(table.caption),
        title_justify="left",
        title_style="bold",
        show_header=any(column.title for column in table.columns),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        caption=Text(table.note) if table.note else None,
        caption_justify="left",
    )
    places = [place for place, column in enumerate(table.columns) if column.minor][minor:]
    columns = [column for place, column in enumerate(table.columns) if place not in places]
    for column in columns:
        text = column.kind == "text"
        whole = not text or _short(table, column.key)  # a cut value shows that it is cut; long names fold
        title = column.title if text else column.title.replace(" ", "\n")
        justify: Any = "left" if text else "right"
        made.add_column(Text(title), justify=justify, overflow="ellipsis" if whole else "fold", no_wrap=whole)
    for row in table.rows:
        made.add_row(*(Text(shown(row.get(column.key), column.kind)) for column in columns))
    return made


def fitted(console: Any, table: Table) -> Any:
    """The table with as many of its minor columns as the terminal has room for."""
    for minor in range(sum(column.minor for column in table.columns), 0, -1):
        made = rich_table(table, minor)
        if console.measure(made, options=console.options.update(width=999)).maximum <= console.width:
            return made
    return rich_table(table, 0)


def _short(table: Table, key: str) -> bool:
    """Whether a text column is better cut than folded."""
    return max((len(str(row.get(key))) for row in table.rows), default=0) <= 24


def show(console: Any, blocks: Iterable[Block]) -> None:
    """Print blocks in order; figures and choices are for the page and left out."""
    from rich.text import Text

    for block in blocks:
        if isinstance(block, Table):
            console.print(fitted(console, block))
        elif isinstance(block, Callout):
            label = f"{block.label} " if block.label else ""
            console.print(Text(label + block.text, style=_TONES[block.tone]), soft_wrap=False)
        elif not isinstance(block, (Figure, Choices)):
            console.print(Text(block), soft_wrap=False)
