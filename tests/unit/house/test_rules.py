"""Tests rules that no import contract can express: what the core must not use, and what start-up must not import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeGuard

from tools.rooms import parsed

import batchcast

SOURCE = Path(batchcast.__file__).parent
PURE = ("machines", "metrics", "formats", "schedule", "events", "predict", "simulation")
SHELL = ("ceilings.py", "client.py", "processes.py")  # these modules open files, a socket, processes
FILES = sorted(SOURCE.rglob("*.py"))
CORE = [p for name in PURE for p in sorted((SOURCE / name).rglob("*.py"))]
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


def broken(files: Iterable[Path], rule: Callable[[Path, ast.Module], object]) -> dict[str, object]:
    """Return the violations of a rule by file. One test per rule is used, because one per file and rule costs more
    time."""
    found = {str(path.relative_to(SOURCE)): rule(path, parsed(path.read_text())) for path in files}
    return {name: wrong for name, wrong in found.items() if wrong}


def room(path: Path) -> str:
    """Return the folder of the package that contains a file, or the file."""
    return path.relative_to(SOURCE).parts[0]


def test_the_core_opens_prints_and_reads_nothing() -> None:
    def impure(_: Path, tree: ast.Module) -> set[str]:
        calls = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        names = {f"{n.value.value.id}.{n.value.attr}.{n.attr}" for n in ast.walk(tree) if is_dotted(n)}
        drawn = {name for name in names if name.startswith("np.random.")} - {
            "np.random.Generator",
            "np.random.default_rng",
        }  # random numbers come from a Generator that is passed in
        return imports(tree) & IMPURE_MODULES | calls & IMPURE_CALLS | drawn

    assert not broken(CORE, impure)


def is_dotted(node: ast.AST) -> TypeGuard[Any]:
    """Return whether the expression is a name, an attribute of it, or an attribute of that attribute."""
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and isinstance(node.value.value, ast.Name)
    )


def test_one_room_decorates_all_compiled_code() -> None:
    """Kernels must be decorated by `compiled`, so that each is cached, none is stale, and an unwritable folder is no
    error."""
    others = [path for path in FILES if room(path) != "compiled"]
    assert not broken(others, lambda _, tree: "numba" in imports(tree))


def test_no_text_in_a_function_is_a_statement_of_its_own() -> None:
    """Without parentheses around both, the second line of a text in a function is never used."""
    lost = []
    for path in FILES:
        for node in ast.walk(parsed(path.read_text(encoding="utf-8"))):
            blocks = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
            starts = 1 if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else 0
            if isinstance(node, ast.Module | ast.ClassDef):  # here a text describes the name above it
                continue
            for statement in (s for block in blocks if isinstance(block, list) for s in block[starts:]):
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant | ast.JoinedStr):
                    lost.append((path.name, statement.lineno, ast.unparse(statement)))
    assert [each for each in lost if each[2] != "..."] == []


def test_each_file_names_its_licence() -> None:
    nameless = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if "vendored" not in path.parts
        and (text := path.read_text(encoding="utf-8")).strip()
        and not text.startswith("# SPDX-License-Identifier: Apache-2.0\n")
    ]
    assert not nameless


def test_heavy_libraries_are_imported_where_they_are_used() -> None:
    def heavy(path: Path, tree: ast.Module) -> set[str]:
        direct = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
        its_own = {"sqlalchemy"} if room(path) == "store" else set()
        return imports(ast.Module(list(direct), [])) & (HEAVY - its_own)

    assert not broken(FILES, heavy)


SQL = re.compile(r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s.+\sSET|DELETE\s+FROM|ALTER\s+TABLE|PRAGMA)\b", re.DOTALL)


def test_sql_lives_in_the_store() -> None:
    def sql(_: Path, tree: ast.Module) -> list[str]:
        texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        return [*imports(tree) & {"sqlalchemy", "sqlite3", "psycopg"}, *(text for text in texts if SQL.search(text))]

    assert not broken([path for path in FILES if room(path) != "store"], sql)


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
