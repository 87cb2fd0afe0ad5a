"""Follows the guide for a new operator on a real Slurm in real time, including the common mistakes."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest
from conftest import absent
from follow import BATCHCAST, Follower, LabTransport, stored
from places import Place
from slurm_lab import CHOSEN, Lab

from batchcast.pbs import Pbs
from batchcast.slurm.client import Slurm

pytestmark = [pytest.mark.slurm, pytest.mark.lab, pytest.mark.usefixtures("lab_possible")]
HURTING = ["a|b", "quo\"te '", "new\nline", "Straße 😀", "-n", "x" * 400]


def started(lab: Lab, count: int) -> bool:
    """Return whether this many jobs have ended."""
    return lab.run("squeue", "-h", "-a", "-t", "CD", "-o", "%i").count("\n") >= count


def test_the_guide_from_nothing_to_an_answer() -> None:
    with Lab(nodes=2, cpus=2) as lab:
        follower = Follower(lab, str(lab.root / "store.db"), HISTORY_DAYS="0.02", WAIT="recent_wait:need=1")
        without_a_store(lab, follower)
        for name in HURTING:
            lab.submit("-n1", "-t", "10", seconds=0.5, name=name)
        lab.wait(lambda: started(lab, len(HURTING)), "ended jobs")
        asks_accounting_once(lab)
        follower.run("collect", "--once")
        assert sorted(str(j["job_name"]) for j in stored(follower.store)) == sorted([*HURTING, "first", "second"])
        lab.submit("-N2", "--exclusive", "-t", "60", seconds=600, name="blocker")
        waiting = lab.submit("-N2", "--exclusive", "-t", "60", seconds=1, name="mine")
        lab.wait(lambda: _told(follower, waiting), "forecast")
        assert waiting in follower.run("start", waiting)
        assert "#SBATCH --time=" in follower.run("walltime", "--name", "*", "-u", "daemon")
        assert "failed" not in follower.run("doctor")


def without_a_store(lab: Lab, follower: Follower) -> None:
    """Without a store, `start` makes one query to Slurm and says so; if Slurm has no estimate, there is no answer."""
    lab.submit("-N2", "--exclusive", "-t", "10", seconds=3, name="first")
    second = lab.submit("-N2", "--exclusive", "-t", "10", seconds=0.5, name="second")
    lab.wait(lambda: "N/A" not in lab.run("squeue", "-h", "-j", second, "-o", "%S"), "Slurm's estimate")
    done = subprocess.run(
        [*BATCHCAST, "start", second], env=follower.env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in (0, 3), done.stderr  # 3: the job began between the two queries
    assert "there is no store" in done.stderr


def asks_accounting_once(lab: Lab) -> None:
    """Without a collector, one query to sacct gives limits and use."""
    alone = Follower(lab, str(lab.root / "nowhere.db"))
    for words, said in (
        (("walltime", "--name", "*", "-u", "daemon"), "#SBATCH --time="),
        (("report", "-u", "daemon"), "LIMIT USED"),
    ):
        lab.wait(lambda w=words, s=said: s in alone.run(*w), f"answer to {words[0]} from accounting")


def test_qstat_says_the_same() -> None:
    """A smoke test of the PBS reader on the only qstat there is here: Slurm's own wrapper."""
    if Place(CHOSEN["root"]).find("qstat") is None:
        reason = "no qstat beside this Slurm (Debian package slurm-wlm-torque)"
        (absent if CHOSEN["root"] == Path("/") else pytest.skip)(reason)
    with Lab(nodes=2, cpus=2) as lab:
        for name in ("short", "blocker", "waits"):
            lab.submit("-N2", "--exclusive", "-t", "60", seconds=0.5 if name == "short" else 600, name=name)
        lab.wait(lambda: started(lab, 1), "an ended job")
        lab.wait(lambda: lab.run("squeue", "-h", "-t", "R", "-o", "%i").strip(), "a running job")
        compare_qstat(lab)


def compare_qstat(lab: Lab) -> None:
    transport = LabTransport(lab)
    transport.extra["TZ"] = "UTC"
    ours = {s.job_id: s for s in Slurm(transport).snapshot().jobs}
    theirs = {s.job_id: s for s in Pbs(transport, as_text=True).snapshot().jobs}
    assert set(theirs) == set(ours)
    assert len(ours) == 3
    for job_id, s in theirs.items():
        o = ours[job_id]
        assert (s.submit_time, s.state, s.requested["req_time"]) == (o.submit_time, o.state, o.requested["req_time"])
        assert s.start_time == o.start_time or math.isnan(s.start_time) == math.isnan(o.start_time)


def _told(follower: Follower, job_id: str) -> bool:
    follower.run("collect", "--once", "--quiet")
    return any(j["job_id"] == job_id and j["told"] for j in stored(follower.store))
