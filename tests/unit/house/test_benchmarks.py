"""Tests that everything that benchmarks and tools import from the project exists, because they run rarely."""

import ast
import importlib
from pathlib import Path

import numpy as np
import pytest
from benchmarks import graham

ROOT = Path(__file__).parent.parent.parent.parent
OURS = ("batchcast", "benchmarks", "tests")
SCRIPTS = sorted([*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "tools").glob("*.py")])


def sources(path: Path) -> list[ast.AST]:
    """Return the source of a file, and of the programs that the file contains as text for another process."""
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
    if "batchcast_papers" in path.read_text():
        pytest.importorskip("batchcast_papers")
    module = importlib.import_module(f"benchmarks.speed.{path.stem}")
    assert module.__doc__
    assert callable(module.run)


def test_what_comes_after_a_noon_moves_no_feature_of_the_graham_benchmark(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    noon = pandas.Timestamp("2021-05-01 12:00") + pandas.to_timedelta(np.arange(60) // 20, "D")
    submitted = noon - pandas.to_timedelta(random.integers(1, 9, 60), "h")
    late = np.arange(60) % 3 == 0
    numbers = ("account_id", "req_cpus", "time_limit_sec", "partition_id_y", "priority_y", "cluster_id")
    known = {name: random.integers(1, 4, 60) for name in numbers}
    known |= {"poll_time": noon, "submit_time": submitted, "req_tres": np.where(random.random(60) < 0.5, "node=1", "")}
    tables = []
    for hours in (1, 50):
        later = {name: random.integers(0, 9, 60) for name in graham.NOT_KNOWN_THEN}
        later |= {"eligible_time": submitted.where(~late, noon + pandas.to_timedelta(hours, "h"))}
        later |= {"start_time": noon + pandas.to_timedelta(hours + random.random(60), "h")}
        pandas.DataFrame(known | later).to_csv(tmp_path / "file.csv", index=False)
        tables.append(graham.read(str(tmp_path / "file.csv")))
    assert np.min(np.abs(tables[0]["left"] - tables[1]["left"])) > 3600
    np.testing.assert_array_equal(tables[0]["features"], tables[1]["features"])
