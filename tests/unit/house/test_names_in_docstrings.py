"""Tests that a name in backticks in a docstring exists: a module, a definition of a module, or a name used in the
code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tools.rooms import ROOT, parsed

PACKAGE = ROOT / "src" / "batchcast"
PAPERS = ROOT / "packages" / "papers" / "src" / "batchcast_papers"
PROJECTS = (ROOT / "pyproject.toml", ROOT / "packages" / "papers" / "pyproject.toml")
REFERENCE = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)`")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
EXAMPLES = {
    *("C2H6", "CD", "Fe", "_pv", "grp_", "min_X", "swf_N", "wing_012", "wing_013"),
    *("Mine.predict", "NAME_speedup"),
    *("_in_time", "busy_kwh", "idle_kwh", "off_kwh", "over_180_min", "told_1h_80", "unfinished_runs"),
    *("difflib", "error_y", "np.convolve", "np.correlate", "np.linalg", "random_state"),
}
"""Names that stand for users' words, for composed names, and for definitions of other packages."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of every string that is a statement of its own: docstrings, and strings below a constant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def words(tree: ast.Module) -> set[str]:
    """Return every name that code defines or uses, and the words of its short strings (columns, options, keys)."""
    standing = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            found.add(node.name)
        elif isinstance(node, (ast.Name, ast.Attribute, ast.arg, ast.alias)):
            found |= {getattr(node, key) for key in ("id", "attr", "arg", "name") if hasattr(node, key)}
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in standing:
            found |= set(re.findall(r"\w+", node.value))
    return found


@cache
def modules() -> dict[str, set[str]]:
    """Return what each module contains, by its dotted path without `batchcast`; a package also contains its files."""
    held: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        held.setdefault(name, set()).update(words(parsed(path.read_text())))
        above, _, last = name.rpartition(".")
        held.setdefault(above, set()).add(last)
    return held


def is_there(reference: str, known: dict[str, set[str]], everything: set[str]) -> bool:
    """Return whether a name exists; a dotted name that begins with a module must continue inside that module."""
    parts = reference.removeprefix("batchcast.").split(".")
    for cut in range(len(parts), 0, -1):
        prefix = ".".join(parts[:cut])
        ends = [name for name in known if name == prefix or name.endswith(f".{prefix}")]
        if ends and (cut > 1 or len(parts) > 1):
            return any(set(parts[cut:]) <= known[name] for name in ends) or (cut == 1 and set(parts) <= everything)
    return set(parts) <= everything


def missing(package: Path, known: dict[str, set[str]]) -> list[str]:
    """Return file, line and name of each reference that leads nowhere."""
    entry_points = set(re.findall(r"\w+", "".join(path.read_text(encoding="utf-8") for path in PROJECTS)))
    everything = set().union(*known.values()) | entry_points
    used = [
        (path, line, reference)
        for path in sorted(package.rglob("*.py"))
        for line, text in docstrings(parsed(path.read_text()))
        for reference in REFERENCE.findall(text)
    ]
    names = {name for _, _, name in used} - EXAMPLES
    lost = {name for name in names if not is_there(name, known, everything)}
    return [f"{path.relative_to(package)}:{line}: `{name}`" for path, line, name in used if name in lost]


@pytest.mark.long
def test_names_in_docstrings_exist() -> None:
    lost = missing(PACKAGE, modules())
    assert not lost, "\n".join(lost)


@pytest.mark.parametrize(
    ("reference", "there"),
    [("gate", True), ("predict.gate", True), ("predict.gate.lacking", True), ("predict.moved", False),
     ("gate.no_such_function", False), ("no_such_name_anywhere", False)],
)  # fmt: skip
def test_a_name_that_leads_nowhere_is_found(reference: str, there: bool) -> None:
    known = {"": {"predict"}, "predict": {"gate"}, "predict.gate": {"lacking"}}
    assert is_there(reference, known, set().union(*known.values())) is there
