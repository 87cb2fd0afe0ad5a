# SPDX-License-Identifier: Apache-2.0
"""The building blocks of a page as plain values: sections of paragraphs, callouts, tables and figures. The module also
renders the page.

A page is one self-contained HTML file (`page`): a browser loads no other files for it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from ..units import format_memory, span

if TYPE_CHECKING:
    from ..metrics.measure import Measure

Kind = Literal["text", "difference", "count", "seconds", "memory", "share", "number", "ratio"]
Tone = Literal["good", "note", "warning"]
TableRows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Callout:
    """A highlighted sentence that every reader should see: its `tone` is good, note or warning.

    `position` is the sentence's position on a first screen; it is empty for other callouts.
    """

    text: str
    tone: Tone = "note"
    label: str = ""
    position: Literal["", "headline", "next"] = ""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table: the key in its rows, the heading, the format of values, and the meaning of the heading.

    Of the formats, `text` names or describes the subject of a row, `difference` is words with numbers, and `memory` is
    in MiB. A column whose `more` is true is shown on a terminal only if all columns are requested.
    """

    key: str
    title: str
    kind: Kind = "text"
    meaning: str = ""
    more: bool = False


def columns_of(*words: str, more: bool = False) -> list[TableColumn]:
    """Return columns of a table from texts `key|title|kind|meaning`; the default title is the key.

    >>> columns_of("log", "mae_s|MAE, s|number")[1].title
    'MAE, s'
    """
    parts: list[list[Any]] = [word.split("|", 3) for word in words]
    return [replace(TableColumn(*(part if part[1:] else 2 * part)), more=more) for part in parts]


