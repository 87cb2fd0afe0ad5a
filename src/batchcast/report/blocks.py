# SPDX-License-Identifier: Apache-2.0
"""What a page is made of: sections of paragraphs, callouts, tables and figures. Plain values, nothing rendered."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..units import format_memory, span

Kind = Literal["text", "difference", "count", "seconds", "memory", "share", "number", "ratio"]
Tone = Literal["good", "note", "warning"]


@dataclass(frozen=True, slots=True)
class Callout:
    """A sentence that must not be missed: `tone` is good, note or warning."""

    text: str
    tone: Tone = "note"
    label: str = ""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table: the key in its rows, the heading, how values print, and what the heading means.

    `text` names what a row is about or says what was seen there; a `difference` is words with figures in them;
    `memory` is MiB. One with `more` stays off a terminal unless all columns are asked for.
    """

    key: str
    title: str
    kind: Kind = "text"
    meaning: str = ""
    more: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of flat mappings under columns; `caption` heads it on the page and on the terminal.

    A `folded` one opens when its caption is pressed; it is not on the terminal, nor on paper.
    """

    caption: str
    columns: Sequence[TableColumn]
    rows: Sequence[Mapping[str, Any]]
    note: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Colouring:
    """One way to tell a trace's marks apart, picked by its `name` where a figure has several.

    `column`, of the trace or of the figure's `rows`, holds for each mark the place of its series; a series is a
    mapping of `name`, `slot` (its colour), `pattern` (its hatching) and perhaps `opacity`.
    """

    name: str
    column: str
    series: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as plain JSON values, with the words that stand for it where it cannot be seen.

    `data` and `layout` are written as in plotly's JSON, of which `assets/draw.js` draws this much. A trace: `scatter`
    with `mode` (lines, markers), `line.shape` hv, `line.dash`, `marker.symbol`, `error_x`, `error_y`; or `bar` lying
    down, with `base`, `width`, `text`, `marker.pattern`; `hovertemplate` with x, y, base and `customdata`, plain or as
    `%{y:.1%}`, `%{y:+.1%}` (points), `%{y:+}`, `%{x:span}` (of seconds). A layout:
    `xaxis` and `yaxis` (linear, log, date, category; `range`, `rangemode`, `tickvals`, `dtick`, `tickformat` .0%),
    `barmode`, `bargap`, `hovermode`, level `shapes`. Names are text, never markup. `heat` is a trace of its own, of
    cells: their `x` and `y` of both axes' `categoryarray`, `shade`, `text`; see `heat.heat`.

    A trace names its colour by `meta.slot`, an index into the page's palette, so that light and dark pages each have
    their own. With `pick`, the page draws one variant at a time, the traces whose `meta.variant` is the one picked from
    the list that `pick_label` names; `layouts` has by variant what differs from `layout`.
    `policy`, `meta.predictor` and `meta.points` (a policy per point) are what `Choices` hide. `table` holds the
    same values, folded behind it.

    What keeps many marks short: an axis with an `origin` (milliseconds) counts seconds from it, and so do the rows'
    `submit`; `x0` and `dx` stand for evenly spaced x; columns that traces share stand once in `rows`, and a trace's
    `row` says which of them. A `hovertemplate` finds them by name; %{x:ms} is a length, %{submit:since} the time from
    then to the bar's beginning.

    `colourings`, the first one drawn first, split each trace into series. `below` are strips under the figure on the
    same x axis (their `xaxis.range` is the figure's), with the same variants, zoomed with it and it with them; one
    with `overview` is drawn whole, and a range is chosen on it for the others. `fill` tozeroy fills a curve.
    """

    title: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    alt: str
    caption: str = ""
    height: int = 380
    policy: str = ""
    pick: tuple[str, ...] = ()
    pick_label: str = "Schedule"
    layouts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    table: Table | None = None
    rows: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    colourings: tuple[Colouring, ...] = ()
    below: tuple[Figure, ...] = ()
    overview: bool = False


@dataclass(frozen=True, slots=True)
class Choices:
    """Boxes that hide policies and predictors all over the page: what stands on each, by name."""

    policies: Mapping[str, str]
    predictors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Card:
    """One key figure: what it is, the figure, what stands beside it."""

    title: str
    value: str
    note: str = ""
    tone: Tone | None = None


@dataclass(frozen=True, slots=True)
class Cards:
    """Key figures side by side, the verdict first; the page shows them, sentences say the same on the terminal."""

    cards: Sequence[Card]


@dataclass(frozen=True, slots=True)
class Folded:
    """Tables, figures and paragraphs that open when their title is pressed; not on the terminal, nor on paper."""

    title: str
    blocks: Sequence[str | Callout | Table | Figure]


Block = str | Callout | Table | Figure | Choices | Cards | Folded


def folded(title: str, blocks: Sequence[Block]) -> list[Block]:
    """The blocks behind a title, where there are any."""
    inside = [block for block in blocks if isinstance(block, str | Callout | Table | Figure)]
    return [Folded(title, inside)] if inside else []


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it, in order; a `str` is a paragraph."""

    title: str
    blocks: Sequence[Block]
    details: bool = field(default=False)


def shown(value: Any, kind: Kind) -> str:
    """A value as people read it; an en dash where there is none.

    >>> shown(0.4774, "share"), shown(8733.2, "seconds"), shown(81934, "count"), shown(float("nan"), "number")
    ('47.7 %', '2 h 26 min', '81,934', '–')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return _SHOWN[kind](value)


def _number(value: Any) -> str:
    size = abs(float(value))
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"


_SHOWN: Mapping[str, Callable[[Any], str]] = {
    "text": str,
    "difference": str,
    "count": lambda value: f"{int(value):,}",
    "seconds": lambda value: span(float(value)),
    "memory": lambda value: format_memory(1024.0 * float(value)),
    "share": lambda value: f"{100 * value:.1f} %",
    "number": _number,
    "ratio": lambda value: f"{value:.3f}",
}
