"""Tests a study on a real Slurm through dask-jobqueue: with one of four workers killed, the results are identical."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from slurm_lab import Lab

from batchcast.sweep.dataset import OF_A_RUN, results
from batchcast.trace import demo_path

pytestmark = [pytest.mark.slurm, pytest.mark.lab, pytest.mark.slow, pytest.mark.usefixtures("lab_here")]  # two minutes
TASKS = 3 * 2 * 500
"""So many that they are not done before a killed worker is replaced, which is checked every two seconds."""
STUDY = """
seed = 3
replicates = 499
policies = ["easy", "easy-sjbf", "fcfs"]
predictors = ["requested", "recent_mean"]
[[log]]
path = "log.swf.gz"
[slurm]
interface = "lo"
memory = "900MB"
walltime = "00:10:00"
"""


def sweep(folder: Path, output: str, *more: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Run a sweep of the study in a folder, in a separate process."""
    command = [sys.executable, "-m", "batchcast", "sweep", "study.toml", "-o", output, *more]
    return subprocess.Popen(command, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_workers_on_slurm_give_what_this_machine_gives_though_one_is_killed(tmp_path: Path) -> None:
    shutil.copy(demo_path(), tmp_path / "log.swf.gz")
    (tmp_path / "study.toml").write_text(STUDY)
    with Lab(nodes=4, cpus=1) as lab:
        far = sweep(tmp_path, "far", "--pool", "slurm", "--workers", "4", env=lab.outside)
        kept = tmp_path / "far" / "results" / "log=log"

        def running() -> list[str]:
            return str(lab.run("squeue", "-h", "-t", "R", "-o", "%i")).split()

        lab.wait(lambda: len(running()) == 4, "four workers", 90)
        lab.wait(lambda: len(list(kept.glob("*.parquet"))) >= 1, "a result", 90)
        killed = running()[1]
        lab.run("scancel", "--signal=KILL", "--full", killed)
        lab.wait(lambda: killed not in running(), "the end of the killed worker", 30)
        assert len(list(kept.glob("*.parquet"))) < TASKS, "all was done before a worker could be killed"
        said = far.communicate(timeout=300)[1]
        assert far.returncode == 0, said
        states = lab.run("sacct", "-X", "-n", "-P", "-o", "JobID,State").splitlines()
        assert len(states) > 4, "the killed worker was not replaced"
        assert not running(), states
    near = sweep(tmp_path, "near", "--workers", "2")
    said = near.communicate(timeout=300)[1]
    assert near.returncode == 0, said
    ours, theirs = (results(tmp_path / name).drop(OF_A_RUN) for name in ("near", "far"))
    assert ours.height == TASKS
    assert ours.equals(theirs)
