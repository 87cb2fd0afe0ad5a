"""Tests that the core knows nothing of the papers' distribution: it is joined by entry points only."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.rooms import ROOT, parsed

SOURCE = ROOT / "src" / "batchcast"
PACKAGE = ROOT / "packages" / "papers"
WORDS = {"exact", "search", "met", "trip", "forest", "boosted", "grid", "vasp"}
"""Names of methods and folders that are also plain words of the core's own."""


def names_of_papers() -> set[str]:
    """Return the names of the papers' methods, classes and folders, and of their package."""
    groups = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    methods = {name for group, points in groups.items() if group != "batchcast.commands" for name in points}
    places = [place for points in groups.values() for place in points.values()]
    classes = {place.partition(":")[2] for place in places if place.partition(":")[2][:1].isupper()}
    folders = {path.parent.name for path in (PACKAGE / "src" / "batchcast_papers").glob("*/__init__.py")}
    return (methods | classes | folders | {"batchcast_papers"}) - WORDS


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string that is not a docstring or a comment in the form of a string."""
    standing = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in standing:
            yield node.lineno, node.value


def named(source: Path, names: set[str]) -> list[str]:
    """Return file, line and text of each string that contains one of the names as a word, and of each such import."""
    found = []
    for path in sorted(source.rglob("*.py")):
        tree = parsed(path.read_text(encoding="utf-8"))
        imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
        lines = [(n.lineno, ast.unparse(n)) for n in imports if "batchcast_papers" in ast.unparse(n)]
        lines += [(line, text) for line, text in strings(tree) if names & set(re.findall(r"\w+", text))]
        found += [f"{path.relative_to(source)}:{line}: {text[:80]!r}" for line, text in lines]
    return found


def test_no_string_and_no_import_of_the_core_names_a_papers_method() -> None:
    """A default or a list that names a paper's method would fail where the papers are not installed."""
    assert named(SOURCE, names_of_papers()) == []


def test_a_name_of_a_paper_is_found_in_a_string_and_in_an_import(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text('"""Beside pqstar."""\nUSUAL = "recent_wait,pqstar"\n')
    (tmp_path / "two.py").write_text("def f():\n    from batchcast_papers.su import methods\n")
    assert [line.partition(": ")[0] for line in named(tmp_path, names_of_papers())] == ["one.py:2", "two.py:2"]
