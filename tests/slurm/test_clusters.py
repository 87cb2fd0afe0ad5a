"""Tests two real clusters, each with its own collector: no answer mixes them, and each job is submitted to one of them,
once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import labs_on
from follow import BATCHCAST, Follower
from guide import Shell, lines_of, settings_of
from slurm_lab import Lab

from batchcast.store.ledger import Ledger
from batchcast.store.reader import Reader

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
QUICK = {"HISTORY_DAYS": "0.02", "SETTLE_S": "0", "PATIENCE_S": "1", "RUNTIME": "recent_mean", "LIMITS": "",
         "WAIT": "recent_wait:need=1", "MEMORY": "", "MACHINE": "none"}  # fmt: skip
"""Settings of a collector whose methods need no compiled code."""
SCRIPT = "#!/bin/sh\n#SBATCH --job-name=relax --ntasks=2 --time=10 --output=/dev/null --chdir=/tmp\nsleep 1\n"


@pytest.fixture(scope="module")
def labs() -> Iterator[dict[str, Lab]]:
    """The clusters alpha and beta in real time."""
    for _ in labs_on("here", speed=1.0):
        with (
            Lab(nodes=1, cpus=2, conf={"ClusterName": "alpha"}) as alpha,
            Lab(nodes=1, cpus=2, conf={"ClusterName": "beta"}) as beta,
        ):
            yield {"alpha": alpha, "beta": beta}


def program(place: Path, labs: dict[str, Lab], *words: str) -> subprocess.CompletedProcess[str]:
    """Run a verb as a user who has both clusters in the settings, and alpha's clients."""
    env = {**labs["alpha"].outside, "BATCHCAST_CONFIG": str(place / "batchcast.toml"), "XDG_STATE_HOME": str(place)}
    return subprocess.run([*BATCHCAST, *words], env=env, cwd=place, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def sites(labs: dict[str, Lab], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Follower]]:
    """A folder with the settings of both clusters and a script; each cluster has a store with three ended jobs."""
    place = tmp_path_factory.mktemp("clusters")
    followers, tables = {}, []
    for name, lab in labs.items():
        followers[name] = Follower(lab, str(place / f"{name}.db"), **QUICK)
        ids = [lab.submit("-n2", "-t10", seconds=1, user="root", name="relax") for _ in range(3)]
        lab.wait(
            lambda lab=lab, ids=ids: not lab.run("squeue", "-h", "-t", "PD,R,CG", "-j", ",".join(ids)), "three ends"
        )
        submit = f"env SLURM_CONF={lab.slurm_conf} sbatch"
        tables += ["[[cluster]]", f'name = "{name}"', f'store = "{place / name}.db"', f'submit = "{submit}"']
    (place / "batchcast.toml").write_text("\n".join(tables) + "\n")
    (place / "job.sh").write_text(SCRIPT)
    for follower in followers.values():
        follower.run("collect", "--once", "--quiet")
    return place, followers


