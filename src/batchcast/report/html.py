# SPDX-License-Identifier: Apache-2.0
"""One self-contained HTML page from sections: text, callouts, tables and figures. Nothing is fetched."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from .blocks import Block, Callout, Cards, Choices, Figure, Folded, Section, Table, shown

_AMOUNT = re.compile(r"\d+(?: (?:%|d|h|min|s)(?!\w)(?: (?=\d+ (?:h|min|s)\b))?(?:\d+)?)+")

_CODE = re.compile(r"`([^`]*)`")
_SCRIPTS = (
    *("scales.js", "marks.js", "columns.js", "legend.js", "readout.js", "touch.js", "heat.js"),
    *("brush.js", "together.js", "draw.js", "page.js"),
)


def page(title: str, sections: Sequence[Section], provenance: Mapping[str, Any]) -> str:
    """The page's HTML: uPlot is inlined once (51 kB), styles and script too; light and dark, wide and narrow.

    Everything that comes from a log is escaped. `provenance` prints last: text, lists and mappings by name.

    >>> html = page("Waits <now>", [Section("In short", ["All <b>well</b>."])], {"log": "a.swf"})
    >>> "Waits &lt;now&gt;" in html, "All &lt;b&gt;well&lt;/b&gt;." in html
    (True, True)
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    figures = [figure for section in sections for figure in _figures(section.blocks)]
    env = Environment(
        loader=PackageLoader("batchcast.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(unbroken=unbroken, prose=prose)
    kinds = {"callout": Callout, "cards": Cards, "choices": Choices, "figure": Figure, "folded": Folded, "table": Table}
    env.tests.update({name: _is(kind) for name, kind in kinds.items()})
    return env.get_template("page.html.j2").render(
        title=title,
        sections=sections,
        provenance=provenance,
        shown=shown,
        number=lambda figure: next(k for k, other in enumerate(figures) if other is figure),
        style=_asset("page.css"),
        script=_script(),
        plots=f"/*\n{_vendored('uPlot.LICENSE')}*/\n{_vendored('uPlot.iife.min.js')}" if figures else "",
        plot_style=_vendored("uPlot.min.css") if figures else "",
        figures=script_json([_described(figure) for figure in figures]),
    )


def _figures(blocks: Sequence[Block]) -> list[Figure]:
    """The figures in order, those that are folded away too."""
    found = []
    for block in blocks:
        found += [block] if isinstance(block, Figure) else _figures(block.blocks) if isinstance(block, Folded) else []
    return found


def _described(figure: Figure) -> dict[str, Any]:
    """What the page's script draws a figure from."""
    described = {"data": figure.data, "layout": figure.layout, "layouts": figure.layouts, "policy": figure.policy}
    more = {"rows": figure.rows, "overview": figure.overview, "below": [_described(strip) for strip in figure.below],
            "colourings": [asdict(one) for one in figure.colourings]}  # fmt: skip
    return described | {key: value for key, value in more.items() if value}


def unbroken(text: str) -> str:
    """The text with numbers held to their units, so that no line begins with a percent sign or a `min`.

    >>> unbroken("9 % of 1 h 5 min")
    '9\\xa0% of 1\\xa0h\\xa05\\xa0min'
    """
    return _AMOUNT.sub(lambda match: match[0].replace(" ", "\u00a0"), text)


def prose(text: str) -> Any:
    """A sentence as markup: escaped, numbers held to their units, what stands between backticks as code.

    >>> str(prose("run `batchcast info <log>`"))
    'run <code>batchcast info &lt;log&gt;</code>'
    """
    from markupsafe import Markup, escape

    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(unbroken(text)))))


def script_json(value: Any) -> str:
    """JSON that may stand inside a script element: no `<` can close it, no line separator can break it.

    >>> script_json({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _script() -> str:
    """The page's own script: one function around its files, so that nothing of it is global."""
    return '(() => {\n"use strict";\n' + "\n".join(_asset(name) for name in _SCRIPTS) + "})();"


def _vendored(name: str) -> str:
    return files("batchcast.vendored").joinpath("browser", name).read_text(encoding="utf-8")


def _asset(name: str) -> str:
    return files("batchcast.report").joinpath("assets", name).read_text(encoding="utf-8")


def _is(kind: type) -> Any:
    return lambda value: isinstance(value, kind)
