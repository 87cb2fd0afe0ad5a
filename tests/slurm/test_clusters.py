"""Two real clusters, each with its own collector: no answer mixes them, and a job goes to one of them, once."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from follow import BATCHCAST, Follower
from slurm_lab import Lab

from batchcast.store.reader import Reader
from conftest import labs_on

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
QUICK = {"HISTORY_DAYS": "0.02", "SETTLE_S": "0", "PATIENCE_S": "1", "RUNTIME": "recent_mean", "LIMITS": "",
         "WAIT": "recent_wait:need=1", "MEMORY": "", "MACHINE": "none"}  # fmt: skip
"""Settings of a collector whose methods need no compiled code."""
SCRIPT = "#!/bin/sh\n#SBATCH --job-name=relax --ntasks=2 --time=10 --output=/dev/null --chdir=/tmp\nsleep 1\n"


@pytest.fixture(scope="module")
def labs() -> Iterator[dict[str, Lab]]:
    """Alpha and beta on real time."""
    for _ in labs_on("here", speed=1.0):
        with (
            Lab(nodes=1, cpus=2, conf={"ClusterName": "alpha"}) as alpha,
            Lab(nodes=1, cpus=2, conf={"ClusterName": "beta"}) as beta,
        ):
            yield {"alpha": alpha, "beta": beta}


def program(place: Path, labs: dict[str, Lab], *words: str) -> subprocess.CompletedProcess[str]:
    """A verb of somebody who has both clusters in the settings, and alpha's clients."""
    env = {**labs["alpha"].outside, "BATCHCAST_CONFIG": str(place / "batchcast.toml"), "XDG_STATE_HOME": str(place)}
    return subprocess.run([*BATCHCAST, *words], env=env, cwd=place, capture_output=True, text=True, timeout=300)


def test_a_job_goes_once_to_the_cluster_that_can_start_it(labs: dict[str, Lab], tmp_path: Path) -> None:
    followers, tables = {}, []
    for name, lab in labs.items():
        followers[name] = Follower(lab, str(tmp_path / f"{name}.db"), **QUICK)
        ids = [lab.submit("-n2", "-t10", seconds=1, user="root", name="relax") for _ in range(3)]
        lab.wait(
            lambda lab=lab, ids=ids: not lab.run("squeue", "-h", "-t", "PD,R,CG", "-j", ",".join(ids)), "three ends"
        )
        submit = f"env SLURM_CONF={lab.slurm_conf} sbatch"
        tables += ["[[cluster]]", f'name = "{name}"', f'store = "{tmp_path / name}.db"', f'submit = "{submit}"']
    (tmp_path / "batchcast.toml").write_text("\n".join(tables) + "\n")
    (tmp_path / "job.sh").write_text(SCRIPT)

    wrong = subprocess.run(
        [*BATCHCAST, "collect", "--once", "-M", "beta", "--store", str(tmp_path / "wrong.db")],
        env={**labs["alpha"].outside, "BATCHCAST_CONFIG": os.devnull}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert wrong.returncode == 2
    assert "beta was meant, but Slurm's clients here ask alpha" in wrong.stderr
    with Reader(str(tmp_path / "wrong.db")) as reader:
        assert reader.rows("SELECT * FROM jobs") == []

    for follower in followers.values():
        follower.run("collect", "--once", "--quiet")
    answer = json.loads(program(tmp_path, labs, "start", "--test", "job.sh", "--where", "--json").stdout)
    assert {row["cluster"] for row in answer["results"]} == {"alpha", "beta"}, answer["warnings"]
    best = answer["results"][0]["cluster"]
    other = "alpha" if best == "beta" else "beta"

    sent = [program(tmp_path, labs, "submit", "--key", "one", "--parsable", "job.sh") for _ in range(2)]
    assert [one.returncode for one in sent] == [0, 0], sent[0].stderr + sent[1].stderr
    assert sent[0].stdout == sent[1].stdout, "the same key is the same job"
    chosen = sent[0].stdout.strip().partition(";")[2]
    marked = [
        lab.run("squeue", "-h", "--states=all", "-o", "%A=%k").count("sent-by-batchcast") for lab in labs.values()
    ]
    assert sum(marked) == 1

    labs[best].stop("slurmctld")
    away = program(tmp_path, labs, "submit", "-M", best, "--parsable", "job.sh")
    assert away.returncode == 3
    assert f"{best} rejected the job" in away.stderr
    moved = program(tmp_path, labs, "submit", "--parsable", "job.sh")
    assert moved.stdout.strip().endswith(f";{other}"), moved.stderr
    labs[best].start_slurmctld()
    assert chosen in labs
