"""The marks of a page: which figure is where, and whether it equals the file's.

A figure in running text is followed by a comment that readers do not see: `99.4<!--=lab-order-control:none.jobs-->`.
`|1` after the name shows a number with one decimal, a share in per cent. A table, or printed output, is between
`<!--=NAME#BLOCK-->` and `<!--end-->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from batchcast.units import span

from .files import ROOT, FigureError

MARK = re.compile(r"<!--=(?P<study>[\w-]+):(?P<value>[^|\s]+?)(?:\|(?P<digits>\d))?-->")
BLOCK = re.compile(r"<!--=(?P<study>[\w-]+)#(?P<block>[\w-]+)-->\n(?P<text>.*?)\n<!--end-->", re.DOTALL)
ANY = re.compile(r"<!--\s*=")
TABLE = re.compile(r"^\|.*\|$\n^\|[-:| ]+\|$\n(?P<rows>(?:^\|.*\|$\n?)*)", re.MULTILINE)
NUMBER = re.compile(r"[-+*~]*\.?\d")
MARKED = "\0"
FEW = 2
"""A table with at least this many cells that begin with a number is a table of figures."""


def pages(root: Path = ROOT) -> list[Path]:
    """Return the pages that may have figures."""
    return [root / "README.md", root / "SECURITY.md", *sorted((root / "docs").rglob("*.md"))]


def shown(name: str, value: Any, digits: str | None = None) -> list[str]:
    """Return the accepted spellings of a value; the first is the usual one.

    A name in `_s` is a time in seconds; a name in `_share` is a share, written in per cent with one decimal.
    """
    if isinstance(value, str):
        return [value]
    if name.endswith("_s"):
        return [span(value)]
    if name.endswith("_share"):
        number = f"{100 * value:.{digits or 1}f}"
        return [f"{number} %", number]
    if digits is not None:
        text = f"{value:,.{digits}f}"
    else:
        text = f"{value:,}"
    return [text, text.replace("0.", ".", 1)] if text.startswith(("0.", "-0.")) else [text]


def faults(page: Path, text: str, files: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each mark of a page whose figure differs from the file."""
    for mark in MARK.finditer(text):
        line = text.count("\n", 0, mark.start()) + 1
        where = f"{_name(page)}, line {line}"
        try:
            value = _value(files, mark["study"], "values", mark["value"])
        except FigureError as error:
            yield f"{where}: {error}"
            continue
        before = text[: mark.start()].rstrip("*_`")
        forms = shown(mark["value"], value, mark["digits"])
        # a figure may continue on the next line
        found = " ".join(before[-80:].split())
        if not any(found.endswith(form) and not re.search(r"[\d.,]$", found[: -len(form)]) for form in forms):
            said = f"{mark['study']}.json says {forms[0]!r} for {mark['value']}"
            yield f"{where}: the page says ...{found[-30:]!r}, {said}"
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        where = f"{_name(page)}, line {line}"
        try:
            lines = _value(files, block["study"], "blocks", block["block"])
        except FigureError as error:
            yield f"{where}: {error}"
            continue
        if block["text"].strip("\n") != "\n".join(lines):
            yield f"{where}: the lines are not those of {block['study']}.json, {block['block']}"
    marks = len(ANY.findall(text))
    if marks != len(MARK.findall(text)) + len(BLOCK.findall(text)):
        yield f"{_name(page)}: {marks} marks begin with <!--=, and not all can be read: see tools/figures/pages.py"


def unbound(page: Path, text: str) -> Iterator[str]:
    """Yield a sentence for each table of figures in README, evidence and papers without a file."""
    name = _name(page)
    if name != "README.md" and not name.startswith(("docs/evidence/", "docs/papers/")):
        return
    text = MARK.sub(MARKED, BLOCK.sub(lambda block: re.sub(r"\S", " ", block[0]), text))
    for table in TABLE.finditer(text):
        cells = [cell.strip() for row in table["rows"].splitlines() for cell in row.strip("|").split("|")]
        figures = sum(bool(NUMBER.match(cell)) and MARKED not in cell for cell in cells)
        if figures >= FEW:
            line = text.count("\n", 0, table.start()) + 1
            yield f"{name}, line {line}: no file of docs/figures feeds this table of figures (tools/figures/studies.py)"


def with_blocks(text: str, files: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page with the tables and printed lines of the files; figures in sentences are not changed."""

    def made(block: re.Match[str]) -> str:
        lines = files.get(block["study"], {}).get("blocks", {}).get(block["block"])
        if lines is None:
            return block[0]
        return f"<!--={block['study']}#{block['block']}-->\n\n" + "\n".join(lines) + "\n\n<!--end-->"

    return BLOCK.sub(made, text)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name


def _value(files: Mapping[str, Mapping[str, Any]], study: str, kind: str, name: str) -> Any:
    """Return a value or block of a file; FigureError if it is missing."""
    if study not in files:
        raise FigureError(f"no file docs/figures/{study}.json")
    if name not in files[study][kind]:
        raise FigureError(f"docs/figures/{study}.json has no {name} (it has {', '.join(files[study][kind])})")
    return files[study][kind][name]
