"""Tests jobs that use a given amount of memory on a real Slurm with jobacct_gather/linux: what the collector
records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import labs_on
from follow import Follower, stored
from guide import Shell, lines_of
from slurm_lab import Lab
from snakemake_lab import CONF

from batchcast.machines.machine import homogeneous
from batchcast.trace.machine_files import toml_of

pytestmark = [pytest.mark.slurm, pytest.mark.lab]

HOLD = "/usr/bin/perl -e 'my $x = chr(97) x ($ARGV[0] << 20); select undef, undef, undef, $ARGV[1]'"
MIB = 1024.0
BESIDES = 24 * MIB
"""Memory of the interpreter, the shell and srun beside the job's own amount."""


@pytest.fixture(scope="module", params=["here", pytest.param("newer", marks=pytest.mark.slow)])
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Two nodes of 4000 MiB whose accounting measures every second, on this Slurm and on the newer one."""
    for _ in labs_on(request.param, speed=1.0):
        with Lab(nodes=2, cpus=4, conf=CONF) as running:
            yield running


def submit(lab: Lab, name: str, command: str, *options: str) -> None:
    """Submit a job of user `daemon` that runs the command."""
    plain = ("--parsable", "--uid=daemon", "--gid=daemon", "--chdir=/tmp", "-o", "/dev/null", "-t", "5")
    lab.run("sbatch", *plain, "-J", name, *options, "--wrap", command)


def test_the_store_knows_what_each_job_held_and_which_ran_out(lab: Lab) -> None:
    for size in range(100, 160, 10):
        submit(lab, "grows", f"{HOLD} {size} 3", "-n1", "--mem=1000M", "--comment", str(size))
    submit(lab, "both nodes", f"srun -n2 -N2 {HOLD} 60 3", "-n2", "-N2", "--mem=300M")
    submit(lab, "two tasks", f"srun -n2 -N1 {HOLD} 50 3", "-n2", "-N1", "--mem-per-cpu=200M")
    submit(lab, "killed", f"{HOLD} 200 60", "-n1", "--mem=100M")
    submit(lab, "step killed", f"srun {HOLD} 200 60", "-n1", "--mem=100M")
    submit(lab, "too short", "true", "-n1", "--mem=100M")
    lab.wait(lambda: not lab.run("squeue", "-h", "-t", "PD,R,CG", "-o", "%i").split(), "ended jobs", 120)
    lab.wait(lambda: accounted(lab), "the end of every job and step in accounting, which is told after the queue", 60)
    methods = {"RUNTIME": "recent_mean", "WAIT": "recent_wait:need=1"}
    follower = Follower(lab, str(lab.root / "memory.db"), HISTORY_DAYS="0.02", **methods)
    follower.run("collect", "--once", "--quiet")
    follower.run("collect", "--once", "--quiet")  # the queue still shows FAILED, but the state from accounting stays
    jobs = stored(follower.store)
    assert len(jobs) == 11  # steps multiply nobody
    said_of_each_job(jobs)
    said_to_users(follower)


def accounted(lab: Lab) -> bool:
    """Return whether accounting has the final state of the eleven jobs and their batch steps."""
    lines = [line.split("|") for line in lab.run("sacct", "-naP", "-o", "JobID,State,End").splitlines()]
    ended = [job for job, state, end in lines if state != "RUNNING" and end != "Unknown"]
    return len(ended) == len(lines) and sum(job.endswith(".batch") for job in ended) == 11


def said_of_each_job(jobs: list[dict[str, Any]]) -> None:
    named = {str(job["job_name"]): job for job in jobs if job["job_name"] != "grows"}
    grew = sorted(float(job["used_mem_kib"]) for job in jobs if job["job_name"] == "grows")
    for size, used in zip(range(100, 160, 10), grew):
        assert size * MIB <= used <= size * MIB + BESIDES
    for name, nodes, mib, asked in (("both nodes", 2, 60, 600), ("two tasks", 1, 100, 400)):
        job = named[name]
        assert (job["alloc_nodes"], job["req_mem_kib"]) == (nodes, asked * MIB)
        assert mib * MIB <= job["used_mem_kib"] / nodes <= mib * MIB + BESIDES
    for name in ("killed", "step killed"):
        assert (named[name]["status"], named[name]["state"]) == ("out_of_memory", "failed")
        assert named[name]["used_mem_kib"] > named[name]["req_mem_kib"] == 100 * MIB
    assert (named["too short"]["used_mem_kib"], named["too short"]["unmeasured"]) == (None, "zero")


def said_to_users(follower: Follower) -> None:
    """One command gives both numbers, and doctor says how they were measured."""
    limit, _, memory, why = follower.run("walltime", "--name", "grows", "-u", "daemon").splitlines()
    assert limit.startswith("#SBATCH --time=")
    assert memory == "#SBATCH --mem=200M"  # 150 MiB, the overhead and a tenth, rounded up to the step
    assert "kernel: 95% of similar jobs use 1" in why
    assert "Similar jobs alone suggest" in why
    (answer,) = json.loads(follower.run("walltime", "--name", "grows", "-u", "daemon", "--json"))["results"]
    assert answer["node_memory_kib"] == 4000 * MIB
    said = json.loads(follower.run("report", "--each", "-u", "daemon", "-S", "now-1hour", "--json"))["results"]
    assert said == json.loads(follower.run("report", "--each", "-p", "main", "-S", "now-1hour", "--json"))["results"]
    used = {row["job_name"]: row for row in said}
    assert 120 * MIB <= used["both nodes"]["memory_kib"] <= 2 * (60 * MIB + BESIDES)
    assert used["both nodes"]["memory_asked_kib"] == 600 * MIB
    assert 0 < used["grows"]["time_share"] < 0.1
    doctor = follower.run("doctor")
    assert doctor.count("jobacct_gather/linux: every 1 s") == 1
    assert "for 10 of 11 jobs that ran in the last 30 days; 1 ended before a sample; 2 ran out" in doctor


@pytest.mark.slow
def test_each_line_of_the_guide_of_memory_answers(lab: Lab, tmp_path: Path) -> None:
    for size in range(100, 160, 10):
        plain = ("-D", "/tmp", "-o", "/dev/null", "-t", "5", "-n1", "-J", "grows", "--mem=1000M")
        lab.run("sbatch", *plain, "--wrap", f"{HOLD} {size} 3")
    lab.wait(lambda: not lab.run("squeue", "-h", "-t", "PD,R,CG", "-o", "%i").split(), "ended jobs", 120)
    follower = Follower(lab, str(tmp_path / "guide.db"), HISTORY_DAYS="0.02", RUNTIME="recent_mean")
    shared = homogeneous(4, 16, 64 * 1024, SelectType="select/cons_tres", SelectTypeParameters="CR_Core_Memory")
    (tmp_path / "machine.toml").write_text(toml_of(shared))
    shell = Shell(follower, tmp_path, {"LOG": "mem.parquet"})
    lab.wait(lambda: shell.run("batchcast collect --once") and "--mem=" in _walltime(shell), "a measured peak", 120)
    said = [shell.run(line) for line in lines_of("memory.md")]
    wanted = ("mem.parquet", "90 %", "advice at the risk", "least_waste", "#SBATCH --mem=")
    assert [word in text for word, text in zip(wanted, said, strict=True)] == [True] * 5, said


def _walltime(shell: Shell) -> str:
    return shell.run("batchcast walltime --name grows", (0, 3))
