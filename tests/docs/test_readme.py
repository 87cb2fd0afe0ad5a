"""Tests that every command of README.md and of the start pages runs as typed, with generated input files."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "start").glob("*.md"))]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
BLOCKS = [line.split("  #")[0].strip() for line in TEXT.splitlines() if line.startswith("    batchcast ")]
COMMANDS = list(dict.fromkeys([*BLOCKS, *re.findall(r"`(batchcast [^`\n]+)`", TEXT)]))
LIVE = ("collect", "doctor", "plan", "serve", "start", "walltime", "report", "accuracy", "site", "machine")
FIRST = {
    "simulate years/": "convert LOG -o years/",
    "sweep report": "sweep examples/study.toml -o out/",
    "grid map": "grid draw -o times.etc",
    "compare": "evaluate LOG -o report/",
}
"""The commands that README.md runs before these."""
MACHINE = """
[[nodes]]
names = "n[1-16]"
cpus = 16
memory_mib = 64000

[[partition]]
name = "main"
nodes = "n[1-16]"
default = true
"""
POTCAR = (
    "  PAW_PBE Fe 06Sep2000\n   8.0\n   TITEL  = PAW_PBE Fe 06Sep2000\n   LULTRA =        F\n"
    "   POMASS =   55.8; ZVAL   =    8.000\n   ENMAX  =  267.882; ENMIN  =  200.911 eV\n 0.25E+02\n End of Dataset\n"
)
SITE = """
[columns]
job_id = "id"
submit_time = "submitted"
run_time = "ran"
req_procs = "cores"
"""


SHELL = [sys.executable, "-c", "from batchcast.cli.main import entry; entry()"]


def run(command: str) -> None:
    """Run the command in a new process, as a shell does."""
    done = subprocess.run([*SHELL, *shlex.split(command)], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, (command, done.stderr)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the content of a fresh clone, and the files that the commands name."""
    place = tmp_path_factory.mktemp("clone")
    for name in ("examples", "src"):
        (place / name).symlink_to(ROOT / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        run("synth --jobs 300 --procs-total 64 --load 1.1 --memory -o log.parquet")
    (place / "log.parquet").rename(place / "LOG")
    (place / "machine.toml").write_text(MACHINE)
    (place / "site.toml").write_text(SITE)
    rows = [f"{k},{1.7e9 + 60 * k:.0f},{30 + k},{1 + k % 4}" for k in range(50)]
    (place / "jobs.csv").write_text("\n".join(["id,submitted,ran,cores", *rows]))
    jobs = [
        f"{k}|u{k % 3}|COMPLETED|2026-01-0{1 + k // 30}T0{k % 10}:00:00|2026-01-0{1 + k // 30}T0{k % 10}:10:00"
        f"|2026-01-0{1 + k // 30}T0{k % 10}:40:00|01:00:00|4"
        for k in range(1, 90)
    ]
    (place / "jobs.txt").write_text("\n".join(["JobID|User|State|Submit|Start|End|Timelimit|NCPUS", *jobs]))
    run_of_vasp = place / "DIR"
    run_of_vasp.mkdir()
    (run_of_vasp / "INCAR").write_text("ENCUT = 300\n")
    (run_of_vasp / "POSCAR").write_text("iron\n1\n5 0 0\n0 5 0\n0 0 5\nFe\n1\nDirect\n0 0 0\n")
    (run_of_vasp / "POTCAR").write_text(POTCAR)
    (run_of_vasp / "KPOINTS").write_text("mesh\n0\nGamma\n2 2 2\n")
    return place


@cache
def _has_slurm() -> bool:
    return shutil.which("squeue") is not None and subprocess.run(["squeue"], capture_output=True).returncode == 0


def test_the_pages_have_commands_and_the_readme_is_short() -> None:
    assert len(COMMANDS) > 25
    assert len(PAGES[0].read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.long
@pytest.mark.parametrize("command", [command.removeprefix("batchcast ") for command in COMMANDS])
def test_it_runs_as_typed(command: str, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if command.startswith(("collect", "serve")):
        pytest.skip("runs until it is stopped")
    if ".csv.gz" in command:
        pytest.skip("on a log that is not in the repository")
    if command.startswith(LIVE) and not _has_slurm():
        pytest.skip("no Slurm answers on this machine, and its verbs ask one")
    monkeypatch.chdir(clone)
    for start, before in FIRST.items():
        made = shlex.split(before)[-1]
        if command.startswith(start) and not Path(made).exists():
            run(before)
    if command.startswith("compare"):
        shutil.copytree("report", "report-new", dirs_exist_ok=True)
    run(command)
