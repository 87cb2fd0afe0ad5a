"""The tables and callouts of a page, on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .blocks import Block, Callout, Figure, Table, shown

_TONES = {"good": "green", "note": "cyan", "warning": "bold yellow"}


def rich_table(table: Table) -> Any:
    """A rich table of the same rows and columns; text from logs is never read as markup."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    made = RichTable(
        title=Text(table.caption),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        caption=Text(table.note) if table.note else None,
        caption_justify="left",
    )
    for column in table.columns:
        text = column.kind == "text"
        made.add_column(Text(column.title), justify="left" if text else "right", overflow="fold", no_wrap=not text)
    for row in table.rows:
        made.add_row(*(Text(shown(row.get(column.key), column.kind)) for column in table.columns))
    return made


def show(console: Any, blocks: Iterable[Block]) -> None:
    """Print blocks in order; figures are for the page and left out."""
    from rich.text import Text

    for block in blocks:
        if isinstance(block, Table):
            console.print(rich_table(block))
        elif isinstance(block, Callout):
            label = f"{block.label} " if block.label else ""
            console.print(Text(label + block.text, style=_TONES[block.tone]), soft_wrap=False)
        elif not isinstance(block, Figure):
            console.print(Text(block), soft_wrap=False)
