"""Tests that each paper's README names existing files and predictors, and every file of its folder."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "packages" / "papers"
PAPERS = PACKAGE / "src" / "batchcast_papers"
FOLDERS = sorted(path.parent for path in PAPERS.glob("*/__init__.py"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_readme_of_one_screen_says_where_everything_is(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 55
    named = set(re.findall(r"`([\w./]+\.py)`", text))
    places = {name: next((base / name for base in (folder, ROOT, ROOT / "src") if (base / name).is_file()), None)
              for name in named}  # fmt: skip
    assert [name for name, place in places.items() if place is None] == []
    here = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py") if path.name != "__init__.py"}
    assert here <= named
    for link in re.findall(r"\]\((\.\.[^)]+)\)", text):
        assert (folder / link).is_file(), link


def test_every_registered_method_of_a_paper_is_in_its_readme() -> None:
    groups = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    for group in ("batchcast.runtime_predictors", "batchcast.wait_predictors", "batchcast.heuristics"):
        for name, place in groups[group].items():
            folder = place.removeprefix("batchcast_papers.").partition(".")[0]
            if name != "sufferage_m99":  # a variant of sufferage
                assert f"`{name}`" in (PAPERS / folder / "README.md").read_text(encoding="utf-8"), name
