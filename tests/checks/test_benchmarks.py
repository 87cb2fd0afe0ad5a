"""Tests that each program in benchmarks/ starts on small input, and runs to its end or for some seconds of processor
time."""

from __future__ import annotations

import csv
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, SHARED

from batchcast.trace import demo_path

CPU_S = 3
"""Processor seconds after which the kernel stops a program. A program that is still running then counts as started."""
ENVIRONMENT = {"PYTHONUNBUFFERED": "1", "FOLDER_JOBS": "2000", "SWEEP_TASKS": "40"}
LOG = str(demo_path())
TIMED = [f"speed/{path.stem}.py" for path in sorted((ROOT / "benchmarks" / "speed").glob("[!_]*.py"))]
SMALL = {
    "clusters/simulated.py": [LOG, LOG, "--jobs", "60", "--follow", "1.0"],
    "looks.py": [LOG, "--places", "101:200"],
    "machines/growth_backtest.py": [LOG],
    "machines/made_caps.py": ["--logs", "1"],
    "memory_sizers.py": ["TASKS", "--rules", "ours,witt percentile"],
    "planning/limits_by_name.py": [LOG],
    "planning/order_gamed.py": ["--seeds", "1:2"],
    "planning/order_on_logs.py": [LOG, "--first", "300"],
    "planning/planned_unseen.py": [LOG, "--jobs", "300"],
    "policy/grid_box.py": ["search", "1", "64x4:c_lolo"],
    "policy/grid_units.py": ["--jobs", "40", "--runs", "1"],
    "policy/interval_coverage.py": ["--logs", "2"],
    "policy/published_windows.py": [LOG, "--disjoint", "1"],
    "policy/study.py": [LOG, "--replicates", "1"],
    "order_site.py": [LOG, "--rows", "limits"],
    "waits/bursts.py": [LOG, "--places", "101:300"],
    "waits/renewed.py": [LOG],
    "waits/wait_beside.py": [LOG],
}
"""Command-line arguments by program, below `benchmarks`."""
WITH_WORKERS = ("policy/grid_units.py", "speed/sweep.py")
"""Programs that share their work out to processes, whose parent hangs or fails when a limit stops one of them."""
SERVICE = {
    "service/collector_memory.py": ["500"],
    "service/flood.py": ["200", "1"],
    "service/load.py": ["200", "20", "1"],
    "service/memory.py": ["200"],
}
"""Programs that start a service. They end by themselves, with exit code 1 if this machine misses the benchmark's
target."""
ON_RECORDS = {
    "gpu_waits.py": "traces/modern",
    "graham.py": "traces/DRAC-Graham-2021-submitdays.csv.gz",
    "prove.py": "reference/slurm",
    "recorded_waits.py": "reference/slurm/fifo-1",
}
ON_SLURM = (
    "clusters/lab.py",
    "order_gain.py",
    "order_load.py",
    "planning_gain.py",
    "workflow_gain.py",
    "planning/order_payers.py",
    "planning/order_tried.py",
    "planning/planning_cost.py",
    "service/submit_cost.py",
)
"""Programs that need a real Slurm, or files that such a program wrote; tests/slurm/programs/test_benchmarks.py runs
them."""
NO_PROGRAMS = (
    "__init__.py",
    "__main__.py",
    "clusters/pool.py",
    "slurm_record.py",
    "speed/__init__.py",
    "waits/constant.py",
)


def command(program: str) -> list[str]:
    """Return the program's command as its module docstring shows it."""
    module = f"benchmarks.{program.removesuffix('.py').replace('/', '.')}"
    if program in TIMED:
        return ["-m", "benchmarks", Path(program).stem]
    if f"python -m {module}" in (ROOT / "benchmarks" / program).read_text():
        return ["-m", module]
    return [str(ROOT / "benchmarks" / program)]


def started(program: str, *words: str, is_whole: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the program and return its output: until its end if `is_whole` or if it has worker processes, else until it
    has used `CPU_S` of processor time."""

    def limit() -> None:
        if not is_whole and program not in WITH_WORKERS:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))

    return subprocess.run([sys.executable, *command(program), *words], cwd=ROOT, capture_output=True, text=True,
                          timeout=500, env={**os.environ, **ENVIRONMENT}, preexec_fn=limit)  # fmt: skip


def fault(done: subprocess.CompletedProcess[str]) -> str:
    """Return the program's own message if it did not start; an empty string if it did."""
    last = (done.stderr.strip().splitlines() or [""])[-1]
    if done.returncode == -signal.SIGXCPU or "SIGXCPU" in last:  # the program, or a program that it started
        return ""
    if done.returncode or "Traceback" in done.stderr:
        return done.stderr or f"ended with {done.returncode}"
    return "" if done.stdout.strip() else "printed nothing"


def write_tasks(path: Path) -> None:
    """A Nextflow trace file with two processes whose tasks use less memory than was requested for them."""
    names = ("process", "rchar", "peak_rss", "realtime", "memory", "submit", "complete", "status")
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(names)
        for k in range(120):
            held = 2**30 * (1 + k % 5)
            begun = 60_000 * k
            rows.writerow([f"p{k % 2}", held // 2, held, 50_000, 8 * 2**30, begun, begun + 55_000, "COMPLETED"])


def test_each_program_has_a_place_in_a_list() -> None:
    listed = [*TIMED, *SMALL, *SERVICE, *ON_RECORDS, *ON_SLURM, *NO_PROGRAMS]
    there = [str(path.relative_to(ROOT / "benchmarks")) for path in (ROOT / "benchmarks").rglob("*.py")]
    assert sorted(listed) == sorted(there)


@pytest.mark.long
@pytest.mark.parametrize("program", TIMED)
def test_a_timing_starts(program: str) -> None:
    assert not fault(started(program))


@pytest.mark.long
@pytest.mark.parametrize("program", SMALL)
def test_an_experiment_on_a_log_starts(program: str, tmp_path: Path) -> None:
    write_tasks(tmp_path / "tasks.csv")
    assert not fault(started(program, *(str(tmp_path / "tasks.csv") if w == "TASKS" else w for w in SMALL[program])))


@pytest.mark.long
@pytest.mark.parametrize("program", SERVICE)
def test_a_measurement_of_the_service_runs_to_its_end(program: str) -> None:
    done = started(program, *SERVICE[program], is_whole=True)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1)
    assert done.stdout.strip(), done.stderr


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.parametrize("program", ON_RECORDS)
def test_an_experiment_on_records_starts(program: str, shared: Path) -> None:
    if not (shared / ON_RECORDS[program]).exists():
        pytest.skip(f"no {ON_RECORDS[program]} in {SHARED.name}")
    assert not fault(started(program, str(shared / ON_RECORDS[program])))


def test_a_program_that_crashes_is_seen() -> None:
    crash = subprocess.run([sys.executable, "-c", "open('/none')"], capture_output=True, text=True)
    assert "FileNotFoundError" in fault(crash)
    silent = subprocess.run([sys.executable, "-c", ""], capture_output=True, text=True)
    assert fault(silent) == "printed nothing"
