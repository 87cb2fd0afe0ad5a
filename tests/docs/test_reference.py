"""docs/reference is written by the program itself: a new method or option without its line there is a failure here."""

from __future__ import annotations

import pytest
from tools.reference import PAGES, PLACE, stale


@pytest.mark.parametrize("page", PAGES)
def test_the_page_says_what_the_program_says(page: str) -> None:
    assert page not in stale(), f"{PLACE.name}/{page}: make reference"


def test_a_changed_page_is_noticed(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.reference.PLACE", tmp_path)
    (tmp_path / "methods.md").write_text("# Methods by hand\n", encoding="utf-8")
    assert "methods.md" in stale()
