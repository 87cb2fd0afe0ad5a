"""Tests that each benchmark that needs a real Slurm runs to its end on a few jobs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.slurm, pytest.mark.lab, pytest.mark.usefixtures("lab_here", "fast_lab_here")]
PROGRAMS = {
    "planning/planning_cost.py": ("20", "5"),
    "order_load.py": ("--jobs", "20", "--sbatch", "2"),
    "clusters/lab.py": ("--seeds", "1", "--jobs", "6", "--arms", "batchcast", "-o", "FOLDER/clusters.jsonl"),
}
LONG_PROGRAMS = {
    "planning_gain.py": ("--seeds", "1", "--jobs", "4", "-o", "gain.jsonl"),
    "service/submit_cost.py": ("2", "2"),
    "workflow_gain.py": ("--samples", "1", "--kills", "1"),
}
"""Benchmarks that take two minutes and more."""


def printed(folder: Path, program: str, *words: str) -> str:
    """Return the program's output; it must end by itself and without an error."""
    path = ROOT / "benchmarks" / program
    module = f"benchmarks.{program.removesuffix('.py').replace('/', '.')}"
    how = ["-m", module] if f"python -m {module}" in path.read_text() else [str(path)]
    done = subprocess.run([sys.executable, *how, *(w.replace("FOLDER", str(folder)) for w in words)],
                          cwd=ROOT if "-m" in how else folder, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_measurement_on_the_lab_runs(program: str, tmp_path: Path) -> None:
    assert printed(tmp_path, program, *PROGRAMS[program]).strip()


@pytest.mark.slow
@pytest.mark.parametrize("program", LONG_PROGRAMS)
def test_an_experiment_on_the_lab_runs(program: str, tmp_path: Path) -> None:
    if "workflow" in program:
        from snakemake_lab import missing

        if reason := missing():
            pytest.skip(reason)
    assert printed(tmp_path, program, *LONG_PROGRAMS[program]).strip()


@pytest.mark.slow
def test_what_the_order_brings_is_measured_and_read_by_the_programs_after_it(tmp_path: Path) -> None:
    runs, seed = ("FOLDER/runs.jsonl", "3")
    arms = ("--jobs", "4", "--load", "2", "--arms", "none,limits")
    assert "| limits |" in printed(tmp_path, "order_gain.py", "--seeds", seed, *arms, "-o", runs)
    seeds = ("--seeds", "11:11", "--load", "2")
    assert "by chance" in printed(tmp_path, "planning/order_payers.py", runs, *seeds, "--jobs", "40", "--arms", "order")
    assert printed(tmp_path, "planning/order_tried.py", runs, *seeds, "--rules", "band").strip()
