"""The rules of the house that no import contract can express: what the core may not touch, what start-up may load."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.rooms import parsed

import batchcast

SOURCE = Path(batchcast.__file__).parent
PURE = ("cluster", "metrics", "formats", "schedule", "events", "predict", "simulation", "grid")
SHELL = ("client.py", "processes.py")  # what others copy to ask a service: a socket; and who starts processes
CORE = [p for room in PURE for p in sorted((SOURCE / room).rglob("*.py"))]
CORE += [p for p in sorted(SOURCE.glob("*.py")) if p.name not in SHELL]
IMPURE_MODULES = {
    "os",
    "subprocess",
    "socket",
    "time",
    "random",
    "pathlib",
    "tempfile",
    "shutil",
    "threading",
    "urllib",
}
IMPURE_CALLS = {"open", "print", "input", "exec", "eval"}
HEAVY = {
    "sklearn",
    "lightgbm",
    "scipy",
    "pyarrow",
    "sqlalchemy",
    "rapidfuzz",
    "jinja2",
    "rich",
    "polars",
    "distributed",
    "dask_jobqueue",
}


def imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("path", CORE, ids=lambda p: str(p.relative_to(SOURCE)))
def test_the_core_opens_prints_and_reads_nothing(path: Path) -> None:
    tree = parsed(path.read_text())
    assert not imports(tree) & IMPURE_MODULES
    calls = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    assert not calls & IMPURE_CALLS
    names = {ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    drawn = {
        n for n in names if n.startswith("np.random.") and n not in ("np.random.Generator", "np.random.default_rng")
    }
    assert not drawn, "randomness comes from a Generator passed in"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_one_room_decorates_all_compiled_code(path: Path) -> None:
    """Only so is every kernel cached, and none answered by a stale one or refused where nothing can be written."""
    if "numba" in imports(parsed(path.read_text())):
        assert path.relative_to(SOURCE).parts[0] == "compiled"


def test_each_file_names_its_licence() -> None:
    nameless = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if "vendored" not in path.parts
        and (text := path.read_text(encoding="utf-8")).strip()
        and not text.startswith("# SPDX-License-Identifier: Apache-2.0\n")
    ]
    assert not nameless


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_heavy_libraries_are_imported_where_they_are_used(path: Path) -> None:
    top = ast.Module([n for n in parsed(path.read_text()).body if not isinstance(n, ast.If)], [])
    direct = {n for n in top.body if isinstance(n, (ast.Import, ast.ImportFrom))}
    its_own = {"sqlalchemy"} if path.relative_to(SOURCE).parts[0] == "store" else set()
    assert not imports(ast.Module(list(direct), [])) & (HEAVY - its_own)


SQL = re.compile(r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s.+\sSET|DELETE\s+FROM|ALTER\s+TABLE|PRAGMA)\b", re.DOTALL)


@pytest.mark.parametrize(
    "path",
    [p for p in sorted(SOURCE.rglob("*.py")) if p.relative_to(SOURCE).parts[0] != "store"],
    ids=lambda p: str(p.relative_to(SOURCE)),
)
def test_sql_lives_in_the_store(path: Path) -> None:
    tree = parsed(path.read_text())
    imported = {n.name for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name for name in imported if name.split(".")[0] in ("sqlalchemy", "sqlite3", "psycopg")}
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    assert not [text for text in texts if SQL.search(text)]


def test_help_loads_no_numpy() -> None:
    code = (
        "import sys; sys.argv = ['batchcast', '--help']\n"
        "from batchcast.cli.main import entry\n"
        "try:\n    entry()\nexcept SystemExit:\n    pass\n"
        "sys.exit(','.join(m for m in ('numpy', 'numba', 'rich', 'jinja2') if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "simulate" in done.stdout


def test_nothing_imports_the_papers_but_the_verb_reproduce() -> None:
    importers = {
        path.relative_to(SOURCE)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(parsed(path.read_text()))
        if isinstance(node, ast.ImportFrom) and "papers" in (node.module or "").split(".")[:2]
    }
    verbs = {path for path in importers if path.match("cli/papers/reproduce*.py")}
    outside = {str(path) for path in importers - verbs if path.parts[0] != "papers"}
    assert importers
    assert not outside
