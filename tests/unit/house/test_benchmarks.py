"""Benchmarks and tools run rarely: what they import from the project must be there when they do."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent.parent
OURS = ("batchcast", "benchmarks", "tests")
SCRIPTS = sorted([*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "tools").glob("*.py")])


def sources(path: Path) -> list[ast.AST]:
    """The file, and the imports of programs that stand in it as text for another process."""
    trees: list[ast.AST] = [ast.parse(path.read_text())]
    for node in ast.walk(trees[0]):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            lines = (line.strip() for line in node.value.splitlines())
            trees += [ast.parse(line) for line in lines if line.startswith("from batchcast")]
    return trees


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_all_that_is_imported_from_the_project_is_there(path: Path) -> None:
    for tree in sources(path):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
                module = importlib.import_module(str(node.module))
                for alias in node.names:
                    if not hasattr(module, alias.name):
                        importlib.import_module(f"{node.module}.{alias.name}")


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "speed").glob("[!_]*.py")), ids=lambda p: p.stem)
def test_each_benchmark_has_the_run_that_make_bench_calls(path: Path) -> None:
    module = importlib.import_module(f"benchmarks.speed.{path.stem}")
    assert module.__doc__
    assert callable(module.run)
