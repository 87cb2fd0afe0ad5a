"""Tests the pages of the papers: they are short, have a diagram, and are linked from README and the first page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted(page for page in (ROOT / "docs/papers").glob("*.md") if page.name != "index.md")
MOST_WORDS = 700


def words(text: str) -> int:
    """Return the words that a reader sees: without diagrams, hidden comments and table bars."""
    seen = re.sub(r"<!--.*?-->|```.*?```", "", text, flags=re.DOTALL)
    return sum(re.search(r"\w", word) is not None for word in seen.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_at_most_700_words_and_a_diagram(page: Path) -> None:
    text = page.read_text()
    assert words(text) <= MOST_WORDS
    assert "```mermaid" in text


@pytest.mark.parametrize("place", ["README.md", "docs/index.md"])
def test_readme_and_first_page_link_every_paper(place: str) -> None:
    text = (ROOT / place).read_text()
    assert [page.name for page in PAGES if f"papers/{page.name})" not in text] == []
    assert len(PAGES) == 5