def test_a_job_goes_once_to_the_cluster_that_can_start_it(
    labs: dict[str, Lab], sites: tuple[Path, dict[str, Follower]]
) -> None:
    tmp_path, _ = sites
    wrong = subprocess.run(
        [*BATCHCAST, "collect", "--once", "-M", "beta", "--store", str(tmp_path / "wrong.db")],
        env={**labs["alpha"].outside, "BATCHCAST_CONFIG": os.devnull}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert wrong.returncode == 2
    assert "the settings name cluster beta, but Slurm's clients query alpha" in wrong.stderr
    with Reader(str(tmp_path / "wrong.db")) as reader:
        assert reader.rows("SELECT * FROM jobs") == []

    answer = json.loads(program(tmp_path, labs, "start", "--test", "job.sh", "--where", "--json").stdout)
    assert {row["cluster"] for row in answer["results"]} == {"alpha", "beta"}, answer["warnings"]
    best = answer["results"][0]["cluster"]
    other = "alpha" if best == "beta" else "beta"
    asks = 'from batchcast.client import Client; print(Client().best_cluster({"ntasks": 2, "time": 10}, "home"))'
    env = {
        **labs["alpha"].outside,
        "BATCHCAST_CONFIG": str(tmp_path / "batchcast.toml"),
        "XDG_STATE_HOME": str(tmp_path),
    }
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    told = subprocess.run([sys.executable, "-c", asks], env=env, capture_output=True, text=True, timeout=120)
    assert told.stdout.strip() in labs, told.stderr

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


def test_a_broker_that_is_killed_again_and_again_submits_every_job_once(
    labs: dict[str, Lab], sites: tuple[Path, dict[str, Follower]]
) -> None:
    """The broker is killed right after each job that it accepted, before or during the job's sbatch.

    With BATCHCAST_KILLS=50, a slurmctld is also stopped while every tenth job is submitted.
    """
    place, _ = sites
    spool, state = place / "spool", place / "broker"
    spool.mkdir()
    words = [*BATCHCAST, "grid", "serve", "--clusters", "--submit", "--state", str(state), "--spool", str(spool),
             "--heuristic", "min_min", "-o", str(place / "broker.html")]  # fmt: skip
    env = {**labs["alpha"].outside, "BATCHCAST_CONFIG": str(place / "batchcast.toml"), "XDG_STATE_HOME": str(place)}
    kills = int(os.environ.get("BATCHCAST_KILLS", "3"))
    journal, answers = state / "journal.jsonl", state / "assignments.jsonl"
    for k in range(kills):
        (spool / f"{k}.json").write_text(json.dumps({"id": f"j{k}", "script": str(place / "job.sh"), "allowed": 9000}))
        away = list(labs.values())[k // 10 % 2] if k % 10 == 9 else None
        if away is not None:
            away.stop("slurmctld")
        broker = subprocess.Popen(words, env=env, cwd=place, stderr=subprocess.DEVNULL)
        mark = ('"job"', '"offers"')[k % 2]  # killed when the job was accepted, or when its cluster was chosen
        labs["alpha"].wait(lambda mark=mark, k=k: lines_with(journal, mark, f'"j{k}"'), f"job {k} in the journal")
        broker.kill()
        broker.wait()
        if away is not None:
            away.start_slurmctld()
    broker = subprocess.Popen(words, env=env, cwd=place, stderr=subprocess.PIPE, text=True)
    assert broker.stderr is not None
    while "jobs known from" not in (said := broker.stderr.readline()):
        assert broker.poll() is None, said
    labs["alpha"].wait(lambda: lines_with(answers, '"id"') == kills, "all jobs submitted", seconds=300)
    broker.terminate()
    said = broker.communicate(timeout=60)[1]
    assert broker.returncode == 0, said
    told = [json.loads(line) for line in answers.read_text().splitlines()]
    assert sorted(line["id"] for line in told) == sorted(f"j{k}" for k in range(kills)), said
    queues = "".join(lab.run("squeue", "-h", "--states=all", "-o", "%A=%k;") for lab in labs.values())
    with Ledger(place / "batchcast" / "submissions.db") as ledger:
        tokens = [entry.token for entry in ledger.entries() if str(entry.key).startswith("grid:")]
    assert [queues.count(token) for token in tokens] == [1] * kills
    assert all(line["job_id"] and line["resource"] in labs and line["slack"] > 0 for line in told)
    page = (place / "broker.html").read_text()
    assert f"{kills} jobs: {kills} end in time, 0 do not, 0 wait" in page


def test_each_line_of_the_guide_is_followed_with_a_store_a_service_and_a_cluster_that_does_not_answer(
    labs: dict[str, Lab], sites: tuple[Path, dict[str, Follower]], tmp_path: Path
) -> None:
    place, followers = sites
    for follower in followers.values():
        follower.run("collect", "--once", "--quiet")
    listen, token = tmp_path / "beta.sock", tmp_path / "token"
    token.write_text(followers["beta"].run("site", "token", "create", "root"))
    here = {
        "/var/lib/batchcast/alpha.db": str(place / "alpha.db"), "https://beta.example.org": str(listen),
        "/home/ada/.beta-token": str(token), '{ main = "batch" }': '{ main = "main" }',
        '"sbatch -M alpha"': f'"env SLURM_CONF={labs["alpha"].slurm_conf} sbatch"',
        '"ssh beta sbatch"': f'"env SLURM_CONF={labs["beta"].slurm_conf} sbatch"',
    }  # fmt: skip
    settings = settings_of("several-clusters.md")
    for words, mine in here.items():
        assert words in settings, f"the guide has no {words} any more"
        settings = settings.replace(words, mine)
    (tmp_path / "batchcast.toml").write_text(settings)
    (tmp_path / "job.sh").write_text(SCRIPT)
    service = subprocess.Popen([*BATCHCAST, "serve", "--quiet", "--listen", str(listen)], env=followers["beta"].env)
    try:
        labs["beta"].wait(listen.exists, "the service of beta")
        shell = Shell(followers["alpha"], tmp_path, {})
        shell.env = {
            name: value for name, value in shell.env.items() if name == "BATCHCAST_CONFIG" or "BATCHCAST_" not in name
        }
        shell.env |= {"BATCHCAST_CONFIG": str(tmp_path / "batchcast.toml"), "XDG_STATE_HOME": str(tmp_path)}
        said = {line: shell.run(line, (0, 1)) for line in lines_of("several-clusters.md")}
    finally:
        service.terminate()
        service.wait(60)
    compared = said["batchcast start --test job.sh --where --input 20G@archive"]
    assert "34 min" in compared, compared  # copying 20 GiB to alpha at 10 MiB/s
    assert "3 min 25 s" in compared, compared
    assert "gamma: no answer" in compared
    assert "best: env SLURM_CONF=" in compared
    assert "Submitted batch job" in said["batchcast submit job.sh"]
    assert "gamma" in said["batchcast doctor"]
    assert "of batchcast submit" in said["batchcast accuracy"]


def lines_with(path: Path, *marks: str) -> int:
    """Return how many lines of a file contain all marks; 0 without the file."""
    return sum(all(mark in line for mark in marks) for line in path.read_text().splitlines()) if path.exists() else 0
