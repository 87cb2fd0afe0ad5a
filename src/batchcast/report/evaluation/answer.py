# SPDX-License-Identifier: Apache-2.0
"""The short answer of an evaluation in the terminal: the report's first screen in at most 24 lines.

`--details` prints every table instead.
"""

from __future__ import annotations

import math

from ...evaluation.evaluation import Evaluation
from ..blocks import Block, Callout, Table, TableColumn
from ..figures import signed
from .first_screen import Bar, FirstScreen, first_screen

BAR = 12
"""Characters of the longest bar."""


def answer(evaluation: Evaluation) -> list[Block]:
    """Return the blocks of the short answer.

    Parameters
    ----------
    evaluation
        What `batchcast.evaluate` returned.

    Returns
    -------
    list of Block
        Headline, bars, three key figures and one next step.
    """
    screen = first_screen(evaluation)
    tiles = [f"{tile.title}: {tile.value} {tile.note}." for tile in screen.tiles]
    return [
        Callout(screen.headline, screen.tone),
        *([_table(screen)] if screen.bars else []),
        *tiles,
        *([screen.example] if screen.example else []),
        *([screen.caution] if screen.caution else []),
        f"Next: {screen.next_step}",
    ]


def _table(screen: FirstScreen) -> Table:
    """Return the bars of the first screen, with their differences to the first bar."""
    longest = max(bar.value_s for bar in screen.bars)
    is_wait = screen.measure == "mean wait"
    first = screen.bars[0]
    rows = [
        {
            "label": bar.label, "value": bar.value_s, "bar": _bar(bar.value_s, longest),
            "change": _change(bar, first) if is_wait else "",
        }
        for bar in screen.bars
    ]  # fmt: skip
    columns = [TableColumn("label", "queue order" if is_wait else "predicted by"),
               TableColumn("value", screen.measure, "seconds"), TableColumn("bar", "")]  # fmt: skip
    columns += [TableColumn("change", "against today (90 % interval)")] if is_wait else []
    title = "Simulated mean wait" if is_wait else "Run-time predictions"
    return Table(f"{title} ({screen.based_on})" if screen.based_on else title, columns, rows)


def _change(bar: Bar, first: Bar) -> str:
    """Return the difference to the first bar, with its interval and whether that contains zero."""
    if math.isnan(bar.change_s):
        return ""
    if math.isnan(bar.low_s):
        return f"{signed(bar.change_s)} (too few jobs)"
    low, high = bar.low_s - first.value_s, bar.high_s - first.value_s
    return f"{signed(bar.change_s)} ({signed(low)} to {signed(high)})" + (" unclear" if low <= 0 <= high else "")


def _bar(value: float, longest: float) -> str:
    """Return a bar of block characters, as long as the value's share of the longest value."""
    return "█" * round(BAR * value / longest) or "▏" if longest > 0 else "▏"
