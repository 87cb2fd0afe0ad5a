"""The rules of the house that no import contract can express: what the core may not touch, what start-up may load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import batchcast

SOURCE = Path(batchcast.__file__).parent
PURE = ("cluster", "metrics", "formats", "schedule", "events", "predict", "simulate", "grid")
CORE = [p for room in PURE for p in sorted((SOURCE / room).rglob("*.py"))] + sorted(SOURCE.glob("*.py"))
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
NUMBA_ROOMS = {"schedule", "grid", "formats", "predict"}
HEAVY = {"sklearn", "lightgbm", "scipy", "pyarrow", "sqlalchemy", "rapidfuzz", "plotly", "jinja2", "rich"}


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
    tree = ast.parse(path.read_text())
    assert not imports(tree) & IMPURE_MODULES
    calls = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    assert not calls & IMPURE_CALLS
    names = {ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    drawn = {
        n for n in names if n.startswith("np.random.") and n not in ("np.random.Generator", "np.random.default_rng")
    }
    assert not drawn, "randomness comes from a Generator passed in"
    if "numba" in imports(tree):
        assert path.relative_to(SOURCE).parts[0] in NUMBA_ROOMS


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_heavy_libraries_are_imported_where_they_are_used(path: Path) -> None:
    top = ast.Module([n for n in ast.parse(path.read_text()).body if not isinstance(n, ast.If)], [])
    direct = {n for n in top.body if isinstance(n, (ast.Import, ast.ImportFrom))}
    its_own = {"sqlalchemy"} if path.relative_to(SOURCE).parts[0] in ("store", "service") else set()
    assert not imports(ast.Module(list(direct), [])) & (HEAVY - its_own)


def test_help_loads_no_numpy() -> None:
    code = (
        "import sys; sys.argv = ['batchcast', '--help']\n"
        "from batchcast.cli.main import entry\n"
        "try:\n    entry()\nexcept SystemExit:\n    pass\n"
        "sys.exit(','.join(m for m in ('numpy', 'numba', 'rich', 'jinja2', 'plotly') if m in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "simulate" in done.stdout
