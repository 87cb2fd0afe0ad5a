"""Tests that links between the repository's pages lead to existing files and headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools import reference

ROOT = Path(__file__).parents[2]
PAGES = sorted(p for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")])
GENERATED = {ROOT / "docs" / "reference" / name for name in reference.PAGES}
LINK = re.compile(r"(?<!`)\[[^\]]*\]\(([^)\s]+)\)")


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub forms them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ +(.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    lost = []
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        other = (page.parent / name) if name else page
        if other.resolve() in GENERATED and not anchor:
            continue
        if not other.exists() or (anchor and other.suffix == ".md" and anchor not in headings(other)):
            lost.append(target)
    assert not lost, f"{page.relative_to(ROOT)}: {lost}"


def test_a_lost_link_is_seen() -> None:
    assert "no-such-heading" not in headings(ROOT / "README.md")
    assert LINK.findall("see [a](b.md#c) and `[x](y)`") == ["b.md#c"]