def measure_columns(measures: Iterable[Measure]) -> list[TableColumn]:
    """Return a column for each measure, with the measure's heading in terminal tables."""
    return [TableColumn(m.name, m.heading or m.title, m.unit, m.meaning, m.table == "more") for m in measures]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of flat mappings as rows; `caption` is printed above the table, on the page and in the terminal.

    A `folded` table opens when its caption is pressed; a folded table is not shown in the terminal or in print.
    """

    caption: str
    columns: Sequence[TableColumn]
    rows: TableRows
    note: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Colouring:
    """One way to colour the marks of a trace, selected by its `name` if a figure has several colourings.

    `column` (of the trace or of the figure's `rows`) has, for each mark, the index of its series. A series is a mapping
    with `name`, `slot` (the colour), `pattern` (the hatching) and possibly `opacity`.
    """

    name: str
    column: str
    series: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure as plain JSON values, with an alternative text.

    `data` and `layout` have the form of plotly's JSON; `assets/draw.js` draws only the following properties. A trace:
    `scatter` with `mode` (lines, markers), `line.shape` hv, `line.dash`, `marker.symbol`, `error_x`, `error_y`; or
    `bar` (horizontal), with `base`, `width`, `text`, `marker.pattern`; `hovertemplate` with x, y, base and
    `customdata`, plain or as `%{y:.1%}`, `%{y:+.1%}` (points), `%{y:+}`, `%{x:span}` (of seconds). A layout: `xaxis`
    and `yaxis` (linear, log, date, category; `range`, `rangemode`, `tickvals`, `dtick`, `tickformat` .0%), `barmode`,
    `bargap`, `hovermode`, level `shapes`. Names in a figure are text, never markup. A trace of type `heat` consists of
    cells with `x` and `y` (categories of the axes), `shade` and `text`; see `heat.heat`.

    A trace names its colour by `meta.slot`, an index into the page's palette, so that light and dark pages each have
    their own. If `pick` is set, the reader picks one variant from the list labelled `pick_label`, and the page draws
    only the traces with this `meta.variant`. `layouts` has, for each variant, its differences from `layout`. `Choices`
    hide traces by `policy` and `meta.predictor`, and points by `meta.points` (a policy per point). `table` has the
    figure's values as a folded table below the figure.

    Long lists of marks are shortened: an axis with an `origin` (milliseconds) counts seconds from it, as do the rows'
    `submit`; `x0` and `dx` stand for evenly spaced x; columns that traces share are stored once in `rows`, and a
    trace's `row` has the indices. A `hovertemplate` refers to these columns by name; %{x:ms} is a duration,
    %{submit:since} the time from submission to the bar's beginning.

    `colourings` are the ways to split each trace into coloured series; the page first shows the first colouring.
    `below` are further figures under this figure, with the same x axis, variants and zoom. A figure whose `overview` is
    true always shows the whole range; on it, the reader selects the range of the other figures. A trace with `fill`
    tozeroy fills the area under its curve.
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
    """Checkboxes that hide policies and predictors everywhere on the page, by name."""

    policies: Mapping[str, str]
    predictors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Card:
    """One key figure: its title, its value, and a short explanation."""

    title: str
    value: str
    note: str = ""
    tone: Tone | None = None


@dataclass(frozen=True, slots=True)
class Cards:
    """Key figures side by side on the page, the verdict first; the terminal shows sentences instead."""

    cards: Sequence[Card]


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar, in seconds: `low_s` to `high_s` is the value's 90 % interval, NaN if there is no interval.

    `change_s` is the difference from the first bar, NaN for the first bar itself.
    """

    label: str
    method: str
    value_s: float
    change_s: float = math.nan
    low_s: float = math.nan
    high_s: float = math.nan

    @property
    def text(self) -> str:
        """The text beside the bar: the value, the change, and the interval."""
        sign = "+" if self.change_s > 0 else ""
        change = f" ({sign}{span(self.change_s)})" if self.change_s == self.change_s else ""
        interval = f"; 90 %: {span(self.low_s)} to {span(self.high_s)}" if self.low_s == self.low_s else ""
        return f"{span(self.value_s)}{change}{interval}"


@dataclass(frozen=True, slots=True)
class BarChart:
    """Horizontal bars with error bars, drawn only with HTML and CSS: labels wrap and are never cut. Page only."""

    title: str
    rows: Sequence[Bar]
    caption: str = ""

    def left(self, value: float) -> float:
        """Return the position of a value on the chart's axis, in percent."""
        ends = [x for bar in self.rows for x in (bar.value_s, bar.high_s) if x == x]
        return round(100 * max(0.0, value) / max([*ends, 1e-9]), 2)


@dataclass(frozen=True, slots=True)
class Folded:
    """Tables, figures and paragraphs that open when the reader clicks on their title; they are not shown in the
    terminal or in print."""

    title: str
    blocks: Sequence[str | Callout | Table | Figure]


Block = str | Callout | Table | Figure | Choices | Cards | BarChart | Folded


def folded(title: str, blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks folded behind a title; an empty list if there are no blocks."""
    inside = [block for block in blocks if isinstance(block, str | Callout | Table | Figure)]
    return [Folded(title, inside)] if inside else []


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its blocks, in order; a `str` is a paragraph."""

    title: str
    blocks: Sequence[Block]


def as_text(value: Any, kind: Kind) -> str:
    """Return a value as text in its column's format; an en dash for None.

    >>> as_text(0.4774, "share"), as_text(8733.2, "seconds"), as_text(8992.56, "count"), as_text(float("nan"), "number")
    ('47.7 %', '2 h 26 min', '8,993', '–')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    return _FORMATS[kind](value)


def _number(value: Any) -> str:
    size = abs(float(value))
    return f"{value:,.0f}" if size >= 1000 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "text": str,
    "difference": str,
    "count": lambda value: f"{value:,.0f}",
    "seconds": lambda value: span(float(value)),
    "memory": lambda value: format_memory(1024.0 * float(value)),
    "share": lambda value: f"{100 * value:.1f} %",
    "number": _number,
    "ratio": lambda value: f"{value:.3f}",
}


_AMOUNT = re.compile(r"\d+(?: (?:%|d|h|min|s)(?!\w)(?: (?=\d+ (?:h|min|s)\b))?(?:\d+)?)+")

_CODE = re.compile(r"`([^`]*)`")
_SCRIPTS = (
    *("scales.js", "marks.js", "columns.js", "legend.js", "readout.js", "touch.js", "heat.js"),
    *("brush.js", "together.js", "draw.js", "page.js"),
)


def page(title: str, sections: Sequence[Section], provenance: Mapping[str, Any]) -> str:
    """Return the page's HTML, self-contained, for light and dark schemes and for wide and narrow screens.

    Everything that comes from a log is escaped. `provenance` is printed at the end of the page: text, lists and
    mappings by name.

    >>> html = page("Waits <now>", [Section("In short", ["All <b>well</b>."])], {"log": "a.swf"})
    >>> "Waits &lt;now&gt;" in html, "All &lt;b&gt;well&lt;/b&gt;." in html
    (True, True)
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    figures = [figure for section in sections for figure in _figures(section.blocks)]
    env = Environment(loader=PackageLoader("batchcast.report", "assets"), autoescape=True, undefined=StrictUndefined,
                      trim_blocks=True, lstrip_blocks=True)  # fmt: skip
    env.filters.update(unbroken=unbroken, prose=prose)
    for kind in (Callout, Table, Cards, BarChart, Choices, Folded, Figure):
        env.tests[kind.__name__.lower()] = lambda value, kind=kind: isinstance(value, kind)
    return env.get_template("page.html.j2").render(
        title=title,
        sections=sections,
        provenance=provenance,
        as_text=as_text,
        number=lambda figure: next(k for k, other in enumerate(figures) if other is figure),
        style=_asset("page.css"),
        # one function around all files of the page's own script avoids global variables
        script='(() => {\n"use strict";\n' + "\n".join(map(_asset, _SCRIPTS)) + "})();",
        plots=f"/*\n{_vendored('uPlot.LICENSE')}*/\n{_vendored('uPlot.iife.min.js')}" if figures else "",
        plot_style=_vendored("uPlot.min.css") if figures else "",
        figures=script_json([_described(figure) for figure in figures]),
    )


def _figures(blocks: Sequence[Block]) -> list[Figure]:
    """Return all figures of a page in order, including figures in folded sections."""
    found = []
    for block in blocks:
        found += [block] if isinstance(block, Figure) else _figures(block.blocks) if isinstance(block, Folded) else []
    return found


def _described(figure: Figure) -> dict[str, Any]:
    """Return the values from which the page's script draws a figure."""
    described = {"data": figure.data, "layout": figure.layout, "layouts": figure.layouts, "policy": figure.policy}
    more = {"rows": figure.rows, "overview": figure.overview, "below": [_described(strip) for strip in figure.below],
            "colourings": [asdict(one) for one in figure.colourings]}  # fmt: skip
    return described | {key: value for key, value in more.items() if value}


def unbroken(text: str) -> str:
    """Return the text with no-break spaces between numbers and units, so that no line begins with a unit.

    >>> unbroken("9 % of 1 h 5 min")
    '9\\xa0% of 1\\xa0h\\xa05\\xa0min'
    """
    return _AMOUNT.sub(lambda match: match[0].replace(" ", "\u00a0"), text)


def prose(text: str) -> Any:
    """Return a sentence as markup: escaped, with no-break spaces before units, and text between backticks as code.

    >>> str(prose("run `batchcast info <log>`"))
    'run <code>batchcast info &lt;log&gt;</code>'
    """
    from markupsafe import Markup, escape

    return Markup(_CODE.sub(_code, str(escape(unbroken(text)))))


def _code(match: re.Match[str]) -> str:
    """Return text between backticks as code; an option such as `--dry-run` does not break at its hyphens."""
    words = (f"<span>{word}</span>" if "-" in word else word for word in match[1].split(" "))
    return f"<code>{' '.join(words)}</code>"


def script_json(value: Any) -> str:
    """Return JSON that is safe inside a script element: it has no `<` and no line separator.

    >>> script_json({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _asset(name: str, package: str = "batchcast.report", folder: str = "assets") -> str:
    """Return the text of a file that pages contain."""
    from importlib.resources import files

    return files(package).joinpath(folder, name).read_text(encoding="utf-8")


_vendored = partial(_asset, package="batchcast.vendored", folder="browser")
