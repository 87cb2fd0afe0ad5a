"""Tests that every test named in SECURITY.md and in this folder's README exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("tests/security/", "")
NAMED = re.compile(r"`((?:tests/|benchmarks/)?[\w/]+\.py)`(?:[:,]? \(((?:`test_\w+(?:\.\.\.)?`(?:, )?)+)\))?")


def named(text: str) -> list[tuple[str, list[str]]]:
    """Return the files in a page's tables, and the functions named in brackets after each file."""
    lines = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    return [(path, re.findall(r"`(test_\w+)(?:\.\.\.)?`", names)) for path, names in NAMED.findall(lines)]


def missing(text: str, root: Path = ROOT) -> list[str]:
    """Return the named files and functions that do not exist; a name that ends with ... is the beginning of a name."""
    absent = []
    for path, functions in named(text):
        file = next((root / place / path for place in PLACES if (root / place / path).is_file()), None)
        if file is None:
            absent.append(path)
            continue
        absent += [f"{path}: {one}" for one in functions if f"def {one}" not in file.read_text(encoding="utf-8")]
    return absent


@pytest.mark.parametrize(("page", "least"), [("SECURITY.md", 18), ("tests/security/README.md", 45)])
def test_each_named_test_exists(page: str, least: int) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(named(text)) >= least
    assert missing(text) == []


def test_each_row_of_the_threat_model_names_a_test() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    assert len(rows) >= 18
    assert [row for row in rows if not named("|" + row.rstrip("|").rpartition("|")[2])] == []


def test_a_name_that_does_not_exist_is_found() -> None:
    table = "| `test_routes.py` (`test_every_route_has_a_row`, `test_every_...`, `test_nothing`) |\n| `test_gone.py` |"
    assert missing(table) == ["test_routes.py: test_nothing", "test_gone.py"]
